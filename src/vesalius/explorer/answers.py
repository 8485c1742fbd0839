"""Answers of the rooms: JSON that is worked out once for a run, and numbers as bytes."""

from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from vesalius.explorer.runs import Run
from vesalius.explorer.telling import told

MOST = 2000
"""Answers about a run that are kept."""
ASK = {"cache-control": "private, no-cache"}
"""Another version of the package may answer differently."""


def once(run: Run, about: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What was worked out before, or is now; for what reads the trace and runs no model."""
    found = run.answers.get(about)
    if found is None:
        if len(run.answers) >= MOST:
            run.answers.clear()
        found = run.answers[about] = make()
    return found


def as_json(value: Any) -> JSONResponse:
    return JSONResponse(told(value), headers=ASK)


def as_bytes(
    request: Request, tag: str, make: Callable[[], tuple[bytes, dict[str, str]]]
) -> Response:
    """Bytes with headers that say what they are; nothing, where the browser has them already."""
    headers = {"etag": f'"{tag}"', **ASK}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    data, about = make()
    return Response(data, media_type="application/octet-stream", headers={**headers, **about})

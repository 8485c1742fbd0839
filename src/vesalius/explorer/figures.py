"""The figures that the page shows: those of a model, and those with the numbers of a run.

They are ``vesalius.figures``' own; a file to keep, SVG or PNG, has its title in the drawing too.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from vesalius.errors import WrongKind
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.runs import Runs
from vesalius.figures import Figure, figure
from vesalius.views.pictures import png

TYPES = {"svg": "image/svg+xml", "png": "image/png"}
ASK = {"cache-control": "private, no-cache"}


def routes(app: FastAPI, catalogue: Catalogue, runs: Runs) -> None:
    @app.get("/api/models/{key}/figure")
    def of_model(
        key: str,
        part: str = "model",
        length: int | None = None,
        theme: str = "light",
        file: str = "",
    ) -> Response:
        with catalogue[key].at_work() as model:
            titled = bool(file)  # the page has its title below
            return _answer(figure(model, part, length=length, theme=theme, titled=titled), file)

    @app.get("/api/runs/{key}/figure")
    def of_run(
        key: str,
        part: str = "model",
        position: int | None = None,
        theme: str = "light",
        file: str = "",
    ) -> Response:
        run = runs[key]
        with run.entry.at_work():
            asked: dict[str, Any] = {"position": position, "theme": theme, "titled": bool(file)}
            return _answer(figure(run.trace, part, **asked), file)


def _answer(found: Figure, file: str) -> Response:
    """What the page needs, or a file to keep."""
    if not file:
        return JSONResponse(found.to_json(), headers=ASK)
    if file not in TYPES:
        raise WrongKind(f"a figure is kept as {' or '.join(TYPES)}, got {file[:40]!r}")
    content = found.svg.encode() if file == "svg" else png(found.svg)
    headers = {**ASK, "content-disposition": "attachment"}  # the page's link names it
    return Response(content, media_type=TYPES[file], headers=headers)

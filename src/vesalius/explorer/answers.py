"""Answers of the rooms: JSON that is worked out once for a run, and numbers as bytes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from vesalius.equations.parameters import Array
from vesalius.errors import WrongLength
from vesalius.explorer import results
from vesalius.explorer.results import told
from vesalius.explorer.runs import Run, Runs

SMALL = 48
"""Rows and columns of a thumbnail."""
LONGEST = 1 << 24
"""Bytes of one answer with values; a larger step is asked for in parts."""
ASK = {"cache-control": "private, no-cache"}
"""Another version of the package may answer differently."""


def once(run: Run, about: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What was worked out before, or is now; for what reads the trace and runs no model."""
    found = run.answers.get((run.key, *about))
    if found is None:
        found = make()
        run.answers.put((run.key, *about), found)
    return found


def at_work(run: Run, about: tuple[Any, ...], make: Callable[[Run], Any]) -> Any:
    """What runs the model, told as JSON: one at a time for each model, and once."""
    with run.entry.at_work():
        return once(run, about, lambda: told(make(run)))


def meant(runs: Runs, key: str, word: int | None, position: int | None) -> int:
    """The word that is asked about: without cuts the likeliest, whatever they change."""
    if word is not None:
        return word
    run = runs[key]
    clean = runs.uncut(run) if run.edited else run
    return results.word_of(clean, results.target_of(clean, None, position))


def summary(runs: Runs, key: str, word: int | None, position: int | None) -> Any:
    """What the page shows of a run at once."""
    word = meant(runs, key, word, position)
    about = ("summary", word, position)
    return at_work(runs[key], about, lambda run: results.summary(run, word, position))


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


def as_values(request: Request, tag: str, value: Any, rows: str, columns: str) -> Response:
    """Numbers as little-endian float32, row by row; all of them, or the part that is asked for."""
    shape = value.shape
    if value.ndim != 2:
        value = value.reshape(shape[0], -1) if value.ndim else value.reshape(1, 1)
    first, last = _range(rows, value.shape[0])
    left, right = _range(columns, value.shape[1])
    tag = f'"{tag}/{first}:{last}/{left}:{right}"'.replace(" ", "")
    headers = {"etag": tag, **ASK}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    size = max(0, last - first) * max(0, right - left)
    if size * 4 > LONGEST:
        raise WrongLength(f"{size:,} numbers are too many at once; ask for some rows, as 0:256")
    part = value[first:last, left:right]
    headers |= {
        "x-dtype": "float32",
        "x-order": "row",
        "x-shape": ",".join(map(str, shape)),
        "x-rows": f"{first}:{last}",
        "x-columns": f"{left}:{right}",
    }
    data = np.ascontiguousarray(part, dtype="<f4").tobytes()
    return Response(data, media_type="application/octet-stream", headers=headers)


def as_thumbnail(request: Request, tag: str, value: Any) -> Response:
    """A step as a small picture: the largest of several values in each cell; what all are like.

    What a mask hides, minus infinity, is counted beside the statistics of the others.
    """

    def make() -> tuple[bytes, dict[str, str]]:
        flat = np.asarray(value, np.float32).reshape(len(value) if np.ndim(value) else 1, -1)
        finite = flat[np.isfinite(flat)].astype(np.float64)
        told = (finite.min(), finite.max(), finite.mean(), finite.std()) if finite.size else ()
        masked = np.isneginf(flat)
        small = _largest(_largest(np.where(np.isfinite(flat), flat, 0), 0), 1)
        seen = _largest(_largest((~masked).astype(np.float32), 0), 1)
        small = np.where(seen == 0, np.float32(-np.inf), small)
        about = {"x-shape": ",".join(map(str, np.shape(value)))}
        about["x-rows"], about["x-columns"] = (f"0:{size}" for size in small.shape)
        about["x-statistics"] = ",".join(f"{number:.9g}" for number in told)
        about |= {"x-masked": str(int(masked.sum())), "x-numbers": str(flat.size)}
        about["x-masked-where"] = _where(masked)
        return small.astype("<f4").tobytes(), about

    return as_bytes(request, f"{tag}/thumb", make)


def _where(masked: Array) -> str:
    """Which numbers a mask hides, in words."""
    if len(masked) == masked.shape[1] and np.array_equal(masked, np.triu(masked | True, 1)):
        return "above the diagonal"
    return "in whole columns" if (masked == masked[:1]).all() else ""


def _largest(values: Array, axis: int) -> Array:
    """At most SMALL rows or columns; each keeps the largest absolute value of its group."""
    n = values.shape[axis]
    starts = np.unique(np.arange(min(n, SMALL)) * n // min(n, SMALL)) if n else np.zeros(0, int)
    if not len(starts):
        return values
    high = np.maximum.reduceat(values, starts, axis)
    low = np.minimum.reduceat(values, starts, axis)
    return np.where(high >= -low, high, low)


def _range(text: str, n: int) -> tuple[int, int]:
    """``16:32`` as a part of n rows or columns; nothing means all."""
    if not text:
        return 0, n
    first, colon, last = text.partition(":")
    if not colon or not all(p.isdecimal() and len(p) < 10 for p in (first, last)):
        raise WrongLength(f"expected a range, as in 0:16, got {text[:40]!r}")
    return min(int(first), n), min(int(last), n)

"""What the page asks: runs, and answers below them that never change.

A run is posted and has a hash of its content for a name; all else is a GET below it.
Nothing is computed here but by the library.
"""

import logging
import mimetypes
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from vesalius import equations as eq
from vesalius.errors import VesaliusError, WrongKind, WrongLength
from vesalius.explorer import (
    agreement,
    comparing,
    figures,
    files,
    gates,
    heads,
    ledger,
    results,
    training,
    words,
)
from vesalius.explorer.answers import ASK, as_thumbnail, as_values, at_work, meant
from vesalius.explorer.answers import summary as summary_of
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.classes import classed
from vesalius.explorer.running import add_runs, add_sampling
from vesalius.explorer.runs import Run, Runs
from vesalius.explorer.streaming import Stopped
from vesalius.generation.sampling import Sampling
from vesalius.traces.graph import arrayed

_LOG = logging.getLogger("vesalius")
PAGE = Path(__file__).parent / "page"
FOREVER = "private, max-age=31536000, immutable"
"""For files of the page, whose names change with what they hold."""


PLACE = re.compile(r"[\w.@-]+(/(dissect|heads|words|ledger|runs)(/[^/]{1,200})?)?")
"""A place of the page: a model, a room and a step, which the page itself looks up."""
NOWHERE = """<!doctype html><title>Vesalius</title><meta name="color-scheme" content="light dark">
<p>There is nothing at this address: expected a model and one of its rooms, as in
<a href="/gpt/dissect">/gpt/dissect</a>, heads, words, ledger or runs.
<p><a href="/">Begin anew</a>"""


def application(
    catalogue: Catalogue, page: Path = PAGE, trainings: training.Trainings | None = None
) -> FastAPI:
    """The server's answers, without its guards."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    runs = Runs(catalogue)
    app.add_exception_handler(VesaliusError, _said)
    app.add_exception_handler(Stopped, _left)
    app.add_exception_handler(RequestValidationError, _misread)
    _models(app, catalogue)
    add_runs(app, catalogue, runs)
    add_sampling(app, runs)
    files.routes(app, runs)
    _runs(app, runs)
    figures.routes(app, catalogue, runs)
    heads.routes(app, runs)
    comparing.routes(app, runs)
    gates.routes(app, runs)
    agreement.routes(app, runs)
    ledger.routes(app, catalogue)
    words.routes(app, catalogue, runs)
    training.routes(app, trainings or training.Trainings(None))
    _page(app, page)
    return app


def _said(request: Request, error: Exception) -> Response:
    """The sentence of an exception; it is meant for whoever gave the input."""
    about = {"error": type(error).__name__, "message": str(error)}
    return JSONResponse(about, results.status_of(error))


def _left(request: Request, error: Exception) -> Response:
    """Nobody reads this; whoever looks for slow requests finds it in the log."""
    _LOG.info("nobody waits any more for %s %s", request.method, request.url.path)
    return Response(status_code=204)


def _misread(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"][1:])) or "the body"
    return JSONResponse({"error": "BadRequest", "message": f"{where}: {first['msg']}"}, 422)


def _models(app: FastAPI, catalogue: Catalogue) -> None:
    @app.get("/api/models")
    def models() -> Any:
        return [entry.to_json() for entry in catalogue.entries.values()]

    @app.get("/api/models/{key}")
    def model(key: str) -> Any:
        return JSONResponse(results.told(catalogue[key].described()))

    @app.get("/api/equations")
    def equations() -> Any:
        return {name: classed(entry) for name, entry in eq.REGISTRY.items()}


def _runs(app: FastAPI, runs: Runs) -> None:
    def answer(key: str, about: tuple[Any, ...], make: Callable[[Run], Any]) -> JSONResponse:
        return JSONResponse(at_work(runs[key], about, make), headers=ASK)

    @app.get("/api/runs/{key}")
    def summary(key: str, word: int | None = None, position: int | None = None) -> Any:
        return JSONResponse(summary_of(runs, key, word, position), headers=ASK)

    @app.get("/api/runs/{key}/cuts")
    def cuts(key: str, layer: int, word: int | None = None, position: int | None = None) -> Any:
        run, target, found = runs[key], meant(runs, key, word, position), []
        for name in results.cuttable(run, layer):
            run.entry.give_way()
            make = partial(results.effect, name=name, word=target, position=position)
            found.append(at_work(run, ("cut", name, target, position), make))
        return JSONResponse(found, headers=ASK)

    @app.get("/api/runs/{key}/sources/{name}")
    def sources(key: str, name: str, word: int | None = None, position: int | None = None) -> Any:
        word = meant(runs, key, word, position)
        about = ("sources", name, word, position)
        return answer(key, about, lambda run: results.sources(run, name, word, position))

    @app.get("/api/runs/{key}/vocabulary")
    def vocabulary(
        key: str,
        search: str = "",
        k: int = 12,
        position: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Any:
        said = temperature is not None or top_k is not None or top_p is not None
        how = Sampling(1.0 if temperature is None else temperature, top_k, top_p) if said else None
        k = max(0, min(k, 1000))
        run = runs[key]
        with run.entry.at_work():
            found = results.vocabulary(run, search[:200], k, position, how)
        return JSONResponse(results.told(found), headers=ASK)

    @app.get("/api/runs/{key}/lens")
    def lens(key: str, first: int = 0, last: int | None = None) -> Any:
        return answer(key, ("lens", first, last), lambda run: results.lens(run, first, last))

    @app.get("/api/runs/{key}/unfold/{name}/{at}")
    def unfold(key: str, name: str, at: str) -> Any:
        cell = _numbers(at)
        return answer(key, ("unfold", name, cell), lambda run: results.unfolded(run, name, cell))

    @app.get("/api/runs/{key}/steps/{name}")
    def step(request: Request, key: str, name: str, rows: str = "", columns: str = "") -> Any:
        run = runs[key]
        with run.entry.at_work():
            value = arrayed(run.trace.graph.step(name).value)
            return as_values(request, f"{key}/{name}", value, rows, columns)

    @app.get("/api/runs/{key}/steps/{name}/thumb")
    def thumb(request: Request, key: str, name: str) -> Any:
        run = runs[key]
        with run.entry.at_work():
            value = arrayed(run.trace.graph.step(name).value)
            if not isinstance(value, np.ndarray):  # columns that would all have to be computed
                raise WrongKind(f"{name} of a long text is shown in parts; it has no thumbnail")
            return as_thumbnail(request, f"{key}/{name}", value)


def _numbers(text: str) -> tuple[int, ...]:
    """``2,1`` as numbers."""
    parts = text.split(",") if text else []
    if len(parts) > 3 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise WrongLength(f"a cell is one or two whole numbers, as in 2,1; got {text[:40]!r}")
    return tuple(int(part) for part in parts)


def _page(app: FastAPI, page: Path) -> None:
    """The page's own files, read once: a path is looked up, never opened."""
    files = {f"/{f.relative_to(page).as_posix()}": f for f in page.rglob("*") if f.is_file()}
    held = {name: (file.read_bytes(), _type(name)) for name, file in files.items()}

    @app.get("/{path:path}")
    def file(path: str) -> Response:
        name = f"/{path}"
        if name in held and name != "/index.html":
            content, kind = held[name]
            return Response(content, media_type=kind, headers={"cache-control": FOREVER})
        if (path and not PLACE.fullmatch(path)) or "/index.html" not in held:
            return Response(NOWHERE, 404, media_type="text/html")
        content, kind = held["/index.html"]
        return Response(content, media_type=kind, headers={"cache-control": "no-store"})


def _type(name: str) -> str:
    known = {".js": "text/javascript", ".woff2": "font/woff2", ".svg": "image/svg+xml"}
    ending = name[name.rfind(".") :]
    return known.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"

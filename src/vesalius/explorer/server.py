"""What the page asks: runs, and answers below them that never change.

A run is posted and has a hash of its content for a name; all else is a GET below it.
Nothing is computed here but by the library.
"""

import mimetypes
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from vesalius import equations as eq
from vesalius.errors import (
    SequenceTooLong,
    UnknownModel,
    UnknownStep,
    VesaliusError,
    WrongKind,
    WrongLength,
)
from vesalius.examples import shelf
from vesalius.explorer import seeing, telling
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.classes import classed
from vesalius.explorer.figures import figure
from vesalius.explorer.reading import Asked
from vesalius.explorer.runs import Run, Runs, UnknownRun
from vesalius.explorer.uploads import UnknownUpload

PAGE = Path(__file__).parent / "page"
MISSING = (UnknownModel, UnknownRun, UnknownStep, UnknownUpload)
"""Errors about a thing that is not there."""
LONGEST = 1 << 24
"""Bytes of one answer with values; a larger step is asked for in parts."""
ANSWERS = 2000
"""Answers about a run that are kept."""
FOREVER = "private, max-age=31536000, immutable"
"""For files of the page, whose names change with what they hold."""
ASK = "private, no-cache"
"""For answers, which another version of the package may give differently."""


PLACE = re.compile(r"[\w.-]+(/dissect(/[^/]{1,200})?)?")
"""A place of the page: a model, a room and a step, which the page itself looks up."""


class Wanted(BaseModel):
    """A run: a model by its id, what it is to read, and the steps to cut."""

    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    text: StrictStr | None = None
    second: StrictStr | None = None
    ids: list[StrictInt] | None = None
    upload: StrictStr | None = None
    example: StrictInt | None = None
    index: StrictInt = 0
    invert: StrictBool = False
    masks: list[StrictInt] = Field(default=[], max_length=4096)
    given: StrictInt | None = None
    cuts: list[StrictStr] = Field(default=[], max_length=256)

    @property
    def asked(self) -> Asked:
        told = self.model_dump(exclude={"model", "cuts", "masks"})
        return Asked(**told, masks=tuple(self.masks))


def application(catalogue: Catalogue, page: Path = PAGE) -> FastAPI:
    """The server's answers, without its guards."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    runs = Runs(catalogue)
    app.add_exception_handler(VesaliusError, _said)
    app.add_exception_handler(RequestValidationError, _misread)
    _models(app, catalogue)
    _files(app, runs)
    _runs(app, runs)
    _page(app, page)
    return app


def _said(request: Request, error: Exception) -> Response:
    """The sentence of an exception; it is meant for whoever gave the input."""
    status = 404 if isinstance(error, MISSING) else 422
    about = {"error": type(error).__name__, "message": str(error)}
    return JSONResponse(about, status)


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
        return JSONResponse(telling.told(catalogue[key].described()))

    @app.get("/api/models/{key}/figure")
    def drawn(key: str) -> Any:
        with catalogue[key].at_work() as loaded:
            return figure(loaded)

    @app.get("/api/equations")
    def equations() -> Any:
        return {name: classed(entry) for name, entry in eq.REGISTRY.items()}


def _files(app: FastAPI, runs: Runs) -> None:
    """Pictures and series: those that a page brings, and examples of a model's corpus."""

    def added(model: str, name: str, data: bytes) -> dict[str, Any]:
        entry = runs.catalogue[model]
        with entry.at_work() as loaded:
            upload = runs.uploads.add(data, name)
            return {"upload": upload.key, "count": len(runs.uploads.read(loaded, upload.key))}

    @app.post("/api/uploads")
    async def upload(request: Request, model: str, name: str = "") -> Any:
        return await run_in_threadpool(added, model, name, await request.body())

    @app.get("/api/models/{key}/examples/{number}")
    def example(request: Request, key: str, number: int) -> Any:
        with runs.catalogue[key].at_work() as model:
            found = shelf(model)[number]
        if found.values.dtype == np.uint8:
            return Response(seeing.png(found.values), media_type="image/png")
        return _values(request, f"{key}/{number}", found.values, "", "")

    @app.get("/api/runs/{key}/picture")
    def picture(key: str) -> Any:
        data = seeing.read(runs[key])
        return Response(data, media_type="image/png", headers={"cache-control": ASK})

    @app.get("/api/runs/{key}/series")
    def series(request: Request, key: str) -> Any:
        run = runs[key]
        given = run.trace.graph.given
        if given is None or given.ndim != 2:
            raise WrongKind(f"this run of {run.trace.family} is of no series")
        return _values(request, f"{key}/series", given, "", "")

    @app.get("/api/runs/{key}/restored")
    def restored(key: str, seed: int = 0, temperature: float = 1.0) -> Any:
        data = seeing.restored(runs[key], seed, temperature)
        return Response(data, media_type="image/png", headers={"cache-control": ASK})


def _runs(app: FastAPI, runs: Runs) -> None:
    def known(run: Run, about: tuple[Any, ...], make: Callable[[Run], Any]) -> Any:
        """What is worked out once: heavy work is done one at a time for each model."""
        with run.entry.at_work():
            if about not in run.answers:
                if len(run.answers) >= ANSWERS:
                    run.answers.clear()
                run.answers[about] = telling.told(make(run))
            return run.answers[about]

    def answer(key: str, about: tuple[Any, ...], make: Callable[[Run], Any]) -> JSONResponse:
        return JSONResponse(known(runs[key], about, make), headers={"cache-control": ASK})

    def meant(key: str, word: int | None, position: int | None) -> int:
        """The word that is asked about: without cuts the likeliest, whatever they change."""
        if word is not None:
            return word
        run = runs[key]
        clean = runs.uncut(run) if run.cuts else run
        return telling.target_of(clean, None, position).cells[0][0][0]

    @app.post("/api/runs")
    def post(wanted: Wanted) -> Any:
        try:
            run = runs.make(wanted.model, wanted.asked, wanted.cuts)
        except SequenceTooLong as error:
            return JSONResponse(_too_long(runs, wanted, error), 422)
        return {"id": run.key, "clean": run.clean, "milliseconds": run.milliseconds}

    @app.get("/api/runs/{key}")
    def summary(key: str, word: int | None = None, position: int | None = None) -> Any:
        word = meant(key, word, position)
        about = ("summary", word, position)
        return answer(key, about, lambda run: telling.summary(run, word, position))

    @app.get("/api/runs/{key}/cuts")
    def cuts(key: str, layer: int, word: int | None = None, position: int | None = None) -> Any:
        run, word = runs[key], meant(key, word, position)
        found = []
        for name in telling.cuttable(run, layer):  # others may ask in between
            make = partial(telling.effect, name=name, word=word, position=position)
            found.append(known(run, ("cut", name, word, position), make))
        return JSONResponse(found, headers={"cache-control": ASK})

    @app.get("/api/runs/{key}/sources/{name}")
    def sources(key: str, name: str, word: int | None = None, position: int | None = None) -> Any:
        word = meant(key, word, position)
        about = ("sources", name, word, position)
        return answer(key, about, lambda run: telling.sources(run, name, word, position))

    @app.get("/api/runs/{key}/vocabulary")
    def vocabulary(key: str, search: str = "", k: int = 12, position: int | None = None) -> Any:
        k = max(0, min(k, 1000))
        found = telling.vocabulary(runs[key], search[:200], k, position)
        return JSONResponse(telling.told(found), headers={"cache-control": ASK})

    @app.get("/api/runs/{key}/lens")
    def lens(key: str) -> Any:
        return answer(key, ("lens",), telling.lens)

    @app.get("/api/runs/{key}/unfold/{name}/{at}")
    def unfold(key: str, name: str, at: str) -> Any:
        cell = _numbers(at)
        return answer(key, ("unfold", name, cell), lambda run: telling.unfolded(run, name, cell))

    @app.get("/api/runs/{key}/steps/{name}")
    def step(request: Request, key: str, name: str, rows: str = "", columns: str = "") -> Any:
        value = np.asarray(runs[key].trace.graph.step(name).value)
        return _values(request, f"{key}/{name}", value, rows, columns)


def _too_long(runs: Runs, wanted: Wanted, error: SequenceTooLong) -> dict[str, Any]:
    """The error, and the end of the text that would fit."""
    about: dict[str, Any] = {"error": "SequenceTooLong", "message": str(error)}
    with runs.catalogue[wanted.model].at_work() as model:
        limit = model.config.symbols().get("n_max")
        if limit and wanted.text is not None and model.tokenizer is not None:
            (bare,) = model.tokenizer.encode_many([wanted.text], framed=False)
            count = len(model.tokenizer.encode(wanted.text))
            about |= {"tokens": count, "limit": limit}
            if not wanted.second:
                kept = bare[-(limit - (count - len(bare))) :]  # special tokens need places too
                about["fitting"] = model.tokenizer.decode(kept)
    return about


def _numbers(text: str) -> tuple[int, ...]:
    """``2,1`` as numbers."""
    parts = text.split(",") if text else []
    if len(parts) > 3 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise WrongLength(f"a cell is one or two whole numbers, as in 2,1; got {text[:40]!r}")
    return tuple(int(part) for part in parts)


def _values(request: Request, tag: str, value: Any, rows: str, columns: str) -> Response:
    """Numbers as little-endian float32, row by row; all of them, or the part that is asked for."""
    shape = value.shape
    value = value.reshape(shape[0], -1) if value.ndim else value.reshape(1, 1)
    first, last = _range(rows, value.shape[0])
    left, right = _range(columns, value.shape[1])
    tag = f'"{tag}/{first}:{last}/{left}:{right}"'.replace(" ", "")
    headers = {"etag": tag, "cache-control": ASK}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    part = value[first:last, left:right]
    if part.size * 4 > LONGEST:
        raise WrongLength(
            f"{part.size:,} numbers are too many at once; ask for some rows, as 0:256"
        )
    headers |= {
        "x-dtype": "float32",
        "x-order": "row",
        "x-shape": ",".join(map(str, shape)),
        "x-rows": f"{first}:{last}",
        "x-columns": f"{left}:{right}",
    }
    data = np.ascontiguousarray(part, dtype="<f4").tobytes()
    return Response(data, media_type="application/octet-stream", headers=headers)


def _range(text: str, n: int) -> tuple[int, int]:
    """``16:32`` as a part of n rows or columns; nothing means all."""
    if not text:
        return 0, n
    first, colon, last = text.partition(":")
    if not colon or not all(p.isdecimal() and len(p) < 10 for p in (first, last)):
        raise WrongLength(f"expected a range, as in 0:16, got {text[:40]!r}")
    return min(int(first), n), min(int(last), n)


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
            return Response("there is nothing here", 404, media_type="text/plain")
        content, kind = held["/index.html"]
        return Response(content, media_type=kind, headers={"cache-control": "no-store"})


def _type(name: str) -> str:
    known = {".js": "text/javascript", ".woff2": "font/woff2", ".svg": "image/svg+xml"}
    ending = name[name.rfind(".") :]
    return known.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"

"""Runs while they are made and texts while they are continued, by layers and by tokens.

Both end when the page leaves or says so. Tokens are drawn by the library's sampler and engine.
"""

from contextlib import suppress
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from vesalius.capabilities import context_of, predicts_next
from vesalius.equations.parameters import Array
from vesalius.errors import SequenceTooLong, VesaliusError, WrongKind, WrongLength
from vesalius.explorer import results
from vesalius.explorer.answers import summary
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.reading import Asked, limit_of
from vesalius.explorer.runs import Run, Runs, Told, UnknownRun
from vesalius.explorer.streaming import Events, Stop, Tell
from vesalius.families import family_of
from vesalius.generation.decoding import generate
from vesalius.generation.sampling import Draw, Sampling
from vesalius.model import Model

EVENTS = "text/event-stream"
MOST = 1000
"""Tokens that a text is continued by at once."""


class Wanted(BaseModel):
    """A run: a model by its id, what it is to read, and the steps to cut.

    Whoever is told of every layer is told last of a word and a position, as the summary has them.
    """

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
    patches: list[StrictStr] = Field(default=[], max_length=256)
    source: StrictStr | None = None
    word: StrictInt | None = None
    position: StrictInt | None = None

    @property
    def asked(self) -> Asked:
        apart = {"model", "cuts", "masks", "patches", "source", "word", "position"}
        told = self.model_dump(exclude=apart)
        return Asked(**told, masks=tuple(self.masks))


class Continued(BaseModel):
    """How a text is continued: the sampler's settings, its seed, and how many tokens."""

    model_config = ConfigDict(extra="forbid")
    tokens: int = Field(default=20, ge=1, le=MOST)
    position: int | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = Field(default=0, ge=0)

    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p)


class Page(Told):
    """A page that is told of every layer, with the word that its state gives."""

    def __init__(self, tell: Tell, stop: Stop, under_way: dict[str, Stop]) -> None:
        self.tell, self.stop, self.under_way = tell, stop, under_way
        self.key = ""

    def begun(self, key: str, clean: str, model: Model, ids: list[int]) -> None:
        self.key, self.model, self.column = key, model, len(ids) - 1
        mask = None if model.tokenizer is None else model.tokenizer.special.get("[MASK]")
        if mask in ids:
            self.column = ids.index(mask)
        self.under_way[key] = self.stop
        sizes = {"tokens": len(ids), "layers": model.config.symbols()["L"]}
        self.tell("begun", {"id": key, "clean": clean, **sizes})

    def layered(self, layer: int, state: Array) -> None:
        word = results.glance(self.model, state, self.column)
        self.tell("layer", {"layer": layer, **word})


def add_runs(app: FastAPI, catalogue: Catalogue, runs: Runs) -> None:
    """Making runs, and giving them up."""
    under_way: dict[str, Stop] = {}

    @app.post("/api/runs")
    def post(request: Request, wanted: Wanted) -> Any:
        asked, more = wanted.asked, (wanted.patches, wanted.source)
        if EVENTS not in request.headers.get("accept", ""):
            try:
                return _made(runs.make(wanted.model, asked, wanted.cuts, None, *more))
            except SequenceTooLong as error:
                return JSONResponse(_failed(runs, wanted, error), 422)

        def work(tell: Tell, stop: Stop) -> None:
            page = Page(tell, stop, under_way)
            try:
                run = runs.make(wanted.model, asked, wanted.cuts, page, *more)
                if stop:  # which came too late to end it
                    runs.forget(run.key)
                else:
                    shown = summary(runs, run.key, wanted.word, wanted.position)
                    tell("run", _made(run) | {"summary": shown})
            finally:
                under_way.pop(page.key, None)

        return Events(work, lambda error: _failed(runs, wanted, error))

    @app.delete("/api/runs/{key}")
    def delete(key: str) -> Response:
        """Stop a run that is under way, or forget it."""
        if key in under_way:
            under_way[key].set()
            with suppress(UnknownRun):  # or it is made already, and only told of
                runs.forget(key)
        else:
            runs.forget(key)
        return Response(status_code=204)

    @app.get("/api/work")
    def work() -> Any:
        """How many wait for each model, the one that works with it among them."""
        return {key: e.waiting for key, e in catalogue.entries.items() if e.waiting}


def add_sampling(app: FastAPI, runs: Runs) -> None:
    """Drawing a token after a run's text, and continuing it."""

    @app.post("/api/runs/{key}/draw")
    def draw(key: str, how: Continued) -> Any:
        run = runs[key]
        _require_next(run)
        with run.entry.at_work() as model:
            logits = np.asarray(results.logits_of(run, _position(run, how)))
            chance = np.random.default_rng([how.seed, 0]).random()  # the first of ``generate``
            drawn = Draw(logits, how.sampling(), results.NOTHING, chance)
            told = _token(model, drawn)
            return {**told, "chance": chance, "before": _before(model, run, how)}

    @app.post("/api/runs/{key}/continue")
    def go_on(key: str, how: Continued) -> Any:
        run = runs[key]
        _require_next(run)
        if run.edited:
            raise WrongKind("a text is continued by the whole model; undo the cuts first, or draw")
        how.sampling()

        def work(tell: Tell, stop: Stop) -> None:
            with run.entry.at_work() as model:
                ids = run.trace.ids[: _last(run, how) + 1]
                tell("begun", {"before": _before(model, run, how)})
                found = generate(
                    model,
                    ids,
                    _room(model, len(ids), how.tokens),
                    temperature=how.temperature,
                    top_k=how.top_k,
                    top_p=how.top_p,
                    seed=how.seed,
                    on_draw=lambda _, drawn: tell("token", _token(model, drawn)),
                    on_text=lambda _, text: tell("text", text),
                )
                tell("done", {"ids": found.ids, "finish": found.finish})

        return Events(work, lambda error: {"error": type(error).__name__, "message": str(error)})


def _made(run: Run) -> dict[str, Any]:
    return {"id": run.key, "clean": run.clean, "milliseconds": run.milliseconds}


def _failed(runs: Runs, wanted: Wanted, error: VesaliusError) -> dict[str, Any]:
    """The error, and of a text that is too long the end that would fit."""
    about: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    about["status"] = results.status_of(error)
    if not isinstance(error, SequenceTooLong):
        return about
    with runs.catalogue[wanted.model].at_work() as model:
        limit = limit_of(model)
        if limit and wanted.text is not None and model.tokenizer is not None:
            (bare,) = model.tokenizer.encode_many([wanted.text], framed=False)
            count = len(model.tokenizer.encode(wanted.text))
            about |= {"tokens": count, "limit": limit}
            if not wanted.second:
                kept = bare[-(limit - (count - len(bare))) :]  # special tokens need places too
                about["fitting"] = model.tokenizer.decode(kept)
        elif limit and wanted.ids is not None and model.tokenizer is None:
            fitting = " ".join(map(str, wanted.ids[-limit:]))
            about |= {"tokens": len(wanted.ids), "limit": limit, "fitting": fitting}
    return about


def _require_next(run: Run) -> None:
    model = run.trace.model
    if model is None or not predicts_next(model):
        raise WrongKind(f"{run.trace.family} fills masks; it has no next token to draw")
    if run.trace.tells_labels:
        raise WrongKind("this model was fine-tuned for labels; there is no next token to draw")


def _position(run: Run, how: Continued) -> int | None:
    return None if "y_hat" in run.trace.steps.passed else _last(run, how)


def _last(run: Run, how: Continued) -> int:
    n = len(run.trace.ids)
    if how.position is not None and not 0 <= how.position < n:
        raise WrongLength(f"position must be below {n}, counted from 0, got {how.position}")
    return n - 1 if how.position is None else how.position


def _room(model: Model, n: int, wanted: int) -> int:
    """As many tokens as the context has space for, so that the new text can be read."""
    context = None if family_of(model.config).window else context_of(model)
    if context is None:
        return wanted
    if n >= context:
        raise SequenceTooLong(
            f"the text fills the model's context of {context} tokens; shorten it to go on"
        )
    return min(wanted, context - n)


def _before(model: Model, run: Run, how: Continued) -> str | None:
    """The text up to the token that is continued; None where that is all of it."""
    last = _last(run, how)
    if last == len(run.trace.ids) - 1:
        return None
    ids = run.trace.ids[: last + 1]
    return model.tokenizer.decode(ids) if model.tokenizer else " ".join(map(str, ids))


def _token(model: Model, drawn: Draw) -> dict[str, Any]:
    piece = model.tokenizer.piece(drawn.token) if model.tokenizer else str(drawn.token)
    odds = float(drawn.probabilities[drawn.token])
    return {"id": drawn.token, "token": piece, "probability": odds}

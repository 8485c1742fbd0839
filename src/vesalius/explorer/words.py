"""What the room of words asks: points, neighbours, words in context, and texts cut into tokens."""

from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from vesalius.analyses.words import Projection, contexts, neighbours, project, tokens
from vesalius.errors import ImpossibleSetting, VesaliusError
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.keeping import Kept, weight
from vesalius.explorer.results import told
from vesalius.explorer.runs import Runs
from vesalius.model import Model, folder_of
from vesalius.tasks.embedding import DISTANCES
from vesalius.tokenizers import Tokenizer, read_tokenizer

BYTES = 1 << 26
"""Of the projections that are kept."""
SHOWN = 600
"""Tokens of a text that are told for each tokenizer; all are counted."""
KINDS = ("begins a word", "with a capital", "within a word", "signs and digits", "special")


class Text(BaseModel):
    """A text that tokenizers cut."""

    model_config = ConfigDict(extra="forbid")
    model: StrictStr = ""
    text: StrictStr = Field(max_length=200_000)


class Points:
    """Projections by model and axes, each worked out once."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._found: Kept[tuple[Any, ...], Projection] = Kept(BYTES, weight)

    def of(self, key: str, axes: tuple[tuple[int, int], ...]) -> Projection:
        entry = self.catalogue[key]
        with entry.at_work() as model:
            about = (entry.digest(model), axes)
            found = self._found.get(about)
            if found is None:
                found = project(model, *axes)
                self._found.put(about, found)
            return found


def kinds(model: Model) -> list[int]:
    """What kind of word each is, as an index of ``KINDS``."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    special = set(tokenizer.special.values())
    return [_kind(tokenizer, i, name, i in special) for i, name in enumerate(tokens(model))]


def _kind(tokenizer: Tokenizer, id_: int, name: str, special: bool) -> int:
    bare = name.strip().removeprefix("##")
    if special or not name:
        return 4
    if not bare or "\\x" in name or not any(c.isalpha() for c in bare):
        return 3
    continues = not name.startswith(" ") if tokenizer.byte_level else tokenizer.continues(id_)
    if bare[0].isupper():
        return 1
    return 2 if continues else 0


def routes(app: FastAPI, catalogue: Catalogue, runs: Runs) -> None:
    """The answers of this room."""
    points = Points(catalogue)
    tokenizers: dict[str, Tokenizer | None] = {}

    @app.get("/api/models/{key}/words")
    def words(key: str) -> Any:
        with catalogue[key].at_work() as model:
            found = {"tokens": tokens(model), "kinds": kinds(model), "named": KINDS}
        return JSONResponse(found)

    @app.get("/api/models/{key}/words/points")
    def projected(key: str, axis: Annotated[list[str] | None, Query(max_length=3)] = None) -> Any:
        found = points.of(key, tuple(_pair(one) for one in axis or ()))
        headers = {
            "x-dtype": "float32",
            "x-shape": ",".join(map(str, found.points.shape)),
            "x-shares": ",".join(f"{share:.6g}" for share in found.shares),
            "cache-control": "private, no-cache",
        }
        data = np.ascontiguousarray(found.points, dtype="<f4").tobytes()
        return Response(data, media_type="application/octet-stream", headers=headers)

    @app.get("/api/models/{key}/words/{word}")
    def near(key: str, word: int, k: int = 12) -> Any:
        k = max(1, min(k, 200))
        with catalogue[key].at_work() as model:
            found: dict[str, Any] = {
                distance: [one.to_json() for one in neighbours(model, word, k, distance)]
                for distance in DISTANCES
            }
            length = float(np.linalg.norm(model.parameters.E[:, word]))
            token = model.tokenizer.piece(word) if model.tokenizer else str(word)
        return JSONResponse(told({"id": word, "token": token, "length": length, **found}))

    @app.get("/api/runs/{key}/contexts")
    def in_context(key: str, position: int = -1, distance: str = "cosine", k: int = 5) -> Any:
        run, k = runs[key], max(1, min(k, 50))
        with run.entry.at_work():
            found = contexts(run.trace, position, k, distance)
        return JSONResponse(told(found.to_json()))

    @app.post("/api/tokenizers")
    def side_by_side(wanted: Text) -> Any:
        return JSONResponse(_cut(catalogue, wanted, tokenizers))


def _pair(text: str) -> tuple[int, int]:
    first, comma, second = text.partition(",")
    if not comma or not all(one.isdecimal() and len(one) < 10 for one in (first, second)):
        raise ImpossibleSetting(
            f"an axis is the ids of two words, as in 284,350; got {text[:40]!r}"
        )
    return int(first), int(second)


def _cut(
    catalogue: Catalogue, wanted: Text, cut: dict[str, Tokenizer | None]
) -> list[dict[str, Any]]:
    """The text in the tokens of every tokenizer here; models that share one stand together.

    Tokenizers are read without the models' weights, once.
    """
    keys = list(catalogue.entries)
    keys += [wanted.model] if wanted.model and wanted.model not in keys else []
    found: dict[str, dict[str, Any]] = {}
    for key in keys:
        name = catalogue[key].name
        tokenizer = cut[name] = cut[name] if name in cut else read_tokenizer(folder_of(name))
        if tokenizer is None:
            continue
        digest = tokenizer.digest()
        if digest not in found:
            found[digest] = {
                "models": [],
                "size": tokenizer.size,
                **_tokens(tokenizer, wanted.text),
            }
        found[digest]["models"].append(key)
    return list(found.values())


def _tokens(tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """The text alone, without the tokens that frame it; or why it cannot be cut."""
    try:
        ids = tokenizer.encode_many([text], framed=False)[0]
    except VesaliusError as error:
        return {"count": None, "bytes": len(text.encode()), "tokens": [], "problem": str(error)}
    shown = [{"id": i, "token": tokenizer.piece(i)} for i in ids[:SHOWN]]
    return {"count": len(ids), "bytes": len(text.encode()), "tokens": shown, "problem": ""}

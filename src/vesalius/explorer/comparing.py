"""Two runs side by side: how far each step is, b minus a, words and parts of both, patches.

Runs may be of two texts, two models, or the same with cuts. A step of the one run can be put into
the other, which is known as activation patching.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vesalius.analyses import distances
from vesalius.analyses.alignment import Alignment
from vesalius.analyses.differences import TOLERANCE, same_words
from vesalius.analyses.long_traces import LongTrace
from vesalius.analyses.replaying import replayed
from vesalius.equations.parameters import Array
from vesalius.errors import UnknownStep, WrongKind
from vesalius.explorer import results
from vesalius.explorer.answers import as_bytes, as_json, as_values, meant, once
from vesalius.explorer.heads import By, signed_picture
from vesalius.explorer.runs import Run, Runs
from vesalius.families import family_of

KEPT = ("H", "C")
"""Symbols of the steps that a long run keeps; all others would be computed anew."""
MOST = 1000
"""Words that are told at once."""
Order = Literal["a", "b", "change"]


def routes(app: FastAPI, runs: Runs) -> None:
    below = "/api/runs/{key}/against/{other}"

    @app.get(below)
    def against(key: str, other: str, position: int | None = None) -> Any:
        a, b = runs[key], runs[other]
        with at_work(a, b):
            found = once(a, ("against", b.key), lambda: apart(a, b))
            return as_json(found | {"position": places(a, b, position)})

    @app.get(below + "/parts")
    def parts(key: str, other: str, word: int | None = None, position: int | None = None) -> Any:
        a, b = runs[key], runs[other]
        word = meant(runs, key, word, position)
        with at_work(a, b):
            about = ("parts", b.key, word, position)
            return as_json(once(a, about, lambda: shares(a, b, word, position)))

    @app.get(below + "/words")
    def words(
        key: str,
        other: str,
        search: str = "",
        k: int = 12,
        position: int | None = None,
        by: Order = "a",
    ) -> Any:
        a, b = runs[key], runs[other]
        with at_work(a, b):
            return as_json(vocabulary(a, b, search[:200], max(0, min(k, MOST)), position, by))

    @app.get(below + "/steps/{name}")
    def step(
        request: Request, key: str, other: str, name: str, rows: str = "", columns: str = ""
    ) -> Response:
        a, b = runs[key], runs[other]
        with at_work(a, b):
            found = Alignment(a.trace, b.trace).difference(a.trace.graph.step(name))
            if found is None:
                raise UnknownStep(f"the other run has no counterpart of {name}")
            return as_values(request, f"{key}-{other}/{name}", found, rows, columns)

    @app.get(below + "/heads.sprite")
    def sprite(request: Request, key: str, other: str, by: By = "maximum") -> Response:
        a, b = runs[key], runs[other]

        def made() -> tuple[bytes, dict[str, str]]:
            with at_work(a, b):
                found, bin_ = once(a, ("sprite", b.key, by), lambda: signed_picture(a, b, by))
            shape = ",".join(map(str, found.shape))
            about = {"x-shape": shape, "x-bin": str(bin_), "x-dtype": "uint8", "x-scale": "sqrt"}
            return found.tobytes(), about

        return as_bytes(request, f"{key}-{other}/heads/{by}", made)

    @app.get(below + "/patches")
    def patches(
        key: str,
        other: str,
        layer: int,
        kind: Literal["parts", "states"] = "parts",
        word: int | None = None,
        position: int | None = None,
    ) -> Any:
        a, b = runs[key], runs[other]
        found, target = [], meant(runs, key, word, position)
        for name in patchable(a, b, layer, kind):
            with at_work(a, b):  # others may ask in between
                about = ("patch", b.key, name, target, position)
                make = partial(effect, a, b, name, target, position)
                found.append(once(a, about, make))
        return as_json(found)


@contextmanager
def at_work(a: Run, b: Run) -> Iterator[None]:
    """Both models, while nobody else works with them; always in the same order."""
    with ExitStack() as stack:
        for entry in sorted({a.entry, b.entry}, key=lambda entry: entry.key):
            stack.enter_context(entry.at_work())
        yield


def apart(a: Run, b: Run) -> dict[str, Any]:
    """How far every step of b is from a's, which tokens belong together, and what cannot be told.

    Of long runs the states are told alone.
    """
    _require_same_input(a, b)
    both, notes = Alignment(a.trace, b.trace), list[str]()
    long = isinstance(a.trace, LongTrace) or isinstance(b.trace, LongTrace)
    steps = distances.steps(a.trace, b.trace, notes, KEPT if long else None)
    alike = _same_words(a, b)
    if not alike:
        notes.append("the tokenizers differ: words of the one are not words of the other")
    if long:
        notes.append("a long text: how far apart is told of the states alone")
    told = [] if long or not alike else distances.outcomes(a.trace, b.trace, 1, [])
    far = max(steps, key=lambda one: one.share, default=None)
    first = next((one.name for one in steps if one.relative > TOLERANCE), None)
    n = both.lengths[0]
    kl = {one.position: one.kl for one in told}
    return {
        "a": a.key,
        "b": b.key,
        "tokens": b.trace.tokens(),
        "pairs": [both.pairs.get(i) for i in range(n)],
        "whole": both.whole,
        "same_words": alike,
        "steps": [one.to_json() for one in steps],
        "furthest": None if far is None or not far.difference else far.name,
        "first": first,
        "kl": [kl.get(i) for i in range(n)] if len(told) > 1 else [one.kl for one in told],
        "notes": notes,
    }


def _same_words(a: Run, b: Run) -> bool:
    assert a.trace.model is not None
    assert b.trace.model is not None
    return same_words(a.trace.model, b.trace.model)


def _require_same_input(a: Run, b: Run) -> None:
    reads = [family_of(run.trace.model.config).reads for run in (a, b) if run.trace.model]
    if reads[0] != reads[1]:
        raise WrongKind(
            f"{a.entry.key} reads {reads[0]} and {b.entry.key} reads {reads[1]}: there is nothing "
            f"that both could be compared on"
        )


def places(a: Run, b: Run, position: int | None) -> dict[str, int | None]:
    """The token of a that is asked about, and that of b, where it has a counterpart."""
    here = results.place(a, position)
    return {"a": here, "b": Alignment(a.trace, b.trace).pairs.get(here)}


def _there(a: Run, b: Run, position: int | None) -> int | None:
    """The position of b that is asked about together with one of a; its last where none is."""
    return None if position is None else places(a, b, position)["b"]


def shares(a: Run, b: Run, word: int | None, position: int | None) -> dict[str, Any]:
    """The target of both as a sum of parts, and b minus a of each."""
    ours = results.attributed(a, word, position)
    same = _same_words(a, b)
    row = results.word_of(a, results.target_of(a, word, position)) if same else None
    theirs = results.attributed(b, row, _there(a, b, position))
    other = theirs.parts if same else []  # parts of another word are not told beside these
    others = {part.name: part.share for part in other}
    mine = {part.name for part in ours.parts}
    parts = [
        {**part.to_json(), "a": part.share, "b": others.get(part.name), "difference": change}
        for part in ours.parts
        for change in [others[part.name] - part.share if part.name in others else None]
    ]
    parts += [
        {**part.to_json(), "a": None, "b": part.share, "difference": None}
        for part in other
        if part.name not in mine
    ]
    return {
        "target": {
            "token": results.name_of(b, theirs.target.step, results.word_of(b, theirs.target)),
            "a": {"logit": ours.value, "probability": ours.probability},
            "b": {"logit": theirs.value, "probability": theirs.probability},
            "difference": theirs.value - ours.value,
        },
        "parts": parts,
    }


def vocabulary(
    a: Run, b: Run, search: str, k: int, position: int | None, by: Order
) -> dict[str, Any]:
    """Words with their probabilities in both, the likeliest of a or b or the most changed first."""
    if not _same_words(a, b):
        raise WrongKind("the tokenizers differ: words of the one are not words of the other")
    column, odds, step = results.outcomes(a, position)
    other, chances, _ = results.outcomes(b, _there(a, b, position))
    if column.shape != other.shape:
        raise WrongKind("the two runs tell of different words, which cannot stand side by side")
    ours, theirs = (
        (x if p is None else p).astype(np.float64) for x, p in ((column, odds), (other, chances))
    )
    change = theirs - ours
    first: Array = {"a": -ours, "b": -theirs, "change": -np.abs(change)}[by]
    ranks = [np.empty(len(ours), np.intp) for _ in "ab"]
    for rank, values in zip(ranks, (ours, theirs), strict=True):
        rank[np.argsort(-values, kind="stable")] = np.arange(1, len(ours) + 1)
    listed, found, wanted = list[dict[str, Any]](), 0, search.lower()
    for i in map(int, np.argsort(first, kind="stable")):
        if wanted and wanted not in results.name_of(a, step, i).lower():
            continue
        found += 1
        if len(listed) < k:
            listed.append(
                {
                    "id": i,
                    "token": results.name_of(a, step, i),
                    "a": {"rank": int(ranks[0][i]), "value": float(ours[i])},
                    "b": {"rank": int(ranks[1][i]), "value": float(theirs[i])},
                    "difference": float(change[i]),
                }
            )
        elif not wanted:
            found = len(ours)
            break
    likely = odds is not None and chances is not None
    return {"words": listed, "found": found, "size": len(ours), "odds": likely}


def patchable(a: Run, b: Run, layer: int, kind: str) -> list[str]:
    """What of a layer can be taken from b: heads and network, or the state of each token."""
    both = Alignment(a.trace, b.trace)
    if kind == "parts":
        names = results.cuttable(a, layer)
        return [name for name in names if both.difference(a.trace.graph.step(name)) is not None]
    state = f"H[{layer}]"
    if state not in a.trace or both.difference(a.trace.graph.step(state)) is None:
        return []
    return [f"{state}@{i}" for i in both.pairs]


def effect(a: Run, b: Run, name: str, word: int | None, position: int | None) -> dict[str, Any]:
    """What the target of a would be with this taken from b as well, or without, if it is."""
    target = results.target_of(a, word, position)
    if isinstance(a.trace, LongTrace) or isinstance(b.trace, LongTrace):
        raise WrongKind("values are taken from runs that are kept whole; these texts are too long")
    mine = a.patches if a.source is not None and a.source.key == b.key else ()
    others = Alignment(a.trace, b.trace).patches(set(mine) ^ {name})
    after = replayed(a.trace, a.cuts, [name.partition("@")[0]], others)[target.step]
    return results.told_of(target, name, after)

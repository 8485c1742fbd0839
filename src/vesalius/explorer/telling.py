"""What the page is told of a run: JSON of the library's own results, and nothing else."""

import math
from typing import Any

import numpy as np

from vesalius.analyses import lens as lenses
from vesalius.analyses.attribution import attribute
from vesalius.analyses.replaying import replayed
from vesalius.analyses.targets import Target, find, words
from vesalius.analyses.unfolding import unfold
from vesalius.equations import Step, softmax
from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind
from vesalius.explorer.runs import Run
from vesalius.families import family_of
from vesalius.steps import ATTENTION, summary_of

CUT = ("P", "D")
"""Steps that a cut sets to zero: a head, a feedforward network."""
WITHIN = {"C_bar": "D", "F": "D", "D": "D"}
"""What stands inside a feedforward network."""
OUTPUTS = ("Z", "Y_hat", "z", "y_hat", "z_C", "y_hat_C", "Omega_hat")


def told(value: Any) -> Any:
    """JSON has no infinities: they and NaN are told by name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    return value


def summary(run: Run, word: int | None, position: int | None) -> dict[str, Any]:
    """The words, what the likeliest is owed to, and every step by name."""
    trace = run.trace
    assert trace.model is not None
    target = target_of(run, word, position)
    found = attribute(trace, target.cells[0][0][0], _position(run, target))
    tokenizer = trace.model.tokenizer
    row = target.cells[0][0][0]
    return {
        "id": run.key,
        "clean": run.clean,
        "model": run.entry.key,
        "family": trace.family,
        "ids": trace.ids,
        "tokens": trace.tokens(),
        "surprisal": trace.surprisal(),
        "cuts": list(run.cuts),
        "position": target.column if trace[target.step].ndim > 1 else len(trace.ids) - 1,
        "masked": not family_of(trace.model.config).predicts_text,
        "target": {
            "id": row,
            "token": tokenizer.piece(row) if tokenizer else str(row),
            "step": target.step,
            "at": list(target.cells[0][0]),
            "logit": found.value,
            "probability": found.probability,
        },
        "likeliest": vocabulary(run, "", 12, _position(run, target))["words"],
        "parts": [part.to_json() for part in found.parts],
        "sum": found.total,
        "difference": found.difference,
        "layers": trace.graph.layers,
        "steps": [_step(run, step) for step in trace.steps],
        "milliseconds": run.milliseconds,
        "again": run.again,
        "dtype": trace.model.dtype,
    }


def target_of(run: Run, word: int | None, position: int | None) -> Target:
    """The likeliest word of the run without cuts, unless another is meant."""
    if not words(run.trace):
        raise WrongKind(f"this {run.trace.family} predicts no words; the explorer needs some")
    return find(run.trace, word, position)


def _position(run: Run, target: Target) -> int | None:
    return target.column if run.trace[target.step].ndim > 1 else None


def _step(run: Run, step: Step) -> dict[str, Any]:
    value = np.asarray(step.value)
    rows, columns = axes(step, len(run.trace.ids))
    kind = "score" if step.symbol in ATTENTION else "output" if step.symbol in OUTPUTS else "state"
    short = summary_of(step)
    return {
        "name": step.name,
        "symbol": step.symbol,
        "place": step.place,
        "equation": step.equation.name,
        "shape": list(value.shape),
        "rows": rows,
        "columns": columns,
        "kind": kind,
        "cut": _cut(step),
        "least": short.least,
        "most": short.most,
    }


def axes(step: Step, n: int) -> tuple[str, str]:
    """What rows and columns stand for: queries and keys, tokens, or nothing that has a name."""
    shape = np.shape(step.value)
    if step.symbol in ATTENTION and shape == (n, n):
        return "queries", "keys"
    if "head" in step.place:
        return ("tokens" if shape[0] == n else ""), ""
    vocabulary = step.symbol in ("Z", "Y_hat", "z", "y_hat")
    columns = "tokens" if len(shape) > 1 and shape[1] == n else ""
    return ("vocabulary" if vocabulary else ""), columns


def _cut(step: Step) -> str:
    """The step that a cut here sets to zero: the head or the network that this one is part of."""
    place = step.place
    if "head" in place:
        return f"P[{place['layer']},{place['head']}]"
    return f"{WITHIN[step.symbol]}[{place['layer']}]" if step.symbol in WITHIN else ""


def cuttable(run: Run, layer: int) -> list[str]:
    """The heads and the network of a layer."""
    steps = (step for step in run.trace.steps if step.symbol in CUT)
    return [step.name for step in steps if step.place.get("layer") == layer]


def effect(run: Run, name: str, word: int | None, position: int | None) -> dict[str, Any]:
    """What the target's probability would be with this step cut as well.

    Of one that is cut already: what it would be without that cut.
    """
    target = target_of(run, word, position)
    after = replayed(run.trace, set(run.cuts) ^ {name}, {name})[target.step]
    return {"name": name, "probability": target.probability(after)}


def vocabulary(run: Run, search: str, k: int, position: int | None) -> dict[str, Any]:
    """The likeliest words that hold a text, with their places among all."""
    odds = distribution(run, position)
    assert run.trace.model is not None
    tokenizer = run.trace.model.tokenizer
    order = np.argsort(-odds, kind="stable")
    listed: list[dict[str, Any]] = []
    wanted, found = search.lower(), 0
    for rank, i in enumerate(map(int, order), 1):
        token = tokenizer.piece(i) if tokenizer else str(i)
        if wanted and wanted not in token.lower():
            continue
        found += 1
        if len(listed) < k:
            listed.append({"id": i, "token": token, "rank": rank, "probability": float(odds[i])})
        elif not wanted:
            found = len(order)
            break
    return {"words": listed, "found": found, "size": len(order)}


def distribution(run: Run, position: int | None) -> Array:
    """The probabilities of all words after a token, or at a mask."""
    target = target_of(run, None, position)
    value = np.asarray(run.trace[target.step], dtype=np.float64)
    return softmax(value if value.ndim == 1 else value[:, target.column])


def lens(run: Run) -> list[list[dict[str, Any]]]:
    """The likeliest word that each token's state gives after every layer, known as logit lens."""
    found = lenses.lens(run.trace)
    depths = zip(found.depths, found.likeliest, strict=True)
    return [
        [{"id": w.id, "token": w.name, "probability": w.probability} for w, *_ in tokens]
        for depth, tokens in depths
        if depth.startswith("H[")
    ]


def unfolded(run: Run, name: str, at: tuple[int, ...]) -> dict[str, Any]:
    """How one number was made, and which of its operands are steps that can be gone to."""
    return unfold(run.trace, name, *at).to_json()


def sources(run: Run, name: str, word: int | None, position: int | None) -> dict[str, Any]:
    """What a head adds to the target, by the token that it read."""
    target = target_of(run, word, position)
    found = attribute(run.trace, target.cells[0][0][0], _position(run, target), sources=name)
    tokens = [part for part in found.parts if part.name.startswith(f"{name}:")]
    shares = {int(part.name.rpartition(":")[2]) - 1: part.share for part in tokens}
    return {"name": name, "shares": [shares.get(i, 0.0) for i in range(len(run.trace.ids))]}

"""What the page is told of a run: JSON of the library's own results, and nothing else."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vesalius.analyses import lens as lenses
from vesalius.analyses import targets
from vesalius.analyses.attribution import Attribution, attribute
from vesalius.analyses.long_traces import LongTrace
from vesalius.analyses.replaying import replayed
from vesalius.analyses.targets import Target, find, words
from vesalius.analyses.unfolding import unfold
from vesalius.capabilities import predicts_next
from vesalius.data.inputs import label_names
from vesalius.equations import Step, Steps, softmax
from vesalius.equations.parameters import Array
from vesalius.errors import UnknownModel, UnknownPart, UnknownStep, WrongKind, WrongLength
from vesalius.explorer import forecasts, inputs
from vesalius.explorer.catalogue import ModelChanged
from vesalius.explorer.runs import Run, UnknownRun
from vesalius.explorer.training import UnknownTraining
from vesalius.explorer.uploads import UnknownUpload
from vesalius.families import family_of
from vesalius.generation.sampling import Draw, Sampling
from vesalius.model import Model
from vesalius.tasks.language.filling import MASK
from vesalius.traces.steps import ATTENTION
from vesalius.traces.trace import Trace

MISSING = (UnknownModel, UnknownPart, UnknownRun, UnknownStep, UnknownTraining, UnknownUpload)
"""Errors about a thing that is not there."""
OUTPUTS = ("Z", "Y_hat", "z", "y_hat", "z_C", "y_hat_C", "Omega_hat")
FOLLOWING = ("B follows A", "B does not follow A")
"""The answers for two texts, by the rows of z_C (58)."""


def status_of(error: Exception) -> int:
    """The status of an error: a thing that is not there, one that has changed, or bad input."""
    if isinstance(error, ModelChanged):
        return 409
    return 404 if isinstance(error, MISSING) else 422


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
    """What was read, what the likeliest outcome is owed to, and every step by name."""
    trace = run.trace
    assert trace.model is not None
    target = target_of(run, word, position)
    found = attribute(trace, *_wanted(run, target))
    row, here = word_of(run, target), _place(run, target, position)
    listed = vocabulary(run, "", 12, position)
    tokens, cuts = trace.tokens(), cuts_of(trace.model)
    return {
        "id": run.key,
        "clean": run.clean,
        "model": run.entry.key,
        "name": run.entry.name.removeprefix("specimen:"),
        "family": trace.family,
        "ids": trace.ids,
        "tokens": tokens,
        "blanks": trace.model.tokenizer is not None and trace.model.tokenizer.blanks,
        "surprisal": trace.surprisal(),
        "cuts": list(run.cuts),
        "patches": list(run.patches),
        "position": here,
        "masked": trace.tells_labels or not predicts_next(trace.model),
        "target": {
            "id": row,
            "token": name_of(run, target.step, row),
            "rank": _rank(run, target, row),
            "step": target.step,
            "at": list(target.cells[0][0]),
            "logit": found.value,
            "probability": found.probability,
        },
        "forecast": forecasts.told(run, target.cells[0][0]) if _channels(run) else None,
        "likeliest": listed["words"],
        "outcomes": listed["size"],
        "parts": [part.to_json() for part in found.parts],
        "sum": found.total,
        "difference": found.difference,
        "bound": found.bound,
        "precise": found.precise,
        "layers": trace.graph.layers,
        "long": isinstance(trace, LongTrace),
        "steps": [_step(step, len(tokens), cuts) for step in trace.steps],
        "milliseconds": run.milliseconds,
        "again": run.again,
        "dtype": trace.model.dtype,
        **inputs.told(run, here),
    }


def target_of(run: Run, word: int | None, position: int | None) -> Target:
    """The likeliest word or class of the run without cuts, unless another is meant.

    Of a model that restores values it is one of them, of a model without a head one of its states;
    of a forecast the first time step of the channel that the page stands at; of two texts whether
    the second follows, until a token of theirs is asked for.
    """
    trace = run.trace
    if position is None and _asks_for_following(run) and (word or 0) < len(FOLLOWING):
        return find(trace, ("z_C", int(trace["z_C"].argmax()) if word is None else word))
    if names := _channels(run):
        n, horizon = len(trace.tokens()), trace["Omega_hat"].shape[1]
        if word is None:
            word = min(max(0, position or 0), n - 1) * len(names) // n * horizon
        return find(trace, ("Omega_hat", *divmod(word, horizon)))
    asked = targets.output_of(trace)
    step = asked if asked is not None and asked in trace else f"H[{trace.graph.layers}]"
    value = trace[step]
    if position is None and run.what.masks:
        position = run.what.masks[0]
    if step not in targets.OUTPUTS or step == "Omega_hat":
        last = value.shape[1] - 1
        column = last if position is None else position - _ahead(run, step)
        return find(trace, (step, word or 0, min(max(0, column), last)))
    return find(trace, word, position if value.ndim > 1 else None)


def _rank(run: Run, target: Target, row: int) -> int | None:
    """The place of the target among all words or classes; None of values, which have no order."""
    if not target.likelihood:
        return None
    column = _column(run, target)
    return 1 + int((column > column[row]).sum() + (column[:row] == column[row]).sum())


def _asks_for_following(run: Run) -> bool:
    """Whether it is two texts without a mask, read by a model that says if the second follows."""
    trace = run.trace
    tokenizer = trace.model.tokenizer if trace.model else None
    if tokenizer is None or isinstance(trace, LongTrace) or trace.tells_labels:
        return False
    if not trace.graph.segments or "z_C" not in trace:
        return False
    return trace.graph.segments[-1] == 1 and tokenizer.special.get(MASK) not in trace.ids


def word_of(run: Run, target: Target) -> int:
    """The number that the page knows a target by: its row; of a forecast, one for each value."""
    cell = target.cells[0][0]
    return cell[0] * run.trace["Omega_hat"].shape[1] + cell[1] if _channels(run) else cell[0]


def _channels(run: Run) -> list[str]:
    """The channels of a forecast; none of other models."""
    return [] if run.trace.model is None else inputs.channels(run.trace.model)


def attributed(run: Run, word: int | None, position: int | None) -> Attribution:
    """The target as a sum of parts."""
    return attribute(run.trace, *_wanted(run, target_of(run, word, position)))


def place(run: Run, position: int | None) -> int:
    """The token that the page stands at."""
    return _place(run, target_of(run, None, position), position)


def _ahead(run: Run, step: str) -> int:
    """Tokens before the first column: a class token has no values to restore."""
    return len(run.trace.tokens()) - int(run.trace[step].shape[1])


def _wanted(run: Run, target: Target) -> tuple[Any, int | None]:
    """A target as the analyses take it."""
    cell = target.cells[0][0]
    if target.step != targets.output_of(run.trace) or target.step == "Omega_hat":
        return (target.step, *cell), None
    return cell[0], target.column if len(cell) > 1 else None


def _place(run: Run, target: Target, position: int | None) -> int:
    """The token that the page stands at; where all are read at once, any that is asked for."""
    n = len(run.trace.tokens())
    if names := _channels(run):
        last = (target.cells[0][0][0] + 1) * n // len(names) - 1
        return last if position is None else min(max(0, position), n - 1)
    if target.step == "z_C":
        return 0  # it is read from the class token
    if len(target.cells[0][0]) > 1:
        return target.column + _ahead(run, target.step)
    if position is not None and 0 <= position < n:
        return position
    real = run.trace.real()
    if real is not None:
        return int(np.flatnonzero(real)[-1])
    assert run.trace.model is not None
    first = run.trace.tells_labels and not predicts_next(run.trace.model)
    return 0 if first else n - 1


def name_of(run: Run, step: str, row: int) -> str:
    """What an output is called: a word, class, tag or time step of a channel, or its number."""
    trace = run.trace
    if step == "z" and (named := targets.labels(trace)):
        return named[row]
    if step == "z_C":
        return FOLLOWING[row]
    if names := _channels(run):
        horizon = trace["Omega_hat"].shape[1]
        return f"step {row % horizon + 1}, {names[row // horizon]}"
    tokenizer = trace.model.tokenizer if trace.model else None
    return tokenizer.piece(row) if tokenizer and words(trace) else str(row)


def _step(step: Step, n: int, cuts: Mapping[str, str]) -> dict[str, Any]:
    """A step of a run of n tokens."""
    rows, columns = axes(step, n)
    kind = "score" if step.symbol in ATTENTION else "output" if step.symbol in OUTPUTS else "state"
    return {
        "name": step.name,
        "symbol": step.symbol,
        "place": step.place,
        "equation": step.equation.name,
        "shape": list(step.shape),
        "rows": rows,
        "columns": columns,
        "kind": kind,
        "cut": _cut(step, cuts),
    }


def axes(step: Step, n: int) -> tuple[str, str]:
    """What rows and columns stand for: queries and keys, tokens, or nothing that has a name."""
    shape = step.shape
    if step.symbol in ATTENTION and shape == (n, n):
        return "queries", "keys"
    if "head" in step.place:
        return ("tokens" if shape[0] == n else ""), ""
    vocabulary = step.symbol in ("Z", "Y_hat", "z", "y_hat", "Omega_hat")
    columns = "tokens" if len(shape) > 1 and shape[1] == n else ""
    return ("vocabulary" if vocabulary else ""), columns


def cuts_of(model: Model) -> dict[str, str]:
    """What a cut at a step sets to zero, by the step's symbol: a head or a feedforward network."""
    return {row.symbol: row.cut for row in family_of(model.config).steps(model.config) if row.cut}


def _cut(step: Step, cuts: Mapping[str, str]) -> str:
    """The step that a cut here sets to zero: the head or the network that this one is part of."""
    place = step.place
    name = cuts.get(step.symbol, "").replace("[l", f"[{place.get('layer')}")
    return name.replace(",m]", f",{place.get('head')}]")


def cuttable(run: Run, layer: int) -> list[str]:
    """The heads and the network of a layer."""
    assert run.trace.model is not None
    cuts = cuts_of(run.trace.model)
    here = (step for step in run.trace.steps if step.place.get("layer") == layer)
    return [step.name for step in here if _cut(step, cuts) == step.name]


def effect(run: Run, name: str, word: int | None, position: int | None) -> dict[str, Any]:
    """What the target and its probability would be with this step cut as well.

    Where the step is cut already, the two are told without that cut.
    """
    target = target_of(run, word, position)
    if isinstance(run.trace, LongTrace):
        column = run.trace.column_with(name, target.step, target.column)
        odds, row = softmax(column.astype(np.float64)), target.cells[0][0][0]
        return {"name": name, "probability": float(odds[row]), "value": float(column[row])}
    after = replayed(run.trace, set(run.cuts) ^ {name}, {name}, run.edits())[target.step]
    return told_of(target, name, after)


def told_of(target: Target, name: str, value: Array) -> dict[str, Any]:
    """The target in a value that a cut of a step gave, or the lack of one."""
    return {"name": name, "probability": target.probability(value), "value": target.of(value)}


def vocabulary(
    run: Run, search: str, k: int, position: int | None, how: Sampling | None = None
) -> dict[str, Any]:
    """The likeliest words or classes that hold a text, with their places among all.

    Their probabilities are the model's; with ``how``, the sampler's after its cuts.
    """
    column, odds, step = outcomes(run, position)
    if names := _channels(run):
        column = forecasts.in_units_of_the_series(run, column.reshape(len(names), -1)).ravel()
    order, kept = np.arange(len(column)), len(column)
    if names:  # the channel that the page stands at comes first
        order = np.roll(order, -word_of(run, target_of(run, None, position)))
    if odds is not None:
        order = np.argsort(-column, kind="stable")
    if how is not None:
        if odds is None:
            raise WrongKind(f"{run.trace.family} gives values here, which a sampler cannot draw by")
        draw = Draw(column, how, NOTHING, 0.0)
        odds, kept = draw.probabilities, int(draw.kept.sum())
    listed: list[dict[str, Any]] = []
    wanted, found = search.lower(), 0
    for rank, i in enumerate(map(int, order), 1):
        token = name_of(run, step, i)
        if wanted and wanted not in token.lower():
            continue
        found += 1
        if len(listed) < k:
            likely = None if odds is None else float(odds[i])
            one = {"id": i, "token": token, "rank": rank, "probability": likely}
            listed.append(one | {"value": float(column[i])})
        elif not wanted:
            found = len(order)
            break
    return {"words": listed, "found": found, "size": len(order), "kept": kept}


NOTHING = np.zeros(0, np.int64)


def outcomes(run: Run, position: int | None) -> tuple[Array, Array | None, str]:
    """What the model gives, after a token or at a mask; its probabilities, if it has some."""
    target = target_of(run, None, position)
    column = _column(run, target)
    odds = softmax(np.asarray(column, np.float64)) if target.likelihood else None
    return column, odds, target.step


def logits_of(run: Run, position: int | None) -> Array:
    """The logits of all words after a token, or at a mask."""
    return _column(run, target_of(run, None, position))


def _column(run: Run, target: Target) -> Array:
    value = run.trace[target.step]
    if _channels(run):
        return value.ravel()
    found: Array = value if value.ndim == 1 else value[:, target.column]
    return found


def lens(run: Run, first: int = 0, last: int | None = None) -> list[list[dict[str, Any]]]:
    """The likeliest word that some tokens' states give after every layer, known as logit lens.

    What is labelled as a whole has one class for all of its tokens; what restores values has none.
    """
    if not run.trace.tells_odds:
        return []
    tags = run.trace.labelled == "tokens"
    by_token = tags or ("Z" in run.trace and not run.trace.tells_labels)
    n = len(run.trace.ids)
    if by_token and not range(n)[first:last]:
        raise WrongLength(f"there are no tokens from {first} to {last}; expected some of 0 to {n}")
    found = lenses.lens(_states_of(run.trace, slice(first, last)) if by_token else run.trace)
    depths = zip(found.depths, found.likeliest, strict=True)
    return [
        [{"id": w.id, "token": w.name, "probability": w.probability} for w, *_ in tokens]
        for depth, tokens in depths
        if depth.startswith("H[")
    ]


def _states_of(trace: Trace, columns: slice) -> Trace:
    """Some columns of the states and the logits, as a trace: states are read out one by one."""
    steps = Steps()
    for step in trace.steps:
        if step.symbol in ("H", "C", "Z", "z"):
            value = step.value[:, columns]
            steps.append(Step(step.symbol, step.place, step.equation, value))
    steps.passed = trace.steps.passed
    layers = trace.graph.layers
    return Trace(trace.model, trace.ids[columns], steps, trace.family, layers=layers)


def glance(model: Any, state: Array, column: int) -> dict[str, Any]:
    """The likeliest word or class that one token's state gives while a run is in the making."""
    config = model.config
    read = family_of(config).read_out
    assert read is not None
    found = read(model.parameters, state[:, [column]], config.symbols(), None)
    odds = softmax(found if found.ndim == 1 else found[:, 0])
    best = int(odds.argmax())
    named = label_names(model)
    if len(named) == len(odds):
        token = named[best]
    else:
        token = str(best) if model.tokenizer is None else model.tokenizer.piece(best)
    return {"id": best, "token": token, "probability": float(odds[best])}


def unfolded(run: Run, name: str, at: tuple[int, ...]) -> dict[str, Any]:
    """How one number was made, and which of its operands are steps that can be gone to."""
    return unfold(run.trace, name, *at).to_json()


def sources(run: Run, name: str, word: int | None, position: int | None) -> dict[str, Any]:
    """What a head adds to the target, by the token that it read."""
    target = target_of(run, word, position)
    found = attribute(run.trace, *_wanted(run, target), sources=name)
    tokens = [part for part in found.parts if part.name.startswith(f"{name}:")]
    shares = {int(part.name.rpartition(":")[2]) - 1: part.share for part in tokens}
    return {"name": name, "shares": [shares.get(i, 0.0) for i in range(len(run.trace.tokens()))]}

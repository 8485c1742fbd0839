"""Do the equations, the network and the field's own implementation agree? Step by step.

All run on the same input, in single and in double precision; what they share is compared by the
paper's symbols, and the first step that parts is named.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius import arguments
from vesalius.equations.parameters import Array
from vesalius.errors import SequenceTooLong, WrongKind, WrongLength
from vesalius.families import family_of
from vesalius.model import Model, ModelLike, loaded
from vesalius.traces.dissection import dissect
from vesalius.verification.peers import keras_steps, transformers_steps
from vesalius.views.shown import Part, Shown, Table

if TYPE_CHECKING:
    pass

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""Relative to the largest number of a step: a wrong GELU is 4.7e-4 away, a rounding 6e-8 or 1e-16.

Single precision is given room for the sums of large models."""

LENGTH = 12
"""Tokens of the input, by default."""
PEERS = ("equations", "transformers", "keras")


@dataclass(frozen=True)
class Agreement:
    """How far one step is from its counterpart, relative to its largest number."""

    step: str
    peer: str
    distance: dict[str, float]
    """By precision."""

    @property
    def fine(self) -> bool:
        return all(far <= TOLERANCE[dtype] for dtype, far in self.distance.items())

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "peer": self.peer, **self.distance, "agrees": self.fine}


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """The agreement of every step that is shared."""

    rows: tuple[Agreement, ...]

    @property
    def first_divergence(self) -> Agreement | None:
        return next((row for row in self.rows if not row.fine), None)

    def to_json(self) -> dict[str, Any]:
        first = self.first_divergence
        return {
            "agrees": first is None,
            "first_divergence": first.to_json() if first else None,
            "steps": [row.to_json() for row in self.rows],
        }

    @property
    def verdict(self) -> str:
        first = self.first_divergence
        if first is None:
            alone = len(self.rows) == 1
            return "The only step agrees." if alone else f"All {len(self.rows)} steps agree."
        return f"First divergence: {first.step} against {first.peer}."

    def __repr__(self) -> str:
        """The verdict, and how far the furthest step is in each precision."""
        lines = [self.verdict]
        for dtype, tolerance in TOLERANCE.items():
            rows = [row for row in self.rows if dtype in row.distance]
            if rows:
                worst = max(rows, key=lambda row: row.distance[dtype])
                lines.append(
                    f"  {dtype}: {worst.distance[dtype]:.1e} at most, in {worst.step} against "
                    f"{worst.peer}; allowed is {tolerance:.0e}"
                )
        return "\n".join(lines)

    def view(self) -> Iterator[Part]:
        rows = []
        for row in self.rows:
            far = (f"{row.distance[d]:.1e}" if d in row.distance else "" for d in TOLERANCE)
            rows.append((row.step, row.peer, *far, "" if row.fine else "parts"))
        heads = ("step", "equations against", *TOLERANCE, "")
        yield Table(heads, rows, right=(2, 3))
        yield self.verdict


def observe(model: Model, given: Array) -> dict[str, Array]:
    """What the network computes, by the paper's symbols."""
    from vesalius.verification.taps import observe as observe_network  # PyTorch

    return observe_network(model, given)


def verify(
    model: ModelLike, against: str = "equations", length: int | None = None, seed: int = 0
) -> Verification:
    """Run the equations, the network and, if asked, a peer on the same random input.

    That has ``length`` tokens: 12 by default, or as many as the model reads where those are fewer.
    """
    if against not in PEERS:
        raise WrongKind(f"cannot verify against {against!r}; expected one of {', '.join(PEERS)}")
    model = loaded(model)
    length = None if length is None else arguments.whole("length", length, least=1)
    given = example(model, length, arguments.whole("seed", seed, least=0))
    steps: dict[str, dict[str, dict[str, Array]]] = {}
    for dtype in TOLERANCE:
        cast = Model(model.config, {k: v.astype(dtype) for k, v in model.state.items()})
        trace = dissect(cast, given.astype(dtype) if given.dtype.kind == "f" else given)
        runs = {"equations": {step.name: step.value for step in trace.steps}}
        runs["network"] = observe(cast, given)
        if against == "transformers":
            runs[against] = transformers_steps(model, given, dtype)
        if against == "keras" and dtype == "float32":
            runs[against] = keras_steps(model, given, dtype)
        steps[dtype] = runs
    return _compare(steps)


def _compare(steps: dict[str, dict[str, dict[str, Array]]]) -> Verification:
    first = next(iter(steps.values()))
    rows = []
    for name in first["equations"]:
        for peer in first:
            if peer == "equations" or name not in first[peer]:
                continue
            distance = {
                dtype: _distance(runs["equations"][name], runs[peer][name])
                for dtype, runs in steps.items()
                if name in runs.get(peer, ())
            }
            rows.append(Agreement(name, peer, distance))
    return Verification(tuple(rows))


def _distance(ours: Array, theirs: Array) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    largest = np.abs(theirs).max(initial=0) or 1.0
    return float(np.abs(ours.astype(np.float64) - theirs).max(initial=0) / largest)


def example(model: Model, length: int | None, seed: int) -> Array:
    """An input that the model can read: tokens, an image or a series."""
    rng, config = np.random.default_rng(seed), model.config
    fixed = family_of(config).input_shape(config) or ()
    if fixed and length not in (None, fixed[-1] if len(fixed) < 3 else None):
        shape = " x ".join(map(str, fixed))
        raise WrongLength(
            f"{model.family} reads {shape} at once, got length {length}; leave it out"
        )
    if len(fixed) > 1:
        return rng.normal(size=fixed)
    most = config.symbols().get("n_max", math.inf)
    if length is not None and length > most:
        raise SequenceTooLong(f"the model reads {most} tokens, got length {length}; shorten it")
    count = fixed[0] if fixed else min(length or LENGTH, most)
    return rng.integers(config.symbols()["V"], size=count)

"""The gradient of a target at every step: what a small change there would do to it.

PyTorch's autograd computes it through the network; names and shapes are those of the trace. The
gradient times the value, summed over a token's features, is known as saliency.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius.analyses import targets
from vesalius.data.inputs import Input, read_input, reads_arrays
from vesalius.equations import Step
from vesalius.equations.parameters import Array
from vesalius.errors import UnknownStep, WrongKind, nearest
from vesalius.machine import require
from vesalius.machine.properties import cached_property
from vesalius.model import ModelLike, loaded
from vesalius.traces.dissection import dissect
from vesalius.traces.trace import Trace
from vesalius.views import pictures
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Part, Table, counted, html

if TYPE_CHECKING:
    from vesalius.traces.dissection import Given

INPUTS = ("X", "H[0]")
"""Steps with a column for each token read; the first with a gradient is taken."""
SHOWN = 12
"""Tokens that are told by their saliency."""


@dataclass(frozen=True, eq=False, repr=False)
class Gradient(Mapping[str, Array], Pictured):
    """The gradient of a target at the steps that it depends on; ``g["H[2]"]`` is one by name."""

    target: targets.Target
    value: float
    """The target itself."""
    trace: Trace
    arrays: Mapping[str, Array]
    """By the step's name, in the shape of its value."""

    def __getitem__(self, name: str) -> Array:
        if name in self.arrays:
            return self.arrays[name]
        if name in self.trace:
            raise UnknownStep(
                f"{name} has no gradient: {self.target.label} does not depend on it, or the "
                f"network does not compute it by itself; names() has the steps with one"
            )
        raise UnknownStep(f"no step {name!r} was recorded; {nearest(name, self.arrays)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def names(self) -> list[str]:
        """The steps that have a gradient, in the order of computation."""
        return list(self.arrays)

    @cached_property
    def norms(self) -> dict[str, float]:
        """How long the gradient is at each step."""
        return {name: float(np.linalg.norm(grad)) for name, grad in self.arrays.items()}

    def times_value(self, name: str) -> Array:
        """The gradient at a step times the value there, cell by cell."""
        product: Array = self[name] * self.trace[name]
        return product

    @property
    def input(self) -> str:
        """The step whose columns are the tokens that were read."""
        found = next((name for name in INPUTS if name in self.arrays), None)
        if found is None:
            raise WrongKind(
                f"{self.target.label} does not depend on the input, so that tokens have no saliency"
            )
        return found

    def saliency(self, step: str | None = None) -> list[tuple[str, float]]:
        """Every token with its gradient times value, summed over features; at the input unless
        another ``step`` with a column for each token is named."""
        step = self.input if step is None else step
        product, tokens = self.times_value(step), self.trace.tokens()
        if product.ndim != 2 or product.shape[1] != len(tokens):
            raise WrongKind(
                f"{step} has no column for each token; expected a step such as {self.input}"
            )
        return list(zip(tokens, map(float, product.sum(axis=0)), strict=True))

    def __repr__(self) -> str:
        lines = [f"Gradient of {self._headline()} at {counted(len(self), 'step')}"]
        if self.ranked:
            told = (f"{token!r} {value:+.4g}" for _, token, value in self.ranked[:3])
            lines.append(f"  saliency: {', '.join(told)}")
        return "\n".join(lines)

    def _headline(self) -> str:
        return f"{self.target.label} = {self.value:.6g}"

    @cached_property
    def ranked(self) -> list[tuple[int, str, float]]:
        """Tokens with their places, from 0, and saliency, the largest by size first."""
        if not any(name in self.arrays for name in INPUTS):
            return []
        rows = [(i, token, value) for i, (token, value) in enumerate(self.saliency())]
        return sorted(rows, key=lambda row: -abs(row[2]))

    def view(self) -> Iterator[Part]:
        yield f"Gradient of {self._headline()}, read from {self.target.step}"
        steps = [step for step in self.trace.steps if step.name in self.arrays]
        told = [step for step in steps if "head" not in step.place]
        rows = [(s.equation.label, s.name, _shape(s), f"{self.norms[s.name]:.4g}") for s in told]
        yield Table(("", "step", "shape", "norm of the gradient"), rows, right=(3,))
        if hidden := len(steps) - len(told):
            many = "1 step inside heads is" if hidden == 1 else f"{hidden} steps inside heads are"
            yield f"{many} left out; --json tells all"
        if self.ranked:
            words = [(str(i), repr(token), f"{x:+.4g}") for i, token, x in self.ranked[:SHOWN]]
            heads = ("position", "token", "saliency")
            yield Table(heads, words, right=(0, 2), title=f"Tokens by saliency at {self.input}")
            if more := len(self.ranked) - len(words):
                yield f"{counted(more, 'token')} of less saliency left out"

    def to_json(self) -> dict[str, Any]:
        """The target, the gradient's norm at every step, and the saliency of every token."""
        steps = [
            {"name": name, "shape": list(grad.shape), "norm": self.norms[name]}
            for name, grad in self.arrays.items()
        ]
        saliency = [
            {"position": i, "token": token, "saliency": value}
            for i, token, value in sorted(self.ranked)
        ]
        target = {**self.target.to_json(), "value": self.value}
        at = self.input if self.ranked else None
        return {"target": target, "steps": steps, "saliency_at": at, "saliency": saliency}

    def picture(self) -> str:
        """How long the gradient is at each token's state, layer by layer, as SVG."""
        rows = self._by_token()
        if not rows:
            raise WrongKind(f"{self.target.label} depends on no step with a column for each token")
        values = np.array(list(rows.values()))
        most = pictures.largest_columns(values)
        tokens, n = self.trace.tokens(), values.shape[1]
        some = f", {len(most)} of {n} tokens" if len(most) < n else ""
        return pictures.grid(
            values[::-1, most],
            list(rows)[::-1],
            [tokens[i] for i in most],
            title=f"Norm of the gradient of {self._headline()}{some}",
            signed=False,
        )

    def _by_token(self) -> dict[str, Array]:
        """The norm of the gradient in every column, at the input and after every layer."""
        n, found = len(self.trace.tokens()), dict[str, Array]()
        for step in self.trace.steps:
            if step.name not in self.arrays or step.symbol not in ("X", "H", "H_e", "h"):
                continue
            norms = np.linalg.norm(self.arrays[step.name], axis=0)
            if "time" in step.place:
                row = found.setdefault(f"h[{step.place['layer']}]", np.full(n, np.nan))
                row[step.place["time"] - 1] = norms
            elif norms.shape == (n,):
                found[step.name] = norms
        return found

    def _repr_html_(self) -> str:
        return super()._repr_html_() if self._by_token() else html(*self.view())


def _shape(step: Step) -> str:
    return " × ".join(map(str, np.shape(step.value)))


def gradient(
    model: ModelLike,
    text: "Given",
    target: targets.Wanted = None,
    position: int | None = None,
) -> Gradient:
    """The gradient of a target at every step of a forward pass, by PyTorch's autograd.

    ``text`` is what ``dissect`` reads. The ``target`` is a word, an id or a class, two of them for
    their difference, or a cell of a step, ``("Omega_hat", 3, 7)``; the likeliest word or class
    by default. ``position`` is the token after which, or at which, words are read. The mask S and
    token ids have no gradient, nor has anything that the target does not depend on.
    """
    require("torch")
    from vesalius.verification.taps import backward, watch

    model = loaded(model)
    given = text
    if reads_arrays(model) and not isinstance(text, Input):
        given = read_input(model, text)
    trace = dissect(model, given)
    meant = targets.find(trace, target, position)
    seen = watch(model, trace, given.real if isinstance(given, Input) else None)
    if meant.step not in seen:
        raise WrongKind(
            f"{meant.step} has no gradient: the network of {trace.family} does not compute it; "
            f"{nearest(meant.step, reversed(seen))}"
        )
    backward(seen[meant.step], meant.cells)
    arrays = {name: seen[name].gradient for name in trace if name in seen}
    found = {name: grad for name, grad in arrays.items() if grad is not None}
    return Gradient(meant, meant.of(trace[meant.step]), trace, found)

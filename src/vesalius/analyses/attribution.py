"""What a logit is owed to: the target as an exact sum of parts, known as direct logit attribution.

Nothing is folded and no number of the model's is changed. The output is followed back along what is
added up: through residual connections, and through normalisations, gates and activations with the
values that they had in this run. Where that ends stand the parts: heads, feedforward networks,
biases, embedding and position; time steps of a recurrent network; places of a window.
In Elman networks parts grow with each step back through time and cancel, because a held tanh no
longer limits what recurrent weights enlarge. Where rounding would decide their sum, the way ends:
the state there is one part for all earlier steps.
Parts of a sum are no causes: ``ablate`` is the test of those.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.analyses import rounding, targets
from vesalius.analyses.targets import Target, Wanted
from vesalius.equations import Step
from vesalius.equations.parameters import Array
from vesalius.equations.references import Pulled
from vesalius.errors import NotFinite, WrongKind
from vesalius.traces.graph import arrayed
from vesalius.traces.trace import Trace, require_trace
from vesalius.views import pictures
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Part as ViewPart
from vesalius.views.shown import Table

SHOWN = 12
"""Parts that a picture and a repr tell one by one."""
PRECISE = 0.01
"""Of the values of the target's step: what rounding may move a sum by that is called exact."""
EARLIER = 0.001
"""Of the same values: what time steps may add to that before the way back ends."""
ROUNDING = 1e-6
"""Of a sum in float32, against the sizes of its terms."""
WHOLE = ("P", "D", "X", "X_0", "d")
"""Steps that are parts of their own: heads, feedforward networks, embeddings, what a gate adds."""


@dataclass(frozen=True)
class Part:
    """One part of the sum."""

    name: str
    """A step, an array of the parameters, or a column of a step, as in ``X:3``."""
    share: float
    what: str
    """What the part is, in words."""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "share": self.share, "what": self.what}


@dataclass(frozen=True)
class Attribution(Pictured):
    """A target as a sum of parts."""

    target: Target
    value: float
    """The target in this run."""
    parts: list[Part]
    """The largest by size first."""
    bound: float
    """How far rounding alone can bring the sum of the parts from the value."""
    probability: float | None = None
    scale: float = math.inf
    """The largest size among the numbers of the target's step."""
    together: list[str] = field(default_factory=list)
    """States that stand for all earlier time steps, where told one by one those would cancel.

    One, or where states are averaged over a text, each from some time step back.
    """

    @property
    def total(self) -> float:
        return math.fsum(part.share for part in self.parts)

    @property
    def difference(self) -> float:
        """The sum of the parts minus the value."""
        return self.total - self.value

    @property
    def agrees(self) -> bool:
        """Whether the parts sum to the value, but for rounding that is small beside the values."""
        return self.precise and rounding.agrees(self.difference, self.bound)

    @property
    def precise(self) -> bool:
        """Whether rounding is small beside the values: within a hundredth of the largest."""
        return self.bound <= PRECISE * self.scale

    def _verdict(self) -> str:
        if self.precise:
            return f"the sum of the parts {rounding.verdict(self.difference, self.bound)}"
        return (
            f"the parts are no exact sum: they cancel, and rounding can move it by "
            f"{self.bound:.0e}, where {self.target.step} goes to {self.scale:.3g}: {self._left()}"
        )

    def _left(self) -> str:
        """How many digits rounding leaves, and what brings more."""
        digits = -math.log10(self.bound / self.scale) if self.scale else 0.0
        left = max(0, math.floor(digits))
        return (
            f"{left or 'none'} of its digits {'is' if left == 1 else 'are'} certain; "
            f"weights in float64 (vesalius convert --dtype float64) bring nine more"
        )

    def __getitem__(self, name: str) -> float:
        """The share of a part by its name."""
        return {part.name: part.share for part in self.parts}[name]

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        few = ", ".join(f"{part.name} {part.share:+.4g}" for part in self.parts[:4])
        return f"{self._headline()}\n  {len(self)} parts: {few}{' …' if len(self) > 4 else ''}"

    def _headline(self) -> str:
        likely = "" if self.probability is None else f", probability {self.probability:.4g}"
        return f"{self.target.label} in {self.target.step}: {self.value:.6g}{likely}"

    def view(self) -> Iterator[ViewPart]:
        yield self._headline()
        rows = [(part.name, f"{part.share:+.6g}", part.what) for part in self.parts]
        yield Table(("part", "share", "what it is"), rows, right=(1,), prose=(2,))
        yield self._verdict()
        if self.together:
            more = f" and {others} states before it" if (others := len(self.together) - 1) else ""
            yield (
                f"from {self.together[0]}{more} the way back ends: earlier time steps, told one by "
                f"one, grow and cancel, until rounding decides their sum"
            )

    def first(self, count: int) -> "Attribution":
        """The largest parts, and the others as one."""
        rest = self.parts[count:]
        if len(rest) < 2:  # one more takes no more room than its sum
            return self
        other = Part(f"{len(rest):,} others", math.fsum(part.share for part in rest), "")
        return replace(self, parts=[*self.parts[:count], other])

    def picture(self) -> str:
        """The largest parts as bars, in SVG."""
        rows = [(part.name, part.share) for part in self.first(SHOWN).parts]
        note = f"the sum of {len(self)} parts minus the value is {self.difference:.0e}"
        return pictures.bars(rows, self._headline(), note)

    def to_json(self) -> dict[str, Any]:
        """The target, its value, and every part."""
        return {
            "target": self.target.to_json(),
            "value": self.value,
            "probability": self.probability,
            "parts": [part.to_json() for part in self.parts],
            "sum": self.total,
            "difference": self.difference,
            "bound": self.bound,
            "precise": self.precise,
            "agrees": self.agrees,
            "together": self.together,
        }


def attribute(
    trace: Trace,
    target: Wanted = None,
    position: int | None = None,
    *,
    neurons: bool = False,
    sources: str | None = None,
) -> Attribution:
    """A logit, the difference of two, a class score or a value as an exact sum of parts.

    ``neurons`` splits feedforward networks into their neurons; ``sources="P[3,4]"`` splits a head
    into the tokens that it read. The target is as in ``ablate``, the likeliest word unless one is
    said: ``attribute(trace, " head")``, ``attribute(trace, (" head", " hand"))``.
    """
    require_trace(trace)
    neurons = arguments.truth("neurons", neurons)
    wanted = targets.find(trace, target, position)
    graph, value = trace.graph, trace[wanted.step]
    if sources is not None and graph.step(sources).symbol != "P":
        raise WrongKind(f"sources is a head, as P[3,4], which reads tokens; got {sources!r}")
    _require_finite(abs(wanted.of(value)), wanted, graph.step(wanted.step))
    G = np.zeros(value.shape)
    for cell, weight in wanted.cells:
        G[cell] += weight  # 0 where a word is compared with itself
    covectors, shares = {wanted.step: G}, dict[str, float]()
    parts: list[Part] = []
    scale = float(np.abs(value).max())
    most = way_back = 0.0
    together: list[str] = []
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        for step in reversed(trace.steps):
            held = covectors.pop(step.name, None)
            if held is None:
                continue
            _require_finite(float(np.abs(held).sum()), wanted, step)
            pulled = None
            if not _is_part(trace, step, wanted.step, neurons):
                rule = graph.rule(step)
                pulled = rule.pull(graph, step.place, arrayed(step.value), held)
            rounded = 0.0 if pulled is None else _rounded(trace, step, pulled)
            if "time" in step.place and step.name != wanted.step:
                way_back += rounded
                if pulled is not None and way_back > EARLIER * scale:
                    parts.append(_earlier(step, held))
                    together.append(step.name)
                    continue
            if pulled is None:
                parts += _parts(trace, step, held, split=step.name == sources)
                continue
            if step.name in trace.steps.edited:
                parts += _put(trace, step, held, pulled)
            most += rounded
            for name, more in pulled.covectors.items():
                before = covectors.get(name)
                covectors[name] = more if before is None else before + more
            for name, share in pulled.constants.items():
                timed = f"{name} at {step.place['time']}" if "time" in step.place else name
                shares[timed] = shares.get(timed, 0.0) + share
    parts += [Part(name, share, _constant(name)) for name, share in shares.items()]
    parts.sort(key=lambda part: -abs(part.share))
    _require_finite(sum(abs(part.share) for part in parts), wanted, trace.steps[0])
    likely = wanted.probability(value)
    return Attribution(wanted, wanted.of(value), parts, most, likely, scale, together)


def _require_finite(size: float, wanted: Target, step: Step) -> None:
    if not math.isfinite(size):
        raise NotFinite(
            f"the parts of {wanted.label} are not finite numbers on the way back to {step.name}: "
            f"weights are so large that products overflow; expected weights of usual sizes"
        )


def _put(trace: Trace, step: Step, G: Array, pulled: Pulled) -> Iterator[Part]:
    """What an edit put in the place of a sum, beyond what its terms make."""
    made = sum(pulled.constants.values()) + sum(
        float((more * np.asarray(trace[name], np.float64).reshape(more.shape)).sum())
        for name, more in pulled.covectors.items()
    )
    cells = G * np.asarray(step.value, np.float64)
    share = float(cells.sum()) - made
    if abs(share) > ROUNDING * np.abs(cells).sum():
        yield Part(f"{step.name} edited", share, f"what was put in the place of {step.name}")


def _rounded(trace: Trace, step: Step, pulled: Pulled) -> float:
    """How far the target can be off because this step's sum was rounded."""
    count, sizes = 1, sum(map(abs, pulled.constants.values()))
    for name, more in pulled.covectors.items():
        count = max(count, len(more))
        sizes += float(np.abs(more * np.asarray(trace[name]).reshape(more.shape)).sum())
    if not math.isfinite(sizes):
        return math.inf
    return rounding.bound(count, sizes, rounding.precision(step.value))


def _is_part(trace: Trace, step: Step, target: str, neurons: bool) -> bool:
    """Whether a step is told as one part and not followed further."""
    if step.name == target:
        return False
    if step.symbol == "D" and neurons:
        return False
    below = "time" in step.place and step.place["layer"] < trace.graph.layers
    return below or step.symbol == "F" or step.symbol in WHOLE


def _parts(trace: Trace, step: Step, G: Array, split: bool) -> Iterator[Part]:
    """A step as one part, or as several: by neuron, by column, by the tokens that a head read."""
    value = np.asarray(step.value, dtype=np.float64)
    if step.symbol == "F":
        shares = (G * value).sum(axis=1)
        yield from (
            Part(f"{step.name}({k})", float(share), f"neuron {k} of layer {step.place['layer']}")
            for k, share in enumerate(shares)
            if share
        )
        return
    if split and step.symbol == "P":
        mu, v = (trace[f"{letter}{step.name[1:]}"].astype(np.float64) for letter in ("mu", "v"))
        shares = (mu * (G @ v.T)).sum(axis=0)
        for j, (token, share) in enumerate(zip(trace.tokens(), shares, strict=True)):
            if share:
                yield Part(f"{step.name}:{j + 1}", float(share), f"{_what(step)}, from {token!r}")
        return
    if step.symbol == "X" and len(read := np.flatnonzero(G.any(axis=0))) > 1:
        shares = (G * value).sum(axis=0)
        tokens = trace.tokens()
        for i in map(int, read):
            token = f": {tokens[i]!r}" if i < len(tokens) else ""
            yield Part(f"X:{i + 1}", float(shares[i]), f"the embedding at place {i + 1}{token}")
        return
    yield Part(step.name, float((G * value).sum()), _what(step))


def _earlier(step: Step, G: Array) -> Part:
    """All time steps up to one, in what it passes on."""
    value = np.asarray(step.value, np.float64).reshape(G.shape)
    what = f"all that came in up to time step {step.place['time']}"
    return Part(step.name, float((G * value).sum()), what)


def _what(step: Step) -> str:
    place = step.place
    where = f" of layer {place['layer']}" if "layer" in place else ""
    if step.symbol == "P":
        return f"head {place['head']}{where}"
    if step.symbol == "D":
        return f"the feedforward network{where}"
    if step.symbol == "X":
        return "the embedding"
    if step.symbol == "d":
        return f"what time step {place['time']} added to the context{where}"
    if "time" in place:
        return f"what time step {place['time']} read from below"
    return step.equation.title[:1].lower() + step.equation.title[1:]


def _constant(name: str) -> str:
    if name.startswith("Lambda_s"):
        return "the segment"
    if name.startswith("Lambda"):
        return "the position"
    path, _, time = name.partition(" at ")
    kind = "the normalisation's bias" if path.endswith(".beta") else "a bias"
    kind = "the normalisation's mean" if path.endswith(".mean") else kind
    return f"{kind}, at time step {time}" if time else kind

"""How two models differ: checkpoints, precisions of one model, or edits on the way.

Arrays are compared in the paper's letters, matrices of heads head by head. With a text both run in
the equations: the first step that parts, how far each step is, and what becomes of the words.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius import arguments
from vesalius.analyses import distances
from vesalius.analyses.alignment import Alignment, Pair
from vesalius.analyses.distances import Distance, Outcome
from vesalius.data.inputs import FILES
from vesalius.equations.parameters import Array
from vesalius.errors import ImpossibleSetting, WrongKind
from vesalius.families import family_of
from vesalius.generation.quantisation import rounded
from vesalius.machine.properties import cached_property
from vesalius.model import Model, ModelLike, loaded
from vesalius.traces.dissection import dissect
from vesalius.traces.edits.values import EditLike
from vesalius.views import pictures
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Part, Table, counted, html

if TYPE_CHECKING:
    from vesalius.traces.dissection import Given

TOLERANCE = 1e-5
"""The relative norm of a difference from which on a step is said to diverge: sums in another order
were measured 2e-6 apart in single precision."""
TOP = 10
"""Words of a position that are compared, the likeliest."""
SHOWN = 16
"""Rows of a table."""
DTYPES = ("float32", "float16", "int8")


@dataclass(frozen=True, repr=False)
class Difference(Pictured):
    """Which parameters moved, and what that does to a text."""

    parameters: list[Distance]
    """Every array that can be compared, in the order of the paper's sets."""
    steps: list[Distance]
    """Every step that can be compared, in the order of computation; none without a text."""
    outcomes: list[Outcome]
    """Words or classes by position; none where the models tell none."""
    notes: list[str]
    """What cannot be compared, and why."""
    tolerance: float = TOLERANCE
    top: int = TOP
    runs: Alignment | None = None
    """The two forward passes, token by token; None without a text."""

    @cached_property
    def moved(self) -> list[Distance]:
        """The parameters that differ, the furthest first."""
        some = [one for one in self.parameters if one.difference > 0]
        return sorted(some, key=lambda one: -one.relative)

    @property
    def first_divergence(self) -> Distance | None:
        """The first step, in the order of computation, that is further apart than the tolerance."""
        return next((step for step in self.steps if step.relative > self.tolerance), None)

    @property
    def mean_kl(self) -> float | None:
        """The mean over positions of the KL divergence of b from a, in nats."""
        return float(np.mean([one.kl for one in self.outcomes])) if self.outcomes else None

    def at(self, step: str, *cell: int) -> Pair:
        """One number of a step in both: ``diff(...).at("mu[3,4]", 2, 1).difference``."""
        if self.runs is None:
            raise WrongKind("numbers are those of steps, which need a text to run on; give one")
        return Pair.of(self.runs, step, cell)

    def __repr__(self) -> str:
        return "\n  ".join(["Difference:", *self._lines()])

    def _lines(self) -> list[str]:
        many = counted(len(self.parameters), "array")
        if self.moved:
            far = self.moved[0]
            moved = f"{len(self.moved):,} of {many} moved"
            lines = [f"{moved}, the furthest {far}: {far.relative:.4g} of its norm"]
        else:
            same = f"no parameter differs, of {many}"
            lines = [same if self.parameters else "no parameters can be compared"]
        if self.steps:
            first = self.first_divergence
            lines.append(
                f"no step diverges by more than {self.tolerance:.0e} of its norm"
                if first is None
                else f"first divergence: {first.name}, by {first.relative:.4g} of its norm"
            )
        if self.mean_kl is not None:
            many = counted(len(self.outcomes), "position")
            lines.append(f"mean KL divergence {self.mean_kl:.4g} nats over {many}")
        return lines + self.notes

    def view(self) -> Iterator[Part]:
        yield from self._lines()
        if self.moved:
            rows = [
                (str(one), " × ".join(map(str, one.shape)), f"{one.relative:.4g}")
                for one in self.moved[:SHOWN]
            ]
            yield Table(("parameters", "shape", "relative norm"), rows, right=(2,))
            if more := len(self.moved) - len(rows):
                yield f"{counted(more, 'array')} less far left out; --json tells all"
        if self.steps:
            rows = [(kind, name, f"{far:.4g}") for kind, name, far in self._furthest_steps()]
            yield Table(("steps", "furthest at", "relative norm"), rows, right=(2,))
        if self.outcomes:
            words = [
                (
                    str(one.position),
                    repr(one.token),
                    f"{one.kl:.4g}",
                    f"{one.reverse_kl:.4g}",
                    " ".join(map(repr, one.gained)),
                    " ".join(map(repr, one.lost)),
                )
                for one in self.outcomes[-SHOWN:]
            ]
            heads = ("position", "token", "KL", "reverse KL", "gained", "lost")
            title = f"KL divergence in nats; gained and lost among the {self.top} likeliest"
            yield Table(heads, words, right=(0, 2, 3), prose=(4, 5), title=title)
            if more := len(self.outcomes) - len(words):
                yield f"{counted(more, 'earlier position')} left out; --json tells all"

    def _furthest_steps(self) -> Iterator[tuple[str, str, float]]:
        """Each kind of step with the furthest of it."""
        for kind in dict.fromkeys(step.kind for step in self.steps):
            far = max((s for s in self.steps if s.kind == kind), key=lambda s: s.relative)
            yield kind, far.name if far.relative else "", far.relative

    def to_json(self) -> dict[str, Any]:
        """Every array and step with its distance, and what becomes of the words."""
        first = self.first_divergence
        return {
            "parameters": [one.to_json() for one in self.parameters],
            "moved": len(self.moved),
            "tolerance": self.tolerance,
            "first_divergence": None if first is None else first.to_json(),
            "steps": [step.to_json() for step in self.steps],
            "outcomes": [one.to_json() for one in self.outcomes],
            "mean_kl": self.mean_kl,
            "notes": self.notes,
        }

    def picture(self) -> str:
        """How far parameters moved, or else steps, by layer and kind, as SVG."""
        if self.steps and not self.moved:
            return self._of_steps()
        return _grid(self.moved, self.parameters, "parameters")

    def _of_steps(self) -> str:
        return _grid([s for s in self.steps if s.difference > 0], self.steps, "steps")

    def _repr_html_(self) -> str:
        drawn = [self.picture()] + ([self._of_steps()] if self.moved and self.steps else [])
        return "".join(f"<div>{svg}</div>" for svg in drawn) + html(*self.view())


def _grid(moved: Iterable[Distance], everything: Sequence[Distance], what: str) -> str:
    """Layers by kinds that moved; heads and time steps of a layer are taken together."""
    far = {one.kind for one in moved}
    kinds = [kind for kind in dict.fromkeys(one.kind for one in everything) if kind in far]
    sums: dict[tuple[int | None, str], tuple[float, float]] = {}
    for one in everything:
        if one.kind in kinds:
            at = one.place.get("layer"), one.kind
            difference, norm = sums.get(at, (0.0, 0.0))
            sums[at] = difference + one.difference**2, norm + one.norm**2
    layers = sorted({l for l, _ in sums if l is not None}, reverse=True)
    rows: list[int | None] = [*layers, *([None] if any(l is None for l, _ in sums) else [])]
    inside = [k for k in kinds if any(kind == k and l is not None for l, kind in sums)]
    columns = inside + [k for k in kinds if k not in inside]
    values = np.full((len(rows), len(columns)), np.nan)
    for (l, kind), (difference, norm) in sums.items():
        values[rows.index(l), columns.index(kind)] = (
            100 * math.sqrt(difference / norm) if norm else 0.0
        )
    names = ["outside" if l is None else f"layer {l}" for l in rows]
    title = f"How far {what} are apart, in percent of their norm"
    if not columns:
        title = f"All {what} are the same"
    return pictures.grid(values, names, columns, title=title, signed=False)


def diff(
    a: ModelLike,
    b: ModelLike,
    text: "Given | None" = None,
    edit_a: Mapping[str, EditLike] | None = None,
    edit_b: Mapping[str, EditLike] | None = None,
    dtype_b: str | None = None,
    *,
    text_b: "Given | None" = None,
    tolerance: float = TOLERANCE,
    top: int = TOP,
) -> Difference:
    """How model b differs from a: parameters, and with a ``text`` steps and words too.

    ``text_b`` is what b reads, if that is another text: of different lengths the tokens are
    compared that belong together. ``dtype_b`` rounds b's weights: "int8" as generation does it, or
    "float16". ``edit_a`` and ``edit_b`` replace steps on the way, as in ``dissect``, and need a
    text. A step diverges where the norm of the difference is more than ``tolerance`` of the step's
    own; ``top`` is how many words a position's likeliest are.
    """
    top, tolerance = arguments.whole("top", top, least=1), arguments.number("tolerance", tolerance)
    first = loaded(a)
    same = not isinstance(a, Model) and not isinstance(b, Model) and str(a) == str(b)
    second = _rounded(first if same else loaded(b), dtype_b)
    if text is None and (edit_a or edit_b):
        raise WrongKind("edits change steps, which need a text to run on; give one")
    if text is None and text_b is not None:
        raise WrongKind("text_b is for b, and a has nothing to read; give a text too")
    notes = list[str]()
    parameters = distances.parameters(first, second, notes)
    if not same_words(first, second):
        notes.append("the tokenizers differ: rows of E and U need not be of the same words")
    if text is None:
        return Difference(parameters, [], [], notes, tolerance, top)
    given = _given(first, second, text)
    other = given if text_b is None else _given(first, second, text_b)
    runs = Alignment(dissect(first, given, edit=edit_a), dissect(second, other, edit=edit_b))
    steps = distances.steps(runs.a, runs.b, notes)
    outcomes = distances.outcomes(runs.a, runs.b, top, notes)
    return Difference(parameters, steps, outcomes, notes, tolerance, top, runs)


def _rounded(model: Model, dtype: str | None) -> Model:
    """The model with its weights in another precision, held in single precision again."""
    if dtype is None or dtype == "float32":
        return model
    if dtype == "int8":
        return rounded(model)
    if dtype != "float16":
        raise ImpossibleSetting(f"dtype_b must be one of {', '.join(DTYPES)}, got {dtype!r}")
    state = {name: _halved(array) for name, array in model.state.items()}
    kept = (model.origin, model.preprocessing, model.generation_config)
    return Model(model.config, state, model.tokenizer, "float16", *kept)


def _halved(array: Array) -> Array:
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return array if np.array_equal(half, array) else half.astype(array.dtype)


def same_words(a: Model, b: Model) -> bool:
    if a.tokenizer is None or b.tokenizer is None or a.tokenizer is b.tokenizer:
        return True
    return a.tokenizer.digest() == b.tokenizer.digest()


def _given(a: Model, b: Model, text: Any) -> Any:
    """What both read: the same input, and of a text the same tokens."""
    reads = [family_of(model.config).reads for model in (a, b)]
    if reads[0] != reads[1]:
        raise WrongKind(
            f"{a.family} reads {reads[0]} and {b.family} reads {reads[1]}; there is no input for "
            f"both: leave the text out to compare parameters"
        )
    if not isinstance(text, str) or reads[0] in FILES:
        return text
    if not same_words(a, b):
        raise WrongKind(
            "the models have different tokenizers, so that their tokens of a text and their words "
            "are not the same; give token ids that mean the same to both, or leave the text out"
        )
    tokenizer = a.tokenizer or b.tokenizer
    if tokenizer is None:
        raise WrongKind("neither model has a tokenizer; give token ids in place of text")
    return tokenizer.encode(text)

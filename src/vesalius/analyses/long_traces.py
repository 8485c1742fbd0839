"""Traces of long texts: the states are kept, what lies between them is computed when asked for.

This is known as activation recomputation. GPT-2's scores of 1,024 tokens are 604 MB; a layer is run
anew from the state below it, to the same last bit, and logits are read for the columns in question.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from vesalius.equations import Step, Steps, tracing
from vesalius.equations.parameters import Array
from vesalius.equations.tracing import name as name_of
from vesalius.errors import UnknownStep
from vesalius.families import family_of
from vesalius.model import Model
from vesalius.tokenizers import Encoded
from vesalius.traces.dissection import Reading, read
from vesalius.traces.trace import Trace

KEPT = ("H", "A", "C", "P", "D")
"""Of each layer: its state, and what a logit is a sum of."""
OUTPUTS = ("Z", "Y_hat")
"""Matrices with a row for each word."""
COLUMNS = 64
"""Columns of the outputs that are computed at once."""
BYTES = 192 << 20
"""Of computed layers that are kept for the next question, in all traces."""
LONG = 64 << 20
"""Bytes of scores, neurons and logits from which a text counts as long."""

Layered = Callable[[int, Array], object]
"""Called with each layer's number and state, that of the embeddings first."""


def nobody(*_: object) -> None:
    """For computations that nobody is told of."""


def is_long(model: Model, n: int) -> bool:
    """Whether a trace of n tokens had better be recomputed than kept; only transformers can be."""
    sizes = model.config.symbols()
    if "M" not in sizes or family_of(model.config).reads != "text":
        return False
    inside = sizes["L"] * n * (sizes["M"] * n + sizes["d_f"])
    return bool(4 * (inside + 2 * n * sizes["V"]) > LONG)


class Recomputed(Step):
    """A step whose shape is known, and whose value is made when it is asked for."""

    def __init__(self, like: Step, shape: tuple[int, ...], make: Callable[[], Any]) -> None:
        for key in ("symbol", "place", "equation"):
            object.__setattr__(self, key, getattr(like, key))
        object.__setattr__(self, "_shape", shape)
        object.__setattr__(self, "_make", make)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape  # type: ignore[attr-defined, no-any-return]

    @property
    def value(self) -> Any:
        return self._make()  # type: ignore[attr-defined]


class Columns:
    """A matrix with a column for each token, of which only the columns asked for are computed."""

    ndim = 2

    def __init__(
        self, shape: tuple[int, int], dtype: Any, make: Callable[[list[int]], Array]
    ) -> None:
        self.shape, self.dtype, self._make = shape, dtype, make
        self._latest: tuple[list[int], Array] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        wanted = np.arange(self.shape[1])[columns]
        block = self._block(np.atleast_1d(wanted).tolist())
        return block[rows, 0] if np.ndim(wanted) == 0 else block[rows]

    def _block(self, columns: list[int]) -> Array:
        """Some columns; a single one is kept, because it is asked for again and again."""
        latest = self._latest
        if latest is not None and latest[0] == columns:
            return latest[1]
        parts = range(0, max(1, len(columns)), COLUMNS)
        block = np.concatenate([self._make(columns[k : k + COLUMNS]) for k in parts], axis=1)
        if len(columns) == 1:
            self._latest = columns, block
        return block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:, :], dtype)


class Cutting:
    """An editor of steps that sets cuts to zero."""

    def __init__(self, cuts: Collection[str]) -> None:
        self.cuts = cuts

    def edited(self, symbol: str, place: dict[str, int], value: Any) -> Any:
        return np.zeros_like(value) if name_of(symbol, place) in self.cuts else value

    def finish(self, passed: Collection[str]) -> None:
        """Cuts are looked up before anything runs."""


class States:
    """The states of a run by their names, from which all else of it can be computed."""

    def __init__(self, reading: Reading, cuts: Collection[str]) -> None:
        self.reading, self.cuts = reading, frozenset(cuts)
        self.values: dict[str, Array] = {}
        """X, S and H[0] to H[L]."""

    def __del__(self) -> None:
        _LAYERS.forget(id(self))

    def layer(self, l: int, only: Iterable[str] | None = None, known: Any = ()) -> Steps:
        """The steps of a layer from the state below it; those of the embeddings for layer 0."""
        cuts = {name for name in self.cuts if layer_named(name) == l}
        end = f"H[{l}]"
        there = self.values | dict(known)
        with tracing(only, edit=Cutting(cuts), known=there, until={end}) as steps:
            self.reading.run()
        return steps

    def inside(self, l: int, name: str) -> Array:
        """A step of a layer that is not kept, and with it all others of that layer."""
        found = _LAYERS.get((id(self), l))
        if found is None:
            below = States(self.reading, self.cuts)
            below.values = {k: v for k, v in self.values.items() if _depth(k) < l}
            found = {s.name: s.value for s in below.layer(l) if s.symbol not in KEPT}
            _LAYERS.put((id(self), l), found)
        return found[name]

    def outputs(self, columns: list[int]) -> Steps:
        """What follows the last layer, for some columns."""
        many = len(columns)
        known = {name: value[:, columns] for name, value in self.values.items()}
        known["S"] = self.values["S"][:many, :many]
        with tracing(known=known) as steps:
            read(self.reading.model, [self.reading.ids[i] for i in columns]).run()
        return steps

    def whole(self) -> dict[str, Array]:
        """The steps that have one value for the whole text."""
        ended = self.outputs(ends(len(self.reading.ids)))
        found = {step.name: step.value for step in ended if np.ndim(step.value) == 1}
        if "h_bar" in found:  # of all columns, but without the logits of words
            model = self.reading.model
            symbols, family = model.config.symbols(), family_of(model.config)
            assert family.read_out is not None, "whoever labels texts can be read"
            with tracing() as steps:
                family.read_out(model.parameters, self.values[f"H[{symbols['L']}]"], symbols)
            found |= {name: steps[name] for name in ("h_bar", "z")}
        return found


class LongTrace(Trace):
    """A trace whose states are kept, and whose other steps are computed when asked for.

    ``cuts`` are steps at zero; with ``clean``, a trace of the same text, layers below the lowest
    cut are taken from there.
    """

    def __init__(
        self,
        model: Model,
        given: str | Sequence[int] | tuple[str, str] | Encoded,
        cuts: Collection[str] = (),
        clean: "LongTrace | None" = None,
        layered: Layered = nobody,
    ) -> None:
        reading = read(model, given)
        self.held = States(reading, cuts)
        sizes, family = model.config.symbols(), family_of(model.config).name
        super().__init__(model, reading.ids, Steps(), family, layers=sizes["L"], **reading.about)
        self.again, self.own = 0, 0
        """Steps that were computed, and the bytes of the steps that are kept."""
        first = 0
        if clean is not None and cuts:
            first = min(layer_of(clean, name) for name in cuts)
            for step in clean.steps:
                if _depth(step.name) < first:
                    self._add(step)
            self.own = 0
        for l in range(first, sizes["L"] + 1):
            found = self.held.layer(l)
            for step in found:
                self._add(step)
            self.again += len(found)
            layered(l, self[f"H[{l}]"])
        self.followed = self._read_all()
        """The probability of each token but the first, given those before it."""
        self.steps.passed = dict.fromkeys(self.steps.names())
        self.steps.edited = set(cuts)

    def surprisal(self) -> list[float | None]:
        assert self.model is not None
        if "Y_hat" not in self or not family_of(self.model.config).predicts_text:
            return [None] * len(self.ids)
        with np.errstate(divide="ignore"):
            return [None, *(-np.log2(self.followed)).astype(float).tolist()]

    def _add(self, step: Step) -> None:
        """Keep a step, or how it is made."""
        l = step.place.get("layer", 0)
        if l > 0 and step.symbol not in KEPT:
            source, name = self.held, step.name
            step = Recomputed(step, step.shape, lambda: source.inside(l, name))
        else:
            self.own += np.asarray(step.value).nbytes
            if step.symbol in ("X", "S", "H"):
                self.held.values[step.name] = step.value
        self.steps.append(step)

    def _read_all(self) -> Array:
        """Read every column out once: the small steps are kept, and how likely each token was."""
        n, blocks, followed = len(self.ids), dict[str, list[Any]](), list[float]()
        kinds = Steps()
        for first in range(0, n, COLUMNS):
            columns = list(range(first, min(n, first + COLUMNS)))
            found = self.held.outputs(columns)
            if "Y_hat" in found.names():
                pairs = [(self.ids[i + 1], i - first) for i in columns if i + 1 < n]
                followed += [float(found["Y_hat"][pair]) for pair in pairs]
            for step in found:
                if step.symbol not in OUTPUTS or first == 0:
                    blocks.setdefault(step.name, []).append(step.value)
            kinds = kinds or found
        headed = any(np.ndim(step.value) == 1 for step in kinds)
        ended = self.held.whole() if headed else {}
        for step in kinds:
            value: Any = blocks[step.name][0]
            if step.symbol in OUTPUTS:
                value = Columns((len(value), n), value.dtype, self._column_of(step.name))
            elif np.ndim(value) == 1:
                value = ended[step.name]
            elif np.ndim(value) == 2:
                value = np.concatenate(blocks[step.name], axis=1)
                self.own += value.nbytes
            self.steps.append(Step(step.symbol, step.place, step.equation, value))
        self.again += len(kinds)
        return np.array(followed)

    def _column_of(self, name: str) -> Callable[[list[int]], Array]:
        held = self.held
        return lambda columns: np.asarray(held.outputs(columns)[name])

    def column_with(self, name: str, step: str, column: int) -> Array:
        """A column of the outputs with one step cut too, or with its cut taken back."""
        lowest = layer_of(self, name)
        other = States(self.held.reading, self.held.cuts ^ {name})
        other.values = {k: v for k, v in self.held.values.items() if _depth(k) < lowest}
        for l in range(lowest, self.graph.layers + 1):
            known = self._heads(l, other.cuts) if l == lowest else {}
            end = f"H[{l}]"
            other.values[end] = other.layer(l, [end], known)[end]
        if np.ndim(self[step]) == 1:
            return np.asarray(other.whole()[step])
        return np.asarray(other.outputs([column])[step][:, 0])

    def _heads(self, l: int, cuts: Collection[str]) -> dict[str, Array]:
        """The heads of a layer that other cuts leave as they are, or at zero."""
        names = [s.name for s in self.steps if s.symbol == "P" and s.place["layer"] == l]
        kept = {name: self[name] for name in names if name not in self.held.cuts | set(cuts)}
        return kept | {name: np.zeros_like(self[name]) for name in names if name in cuts}


def ends(n: int) -> list[int]:
    """The first and the last column: what heads of a whole text read is one of them, or all."""
    return sorted({0, n - 1})


def layer_of(trace: Trace, name: str) -> int:
    """The layer of a step that can be cut."""
    layer = trace.graph.step(name).place.get("layer", 0)
    if layer < 1:
        raise UnknownStep(f"{name} lies in no layer; expected a step of one, as P[3,4] or D[2]")
    return layer


def layer_named(name: str) -> int:
    return int(name.partition("[")[2].rstrip("]").split(",")[0])


def _depth(name: str) -> int:
    """The layer of a step by its name; the embeddings and the mask come before the first."""
    return 0 if name in ("X", "S") else layer_named(name) if "[" in name else 1 << 30


class _Layers:
    """What was computed of layers lately, by states and layer, within a number of bytes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[int, int], Mapping[str, Array]] = OrderedDict()

    def get(self, key: tuple[int, int]) -> Mapping[str, Array] | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: tuple[int, int], values: Mapping[str, Array]) -> None:
        with self._lock:
            self._kept[key] = values
            while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > BYTES:
                self._kept.popitem(last=False)

    def forget(self, states: int) -> None:
        with self._lock:
            for key in [key for key in self._kept if key[0] == states]:
                del self._kept[key]


def _bytes(values: Mapping[str, Array]) -> int:
    return sum(value.nbytes for value in values.values())


_LAYERS = _Layers()

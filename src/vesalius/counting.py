"""Counting parameters and costs by formula: what ``vesalius count`` shows.

The formulas are the families'; here they are evaluated, added up and put into tables. Of a folder,
the tensors of its weights are counted too, and differences from the formula are listed.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vesalius import arguments
from vesalius.checkpoints import naming
from vesalius.errors import ImpossibleSetting, SequenceTooLong
from vesalius.families import configuration, family_of
from vesalius.families.activations import ACTIVATIONS
from vesalius.families.config import Config, Setting
from vesalius.families.costs import Component, sum_of
from vesalius.families.formulas import value_of, with_numbers
from vesalius.views.shown import Cell, Part, Shown, Table, bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from vesalius.checkpoints.fitting import Held
    from vesalius.model import ModelLike

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}


@dataclass(frozen=True)
class Row:
    """One component with its numbers; ``count`` is for one of it, of which there are ``times``."""

    depth: int
    symbol: str
    name: str
    formula: str
    numbers: str
    """The formula with numbers; empty where the row is the sum of those below it."""
    count: int
    times: int
    share: float
    """Of the total, with all its repetitions."""


@dataclass(frozen=True, repr=False)
class Count(Shown):
    """The parameters of a model: the paper's table with numbers."""

    name: str
    family: str
    config: Config
    rows: tuple[Row, ...]
    formula: str
    total: int
    also: dict[str, int]
    """Other totals that people quote for the same model."""
    checkpoint: "Held | None" = None
    """Of a folder: the count of its weights, which may differ from the formula."""

    @property
    def bytes(self) -> dict[str, int]:
        return {dtype: size * self.total for dtype, size in BYTES.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "family": self.family,
            "config": self.config.to_json(),
            "components": [asdict(row) for row in self.rows],
            "formula": self.formula,
            "total": self.total,
            "bytes": self.bytes,
            "also": self.also,
            **({} if self.checkpoint is None else {"checkpoint": self.checkpoint.to_json()}),
        }

    def __repr__(self) -> str:
        """The total, and what it is the sum of."""
        parts = [row for row in self.rows if row.depth == 0]
        symbols = max(len(row.symbol) for row in parts)
        named = [f"  {row.symbol:{symbols}}  {row.name}" for row in parts]
        wide, digits = max(map(len, named)), len(f"{self.total:,}")
        lines = [
            f"{name:{wide}}  {row.count * row.times:>{digits},}  {row.share:>6.1%}"
            for name, row in zip(named, parts, strict=True)
        ]
        return "\n".join([f"{self.name}: {self.total:,} parameters, {self.formula}", *lines])

    def view(self) -> Iterator[Part]:
        rows: list[tuple[object, ...]] = []
        for row in self.rows:
            numbers = f"= {row.numbers}" if row.numbers not in ("", row.formula) else ""
            share = f"{100 * row.share:.1f} %"
            times = f"× {row.times}" if row.times > 1 else ""
            name = "  " * row.depth + row.name
            formula = Cell(row.formula, below=numbers)
            rows.append((row.symbol, name, formula, f"{row.count:,}", times, share))
        total = Cell(f"{self.total:,}", bold=True)
        rows.append(("θ", Cell("total", bold=True), self.formula, total))
        heads = ("", "component", "formula", "parameters", "", "share")
        family = family_of(self.config)
        title = f"{self.name}: {family.described(self.config)} (Section {family.sections})"
        yield Table(heads, rows, right=(3, 4, 5), prose=(2,), beneath=(2,), title=title)
        yield ", ".join(f"{name} {bytes_of(size)}" for name, size in self.bytes.items())
        if self.checkpoint is not None:
            yield "\n".join(["", *self.checkpoint.lines(self.total)])
        if self.also:
            yield "\nCounted differently, the same model has:"
        for what, number in self.also.items():
            yield f"{number:>13,}  {what}"


def _size(component: Component, symbols: dict[str, Any]) -> int:
    """The parameters of one of these components, its parts with their repetitions."""
    if component.formula:
        return value_of(component.formula, symbols)
    return sum(value_of(part.times, symbols) * _size(part, symbols) for part in component.parts)


def _rows(
    components: tuple[Component, ...], symbols: dict[str, Any], total: int, depth: int, times: int
) -> Iterator[Row]:
    for component in components:
        size, repeated = _size(component, symbols), value_of(component.times, symbols)
        formula = component.formula
        yield Row(
            depth,
            component.symbol,
            component.name,
            formula or sum_of(component.parts),
            with_numbers(formula, symbols) if formula else "",
            size,
            times * repeated,
            size * times * repeated / total,
        )
        yield from _rows(component.parts, symbols, total, depth + 1, times * repeated)


def parameters(config: Config) -> int:
    """The number of trained parameters of a configuration."""
    symbols = config.symbols()
    whole = Component("", "", parts=family_of(config).components(config))
    return _size(whole, symbols)


def count(model: "ModelLike | Config", **changes: Setting) -> Count:
    """Count the parameters of a named size, a family or a model, with some settings changed.

    Of a specimen or a folder the weights are looked at too, unless a setting is changed.
    """
    config, name, folder = described(model)
    config = config.change(**changes)
    family, symbols, total = family_of(config), config.symbols(), parameters(config)
    parts = family.components(config)
    rows = tuple(_rows(parts, symbols, total, 0, 1))
    also = family.other_counts(config, parameters)
    checkpoint = None
    if folder is not None and not changes:
        from vesalius.checkpoints.fitting import held

        checkpoint = held(folder, config)
    return Count(name, family.name, config, rows, sum_of(parts), total, also, checkpoint)


def described(model: "ModelLike | Config") -> "tuple[Config, str, Path | None]":
    """The configuration of a model or of a name, what to call it, and its folder if it has one."""
    config = getattr(model, "config", model)
    if isinstance(config, Config):
        return config, family_of(config).name, None
    found = naming.find(model, weights=False)
    if found.kind in ("size", "family"):
        return configuration(found.name), str(model), None
    from vesalius.checkpoints.folders import read_config  # NumPy takes longer than counting
    from vesalius.model import folder_of

    folder = found.folder or folder_of(str(model))
    return read_config(folder), str(model), folder


@dataclass(frozen=True)
class CostRow:
    """One equation's cost, with all its repetitions; ``formula`` is that of one."""

    equation: str
    name: str
    formula: str
    times: int
    forward: int
    """Operations of its matrix products in a forward pass."""
    backward: int
    pointwise: int
    """Operations of a forward pass outside matrix products."""


@dataclass(frozen=True, repr=False)
class Cost(Shown):
    """What a model costs at a given length and batch; a multiply-add is two operations."""

    name: str
    length: int
    batch: int
    rows: tuple[CostRow, ...]
    memory: dict[str, int]
    """Bytes of a training step in float32 with Adam."""
    decode_state: tuple[str, int] | None
    """What generation keeps, and how many float32 bytes that is."""

    @property
    def forward(self) -> int:
        return sum(row.forward for row in self.rows)

    @property
    def training_step(self) -> int:
        """Matrix products forward and backward."""
        return sum(row.forward + row.backward for row in self.rows)

    @property
    def pointwise(self) -> int:
        return sum(row.pointwise for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "batch": self.batch,
            "multiply_add": 2,
            "equations": [asdict(row) for row in self.rows],
            "forward": self.forward,
            "training_step": self.training_step,
            "pointwise": self.pointwise,
            "training_bytes": {**self.memory, "total": sum(self.memory.values())},
            "decode_state_bytes": dict([self.decode_state]) if self.decode_state else {},
        }

    @property
    def _title(self) -> str:
        many = f"{self.batch} sequences" if self.batch > 1 else "one sequence"
        return f"{many} of {self.length:,} {'token' if self.length == 1 else 'tokens'}"

    def __repr__(self) -> str:
        """What a pass, a step of training and its memory come to."""
        lines = [
            f"{self.name} on {self._title}:",
            f"  {self.forward:,} operations forward, {self.training_step:,} a training step",
            f"  {bytes_of(sum(self.memory.values()))} of memory to train in float32 with Adam",
        ]
        if self.decode_state:
            lines.append(
                f"  generation keeps {self.decode_state[0]}: {bytes_of(self.decode_state[1])}"
            )
        return "\n".join(lines)

    def view(self) -> Iterator[Part]:
        rows: list[tuple[object, ...]] = []
        for row in self.rows:
            formula = "" if row.formula == "0" else row.formula
            times = f"× {row.times}" if row.times > 1 else ""
            numbers = (row.forward, row.forward + row.backward, row.pointwise)
            shown = tuple(f"{n:,}" if n else "" for n in numbers)
            rows.append((_label(row.equation), row.name, formula, times, *shown))
        totals = (self.forward, self.training_step, self.pointwise)
        bold = tuple(Cell(f"{n:,}", bold=True) for n in totals)
        rows.append((Cell("total", bold=True), "", "", "", *bold))
        heads = ("", "step", "products", "", "forward", "training step", "pointwise")
        title = f"Operations on {self._title}; a multiply-add is two"
        yield Table(heads, rows, right=(3, 4, 5, 6), prose=(2,), beneath=(1, 2), title=title)
        yield "Forward and training step are matrix products, pointwise all else of a forward pass."
        memory = [(what, bytes_of(size)) for what, size in self.memory.items()]
        memory.append(("total", bytes_of(sum(self.memory.values()))))
        yield Table(("memory of a training step", "float32"), memory, right=(1,))
        if self.decode_state:
            yield f"Generation keeps {self.decode_state[0]}: {bytes_of(self.decode_state[1])}"


def _label(equation: str) -> str:
    if equation.isdigit():
        return f"({equation})"
    if equation[0].isalpha():
        return f"({equation})" if "." in equation else equation
    return f"§{equation}" if "." in equation else f"Fig. {equation}"


def cost(
    model: "ModelLike | Config", length: int | None = None, batch: int = 1, **changes: Setting
) -> Cost:
    """What a named size, a family or a model costs: operations by equation, memory of training.

    That is on ``batch`` sequences of ``length``, its longest by default.
    """
    config, name, _ = described(model)
    config = config.change(**changes)
    family = family_of(config)
    symbols = {**config.symbols(), "n": _length(config, length)}
    activation = ACTIVATIONS.get(symbols.get("activation", ""))
    symbols["a"] = activation.cost if activation else 0
    batch = arguments.whole("batch", batch, least=1)

    def all_of(formula: str, times: str) -> int:
        return batch * value_of(times, symbols) * value_of(formula, symbols)

    rows = tuple(
        CostRow(
            op.equation,
            op.name,
            op.products,
            value_of(op.times, symbols),
            all_of(op.products, op.times),
            all_of(op.backward or f"2 ({op.products})", op.times),
            all_of(op.pointwise, op.times),
        )
        for op in family.operations(config)
    )
    P = 4 * parameters(config)
    activations = 4 * sum(
        all_of(part.formula, part.times) for part in family.activation_memory(config)
    )
    memory = {"parameters": P, "gradients": P, "Adam's moments": 2 * P, "activations": activations}
    state = family.decode_state(config)
    kept = (state.name, 4 * value_of(state.formula, symbols)) if state else None
    return Cost(name, symbols["n"], batch, rows, memory, kept)


def _length(config: Config, length: int | None) -> int:
    """The length to compute with: the one asked for, if the model can take it."""
    longest = config.symbols().get("n")
    fixed = family_of(config).fixed_length(config)
    if length is None:
        return longest or 1  # recurrent networks have no longest sequence: cost a token
    length = arguments.whole("length", length, least=1)
    if fixed and length != longest:
        raise ImpossibleSetting(f"this model always reads {longest} tokens, got length {length}")
    if longest and length > longest and not config.unlimited:
        raise SequenceTooLong(f"the model has {longest} positions, got length {length}")
    return length

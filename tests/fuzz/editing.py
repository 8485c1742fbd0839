"""Patterns of edits, sound and damaged, against a second reading of what they name.

A pattern is made of parts, so that what it means is known without reading it: which steps, and
which of their cells. It changes exactly these, or is refused with a step's name or a shape.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from strategies import SMALL, filled, small

from vesalius.errors import UnknownStep, VesaliusError, WrongLength
from vesalius.traces.dissection import dissect
from vesalius.traces.edits import Edits
from vesalius.traces.trace import Trace

VALUE = 7.25
"""What is put in, and no step holds by itself."""
BY_ROW = ("q", "k", "v", "mu", "P", "S")
IDS = [3, 1, 4, 1]


@cache
def trace_of(family: str) -> Trace:
    config, rng = small(family), np.random.default_rng(1)
    given = IDS
    if family == "vit":
        given = rng.normal(size=(config.image, config.image, config.channels))
    elif family in ("tst", "patchtst"):
        given = rng.normal(size=(config.channels, config.context))
    trace = dissect(filled(config), given)
    trace.read_again = given
    return trace


@dataclass(frozen=True)
class Parts:
    """A pattern: symbol, indices, and perhaps a position or cells."""

    symbol: str
    indices: tuple[str, ...]
    position: str | None
    cells: str | None

    def __str__(self) -> str:
        text = self.symbol + (f"[{','.join(self.indices)}]" if self.indices else "")
        text += "" if self.position is None else f"@{self.position}"
        return text if self.cells is None else f"{text}({self.cells})"

    def fits(self, step) -> bool:
        numbers = re.findall(r"\d+", step.name.partition("[")[2])
        if self.symbol not in ("*", step.symbol) or len(self.indices) > len(numbers):
            return False
        return all(i in ("*", k) for i, k in zip(self.indices, numbers, strict=False))

    def cells_of(self, step, n: int) -> np.ndarray | None:
        """The cells of a step that are named; None where they cannot be."""
        named = np.zeros(np.shape(step.value), bool)
        if self.cells is not None:
            try:
                exec(f"named[{self.cells}] = True", {"named": named})
            except IndexError:
                return None
        elif self.position is None:
            named[...] = True
        else:
            tokens = np.zeros(n, bool)
            try:
                exec(f"tokens[{self.position}] = True", {"tokens": tokens})
            except IndexError:
                return None
            if "time" in step.place:
                named[...] = tokens[step.place["time"] - 1]
                return named if tokens.any() else None
            if named.ndim != 2 or (n - named.shape[1] > 1 and step.symbol not in BY_ROW):
                return None  # a class token may be without a column; channels are no tokens
            if step.symbol in BY_ROW:
                named[tokens] = True
            else:
                named[:, tokens[n - named.shape[1] :]] = True
        return named if named.any() else None


def drawn(random: Random, trace: Trace) -> Parts:
    """A pattern near a step that there is."""
    step = random.choice(trace.steps)
    numbers = [str(step.place[axis]) for axis in ("layer", "head", "time") if axis in step.place]
    indices = numbers[: random.randrange(len(numbers) + 1)]
    for i in range(len(indices)):
        roll = random.random()
        if roll < 0.3:
            indices[i] = "*"
        elif roll < 0.4:
            indices[i] = str(random.randrange(12))
    symbol = random.choice((step.symbol,) * 12 + ("*", "P", "h", "W"))
    shape, n = np.shape(step.value), len(trace.tokens())
    match random.randrange(3):
        case 0:
            return Parts(symbol, tuple(indices), None, None)
        case 1:
            return Parts(symbol, tuple(indices), _index(random, n), None)
    many = random.choice((len(shape),) * 6 + (1, len(shape) + 1))
    cells = [_index(random, shape[k] if k < len(shape) else 2) for k in range(many)]
    if random.random() < 0.1:
        cells[random.randrange(many)] = "..."
    return Parts(symbol, tuple(indices), None, ", ".join(cells))


def _index(random: Random, n: int) -> str:
    roll = random.random()
    if roll < 0.5:
        return str(random.randrange(-n, n))
    if roll < 0.7:
        return ":"
    ends = ["" if random.random() < 0.3 else str(random.randrange(-n - 2, n + 3)) for _ in "ab"]
    if roll < 0.8:
        ends.append(random.choice(("1", "2", "-1", "3")))
    return ":".join(ends) if roll < 0.95 else str(random.randrange(-3 * n - 1, 3 * n + 1))


def check(trace: Trace, parts: Parts, run: bool = False) -> None:
    """Hold what the pattern does against what it names; our errors are let through."""
    n, text = len(trace.tokens()), str(parts)
    fitting = [step for step in trace.steps if parts.fits(step)]
    named = {step.name: parts.cells_of(step, n) for step in fitting}
    sound = bool(named) and all(cells is not None for cells in named.values())
    sound = sound and any(cells.any() for cells in named.values())
    refused = None
    try:
        changed = dict(_applied(trace, text, n))
    except VesaliusError as error:
        refused = error
    if refused is not None:
        assert not sound, f"{text}: refused, but names cells of {[*named]}: {refused}"
        assert isinstance(refused, WrongLength if fitting else UnknownStep), f"{text}: {refused!r}"
        advice = fitting or re.search("did you mean|there are: ", str(refused))
        assert advice, f"{text}: {refused}"
        raise refused
    assert sound, f"{text}: taken, but names nothing"
    assert set(changed) == {step for step, cells in named.items() if cells.any()}, text
    for step, value in changed.items():
        before = np.where(named[step], VALUE, trace[step])
        np.testing.assert_array_equal(value, before, err_msg=text)
    if run:
        first, cells = next((step, cells) for step, cells in named.items() if cells.any())
        after = dissect(trace.model, trace.read_again, edit={text: VALUE})
        assert after.steps.edited == set(changed), text
        np.testing.assert_array_equal(after[first], np.where(cells, VALUE, trace[first]), text)


def _applied(trace: Trace, text: str, n: int) -> Iterator[tuple[str, np.ndarray]]:
    """What becomes of each step by itself, of those that change."""
    edits = Edits({text: VALUE}, n, lambda text, symbols: None)
    for step in trace.steps:
        value = edits.edited(step.symbol, step.place, step.value)
        if value is not step.value:
            yield step.name, value
    edits.finish(trace.names())


class EditPatterns:
    """Patterns of edits: sound ones change what they name, and damaged ones are refused."""

    def __init__(self, folder: Path) -> None:
        self.traces = [trace_of(family) for family in SMALL]

    def case(self, random: Random, place: Path):
        trace = random.choice(self.traces)
        parts = drawn(random, trace)
        (place / "pattern").write_text(f"{trace.family} {parts}")
        if random.random() < 0.8:
            return lambda: check(trace, parts, run=random.random() < 0.1)
        text = list(str(parts))
        for _ in range(random.choice((1, 1, 2, 4))):
            where = random.randrange(len(text) + 1)
            text[where : where + random.randrange(2)] = random.choice("[](),@:*-.0 9Pe\n٣")
        damaged = "".join(text)
        (place / "pattern").write_text(f"{trace.family} {damaged!r}", encoding="utf-8")
        return lambda: dict(_applied(trace, damaged, len(trace.tokens())))

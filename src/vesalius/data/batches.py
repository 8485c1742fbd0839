"""What training asks of data: the batch of any step, and batches to validate on.

A training batch is a function of the seed and the step alone. Nothing has to be remembered to go on
after a stop, and several processes that share a batch agree on what it is.
"""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array
from numpy.random import Generator

from vesalius.errors import UnusableData
from vesalius.machine.properties import cached_property

TRAINING, VALIDATION = 1, 2  # ends of random keys; without an end, the key is that of the shuffling

BUCKETS = 16
"""Batches that are drawn at once where their examples are to have similar lengths."""

Batch = dict[str, Array]
"""Arrays by name, all with the examples along their first axis."""


class Batches(Protocol):
    """Data in the form that one objective needs."""

    def train(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        """The validation part once, or ``most`` examples of it; always the same."""


def generator(*key: int) -> np.random.Generator:
    """Random numbers that belong to a key, such as a seed and a step."""
    return np.random.default_rng(key)


def shuffled(count: int, batch: int, step: int, seed: int) -> Array:
    """Which of ``count`` examples are in the batch of a step, all of them once an epoch.

    Examples that do not fill a batch at the end of an epoch wait for another order.
    """
    batch = min(batch, count)
    epoch, position = divmod(step, count // batch)
    order = _order(count, epoch, seed)
    return order[position * batch : (position + 1) * batch]


def bucketed(lengths: Sequence[int], batch: int, step: int, seed: int) -> Array:
    """As ``shuffled``, but the examples of a batch have similar lengths, which saves padding.

    Several batches are drawn at once, sorted by length, cut, and come in an order by chance.
    """
    count = len(lengths)
    batch = min(batch, count)
    drawn = min(BUCKETS, count // batch)
    turn, place = divmod(step, drawn)
    rows = shuffled(count, drawn * batch, turn, seed)
    rows = rows[np.argsort(np.asarray(lengths)[rows], kind="stable")]
    chosen = int(generator(seed, turn, BUCKETS).permutation(drawn)[place])
    return rows[chosen * batch : (chosen + 1) * batch]


def spread(count: int, most: int | None) -> Array:
    """Which of ``count`` examples to look at, if at ``most`` of them."""
    if most is None or count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> Array:
    return generator(seed, epoch).permutation(count)


Part = TypeVar("Part", bound=Sized)


class HasTokens(Protocol):
    """An example that is a sequence of tokens."""

    @property
    def ids(self) -> Sequence[int] | Array: ...


Example = TypeVar("Example", bound=HasTokens)


@dataclass(frozen=True, eq=False)
class Rows(Generic[Example]):
    """Examples that are sequences of tokens, each of a length of its own."""

    rows: Sequence[Example]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def lengths(self) -> list[int]:
        return [len(row.ids) for row in self.rows]


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoParts(Generic[Part]):
    """Examples to train on, in a new order every epoch, and examples to validate on, in theirs."""

    training: Part
    validation: Part
    batch: int
    seed: int = 0

    def train(self, step: int) -> Batch:
        rows = shuffled(len(self.training), self.batch, step, self.seed)
        return self.examples(self.training, rows, generator(self.seed, step, TRAINING))

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        chosen = spread(len(self.validation), most)
        for number, start in enumerate(range(0, len(chosen), self.batch)):
            rows = chosen[start : start + self.batch]
            yield self.examples(self.validation, rows, generator(self.seed, number, VALIDATION))

    def once(self) -> Iterator[Batch]:
        """The training part once, in its own order and as it is."""
        for number, start in enumerate(range(0, len(self.training), self.batch)):
            rows = np.arange(start, min(start + self.batch, len(self.training)))
            yield self.examples(self.training, rows, generator(self.seed, number, VALIDATION))

    def examples(self, part: Part, rows: Int[Array, " batch"], random: Generator) -> Batch:
        """Some examples of a part as a batch."""
        raise AssertionError("every kind of batch makes its own")


TokenRows = TypeVar("TokenRows", bound=Rows)  # type: ignore[type-arg]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bucketed(TwoParts[TokenRows]):
    """As ``TwoParts``, with training batches of examples that have similar lengths."""

    def train(self, step: int) -> Batch:
        rows = bucketed(self.training.lengths, self.batch, step, self.seed)
        return self.examples(self.training, rows, generator(self.seed, step, TRAINING))


def used_names(part: "Labelled") -> tuple[str, ...]:
    """The classes that some example has; a file's header may name more."""
    there = set() if part.labels is None else set(np.unique(part.labels).tolist())
    return tuple(name for number, name in enumerate(part.names) if number in there)


class Labelled(Protocol):
    """A part whose examples may have classes."""

    @property
    def labels(self) -> Array | None: ...
    @property
    def names(self) -> tuple[str, ...]: ...


def class_count(*parts: Labelled) -> int:
    """How many classes there are, in all parts together."""
    most = max(int(part.labels.max()) + 1 for part in parts if part.labels is not None)
    return max(most, *(len(part.names) for part in parts))


def require_labels(training: Labelled, validation: Labelled) -> None:
    """Refuse parts without labels, or whose labels are called differently."""
    for name, part in (("training", training), ("validation", validation)):
        if part.labels is None:
            raise UnusableData(f"the {name} part has no labels; expected a class for each example")
    if training.names != validation.names:
        raise UnusableData(
            f"the classes to train on are {', '.join(training.names) or 'without names'}, "
            f"those to validate on {', '.join(validation.names) or 'without names'}; "
            f"expected the same"
        )
    there, held = (_used(part) for part in (training, validation))
    if len(there) < 2:
        raise UnusableData(
            f"there is one class only to train on, {_called(training, there[0])}; expected two or "
            f"more, or there is nothing to tell apart"
        )
    if strange := [number for number in held if number not in there]:
        raise UnusableData(
            f"the class {_called(training, strange[0])} is to be validated on, but no example to "
            f"train on has it; expected each class on both sides"
        )


def _used(part: Labelled) -> list[int]:
    assert part.labels is not None
    found: list[int] = np.unique(part.labels).tolist()
    return found


def _called(part: Labelled, number: int) -> str:
    return repr(part.names[number]) if part.names else str(number)

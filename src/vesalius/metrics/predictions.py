"""What a model said of examples beside the truth, and what that comes to.

Every kind of answer has its own ``Predictions``. They write the file of errors, and give
``Metrics``, which may need scikit-learn.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from vesalius.checkpoints.plain import replacing
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Part

Row = tuple[object, ...]
WORDS = {"f1": "F1", "r2": "R²"}


class Share(float):
    """A part of a whole, which people read in per cent."""


def words(name: str) -> str:
    """What people call a metric."""
    return " ".join(WORDS.get(word, word) for word in name.split("_"))


def shown(number: float) -> str:
    """A metric for people, by its unit: shares in per cent, counts whole."""
    if isinstance(number, Share):
        return f"{number:.2%}"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.4f}"


class Metrics(Pictured):
    """Numbers over all examples, and a table of the parts that they fall into."""

    drawn: ClassVar[bool] = False
    """Whether there is a picture of it."""

    def numbers(self) -> dict[str, float]:
        """The numbers that people compare, by name."""
        raise AssertionError("every kind has its own")

    def to_json(self) -> dict[str, Any]:
        """The numbers and the tables, whole."""
        raise AssertionError("every kind has its own")

    def tables(self) -> Iterator[Part]:
        """What is shown beneath the numbers; of a long table, the worst rows."""
        yield from ()

    def view(self) -> Iterator[Part]:
        yield ", ".join(f"{name.replace('_', ' ')} {v:.4f}" for name, v in self.numbers().items())
        yield from self.tables()

    def _repr_html_(self) -> str:
        return super()._repr_html_() if self.drawn else super(Pictured, self)._repr_html_()


@dataclass(frozen=True, eq=False)
class Predictions:
    """Answers to examples, in their order."""

    heads: ClassVar[tuple[str, ...]] = ("input", "truth", "prediction", "probability")
    """Columns of the file of errors."""

    def metrics(self) -> Metrics:
        raise AssertionError("every kind has its own")

    def errors(self) -> Sequence[Row]:
        """The wrong answers, the most certain first."""
        raise AssertionError("every kind has its own")

    def write_errors(self, file: str | Path) -> int:
        """Write wrong answers as CSV, the most certain first; how many there are."""
        rows = self.errors()
        with (
            replacing(Path(file)) as place,
            place.open("w", newline="", encoding="utf-8") as out,
        ):
            table = csv.writer(out)
            table.writerow(self.heads)
            table.writerows(rows)
        return len(rows)


WORST = 10
"""Rows of a table that a terminal shows."""


def more(count: int, what: str) -> Iterator[str]:
    """What is said beneath a table of the worst rows."""
    if count > WORST:
        yield f"the {WORST} worst of {count:,} {what}; all are in the JSON"

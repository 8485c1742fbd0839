"""Where the paper and practice part ways, and which equations that concerns.

The entries are in errata.toml, in the order of the paper's sections. `Equation.errata`, the
command line, the page and docs/errata.md all read them from here.
"""

import dataclasses
import functools
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from vesalius.errors import UnknownEquation

KINDS = {
    "misprint": "at odds with the rest of the paper",
    "practice differs": "sound as printed, but models do something else",
    "left open": "what whoever writes the code has to decide",
    "fact": "a statement that is not so, or not always",
}


@dataclass(frozen=True)
class Erratum:
    """One place where paper and practice part ways. Code is in backquotes, as in Markdown."""

    number: str
    """E17: an erratum's for good, whatever is found later and wherever that stands."""
    kind: str
    """One of ``KINDS``."""
    place: str
    """The equations, or the section or table."""
    title: str
    equations: tuple[int | str, ...]
    """The equations that it is shown with: numbers, or names of formulas that have none."""
    paper: str
    """What is printed."""
    practice: str
    """What models do, or what is so."""
    code: str
    """What the functions of this package do."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"equations": list(self.equations)}


@functools.cache
def entries() -> tuple[Erratum, ...]:
    """All errata, in the order of the paper."""
    text = (files("vesalius.equations") / "errata.toml").read_text(encoding="utf-8")
    return tuple(_erratum(**entry) for entry in tomllib.loads(text)["errata"])


def _erratum(equations: list[int | str], **texts: str) -> Erratum:
    lines = {name: " ".join(text.split()) for name, text in texts.items()}
    return Erratum(equations=tuple(equations), **lines)


def of(number: int | None, name: str) -> tuple[Erratum, ...]:
    """The errata of an equation by its number, or of a formula by its function's name."""
    return tuple(erratum for erratum in entries() if (number or name) in erratum.equations)


def find(number: str) -> Erratum:
    """An erratum by its number, as E17."""
    for erratum in entries():
        if erratum.number == number.upper():
            return erratum
    raise UnknownEquation(
        f"there is no erratum {number}; they are numbered E1 to E{len(entries())}"
    )

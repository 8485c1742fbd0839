"""The register of equations: number, section, LaTeX, symbols, and the function itself.

What a reader could look up is not written twice: the title and the plain formula are the
docstring, the symbols and shapes are the signature, the meanings are the glossary.
"""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

from vesalius.equations import errata
from vesalius.equations.glossary import GLOSSARY, IN_PLACE
from vesalius.equations.rules import Rule
from vesalius.equations.tracing import tracer
from vesalius.errors import UnknownEquation, nearest

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Symbol:
    """One letter of an equation: what it means and how it is shaped."""

    name: str
    latex: str
    meaning: str
    shape: str


@dataclass(frozen=True)
class Equation:
    """One equation of the paper, or one formula that its text relies on (``number`` is None)."""

    number: int | None
    section: str
    latex: str
    gives: tuple[str, ...]
    """The symbols of the value, as the trace names them."""
    recorded: bool | tuple[str, ...]
    """Whether the trace keeps the value, or which of several: not where an equation inside or
    around this one does."""
    rules: tuple[Rule, ...]
    """How the numbers of each value are made of others."""
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def result(self) -> Callable[..., Any]:
        """What several values are returned in."""
        kind: Callable[..., Any] = typing.get_type_hints(inspect.unwrap(self.function))["return"]
        return kind

    @property
    def label(self) -> str:
        """``(28)``, the section of a formula without a number, or ``(P.3)`` beyond the paper."""
        if self.beyond:
            return f"({self.section})"
        return f"({self.number})" if self.number else f"§{self.section}"

    @property
    def beyond(self) -> bool:
        """Whether it is not the paper's own: its section is a label, as P.3 or L.1."""
        return self.section[0].isalpha()

    @property
    def home(self) -> str:
        """Where it stands: a section of the paper, or not in it."""
        return "Beyond the paper" if self.beyond else f"Section {self.section}"

    @cached_property
    def _paragraphs(self) -> list[str]:
        return (inspect.getdoc(self.function) or "").split("\n\n")

    @property
    def title(self) -> str:
        return self._paragraphs[0].rstrip(".")

    @property
    def plain(self) -> str:
        """The formula in plain characters, for terminals."""
        return self._paragraphs[1] if len(self._paragraphs) > 1 else ""

    @property
    def remarks(self) -> str:
        return "\n\n".join(self._paragraphs[2:])

    @property
    def source(self) -> tuple[str, int]:
        """File, relative to the package's parent folder, and line of the function."""
        function = inspect.unwrap(self.function)
        return function.__module__.replace(".", "/") + ".py", function.__code__.co_firstlineno

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """What goes in, parameter sets spelled out, and what comes out."""
        function = inspect.unwrap(self.function)
        hints = typing.get_type_hints(function)
        result = hints.pop("return", None)
        found = [self._symbol(*pair) for item in hints.items() for pair in _spelled_out(*item)]
        outputs = typing.get_type_hints(result) if hasattr(result, "_fields") else {"": result}
        found += map(self._symbol, self.gives, outputs.values())
        return tuple({symbol.name: symbol for symbol in found}.values())

    @property
    def errata(self) -> tuple[errata.Erratum, ...]:
        """Where the paper and practice part ways about it."""
        return errata.of(self.number, self.name)

    def _symbol(self, name: str, hint: Any) -> Symbol:
        section = self.section[0] if self.beyond else self.section  # P of P.3
        places = (IN_PLACE.get(self.name, {}), IN_PLACE.get(section, {}), GLOSSARY)
        latex, meaning = next((place[name] for place in places if name in place), (name, ""))
        return Symbol(name, latex, meaning, _shape(hint))

    def to_json(self) -> dict[str, Any]:
        file, line = self.source
        return {
            "number": self.number,
            "name": self.name,
            "title": self.title,
            "section": self.section,
            "latex": self.latex,
            "plain": self.plain,
            "remarks": self.remarks,
            "symbols": [dataclasses.asdict(symbol) for symbol in self.symbols],
            "errata": [erratum.to_json() for erratum in self.errata],
            "source": f"{file}:{line}",
        }


def _spelled_out(name: str, hint: Any) -> Iterator[tuple[str, Any]]:
    """An argument, followed by the arrays that its parameter set holds itself, if it is one."""
    yield name, hint
    for part in _alternatives(hint):
        inner = typing.get_args(part)[0] if typing.get_origin(part) is tuple else part
        if dataclasses.is_dataclass(inner):
            yield from ((n, h) for n, h in typing.get_type_hints(inner).items() if _shape(h))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _shape(hint: Any) -> str:
    """``d_e × n`` from the annotation ``Float[Array, "d_e n"]``."""
    for part in _alternatives(hint):
        if hasattr(part, "dim_str"):
            axes = ["|V|" if axis == "V" else axis for axis in part.dim_str.split()]
            fixed = " × ".join(axis for axis in axes if not axis.startswith("*"))
            # "d_e *n" is one vector or a matrix of n of them.
            return (
                f"{fixed} (× n)" if fixed and len(axes) > fixed.count("×") + 1 else fixed or "any"
            )
    return ""


REGISTRY: dict[str, Equation] = {}
"""All equations and formulas by function name, in the order of the paper's sections."""


def equation(
    number: int | None,
    section: str,
    latex: str,
    gives: str | tuple[str, ...] = (),
    recorded: bool | tuple[str, ...] = True,
    rule: Rule | tuple[Rule, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a function as an equation and let the trace see what it ``gives``."""

    def register(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def traced(*args: P.args, **kwargs: P.kwargs) -> R:
            if (open_tracer := tracer()) is None:
                return function(*args, **kwargs)
            known: R | None = open_tracer.given(entry)
            if known is not None:
                return known
            return open_tracer.record(entry, function(*args, **kwargs))

        symbols = (gives,) if isinstance(gives, str) else gives
        rules = (rule,) if isinstance(rule, Rule) else rule
        entry = Equation(number, section, latex, symbols, recorded, rules, traced)
        assert entry.name not in REGISTRY, f"{entry.name} is registered twice"
        REGISTRY[entry.name] = entry
        return traced

    return register


def formula(
    section: str,
    latex: str,
    gives: str | tuple[str, ...] = (),
    rule: Rule | tuple[Rule, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a formula that the paper's text relies on without numbering it."""
    return equation(None, section, latex, gives, rule=rule)


def numbered() -> list[Equation]:
    """The paper's equations in the order of their numbers."""
    return sorted((e for e in REGISTRY.values() if e.number), key=lambda e: e.number or 0)


def unnumbered() -> list[Equation]:
    """The formulas without a number, in the order of the paper's sections, and those beyond it."""

    def place(entry: Equation) -> tuple[bool, str, int]:
        section, _, number = entry.section.partition(".")
        return entry.beyond, section, int(number)

    return sorted((e for e in REGISTRY.values() if not e.number), key=place)


def find(key: int | str) -> Equation:
    """An equation by its number, or by the name of its function."""
    text = str(key).strip("()")
    if text in REGISTRY:
        return REGISTRY[text]
    for entry in REGISTRY.values():
        if str(entry.number) == text or (entry.beyond and entry.section == text):
            return entry
    if text.lstrip("-").isdigit():
        raise UnknownEquation(f"there is no equation {text}; the paper numbers them from 1 to 67")
    raise UnknownEquation(f"there is no equation {text!r}; {nearest(text, REGISTRY)}")

"""The register of equations: number, section, LaTeX, symbols, and the function itself.

What a reader could look up is not written twice: the title and the plain formula are the
docstring, the symbols and shapes are the signature, the meanings are the glossary.
"""

import ast
import dataclasses
import functools
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from vesalius.equations import errata
from vesalius.equations.glossary import GLOSSARY, IN_PLACE, KNOWN_AS, WRITTEN_AS
from vesalius.equations.rules import Rule
from vesalius.equations.tracing import tracer
from vesalius.errors import UnknownEquation, nearest
from vesalius.machine.cancellation import check
from vesalius.machine.properties import cached_property

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Symbol:
    """One letter of an equation: what it means and how it is shaped."""

    name: str
    latex: str
    meaning: str
    shape: str
    known_as: str = ""
    """What other works call it, where that is another name or letter."""


@dataclass(frozen=True)
class Wording:
    """A formula as it is written for one model."""

    latex: str
    plain: str


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
    wordings: Mapping[str, Wording] = field(default_factory=dict)
    """How it is written where a symbol of the model, such as ``zeta``, is true."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its function's name: there is one of each in a process."""
        return _of, (self.function,)

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
        return _docstring(self.function).split("\n\n")

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

    def written_for(self, symbols: Mapping[str, Any]) -> Wording:
        """The formula of a model, by its symbols: its biases, normalisation and activation.

        The paper writes layerNorm and GELU for all.
        """
        fitting = (wording for name, wording in self.wordings.items() if symbols.get(name))
        wording = next(fitting, Wording(self.latex, self.plain))
        latex, plain = wording.latex, wording.plain
        for general, (symbol, names) in WRITTEN_AS.items():
            if self.latex.startswith(rf"\mathrm{{{general}}}"):
                continue  # its definition
            kind = symbols.get(symbol)
            name = general if kind is None else names.get(kind, kind)
            latex = latex.replace(rf"\mathrm{{{general}}}", rf"\mathrm{{{name}}}")
            plain = plain.replace(general, name)
        return Wording(latex, plain)

    @property
    def source(self) -> tuple[str, int]:
        """File, relative to the package's parent folder, and line of the function."""
        function = inspect.unwrap(self.function)
        return function.__module__.replace(".", "/") + ".py", function.__code__.co_firstlineno

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """What goes in, parameter sets spelled out as far as they are used, and what comes out."""
        function = inspect.unwrap(self.function)
        hints = typing.get_type_hints(function)
        result = hints.pop("return", None)
        outputs = typing.get_type_hints(result) if hasattr(result, "_fields") else {"": result}
        axes = _axes_of_sets(hints, result)
        found = [
            self._symbol(name, _shape(hint, axes))
            for item in hints.items()
            for name, hint in _spelled_out(*item, function)
        ]
        shapes = map(_shape, outputs.values())
        found += (self._symbol(*pair) for pair in zip(self.gives, shapes, strict=False))
        return tuple({symbol.name: symbol for symbol in found}.values())

    @property
    def errata(self) -> tuple[errata.Erratum, ...]:
        """Where the paper and practice part ways about it."""
        return errata.of(self.number, self.name)

    def _symbol(self, name: str, shape: str) -> Symbol:
        section = self.section[0] if self.beyond else self.section  # P of P.3
        places = (IN_PLACE.get(self.name, {}), IN_PLACE.get(section, {}), GLOSSARY)
        latex, meaning = next((place[name] for place in places if name in place), (name, ""))
        known_as = KNOWN_AS.get(section, {}).get(name, "")
        return Symbol(name, latex, meaning, shape, known_as)

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


def _spelled_out(name: str, hint: Any, function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """An argument, followed by the arrays of its parameter set that the function uses."""
    yield name, hint
    for part in _alternatives(hint):
        inner = typing.get_args(part)[0] if typing.get_origin(part) is tuple else part
        if dataclasses.is_dataclass(inner):
            hints, fields = typing.get_type_hints(inner), dataclasses.fields(inner)
            # The statistics of batch normalisation are not the paper's layerNorm, even where a
            # function serves both: they are listed where it reads them itself.
            statistics = {f.name for f in fields if not f.metadata.get("trained", True)}
            used = _reads(function) - statistics
            used |= statistics if statistics <= {*function.__code__.co_names} else set()
            yield from ((own, hints[own]) for own in hints if own in used and _shape(hints[own]))


@functools.cache
def _reads(function: Callable[..., Any]) -> set[str]:
    """The names that a function looks up, and those that the equations it calls do."""
    names, functions = set[str](), [function]
    for one in functions:
        looked_up, codes = set[str](), [one.__code__]
        for code in codes:
            looked_up.update(code.co_names)
            codes += (inner for inner in code.co_consts if isinstance(inner, types.CodeType))
        named = (inspect.unwrap(one.__globals__.get(name, object)) for name in looked_up - names)
        functions += (
            called
            for called in named
            if inspect.isfunction(called)
            and called.__module__.startswith("vesalius.equations.")
            and called not in functions
        )
        names |= looked_up
    return names


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _axes_of_sets(hints: dict[str, Any], result: Any) -> dict[str, str]:
    """What d_out and d_in of a dense layer are: the first axes of the result and of what it reads.

    None where the function is for layers of any width, or for several.
    """
    read = [hint.dim_str.split()[0] for hint in hints.values() if hasattr(hint, "dim_str")]
    sets = [hint for hint in hints.values() if dataclasses.is_dataclass(hint)]
    if len(sets) != 1 or len(read) != 1 or not hasattr(result, "dim_str"):
        return {}
    return {"d_out": result.dim_str.split()[0], "d_in": read[0]}


def _shape(hint: Any, axes: dict[str, str] | None = None) -> str:
    """``d_e × n`` from the annotation ``Float[Array, "d_e n"]``.

    An axis that need not be there is in brackets: ``"d_e *n"`` is one vector or a matrix of n.
    """
    shapes = [part.dim_str.split() for part in _alternatives(hint) if hasattr(part, "dim_str")]
    if not shapes:
        return ""
    # Of a vector and a matrix, as of one-hot columns, the annotation for both is the wider one.
    names = max(shapes, key=lambda shape: sum(axis.startswith("*") for axis in shape))
    shown = [_axis(axis, axes or {}) for axis in names]
    if all(axis.startswith("*") for axis in names):
        return "any"
    text = " × ".join(shown)
    return text.replace(") × ", " ×) ").replace(" × (", " (× ")


def _docstring(function: Callable[..., Any]) -> str:
    """A function's docstring; from its source where ``python -OO`` dropped it."""
    if found := inspect.getdoc(function):
        return found
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:  # of a program that is packed without its source
        return ""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    return ast.get_docstring(definition) or ""


def _axis(axis: str, axes: dict[str, str]) -> str:
    if axis.startswith("*"):
        return "(n)"
    axis = axes.get(axis, axis)
    return "|V|" if axis == "V" else axis


REGISTRY: dict[str, Equation] = {}
"""All equations and formulas by function name, in the order of the paper's sections."""


def _of(function: Callable[..., Any]) -> Equation:
    return REGISTRY[function.__name__]


def equation(
    number: int | None,
    section: str,
    latex: str,
    gives: str | tuple[str, ...] = (),
    recorded: bool | tuple[str, ...] = True,
    rule: Rule | tuple[Rule, ...] = (),
    wordings: Mapping[str, Wording] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a function as an equation and let the trace see what it ``gives``."""

    def register(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def traced(*args: P.args, **kwargs: P.kwargs) -> R:
            check()
            if (open_tracer := tracer()) is None:
                return function(*args, **kwargs)
            known: R | None = open_tracer.given(entry)
            if known is not None:
                return known
            return open_tracer.record(entry, function(*args, **kwargs))

        symbols = (gives,) if isinstance(gives, str) else gives
        rules = (rule,) if isinstance(rule, Rule) else rule
        about = (number, section, latex, symbols, recorded, rules, traced, wordings or {})
        entry = Equation(*about)
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

"""What parameter sets say of themselves: their members, their dimensions, what in them is optional.

All of it comes from the dataclasses of ``equations.parameters``: names of fields, shapes in
annotations, and the setting under which an array is there. Nothing is written here again.
"""

import dataclasses
import re
import typing
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Any, NamedTuple

from vesalius.figures.subject import Subject, times

NAMES = {
    "V": "|V|",
    "P2C": "P²C",
    "n_max": "n",
    "Md_v": "M d_v",
    "nd_e": "n d_e",
    "segments": "s",
    "two": "2",
    "labels": "|Y|",
    "classes": "|Y|",
}
"""Dimensions whose names in the code are not the paper's letters."""
FEW = 4
"""Members of one kind that are all named; of more, the first and the last."""


class Dims(NamedTuple):
    """What stands at the left of a figure: dimensions in letters and in numbers, and of what."""

    letters: str = ""
    numbers: str = ""
    of: tuple[str, ...] = ()
    """The arrays that have them; none where a state is measured."""


NONE = Dims()


class _Letter(str):
    """A dimension's name, of which products can be written."""

    def __mul__(self, other: Any) -> "_Letter":
        return _Letter(f"{self} {other}")


class _Letters(dict[str, Any]):
    """Every dimension by its own name, in place of its number."""

    def __missing__(self, name: str) -> _Letter:
        return _Letter(name)


def dims(s: Subject, path: str, more: str = "") -> Dims:
    """Of an array; with ``more``, of two that read inputs of their own and give one output."""
    shape = s.shape(path)
    if shape is None:
        return Dims()
    if not more:
        return Dims(" × ".join(letters(s, path)), times(*shape), (path,))
    (out, first), (_, second) = letters(s, path), letters(s, more)
    other = s.shape(more) or (0, 0)
    numbers = times(shape[0], shape[1] + other[1])
    return Dims(f"{out} × ({first} + {second})", numbers, (path, more))


def repeated(many: str, number: int, found: Dims, of: Sequence[str] = ()) -> Dims:
    """The same dimensions ``number`` times over: those of every head, or of every gate."""
    return Dims(f"{many} × {found.letters}", f"{number:,} × {found.numbers}", tuple(of) or found.of)


def letters(s: Subject, path: str) -> list[str]:
    """The dimensions of an array in letters, as its annotation says them."""
    symbols: dict[str, Any] = _Letters()
    axes: list[str] = []
    for name, field, hint in _fields(s, path):
        if given := field.metadata.get("given"):
            index = re.search(r"\[(\d+)\]", name)
            made = given(symbols, int(index[1]) if index else 2)
            symbols = _Letters(symbols | {k: v for k, v in made.items() if k in ("d_out", "d_in")})
        axes = getattr(hint, "dim_str", "").split()
    return [_spelled(s, str(symbols[axis])) for axis in axes]


def _spelled(s: Subject, axis: str) -> str:
    if axis == "V_U":
        return "|V|" if s["V_U"] == s["V"] else "(|V| − 1)"
    if axis in ("outputs", "read"):  # one value per class or channel, from one step or from all
        series = s["series"]
        return {"outputs": "C" if series else "|Y|", "read": "d_e" if series else "n d_e"}[axis]
    return NAMES.get(axis, axis)


def is_optional(s: Subject, path: str) -> bool:
    """Whether it is one of attention's biases, which ζ counts (40) and the paper sets in brown."""
    *_, (_, field, _) = _fields(s, path)
    return str(field.metadata.get("when")).startswith("zeta")


def tone(s: Subject, path: str) -> str:
    """The colour of a parameter's letter."""
    return "bias" if is_optional(s, path) else "parameter"


def _fields(s: Subject, path: str) -> "Iterator[tuple[str, dataclasses.Field[Any], Any]]":
    """The fields that a path goes through: name, field and annotation of each."""
    kind: Any = s.family.parameters.get()
    for name in path.split("."):
        plain = name.partition("[")[0]
        field = next(one for one in dataclasses.fields(kind) if one.name == plain)
        hint = typing.get_type_hints(kind)[plain]
        if isinstance(hint, UnionType):
            hint = next(one for one in typing.get_args(hint) if one is not NoneType)
        kind = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
        yield name, field, kind


def members(s: Subject, path: str) -> tuple[str, ...]:
    """The paths of what a set holds, in its own order; ``theta`` is the whole model."""
    start = "" if path == "theta" else f"{path}."
    held = s.known(start)
    if path == "Phi":
        return tuple(f"Phi[{l}]" for l in range(1, s["L"] + 1))
    names = [one[len(held) :].split(".")[0] for one in s.shapes if one.startswith(held)]
    found: list[str] = []
    for name in dict.fromkeys(names):
        if name.startswith("Psi["):
            found += [f"{start}Psi[{m}]" for m in range(1, s["M"] + 1)]
        else:
            found.append("Phi" if name.startswith("Phi[") else start + name)
    return tuple(dict.fromkeys(found))


def listed(s: Subject, paths: Sequence[str]) -> list[str]:
    """The members' letters; of many layers or heads the first and the last."""
    found: list[str] = []
    for kind in dict.fromkeys(re.sub(r"\[\d+\]$", "", path) for path in paths):
        alike = [path for path in paths if re.sub(r"\[\d+\]$", "", path) == kind]
        names = [s.letter(path) for path in alike]
        found += names if len(names) <= FEW else [names[0], "…", names[-1]]
    return found

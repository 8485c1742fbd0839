"""Reading and writing another library's tensors by a table of names; tables are in ``libraries``.

Each row is (our name, their name, transform). A row that is missing, unknown or misshapen is an
error that lists every such row; nothing is ever initialised on the side.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from vesalius.checkpoints import layout
from vesalius.checkpoints.layout import Shape
from vesalius.equations.parameters import Array
from vesalius.errors import CheckpointMismatch
from vesalius.families.config import Config

IGNORE = "unexpected tensors are passed over with --ignore-extra (ignore_extra=True in Python)"


WRAPPERS = ("module.", "model.", "_orig_mod.", "_forward_module.")
"""What training in parallel, a compiler or a trainer put before the name of every tensor."""


@dataclass(frozen=True)
class Transform:
    """How one of our arrays is seen in theirs, and how theirs is made of ours.

    Several of our arrays may share one of theirs: each is then a ``part`` of it along ``axis``.
    """

    name: str
    to_ours: Callable[[Array], Array]
    to_theirs: Callable[[Array], Array]
    part: int | None = None
    axis: int = -1


SAME = Transform("the same", lambda a: a, lambda a: a)
TRANSPOSED = Transform("transposed", lambda a: a.T, lambda a: a.T)
ROW = Transform("without its first axis", lambda a: a[0], lambda a: a[None])
ENTRY = Transform("without its first two axes", lambda a: a[0, 0], lambda a: a[None, None])


def third(k: int, kind: str) -> Transform:
    """The k-th third of the fused queries, keys and values; a weight's is transposed."""
    which = f"{('first', 'second', 'last')[k]} third"
    return Transform(
        f"{which} of the columns, transposed" if kind == "weight" else which,
        lambda a: a[..., k * (a.shape[-1] // 3) : (k + 1) * (a.shape[-1] // 3)].T,
        lambda a: a.T,
        part=k,
    )


def kernel(patch: int) -> Transform:
    """A convolution over patches; ours has the colours of a pixel together."""
    return Transform(
        "colours last, flattened",
        lambda a: a.transpose(0, 2, 3, 1).reshape(len(a), -1),
        lambda a: a.reshape(len(a), patch, patch, -1).transpose(0, 3, 1, 2),
    )


def restoring(patch: int) -> Transform:
    """Rows that restore a patch's pixels, as a convolution of 1 x 1; ours have the colours last."""
    return Transform(
        "colours last, without its last two axes",
        lambda a: (
            a.reshape(-1, patch, patch, *a.shape[1:2]).transpose(1, 2, 0, 3).reshape(a.shape[:2])
        ),
        lambda a: (
            a.reshape(patch, patch, -1, a.shape[1]).transpose(2, 0, 1, 3).reshape(*a.shape, 1, 1)
        ),
    )


def restoring_bias(patch: int) -> Transform:
    """The biases of these rows."""
    return Transform(
        "colours last",
        lambda a: a.reshape(-1, patch, patch).transpose(1, 2, 0).reshape(-1),
        lambda a: a.reshape(patch, patch, -1).transpose(2, 0, 1).reshape(-1),
    )


@dataclass(frozen=True)
class Row:
    """One row of the table; l counts layers from zero in both."""

    ours: str
    theirs: str
    transform: Transform = SAME


def both(ours: str, theirs: str) -> list[Row]:
    """A weight and its bias, the same on both sides."""
    return [Row(f"{ours}.{kind}", f"{theirs}.{kind}") for kind in ("weight", "bias")]


def own_rows(config: Config) -> list[Row]:
    """The table of our own layout: every name is its own."""
    return [Row(name, name) for name in layout.shapes(config)]


def spread(rows: Sequence[Row], config: Config) -> list[Row]:
    """The rows that a configuration has, one for every layer."""
    wanted = layout.shapes(config)
    found = []
    for row in rows:
        for l in range(config.symbols()["L"] if "{l}" in row.ours else 1):
            ours, theirs = row.ours.format(l=l), row.theirs.format(l=l)
            if ours in wanted:
                found.append(Row(ours, theirs, row.transform))
    return found


def unwrapped(names: Iterable[str]) -> dict[str, str]:
    """Each name without the ``WRAPPERS`` that all of them begin with."""
    plain = {name: name for name in names}
    while plain:
        wrapper = next((w for w in WRAPPERS if all(n.startswith(w) for n in plain.values())), None)
        if wrapper is None:
            break
        plain = {name: inner.removeprefix(wrapper) for name, inner in plain.items()}
    return plain


def read_state(
    config: Config,
    rows: Sequence[Row],
    theirs: Mapping[str, Array],
    tied: Mapping[str, str],
    advice: Mapping[str, str] = MappingProxyType({}),
    ignore_extra: bool = False,
    described: str = "config.json",
) -> dict[str, Array]:
    """Our state as views of their tensors; every row that does not fit is listed, those of all
    layers together.

    ``tied`` names tensors of theirs that repeat another: they must be equal to it. ``advice``
    explains tensors in errors, by patterns of their names. ``ignore_extra`` passes over tensors
    without a row. ``described`` is what says the shapes that are expected.
    """

    def known(name: str) -> str:
        found = (said for pattern, said in advice.items() if re.fullmatch(pattern, name))
        return next((f" ({said})" for said in found), "")

    plain = unwrapped(theirs)
    theirs, rows = {plain[name]: array for name, array in theirs.items()}, spread(rows, config)
    names = {row.theirs for row in rows}
    problems: list[tuple[str, str, str]] = []
    for copy, original in tied.items():
        if copy in theirs and copy not in names:
            if original in theirs and not np.array_equal(theirs[copy], theirs[original]):
                tie = f" differs from {original}, to which it should be tied{known(copy)}"
                problems.append(("", copy, tie))
            del theirs[copy]
    missing = sorted(names - set(theirs))
    problems += [("missing: ", name, known(name)) for name in missing]
    extra = [] if ignore_extra else sorted(set(theirs) - names)
    problems += [("unexpected: ", name, known(name)) for name in extra]
    state, wanted = {}, layout.shapes(config)
    shares: dict[str, list[Row]] = {}
    for row in rows:
        shares.setdefault(row.theirs, []).append(row)
    for row in rows:
        if row.theirs not in theirs:
            continue
        array, expected = theirs[row.theirs], their_shape(shares[row.theirs], wanted)
        if array.shape == expected[::-1] != expected:
            shapes = f" is {array.shape}, expected {expected}"
            problems.append(("transposed: ", row.theirs, shapes))
        elif array.shape != expected:
            shapes = f" is {array.shape}, expected {expected}"
            problems.append(("misshapen: ", row.theirs, shapes))
        elif array.dtype.kind != "f":
            problems.append(("not floating point: ", row.theirs, f" is {array.dtype}"))
        else:
            state[row.ours] = row.transform.to_ours(array)
    if unique := list(dict.fromkeys(problems)):
        remedy = f"; {IGNORE}" if extra else ""
        remedy += _common(names, extra)
        told = "; ".join(_grouped(unique))
        raise CheckpointMismatch(
            f"the tensors do not fit {described} ({len(unique)}): {told}{remedy}"
        )
    assert set(state) == set(wanted), f"the table lacks {set(wanted) - set(state)}"
    return state


def _grouped(problems: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Problems in words; what layers repeat is one."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for kind, name, detail in problems:
        groups.setdefault((kind, every_layer(name), detail), []).append(name)
    for (kind, pattern, detail), names in groups.items():
        times = f", {len(names)} times" if len(names) > 1 else ""
        yield f"{kind}{pattern if times else names[0]}{detail}{times}"


def every_layer(name: str) -> str:
    """A tensor's name with a star for the number of its layer."""
    return re.sub(r"\.\d+\.", ".*.", name)


def _common(names: Collection[str], extra: Sequence[str]) -> str:
    """Advice where all that is unexpected begins alike, and what follows is expected."""
    starts = [extra[0][:k] for k in range(1, len(extra[0]))] if extra else []
    starts = [start for start in starts if all(name.startswith(start) for name in extra)]
    fitting = {s: sum(name.removeprefix(s) in names for name in extra) for s in starts}
    best = max(fitting, key=lambda s: fitting[s], default="")
    if not best or 2 * fitting[best] <= len(extra):
        return ""
    return f"; the names begin with {best!r}, without which {fitting[best]} of them are expected"


def their_shape(shares: Sequence[Row], wanted: Mapping[str, Shape]) -> Shape:
    """The shape that a tensor of theirs must have, worked out on arrays of no memory."""
    nothing = np.float32(0)
    pieces = [r.transform.to_theirs(np.broadcast_to(nothing, wanted[r.ours])).shape for r in shares]
    axis, joined = shares[0].transform.axis, list(pieces[0])
    if shares[0].transform.part is not None:
        joined[axis] = sum(piece[axis] for piece in pieces)
    return tuple(joined)


def write_state(
    config: Config, rows: Sequence[Row], state: Mapping[str, Array]
) -> dict[str, Array]:
    """Their tensors from our state."""
    pieces: dict[str, list[tuple[int, int, Array]]] = {}
    for row in spread(rows, config):
        transform = row.transform
        piece = (transform.part or 0, transform.axis, transform.to_theirs(state[row.ours]))
        pieces.setdefault(row.theirs, []).append(piece)
    return {
        name: parts[0][2]
        if len(parts) == 1
        else np.concatenate([a for _, _, a in sorted(parts, key=lambda p: p[0])], parts[0][1])
        for name, parts in pieces.items()
    }

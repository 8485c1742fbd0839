"""How the tensors of a file fit a configuration, from names, shapes and dtypes: headers are read.

Every tensor is given its place: our name, the paper's symbol, and whether it is a parameter.
Missing, unexpected and misshapen tensors are listed with their parameters: these add up to the
difference between the file's count and the formula's. So are tensors of whole numbers.
Weights that are absent, pickled or damaged are said to be that.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vesalius.checkpoints import files, huggingface, layout, tables
from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.plain import read_json
from vesalius.errors import VesaliusError
from vesalius.families import family_of
from vesalius.families.config import Config

HARMLESS = ("buffer", "tied copy", "statistics")
"""Differences in number that are none in meaning: a model with them loads."""
STATISTICS = (".running_mean", ".running_var")


@dataclass(frozen=True)
class Difference:
    """One tensor by which a file differs from the formula."""

    kind: str
    """missing, unexpected, transposed, misshapen, not floating point, or one of ``HARMLESS``."""
    tensor: str
    held: Shape | None
    expected: Shape | None
    numbers: int
    """How many more numbers the file holds for it than the formula counts."""
    dtype: str = ""
    """What the file holds, where that is not floating point."""

    @property
    def harmless(self) -> bool:
        return self.kind in HARMLESS

    def __str__(self) -> str:
        held, expected = (_product(s) for s in (self.held, self.expected))
        match self.kind:
            case "missing":
                return f"missing: {self.tensor}, {expected}"
            case "transposed" | "misshapen":
                return f"{self.kind}: {self.tensor} is {held}, expected {expected}"
            case "not floating point":
                return f"not floating point: {self.tensor} is {self.dtype}"
            case "tied copy":
                return f"tied copy, by config.json: {self.tensor}, {held}"
        return f"{self.kind}: {self.tensor}, {held}"


@dataclass(frozen=True)
class Place:
    """What a tensor of a file is."""

    names: tuple[str, ...]
    """Ours; several where a tensor holds several of our arrays."""
    symbols: tuple[str, ...]
    """The paper's; l counts layers from one, m heads."""
    role: str = "parameter"
    """parameter, or the kind of its ``Difference``."""


def fit(
    config: Config, own: bool, held: Mapping[str, tuple[Shape, str]]
) -> tuple[dict[str, Place], tuple[Difference, ...]]:
    """How tensors of these shapes and dtypes fit a configuration, in our layout or in Hugging
    Face's: the place of every tensor, and all differences.
    """
    wanted = layout.shapes(config)
    if own:
        rows, tied, plain = tables.own_rows(config), {}, tables.unwrapped(held)
    else:
        dialect = huggingface.dialect_of(config)
        rows, tied = tables.spread(dialect.rows(config), config), dialect.tied
        plain = huggingface.plain_names(dialect, held)
    shares: dict[str, list[tables.Row]] = {}
    for row in rows:
        shares.setdefault(row.theirs, []).append(row)
    places, found = {}, []
    for name, (shape, dtype) in held.items():
        known = plain.get(name, name)
        parts = [row.ours for row in shares.get(known, ())]
        role, expected = "parameter", None
        if name not in plain:
            role = "buffer"
        elif parts:
            expected = tables.their_shape(shares[known], wanted)
            role = "statistics" if parts[0].endswith(STATISTICS) else role
            turned = "transposed" if shape == expected[::-1] else "misshapen"
            exact = "not floating point" if dtype not in files.WIDTH else role
            role = turned if shape != expected else exact
        elif known in tied:
            role = "tied copy"
            parts = [row.ours for row in shares.get(tied[known], ())]
        else:
            role = "unexpected"
        places[name] = Place(tuple(parts), tuple(_symbols(config, parts)), role)
        if role != "parameter":
            counted = _counted(known, expected)
            more = math.prod(shape) - counted
            odd = dtype if role == "not floating point" else ""
            found.append(Difference(role, name, shape, expected, more, odd))
    for name in sorted(shares.keys() - set(plain.values())):
        expected = tables.their_shape(shares[name], wanted)
        found.append(Difference("missing", name, None, expected, -_counted(name, expected)))
    return places, tuple(found)


def _counted(name: str, expected: Shape | None) -> int:
    """What the formula counts of a tensor: not what training only gathers."""
    return 0 if expected is None or name.endswith(STATISTICS) else math.prod(expected)


def _symbols(config: Config, names: Iterable[str]) -> Iterable[str]:
    """The paper's symbols of arrays of ours."""
    for name in names:
        layer = re.search(r"\.(\d+)\.", name)
        pattern = re.sub(r"\.\d+\.", ".{l}.", name, count=1)
        for row in family_of(config).layout.get():
            if row.name == pattern:
                number = str(int(layer.group(1)) + 1) if layer else ""
                yield row.symbol.replace("[l]", f"[{number}]")


def grouped(differences: Iterable[Difference]) -> list[tuple[str, int]]:
    """Differences in words with their numbers; what every layer repeats is one."""
    groups: dict[tuple[Any, ...], list[Difference]] = {}
    for each in differences:
        pattern = tables.every_layer(each.tensor)
        alike = (each.kind, pattern, each.held, each.expected, each.dtype)
        groups.setdefault(alike, []).append(each)
    return [
        (
            str(alike[0] if len(alike) == 1 else replace(alike[0], tensor=pattern))
            + (f", {len(alike)} times" if len(alike) > 1 else ""),
            sum(each.numbers for each in alike),
        )
        for (_, pattern, *_), alike in groups.items()
    ]


def _product(shape: Shape | None) -> str:
    return " × ".join(map(str, shape or ())) or "one number"


@dataclass(frozen=True)
class Held:
    """The numbers in a folder's weights."""

    files: tuple[str, ...]
    tensors: int
    total: int
    """All numbers in all tensors, trained or not."""
    bytes: int
    dtypes: dict[str, int]
    """How many numbers the files hold in each precision."""
    differences: tuple[Difference, ...]
    """Their ``numbers`` add up to ``total`` less what the formula counts."""
    problem: str = ""
    """Why nothing could be read."""

    @property
    def fits(self) -> bool:
        """Whether the weights are those of the configuration, so that the model loads."""
        return not self.problem and all(difference.harmless for difference in self.differences)

    def lines(self, formula: int) -> list[str]:
        """The same in words; ``formula`` is what the formula counts."""
        if self.problem:
            return [f"Counted by config.json alone: {self.problem}"]
        many = f"{len(self.files)} files" if len(self.files) > 1 else self.files[0]
        precisions = " and ".join(
            dtype if len(self.dtypes) == 1 else f"{numbers:,} in {dtype}"
            for dtype, numbers in self.dtypes.items()
        )
        more = self.total - formula
        than = "more than" if more > 0 else "fewer than"
        even = "as many as the formula, but:" if self.differences else "as the formula says"
        verdict = f"{abs(more):,} {than} the formula" if more else even
        said = f"{many}: {self.total:,} numbers in {self.tensors} tensors, {precisions}; {verdict}"
        groups = grouped(self.differences)
        width = max((len(f"{n:+,}") for _, n in groups), default=0)
        return [said, *(f"{f'{n:+,}':>{width}}  {words}" for words, n in groups)]

    def to_json(self) -> dict[str, Any]:
        differences = [asdict(difference) for difference in self.differences]
        return {**self.__dict__, "differences": differences, "fits": self.fits}


def held(folder: Path, config: Config) -> Held:
    """What a folder holds for this configuration."""
    try:
        stored = files.headers(folder)
        if not stored:
            raise files.without_weights(folder)
    except VesaliusError as error:
        return Held((), 0, 0, 0, {}, (), str(error))
    own = "vesalius" in read_json(folder / "config.json")
    dtypes: Counter[str] = Counter()
    for tensor in stored:
        dtypes[tensor.dtype] += tensor.size
    _, differences = fit(
        config, own, {tensor.name: (tensor.shape, tensor.dtype) for tensor in stored}
    )
    return Held(
        tuple(sorted({tensor.file for tensor in stored})),
        len(stored),
        sum(tensor.size for tensor in stored),
        sum(tensor.nbytes for tensor in stored),
        dict(dtypes),
        differences,
    )

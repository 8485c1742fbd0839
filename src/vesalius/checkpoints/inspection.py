"""What a folder holds: files, tensors and what each is in the paper, tokenizer, fit to config.json.

Nothing is loaded and nothing is unpickled. Headers are read first; values, which are memory-mapped,
only to look for NaN, infinity and copies. A folder that is broken is told as far as it goes.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vesalius.checkpoints import bare, files, fitting, foreign, plain
from vesalius.checkpoints.fitting import Difference
from vesalius.checkpoints.folders import read_config
from vesalius.counting import parameters
from vesalius.equations.parameters import Array
from vesalius.errors import VesaliusError
from vesalius.families import family_of
from vesalius.families.config import Config
from vesalius.machine import parallel_map
from vesalius.model import FILES, folder_of
from vesalius.tokenizers import read_tokenizer
from vesalius.views.shown import Cell, Part, Shown, Table

PORTION = 1 << 22
"""Numbers that are looked at together."""
BELOW = 53
"""Characters that fit below a tensor's name in a terminal of 80."""
KINDS = {
    "config.json": "configuration",
    "preprocessing.json": "what was done to inputs",
    "preprocessor_config.json": "what is done to images",
    "generation_config.json": "how to generate",
    files.INDEX: "which shard holds what",
    "card.json": "what is known of a specimen",
}


@dataclass(frozen=True)
class File:
    """A file of the folder."""

    name: str
    bytes: int
    what: str


@dataclass(frozen=True)
class Tensor:
    """A tensor of the weights: as it is stored, and what it is."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    names: tuple[str, ...] = ()
    """What it is called here; several where it holds several of our arrays."""
    symbols: tuple[str, ...] = ()
    """What it is called in the paper."""
    role: str = ""
    """parameter, or the kind of its difference from the configuration; empty if unknown."""
    nan: int | None = None
    infinite: int | None = None
    copy_of: str | None = None
    """An earlier tensor with the same numbers."""


@dataclass(frozen=True)
class Vocabulary:
    """What the folder's tokenizer is."""

    kind: str
    size: int
    special: dict[str, int]


@dataclass(frozen=True)
class Inspection(Shown):
    """What a folder holds."""

    folder: str
    family: str | None
    model: str | None
    """What the model is, with its heads, in words."""
    layout: str | None
    config: dict[str, Any] | None
    formula: int | None
    """The parameters that the configuration's formula counts."""
    files: tuple[File, ...]
    tensors: tuple[Tensor, ...]
    differences: tuple[Difference, ...]
    tokenizer: Vocabulary | None
    problems: tuple[str, ...]
    """What stands in the way of loading, or could not be read."""

    @property
    def total(self) -> int:
        """All numbers in all tensors."""
        return sum(int(np.prod(tensor.shape, dtype=object)) for tensor in self.tensors)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def __repr__(self) -> str:
        found = f"{len(self.tensors)} tensors, {self.total:,} numbers"
        wrong = f"; {self.problems[0]}" if self.problems else ""
        return f"<{self.folder}: {self.family or 'no known model'}, {found}{wrong}>"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "total": self.total, "bytes": self.bytes}

    def view(self) -> Iterator[Part]:
        title = self.model or "no model that is known here"
        layout = f", in {self.layout} layout" if self.layout else ""
        yield f"{self.folder}: {title}{layout}"
        by_formula = f"; by formula {self.formula:,} parameters" if self.formula else ""
        yield f"{self.total:,} numbers in {len(self.tensors)} tensors{by_formula}"
        sizes = [(file.name, f"{file.bytes:,}", file.what) for file in self.files]
        total = ("", Cell(f"{self.bytes:,}", bold=True), "")
        yield Table(("file", "bytes", ""), [*sizes, total], right=(1,))
        if self.tensors:
            yield self._tensors()
        if self.tokenizer is not None:
            special = ", ".join(f"{name} {i}" for name, i in self.tokenizer.special.items())
            size = f"{self.tokenizer.size:,} tokens"
            yield f"tokenizer: {self.tokenizer.kind}, {size}; special: {special or 'none'}"
        yield from self._remarks()

    def _tensors(self) -> Table:
        dtypes, rows = {tensor.dtype for tensor in self.tensors}, []
        one = dtypes.pop() if len(dtypes) == 1 else ""
        for alike in _alike(self.tensors):
            tensor, several = alike[0], len(alike) > 1
            name, *ours = (_layers(given, several) for given in (tensor.name, *tensor.names))
            what = [_joined([_layers(symbol, several) for symbol in tensor.symbols])]
            what += [_joined(ours)] if ours != [name] else []
            what += [tensor.role] if tensor.role not in ("parameter", "") else []
            what = [words for words in what if words]
            below = "  " + "  ".join(what)
            if len(below) > BELOW:
                below = "\n".join(f"  {line}" for line in what)
            shape = " × ".join(map(str, tensor.shape)) or "1"
            times = f"× {len(alike)}" if several else ""
            size = Cell(shape, "" if one else tensor.dtype)
            rows.append((Cell(name, below.rstrip()), times, size))
        shapes = f"shape, {one}" if one else "shape"
        return Table(("tensor, and what it is in the paper and here", "", shapes), rows)

    def _remarks(self) -> Iterator[str]:
        copies = [f"{t.name} = {t.copy_of}" for t in self.tensors if t.copy_of]
        if copies:
            yield f"the same numbers twice: {', '.join(copies)}"
        if self.tensors and all(t.nan is None for t in self.tensors):
            yield "values were not looked at"
        elif not any(t.nan or t.infinite for t in self.tensors) and self.tensors:
            yield "no NaN, no infinity"
        yield from _with_numbers(d for d in self.differences if d.harmless)
        for problem in self.problems:
            yield f"✗ {problem}"
        if self.family and self.tensors and not self.problems:
            yield "✓ the tensors are those of config.json"


def inspect(folder: str | os.PathLike[str], values: bool = True) -> Inspection:
    """Look at a folder, or a model by its name; without ``values`` at headers alone."""
    place = folder_of(folder)
    problems: list[str] = []
    listed = tuple(_files(place))
    unknown: list[str] = []
    config, own = _config(place, unknown)
    tensors = _stored(place, listed, problems, convertible=config is not None)
    problems += unknown
    if config is None and (alone := bare.recognise({t.name: t.shape for t in tensors})):
        problems.append(
            f"the tensors are those of {alone.title}; convert them with: "
            f"vesalius convert {folder} NEW_FOLDER"
        )
    differences: tuple[Difference, ...] = ()
    if config is not None and tensors:
        places, differences = fitting.fit(
            config, own, {t.name: (t.shape, t.dtype) for t in tensors}
        )
        tensors = [replace(tensor, **places[tensor.name].__dict__) for tensor in tensors]
        problems += _with_numbers(d for d in differences if not d.harmless)
    if values:
        tensors = _looked_at(place, tensors, problems)
    return Inspection(
        str(folder),
        family_of(config).name if config else None,
        family_of(config).described(config) if config else None,
        None if config is None else "our" if own else "Hugging Face's",
        config.to_json() if config else None,
        parameters(config) if config else None,
        listed,
        tuple(tensors),
        differences,
        _vocabulary(place, config, problems),
        tuple(problems),
    )


def _with_numbers(differences: Iterable[Difference]) -> list[str]:
    return [
        f"{words} ({numbers:+,} numbers)" if numbers else words
        for words, numbers in fitting.grouped(differences)
    ]


def _files(folder: Path) -> Iterator[File]:
    for path in sorted(folder.iterdir()):
        if os.path.isdir(path):  # not Path's, which raises where a link may not be followed
            places = (os.path.join(at, name) for at, _, names in os.walk(path) for name in names)
            inside = [os.path.getsize(place) for place in places if os.path.isfile(place)]
            many = "1 file" if len(inside) == 1 else f"{len(inside)} files"
            yield File(f"{path.name}/", sum(inside), f"a folder of {many}")
        elif os.path.islink(path) and not os.path.exists(path):
            yield File(path.name, 0, "a link to what is not there, or cannot be read")
        elif os.path.isfile(path):
            yield File(path.name, path.stat().st_size, _what(path))


def _what(file: Path) -> str:
    if plain.is_pointer(file):
        return "a Git LFS pointer, not the file"
    if (program := foreign.program_of(file)) is not None:
        return f"not read: {program}"
    if file.suffix == ".safetensors":
        return "weights"
    if file.suffix in (".bin", ".pt", ".pth", ".pkl", ".ckpt"):
        return "pickled, not read; convert reads weights"
    return KINDS.get(file.name, "tokenizer" if file.name in FILES else "")


def _stored(
    folder: Path, listed: tuple[File, ...], problems: list[str], convertible: bool
) -> list[Tensor]:
    """The tensors of all weights, those of damaged files as far as their headers tell."""
    try:
        weights = files.weight_files(folder)
        if not weights:
            problems.append(str(files.without_weights(folder, convertible)))
    except VesaliusError as error:
        problems.append(str(error))
        weights = [folder / f.name for f in listed if f.name.endswith(".safetensors")]
    found: list[files.Stored] = []
    for file in weights:
        try:
            found += files.stored(file)
        except VesaliusError as error:
            problems.append(str(error))
            with suppress(VesaliusError):
                found += files.claimed(file)
    return [Tensor(t.name, t.file, t.dtype, t.shape, t.nbytes) for t in found]


def _config(folder: Path, problems: list[str]) -> tuple[Config | None, bool]:
    try:
        own = "vesalius" in plain.read_json(folder / "config.json")
        return read_config(folder), own
    except VesaliusError as error:
        problems.append(str(error))
        return None, False


def _vocabulary(folder: Path, config: Config | None, problems: list[str]) -> Vocabulary | None:
    try:
        tokenizer = read_tokenizer(folder)
    except VesaliusError as error:
        problems.append(str(error))
        return None
    if tokenizer is None:
        return None
    rows = 0 if config is None else config.vocabulary
    if rows and tokenizer.rows > rows:
        problems.append(
            f"the tokenizer's ids go up to {tokenizer.rows - 1}, the embedding's rows to {rows - 1}"
        )
    kind = type(tokenizer._inner.model).__name__
    kinds = {"BPE": "byte pairs", "WordPiece": "word pieces", "WordLevel": "words or characters"}
    return Vocabulary(kinds.get(kind, kind), tokenizer.size, tokenizer.special)


# Values -----------------------------------------------------------------------------------------


def _looked_at(folder: Path, tensors: list[Tensor], problems: list[str]) -> list[Tensor]:
    """The tensors with their NaN, infinities and copies; those of damaged files as they were."""
    arrays: dict[str, Array] = {}
    for file in sorted({tensor.file for tensor in tensors}):
        with suppress(VesaliusError):  # which is among the problems already
            arrays |= files.views(folder / file)
    counts = parallel_map(
        lambda t: _odd(arrays[t.name], t.dtype) if t.name in arrays else (None, None), tensors
    )
    tensors = [
        replace(tensor, nan=nan, infinite=infinite)
        for tensor, (nan, infinite) in zip(tensors, counts, strict=True)
    ]
    for tensor in tensors:
        if tensor.nan or tensor.infinite:
            odd = f"{tensor.nan:,} NaN and {tensor.infinite:,} infinite"
            problems.append(f"{tensor.name}: {odd} of {arrays[tensor.name].size:,} numbers")
    originals_first = sorted(tensors, key=lambda t: t.role == "tied copy")
    copies = _copies({t.name: arrays[t.name] for t in originals_first if t.name in arrays})
    tensors = [replace(tensor, copy_of=copies.get(tensor.name)) for tensor in tensors]
    problems += [
        f"{t.name} should repeat {' and '.join(t.names)}, and does not"
        for t in tensors
        if t.role == "tied copy" and t.name in arrays and arrays[t.name].ndim > 1 and not t.copy_of
    ]
    return tensors


def _odd(array: Array, dtype: str) -> tuple[int, int]:
    """How many NaN and how many infinities there are; a sum tells whether to look closer."""
    if array.dtype.kind != "f" and dtype != "bfloat16":
        return 0, 0
    flat, nan, infinite = array.reshape(-1), 0, 0
    for start in range(0, flat.size, PORTION):
        part = flat[start : start + PORTION]
        if dtype == "bfloat16":
            part = part[(part & 0x7F80) == 0x7F80].astype(np.uint32)
            part = (part << 16).view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(part.sum(dtype=np.float64)):
                continue
        nan, infinite = nan + int(np.isnan(part).sum()), infinite + int(np.isinf(part).sum())
    return nan, infinite


def _copies(arrays: dict[str, Array]) -> dict[str, str]:
    """Matrices equal to an earlier matrix; constant matrices are not called copies."""
    seen: dict[object, list[str]] = {}
    found: dict[str, str] = {}
    for name, array in arrays.items():
        if array.ndim < 2 or array.size < 2:
            continue
        ends = array.reshape(-1)[: 1 << 10].tobytes()
        alike = seen.setdefault((array.dtype.str, array.shape, ends), [])
        bits = f"u{array.itemsize}"
        for other in alike:
            same = np.array_equal(array.view(bits), arrays[other].view(bits))
            if same and (array != array.reshape(-1)[0]).any():
                found[name] = other
                break
        else:
            alike.append(name)
    return found


# Rows -------------------------------------------------------------------------------------------


def _alike(tensors: tuple[Tensor, ...]) -> list[list[Tensor]]:
    """Tensors that layers repeat, together; whatever is odd about one sets it apart."""
    groups: dict[object, list[Tensor]] = {}
    for tensor in tensors:
        plain_names = tuple(_layers(name, True) for name in (tensor.name, *tensor.names))
        odd = tensor.name if tensor.nan or tensor.infinite or tensor.copy_of else ""
        key = (plain_names, tensor.shape, tensor.dtype, tensor.role, odd)
        groups.setdefault(key, []).append(tensor)
    return sorted(groups.values(), key=lambda alike: not alike[0].names)


def _layers(name: str, repeated: bool) -> str:
    """A name without its layer's number, if it is repeated."""
    name = re.sub(r"(?<=\.)\d+(?=\.)", "*", name, count=1) if repeated else name
    return re.sub(r"Phi\[\d+\]", "Phi[l]", name) if repeated else name


def _shared(names: list[str]) -> int:
    """How many characters all begin with."""
    columns = enumerate(zip(*names, strict=False))
    return next((i for i, column in columns if len(set(column)) > 1), min(map(len, names)))


def _joined(names: list[str]) -> str:
    """Names that differ in one place as one: ``attention.{query,key,value}.weight``."""
    if len(names) < 2:
        return "".join(names)
    start = _shared(names)
    end = _shared([name[start:][::-1] for name in names])
    middles = ",".join(name[start : len(name) - end] for name in names)
    return f"{names[0][:start]}{{{middles}}}{names[0][len(names[0]) - end :] if end else ''}"

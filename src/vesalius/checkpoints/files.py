"""Reading and writing safetensors, memory-mapped; and folders that are written whole or not at all.

The header is read here rather than by the library, because only so can arrays be views of the file
and errors say what is wrong with it. Writing is the library's.
"""

import json
import math
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vesalius.checkpoints import foreign
from vesalius.checkpoints.plain import FULL, read_json, replacing, require_file
from vesalius.equations.parameters import Array
from vesalius.errors import AlreadyThere, BrokenFile, ImpossibleSetting, NotACheckpoint, listed

HEADER_LIMIT = 100_000_000  # bytes, as in the reference implementation
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
DTYPES |= {"I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
CODES = {name: code for code, name in NAMES.items()}
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = (".bin", ".pt", ".pth", ".ckpt")
BESIDES = r"training_args|optimizer|optim|scheduler|scaler|rng_state"
"""How pickled files begin that training leaves beside the weights."""
SAVING = ".saving-"
"""How the name of a folder begins that is being written; one that outlived its process can go."""

WIDTH = {"float64": 64, "float32": 32, "bfloat16": 16, "float16": 16}


@dataclass(frozen=True)
class Tensors:
    """The arrays of a checkpoint by name, and a precision that holds them all."""

    arrays: dict[str, Array]
    dtype: str


def read_folder(folder: Path) -> Tensors:
    """All tensors of a folder, from one file or from shards."""
    parts = [read(file) for file in weight_files(folder)]
    if not parts:
        raise without_weights(folder)
    return parts[0] if (folder / WEIGHTS).exists() else joined(folder / INDEX, parts)


def joined(index: Path, parts: list[Tensors]) -> Tensors:
    """The tensors of all shards that an index names, each once."""
    names, folder = Counter(name for part in parts for name in part.arrays), index.parent
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise BrokenFile(f"the shards of {folder} hold {', '.join(twice)} twice")
    arrays = {name: array for part in parts for name, array in part.arrays.items()}
    if missing := set(read_json(index)["weight_map"]) - set(arrays):
        raise BrokenFile(f"the shards of {folder} lack {', '.join(sorted(missing))}")
    return Tensors(arrays, widest([part.dtype for part in parts]))


@dataclass(frozen=True)
class Stored:
    """A tensor as its file's header has it."""

    name: str
    file: str
    dtype: str
    """By the field's name, such as bfloat16."""
    shape: tuple[int, ...]
    nbytes: int
    start: int = 0
    """The byte of the file that it begins at."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def headers(folder: Path) -> list[Stored]:
    """The tensors of a folder, from the headers alone; none if it has no safetensors."""
    return [tensor for file in weight_files(folder) for tensor in stored(file)]


def stored(file: Path) -> list[Stored]:
    """The tensors of one file, from its checked header."""
    with _opened(file) as stream:
        header, start = _header(file, stream)
    return [
        _stored(file, name, entry, start + entry["data_offsets"][0])
        for name, entry in header.items()
    ]


def claimed(file: Path) -> list[Stored]:
    """The tensors that a damaged file's header speaks of, whether the rest is there or not."""
    with _opened(file) as stream:
        header, _ = _parsed(file, stream)
    return [
        _stored(file, name, entry)
        for name, entry in header.items()
        if isinstance(entry, dict)
        and isinstance(entry.get("dtype"), str)
        and entry["dtype"] in DTYPES
        and _possible(entry.get("shape"))
    ]


def _stored(file: Path, name: str, entry: dict[str, Any], start: int = 0) -> Stored:
    dtype, shape = entry["dtype"], tuple(entry["shape"])
    width = np.dtype(DTYPES[dtype])
    said = NAMES.get(dtype, width.name)
    return Stored(name, file.name, said, shape, math.prod(shape) * width.itemsize, start)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder."""
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    return shards(folder / INDEX) if (folder / INDEX).exists() else []


def without_weights(folder: Path, convertible: bool = True) -> NotACheckpoint:
    """What a folder holds in the place of weights; ``convertible`` if its config.json is known."""
    foreign.require_none(folder)
    if pickled := pickled_files(folder):
        require_file(pickled[0])
        advice = f"; convert it with: vesalius convert {folder} NEW_FOLDER" if convertible else ""
        return NotACheckpoint(
            f"{folder} holds {pickled[0].name}, which is pickled and never read on its own{advice}"
        )
    others = [file.name for file in sorted(folder.glob("*.safetensors"))]
    if len(others) > 1:
        return NotACheckpoint(
            f"{folder} holds {listed(others, 'and')}, but no {INDEX}, which says what is in each; "
            f"expected it beside them"
        )
    there = f"; {others[0]} is there, expected under that name" if others else ""
    return NotACheckpoint(
        f"{folder} holds no {WEIGHTS}{there or '; expected it beside config.json'}"
    )


def pickled_files(folder: Path) -> list[Path]:
    """The files of a folder that may hold pickled weights."""
    found = [file for kind in PICKLED for file in sorted(folder.glob(f"*{kind}"))]
    return [file for file in found if not re.match(BESIDES, file.name)]


def widest(dtypes: list[str]) -> str:
    """The precision that holds numbers of all these without rounding."""
    found = set(dtypes) & set(WIDTH)
    if found == {"float16", "bfloat16"}:
        return "float32"
    return max(found, key=lambda dtype: WIDTH[dtype], default="float32")


def shards(index: Path) -> list[Path]:
    """The files that an index names, all of them in its own folder."""
    files, folder = read_json(index).get("weight_map"), index.parent
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise BrokenFile(f"{index} has no weight_map of names to files")
    paths = []
    for name in sorted(set(files.values())):
        if Path(name).name != name or name in ("", "..", "."):
            raise BrokenFile(f"{index} points outside its folder, to {name!r}")
        if not os.path.exists(folder / name):  # Path.exists raises for names that are too long
            raise NotACheckpoint(f"{index} names {name}, which is not there")
        paths.append(folder / name)
    return paths


def read(file: Path) -> Tensors:
    """The tensors of one safetensors file.

    Single and double precision are views of the file, private to this process; half precision is
    widened to single, which takes memory of its own and loses nothing.
    """
    header, raw = _mapped(file)
    dtypes = {name: entry["dtype"] for name, entry in header.items()}
    arrays = {name: np.asarray(_widened(a, dtypes[name])) for name, a in _cut(raw, header).items()}
    return Tensors(arrays, widest([NAMES[dtype] for dtype in dtypes.values() if dtype in NAMES]))


def views(file: Path) -> dict[str, Array]:
    """The tensors of one file as they are stored, bfloat16 as its bits; nothing is read yet."""
    header, raw = _mapped(file)
    return _cut(raw, header)


def _mapped(file: Path) -> tuple[dict[str, Any], Array]:
    """The checked header of a file and its bytes after that, of the same file.

    It is opened once, since another one can take its name at any time.
    """
    with _opened(file) as stream:
        header, start = _header(file, stream)
        if not header:
            return header, np.empty(0, np.uint8)
        return header, np.memmap(stream, dtype=np.uint8, mode="c", offset=start)


def _cut(raw: Array, header: dict[str, Any]) -> dict[str, Array]:
    return {
        name: raw[slice(*entry["data_offsets"])]
        .view(DTYPES[entry["dtype"]])
        .reshape(entry["shape"])
        for name, entry in header.items()
    }


def _widened(array: Array, dtype: str) -> Array:
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype == "F16" else array


def _opened(file: Path) -> BinaryIO:
    require_file(file)
    return file.open("rb")


def _header(file: Path, stream: BinaryIO) -> tuple[dict[str, Any], int]:
    """The checked header of an open file, and where its data begins."""
    header, start = _parsed(file, stream)
    _check(file, header, os.fstat(stream.fileno()).st_size - start)
    return header, start


def _parsed(file: Path, stream: BinaryIO) -> tuple[dict[str, Any], int]:
    """The header of an open file as it is written, and where its data begins."""
    size = os.fstat(stream.fileno()).st_size
    first = stream.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(size - 8, HEADER_LIMIT):
        foreign.require_known(file)
        raise BrokenFile(
            f"{file} is no safetensors file, or is cut short: its header should be "
            f"{length} bytes of {size}"
        )
    try:
        header = json.loads(stream.read(length))
    except (ValueError, RecursionError) as error:
        raise BrokenFile(f"{file} has a damaged header: {error}") from error
    if not isinstance(header, dict):
        raise BrokenFile(f"{file} has a damaged header: expected a JSON object")
    header.pop("__metadata__", None)
    return header, 8 + length


def _check(file: Path, header: dict[str, Any], size: int) -> None:
    """Every entry is whole, and together they fill the data without holes or overlaps."""
    reached = 0
    for name, entry in sorted(header.items(), key=lambda item: _offset(file, *item)):
        dtype, shape = entry.get("dtype"), entry.get("shape")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise BrokenFile(
                f"{file}: tensor {_short(name)} has dtype {_short(repr(dtype))}; "
                f"known are {', '.join(DTYPES)}"
            )
        if not _possible(shape):
            raise BrokenFile(
                f"{file}: tensor {_short(name)} has the impossible shape {_short(str(shape))}"
            )
        begin, end = entry["data_offsets"]
        expected = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
        if begin != reached or end - begin != expected:
            raise BrokenFile(
                f"{file}: tensor {_short(name)} should take {expected} bytes from {reached} on, "
                f"its header says {_short(str(begin))} to {_short(str(end))}"
            )
        reached = end
    if reached != size:
        raise BrokenFile(f"{file} is cut short or damaged: {reached} bytes expected, {size} there")


def _possible(shape: object) -> bool:
    """Whether NumPy could have an array of this shape."""
    return (
        isinstance(shape, list)
        and len(shape) <= 32
        and all(type(d) is int and d >= 0 for d in shape)
        and math.prod(max(d, 1) for d in shape) < 2**56
    )


def _offset(file: Path, name: str, entry: Any) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or [type(o) for o in offsets] != [int, int]:
        raise BrokenFile(f"{file}: tensor {_short(name)} has no data_offsets")
    return int(offsets[0]), int(offsets[1])


def _short(text: str) -> str:
    """What a damaged header says can be as long as the file."""
    return text if len(text) <= 200 else f"{text[:200]}…"


@contextmanager
def new_folder(target: str | Path) -> Iterator[Path]:
    """A folder to write in that becomes ``target`` at the end, in one step and with all in it.

    An exception leaves nothing. A process that is killed leaves no ``target``, but a folder beside
    it whose name begins with ``SAVING``.
    """
    target = Path(target).absolute()  # whatever folder the caller goes to meanwhile
    _require_free(target)
    parents = [p for p in target.parents if not p.exists()]
    stage = target.with_name(f"{SAVING}{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stage.mkdir()  # not by tempfile, whose folders nobody else can read
        yield stage
        for path in (*stage.rglob("*"), stage):
            sync(path)
        try:
            stage.rename(target)
        except OSError:
            _require_free(target)  # someone else was faster
            raise
    except BaseException as error:
        if isinstance(error, OSError):
            name_target(error, stage, target)
        shutil.rmtree(stage, ignore_errors=True)
        for parent in parents:
            with suppress(OSError):  # others may have put something there
                parent.rmdir()
        raise
    for path in (target, *parents):
        sync(path.parent)


def name_target(error: OSError, stage: Path, target: Path) -> None:
    """Let an error about a folder that is being written speak of the one that was asked for."""
    error.args = tuple(
        arg.replace(str(stage), str(target)) if isinstance(arg, str) else arg for arg in error.args
    )
    if error.filename is not None:
        error.filename = os.fsdecode(error.filename).replace(str(stage), str(target))
    elif error.errno in FULL:  # of which the system does not say which file wanted it
        error.filename = str(target)


def _require_free(target: Path) -> None:
    if os.path.lexists(target):
        raise AlreadyThere(f"{target} is there already; expected the name of a new folder")


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lossless(arrays: Mapping[str, Array], dtype: str) -> str:
    """The precision named if it holds all numbers as they are, or a wider one that does."""
    wider = [kind for kind in ("float32", "float64") if WIDTH[kind] > WIDTH[dtype]]
    held = (kind for kind in (dtype, *wider) if all(_holds(kind, a) for a in arrays.values()))
    return next(held, "float64")


def _holds(dtype: str, array: Array) -> bool:
    if array.dtype.name == dtype or 8 * array.itemsize < WIDTH[dtype]:
        return True
    with np.errstate(over="ignore"):
        stored = _widened(_narrowed(array, dtype), CODES[dtype])
    return np.array_equal(stored, array, equal_nan=True)


def write(file: Path, arrays: Mapping[str, Array], dtype: str | None = None) -> None:
    """Write arrays in the precision named, or as they are: beside the file, then in its place."""
    from safetensors import SafetensorError, TensorSpec, serialize_file

    narrow = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    if dtype is not None:
        with np.errstate(over="ignore"):
            narrow = {k: np.ascontiguousarray(_narrowed(a, dtype)) for k, a in arrays.items()}
        _require_room(arrays, narrow, dtype)
    entries = {
        name: TensorSpec(
            dtype=dtype or array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in narrow.items()
    }
    try:
        with replacing(file) as place:
            place.touch()
            mode = place.stat().st_mode  # of other new files; the library gives it to nobody else
            serialize_file(entries, str(place), metadata={"format": "pt"})
            place.chmod(mode)
    except SafetensorError as error:  # which the library raises for a full disk too
        raise OSError(f"{file} could not be written: {error}") from error


def _require_room(arrays: Mapping[str, Array], narrow: Mapping[str, Array], dtype: str) -> None:
    """Refuse a precision in which finite numbers would become infinite."""
    lost = [
        name
        for name, array in arrays.items()
        if WIDTH[dtype] < 8 * array.itemsize
        and np.isinf(_widened(narrow[name], CODES[dtype])).any()
        and np.isfinite(array).all()
    ]
    if lost:
        raise ImpossibleSetting(
            f"{dtype} cannot hold numbers as large as those of {', '.join(lost)}"
        )


def _narrowed(array: Array, dtype: str) -> Array:
    if dtype != "bfloat16":
        return array.astype(dtype, copy=False)
    bits = array.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)  # to nearest, ties to even
    return (np.where(np.isnan(array), bits | 0x400000, rounded) >> 16).astype(np.uint16)

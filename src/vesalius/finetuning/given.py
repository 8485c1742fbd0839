"""Data that are given in Python, written beside a run, so that its recipe can be run again.

A file is named by what it holds: another call with the same data finds it, and none is replaced.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray as Array

from vesalius import arguments
from vesalius.checkpoints.plain import replacing
from vesalius.data.batches import generator
from vesalius.data.tables import Table
from vesalius.errors import SaveFailed, UnusableData, WrongKind, WrongLength
from vesalius.families.family import Family

EXPECTED = (
    "a file, a folder or a corpus by name; texts and their labels; columns by name; arrays of "
    "images (N x height x width, or with channels last) and classes; series (N x channels x time) "
    "and classes or numbers; or one series along time (channels x time)"
)


def beside(data: Any, folder: Path, family: Family) -> Path:
    """What was given as a file of the folder."""
    if isinstance(data, Mapping):
        return _table(folder, {str(name): list(cells) for name, cells in data.items()})
    pair = isinstance(data, tuple) and len(data) == 2
    inputs, answers = data if pair else (data, None)
    if found := _texts_in(inputs):
        if answers is None:
            return texts(folder, found)
        return _table(folder, {"text": found, "label": _plain(answers)})
    if family.reads == "images":
        return _images(folder, inputs, answers)
    if family.by_channel:
        if answers is not None:
            raise WrongKind("a series to forecast has no answers beside it: it goes on by itself")
        return _kept(folder, ".npy", _numbers(inputs))
    if family.reads == "series":
        return _series(folder, inputs, answers)
    raise arguments.wrong("data", EXPECTED, data)


def texts(folder: Path, given: Sequence[str]) -> Path:
    """Texts to read, in an order by chance, with an empty line between: the last are held out."""
    order = generator(0).permutation(len(given))
    body = "\n\n".join(given[int(row)].strip() for row in order) + "\n"
    return _kept(folder, ".txt", body)


def texts_of(table: Table, column: str, folder: Path) -> Path:
    """The texts of a table's column, to read."""
    cells = table.cells(column)
    found = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    if not found:
        raise UnusableData(f"{table.name} has no text in the column {column!r}; expected some")
    return texts(folder, found)


def _texts_in(given: Any) -> list[str]:
    """The texts of a list, or of an array or column of another library; none if it has others."""
    found = given.tolist() if hasattr(given, "tolist") else given
    some = list(found) if isinstance(found, list | tuple) else []
    return some if all(isinstance(one, str) for one in some) else []


def _plain(values: Any) -> list[Any]:
    found = arguments.plain(values)
    return [arguments.plain(value) for value in found]


def _table(folder: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    cells = {name: _plain(column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in cells.items()}
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise WrongLength(f"expected columns of one length, got {told or 'none'}")
    rows = zip(*cells.values(), strict=True)
    lines = [json.dumps(dict(zip(cells, row, strict=True)), ensure_ascii=False) for row in rows]
    return _kept(folder, ".jsonl", "\n".join(lines) + "\n")


def _numbers(given: Any) -> Array:
    try:
        return np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise arguments.wrong("data", EXPECTED, given) from error


def _answers(given: Any, count: int) -> list[Any]:
    """An answer for each example."""
    found = _plain(given)
    if len(found) != count:
        raise WrongLength(f"there are {count} examples and {len(found)} answers; expected as many")
    if None in found:
        raise WrongKind(f"example {found.index(None)} has no answer, but None; leave it out")
    return found


def _classes(answers: Any, count: int) -> tuple[Array, list[str]]:
    """The numbers of classes, and their names where they are called by words."""
    found = _answers(answers, count)
    if all(type(one) is int for one in found):
        return np.array(found, np.int64), []
    names = sorted({str(one) for one in found})
    return np.array([names.index(str(one)) for one in found], np.int64), names


def _images(folder: Path, pixels: Any, answers: Any) -> Path:
    try:
        read = np.asarray(pixels)
    except ValueError as error:
        raise WrongKind(f"expected images of one size, as one array; got {error}") from error
    if read.dtype != np.uint8 or read.ndim not in (3, 4):
        raise WrongKind(
            f"expected images as bytes (uint8), N x height x width or with channels last, got "
            f"{read.dtype} of shape {read.shape}"
        )
    arrays = {"images": read}
    if answers is not None:
        arrays["labels"], names = _classes(answers, len(read))
        if names:
            arrays["names"] = np.array(names)
    return _kept(folder, ".npz", arrays)


def _series(folder: Path, given: Any, answers: Any) -> Path:
    """Series as a .ts file: numbers with a fraction are targets, all other answers classes."""
    if not isinstance(given, Iterable) or not (values := [_numbers(one) for one in given]):
        raise arguments.wrong("data", EXPECTED, given)
    for number, one in enumerate(values):
        if one.ndim != 2 or not one.size or np.isinf(one).any():
            raise WrongKind(
                f"series {number} has shape {one.shape}; expected channels x time, finite numbers"
            )
    lines, ends = ["@problemName given", f"@dimensions {len(values[0])}"], [""] * len(values)
    plain = None if answers is None else _answers(answers, len(values))
    if plain is not None and any(isinstance(one, float) for one in plain):
        lines.append("@targetLabel true")
        ends = [f":{float(one)!r}" for one in plain]
    elif plain is not None:
        words = [_word(str(one)) for one in plain]
        if len(set(words)) < len({str(one) for one in plain}) or not all(words):
            raise UnusableData(
                "expected classes whose names differ in more than spaces and colons, which .ts has "
                "no room for, and none without a name"
            )
        lines.append(f"@classLabel true {' '.join(sorted(set(words), key=_natural))}")
        ends = [f":{word}" for word in words]
    lines.append("@data")
    for one, end in zip(values, ends, strict=True):
        cells = (",".join("?" if np.isnan(x) else repr(float(x)) for x in row) for row in one)
        lines.append(":".join(cells) + end)
    return _kept(folder, ".ts", "\n".join(lines) + "\n")


def _word(name: str) -> str:
    """The name of a class as .ts can write it, in whose lines spaces and colons separate."""
    return "_".join(name.replace(":", " ").split())


def _natural(word: str) -> tuple[bool, int, str]:
    return (not word.isdecimal(), int(word) if word.isdecimal() else 0, word)


def _kept(folder: Path, suffix: str, held: str | Array | Mapping[str, Array]) -> Path:
    """A file named by the digest of what it holds."""
    digest = hashlib.sha256()
    if isinstance(held, str):
        digest.update(held.encode())
    else:
        for array in held.values() if isinstance(held, Mapping) else [held]:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    file = (folder / f"data-{digest.hexdigest()[:12]}{suffix}").absolute()
    if file.exists():
        return file
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveFailed(f"{folder} cannot be written to: {error.strerror or error}") from error
    with replacing(file) as place, place.open("wb") as opened:
        if isinstance(held, str):
            opened.write(held.encode())
        elif isinstance(held, Mapping):
            np.savez(opened, allow_pickle=False, **held)
        else:
            np.save(opened, held)
    return file

"""Tables with named columns as people have them: CSV, TSV, JSON lines, and JSON.

A cell is text, or in JSON whatever that has. Every row knows its line, so that an error can name
it. A JSON file is a list of rows, or one for each part, such as train, val and test. What the
columns mean is left to others.
"""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vesalius.checkpoints.plain import require_end
from vesalius.errors import BrokenFile, EmptyCorpus, UnusableData, nearest

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
WHOLE = ".json"
SUFFIXES = (*SEPARATORS, *LINES, WHOLE)
PAIR = ("text", "label")
"""The columns of rows that JSON has as lists of two."""
ROLES = {"train": ("train",), "valid": ("val", "valid", "validation", "dev"), "test": ("test",)}
"""What parts of a file are for, and what their names end in."""
LONGEST_CELL = 1 << 24
"""Characters of a cell, beyond which a quotation mark was surely forgotten."""


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a file, their cells by column."""

    name: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    lines: list[int]
    """The line of the file that each row begins in; in JSON its number within its part."""
    parts: list[str] | None = None
    """The part of the file that each row is of, where it has parts."""

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, column: str) -> list[Any]:
        """A column; None where a row of JSON lacks it."""
        if column not in self.columns:
            close = nearest(column, self.columns)
            meant = f" ({close})" if close.startswith("did you mean") else ""
            there = ", ".join(self.columns)
            raise UnusableData(f"{self.name} has no column {column!r}{meant}; there are: {there}")
        return [row.get(column) for row in self.rows]

    def where(self, row: int) -> str:
        unit = "row" if Path(self.name).suffix.lower() == WHOLE else "line"
        part = f" of {self.parts[row]}" if self.parts else ""
        return f"{self.name}, {unit} {self.lines[row]}{part}"

    def part(self, role: str) -> "Table | None":
        """The rows that are to train on ("train"), to validate on ("valid") or to test on."""
        ends = ROLES[role]
        rows = [i for i, name in enumerate(self.parts or ()) if name.rpartition("_")[2] in ends]
        if not rows or self.parts is None:
            return None
        lines, parts = [self.lines[i] for i in rows], [self.parts[i] for i in rows]
        return Table(self.name, self.columns, [self.rows[i] for i in rows], lines, parts)


def is_table(name: str) -> bool:
    """Whether a file's name says that it is a table."""
    return Path(name).suffix.lower() in SUFFIXES


def read_table(file: str | Path) -> Table:
    """The table of a file, by the end of its name."""
    file = Path(file)
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise BrokenFile(
            f"{file} cannot be read as a table; expected a file of {', '.join(SUFFIXES)}"
        )
    require_end(file)
    if not file.exists() or file.is_dir():
        raise BrokenFile(f"there is no file {str(file)!r}; expected a table")
    text = _text(file)
    if suffix == WHOLE:
        return _json(file, text)
    read = _json_lines if suffix in LINES else _separated
    columns, numbered = read(file, text)
    if not numbered:
        raise EmptyCorpus(f"{file} holds no rows; expected one for each text")
    return Table(str(file), tuple(columns), [row for _, row in numbered], [n for n, _ in numbered])


def _text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenFile(f"{file} is not UTF-8 text: {error}; save it as UTF-8") from error
    if "\0" in text:
        raise BrokenFile(
            f"{file} holds bytes that no text has; expected a table; one in UTF-16 is to be saved "
            f"as UTF-8"
        )
    return text


Numbered = list[tuple[int, dict[str, Any]]]


def _separated(file: Path, text: str) -> tuple[list[str], Numbered]:
    separator = SEPARATORS[file.suffix.lower()]
    first = text.lstrip().partition("\n")[0]
    if separator == "," and "," not in first and ";" in first:
        raise BrokenFile(
            f"{file} has its columns apart by ';': {first.strip()[:80]}; expected commas; save it "
            f"with commas, or with tabs as .tsv"
        )
    rows = _cells(file, text, separator)
    columns = [name.strip() for _, row in rows[:1] for name in row]
    if twice := {name for name in columns if columns.count(name) > 1}:
        raise BrokenFile(f"{file} has the column {min(twice)!r} twice; expected names of their own")
    numbered = []
    for line, row in rows[1:]:
        if len(row) != len(columns):
            raise BrokenFile(
                f"{file}, line {line}: expected {len(columns)} cells, as the first line has, got "
                f"{len(row)}; text with a separator in it stands in quotation marks"
            )
        numbered.append((line, dict(zip(columns, row, strict=True))))
    return columns, numbered


def _cells(file: Path, text: str, separator: str) -> list[tuple[int, list[str]]]:
    """Rows of cells with the lines that they begin in; empty lines are passed over."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        return list(_numbered(reader))
    except csv.Error as error:
        kind = file.suffix[1:].upper()
        raise BrokenFile(f"{file}, line {reader.line_num}: this is no {kind}: {error}") from error
    finally:
        csv.field_size_limit(before)


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    line = 1
    for row in reader:
        if row:
            yield line, row
        line = reader.line_num + 1


def _json_lines(file: Path, text: str) -> tuple[list[str], Numbered]:
    columns: dict[str, None] = {}
    numbered: Numbered = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BrokenFile(f"{file}, line {number}: this is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise BrokenFile(
                f"{file}, line {number}: expected an object such as {{"
                f'"text": …, "label": …}}, got {type(row).__name__}'
            )
        columns |= dict.fromkeys(row)
        numbered.append((number, row))
    return list(columns), numbered


def _json(file: Path, text: str) -> Table:
    """Rows of a list, or of several by the names of their parts."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenFile(f"{file} is not JSON: {error}") from error
    apart = isinstance(read, dict)
    columns: dict[str, None] = {}
    numbered: list[tuple[int, str, dict[str, Any]]] = []
    for part, several in (read if apart else {"": read}).items():
        for number, row in enumerate(several if isinstance(several, list) else [several], 1):
            cells = _row(row)
            if cells is None:
                raise BrokenFile(
                    f"{file}, row {number}{f' of {part}' if apart else ''}: expected a list of "
                    f'objects such as {{"text": …, "label": …}}, or of texts with their labels, '
                    f"got {type(row).__name__}"
                )
            columns |= dict.fromkeys(cells)
            numbered.append((number, part, cells))
    if not numbered:
        raise EmptyCorpus(f"{file} holds no rows; expected one for each text")
    parts = [part for _, part, _ in numbered] if apart else None
    lines = [number for number, _, _ in numbered]
    return Table(str(file), tuple(columns), [cells for _, _, cells in numbered], lines, parts)


def _row(row: Any) -> dict[str, Any] | None:
    if isinstance(row, dict):
        return row
    return dict(zip(PAIR, row, strict=True)) if isinstance(row, list) and len(row) == 2 else None

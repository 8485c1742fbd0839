"""Tables with named columns as people have them: CSV, TSV, and JSON lines.

A cell is text, or in JSON lines whatever JSON has. Every row knows its line, so that an error can
name it. What the columns mean is left to others.
"""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vesalius.errors import BrokenFile, EmptyCorpus, UnusableData, nearest

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
SUFFIXES = (*SEPARATORS, *LINES)
LONGEST_CELL = 1 << 24
"""Characters of a cell, beyond which a quotation mark was surely forgotten."""


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a file, their cells by column."""

    name: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    lines: list[int]
    """The line of the file that each row begins in."""

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, column: str) -> list[Any]:
        """A column; None where a row of JSON lacks it."""
        if column not in self.columns:
            close = nearest(column, self.columns)
            there = f"; there are: {', '.join(self.columns)}" if "did you mean" in close else ""
            raise UnusableData(f"{self.name} has no column {column!r}; {close}{there}")
        return [row.get(column) for row in self.rows]

    def where(self, row: int) -> str:
        return f"{self.name}, line {self.lines[row]}"


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
    if not file.is_file():
        raise BrokenFile(f"there is no file {str(file)!r}; expected a table")
    text = _text(file)
    read = _json_lines if suffix in LINES else _separated
    columns, numbered = read(file, text)
    if not numbered:
        raise EmptyCorpus(f"{file} holds no rows; expected one for each text")
    return Table(str(file), tuple(columns), [row for _, row in numbered], [n for n, _ in numbered])


def _text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenFile(f"{file} is not UTF-8 text: {error}") from error
    if "\0" in text:
        raise BrokenFile(f"{file} holds bytes that no text has; expected a table")
    return text


Numbered = list[tuple[int, dict[str, Any]]]


def _separated(file: Path, text: str) -> tuple[list[str], Numbered]:
    rows = _cells(file, text, SEPARATORS[file.suffix.lower()])
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

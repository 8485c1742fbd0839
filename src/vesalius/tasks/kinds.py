"""What data are: kinds, told by names, by ends of names, and by the first lines of a file.

Some files may be of several kinds; the likeliest comes first, and the backbone decides.
"""

import csv
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vesalius.checkpoints.plain import require_end
from vesalius.data import parts, registry
from vesalius.data.pictures import SUFFIXES as PICTURES
from vesalius.data.tables import LINES, SEPARATORS
from vesalius.data.texts import SUFFIXES as TEXTS
from vesalius.data.timelines import LONG
from vesalius.errors import BrokenFile, EmptyCorpus, UnknownCorpus, UnusableData, nearest

KINDS = {
    "table": "a table of texts: .csv, .tsv, .jsonl or .json with named columns",
    "text": "a text: .txt or .md, or a folder of such files",
    "words": "words with tags: .conll, .conllu, .bio, or .tsv with an empty row after sentences",
    "questions": "questions on paragraphs: SQuAD's .json",
    "images": "images: a folder of .png or .jpg by class, an IDX file, or .npz",
    "series": "series: .ts, a folder with _TRAIN.ts and _TEST.ts, or .csv files",
    "timeline": "a series along time: .csv, wide or with unique_id, ds and y, or .npy",
}
TAGGED = (".conll", ".conllu", ".conll2003", ".bio", ".iob", ".iob2", ".ner", ".pos")
CORPORA = {"labelled text": "table", "text": "text", "tags": "words", "questions": "questions"}
CORPORA |= {"images": "images"}
"""What the registry calls kinds."""
LOOKED_AT = 1000
"""Lines of a file, or files of a folder, that are looked at."""


def kinds_of(data: str, text: str = "text") -> tuple[str, ...]:
    """The kinds that a corpus may be of; ``text`` is the column of texts."""
    if not parts.here(data):
        return _of_name(data)
    path = Path(data)
    require_end(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        return _of_folder(path)
    if suffix in TAGGED:
        return ("words",)
    if suffix in TEXTS:
        return ("text", "words")
    if suffix in LINES:
        return ("table",)
    if suffix in SEPARATORS:
        return _of_table(path, text)
    if suffix == ".json":
        return _of_json(path)
    if suffix == ".ts":
        return ("series",)
    if suffix in (".npy", ".npz"):
        return ("images",) if suffix == ".npz" else ("timeline", "images")
    if "idx" in path.name.lower():
        return ("images",)
    raise UnusableData(f"what {data} holds is not known by its name; expected {_every()}")


def _every() -> str:
    return "; ".join(KINDS.values())


def _of_name(name: str) -> tuple[str, ...]:
    known = {corpus.name: corpus for corpus in registry.corpora() if corpus.kind != "vocabulary"}
    if name not in known:
        raise UnknownCorpus(
            f"there is no file or folder {name!r}, and no corpus of this name; "
            f"{nearest(name, known)}"
        )
    if known[name].kind != "series":
        return (CORPORA[known[name].kind],)
    return ("series",) if known[name].files[0].path.endswith(".ts") else ("timeline", "series")


def _of_folder(folder: Path) -> tuple[str, ...]:
    files = [file for file in islice(folder.rglob("*"), LOOKED_AT) if file.is_file()]
    ends = {file.suffix.lower() for file in files}
    if any("idx3" in file.name for file in files) or ends & {*PICTURES}:
        return ("images",)
    if ends & {".ts", ".csv"}:
        return ("series",)
    if ends & {*TEXTS}:
        return ("text",)
    raise EmptyCorpus(f"{folder} holds nothing to learn from; expected {_every()}")


def _of_json(file: Path) -> tuple[str, ...]:
    try:
        read = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BrokenFile(f"{file} is not JSON: {error}") from error
    return ("questions",) if isinstance(read, dict) and "data" in read else ("table",)


def _of_table(file: Path, text: str) -> tuple[str, ...]:
    lines = list(_lines(file))
    rows = [line for line in lines if line.strip()]
    separator = SEPARATORS[file.suffix.lower()]
    heads, first = ([c.strip() for c in row] for row in _cells(rows, separator))
    if text in heads:
        return ("table",)
    if separator == "\t":  # sentences end with an empty row; a table has none
        inside = any(not line.strip() for line in lines[: max(0, len(lines) - 1)])
        return ("words", "table") if inside else ("table", "words")
    if all(name in heads for name in LONG):
        return ("timeline",)
    numbers = sum(map(_is_number, first))
    series = numbers and numbers >= len(first) - 2
    return ("timeline", "series", "table") if series else ("table", "series", "timeline")


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8-sig", errors="replace") as opened:
        yield from (line.rstrip("\n") for line in islice(opened, LOOKED_AT))


def _cells(rows: list[str], separator: str) -> tuple[list[str], list[str]]:
    """The first two rows."""
    try:
        read = list(csv.reader(rows[:2], delimiter=separator))
    except csv.Error:
        read = []
    return read[0] if read else [], read[1] if len(read) > 1 else []


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

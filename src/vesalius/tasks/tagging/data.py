"""Words with tags, from files: CoNLL's columns, and tables of two or three with tabs between.

A row holds a word and its tag, an empty row ends a sentence. How words become pieces is left to
``alignment``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vesalius.checkpoints.plain import require_end
from vesalius.data import parts, splits
from vesalius.data.settings import Data
from vesalius.errors import BrokenFile, EmptyCorpus, UnusableData, nearest
from vesalius.families.config import setting

START = "-DOCSTART-"
"""What CoNLL-2003 puts between documents; it is no word."""
UNSAID = "_"
"""What CoNLL-U writes where nothing is said."""
JOINED = re.compile(r"\d+[-.]\d+")
"""Ids of CoNLL-U's rows that repeat words of others, as 1-2 for don't, or stand for none."""


@dataclass(frozen=True, kw_only=True)
class TaggedData(Data):
    """Words with tags."""

    kind = "tags"

    corpus: str = setting("ud-ewt", "", "a corpus by name, or a file of words with tags")
    valid: str | None = setting(None, "", "what to validate on; a part of the sentences if none")
    split: float = setting(0.1, "", "share to validate on where that is one file", least=0, below=1)
    word: int = setting(1, "", "column of the words, counted from 1")
    column: int | None = setting(None, "", "column of the tags, counted from 1; the last if none")
    case: bool = setting(False, "", "whether words with a capital are read in segment 1")
    tokenizer: str = setting(
        "word-pieces", "", "word-pieces to learn, or a model whose tokenizer to take; not for init"
    )
    vocabulary: int = setting(8192, "|V|", "tokens to learn at most")


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    lines: tuple[int, ...] = ()
    """Where in its file each word stands, counted from 1."""


@dataclass(frozen=True)
class Tagged:
    """Sentences, and what they come from."""

    source: str
    sentences: tuple[Sentence, ...]

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def names(self) -> list[str]:
        """The tags that there are, sorted."""
        return sorted({tag for sentence in self.sentences for tag in sentence.tags})

    def chosen(self, rows: Iterable[int]) -> "Tagged":
        return Tagged(self.source, tuple(self.sentences[row] for row in rows))


def read_tagged(file: str | Path, column: int | None = None, word: int = 1) -> Tagged:
    """The sentences of a file; columns are counted from 1, and the last has the tags by default.

    Columns are apart by tabs, or by spaces in a row that has no tab. Where there are tabs, a row
    without one that begins with # is a comment.
    """
    file = Path(file)
    rows = _rows(file)
    tabs = any("\t" in row for row in rows if row.strip())
    sentences: list[Sentence] = []
    words, tags, lines = list[str](), list[str](), list[int]()
    width = 0
    for number, row in enumerate([*rows, ""], 1):
        if not row.strip():
            if words:
                sentences.append(Sentence(tuple(words), tuple(tags), tuple(lines)))
                words, tags, lines = [], [], []
            continue
        if tabs and row.startswith("#") and "\t" not in row:
            continue
        cells = row.split("\t") if "\t" in row else row.split()
        if cells[0] == START or (word > 1 and JOINED.fullmatch(cells[0])):
            continue
        width = width or len(cells)
        if len(cells) != width:
            raise UnusableData(
                f"{file}, line {number}: expected {width} columns, as in the rows before, "
                f"got {len(cells)}: {row[:80]!r}"
            )
        at = width if column is None else column
        if max(at, word) > width or at == word:
            wanted = "a word and its tag, apart by a tab or a space"
            if column is not None and column != word:
                wanted = f"a word in column {word} and its tag in column {column}"
            raise UnusableData(f"{file}, line {number}: expected {wanted}, got {row[:80]!r}")
        if not cells[word - 1].strip() or not cells[at - 1].strip():
            missing = "tag" if cells[word - 1].strip() else "word"
            raise UnusableData(
                f"{file}, line {number}: the {missing} is empty in {row[:80]!r}; "
                f"expected as many tags as words"
            )
        words.append(cells[word - 1].strip())
        tags.append(cells[at - 1].strip())
        lines.append(number)
    if not sentences:
        raise EmptyCorpus(f"{file} holds no words; expected a word and its tag in each row")
    return Tagged(str(file), tuple(sentences))


def _rows(file: Path) -> list[str]:
    """Lines as \\n ends them: words may hold other ends of lines that Unicode knows."""
    require_end(file)
    data = file.read_bytes()
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BrokenFile(
            f"{file} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; "
            f"save it as UTF-8"
        ) from error
    return [row.removesuffix("\r") for row in text.split("\n")]


def tagged_files(data: TaggedData) -> tuple[Path, Path | None]:
    """The file to train on, and the one to validate on where there is such.

    A corpus by name may have a third, with "test" in its name, which nobody chooses by.
    """
    valid = None if data.valid is None else _one(data.valid)
    if parts.here(data.corpus):
        return _one(data.corpus), valid
    files = parts.located(data.corpus, "tags", lambda file: "test" not in file.name)
    return files[0], valid or (files[1] if len(files) > 1 else None)


def _one(name: str) -> Path:
    if parts.here(name):
        if Path(name).is_dir():
            raise UnusableData(f"{name} is a folder; expected a file of words with tags")
        return Path(name)
    files = parts.located(name, "tags", lambda file: "test" not in file.name)
    return files[1] if len(files) > 1 else files[0]


def training_parts(data: TaggedData, seed: int) -> tuple[Tagged, Tagged, dict[str, Any]]:
    """Sentences to train on and to validate on; and how one file was split, to be kept."""
    file, other = tagged_files(data)
    whole = read_tagged(file, data.column, data.word)
    if other is not None:
        return whole, read_tagged(other, data.column, data.word), splits.all_of(file)
    kept = splits.split_of(file, data.split, seed)
    train, valid = splits.rows(list(range(len(whole))), kept)
    return whole.chosen(train), whole.chosen(valid), kept


def held_out_part(data: TaggedData, kept: Mapping[str, Any]) -> tuple[Tagged, str]:
    """What to evaluate on, and in words which part of the corpus that is.

    All of a file, unless a part of the same file was trained on.
    """
    file, other = tagged_files(data)
    named = not parts.here(data.corpus)
    file = other if named and other is not None else file
    whole = read_tagged(file, data.column, data.word)
    if splits.same(file, kept):
        if splits.whole(kept):
            return whole, splits.SEEN
        _, valid = splits.rows(list(range(len(whole))), kept)
        return whole.chosen(valid), f"the {len(valid):,} sentences that training held out"
    return whole, file.name if named else "all"


def require_tags(train: Tagged) -> list[str]:
    """The tags to learn; one alone is nothing to learn."""
    names = train.names
    if len(names) < 2:
        columns = "; say the columns: of CoNLL-U --text 2 --label 4, in a recipe word and column"
        raise UnusableData(
            f"all words of {train.source} have the tag {names[0]!r}; expected two tags at least"
            f"{columns if names[0] == UNSAID else ''}"
        )
    return names


def numbered(part: Tagged, names: Sequence[str]) -> list[list[int]]:
    """The tags of every sentence by their places among ``names``; another tag is refused."""
    places = {name: number for number, name in enumerate(names)}
    for sentence in part.sentences:
        for at, tag in enumerate(sentence.tags):
            if tag not in places:
                line = f", line {sentence.lines[at]}" if sentence.lines else ""
                raise UnusableData(
                    f"{part.source}{line}: {sentence.words[at]!r} has the tag {tag!r}, which no "
                    f"word to train on has; {nearest(tag, names)}"
                )
    return [[places[tag] for tag in sentence.tags] for sentence in part.sentences]

"""Texts to learn from: files, folders, and the stories of the grammar, as documents in portions.

A portion fits into memory where a document may not. It ends between a word and white space, so that
tokenizers cut a text of many portions as they would cut the whole.
"""

import codecs
import hashlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from vesalius.checkpoints.plain import require_end
from vesalius.data import wrapping
from vesalius.errors import BrokenFile, EmptyCorpus

PORTION = 1 << 18
"""Bytes of a text that are read at once."""
REACH = 1 << 16
"""Bytes in which a good place to split a text is looked for."""
SUFFIXES = (".txt", ".md", ".text")


class Texts(Protocol):
    """A corpus."""

    @property
    def name(self) -> str:
        """What the corpus is called in messages."""

    def key(self) -> str:
        """What changes when the corpus does."""

    def size(self) -> int | None:
        """Bytes, where they are known beforehand."""

    def portions(self) -> Iterator[tuple[str, bool]]:
        """The texts in portions, and whether a document ends with this one."""


@dataclass(frozen=True)
class Part:
    """Some bytes of a file: whole characters, and whole lines where they are not too long."""

    file: Path
    start: int
    end: int


@dataclass(frozen=True)
class FileTexts:
    """Files as documents."""

    parts: tuple[Part, ...]
    joined: bool = False
    """Whether lines that were broken to a width are joined to paragraphs."""

    @property
    def name(self) -> str:
        first = str(self.parts[0].file)
        return first if len(self.parts) == 1 else f"{first} and {len(self.parts) - 1} more"

    def key(self) -> str:
        digests = {part.file: "" for part in self.parts}
        for path in digests:
            with path.open("rb") as file:
                digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
        known = repr([(digests[part.file], part.start, part.end) for part in self.parts])
        return f"{known} joined {wrapping.RULE}" if self.joined else known

    def size(self) -> int:
        return sum(part.end - part.start for part in self.parts)

    def note_line_ends(self) -> str:
        """What to tell of line ends that are not read as they are; empty where all are."""
        files = {part.file for part in self.parts}
        odd = {part.file for part in self.parts if _has_returns(part)}
        some = "" if len(files) == 1 else f", in {len(odd):,} of {len(files):,} files"
        return f"line ends \\r\\n and \\r were read as \\n{some}" if odd else ""

    def portions(self) -> Iterator[tuple[str, bool]]:
        for part in self.parts:
            portions = _portions(part)
            yield from _joined(part.file, portions) if self.joined else portions


def _joined(file: Path, portions: Iterator[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        shape = wrapping.text_shape(lines)
    return wrapping.join_portions(portions, shape)


@dataclass(frozen=True)
class StoryTexts:
    """Stories of the embedded grammar, each a document."""

    words: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.words:,} words of stories"

    def key(self) -> str:
        from vesalius import __version__

        return f"stories {self.words} {self.seed} {__version__}"

    def size(self) -> None:
        return None

    def portions(self) -> Iterator[tuple[str, bool]]:
        from vesalius.data import stories

        missing = self.words
        for document in stories.stories(self.seed):
            words = stories.stream(document)
            yield stories.as_text(words), True
            missing -= len(words)
            if missing <= 0:
                return


def join_lines(texts: Texts) -> Texts:
    """The same texts, with the lines of paragraphs joined that were broken to a width."""
    return replace(texts, joined=True) if isinstance(texts, FileTexts) else texts


def read_texts(path: str | Path) -> FileTexts:
    """A text file, or a folder with text files in it, however deep."""
    if not os.path.exists(path):  # Path.exists raises for names that are too long
        raise BrokenFile(f"there is no file or folder {str(path)!r} to read texts from")
    path = Path(path)
    require_end(path)
    inside = (file for file in path.rglob("*") if file.is_file() and file.suffix in SUFFIXES)
    found = [path] if path.is_file() else sorted(inside)
    if not found:
        raise EmptyCorpus(f"{path} holds no text files; expected {', '.join(SUFFIXES)}")
    texts = FileTexts(tuple(Part(file, 0, file.stat().st_size) for file in found))
    if not texts.size():
        raise EmptyCorpus(f"{texts.name} is empty; expected text to learn from")
    return texts


def split(texts: FileTexts, share: float) -> tuple[FileTexts, FileTexts]:
    """The texts but for the last share of their bytes, and that share; cut at a line's end.

    Neither is empty, so a single character has no such parts.
    """
    size = texts.size()
    left = max(0, min(max(1, round(size * (1 - share))), size - 1))
    first: list[Part] = []
    rest = list(texts.parts)
    while rest and left >= rest[0].end - rest[0].start:
        first.append(rest.pop(0))
        left -= first[-1].end - first[-1].start
    if rest and left:
        part = rest.pop(0)
        cut = _line(part, part.start + left)
        if cut == part.end and not any(after.start < after.end for after in rest):
            cut = _character(part, part.start + left)
        first.append(Part(part.file, part.start, cut))
        rest.insert(0, Part(part.file, cut, part.end))
    train, held_out = (
        replace(texts, parts=tuple(part for part in some if part.start < part.end))
        for some in (first, rest)
    )
    if not (train.parts and held_out.parts):
        raise EmptyCorpus(
            f"{texts.name} has {size} bytes, too few to train on some and validate on others; "
            f"give more text"
        )
    return train, held_out


def _line(part: Part, place: int) -> int:
    """Where a line begins, from this place on; a word or a character, where no line does nearby."""
    with part.file.open("rb") as file:
        file.seek(place - 1)
        before, near = file.read(1), file.read(min(REACH, part.end - place))
    if before == b"\n":
        return place
    for beginning in (rb"(?<=\n)", rb"(?=[ \t\r])", rb"(?=[^\x80-\xbf])"):
        found = re.search(beginning, near)
        if found and found.end() < len(near):
            return place + found.end()
    return part.end


def _character(part: Part, place: int) -> int:
    """Where the character begins that a byte belongs to."""
    start = max(part.start, place - 3)  # a character has at most four bytes
    with part.file.open("rb") as file:
        file.seek(start)
        near = file.read(place + 1 - start)
    found = re.search(rb"[^\x80-\xbf][\x80-\xbf]*\Z", near)
    return start + found.start() if found else part.start


_BREAK = re.compile(r"(?s:.*\S)(?= )|(?s:.*\S)(?=[\t\r\n])")
"""Up to the last place where a portion may end: before a space, or else other white space.

Some tokenizers put a space before a text that begins with none, and BERT's drops form feeds.
"""


def _has_returns(part: Part) -> bool:
    """Whether there are carriage returns in a part, as in Windows' ends of lines."""
    with part.file.open("rb") as file:
        file.seek(part.start)
        sizes = (min(PORTION, part.end - at) for at in range(part.start, part.end, PORTION))
        return any(b"\r" in file.read(size) for size in sizes)


def _portions(part: Part) -> Iterator[tuple[str, bool]]:
    # Windows' ends of lines are read as \n, which tokenizers know and models were trained on.
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")(), translate=True)
    waiting, at = list[str](), part.start
    with part.file.open("rb") as file:
        file.seek(at)
        while at < part.end:
            data = file.read(min(PORTION, part.end - at))
            if not data:
                raise BrokenFile(f"{part.file} became shorter while it was read")
            at += len(data)
            text = _decoded(decoder, part.file, data, at, final=at == part.end)
            found = _BREAK.match(text)
            if at == part.end:
                yield "".join((*waiting, text)), True
            elif found:
                yield "".join((*waiting, found[0])), False
                waiting = [text[found.end() :]]
            else:
                waiting.append(text)


def _decoded(
    decoder: io.IncrementalNewlineDecoder, file: Path, data: bytes, end: int, final: bool
) -> str:
    """The text of bytes that end at a place of a file."""
    try:
        return decoder.decode(data, final)
    except UnicodeDecodeError as error:
        bad = error.object[error.start]  # maybe of bytes that were kept from an earlier portion
        at = end - len(error.object) + error.start
        raise BrokenFile(
            f"{file} is not UTF-8: byte 0x{bad:02x} at offset {at}; convert it, for example with "
            f"iconv -t UTF-8"
        ) from error

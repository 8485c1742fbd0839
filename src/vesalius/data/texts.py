"""Texts to learn from: files, folders, and the stories of the grammar, as documents in portions.

A portion fits into memory where a document may not. It ends before white space, so that tokenizers
cut a text of many portions as they would cut the whole.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vesalius.errors import BrokenFile, EmptyCorpus

PORTION = 1 << 20
"""Bytes of a text that are read at once."""
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
    """Some bytes of a file, from whole line to whole line."""

    file: Path
    start: int
    end: int


@dataclass(frozen=True)
class FileTexts:
    """Files as documents."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        first = str(self.parts[0].file)
        return first if len(self.parts) == 1 else f"{first} and {len(self.parts) - 1} more"

    def key(self) -> str:
        files = [(str(p.file.resolve()), p.file.stat(), p.start, p.end) for p in self.parts]
        return repr([(name, s.st_size, s.st_mtime_ns, *cut) for name, s, *cut in files])

    def size(self) -> int:
        return sum(part.end - part.start for part in self.parts)

    def portions(self) -> Iterator[tuple[str, bool]]:
        for part in self.parts:
            yield from _portions(part)


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


def read_texts(path: str | Path) -> FileTexts:
    """A text file, or a folder with text files in it, however deep."""
    path = Path(path)
    if not path.exists():
        raise BrokenFile(f"there is no file or folder {str(path)!r} to read texts from")
    found = [path] if path.is_file() else _within(path)
    texts = FileTexts(tuple(Part(file, 0, file.stat().st_size) for file in found))
    if not texts.parts:
        raise EmptyCorpus(f"{path} holds no text files; expected {', '.join(SUFFIXES)}")
    if not texts.size():
        raise EmptyCorpus(f"{texts.name} is empty; expected text to learn from")
    return texts


def split(texts: FileTexts, share: float) -> tuple[FileTexts, FileTexts]:
    """The texts but for the last share of their bytes, and that share; cut at a line's end."""
    left = round(texts.size() * (1 - share))
    first: list[Part] = []
    for number, part in enumerate(texts.parts):
        length = part.end - part.start
        if left >= length:
            first.append(part)
            left -= length
            continue
        cut = _line_end(part, part.start + left)
        head = [Part(part.file, part.start, cut)] if cut > part.start else []
        tail = [Part(part.file, cut, part.end)] if cut < part.end else []
        rest = texts.parts[number + 1 :]
        return FileTexts((*first, *head)), FileTexts((*tail, *rest))
    return FileTexts(tuple(first)), FileTexts(())


def counting(texts: Texts, tell: Callable[[int], None]) -> Iterator[tuple[str, bool]]:
    """The portions, telling the bytes of each as it goes by."""
    for text, ends in texts.portions():
        yield text, ends
        tell(len(text.encode()))


def _within(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix in SUFFIXES)
    return sorted(files)


def _line_end(part: Part, place: int) -> int:
    """The next place from here on where a line begins."""
    with part.file.open("rb") as file:
        file.seek(place)
        rest = file.readline() if place > part.start else b""
        return min(place + len(rest), part.end)


def _portions(part: Part) -> Iterator[tuple[str, bool]]:
    kept, at = b"", part.start
    with part.file.open("rb") as file:
        file.seek(at)
        while at < part.end:
            data = file.read(min(PORTION, part.end - at))
            if not data:
                raise BrokenFile(f"{part.file} became shorter while it was read")
            at += len(data)
            kept += data
            cut = len(kept) if at == part.end else _cut(kept)
            if cut:
                yield _decoded(part.file, kept[:cut], at - len(kept)), at == part.end
                kept = kept[cut:]


def _cut(data: bytes) -> int:
    """The last place where white space follows a letter or a sign; 0 where there is none."""
    tail = data[-4096:]
    places = [found.start() + 1 for found in re.finditer(rb"[!-~]\s", tail)]
    return len(data) - len(tail) + places[-1] if places else 0


def _decoded(file: Path, data: bytes, start: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        at, byte = start + error.start, data[error.start]
        raise BrokenFile(
            f"{file} is not UTF-8: byte 0x{byte:02x} at offset {at}; convert it, for example with "
            f"iconv -t UTF-8"
        ) from error

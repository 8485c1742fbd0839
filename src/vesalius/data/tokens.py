"""Token files: a corpus as numbers, made once and then read as a view of the disk.

Ids are 16 bits wide where the vocabulary allows it. Beside them stand the places where documents
begin and, if asked for, sentences; and how many bytes of text they all are.
"""

import hashlib
import json
import shutil
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy import ndarray as Array

from vesalius import __version__
from vesalius.arguments import Progress, silent
from vesalius.checkpoints import files
from vesalius.data.texts import Texts
from vesalius.errors import AlreadyThere, BrokenFile, EmptyCorpus
from vesalius.machine import not_kept
from vesalius.tokenizers import Tokenizer, sentences
from vesalius.tokenizers.kinds import END_OF_TEXT

FORM = 3
"""Counted up when token files come to be made or read in another way."""
AT_ONCE = 1 << 22
"""Characters that are tokenised together, on all cores."""
SENTENCE = 1 << 16
"""Characters of the longest sentence that is kept whole in a text of many portions."""


@dataclass(frozen=True)
class Tokens:
    """A tokenised corpus."""

    ids: Array
    documents: Array
    """Where each document begins; those without tokens are left out."""
    sentences: Array | None
    """Where each sentence begins, if they were asked for."""
    bytes: int
    """Of the text that the ids stand for."""
    digest: str
    """SHA-256 of the ids."""


@dataclass(frozen=True)
class Portion:
    """Text to tokenise, whole or by sentence; and the bytes that are gone through with it."""

    pieces: list[str]
    bytes: int
    ends: bool
    """Whether a document ends here."""


def tokenised(
    texts: Texts,
    tokenizer: Tokenizer,
    cache: Path | None,
    by_sentence: bool = False,
    progress: Progress = silent,
) -> Tokens:
    """The token file of a corpus, from the cache or made for it; in memory if it cannot be kept.

    Progress is told in bytes.
    """
    known = f"{FORM} {__version__} {texts.key()} {tokenizer.digest()} {by_sentence}"
    if cache is None:
        return _in_memory(texts, tokenizer, by_sentence, progress)
    folder = cache / "tokens" / hashlib.sha256(known.encode()).hexdigest()[:32]
    try:
        if folder.exists():
            with suppress(OSError, ValueError, KeyError, EOFError):
                return read_tokens(folder)
            shutil.rmtree(folder)  # it is damaged
        # Another process may have made the same meanwhile.
        with suppress(AlreadyThere), files.new_folder(folder) as stage:
            _write(stage, texts, tokenizer, by_sentence, progress)
        return read_tokens(folder)
    except OSError as error:
        made = _in_memory(texts, tokenizer, by_sentence, progress)  # or the texts are at fault
        not_kept("token files", folder.parent, error)
        return made


def read_tokens(folder: Path) -> Tokens:
    about = json.loads((folder / "about.json").read_text())

    def mapped(name: str) -> Array:
        array: Array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return array

    dtype, file = np.dtype(about["dtype"]), folder / "ids.bin"
    if file.stat().st_size != about["tokens"] * dtype.itemsize:
        raise BrokenFile(f"{file} is damaged; remove its folder, and it is made anew")
    ids = np.memmap(file, dtype, mode="r")
    by_sentence = mapped("sentences") if (folder / "sentences.npy").exists() else None
    return Tokens(ids, mapped("documents"), by_sentence, about["bytes"], about["digest"])


def _write(
    stage: Path, texts: Texts, tokenizer: Tokenizer, by_sentence: bool, progress: Progress
) -> None:
    with (stage / "ids.bin").open("wb") as file:
        made = _encode(file, texts, tokenizer, by_sentence, progress)
    np.save(stage / "documents.npy", made.documents)
    if made.sentences is not None:
        np.save(stage / "sentences.npy", made.sentences)
    about = {"dtype": made.ids.dtype.name, "bytes": made.bytes, "digest": made.digest}
    about["tokens"] = (stage / "ids.bin").stat().st_size // made.ids.itemsize
    (stage / "about.json").write_text(json.dumps(about, indent=2) + "\n")


def _in_memory(texts: Texts, tokenizer: Tokenizer, by_sentence: bool, progress: Progress) -> Tokens:
    file = BytesIO()
    made = _encode(file, texts, tokenizer, by_sentence, progress)
    return replace(made, ids=np.frombuffer(file.getbuffer(), made.ids.dtype))


def _encode(
    file: BinaryIO, texts: Texts, tokenizer: Tokenizer, by_sentence: bool, progress: Progress
) -> Tokens:
    """Write the ids to a file; all else of the tokens is given back."""
    last = tokenizer.special.get(END_OF_TEXT)
    end = [] if last is None else [last]
    dtype = np.dtype(np.uint16 if tokenizer.rows <= 1 << 16 else np.uint32)
    digest, done, size, total = hashlib.sha256(), 0, 0, texts.size()
    documents, starts, begins = array("q"), array("q"), True
    for portion, pieces in _encoded(_portions(texts, by_sentence), tokenizer):
        ids = np.fromiter(chain(*pieces, end if portion.ends else []), dtype)
        if begins and len(ids):
            documents.append(size)
        starts.extend((size + np.cumsum([0, *map(len, pieces)])[:-1]).tolist())
        begins = portion.ends or (begins and not len(ids))
        digest.update(ids.tobytes())
        file.write(ids.tobytes())
        size += len(ids)
        done += portion.bytes
        progress(f"tokens of {texts.name}", done, total)
    if not size:
        raise EmptyCorpus(f"{texts.name} holds no tokens; expected text to learn from")
    by = np.array(starts, np.int64) if by_sentence else None
    begun = np.array(documents, np.int64)
    return Tokens(np.zeros(0, dtype), begun, by, done, digest.hexdigest())


def _portions(texts: Texts, by_sentence: bool) -> Iterator[Portion]:
    """Portions as they come; or with whole sentences, the last of which may wait for the next."""
    kept = ""
    for text, ends in texts.portions():
        size = len(text.encode())
        if not by_sentence:
            yield Portion([text], size, ends)
            continue
        text = kept + text
        found = sentences(text)
        kept = "" if ends else text[found[-1].start if found else 0 :]
        if len(kept) > SENTENCE:  # a text without stops
            kept = ""
        pieces = [sentence.text for sentence in (found[:-1] if kept else found)]
        yield Portion(pieces, size, ends)


def _encoded(
    portions: Iterator[Portion], tokenizer: Tokenizer
) -> Iterator[tuple[Portion, list[list[int]]]]:
    """Each portion with the ids of its pieces, empty ones left out; many are encoded at once."""
    for batch in _batches(portions):
        together = iter(tokenizer.encode_many((p for b in batch for p in b.pieces), framed=False))
        for portion in batch:
            yield portion, [ids for ids in islice(together, len(portion.pieces)) if ids]


def _batches(portions: Iterator[Portion]) -> Iterator[list[Portion]]:
    batch: list[Portion] = []
    size = 0
    for portion in portions:
        batch.append(portion)
        size += sum(map(len, portion.pieces))
        if size >= AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch

"""Token files: a corpus as numbers, made once and then read as a view of the disk.

Ids are 16 bits wide where the vocabulary allows it. Beside them stand the places where documents
begin and, if asked for, sentences; and how many bytes of text they all are.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy import ndarray as Array

from vesalius.checkpoints import files
from vesalius.data.texts import Texts, counting
from vesalius.errors import EmptyCorpus
from vesalius.tokenizers import Tokenizer, sentences

AT_ONCE = 16
"""Portions of text that are tokenised together, on all cores."""
Progress = Callable[[int, int | None], None]
"""Told how many bytes are done, and of how many where that is known."""


@dataclass(frozen=True)
class Tokens:
    """A tokenised corpus."""

    ids: Array
    documents: Array
    """Where each document begins."""
    sentences: Array | None
    """Where each sentence begins, if they were asked for."""
    bytes: int
    """Of the text that the ids stand for."""
    digest: str
    """SHA-256 of the ids."""


def tokenised(
    texts: Texts,
    tokenizer: Tokenizer,
    cache: Path,
    by_sentence: bool = False,
    progress: Progress | None = None,
) -> Tokens:
    """The token file of a corpus, from the cache or made for it."""
    known = f"{texts.key()} {tokenizer.digest()} {by_sentence}"
    folder = cache / "tokens" / hashlib.sha256(known.encode()).hexdigest()[:32]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with files.new_folder(folder) as stage:
            _write(stage, texts, tokenizer, by_sentence, progress or (lambda done, of: None))
    return read_tokens(folder)


def read_tokens(folder: Path) -> Tokens:
    about = json.loads((folder / "about.json").read_text())

    def mapped(name: str) -> Array:
        array: Array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return array

    ids = np.memmap(folder / "ids.bin", dtype=about["dtype"], mode="r")
    by_sentence = mapped("sentences") if (folder / "sentences.npy").exists() else None
    return Tokens(ids, mapped("documents"), by_sentence, about["bytes"], about["digest"])


def _write(
    stage: Path, texts: Texts, tokenizer: Tokenizer, by_sentence: bool, progress: Progress
) -> None:
    end = tokenizer.special.get("<|endoftext|>")
    dtype = np.dtype(np.uint16 if tokenizer.rows <= 1 << 16 else np.uint32)
    digest, done, size = hashlib.sha256(), 0, 0
    documents, starts, begins = [], [], True

    def tell(more: int) -> None:
        nonlocal done
        done += more
        progress(done, texts.size())

    with (stage / "ids.bin").open("wb") as file:
        portions = counting(texts, tell)
        while batch := list(islice(portions, AT_ONCE)):
            for pieces, ends in _encoded(batch, tokenizer, by_sentence):
                if begins:
                    documents.append(size)
                lengths = np.cumsum([0, *map(len, pieces)])
                starts.append(size + lengths[:-1])
                ids = [i for piece in pieces for i in piece]
                ids += [end] if ends and end is not None else []
                data = np.array(ids, dtype).tobytes()
                digest.update(data)
                file.write(data)
                size += len(ids)
                begins = ends
    if not size:
        raise EmptyCorpus(f"{texts.name} holds no tokens; expected text to learn from")
    np.save(stage / "documents.npy", np.array(documents, np.int64))
    if by_sentence:
        np.save(stage / "sentences.npy", np.concatenate(starts).astype(np.int64))
    about = {"dtype": dtype.name, "bytes": done, "digest": digest.hexdigest(), "tokens": size}
    (stage / "about.json").write_text(json.dumps(about, indent=2) + "\n")


def _encoded(
    batch: list[tuple[str, bool]], tokenizer: Tokenizer, by_sentence: bool
) -> Iterator[tuple[list[list[int]], bool]]:
    """The ids of each portion, in one piece or by sentence."""
    cut = [[s.text for s in sentences(t)] if by_sentence else [t] for t, _ in batch]
    together = iter(tokenizer.encode_many((piece for pieces in cut for piece in pieces), False))
    for pieces, (_, ends) in zip(cut, batch, strict=True):
        ids = list(islice(together, len(pieces)))
        yield [piece for piece in ids if piece] if by_sentence else ids, ends

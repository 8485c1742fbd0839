"""Vocabularies: learnt from the texts to train on, once, and kept in the cache."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vesalius import __version__, tokenizers
from vesalius.arguments import Progress
from vesalius.checkpoints import files, naming
from vesalius.data.settings import TextData
from vesalius.data.texts import Texts
from vesalius.errors import AlreadyThere, BrokenFile
from vesalius.machine import not_kept
from vesalius.tokenizers import Tokenizer

LEARNING = 3
"""Counted up when vocabularies come to be learnt in another way."""


def tokenizer_of(
    data: TextData, train: Texts, valid: Texts, cache: Path | None, progress: Progress
) -> Tokenizer:
    """The tokenizer that ``data`` names: learnt, from the cache, or read from a folder."""
    learners: dict[str, Callable[[Any], Tokenizer]] = {
        "byte-pairs": lambda texts: tokenizers.train_byte_pairs(texts, data.vocabulary),
        "word-pieces": lambda texts: tokenizers.train_word_pieces(texts, data.vocabulary),
        "words": lambda texts: tokenizers.train_words(texts, data.vocabulary),
        "characters": tokenizers.train_characters,
    }
    if data.tokenizer not in learners:
        found = tokenizers.read_tokenizer(data.tokenizer)
        if found is None:
            raise BrokenFile(
                f"{data.tokenizer!r} holds no tokenizer; expected a folder that does, or one of "
                f"{', '.join(learners)} to learn"
            )
        return found
    # Characters are not learnt but listed, so the validation text gives its own too.
    read_from = (train, valid) if data.tokenizer == "characters" else (train,)
    learning = (LEARNING, __version__, data.tokenizer, data.vocabulary)
    known = repr([*learning, *(part.key() for part in read_from)])
    name = hashlib.sha256(known.encode()).hexdigest()[:32]
    folder = None if cache is None else cache / "tokenizers" / name
    if folder is not None and (kept := _kept(folder)) is not None:
        return kept
    progress(f"a vocabulary of {data.tokenizer}", 0, None)
    learnt = learners[data.tokenizer](text for part in read_from for text, _ in part.portions())
    if folder is None:
        return learnt
    try:
        shutil.rmtree(folder, ignore_errors=True)  # if it is there, it is damaged
        # Another process may have learnt the same meanwhile.
        with suppress(AlreadyThere), files.new_folder(folder) as stage:
            learnt.save(stage)
    except OSError as error:
        not_kept("vocabularies", folder.parent, error)
    return _kept(folder) or learnt


def _kept(folder: Path) -> Tokenizer | None:
    """A tokenizer from the cache; None if it is not there, or damaged."""
    with suppress(BrokenFile, OSError):
        return tokenizers.read_tokenizer(folder) if folder.exists() else None
    return None


def word_pieces_of(name: str, size: int, texts: Iterable[str], progress: Progress) -> Tokenizer:
    """BERT's tokenizer for a model that begins with random weights: learnt, or another model's."""
    if name == "word-pieces":
        progress("a vocabulary of word-pieces", 0, None)
        return tokenizers.train_word_pieces(texts, size)
    folder = naming.find(name).folder or Path(name)
    found = tokenizers.read_tokenizer(folder)
    if found is None:
        raise BrokenFile(
            f"{name!r} holds no tokenizer; expected a model or a folder that does, or word-pieces "
            f"to learn"
        )
    return found

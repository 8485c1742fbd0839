"""Text to token ids and back, by the ``tokenizers`` library.

Reads what checkpoints carry: tokenizer.json, GPT-2's vocab.json and merges.txt, BERT's vocab.txt.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vesalius.errors import BrokenFile

FILES = ("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json")


class Tokenizer:
    """A tokenizer of the library, with the few calls that are needed."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def size(self) -> int:
        """The number of words, special tokens included."""
        return int(self._inner.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode([int(i) for i in ids], skip_special_tokens=False))

    def piece(self, id_: int) -> str:
        """One token as text, spaces and all."""
        return self.decode([id_])

    def save(self, folder: Path) -> None:
        self._inner.save(str(folder / "tokenizer.json"))


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of a checkpoint's folder, or None where it has none."""
    present = {name: folder / name for name in FILES if (folder / name).exists()}
    try:
        if "tokenizer.json" in present:
            from tokenizers import Tokenizer as Inner

            return Tokenizer(Inner.from_file(str(present["tokenizer.json"])))
        if {"vocab.json", "merges.txt"} <= set(present):
            from tokenizers import ByteLevelBPETokenizer

            files = (str(present["vocab.json"]), str(present["merges.txt"]))
            return Tokenizer(ByteLevelBPETokenizer.from_file(*files))
        if "vocab.txt" in present:
            from tokenizers import BertWordPieceTokenizer

            lowercase = _lowercase(folder)
            return Tokenizer(
                BertWordPieceTokenizer.from_file(str(present["vocab.txt"]), lowercase=lowercase)
            )
    except Exception as error:  # the library raises bare Exceptions
        raise BrokenFile(f"the tokenizer in {folder} cannot be read: {error}") from error
    return None


def _lowercase(folder: Path) -> bool:
    """Whether a WordPiece vocabulary is for lower-case text: as said, else as BERT's first was."""
    from vesalius.checkpoints.files import read_json

    settings = folder / "tokenizer_config.json"
    return bool(read_json(settings).get("do_lower_case", True)) if settings.exists() else True

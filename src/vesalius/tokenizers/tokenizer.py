"""A tokenizer, whatever its kind: text to ids and back, with offsets, pieces and raw bytes.

It wraps one of the ``tokenizers`` library and adds pieces, raw bytes and errors; making one is left
to ``reading`` and ``training``.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vesalius import arguments
from vesalius.checkpoints.plain import replacing
from vesalius.errors import NotInVocabulary, TokenOutOfRange, VesaliusError, WrongKind
from vesalius.machine.properties import cached_property
from vesalius.tokenizers.kinds import END_OF_TEXT, FRAME
from vesalius.tokenizers.panics import require_failure, silenced
from vesalius.views.shown import counted

SPECIAL = (*FRAME, END_OF_TEXT)


@dataclass(frozen=True)
class Encoded:
    """Tokens of a text, or of two: ids, where in its text each comes from, and which text.

    Special tokens that were added come from nowhere: their offsets are (0, 0).
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    segments: list[int]


class Tokenizer:
    """A vocabulary and how to use it; special tokens are added as the model expects them."""

    def __init__(self, inner: Any) -> None:
        self._inner = getattr(inner, "_tokenizer", inner)  # the library's ready-made ones wrap it
        self._bytes: dict[int, bytes] = {}

    def __repr__(self) -> str:
        kind = "byte-level" if self.byte_level else type(self._inner.model).__name__
        special = ", ".join(self.special) or "none"
        return f"Tokenizer: {kind}, {self.size:,} tokens, special ones {special}"

    @property
    def size(self) -> int:
        """The number of words, special tokens included."""
        return int(self._inner.get_vocab_size())

    @cached_property
    def rows(self) -> int:
        """The rows that an embedding needs: the largest id and one, since ids may have gaps."""
        return max(self._inner.get_vocab().values(), default=-1) + 1

    @property
    def special(self) -> dict[str, int]:
        """The special tokens that there are, with their ids."""
        added = {t.content: i for i, t in self._added.items() if t.special}
        known = {name: self._inner.token_to_id(name) for name in SPECIAL}
        found = {name: i for name, i in (known | added).items() if i is not None}
        return dict(sorted(found.items(), key=lambda pair: pair[1]))

    def encode(self, text: str) -> list[int]:
        return list(self._run(text).ids)

    def encode_many(self, texts: Iterable[str], framed: bool = True) -> list[list[int]]:
        """Each text as ``encode`` gives it, on all cores; not framed, without special tokens."""
        texts = arguments.texts("texts", texts)
        try:
            encodings = self._inner.encode_batch_fast(texts, add_special_tokens=framed)
            return [list(encoding.ids) for encoding in encodings]
        except BaseException as error:  # one by one, to say which and why
            require_failure(error)
            return [list(self._run(text, framed=framed).ids) for text in texts]

    def encode_prompt(self, text: str) -> list[int]:
        """A text to continue: with what is added before texts, without what is added after."""
        (ids,) = self.encode_many([text], framed=False)
        return [*self.frame[0], *ids]

    @cached_property
    def frame(self) -> tuple[list[int], list[int]]:
        """The ids that are added before a text, and after it."""
        for id_ in range(self.rows):  # the first token that is one when read as text shows both
            with suppress(VesaliusError):
                encoding = self._run(self.piece(id_))
                own = [at for at, of in enumerate(encoding.sequence_ids) if of is not None]
                if own:
                    return encoding.ids[: own[0]], encoding.ids[own[-1] + 1 :]
        return [], []

    def encode_with_offsets(self, text: str, framed: bool = True) -> Encoded:
        """Ids, and the characters of the text that each stands for."""
        return _encoded(self._run(text, framed=framed))

    def to_json(self, text: str) -> list[dict[str, Any]]:
        """The tokens of a text: id, token, the characters from start to end, and bytes in hex."""
        found = self.encode_with_offsets(text)
        return [
            {"id": i, "token": self.piece(i), "start": start, "end": end}
            | {"bytes": self.bytes_of(i).hex(" ")}
            for i, (start, end) in zip(found.ids, found.offsets, strict=True)
        ]

    def encode_pair(self, first: str, second: str) -> Encoded:
        """Two texts as BERT reads them: [CLS] first [SEP] in segment 0, second [SEP] in 1."""
        if "[SEP]" not in self.special:
            raise WrongKind("this tokenizer has no [SEP]; pairs of texts are for BERT's")
        return _encoded(self._run(first, arguments.text("second", second)))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; an id that no token has gives nothing, since models pad theirs."""
        ids = arguments.ids("ids", ids)
        if self.byte_level:
            return b"".join(self.bytes_of(i) for i in ids).decode("utf-8", errors="replace")
        return self._joined([_checked(i) for i in ids])

    def piece(self, id_: int) -> str:
        r"""One token as text, spaces and all; bytes that are no whole character as ``\xe2``."""
        return self.bytes_of(id_).decode("utf-8", errors="backslashreplace")

    def bytes_of(self, id_: int) -> bytes:
        """One token as bytes: those of byte-level tokens may be parts of a character."""
        id_ = _checked(id_)
        if id_ not in self._bytes:
            self._bytes[id_] = self._raw(id_)
        return self._bytes[id_]

    def continues(self, id_: int) -> bool:
        """Whether a token goes on with a word, as ## says in BERT's."""
        return str(self._inner.id_to_token(_checked(id_))).startswith("##")

    def id_of(self, token: str) -> int:
        """The id of one token, written as ``piece`` shows it."""
        found = self._inner.token_to_id(arguments.text("token", token))
        if self.byte_level and found not in self._added:
            spelled = "".join(byte_alphabet()[byte] for byte in token.encode())
            found = self._inner.token_to_id(spelled)
        if found is None:
            raise NotInVocabulary(f"{token!r} is not one token of the {self.size} here")
        return int(found)

    @cached_property
    def unknown(self) -> int | None:
        """The id of what stands for words and characters without a token; None without one."""
        model = self._inner.model
        if hasattr(model, "unk_token"):
            found = model.token_to_id(model.unk_token or "")
        else:  # Unigram
            found = json.loads(model.__getstate__()).get("unk_id")
        # One that is also added to every text, as by GPT-2's tokenizer, says nothing about it.
        return None if found in (*self.frame[0], *self.frame[1]) else found

    def note_unknown(self, ids: Iterable[int]) -> str:
        """What to tell of unknown tokens among these; empty where none is unknown."""
        ids = list(ids)
        count = 0 if self.unknown is None else ids.count(self.unknown)
        are = "is" if count == 1 else "are"
        return f"{count:,} of {counted(len(ids), 'token')} {are} unknown" if count else ""

    @cached_property
    def blanks(self) -> bool:
        """Whether tokens hold the blanks between words, as those of byte pairs do."""
        for id_ in range(self.rows):
            with suppress(VesaliusError):  # an id may have no token
                if self.piece(id_)[:1].isspace():
                    return True
        return False

    def digest(self) -> str:
        """SHA-256 of everything that makes the tokenizer."""
        return hashlib.sha256(self._inner.to_str().encode()).hexdigest()

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json, which holds everything, to a folder; whole or not at all."""
        folder = Path(arguments.path("folder", folder))
        folder.mkdir(parents=True, exist_ok=True)
        text = self._inner.to_str(pretty=True)
        with replacing(folder / "tokenizer.json") as place:
            place.write_text(text, encoding="utf-8")

    @cached_property
    def byte_level(self) -> bool:
        """Whether tokens are spelled in bytes, each a piece of text that needs no others."""
        from tokenizers.decoders import ByteLevel

        return isinstance(self._inner.decoder, ByteLevel)

    @cached_property
    def _added(self) -> dict[int, Any]:
        """Tokens that were added to the vocabulary: they are not spelled in bytes."""
        return dict(self._inner.get_added_tokens_decoder())

    def _raw(self, id_: int) -> bytes:
        token = self._inner.id_to_token(id_)
        if token is None:
            return b""
        if id_ in self._added:
            return str(token).encode()
        if not self.byte_level:
            return self._joined([id_]).encode()
        numbers = _byte_numbers()
        if not numbers.keys() >= set(token):
            return str(token).encode()
        return bytes(numbers[character] for character in token)

    def _joined(self, ids: list[int]) -> str:
        try:
            with silenced():  # a decoder that strips characters may panic at some tokens
                return str(self._inner.decode(ids, skip_special_tokens=False))
        except BaseException as error:
            require_failure(error)
            raise VesaliusError(f"the tokens {ids} cannot be joined to a text: {error}") from error

    def _run(self, text: str, second: str | None = None, framed: bool = True) -> Any:
        arguments.text("text", text)
        try:
            return self._inner.encode(text, second, add_special_tokens=framed)
        except BaseException as error:
            require_failure(error)
            for given in (text, second or ""):
                self._explain(given)
            raise VesaliusError(f"the text cannot be tokenised: {error}") from error

    def _explain(self, text: str) -> None:
        """Name the character or word without a token, if that is why a text failed."""
        from tokenizers.models import WordLevel

        for at, character in enumerate(text):
            if "\ud800" <= character <= "\udfff":
                raise NotInVocabulary(
                    f"character {at} is U+{ord(character):04X}, half of a pair and no character; "
                    f"expected text decoded from valid UTF-8"
                )
        if not isinstance(self._inner.model, WordLevel) or self._inner.pre_tokenizer is None:
            return
        for piece, (start, _) in self._inner.pre_tokenizer.pre_tokenize_str(text):
            if self._inner.token_to_id(piece) is None:
                raise NotInVocabulary(
                    f"{piece!r} at character {start} is none of the {self.size} in the vocabulary; "
                    f"take it out, or train on a text that has it"
                )


def _encoded(encoding: Any) -> Encoded:
    offsets = [(int(start), int(end)) for start, end in encoding.offsets]
    return Encoded(list(encoding.ids), offsets, list(encoding.type_ids))


def _checked(id_: int) -> int:
    number = arguments.whole("a token id", id_)
    if not 0 <= number < 2**32:
        raise TokenOutOfRange(f"token ids are whole numbers from 0 on, got {number}")
    return number


@cache
def byte_alphabet() -> tuple[str, ...]:
    """The 256 characters that byte-level vocabularies are spelled in, by byte.

    Bytes that print in Latin-1 are themselves; the others, white space and control characters
    among them, are the characters from 256 on.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    shifted = iter(range(256, 512))
    return tuple(chr(byte if byte in printable else next(shifted)) for byte in range(256))


@cache
def _byte_numbers() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_alphabet())}

"""Reading tokenizers from what checkpoints carry, and texts from files.

Known are tokenizer.json, GPT-2's pair of files under Hugging Face's names and under OpenAI's, and
BERT's vocab.txt with the settings beside it. A file that cannot be used is named.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from vesalius import arguments
from vesalius.checkpoints.plain import contents, read_json, require_end
from vesalius.errors import BrokenFile
from vesalius.tokenizers import growth, kinds
from vesalius.tokenizers.panics import require_failure, silenced
from vesalius.tokenizers.tokenizer import Tokenizer

WHOLE, PIECES, SETTINGS = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
PROBE = "Don't a aa  \t\n12 é e\u0301 雨が 🌧🌧 [MASK]."
MOST_IDS = 1 << 24  # dozens of times the largest vocabularies
PORTION = 1 << 20  # bytes of a text that are read at once


def read_tokenizer(folder: str | Path) -> Tokenizer | None:
    """The tokenizer of a checkpoint's folder, or None where it has none; or of one of its files."""
    folder = Path(arguments.path("folder", folder))
    if folder.is_file():
        return _read_file(folder)
    if (folder / WHOLE).exists():
        return _read_whole(folder / WHOLE)
    for vocabulary, merges in PAIRS:
        if (folder / vocabulary).exists() and (folder / merges).exists():
            prefix = bool(_settings(folder).get("add_prefix_space", False))
            return read_byte_pairs(folder / vocabulary, folder / merges, prefix)
    if (folder / PIECES).exists():
        said = _settings(folder)
        return read_word_pieces(
            folder / PIECES,
            lowercase=bool(said.get("do_lower_case", True)),  # as BERT's first was
            strip_accents=said.get("strip_accents"),
            split_chinese=bool(said.get("tokenize_chinese_chars", True)),
        )
    return None


def _read_file(file: Path) -> Tokenizer:
    """By what the file is: a tokenizer.json, BERT's list of words, or GPT-2's vocabulary."""
    if file.suffix != ".json":
        return read_word_pieces(file)
    # In a vocabulary "model" may be a token like any other, and stands for a number.
    if isinstance(read_json(file).get("model"), dict):
        return _read_whole(file)
    merges = next((file.with_name(m) for v, m in PAIRS if v == file.name), file)
    if not merges.is_file() or merges == file:
        raise BrokenFile(
            f"{file} holds no tokenizer; expected tokenizer.json, vocab.txt, or "
            f"vocab.json with merges.txt beside it"
        )
    return read_byte_pairs(file, merges)


def read_byte_pairs(
    vocabulary_file: str | Path, merges_file: str | Path, prefix_space: bool = False
) -> Tokenizer:
    """GPT-2's tokenizer, from a JSON of tokens and ids and a list of merges."""
    vocabulary_file, merges_file = Path(vocabulary_file), Path(merges_file)
    vocabulary = read_json(vocabulary_file)
    if not all(type(i) is int and i >= 0 for i in vocabulary.values()):
        raise BrokenFile(f"{vocabulary_file} should give every token a whole number")
    if len(set(vocabulary.values())) < len(vocabulary):
        raise BrokenFile(f"{vocabulary_file} gives two tokens the same id")
    merges = list(_merges(merges_file, vocabulary))
    return _built(vocabulary_file, lambda: kinds.byte_pairs(vocabulary, merges, prefix_space))


def read_word_pieces(
    vocabulary_file: str | Path,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
) -> Tokenizer:
    """BERT's tokenizer, from one token a line; accents go with capitals unless it is said."""
    file = Path(vocabulary_file)
    vocabulary = {token: i for i, token in enumerate(_lines(file))}
    if missing := [name for name in ("[UNK]", "[CLS]", "[SEP]") if name not in vocabulary]:
        raise BrokenFile(
            f"{file} lacks {', '.join(missing)}; expected BERT's vocabulary, one token a line"
        )
    return _built(
        file, lambda: kinds.word_pieces(vocabulary, lowercase, strip_accents, split_chinese)
    )


def read_texts(files: Iterable[str | Path]) -> Iterator[str]:
    """The texts of files, in portions of whole lines, for training."""
    for name in files:
        start = 0
        require_end(name)
        with Path(name).open("rb") as file:
            while lines := file.readlines(PORTION):
                portion = b"".join(lines)
                text = _decoded(Path(name), portion, start)
                yield text.replace("\r\n", "\n").replace("\r", "\n")
                start += len(portion)


def _read_whole(file: Path) -> Tokenizer:
    text = _decoded(file, contents(file))
    said = read_json(file)
    if MAP in text or "\\u" in text:  # which may spell it
        _require_maps(file, said)
    growth.require_bounded(file, said)

    def build() -> Any:
        from tokenizers import Tokenizer as Inner

        inner = Inner.from_str(text)
        _require_frame(file, inner.post_processor)
        inner.no_truncation()  # a length that someone once trained with cuts no text here
        inner.no_padding()
        inner.encode("")  # what fails only in use should fail now
        _require_no_panic(inner)
        return inner

    return _built(file, build)


MAP = "precompiled_charsmap"


def _require_maps(file: Path, said: Any) -> None:
    """Refuse a map of characters that claims to be longer than it is.

    The library would reserve as much memory, and abort the process where there is none.
    """
    waiting = [said]
    while waiting:
        part = waiting.pop()
        waiting += part if isinstance(part, list) else []
        if isinstance(part, dict):
            waiting += part.values()
            held = part.get(MAP)
            if isinstance(held, str) and _claimed(held) > len(held):
                raise BrokenFile(f"{file} has a {MAP} that is damaged or cut short")


def _claimed(charsmap: str) -> int:
    """The bytes of its trie that a map of characters says it has; its first four, in base 64."""
    try:
        return int.from_bytes(base64.b64decode(charsmap[:8])[:4], "little")
    except ValueError:
        return 0  # which the library refuses


def _require_no_panic(inner: Any) -> None:
    """Use a tokenizer a little: what its parts are set to may make the library panic."""
    ids = range(min(8, inner.get_vocab_size()))
    uses: list[Callable[[], Any]] = [lambda: inner.decode(list(ids), skip_special_tokens=False)]
    uses += [lambda i=i: inner.decode([i], skip_special_tokens=False) for i in ids]  # type: ignore[misc]
    uses += [lambda: inner.encode(PROBE), lambda: inner.encode(PROBE, "b")]
    for use in uses:
        with suppress(Exception):  # of this text, as where a vocabulary lacks a character
            use()


def _built(file: Path, build: Callable[[], Any]) -> Tokenizer:
    try:
        with silenced():
            built = Tokenizer(build())
    except BrokenFile:
        raise
    except BaseException as error:
        require_failure(error)
        raise BrokenFile(f"{file} cannot be read as a tokenizer: {error}") from error
    if built.rows > MOST_IDS:  # which would take as many rows, and abort the library when saved
        raise BrokenFile(f"{file} has a token {built.rows - 1}; expected ids below {MOST_IDS:,}")
    return built


def _require_frame(file: Path, processor: Any) -> None:
    """Refuse a frame with tokens that it does not define.

    The library would take it, and panic at the first text with a report on the terminal.
    """
    for frame in _frames(json.loads(processor.__getstate__()) if processor else {}):
        pieces = [*frame.get("single", ()), *frame.get("pair", ())]
        named = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
        if unknown := sorted(named - frame.get("special_tokens", {}).keys()):
            raise BrokenFile(
                f"{file} frames texts with {', '.join(unknown)}, which its special_tokens lack"
            )


def _frames(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield described
    for part in described.get("processors", ()):
        yield from _frames(part)


def _merges(file: Path, vocabulary: dict[str, int]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_lines(file), 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not right or " " in right:
            raise BrokenFile(f"{file}, line {number}: expected two tokens, got {line!r}")
        for token in (left, right, left + right):
            if token not in vocabulary:
                raise BrokenFile(f"{file}, line {number}: {token!r} is not in the vocabulary")
        yield left, right


def _lines(file: Path) -> list[str]:
    """Lines as \\n ends them: vocabularies hold other characters that count as line ends."""
    lines = _decoded(file, contents(file)).split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _decoded(file: Path, data: bytes, start: int = 0) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        at, byte = start + error.start, data[error.start]
        raise BrokenFile(f"{file} is not UTF-8: byte 0x{byte:02x} at offset {at}") from error


def _settings(folder: Path) -> dict[str, Any]:
    return read_json(folder / SETTINGS) if (folder / SETTINGS).exists() else {}

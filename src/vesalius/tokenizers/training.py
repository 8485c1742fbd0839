"""Learning a vocabulary from texts: byte pairs, word pieces, characters, words.

Texts are any iterable of strings and are gone through once, so that they may be larger than
memory. The same texts give the same ids, on every run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vesalius import arguments
from vesalius.errors import ImpossibleSetting, NotInVocabulary
from vesalius.tokenizers import kinds
from vesalius.tokenizers.tokenizer import Tokenizer, byte_alphabet
from vesalius.views.shown import counted

OFTEN = 2
"""How often a pair must occur to become a token."""


def train_byte_pairs(
    texts: Iterable[str], size: int, special: Sequence[str] = (kinds.END_OF_TEXT,)
) -> Tokenizer:
    """Byte-level byte-pair encoding, as GPT-2's: at most ``size`` tokens, special ones first."""
    from tokenizers import trainers

    inner = kinds.byte_pairs({}, [])
    for name in arguments.texts("special", special):
        if len(inner.pre_tokenizer.pre_tokenize_str(name)) < 2:
            raise ImpossibleSetting(
                f"the special token {name!r} could be a piece of a text; "
                f"expected words and signs together, as in {kinds.END_OF_TEXT}"
            )
    _require(size, 256 + len(special), f"256 bytes and {counted(len(special), 'special token')}")
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=OFTEN,
        special_tokens=list(special),
        initial_alphabet=list(byte_alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(_texts(texts), trainer)
    return Tokenizer(inner)


def train_word_pieces(texts: Iterable[str], size: int, lowercase: bool = True) -> Tokenizer:
    """WordPiece, as BERT's: at most ``size`` tokens, special ones first.

    The library merges the commonest pair, as for byte pairs, and not the likeliest. It numbers the
    continuing characters in an order that changes from run to run, and ties between pairs with
    them; so here words are counted first, and these characters are given to it in order.
    """
    from tokenizers import Tokenizer as Inner
    from tokenizers import models, pre_tokenizers, trainers

    _require(size, len(kinds.FRAME) + 1, f"{len(kinds.FRAME)} special tokens and one more")
    lowercase = arguments.truth("lowercase", lowercase)
    frame = {name: i for i, name in enumerate(kinds.FRAME)}
    counts = _counts(kinds.word_pieces(frame, lowercase), texts)
    continuing = sorted({f"##{character}" for word in counts for character in word[1:]})
    starting = {character for word in counts for character in word}
    least = len(kinds.FRAME) + len(continuing) + len(starting)
    _require(size, least, f"{len(starting)} characters of the texts, alone and in words")
    inner = Inner(models.WordPiece(unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=OFTEN,
        special_tokens=[*kinds.FRAME, *continuing],
        show_progress=False,
    )
    inner.train_from_iterator(_repeated(counts), trainer)
    return Tokenizer(kinds.word_pieces(inner.get_vocab(), lowercase))


def train_characters(texts: Iterable[str], size: int | None = None) -> Tokenizer:
    """The characters of the texts, in the order of their code points.

    None is left out: a ``size`` that they do not fit into is refused.
    """
    found: set[str] = set()
    for text in _texts(texts):
        found.update(text)
    if not found:
        raise ImpossibleSetting("the texts are empty; expected at least one character")
    if halves := [c for c in found if "\ud800" <= c <= "\udfff"]:
        raise NotInVocabulary(f"U+{ord(halves[0]):04X} is half of a pair and no character")
    if size is not None:
        _require(size, len(found), f"the texts have {len(found)} characters")
    return Tokenizer(kinds.characters({c: i for i, c in enumerate(sorted(found))}))


def train_words(texts: Iterable[str], size: int) -> Tokenizer:
    """The commonest words and signs, in lower case, after the end of a text and [UNK]."""
    special = (kinds.END_OF_TEXT, kinds.FRAME[1])
    _require(size, len(special) + 1, f"{len(special)} special tokens and one word")
    kind = kinds.words({name: i for i, name in enumerate(special)})
    counts = _counts(kind, texts)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: size - len(special)]
    return Tokenizer(kinds.words({word: i for i, word in enumerate((*special, *ranked))}))


def _texts(texts: Iterable[str]) -> Iterable[str]:
    """Texts one after the other; one by itself is not its characters."""
    if isinstance(texts, str):
        texts = [texts]
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise arguments.wrong("texts", "a string or several", texts)
    return (arguments.text("each of texts", text) for text in texts)


def _require(size: int, least: int, what: str) -> None:
    size = arguments.whole("size", size)
    if size < least:
        raise ImpossibleSetting(f"size must be at least {least} here: {what}; got {size}")


def _counts(kind: Any, texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs, as a kind of vocabulary cuts texts into words."""
    counts: Counter[str] = Counter()
    for text in _texts(texts):
        clean = kind.normalizer.normalize_str(text)
        counts.update(word for word, _ in kind.pre_tokenizer.pre_tokenize_str(clean))
    if not counts:
        raise ImpossibleSetting("the texts hold no words; expected at least one")
    return counts


def _repeated(counts: Counter[str], at_once: int = 10_000) -> Iterator[str]:
    """Every word as often as it was counted, in portions that fit into memory."""
    for word, count in counts.items():
        for done in range(0, count, at_once):
            yield f"{word} " * min(at_once, count - done)

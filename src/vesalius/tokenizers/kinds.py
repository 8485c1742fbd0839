"""The kinds of vocabulary, each as a tokenizer of the library: bytes, pieces, characters, words.

How text is cleaned, cut, joined again and framed with special tokens belongs to the kind; which
tokens there are is given.
"""

from collections.abc import Mapping, Sequence
from typing import Any

END_OF_TEXT = "<|endoftext|>"
FRAME = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""BERT's special tokens, in the order of a vocabulary that is trained here."""


def byte_pairs(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], prefix_space: bool = False
) -> Any:
    """GPT-2's kind: no text is unknown, nothing is lost, nothing is added."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    inner = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=list(merges)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([END_OF_TEXT] if END_OF_TEXT in vocabulary else [])
    return inner


def word_pieces(
    vocabulary: Mapping[str, int],
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
) -> Any:
    """BERT's kind: ## continues a word, [CLS] and [SEP] frame one text or two."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    inner = Tokenizer(models.WordPiece(vocab=dict(vocabulary), unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=split_chinese
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[SEP]", "[CLS]")]
    inner.post_processor = processors.BertProcessing(*ends)
    inner.decoder = decoders.WordPiece(prefix="##")
    inner.add_special_tokens([name for name in FRAME if name in vocabulary])
    return inner


def characters(vocabulary: Mapping[str, int]) -> Any:
    """Every character is a token; one that the vocabulary lacks is an error."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel(vocab=dict(vocabulary), unk_token=""))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    inner.decoder = decoders.Fuse()
    return inner


def words(vocabulary: Mapping[str, int]) -> Any:
    """Words and signs in lower case, as Bengio's and Mikolov's models read; others are [UNK]."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    inner = Tokenizer(models.WordLevel(vocab=dict(vocabulary), unk_token=FRAME[1]))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"\w+|[^\w\s]"), behavior="removed", invert=True
    )
    # No word goes on with this prefix: all are joined by spaces, but for signs and endings.
    inner.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    inner.add_special_tokens([name for name in (END_OF_TEXT, FRAME[1]) if name in vocabulary])
    return inner

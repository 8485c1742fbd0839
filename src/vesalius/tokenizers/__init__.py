"""Text to tokens: by rules, by characters, and by vocabularies learned from data (Appendix A.1).

``Tokenizer`` is what a model carries; ``rules`` and ``sentences`` need no vocabulary. The
``tokenizers`` library, which does the work for vocabularies, is imported when first needed.
"""

from vesalius.errors import NotInVocabulary
from vesalius.tokenizers.reading import (
    read_byte_pairs,
    read_texts,
    read_tokenizer,
    read_word_pieces,
)
from vesalius.tokenizers.rules import RULES, WAYS, Span, words
from vesalius.tokenizers.sentences import sentences
from vesalius.tokenizers.tokenizer import Encoded, Tokenizer
from vesalius.tokenizers.training import (
    train_byte_pairs,
    train_characters,
    train_word_pieces,
    train_words,
)

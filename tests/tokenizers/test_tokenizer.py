"""What every tokenizer does, on small vocabularies learned here."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer, models, pre_tokenizers
from tokenizers import Tokenizer as Inner
from tokenizers.processors import TemplateProcessing

from vesalius import errors
from vesalius.errors import TokenOutOfRange, VesaliusError, WrongKind
from vesalius.tokenizers import (
    NotInVocabulary,
    Tokenizer,
    kinds,
    read_tokenizer,
    train_byte_pairs,
    train_characters,
    train_word_pieces,
)
from vesalius.tokenizers.tokenizer import byte_alphabet

TEXTS = [
    "I forgot to take my umbrella, and it rained.",
    "She takes hers:\r\n\n“rain, naïve 雨!”",
] * 3
BYTES = train_byte_pairs(TEXTS, 300)
PIECES = train_word_pieces(TEXTS, 120)
CHARACTERS = train_characters(TEXTS)
ALL = {"bytes": BYTES, "pieces": PIECES, "characters": CHARACTERS}
every = pytest.mark.parametrize("tokenizer", ALL.values(), ids=ALL.keys())


@given(st.text() | st.text(st.characters(min_codepoint=0x10000)) | st.text("\x00\x1f\x7f\x85 \n"))
def test_byte_pairs_give_any_text_back(text):
    encoded = BYTES.encode_with_offsets(text)
    assert BYTES.decode(encoded.ids) == text
    assert b"".join(BYTES.bytes_of(i) for i in encoded.ids) == text.encode()
    assert BYTES.encode(text) == encoded.ids


@given(st.text(alphabet=sorted(set("".join(TEXTS)))))
def test_characters_give_their_texts_back(text):
    encoded = CHARACTERS.encode_with_offsets(text)
    assert CHARACTERS.decode(encoded.ids) == text
    assert encoded.offsets == [(i, i + 1) for i in range(len(text))]
    assert "".join(CHARACTERS.piece(i) for i in encoded.ids) == text


@given(st.lists(st.integers(0, 299)))
def test_decoding_bytes_is_as_the_library_does_it(ids):
    assert BYTES.decode(ids) == BYTES._inner.decode(ids, skip_special_tokens=False)


@every
def test_many_texts_are_encoded_as_one_by_one(tokenizer):
    assert tokenizer.encode_many(iter(TEXTS)) == [tokenizer.encode(text) for text in TEXTS]


@every
def test_a_piece_leads_back_to_its_id(tokenizer):
    for i in range(tokenizer.size):
        if "\\x" not in tokenizer.piece(i):
            assert tokenizer.id_of(tokenizer.piece(i)) == i
    with pytest.raises(NotInVocabulary, match="' umbrellas' is not one token"):
        tokenizer.id_of(" umbrellas")


def test_offsets_of_bytes_are_the_piece_itself():
    text = TEXTS[0]
    encoded = BYTES.encode_with_offsets(text)
    assert [text[a:b] for a, b in encoded.offsets] == [BYTES.piece(i) for i in encoded.ids]
    assert encoded.segments == [0] * len(encoded.ids)


def test_a_part_of_a_character_has_bytes_and_is_shown_as_such():
    tokenizer = train_byte_pairs([], 257)
    ids = tokenizer.encode("é")
    assert [tokenizer.bytes_of(i) for i in ids] == [b"\xc3", b"\xa9"]
    assert [tokenizer.piece(i) for i in ids] == ["\\xc3", "\\xa9"]
    assert tokenizer.decode(ids) == "é"
    assert tokenizer.decode(ids[:1]) == "\N{REPLACEMENT CHARACTER}"


def test_the_alphabet_of_bytes_is_the_librarys():
    assert set(byte_alphabet()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert byte_alphabet()[ord("a")] == "a"
    assert byte_alphabet()[ord(" ")] == "Ġ"
    assert byte_alphabet()[ord("\n")] == "Ċ"


def test_special_tokens_are_named():
    assert BYTES.special == {"<|endoftext|>": 0}
    assert list(PIECES.special) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert list(PIECES.special.values()) == [0, 1, 2, 3, 4]
    assert CHARACTERS.special == {}
    assert BYTES.encode("rain<|endoftext|>")[-1] == 0
    assert BYTES.decode([0]) == BYTES.piece(0) == "<|endoftext|>"
    assert PIECES.encode("[MASK]") == [2, 4, 3]


def test_special_tokens_may_have_any_letters():
    tokenizer = train_byte_pairs(TEXTS, 300, special=("<|naïve|>", "<|雨|>"))
    assert tokenizer.encode("<|naïve|>") == [0] == [tokenizer.id_of("<|naïve|>")]
    assert tokenizer.decode([0, 1]) == "<|naïve|><|雨|>"


def test_bert_frames_one_text_or_two():
    cls, sep = PIECES.special["[CLS]"], PIECES.special["[SEP]"]
    one, two = PIECES.encode("I forgot")[1:-1], PIECES.encode("Rain!")[1:-1]
    pair = PIECES.encode_pair("I forgot", "Rain!")
    assert pair.ids == [cls, *one, sep, *two, sep]
    assert pair.segments == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert pair.offsets[0] == (0, 0)
    assert pair.offsets[len(one) + 2][0] == 0
    with pytest.raises(WrongKind, match="has no \\[SEP\\]"):
        BYTES.encode_pair("I", "you")


def test_a_prompt_is_a_text_in_the_first_half_of_its_frame():
    cls, sep = PIECES.special["[CLS]"], PIECES.special["[SEP]"]
    assert PIECES.frame == ([cls], [sep])
    assert PIECES.encode_prompt("I forgot") == PIECES.encode("I forgot")[:-1]
    assert PIECES.encode_prompt("") == [cls]
    for plain in (BYTES, CHARACTERS):
        assert plain.frame == ([], [])
        assert plain.encode_prompt("I forgot") == plain.encode("I forgot")


@pytest.mark.parametrize(
    ("model", "unknown"),
    [
        (models.Unigram([("a", -1.0), ("<unk>", 0.0)], unk_id=1), 1),
        (models.Unigram([("a", -1.0)]), None),
        (models.WordLevel({"a": 0, "?": 1}, unk_token="?"), 1),
        (models.BPE({"a": 0, "?": 1}, [], unk_token="?"), 1),
        (models.BPE({"a": 0, "?": 1}, []), None),
    ],
)
def test_every_kind_of_vocabulary_says_what_is_unknown(model, unknown):
    assert Tokenizer(Inner(model)).unknown == unknown


def test_a_token_that_is_added_to_every_text_is_not_counted_as_unknown():
    inner = Inner(models.BPE({"a": 0, "<end>": 1}, [], unk_token="<end>"))
    inner.post_processor = TemplateProcessing(single="<end> $A", special_tokens=[("<end>", 1)])
    tokenizer = Tokenizer(inner)
    assert tokenizer.encode("a") == [1, 0]
    assert tokenizer.note_unknown([1, 0]) == ""


def test_bert_pieces_are_lower_case_slices():
    text = TEXTS[1]
    encoded = PIECES.encode_with_offsets(text)
    for i, (start, end) in list(zip(encoded.ids, encoded.offsets, strict=True))[1:-1]:
        slice_ = text[start:end].lower().replace("ï", "i")
        assert slice_ == PIECES.piece(i).removeprefix("##")
    assert PIECES.decode(PIECES.encode("I TAKE hers")) == "[CLS] i take hers [SEP]"


def test_an_unknown_character_is_named_with_its_place():
    with pytest.raises(NotInVocabulary, match="'ż' at character 3 is none of the"):
        CHARACTERS.encode("to ż")
    with pytest.raises(NotInVocabulary, match="'Z' at character 0"):
        CHARACTERS.encode_many(["to", "Zo"])


@every
@pytest.mark.parametrize("bad", ["\ud800", "to \udcff!"])
def test_half_a_surrogate_pair_is_no_text(tokenizer, bad):
    with pytest.raises(NotInVocabulary, match=r"character \d is U\+D.*valid UTF-8"):
        tokenizer.encode(bad)


@every
def test_an_id_without_a_token_is_nothing_and_a_negative_one_an_error(tokenizer):
    assert tokenizer.piece(10**6) == tokenizer.decode([10**6]) == ""
    assert tokenizer.bytes_of(10**6) == b""
    for bad in (-1, 2**40):
        for method in (tokenizer.piece, tokenizer.bytes_of, lambda i, t=tokenizer: t.decode([i])):
            with pytest.raises(TokenOutOfRange, match=f"got {bad}"):
                method(bad)


@every
def test_numpys_numbers_are_ids_too(tokenizer):
    ids = np.array(tokenizer.encode("to rain"))
    assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist())
    assert tokenizer.piece(ids[0]) == tokenizer.piece(int(ids[0]))


@every
def test_saved_and_read_again_it_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "new" / "folder")
    again = read_tokenizer(tmp_path / "new" / "folder")
    assert again.size == tokenizer.size
    assert again.special == tokenizer.special
    for text in TEXTS:
        assert again.encode_with_offsets(text) == tokenizer.encode_with_offsets(text)
    assert [again.bytes_of(i) for i in range(again.size)] == [
        tokenizer.bytes_of(i) for i in range(tokenizer.size)
    ]
    if tokenizer is CHARACTERS:
        with pytest.raises(NotInVocabulary, match="'ż' at character 0"):
            again.encode("ż")


def test_the_librarys_ready_made_tokenizers_are_taken_too(monkeypatch):
    inner = ByteLevelBPETokenizer()
    inner.train_from_iterator(TEXTS, vocab_size=280, show_progress=False)
    tokenizer = Tokenizer(inner)
    assert tokenizer.decode(tokenizer.encode(" naïve 雨")) == " naïve 雨"
    assert tokenizer.special == {}
    ids = [tokenizer.encode(text) for text in TEXTS]
    monkeypatch.delattr(Tokenizer, "encode")  # many are not done one by one
    assert tokenizer.encode_many(TEXTS) == ids


def test_errors_of_tokenizers_stand_with_the_others():
    assert NotInVocabulary is errors.NotInVocabulary


def test_what_is_no_text_is_an_error_of_ours():
    with pytest.raises(VesaliusError, match="text must be a string, got 5"):
        BYTES.encode(5)


def test_a_panic_of_the_library_is_an_error_of_ours(capfd):
    described = json.loads(BYTES._inner.to_str())
    described["pre_tokenizer"] = {"type": "FixedLength", "length": 0}
    tokenizer = Tokenizer(Inner.from_str(json.dumps(described)))
    for encode in (tokenizer.encode, lambda text: tokenizer.encode_many([text])):
        with pytest.raises(VesaliusError, match="cannot be tokenised"):
            encode("rain")
    capfd.readouterr()  # what the library says of it


def test_an_interrupt_is_not_taken_for_a_failure(monkeypatch):
    class Interrupted:
        def encode(self, *_arguments, **_settings):
            raise KeyboardInterrupt

        encode_batch_fast = encode

    tokenizer = Tokenizer(Interrupted())
    for encode in (tokenizer.encode, lambda text: tokenizer.encode_many([text])):
        with pytest.raises(KeyboardInterrupt):
            encode("rain")


@every
def test_the_rows_that_an_embedding_needs_are_the_ids_without_gaps(tokenizer):
    assert tokenizer.rows == tokenizer.size


def test_the_rows_that_an_embedding_needs_follow_the_largest_id():
    assert Tokenizer(kinds.characters({"a": 0, "b": 7, "c": 2})).rows == 8
    assert Tokenizer(kinds.byte_pairs({}, [])).rows == 0
    added = Inner.from_str(CHARACTERS._inner.to_str())
    added.add_special_tokens(["<one>", "<two>"])
    assert Tokenizer(added).rows == CHARACTERS.rows + 2


def test_importing_loads_neither_the_library_nor_numpy():
    code = "import sys, vesalius.tokenizers; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"tokenizers", "numpy", "torch"}
    code = "import sys, vesalius.tokenizers as t; t.train_characters('a').encode('a')"
    code += "; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tokenizers" in done.stdout.split()
    assert not set(done.stdout.split()) & {"torch", "transformers"}

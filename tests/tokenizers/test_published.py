"""GPT-2's and BERT's own vocabularies: every id of WikiText-2 as others give it, and as restated.

They need the data of VESALIUS_DATA. Transformers and we use the same library, so the restatements,
from the published algorithms, are the independent ones.
"""

import json
import unicodedata
from functools import cache
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from published import published
from transformers import BertTokenizer, GPT2Tokenizer

from vesalius.tokenizers import read_byte_pairs, read_word_pieces


@pytest.fixture(scope="module")
def text():
    return published("text/wikitext-2.valid.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gpt2_files():
    return published("vocab/gpt2_encoder.json"), published("vocab/gpt2_vocab.bpe")


@pytest.fixture(scope="module")
def gpt2(gpt2_files):
    return read_byte_pairs(*gpt2_files)


@pytest.fixture(scope="module")
def restated_gpt2(gpt2_files):
    return restated_byte_pairs(*gpt2_files)


@pytest.fixture(scope="module")
def gpt2_of_text(gpt2, text):
    return gpt2.encode_with_offsets(text)


@pytest.fixture(scope="module")
def bert_file():
    return published("vocab/bert_uncased_vocab.txt")


@pytest.fixture(scope="module")
def bert(bert_file):
    return read_word_pieces(bert_file)


@pytest.fixture(scope="module")
def bert_of_text(bert, text):
    return bert.encode_with_offsets(text)


def restated_byte_pairs(vocabulary_file, merges_file):
    ids = json.loads(vocabulary_file.read_text(encoding="utf-8"))
    lines = merges_file.read_text(encoding="utf-8").split("\n")[1:-1]
    rank = {tuple(line.split()): i for i, line in enumerate(lines)}
    kept = [b for b in range(256) if chr(b).isprintable() and not chr(b).isspace()]
    others = [b for b in range(256) if b not in kept]
    letter = {b: chr(b) for b in kept} | {b: chr(256 + i) for i, b in enumerate(others)}
    words = regex.compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    )

    @cache
    def merge(word):
        parts = [letter[byte] for byte in word.encode()]
        while len(parts) > 1:
            best = min(pairwise(parts), key=lambda pair: rank.get(pair, len(rank)))
            if best not in rank:
                break
            joined, at = [], 0
            while at < len(parts):
                both = tuple(parts[at : at + 2]) == best
                joined.append("".join(best) if both else parts[at])
                at += 1 + both
            parts = joined
        return [ids[part] for part in parts]

    return lambda text: [i for word in words.findall(text) for i in merge(word)]


def restated_word_pieces(vocabulary_file):
    lines = vocabulary_file.read_text(encoding="utf-8").split("\n")
    ids = {line: i for i, line in enumerate(lines)}

    @cache
    def kind(c):
        code, category = ord(c), unicodedata.category(c)
        signs = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
        if 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF:
            return "alone"
        return "alone" if signs or category[0] == "P" else category

    def cut(word):
        pieces, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = (e for e in range(len(word), start, -1) if prefix + word[start:e] in ids)
            end = next(ends, None)
            if end is None:
                return [ids["[UNK]"]]
            pieces.append(ids[prefix + word[start:end]])
            start = end
        return pieces

    cut = cache(cut)

    def encode(text):
        text = "".join(c for c in text if kind(c) not in ("Cc", "Cf") or c in "\t\n\r")
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(c for c in text if kind(c) != "Mn")
        text = "".join(f" {c} " if kind(c) == "alone" else c for c in text)
        inside = [i for word in text.split() for i in cut(word)]
        return [ids["[CLS]"], *inside, ids["[SEP]"]]

    return encode


def test_gpt2s_ids_are_those_of_transformers(gpt2, gpt2_files, gpt2_of_text, text):
    other = GPT2Tokenizer(*map(str, gpt2_files))
    lines = text.split("\n")
    assert gpt2.size == len(other) == 50257
    assert gpt2_of_text.ids == other(text)["input_ids"]
    assert gpt2.encode_many(lines) == other(lines)["input_ids"]
    assert len(gpt2_of_text.ids) > 250_000


def test_gpt2s_ids_are_those_of_the_algorithm_restated(restated_gpt2, gpt2_of_text, text):
    assert gpt2_of_text.ids == restated_gpt2(text)


# The `regex` module knows a newer Unicode than the library, and so letters and numbers that the
# library takes for signs. On what Python's own, older Unicode has, the two agree.
assigned = st.characters(exclude_categories=("Cn", "Cs"))
tricky = st.sampled_from(
    [*" \n\t'\u00a0\u3000\x85\x1c", "'s", "'ll", "'S", "  ", "é", "雨", "½", "٣"]
)


@given(text=st.lists(st.text(assigned, max_size=3) | tricky, max_size=8).map("".join))
def test_gpt2s_ids_of_any_text_are_those_of_the_algorithm_restated(gpt2, restated_gpt2, text):
    assert gpt2.encode(text) == restated_gpt2(text)


def test_gpt2_ids_as_published(gpt2):
    assert gpt2.encode("Hello world") == [15496, 995]
    assert gpt2.encode(" Hello world") == [18435, 995]
    assert gpt2.special == {"<|endoftext|>": 50256}
    assert gpt2.encode("<|endoftext|>") == [50256]
    assert gpt2.id_of(" umbrella") == gpt2.encode(" umbrella")[0] == 25510


def test_gpt2_gives_the_text_back_and_knows_where_it_is(gpt2, gpt2_of_text, text):
    assert gpt2.decode(gpt2_of_text.ids) == text
    assert b"".join(gpt2.bytes_of(i) for i in gpt2_of_text.ids) == text.encode()
    for i, (start, end) in zip(gpt2_of_text.ids, gpt2_of_text.offsets, strict=True):
        assert gpt2.bytes_of(i) in text[start:end].encode()
        if "\\x" not in gpt2.piece(i):
            assert text[start:end] == gpt2.piece(i)


def test_berts_ids_are_those_of_transformers(bert, bert_file, bert_of_text, text):
    other = BertTokenizer(str(bert_file))
    lines = text.split("\n")
    assert bert.size == len(other) == 30522
    assert bert_of_text.ids == other(text)["input_ids"]
    assert bert.encode_many(lines) == other(lines)["input_ids"]
    pairs = [bert.encode_pair(*two) for two in pairwise(lines[:200])]
    theirs = other(lines[:199], lines[1:200])
    assert [pair.ids for pair in pairs] == theirs["input_ids"]
    assert [pair.segments for pair in pairs] == theirs["token_type_ids"]


def test_berts_ids_are_those_of_the_algorithm_restated(bert_file, bert_of_text, text):
    assert bert_of_text.ids == restated_word_pieces(bert_file)(text)


def test_bert_ids_as_published(bert):
    assert bert.encode("Hello world!") == [101, 7592, 2088, 999, 102]
    assert bert.special == {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}


def test_bert_knows_where_its_pieces_come_from(bert, bert_of_text, text):
    unknown = bert.special["[UNK]"]
    found = list(zip(bert_of_text.ids, bert_of_text.offsets, strict=True))[1:-1]
    for i, (start, end) in found:
        if i != unknown:
            plain = unicodedata.normalize("NFD", text[start:end].lower())
            plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
            assert plain == bert.piece(i).removeprefix("##")
    assert all(before <= after for (_, (_, before)), (_, (after, _)) in pairwise(found))

"""Tokenizers that lengthen texts: without bound they are refused, and well-known ones are read."""

import base64
import json

import pytest

from vesalius.errors import BrokenFile
from vesalius.tokenizers import read_tokenizer

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
FRAME = {"type": "TemplateProcessing", "pair": [], "special_tokens": {}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}


def replaced(found, content):
    return {"type": "Replace", "pattern": found, "content": content}


def chain(kind, parts):
    return {"type": "Sequence", kind: parts}


def charsmap(longest):
    """A map of characters whose trie is empty, and whose texts are at most so long."""
    held = (4).to_bytes(4, "little") + bytes(4) + b"\0a\0" + b"b" * longest + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(held).decode()}


def written(folder, **parts):
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "▁": 2}, "merges": []}
    said = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []}
    said |= dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    (folder / "tokenizer.json").write_text(json.dumps({**said, "model": model, **parts}))
    return folder


THOUSANDS = [replaced({"String": "a"}, "a" * 1000)] * 4
DOUBLED = {**FRAME, "single": [TEXT, TEXT]}
LONG = {**FRAME, "single": [TEXT, *[{"SpecialToken": {"id": "a", "type_id": 0}}] * 4000]}
LONG["special_tokens"] = {"a": {"id": "a", "ids": [0] * 4000, "tokens": ["a"] * 4000}}
BOMBS = {
    "replacing": {"normalizer": chain("normalizers", THOUSANDS)},
    "replacing by a pattern": {"normalizer": replaced({"Regex": ""}, "a" * 20_000)},
    "nested": {"normalizer": chain("normalizers", [chain("normalizers", THOUSANDS)])},
    "without a type": {"normalizer": {"pattern": {"Regex": "."}, "content": "a" * 20_000}},
    "prepending": {"normalizer": {"type": "Prepend", "prepend": "a" * 20_000}},
    "a map of characters": {"normalizer": charsmap(20_000)},
    "bytes of bytes": {"pre_tokenizer": chain("pretokenizers", [BYTE_LEVEL] * 20)},
    "decoding": {"decoder": chain("decoders", THOUSANDS)},
    "frames": {"post_processor": chain("processors", [DOUBLED] * 40)},
    "a long frame": {"post_processor": LONG},
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_tokenizer_that_could_fill_the_memory_is_refused_by_the_part(tmp_path, bomb):
    with pytest.raises(
        BrokenFile, match=r"tokenizer\.json could make a text .* times by \w+ .*at mo"
    ):
        read_tokenizer(written(tmp_path, **BOMBS[bomb]))


def test_the_error_names_the_normaliser_and_what_it_does(tmp_path):
    with pytest.raises(BrokenFile, match=r"10\^12 times as long, 1,000 times by Replace .*'aaa"):
        read_tokenizer(written(tmp_path, **BOMBS["replacing"]))


def test_an_added_token_is_not_lengthened_before_the_chain_is_read(tmp_path):
    token = {"id": 3, "content": "aaa", "normalized": True, "special": False}
    token |= {"single_word": False, "lstrip": False, "rstrip": False}
    with pytest.raises(BrokenFile, match="times as long"):
        read_tokenizer(written(tmp_path, added_tokens=[token], **BOMBS["replacing"]))


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
ALBERT = [replaced({"String": "``"}, '"'), {"type": "NFKD"}, {"type": "StripAccents"}]
ALBERT += [{"type": "Lowercase"}, charsmap(33), replaced({"Regex": " {2,}"}, " ")]
KNOWN = {
    "GPT-2": {"pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL},
    "Llama": {
        "normalizer": chain(
            "normalizers",
            [{"type": "Prepend", "prepend": "▁"}, replaced({"String": " "}, "▁")],
        ),
        "decoder": chain(
            "decoders",
            [
                replaced({"String": "▁"}, " "),
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        ),
    },
    "T5": {
        "normalizer": chain("normalizers", [replaced({"Regex": " {2,}"}, "▁")]),
        "pre_tokenizer": METASPACE,
        "decoder": METASPACE,
    },
    "BERT": {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        }
    },
}


@pytest.mark.parametrize("known", KNOWN)
def test_the_chains_of_well_known_tokenizers_are_read(tmp_path, known):
    assert read_tokenizer(written(tmp_path, **KNOWN[known])).encode("a") is not None


def test_alberts_chain_with_its_map_of_characters_is_within_the_bound(tmp_path):
    from vesalius.tokenizers import growth

    said = {"normalizer": chain("normalizers", ALBERT), "pre_tokenizer": METASPACE}
    growth.require_bounded(tmp_path, said)


def test_a_frame_that_is_no_list_is_left_to_the_library_which_refuses_it(tmp_path):
    frame = {"type": "TemplateProcessing", "single": [], "pair": -1, "special_tokens": {}}
    with pytest.raises(BrokenFile, match="cannot be read as a tokenizer"):
        read_tokenizer(written(tmp_path, post_processor=frame))

"""Reading tokenizers under every name they come by, and saying what is wrong with broken ones."""

import json

import pytest

from vesalius.errors import BrokenFile, VesaliusError
from vesalius.tokenizers import (
    read_byte_pairs,
    read_texts,
    read_tokenizer,
    read_word_pieces,
    train_byte_pairs,
    train_characters,
    train_word_pieces,
)
from vesalius.tokenizers.tokenizer import byte_alphabet

MERGES = [("t", "o"), ("Ġ", "to"), ("r", "a")]
TOKENS = [*byte_alphabet(), "to", "Ġto", "ra", "<|endoftext|>"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rain", "##s", "naive", "naïve", "Rain"]


def write_pair(folder, vocabulary="vocab.json", merges="merges.txt", **settings):
    (folder / vocabulary).write_text(json.dumps({t: i for i, t in enumerate(TOKENS)}))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in MERGES)]
    (folder / merges).write_text("\n".join(lines) + "\n")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder / vocabulary, folder / merges


def write_pieces(folder, ending="\n", **settings):
    (folder / "vocab.txt").write_bytes((ending.join(PIECES) + ending).encode())
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder / "vocab.txt"


NAMES = [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")]


@pytest.mark.parametrize("names", NAMES)
def test_byte_pairs_are_found_under_both_names(names, tmp_path):
    files = write_pair(tmp_path, *names)
    for tokenizer in (read_tokenizer(tmp_path), read_byte_pairs(*files)):
        assert tokenizer.size == len(TOKENS) == 260
        assert [tokenizer.piece(i) for i in tokenizer.encode("to rat to")] == (
            ["to", " ", "ra", "t", " to"]
        )
        assert tokenizer.encode("<|endoftext|>") == [259] == [tokenizer.special["<|endoftext|>"]]


@pytest.mark.parametrize("names", NAMES)
def test_a_vocabulary_in_which_model_is_a_token_is_a_vocabulary(names, tmp_path):
    vocabulary, _ = write_pair(tmp_path, *names)
    tokens = {**json.loads(vocabulary.read_text()), "model": 260, "vocab": 261, "version": 262}
    vocabulary.write_text(json.dumps(tokens))
    tokenizer = read_tokenizer(vocabulary)
    assert tokenizer.size == 263
    assert [tokenizer.piece(i) for i in tokenizer.encode("to to")] == ["to", " to"]


def test_byte_pairs_start_with_a_space_where_the_settings_say_so(tmp_path):
    write_pair(tmp_path, add_prefix_space=True)
    tokenizer = read_tokenizer(tmp_path)
    assert [tokenizer.piece(i) for i in tokenizer.encode("to")] == [" to"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_word_pieces_are_read_whatever_ends_their_lines(tmp_path, ending):
    file = write_pieces(tmp_path, ending)
    for tokenizer in (read_tokenizer(tmp_path), read_word_pieces(file)):
        assert tokenizer.size == len(PIECES)
        assert tokenizer.encode("Rains snow") == [2, 5, 6, 1, 3]
        assert tokenizer.special == {name: i for i, name in enumerate(PIECES[:5])}


def test_word_pieces_follow_the_settings_beside_them(tmp_path):
    write_pieces(tmp_path, do_lower_case=False)
    assert read_tokenizer(tmp_path).encode("Rain naïve")[1:-1] == [9, 8]
    assert read_word_pieces(tmp_path / "vocab.txt", lowercase=False).encode("Rain")[1] == 9
    write_pieces(tmp_path, do_lower_case=True, strip_accents=False)
    assert read_tokenizer(tmp_path).encode("Rain naïve")[1:-1] == [5, 8]
    write_pieces(tmp_path, do_lower_case=True)
    assert read_tokenizer(tmp_path).encode("Rain naïve")[1:-1] == [5, 7]


def test_tokenizer_json_comes_first(tmp_path):
    write_pieces(tmp_path)
    write_pair(tmp_path)
    train_characters("abc").save(tmp_path)
    assert read_tokenizer(str(tmp_path)).size == 3


def test_a_folder_without_a_tokenizer_has_none(tmp_path):
    assert read_tokenizer(tmp_path) is None
    (tmp_path / "vocab.json").write_text("{}")  # its merges are missing
    assert read_tokenizer(tmp_path) is None


def test_a_length_stored_with_a_tokenizer_cuts_and_pads_nothing(tmp_path):
    tokenizer = train_word_pieces(["rain and rain and snow"] * 3, 60)
    texts = ["rain", "rain and snow " * 9]
    ids = tokenizer.encode_many(texts)
    tokenizer._inner.enable_truncation(4)
    tokenizer._inner.enable_padding(length=8)
    assert [len(tokenizer.encode(text)) for text in texts] == [8, 8]
    tokenizer.save(tmp_path)
    assert read_tokenizer(tmp_path).encode_many(texts) == ids


def changed(change):
    def broken(folder):
        train_byte_pairs(["to rain"] * 3, 262).save(folder)
        file = folder / "tokenizer.json"
        file.write_bytes(change(file.read_bytes()))

    return broken


def pair(vocabulary=None, merges=None):
    def broken(folder):
        files = write_pair(folder)
        for file, data in zip(files, (vocabulary, merges), strict=True):
            if data is not None:
                file.write_bytes(data)

    return broken


def pieces(data):
    return lambda folder: (folder / "vocab.txt").write_bytes(data)


def framed(data, single=(), pair=(), depth=0, known=()):
    """A tokenizer.json whose frames name tokens, and define those that are known."""
    names = [[{"SpecialToken": {"id": t, "type_id": 0}} for t in kind] for kind in (single, pair)]
    text = [{"Sequence": {"id": letter, "type_id": 0}} for letter in "AB"]
    frame = {
        "type": "TemplateProcessing",
        "single": [*names[0], text[0]],
        "pair": [*names[1], *text],
        "special_tokens": {t: {"id": t, "ids": [0], "tokens": [t]} for t in known},
    }
    for _ in range(depth):
        frame = {"type": "Sequence", "processors": [frame]}
    return json.dumps(json.loads(data) | {"post_processor": frame}).encode()


UNKNOWN_FRAMES = [{"single": "X"}, {"pair": "X"}, {"single": "X", "depth": 2}, {"pair": "YX"}]


@pytest.mark.parametrize("frame", UNKNOWN_FRAMES)
def test_a_frame_of_unknown_tokens_is_refused_before_the_library_panics(tmp_path, capfd, frame):
    changed(lambda data: framed(data, **frame, known="Y"))(tmp_path)
    with pytest.raises(
        BrokenFile, match=r"tokenizer\.json frames texts with X, which its special_"
    ):
        read_tokenizer(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_frame_of_known_tokens_is_used(tmp_path):
    changed(lambda data: framed(data, "XY", "Y", depth=1, known="XY"))(tmp_path)
    assert read_tokenizer(tmp_path).encode("")[:2] == [0, 0]


BROKEN = {
    "empty": (changed(lambda data: b"{}"), "tokenizer.json cannot be read as a tokenizer"),
    "cut short": (changed(lambda data: data[:-100]), "tokenizer.json is not JSON"),
    "not UTF-8": (changed(lambda data: b'{"\xff' + data), "not UTF-8: byte 0xff at offset 2"),
    "a list": (pair(b"[1]"), "vocab.json should be a JSON object"),
    "no JSON": (pair(b"to rain"), "vocab.json is not JSON"),
    "no numbers": (pair(b'{"a": "b"}'), "vocab.json should give every token a whole number"),
    "ids twice": (pair(b'{"a": 0, "b": 0}'), "vocab.json gives two tokens the same id"),
    "vocabulary not UTF-8": (pair(b'{"\xe9": 0}'), "vocab.json is not JSON: .* position 2"),
    "merges not UTF-8": (pair(merges=b"t o\n\xc3("), "merges.txt is not UTF-8.* offset 4"),
    "one part": (pair(merges=b"#version: 0.2\nt o\nto"), "merges.txt, line 3: expected two"),
    "three parts": (pair(merges=b"t o r"), "merges.txt, line 1: expected two tokens"),
    "unknown": (pair(merges=b"t o\nt r"), "merges.txt, line 2: 'tr' is not in the vocabulary"),
    "pieces not UTF-8": (pieces(b"[UNK]\n\xff"), "vocab.txt is not UTF-8: byte 0xff at offset 6"),
    "no pieces": (pieces(b""), "vocab.txt lacks \\[UNK\\], \\[CLS\\], \\[SEP\\]"),
    "no frame": (pieces(b"[UNK]\nrain"), "vocab.txt lacks \\[CLS\\], \\[SEP\\]; expected BERT's"),
}


@pytest.mark.parametrize(("broken", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named(broken, message, tmp_path):
    broken(tmp_path)
    with pytest.raises(BrokenFile, match=message) as caught:
        read_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_texts_come_in_portions_that_are_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("vesalius.tokenizers.reading.PORTION", 10)
    text = "Rain, 雨, rain.\r\n\n\u2028 More\x85\n" * 9 + "no end"
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(text.encode())
    portions = list(read_texts([tmp_path / "a.txt", str(tmp_path / "b.txt")]))
    assert "".join(portions) == text.replace("\r\n", "\n") * 2
    assert len(portions) > 9


def test_a_text_that_is_not_utf_8_is_named_with_the_place(tmp_path, monkeypatch):
    monkeypatch.setattr("vesalius.tokenizers.reading.PORTION", 10)
    (tmp_path / "a.txt").write_bytes(b"twelve bytes\n" * 3 + b"caf\xe9\n")
    with pytest.raises(BrokenFile, match=r"a\.txt is not UTF-8: byte 0xe9 at offset 42"):
        train_characters(read_texts([tmp_path / "a.txt"]))
    with pytest.raises(BrokenFile, match="offset 42"):
        train_byte_pairs(read_texts([tmp_path / "a.txt"]), 300)


PLAIN = {
    "version": "1.0",
    "added_tokens": [],
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"},
}
MERGING = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}


def described(folder, **parts):
    (folder / "tokenizer.json").write_text(json.dumps(PLAIN | parts))
    return folder


@pytest.mark.parametrize(
    "part",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAGFiY2Q="}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////wAA" + "A" * 96}},
        {"model": MERGING | {"continuing_subword_prefix": "##"}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        {"decoder": {"type": "Strip", "content": "a", "start": 9, "stop": 9}},
        {"model": PLAIN["model"] | {"vocab": {"a": 0, "b": 2**31}}},
    ],
    ids=["map", "no map", "gigabytes", "prefix", "length 0", "strip", "an id of billions"],
)
def test_what_makes_the_library_panic_is_refused_without_its_report(tmp_path, capfd, part):
    with pytest.raises(BrokenFile, match=r"tokenizer\.json"):
        read_tokenizer(described(tmp_path, **part))
    assert capfd.readouterr() == ("", "")


def test_tokens_that_make_a_decoder_panic_are_refused_without_its_report(tmp_path, capfd):
    words = {f"word{n}": n for n in range(9)} | {"aa": 9}
    model, strip = PLAIN["model"] | {"vocab": words, "unk_token": "word1"}, {"start": 0, "stop": 3}
    decoder = {"type": "Strip", "content": "a", **strip}
    found = read_tokenizer(described(tmp_path, model=model, decoder=decoder))
    assert found.decode([3]) == "word3"
    with pytest.raises(VesaliusError, match=r"the tokens \[9\] cannot be joined to a text"):
        found.decode([9])
    assert capfd.readouterr() == ("", "")


def test_a_word_that_is_unknown_to_a_vocabulary_without_a_way_to_cut_is_an_error(tmp_path):
    model = PLAIN["model"] | {"unk_token": "missing"}
    found = read_tokenizer(described(tmp_path, model=model))
    with pytest.raises(VesaliusError, match="the text cannot be tokenised"):
        found.encode("something else")


def test_halves_of_characters_are_refused(tmp_path):
    (tmp_path / "vocab.json").write_text(r'{"a": 0, "\ud800": 1}')
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(BrokenFile, match=r"vocab\.json is not JSON: .*surrogates not allowed"):
        read_tokenizer(tmp_path)

"""Tables of labelled texts: what is read of them, how they are split, and what is refused."""

import json
from collections import Counter

import numpy as np
import pytest

from vesalius.data.tables import read_table
from vesalius.errors import BrokenFile, EmptyCorpus, ImpossibleSetting, UnusableData
from vesalius.tasks.labelling import encoding
from vesalius.tasks.labelling.data import (
    LabelledData,
    LabelledTexts,
    class_weights,
    few,
    labelled_parts,
    read_labelled,
    split,
)
from vesalius.tokenizers import train_byte_pairs, train_word_pieces


def write(folder, text, name="texts.csv"):
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def test_a_table_is_the_same_in_every_format(tmp_path):
    rows = [("What, now?", "a"), ('He said "no"\nand left', "b")]
    lines = "".join(json.dumps({"text": t, "label": k}) + "\n" for t, k in rows)
    files = {
        "t.csv": '\ufefftext,label\r\n"What, now?",a\r\n\r\n"He said ""no""\nand left",b\r\n',
        "t.tsv": 'text\tlabel\nWhat, now?\ta\n"He said ""no""\nand left"\tb\n',
        "t.jsonl": lines,
        "t.NDJSON": "\n" + lines,
    }
    for name, content in files.items():
        table = read_table(write(tmp_path, content, name))
        assert table.columns == ("text", "label")
        assert list(zip(table.cells("text"), table.cells("label"), strict=True)) == rows
    assert read_table(tmp_path / "t.csv").lines == [2, 4]


@pytest.mark.parametrize(
    ("name", "content", "kind", "says"),
    [
        ("t.csv", "text,label\na,b\nc\n", BrokenFile, "line 3: expected 2 cells.*got 1"),
        ("t.csv", 'text,label\n"a,b\n', BrokenFile, "this is no CSV"),
        ("t.csv", "text,label\n", EmptyCorpus, "holds no rows"),
        ("t.csv", "text,text\na,b\n", BrokenFile, "the column 'text' twice"),
        ("t.csv", b"\x89PNG\r\n\x1a\n\0\0\xff", BrokenFile, "not UTF-8"),
        ("t.csv", "text,label\ncafé,a\n".encode("latin-1"), BrokenFile, "save it as UTF-8"),
        ("t.csv", "text,label\n".encode("utf-16"), BrokenFile, "save it as UTF-8"),
        ("t.csv", "text,label\n".encode("utf-16-le"), BrokenFile, "UTF-16 is to be saved as UTF-8"),
        ("t.csv", '"text";"label"\n"a, b";"c"\n', BrokenFile, "apart by ';'.*expected commas"),
        ("t.csv", "text;label\na;b\n", BrokenFile, "apart by ';': text;label; expected commas"),
        ("t.csv", "a\0b,c\n", BrokenFile, "bytes that no text has"),
        ("t.jsonl", '{"text": "a"}\n[1]\n', BrokenFile, "line 2: expected an object.*got list"),
        ("t.jsonl", "text,label\na,b\n", BrokenFile, "line 1: this is no JSON"),
        ("t.parquet", "PAR1", BrokenFile, r"expected a file of \.csv, \.tsv, \.jsonl"),
    ],
)
def test_what_is_no_table_is_refused_by_line(name, content, kind, says, tmp_path):
    with pytest.raises(kind, match=says):
        read_table(write(tmp_path, content, name))


def parts(tmp_path, table, kind="classes", valid=None, **settings):
    corpus = write(tmp_path, table)
    other = None if valid is None else write(tmp_path, valid, "valid.csv")
    data = LabelledData(corpus=corpus, valid=other, **settings)
    return labelled_parts(data, kind, seed=0)[:2]


TWO = "text,label\n" + "one,a\ntwo,b\n" * 10


@pytest.mark.parametrize(
    ("table", "settings", "says"),
    [
        (TWO, {"text": "txt"}, r"no column 'txt' \(did you mean text\?\); there are: text, label"),
        (TWO, {"label": "category"}, "no column 'category'; there are: text, label"),
        (TWO, {"group": "lable"}, r"no column 'lable' \(did you mean label"),
        (TWO, {"valid": "text,label\nx,c\ny,c\n"}, "label 'c' in 2 of 2 texts.*never have"),
        ("text,label\none,a\ntwo,a\n", {}, "one class only, 'a'; expected two or more"),
        ("text,label\none,a\n  ,b\n", {}, r"line 3: the text in 'text' is empty"),
        ("text,label\none,a\ntwo, \n", {}, "line 3: there is no label in 'label'; give one"),
        (TWO, {"split": 0}, "split must be above 0"),
        (TWO, {"split": 0.01}, "a share of 0.01 of 20 texts is none; give more"),
        ("text,label\na,x\nb,y\nc,z\n", {}, "3 texts is none, since each class has one alone"),
        (TWO, {"kind": "values"}, "line 2: expected a finite number as 'label', got 'a'"),
        ("text,label\none,1\ntwo,1\nsix,1\n", {"kind": "values", "split": 0.4}, "the value 1.0"),
        (TWO, {"kind": "values", "label": "text"}, "expected a finite number"),
        (TWO, {"kind": "labels", "label": "text,label"}, "expected 0 or 1 as 'text', got 'one'"),
        (TWO, {"kind": "labels", "examples": 2}, "examples is for classes"),
        (
            "text,label,group\none,a,1\ntwo,b,2\n",
            {"group": "group", "valid": "text,label,group\none,a,2\n"},
            "1 groups are in .* and in .*'2' among them",
        ),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused(table, settings, says, tmp_path):
    with pytest.raises((UnusableData, ImpossibleSetting), match=says):
        parts(tmp_path, table, **settings)


def made(labels, groups=None, names="abc"):
    texts = [f"text {i}" for i in range(len(labels))]
    return LabelledTexts("made", texts, None, np.asarray(labels), tuple(names), groups)


def test_a_split_has_every_class_in_its_share_and_follows_from_the_seed():
    whole = made([0] * 60 + [1] * 30 + [2] * 10)
    train, valid = split(whole, 0.2, seed=1)
    assert Counter(valid.labels.tolist()) == {0: 12, 1: 6, 2: 2}
    assert sorted(train.texts + valid.texts) == sorted(whole.texts)
    assert split(whole, 0.2, seed=1)[1].texts == valid.texts
    assert split(whole, 0.2, seed=2)[1].texts != valid.texts
    alone = made([0] * 20 + [1])  # a class of one text stays where it can be learnt
    assert 1 in split(alone, 0.5, seed=0)[0].labels


def test_no_group_is_on_both_sides(rng):
    labels = rng.integers(3, size=200)
    groups = [str(g) for g in rng.integers(40, size=200)]
    train, valid = split(made(labels, groups), 0.25, seed=0)
    assert not set(train.groups) & set(valid.groups)
    assert len(train) + len(valid) == 200
    for number in range(3):
        share = (valid.labels == number).sum() / (labels == number).sum()
        assert share == pytest.approx(0.25, abs=0.06)


def test_so_many_examples_a_class_are_taken_by_the_seed():
    whole = made([0] * 30 + [1] * 20 + [2] * 3)
    some = few(whole, 5, seed=0)
    assert Counter(some.labels.tolist()) == {0: 5, 1: 5, 2: 3}
    assert few(whole, 5, seed=0).texts == some.texts
    assert few(whole, 5, seed=1).texts != some.texts


def test_weights_are_those_of_inverse_frequency():
    whole = made([0] * 6 + [1] * 3 + [2] * 1)
    weights = class_weights(whole)
    np.testing.assert_allclose(weights, [10 / 18, 10 / 9, 10 / 3], rtol=1e-6)
    assert weights[whole.labels].mean() == pytest.approx(1)
    several = made([[1, 0], [1, 1], [0, 0], [1, 0]], names="ab")
    np.testing.assert_allclose(class_weights(several), [[2, 4 / 6], [4 / 6, 2]], rtol=1e-6)


def test_several_labels_come_as_lists_with_separators_or_as_columns(tmp_path):
    columns = "text,x,y\na,1,0\nb,1,1\nc,0,0\n"
    cells = "text,label\na,x\nb,y|x\nc,\n"
    lists = [["x"], ["y", "x"], []]
    lines = "".join(
        json.dumps({"text": t, "label": k}) + "\n" for t, k in zip("abc", lists, strict=True)
    )
    found = [
        read_labelled(read_table(write(tmp_path, text, name)), LabelledData(label=label), "labels")
        for text, name, label in [
            (columns, "c.csv", "x,y"),
            (cells, "s.csv", "label"),
            (lines, "l.jsonl", "label"),
        ]
    ]
    for one in found:
        assert one.names == ("x", "y")
        assert one.labels.tolist() == [[1, 0], [1, 1], [0, 0]]


def test_numbers_that_are_labels_are_in_their_order(tmp_path):
    file = write(tmp_path, "text,label\n" + "".join(f"t{i},{i}\n" for i in (10, 9, 2)))
    assert read_labelled(read_table(file), LabelledData(), "classes").names == ("2", "9", "10")


# As tokens ------------------------------------------------------------------------

WORDS = ["one two three four five six seven eight nine ten"] * 3


def test_long_texts_lose_their_ends_and_keep_their_frames():
    tokenizer = train_word_pieces(WORDS, 200)
    cls, sep = (tokenizer.special[name] for name in ("[CLS]", "[SEP]"))
    (whole,), none = encoding.encoded(tokenizer, WORDS[:1])
    (cut,), one = encoding.encoded(tokenizer, WORDS[:1], length=6)
    assert whole.ids == tokenizer.encode(WORDS[0])
    assert cut.ids == [*whole.ids[:5], sep]
    assert (none, one) == (0, 1)
    (pair,), _ = encoding.encoded(tokenizer, ["one two"], ["three"])
    assert (pair.ids, pair.segments) == (
        tokenizer.encode_pair("one two", "three").ids,
        tokenizer.encode_pair("one two", "three").segments,
    )
    (short,), _ = encoding.encoded(tokenizer, ["one two"], WORDS[:1], length=8)
    assert len(short.ids) == 8  # the longer text gave way
    assert short.ids[:4] == [cls, *tokenizer.encode_many(["one two"], framed=False)[0], sep]
    assert short.ids[-1] == sep
    (other,), _ = encoding.encoded(tokenizer, WORDS[:1], ["three"], length=8)
    three = tokenizer.encode_many(["three"], framed=False)[0]
    assert other.ids[-len(three) - 1 :] == [*three, sep]
    assert len(other.ids) == 8
    with pytest.raises(ImpossibleSetting, match="length must be at least 5 here, got 4"):
        encoding.encoded(tokenizer, ["one"], ["two"], length=4)


def test_language_models_read_two_texts_with_the_end_of_a_text_between():
    tokenizer = train_byte_pairs(WORDS, 300)
    (pair,), _ = encoding.encoded(tokenizer, ["one"], ["two"])
    one, two = tokenizer.encode("one"), tokenizer.encode("two")
    assert pair.ids == [*one, tokenizer.special["<|endoftext|>"], *two]
    assert encoding.encoded(tokenizer, ["one"])[0][0].ids == one


def test_batches_are_padded_to_their_longest_and_follow_from_seed_and_step():
    tokenizer = train_byte_pairs(WORDS, 300)
    texts = ["one", "one two three", "six seven eight nine", "ten"] * 3
    part = LabelledTexts("made", texts, None, np.arange(12) % 3, tuple("abc"))
    made = encoding.batches(part, part, tokenizer, length=3, segments=0, batch=2, seed=4)
    batch = made.train(7)
    again = encoding.batches(part, part, tokenizer, length=3, segments=0, batch=2, seed=4).train(7)
    assert batch.keys() == {"ids", "real", "labels"}
    for name, array in batch.items():
        np.testing.assert_array_equal(array, again[name])
    for batch in made.valid():
        longest = batch["real"].sum(axis=1).max()
        assert batch["ids"].shape == batch["real"].shape == (2, longest)
        assert not batch["ids"][~batch["real"]].any()
    (note,) = made.notes
    assert note == "6 of 24 texts are longer than 3 tokens; their ends are cut off"


def test_a_batch_to_train_on_has_texts_of_similar_length_so_that_little_is_padded():
    tokenizer = train_byte_pairs(WORDS, 300)
    texts = ["one " * (1 + number % 8) for number in range(64)]
    part = LabelledTexts("made", texts, None, np.arange(64) % 3, tuple("abc"))
    made = encoding.batches(part, part, tokenizer, length=None, segments=0, batch=8, seed=0)
    epoch = [made.train(step) for step in range(8)]
    assert all(batch["real"].all() for batch in epoch)
    assert sum(len(batch["ids"]) for batch in epoch) == 64
    assert len({batch["ids"].shape[1] for batch in epoch}) == 8

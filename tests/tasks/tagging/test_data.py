"""Words with tags: files as people have them, alignment with pieces, entities."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vesalius.data import splits
from vesalius.data.batches import bucketed
from vesalius.errors import BrokenFile, EmptyCorpus, ImpossibleSetting, UnusableData
from vesalius.tasks.tagging import data as tagging
from vesalius.tasks.tagging.alignment import Aligner, windows
from vesalius.tasks.tagging.baseline import MostFrequentTag
from vesalius.tasks.tagging.data import Sentence, Tagged, TaggedData, read_tagged
from vesalius.tasks.tagging.entities import entities, entity_scores, is_iob2
from vesalius.tokenizers import read_word_pieces, rules

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "walk", "##ing", "he", "-", "home"]


def written(folder, text, name="words.tsv"):
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def sentences(file, **columns):
    return [(list(s.words), list(s.tags)) for s in read_tagged(file, **columns).sentences]


def test_columns_are_read_as_people_write_them(tmp_path):
    he_walks = [(["He", "walks"], ["PRON", "VERB"]), (["Home"], ["NOUN"])]
    three = "He\tPRON\tPRP\nwalks\tVERB\tVBZ\n\n\nHome\tNOUN\tNN"
    assert sentences(written(tmp_path, three), column=2) == he_walks
    assert sentences(written(tmp_path, three))[0][1] == ["PRP", "VBZ"]
    # WNUT-17 ends sentences by a lonely tab; Windows writes a mark first and ends lines its way.
    odd = "\ufeffHe\tPRON\r\nwalks\tVERB\r\n\t\r\nHome\tNOUN\r\n"
    assert sentences(written(tmp_path, odd)) == he_walks
    spaces = "-DOCSTART- -X- O\n\nHe  x PRON\nwalks y  VERB\n\nHome z NOUN\n"
    assert sentences(written(tmp_path, spaces)) == he_walks
    universal = "# text = He walks\n1-2\tHewalks\t_\n1\tHe\tPRON\n2\twalks\tVERB\n\n1\tHome\tNOUN\n"
    assert sentences(written(tmp_path, universal), word=2, column=3) == he_walks
    # A hash that is a word, a word with a space, a word with an end of line that only Unicode knows
    words = "#\tO\n#tag\tO\nNew York\tB-LOC\na\u2028b\tO\n"
    assert sentences(written(tmp_path, words))[0][0] == ["#", "#tag", "New York", "a\u2028b"]
    assert read_tagged(written(tmp_path, three)).sentences[1].lines == (5,)


@pytest.mark.parametrize(
    ("text", "columns", "error", "says"),
    [
        ("He\tPRON\nwalks\n", {}, UnusableData, r"line 2: expected 2 columns.* got 1: 'walks'"),
        ("He\tPRON\nwalks\tVERB\tx\n", {}, UnusableData, "line 2: expected 2 columns.* got 3"),
        ("He\tPRON\nwalks\t\n", {}, UnusableData, "line 2: the tag is empty.*as many tags as"),
        ("He\tPRON\n\tVERB\n", {}, UnusableData, "line 2: the word is empty"),
        ("He\nwalks\n", {}, UnusableData, "line 1: expected a word and its tag, apart by a tab"),
        ("He\tPRON\n", {"column": 3}, UnusableData, "a word in column 1 and its tag in column 3"),
        ("\n \n\t\n", {}, EmptyCorpus, "holds no words"),
        (b"caf\xe9\tO\n", {}, BrokenFile, "byte 0xe9 at offset 3; save it as UTF-8"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path, text, columns, error, says):
    file = written(tmp_path, text)
    with pytest.raises(error, match=f"{re.escape(str(file))}.*{says}"):
        read_tagged(file, **columns)


def test_parts_and_tags_that_cannot_be_learnt(tmp_path):
    text = "".join(f"w{i}\t{'AB'[i % 2]}\n\n" for i in range(20))
    file = written(tmp_path, text)
    data = TaggedData(corpus=str(file), split=0.25)
    train, valid, kept = tagging.training_parts(data, seed=4)
    assert (len(train), len(valid)) == (15, 5)
    assert {*train.sentences} | {*valid.sentences} == {*read_tagged(file).sentences}
    assert tagging.training_parts(data, seed=5)[1] != valid
    # Whoever evaluates on the same file gets what was held out, on another all of it.
    assert tagging.held_out_part(data, kept) == (valid, "the 5 sentences that training held out")
    other = written(tmp_path, text + "new\tA\n", "other.tsv")
    assert len(tagging.held_out_part(TaggedData(corpus=str(other)), kept)[0]) == 21
    with pytest.raises(ImpossibleSetting, match="split must be above 0"):
        tagging.training_parts(data.change(split=0.0), seed=4)
    strange = read_tagged(written(tmp_path, "He\tA\n\nran\tAB\n", "strange.tsv"))
    with pytest.raises(UnusableData, match=r"strange\.tsv, line 3: 'ran' has the tag 'AB', which"):
        tagging.numbered(strange, ["A", "B"])
    with pytest.raises(UnusableData, match=r"all words of .* have the tag 'A'; expected two tags"):
        tagging.require_tags(read_tagged(written(tmp_path, "He\tA\n", "one.tsv")))
    bare = read_tagged(written(tmp_path, "1\tHe\the\tPRON\tPRP\t_\n", "some.conllu"))
    with pytest.raises(UnusableData, match="say the columns: of CoNLL-U --text 2 --label 4"):
        tagging.require_tags(bare)
    with pytest.raises(UnusableData, match="is a folder; expected a file of words with tags"):
        tagging.training_parts(TaggedData(corpus=str(tmp_path)), 0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(9, 20))
def test_windows_fit_and_every_word_counts_once(lengths, room):
    found = windows(lengths, room)
    assert [at for w in found for at in range(w.first, w.last)] == [*range(len(lengths))]
    for window in found:
        assert window.start <= window.first <= window.last <= window.stop
        assert sum(lengths[window.start : window.stop]) <= room
    if sum(lengths) <= room:
        assert len(found) == 1


def test_a_word_counts_where_it_has_neighbours_on_both_sides():
    for window in windows([1] * 50, 12):
        assert window.start == 0 or window.first - window.start >= 3
        assert window.stop == 50 or window.stop - window.last >= 3


@given(st.lists(st.integers(1, 50), min_size=1, max_size=70), st.integers(1, 9), st.integers(0, 3))
def test_batches_of_similar_length_have_each_example_once(lengths, batch, seed):
    size = min(batch, len(lengths))
    drawn = min(16, len(lengths) // size)
    rows = [bucketed(lengths, batch, step, seed) for step in range(drawn)]
    assert [len(some) for some in rows] == [size] * drawn
    assert len({int(row) for some in rows for row in some}) == drawn * size
    spans = sorted((min(at), max(at)) for at in ([lengths[r] for r in some] for some in rows))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_the_first_piece_of_a_word_stands_for_it(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(PIECES))
    tokenizer = read_word_pieces(file, lowercase=True)
    ids = {piece: i for i, piece in enumerate(PIECES)}
    aligner = Aligner(tokenizer, context=8, case=True)
    (row,) = aligner.rows([["He", "walking", "\u200d", "home"]])  # of the third nothing is left
    expected = ["[CLS]", "he", "walk", "##ing", "[UNK]", "home", "[SEP]"]
    assert row.ids.tolist() == [ids[piece] for piece in expected]
    assert row.places.tolist() == [1, 2, 4, 5]
    assert row.segments.tolist() == [0, 1, 0, 0, 0, 0, 0]
    # A word longer than the context is cut to its beginning, a sentence is read in windows.
    rows = aligner.rows([["-" * 50, "He", "walking", "Walking", "home"]])
    assert all(len(row.ids) <= 8 for row in rows)
    assert rows[0].ids.tolist() == [ids["[CLS]"], *[ids["-"]] * 6, ids["[SEP]"]]
    counted = [int(row.ids[place]) for row in rows for place in row.places]
    assert counted == [ids["-"], ids["he"], ids["walk"], ids["walk"], ids["home"]]
    assert sum(len(row.places) for row in rows) == 5
    with pytest.raises(ImpossibleSetting, match="case needs a model of two segments"):
        Aligner(tokenizer, 8, case=True, segments=1)


def test_texts_are_cut_into_words_with_contractions_apart():
    text = "I can't, it's 3.5."
    found = rules.tokens(text)
    assert [span.text for span in found] == ["I", "ca", "n't", ",", "it", "'s", "3.5", "."]
    assert all(text[span.start : span.end] == span.text for span in found)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-a I-a O B-b", [("a", 0, 2), ("b", 3, 4)]),
        ("B-a B-a", [("a", 0, 1), ("a", 1, 2)]),
        ("B-a I-b I-a", [("a", 0, 1)]),  # an I- of another kind ends it, and begins none
        ("O I-a I-a", []),  # without a beginning it is none
        ("B-a O I-a", [("a", 0, 1)]),
        ("B-creative-work I-creative-work", [("creative-work", 0, 2)]),
    ],
)
def test_entities_are_read_strictly(tags, expected):
    assert [tuple(span) for span in entities(tags.split())] == expected


TAGS = st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), max_size=12)


@given(TAGS)
def test_entities_are_what_a_pattern_finds(tags):
    """In letters: upper case begins, lower case goes on."""
    alphabet = {"O": ".", "B-a": "A", "I-a": "a", "B-b": "B", "I-b": "b"}
    letters = "".join(alphabet[tag] for tag in tags)
    found = [(m[0][0].lower(), m.start(), m.end()) for m in re.finditer("Aa*|Bb*", letters)]
    assert [tuple(span) for span in entities(tags)] == found


def test_precision_recall_and_f1_by_hand():
    # Of three true entities one is found whole, one too short; one found is of another kind.
    true = [["B-a", "I-a", "O", "B-b"], ["O", "B-a"]]
    found = [["B-a", "O", "O", "B-b"], ["B-b", "I-b"]]
    scores = entity_scores(found, true)
    assert scores == pytest.approx({"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3})
    more = entity_scores([["B-a", "B-a", "B-a", "O"]], [["B-a", "O", "O", "B-a"]])
    assert more == pytest.approx({"precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5})
    assert entity_scores([["O"]], [["O"]]) == {"precision": 0, "recall": 0, "f1": 0}
    assert is_iob2(["O", "B-x", "I-x"])
    assert not is_iob2(["NOUN", "O"])
    assert not is_iob2(["O"])


def test_the_dictionary_knows_words_their_lower_case_and_endings():
    said = "He/PRON walked/VERB home/NOUN quickly/ADV ./PUNCT He/PRON talked/VERB slowly/ADV "
    said += "./PUNCT The/DET walked/ADJ talked/VERB"
    words, tags = zip(*(pair.split("/") for pair in said.split()), strict=True)
    made = MostFrequentTag(Tagged("", (Sentence(words, tags),)))
    assert made.tag(["he", "HOME", "Walked", "jumped", "sadly", "!"]) == [
        *("PRON", "NOUN", "ADJ", "VERB", "ADV", "PUNCT")
    ]
    part = Tagged("", (Sentence(("he", "walked"), ("PRON", "VERB")),))
    assert made.scores(part) == {"accuracy": 0.5}


def test_groups_are_on_one_side_and_neither_part_is_empty():
    groups = [name for name, many in (("a", 5), ("b", 3), ("c", 1), ("d", 11)) for _ in range(many)]
    for seed in range(8):
        train, held = splits.rows(groups, {"split": 0.2, "seed": seed})
        assert sorted(train + held) == [*range(20)]
        assert min(len(train), len(held)) > 0
        assert not {groups[row] for row in train} & {groups[row] for row in held}
    with pytest.raises(ImpossibleSetting, match="one group"):
        splits.rows(["a", "a"], {"split": 0.5, "seed": 0})


def test_corpora_by_name_validate_on_dev_and_keep_the_test_apart(tmp_path, monkeypatch):
    files = {name: tmp_path / f"x.{name}.tsv" for name in ("train", "dev", "test")}
    located = lambda name, kind, wanted: [f for f in files.values() if wanted(f)]  # noqa: E731
    monkeypatch.setattr("vesalius.data.parts.located", located)
    assert tagging.tagged_files(TaggedData()) == (files["train"], files["dev"])
    files["dev"].write_text("He\tA\n")
    part, which = tagging.held_out_part(TaggedData(), {})
    assert (len(part), which) == (1, "x.dev.tsv")
    assert np.array_equal(part.names, ["A"])

"""Questions and answers: SQuAD's files, windows of long paragraphs, and SQuAD's own comparison."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vesalius.errors import BrokenFile, EmptyCorpus, EmptySequence, ImpossibleSetting, UnusableData
from vesalius.tasks.answering import data as answers
from vesalius.tasks.answering.data import (
    AnswerData,
    Question,
    compared,
    exact,
    f1,
    normalised,
    read_questions,
)
from vesalius.tasks.answering.passages import Candidates, Passage, Reader, place, starts
from vesalius.tokenizers import train_word_pieces

TEXT = "The Café opened in 1889. Ada, who could n't sing, sang there (once) for $5."


@pytest.fixture(scope="module")
def pieces():
    return train_word_pieces([TEXT.replace("sing", "singing"), "who sang where when"] * 3, 70)


def squad(folder, *asked, **more):
    """A file of one article, whose paragraph is TEXT."""
    qas = [{"id": f"q{i}", "question": "Who?", **one} for i, one in enumerate(asked)]
    article = {"title": "Ada", "paragraphs": [{"context": TEXT, "qas": qas}]}
    file = folder / "squad.json"
    file.write_text(json.dumps({"data": [article], **more}))
    return file


def at(text, start=None):
    return {"text": text, "answer_start": TEXT.index(text) if start is None else start}


def test_questions_are_read_with_all_answers_and_with_none(tmp_path):
    file = squad(
        tmp_path,
        {"answers": [at("Ada"), at("1889")], "is_impossible": False},
        {"answers": [], "is_impossible": True, "plausible_answers": [at("Ada")]},
    )
    first, second = read_questions(file)
    assert (first.article, first.id, first.answers) == ("Ada", "q0", ("Ada", "1889"))
    assert [TEXT[a:b] for a, b in first.spans] == ["Ada", "1889"]
    assert second.answers == ()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"answers": [at("Ada", 3)]}, r"question 'q0' \(Ada\): the answer 'Ada' does not stand"),
        (
            {"answers": [{"text": "Ida", "answer_start": 0}]},
            "does not stand .*: it is not in it at all",
        ),
        ({"answers": [at(".", -1)]}, "does not stand at character -1"),
        (
            {"answers": [{"text": "Ada"}]},
            "'Ada' says no answer_start; expected where it begins .*: it stands at ",
        ),
        ({"answers": []}, "there are no answers; expected one, or is_impossible"),
        ({"answers": ["Ada"]}, "expected 'answers', a list of objects"),
        ({"answers": [at("Ada")], "question": 3}, "expected 'question', a text"),
        (
            {"answers": [at("Ada")], "question": " "},
            r"squad.json, question 'q0' \(Ada\): the question is empty",
        ),
    ],
)
def test_what_is_wrong_with_a_question_is_said_with_its_name(tmp_path, asked, says):
    with pytest.raises(UnusableData, match=says):
        read_questions(squad(tmp_path, asked))


def test_files_of_other_kinds_are_refused(tmp_path):
    file = tmp_path / "squad.json"
    for text, error, says in (
        ("{", BrokenFile, "is not JSON"),
        ("[]", UnusableData, "the file: expected 'data'"),
        ('{"data": []}', EmptyCorpus, "holds no questions"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', UnusableData, "expected 'context', a text"),
    ):
        file.write_text(text)
        with pytest.raises(error, match=says):
            read_questions(file)
    with pytest.raises(UnusableData, match="is a folder; expected a JSON file"):
        answers.training_parts(AnswerData(corpus=str(tmp_path)), 0)


def test_an_article_is_never_on_both_sides(tmp_path):
    titles = [title for title in "abcdefgh" for _ in range(3)]
    paragraph = {"context": TEXT, "qas": [{"question": "Who?", "answers": [at("Ada")]}]}
    articles = [{"title": title, "paragraphs": [paragraph]} for title in titles]
    file = tmp_path / "squad.json"
    file.write_text(json.dumps({"data": articles}))
    data = AnswerData(corpus=str(file), split=0.25)
    sides = set()
    for seed in range(5):
        train, valid, kept = answers.training_parts(data, seed)
        ours, theirs = ({q.article for q in part} for part in (train, valid))
        assert not ours & theirs
        assert (len(train), len(valid)) == (18, 6)
        sides.add(frozenset(theirs))
        held, which = answers.held_out_part(data, kept)
        assert held == valid
        assert which == "the 6 questions on 2 articles that training held out"
    assert len(sides) > 1
    assert answers.held_out_part(data, {})[1] == "all"


@given(st.integers(1, 200), st.integers(1, 50), st.none() | st.integers(1, 60))
def test_windows_hold_every_token(count, room, stride):
    found = starts(count, room, stride)
    assert {t for s in found for t in range(s, min(count, s + room))} == {*range(count)}
    assert found == sorted(set(found))
    assert count <= room or found[-1] + room == count


def test_answers_come_back_from_the_pieces_of_every_window(pieces):
    reader = Reader(pieces, context=26, stride=4)
    for answer in ("Café", "1889", "Ada", "could n't sing", "(once)", "$5", "opened in 1889"):
        start = TEXT.index(answer)
        asked = Question("", "", "who sang", TEXT, (answer,), (start,))
        passages = reader.all([asked])
        assert len(passages) > 1
        whole = [p for p in passages if p.start]
        assert whole
        for passage in passages:
            assert len(passage.ids) <= 26
            shown = passage.offsets[0][0] <= start
            shown &= passage.offsets[-1][1] >= start + len(answer)
            assert bool(passage.start) == shown
            assert not passage.start or passage.allowed[passage.start]
        for p in whole:
            first, last = (p.offsets[i - p.before] for i in (p.start, p.end))
            assert TEXT[first[0] : last[1]] == answer
    # An answer within a piece is the piece; characters that gave no piece are no answer.
    p = passages[0]
    a, b = next(o for o in p.offsets if o[1] - o[0] > 2)
    inside = place(p, (a + 1, b - 1))
    assert inside is not None
    assert p.offsets[inside[0] - p.before] == (a, b)
    assert place(p, (3, 4)) is None  # white space


def test_what_a_reader_cannot_read_is_said(pieces):
    with pytest.raises(ImpossibleSetting, match="need a longer context than 9"):
        Reader(pieces, 9)
    with pytest.raises(EmptySequence, match="the question is empty"):
        Reader(pieces, 26).passages(" ", TEXT)
    with pytest.raises(ImpossibleSetting, match=r"stride is 25, but a window holds \d+ tokens"):
        Reader(pieces, 26, stride=25).passages("who", TEXT)
    reader = Reader(pieces, 30, question=4)
    reader.passages("who sang where when who", TEXT)
    assert reader.cut == 1


def test_candidates_are_the_likeliest_spans_of_all_windows():
    rng = np.random.default_rng(0)
    offsets = [(i, i + 1) for i in range(6)]
    begins = np.array([True, True, False, True, True, True, True])  # the third goes on with a word
    passages = [Passage(np.zeros(10), 3, offsets[a : a + 4], begins[a : a + 5]) for a in (0, 2)]
    found, expected = Candidates(longest=2), {}
    for passage in passages:
        logs = np.log(rng.dirichlet(np.ones(10), 2))
        found.add(passage, *logs)
        for i in range(4):
            for j in range(i, min(4, i + 2)):
                if not passage.begins[i] or not passage.begins[j + 1]:
                    continue
                span = (passage.offsets[i][0], passage.offsets[j][1])
                p = float(np.exp(logs[0][3 + i] + logs[1][3 + j]))
                expected[span] = max(p, expected.get(span, 0))
    best = found.best(100)
    assert {(s.start, s.end): s.probability for s in best} == pytest.approx(expected)
    assert [s.probability for s in best] == sorted(expected.values(), reverse=True)


def test_answers_are_compared_as_squad_does():
    """Worked by hand after the rules of the published evaluation."""
    assert normalised("The  Cat's, an a hat.") == "cats hat"
    assert normalised("Atheist and theatre") == "atheist and theatre"
    assert exact("the Beatles!", "Beatles") == 1
    assert f1("the quick fox", "a quick brown fox") == pytest.approx(2 * 2 / (2 + 3))
    assert f1("fox fox", "fox") == pytest.approx(2 / 3)
    assert (f1("", ""), f1("a", ""), f1("the", "an"), f1("x", "")) == (1, 1, 1, 0)
    means = compared(["in 1889", "x", ""], [("1889", "in the 1889"), ("y",), ()])
    assert means == pytest.approx({"exact_match": 2 / 3, "f1": 2 / 3})

"""Words as points: neighbours, projections and contexts against plain NumPy."""

import numpy as np
import pytest

import vesalius as vs
from vesalius.errors import ImpossibleSetting, NotInVocabulary, TokenOutOfRange, WrongKind


@pytest.fixture(scope="module")
def model():
    return vs.load("ffnn")


@pytest.fixture(scope="module")
def rows(model):
    return model.parameters.E.T.astype(np.float64)


def angles(rows, to):
    return rows @ to / np.linalg.norm(rows, axis=1) / np.linalg.norm(to)


def test_neighbours_are_the_nearest_of_the_whole_vocabulary(model, rows):
    word = model.tokenizer.id_of(" his")
    far = np.sqrt(((rows - rows[word]) ** 2).sum(axis=1))
    for distance, scores in (("cosine", -angles(rows, rows[word])), ("euclidean", far)):
        best = [int(i) for i in np.argsort(scores) if i != word][:20]
        found = vs.neighbours(model, " his", top=20, distance=distance)
        assert [one.id for one in found] == best
        assert np.allclose([one.score for one in found], np.abs(scores[best]), atol=1e-6)
        assert [one.token for one in found] == [model.tokenizer.piece(i) for i in best]
    assert vs.neighbours(model, word, top=20, distance="euclidean") == found


def test_principal_components_are_those_of_a_singular_value_decomposition(model, rows):
    found = vs.project(model)
    centred = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    for k in range(3):
        wanted = left[:, k] * sizes[k]
        sign = np.sign(wanted @ found.points[:, k])
        assert np.allclose(found.points[:, k], sign * wanted, atol=1e-6)
    assert np.allclose(found.shares, sizes[:3] ** 2 / (sizes**2).sum())


def test_two_words_make_an_axis_and_components_are_of_what_it_leaves(model, rows):
    he, she = (model.tokenizer.id_of(word) for word in (" he", " she"))
    found = vs.project(model, (" he", " she"), dimensions=2)
    assert found.points[[he, she], 0] == pytest.approx([-1, 1])
    line = (rows[she] - rows[he]) / np.linalg.norm(rows[she] - rows[he])
    along = (rows - rows[he]) @ line * 2 / np.linalg.norm(rows[she] - rows[he]) - 1
    assert np.allclose(found.points[:, 0], along)
    centred = rows - rows.mean(axis=0)
    rest = centred - np.outer(centred @ line, line)
    left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    wanted = left[:, 0] * sizes[0]
    assert np.allclose(np.abs(found.points[:, 1]), np.abs(wanted), atol=1e-6)
    assert found.shares == pytest.approx(
        ((centred @ line).var() / centred.var(axis=0).sum(), sizes[0] ** 2 / (centred**2).sum())
    )


@pytest.mark.parametrize(("name", "first"), [("gpt", "H[0]"), ("lstm", "X")])
def test_in_context_a_token_is_near_to_what_its_states_are_near_to(name, first):
    trace = vs.dissect(name, "He shook his head")
    found = vs.contexts(trace, 2, top=3)
    rows = trace.model.parameters.E.T
    assert (found.token, found.depths[0]) == (" his", first)
    assert len(found.depths) == trace.graph.layers + 1
    for layer, own in enumerate(found.own):
        states = trace.states(layer)
        assert own == pytest.approx(angles(rows[[trace.ids[2]]], states[:, 2])[0], abs=1e-5)
        best = np.argsort(-angles(rows, states[:, 2]))[:3]
        assert [one.id for one in found.words[layer]] == best.tolist()
        other = [i for i in np.argsort(-angles(states.T, states[:, 2])) if i != 2]
        assert [one.id for one in found.others[layer]] == other


def test_what_cannot_be_is_said(model):
    with pytest.raises(NotInVocabulary, match="not one token"):
        vs.neighbours(model, "umbrellas")
    with pytest.raises(TokenOutOfRange, match="ids from 0 to 4,095, got 5000"):
        vs.neighbours(model, 5000)
    with pytest.raises(ImpossibleSetting, match="the same vector"):
        vs.project(model, (" he", " he"))
    with pytest.raises(ImpossibleSetting, match="an axis is two words"):
        vs.project(model, " he")
    with pytest.raises(ImpossibleSetting, match="no more pairs than"):
        vs.project(model, (" he", " she"), (" is", " was"), dimensions=1)
    with pytest.raises(WrongKind, match="one state for a whole window"):
        vs.contexts(vs.dissect("ffnn", "He shook his head and said to the"))
    with pytest.raises(TokenOutOfRange, match="got position 9"):
        vs.contexts(vs.dissect("rnn", "He shook"), 9)
    with pytest.raises(WrongKind, match="similar needs a model of"):
        vs.neighbours("vit", 3)

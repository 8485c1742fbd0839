"""Examples: real pictures and series that specimens were not trained on."""

import numpy as np
import pytest

import vesalius as vs
from vesalius.data import examples, images, parts, registry
from vesalius.data.settings import ImageData, SeriesData
from vesalius.errors import NotFetched, TokenOutOfRange, WrongKind, WrongLength


@pytest.fixture(scope="module")
def corpus():
    try:
        registry.locate("fashion-mnist")
    except NotFetched as error:
        pytest.skip(str(error))
    return parts.held_out_images(ImageData(corpus="fashion-mnist"))[0]


def test_the_pictures_in_the_package_are_the_corpus_own(corpus):
    shelf = examples.shelf(vs.load("vit"))
    assert len(shelf.packed) == 10
    assert len({one.label for one in shelf.packed}) == 10
    for one in shelf.packed:
        assert np.array_equal(one.values, corpus.pixels[one.number, 0])
        assert one.label == corpus.names[corpus.labels[one.number]]
    assert np.array_equal(vs.example("vit", 77), corpus.pixels[77, 0])


def test_pixels_become_the_tokens_that_were_trained_on(corpus):
    small = images.shrunk(images.Images(corpus.pixels[4:5]), 14)
    batch = images.colours(small, 16)[0]
    assert vs.example("igpt", 4) == [16, *batch[:-1]]


def test_without_the_corpus_the_package_has_some_and_says_how_to_get_more(monkeypatch):
    monkeypatch.setattr(registry, "_find", lambda known, file: None)
    examples._shelf.cache_clear()
    try:
        found = vs.classify("vit", vs.example("vit", 0))
        assert found.name == "Ankle boot"
        with pytest.raises(NotFetched, match="vesalius data get fashion-mnist"):
            vs.example("vit", 77)
        assert examples.shelf(vs.load("tst")).few == []
    finally:
        examples._shelf.cache_clear()


def test_series_are_those_that_recipes_validate_on():
    try:
        held, _ = parts.held_out_series(SeriesData(corpus="japanese-vowels"))
    except NotFetched as error:
        pytest.skip(str(error))
    assert np.array_equal(vs.example("tst", 31), held.values[31].T)
    labels = [label for _, label in examples.shelf(vs.load("tst")).few]
    assert labels == list(held.names)
    with pytest.raises(WrongLength, match="examples 0 to 369, got 370"):
        vs.example("tst", 370)


def test_who_reads_text_or_was_trained_elsewhere_has_none(tmp_path):
    with pytest.raises(WrongKind, match="gpt2 reads text"):
        vs.example("gpt")
    vs.load("vit").save(tmp_path / "mine")
    with pytest.raises(WrongKind, match="its corpus is not known"):
        vs.example(tmp_path / "mine")
    with pytest.raises((TokenOutOfRange, ValueError), match="number"):
        vs.example("vit", -1)

"""No byte that a model is evaluated on was trained on: for every corpus, and for every recipe."""

import os

import pytest

from vesalius.data import parts, registry, texts, timelines
from vesalius.data.parts import held_out_images, held_out_series, image_parts, series_parts
from vesalius.data.settings import ForecastData, ImageData, SeriesData, TextData
from vesalius.data.texts import FileTexts, StoryTexts
from vesalius.errors import ImpossibleSetting, UnusableData
from vesalius.preparation import Scaling
from vesalius.tasks.answering import data as answers
from vesalius.tasks.answering.data import AnswerData
from vesalius.tasks.tagging import data as tagging
from vesalius.tasks.tagging.data import TaggedData
from vesalius.training import read_recipe
from vesalius.training.recipes import recipes

SIZES = (500, 1000, 120)
FORMS = {
    "one file": ("a.txt",),
    "several files": ("w.test.txt", "w.valid.txt", "z.txt"),
    "folders": ("train/a.txt", "train/b.txt", "valid/c.txt"),
    "half a pair of folders": ("valid/a.txt", "valid/b.txt"),
}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Makes files that a corpus by the name of made consists of."""

    def make(*names):
        files = [tmp_path / "made" / name for name in names]
        for file, size in zip(files, SIZES, strict=False):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{file.name} {i}\n" for i in range(size)))
        monkeypatch.setattr(registry, "locate", lambda name: files)
        return "made-corpus"

    return make


def overlap(some, others):
    """The bytes that two texts have in common."""
    return sum(
        max(0, min(a.end, b.end) - max(a.start, b.start))
        for a in some.parts
        for b in others.parts
        if a.file == b.file
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("split", [0.1, 0.25, 0.9])
@pytest.mark.parametrize("valid", [None, "stories"])
def test_what_is_evaluated_was_not_trained_on(form, split, valid, corpus):
    name = corpus(*FORMS[form])
    train, _ = parts.training_texts(name, 1000, valid, split)
    held_out, part = parts.evaluation_texts(name)
    assert train.size() > 0
    assert held_out.size() > 0
    assert overlap(train, held_out) == 0
    assert f"{held_out.size():,} of " in part


def test_a_recipe_cannot_train_on_what_is_held_out_of_a_corpus_by_name(corpus):
    name = corpus("a.txt")
    for split in (0.0, 0.05):
        with pytest.raises(ImpossibleSetting, match=r"split must be at least 0\.1 for made-corpus"):
            parts.training_texts(name, 1000, "stories", split)


def test_files_that_hold_no_text_are_no_corpus_of_texts(corpus):
    with pytest.raises(UnusableData, match="the corpus made-corpus holds no text"):
        parts.evaluation_texts(corpus("images.gz"))


def test_stories_are_evaluated_with_a_seed_that_no_recipe_has():
    train, valid = parts.training_texts("stories", 5000)
    held_out, part = parts.evaluation_texts("stories")
    assert len({train.seed, valid.seed, held_out.seed}) == 3
    assert part == "50,000 words of stories that no recipe trains on"


def test_all_of_a_file_of_one_s_own_is_evaluated(tmp_path):
    (tmp_path / "own.txt").write_text("line\n" * 50)
    found, part = parts.evaluation_texts(str(tmp_path / "own.txt"))
    assert (found.size(), part) == (250, "all")


@pytest.mark.parametrize("known", [c for c in registry.corpora() if c.kind == "text"], ids=str)
def test_the_real_corpora_are_held_out_as_well(known):
    if "VESALIUS_DATA" not in os.environ:
        pytest.skip("set VESALIUS_DATA to the folder with text/")
    train, _ = parts.training_texts(known.name, 1000)
    held_out, _ = parts.evaluation_texts(known.name)
    if isinstance(train, StoryTexts):
        assert train.seed != held_out.seed
    else:
        assert overlap(train, held_out) == 0
        assert train.size() + held_out.size() == sum(p.stat().st_size for p in _texts(known.name))


def _texts(name):
    return [file for file in registry.locate(name) if file.suffix in texts.SUFFIXES]


@pytest.mark.parametrize("name", recipes())
def test_no_recipe_trains_on_what_its_corpus_is_evaluated_on(name, request):
    data = read_recipe(name).data
    try:
        registry.locate(data.corpus)
    except ValueError:
        pytest.skip(f"{data.corpus} is not here")
    if isinstance(data, TextData):
        train, _ = parts.training_texts(data.corpus, data.words, data.valid, data.split)
        held_out, _ = parts.evaluation_texts(data.corpus)
        shared = (
            overlap(train, held_out)
            if isinstance(train, FileTexts)
            else int(train.seed == held_out.seed)
        )
    elif isinstance(data, ImageData):
        train, held_out = image_parts(data)[0], held_out_images(data)[0]
        shared = len(_rows(train.pixels) & _rows(held_out.pixels)) > len(held_out) // 100
    elif isinstance(data, TaggedData):
        train, held_out = tagging.training_parts(data, 0)[0], tagging.held_out_part(data, {})[0]
        shared = train.source == held_out.source
    elif isinstance(data, AnswerData):
        train, _, kept = answers.training_parts(data, 0)
        held_out, _ = answers.held_out_part(data, kept)
        shared = len({q.article for q in train} & {q.article for q in held_out})
    elif isinstance(data, ForecastData):
        timeline = timelines.read_timeline(data.corpus)
        scaling = Scaling.of([timeline.values])
        train, _, held_out = timelines.scaled_parts(timeline, data, scaling, 8, 8)
        shared = train.end > held_out.first
    else:
        assert isinstance(data, SeriesData)
        train, held_out = series_parts(data)[0], held_out_series(data)[0]
        shared = len(_rows(train.values) & _rows(held_out.values))
    assert not shared


def _rows(arrays):
    return {array.tobytes() for array in arrays}


def test_a_folder_of_a_pair_of_series_is_a_corpus(tmp_path):
    (tmp_path / "Waves_TRAIN.ts").touch()
    (tmp_path / "Waves_TEST.ts").touch()
    found = parts.series_files(str(tmp_path))
    assert [file.name for file in found] == ["Waves_TRAIN.ts", "Waves_TEST.ts"]
    (tmp_path / "Other_TEST.ts").touch()
    with pytest.raises(UnusableData, match=r"one file whose name ends in _TRAIN\.ts and one in"):
        parts.series_files(str(tmp_path))

"""The trained models that ship with the package."""

import json
from pathlib import Path

import numpy as np
import pytest
from processes import shown, vesalius

import vesalius as vs
from vesalius.checkpoints import files
from vesalius.counting import parameters
from vesalius.data.registry import locate
from vesalius.data.stories import text
from vesalius.errors import NotFetched
from vesalius.evaluation import evaluate
from vesalius.model import load
from vesalius.specimens import CARD, FOLDER, SNAPSHOTS, Card, card, snapshots, specimens
from vesalius.training import read_recipe
from vesalius.training.recipe import recipe

RECIPES = Path(__file__).parents[1] / "recipes"


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_they_are_at_most_30_megabytes():
    assert specimens()
    assert sum(map(size, (FOLDER / name for name in specimens()))) <= 30e6


def test_there_are_sixteen_snapshots_of_a_small_run_in_at_most_12_megabytes():
    folders = snapshots()
    said = Card(**json.loads((SNAPSHOTS / CARD).read_text(encoding="utf-8")))
    assert len(folders) == 16
    assert min(folders) == 0
    assert max(folders) == said.steps
    assert size(SNAPSHOTS) <= 12e6
    assert said.parameters < 400_000
    assert recipe(said.recipe) == read_recipe(RECIPES / "stories-small.toml")
    for folder in folders.values():
        model = load(folder)
        assert files.read_folder(folder).dtype == "float16"
        assert parameters(model.config) == said.parameters


def test_the_snapshots_come_nearer_to_the_grammar_step_by_step(tmp_path):
    (file := tmp_path / "stories.txt").write_text(text(seed=7, words=1000))
    losses = [evaluate(load(folder), file).loss for _, folder in sorted(snapshots().items())]
    assert losses[0] > 1.5 * losses[8] > 2 * losses[-1]


@pytest.mark.parametrize("name", ["ffnn", "rnn", "lstm", "gpt"])
def test_an_everyday_sentence_is_never_answered_with_a_line_end(name):
    sentences = (Path(__file__).parent / "everyday.txt").read_text().splitlines()
    assert len(sentences) == 50
    answers = vs.generate(name, sentences, 1, temperature=0)
    assert not [s for s, a in zip(sentences, answers, strict=True) if "\n" in a.text]


@pytest.mark.slow
def test_the_last_snapshot_is_as_good_as_its_card_says():
    last = evaluate(load(snapshots()[max(snapshots())]), "stories").nats_per_word
    said = json.loads((SNAPSHOTS / CARD).read_text(encoding="utf-8"))["result"]
    assert last > said["floor"]
    assert last == pytest.approx(said["nats_per_word"], rel=1e-4)


@pytest.mark.parametrize("name", specimens())
def test_each_is_what_its_card_says(name):
    model, said = load(name), card(name)
    assert model.family == said.family
    assert parameters(model.config) == said.parameters
    assert recipe(said.recipe) == read_recipe(RECIPES / f"{name}.toml")
    assert said.steps == said.recipe["training"]["steps"]
    assert files.read_folder(FOLDER / name).dtype == "float16"
    assert all(np.isfinite(array).all() for array in model.state.values())


def test_those_of_text_share_one_tokenizer():
    texts = [FOLDER / name / "tokenizer.json" for name in ("ffnn", "rnn", "lstm", "gpt")]
    assert len({file.read_bytes() for file in texts if file.exists()}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", specimens())
def test_each_is_as_good_as_its_card_says(name):
    said = card(name)
    try:
        locate(said.corpus)
    except NotFetched as error:
        pytest.skip(str(error))
    now = evaluate(load(name), said.corpus).to_json()
    for key, value in said.result.items():
        # Sums in another order, and tokens that were almost ties.
        assert now[key] == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value)


def test_a_table_and_a_card_are_shown():
    text = shown("specimens")
    for name in specimens():
        assert name in text
        assert card(name).headline in text
    name = specimens()[0]
    assert card(name).title in shown("specimens", name)
    assert json.loads(shown("specimens", name, "--json")) == card(name).to_json()


def test_an_unknown_specimen_is_named():
    result = vesalius("specimens", "gqt")
    assert result.returncode == 2
    assert "there is no specimen 'gqt'" in result.stderr


def test_their_names_work_where_folders_do():
    tokens = json.loads(shown("tokenize", "lstm", "the rain", "--json"))
    assert b"".join(bytes.fromhex(token["bytes"]) for token in tokens) == b"the rain"
    assert "(47)" in shown("dissect", "lstm", "the rain")

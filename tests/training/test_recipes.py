"""Recipes are read whole or refused, and what is refused is named with its section."""

import json
import tomllib
from pathlib import Path

import pytest
import torch

from vesalius.data.settings import TextData
from vesalius.errors import (
    BrokenFile,
    ImpossibleSetting,
    UnknownModel,
    UnknownRecipe,
    UnknownSetting,
    VesaliusError,
    WrongKind,
)
from vesalius.families import configuration, family_of
from vesalius.tasks import all_tasks, task_named
from vesalius.training import read_recipe
from vesalius.training import recipe as recipes
from vesalius.training.recipe import keys, recipe
from vesalius.training.recipes import SHIPPED
from vesalius.training.recipes import recipes as shipped
from vesalius.training.settings import Training

FILES = sorted(Path(__file__).parents[2].glob("recipes/*.toml"))
PLAIN = {"family": "gpt2", "objective": "next-token"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_recipe_of_the_project_is_read(file):
    read = read_recipe(file)
    assert family_of(configuration(read.family)).name in task_named(read.objective).learns.families
    assert read.title
    assert read.training.steps > read.training.warmup


def test_there_are_recipes():
    assert len(FILES) >= 8


def test_a_recipe_of_the_package_is_found_by_its_name_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert set(shipped()) == {file.stem for file in FILES}
    assert read_recipe("stories-gpt") == read_recipe(FILES[0].with_name("stories-gpt.toml"))


@pytest.mark.parametrize("name", ["stories-gtp", "recipes/stories-gtp.toml", "x" * 300, "a\0b", ""])
def test_a_recipe_that_is_not_there_is_named_with_the_nearest(name):
    with pytest.raises(UnknownRecipe, match=r"no recipe of this name; (did you mean|there are)"):
        read_recipe(name)


def test_the_wheel_holds_the_recipes():
    root = Path(__file__).parents[2]
    built = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]
    inside = built["wheel"]["force-include"]["recipes"]
    assert root / "src" / inside == SHIPPED
    assert "recipes" in built["sdist"]["include"]


def test_what_is_not_said_has_a_default():
    read = recipe(PLAIN)
    assert read.data == TextData()
    assert read.training == Training()
    assert (read.seed, read.title, dict(read.model), read.init) == (0, "", {}, None)


def test_a_recipe_survives_being_written_down():
    read = read_recipe(FILES[0], {"model.key": "7", "seed": "5", "data.valid": "here.txt"})
    assert recipe(json.loads(json.dumps(read.to_json()))) == read


def refused(said, says, error=VesaliusError):
    with pytest.raises(error) as caught:
        recipe({**PLAIN, **said})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"objectiv": "mlm"}, "a recipe has no 'objectiv'; did you mean objective?"),
        ({"data": {"corpse": "x"}}, "[data] has no 'corpse'; did you mean corpus"),
        ({"data": {"side": 3}}, "[data] has no 'side'"),  # which images have
        ({"training": {"learning_rat": 1}}, "[training] has no 'learning_rat'; did you mean learn"),
        ({"model": {"headz": 2}}, "[model] has no 'headz'; did you mean heads?"),
        ({"model": {"hidden": 2}}, "[model] has no 'hidden'"),  # which lstm has
    ],
)
def test_unknown_keys_are_refused_with_the_nearest(said, says):
    refused(said, says, UnknownSetting)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"training": {"steps": "many"}}, "[training] steps must be a whole number, got 'many'"),
        ({"training": {"steps": 0}}, "[training] steps must be at least 1, got 0"),
        ({"training": {"steps": 1.5}}, "[training] steps must be a whole number, got 1.5"),
        ({"training": {"steps": True}}, "[training] steps must be a whole number, got True"),
        ({"training": {"compile": 1}}, "[training] compile must be true or false, got 1"),
        ({"training": {"beta2": 1.0}}, "[training] beta2 must be below 1, got 1.0"),
        ({"training": {"learning_rate": float("nan")}}, "[training] learning_rate must be at le"),
        ({"training": {"learning_rate": float("inf")}}, "[training] learning_rate must be finite"),
        ({"training": {"optimiser": "lion"}}, "[training] optimiser must be one of adamw, adam,"),
        ({"training": {"precision": "int8"}}, "[training] precision must be one of float32, b"),
        ({"data": {"corpus": 7}}, "[data] corpus must be text, got 7"),
        ({"data": {"split": 1.0}}, "[data] split must be below 1, got 1.0"),
        ({"data": {"mask_ratio": -0.1}}, "[data] mask_ratio must be at least 0, got -0.1"),
        ({"model": {"heads": "two"}}, "[model] heads must be a whole number, got 'two'"),
        ({"model": {"activation": "swish"}}, "[model] activation must be one of gelu"),
        ({"model": {"dropout": 1}}, "[model] dropout must be below 1, got 1"),
        ({"data": 3}, "[data] must be a table of settings, got 3"),
        ({"training": []}, "[training] must be a table of settings, got []"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"seed": 1.0}, "seed must be a whole number from 0"),
        ({"seed": False}, "seed must be a whole number from 0"),
        ({"seed": 2**64}, "seed must be a whole number from 0"),
        ({"family": 3}, "family must be text, got 3"),
        ({"init": 3}, "init must be text, got 3"),
        ({"title": 3}, "title must be text, got 3"),
        ({"objective": ["mlm"]}, "objective must be text, got ['mlm']"),
    ],
)
def test_wrong_types_and_impossible_values_are_named_with_their_section(said, says):
    refused(said, says, ImpossibleSetting)


def test_an_unknown_objective_is_refused_with_the_nearest():
    refused({"objective": "next-tokens"}, "unknown objective 'next-tokens'; did you mean next-tok")
    refused({"objective": None}, "a recipe says its objective; there are: next-token, ")


@pytest.mark.parametrize(
    ("family", "objective", "says"),
    [
        ("vit", "mlm", "mlm is for bert, not vit"),
        ("bert", "next-token", "next-token is for ffnn, rnn, lstm, transformer, gpt2, not bert"),
        ("gpt2-medium", "image-classes", "image-classes is for vit, not gpt2"),
    ],
)
def test_an_objective_is_for_some_families(family, objective, says):
    refused({"family": family, "objective": objective}, says, WrongKind)


def test_a_family_or_a_model_to_start_from_is_needed():
    refused({"family": None}, "a recipe says its family, or a model to start from as init")
    refused({"family": "gpt3"}, "unknown model 'gpt3'; did you mean igpt, gpt2", UnknownModel)
    assert recipe({"objective": "mlm", "init": "somewhere"}).init == "somewhere"


def test_samples_of_text_are_for_models_of_text():
    said = {"family": "vit", "objective": "image-classes", "training": {"sample_every": 5}}
    refused(said, "sample_every is for next-token, not for image-classes", WrongKind)


@pytest.mark.parametrize("quick", [True, False])
def test_bfloat16_is_refused_where_no_hardware_does_it(quick, monkeypatch):
    monkeypatch.setattr(recipes, "quick_bfloat16", lambda: quick)
    said = {"training": {"precision": "bfloat16"}}
    if quick:
        assert recipe({**PLAIN, **said}).training.precision == "bfloat16"
    else:
        refused(said, "would take up to hundreds of times as long; set it to float32")


@pytest.mark.parametrize(
    ("architecture", "instructions", "quick"),
    [
        ("x86_64", (), False),  # AVX-512 emulates it, and oneDNN calls that supported
        ("x86_64", ("avx512_bf16",), True),
        ("x86_64", ("amx_bf16",), True),
        ("aarch64", (), True),
    ],
)
def test_bfloat16_is_quick_where_onednn_and_the_processor_have_it(
    architecture, instructions, quick, monkeypatch
):
    has = dict.fromkeys(("avx512_bf16", "amx_bf16"), False) | dict.fromkeys(instructions, True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"architecture": architecture} | has)
    says = bool(
        torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    assert recipes.quick_bfloat16() == (says and quick)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not recipes.quick_bfloat16()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert recipes.quick_bfloat16()


# --set ------------------------------------------------------------------------


def changed(**changes):
    said = {**PLAIN, "title": "one", "model": {"heads": 2}, "training": {"steps": 5}}
    return recipe(said, {name.replace("__", "."): text for name, text in changes.items()})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"Once upon a time"', "Once upon a time"),
        ("Once upon a time", "Once upon a time"),
        ("'12'", "12"),
        ("ROMEO:", "ROMEO:"),
        ("a = 1\nb = 2", "a = 1\nb = 2"),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_a_change_is_a_toml_value_or_bare_words(text, value):
    assert changed(training__prompt=text).training.prompt == value


def test_a_change_reaches_every_section():
    read = changed(
        title="two",
        seed="7",
        model__embedding="64",
        data__corpus="stories",
        data__words="1_000",
        training__steps="20",
        training__learning_rate="2e-3",
        training__compile="true",
    )
    assert (read.title, read.seed) == ("two", 7)
    assert dict(read.model) == {"heads": 2, "embedding": 64}
    assert (read.data.corpus, read.data.words) == ("stories", 1000)
    assert (read.training.steps, read.training.learning_rate) == (20, 0.002)
    assert read.training.compile is True


@pytest.mark.parametrize("none", ["none", "None", "open"])
def test_none_takes_a_setting_away_and_so_does_the_older_word(none):
    assert changed(training__steps=none).training.steps == Training().steps
    assert dict(changed(model__heads=none).model) == {}
    assert changed(title=none).title == ""
    assert changed(family=none, init="here").family is None
    assert changed(training=none).training == Training()
    assert changed(training=none, training__batch="7").training == Training(batch=7)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"training.stepz": "5"}, "[training] has no 'stepz'; did you mean step"),
        ({"training.stepz": "none"}, "[training] has no 'stepz'; did you mean step"),
        ({"model.headz": "none"}, "[model] has no 'headz'; did you mean heads"),
        ({"trainin.steps": "5"}, "a recipe has no 'trainin'; did you mean training"),
        ({"titel": "x"}, "a recipe has no 'titel'; did you mean title"),
        ({"title.x": "5"}, "a recipe has no 'title.x'"),
        ({"a.b.c": "5"}, "a recipe has no 'a.b'"),
        ({"training.steps": "five"}, "[training] steps must be a whole number, got 'five'"),
    ],
)
def test_a_change_of_what_is_not_there_is_refused(change, says):
    with pytest.raises(VesaliusError) as caught:
        recipe({**PLAIN, "title": "one"}, change)
    assert says in str(caught.value)


def test_a_file_that_is_missing_or_not_toml_is_named(tmp_path):
    with pytest.raises(UnknownRecipe, match=r"there is no file '.*none.toml'"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(BrokenFile, match="is a folder; expected a recipe's TOML file"):
        read_recipe(tmp_path)
    (tmp_path / "bad.toml").write_text("family = gpt2\n")
    with pytest.raises(BrokenFile, match=r"bad.toml is not TOML: .*line 1"):
        read_recipe(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes("title = 'é'\n".encode("latin-1"))
    with pytest.raises(BrokenFile, match=r"latin.toml is not TOML: .*byte 0xe9"):
        read_recipe(tmp_path / "latin.toml")
    for odd in ("[" * 9999, "{a=" * 9999, "9" * 9999):  # too deep, and too long a number
        (tmp_path / "odd.toml").write_text(f"seed = {odd}\n")
        with pytest.raises(BrokenFile, match=r"odd.toml is not TOML"):
            read_recipe(tmp_path / "odd.toml")
        with pytest.raises(ImpossibleSetting, match="seed must be a whole number"):
            recipe(PLAIN, {"seed": odd})


def test_the_data_of_every_objective_are_among_the_keys():
    sections = {row["section"] for row in keys()}
    for objective in (task.learns for task in all_tasks()):
        assert f"data, {objective.data.title or objective.data.kind}" in sections

"""What a name means, the same for every verb; and what is meant by one that is nearly right."""

from pathlib import Path

import pytest
from strategies import filled, small

import vesalius as vs
from vesalius import specimens
from vesalius.checkpoints import naming
from vesalius.cli import cli
from vesalius.errors import AmbiguousName, NotACheckpoint, UnknownModel, WrongKind
from vesalius.families import ALIASES, FAMILIES, SIZES
from vesalius.model import folder_of, load


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch, tmp_path):
    """An empty folder to stand in, and a hub that must not be asked."""

    def fetch(*_args, **_settings):
        raise AssertionError("asked the hub")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)


def folder_here(name):
    filled(small("rnn")).save(name)
    return name


def test_a_bare_name_that_is_a_specimen_and_a_folder_is_refused_with_both_ways_to_say_it():
    folder_here("gpt")
    message = r"'gpt' is a specimen and a folder here; say specimen:gpt or \./gpt"
    for take in (load, vs.count, folder_of, lambda name: vs.dissect(name, [1])):
        with pytest.raises(AmbiguousName, match=message):
            take("gpt")
    assert load("./gpt").family == load(Path("gpt")).family == "rnn"
    assert load("specimen:gpt").family == "gpt2"
    assert vs.count("./gpt").family == vs.count(Path("gpt")).family == "rnn"
    assert vs.count("specimen:gpt").total == specimens.card("gpt").parameters


def test_a_folder_named_like_a_published_model_is_refused_likewise():
    folder_here("gpt2")
    with pytest.raises(AmbiguousName, match=r"Hugging Face model and .* say hub:gpt2 or \./gpt2"):
        load("gpt2")
    with pytest.raises(AmbiguousName, match=r"a published size and .* say size:gpt2 or \./gpt2"):
        vs.count("gpt2")
    assert vs.count("size:gpt2").total == 124_439_808
    assert load("./gpt2").family == "rnn"
    assert load("gpt2/").family == "rnn"


def test_what_has_a_separator_is_the_folder_where_there_is_one():
    folder_here("openai-community/gpt2")
    for take in (load, vs.count):
        assert take("openai-community/gpt2").family == "rnn"
    assert naming.find("hub:openai-community/gpt2").kind == "hub"


def test_a_path_is_never_a_name():
    for name in ("gpt", "gpt2", "lstm", "nowhere"):
        with pytest.raises(UnknownModel, match=f"there is no folder '{name}'"):
            load(Path(name))


VERBS = {
    "count": [],
    "models": [],
    "dissect": ["x"],
    "verify": [],
    "generate": ["x"],
    "classify": ["x.npy"],
    "fill": ["[MASK]"],
    "next-sentence": ["x", "y"],
    "tag": ["x"],
    "answer": ["x", "--context", "y"],
    "embed": ["x"],
    "similar": ["x"],
    "tokenize": ["x"],
    "evaluate": ["stories"],
    "convert": ["new"],
    "inspect": [],
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_understands_names_alike(verb):
    folder_here("bert")
    for name, error in {
        "bert": AmbiguousName,
        "gtp2": UnknownModel,
        "specimen:brt": UnknownModel,
        "openai-comunity/gpt2": UnknownModel,
    }.items():
        with pytest.raises(error, match=r"say \w+:bert or \./bert|did you mean"):
            cli.main([verb, name, *VERBS[verb]], standalone_mode=False)


def test_a_recipe_starts_from_a_model_by_the_same_names(tmp_path):
    folder_here("bert")
    (tmp_path / "text.txt").write_text("It rained. He ran.\n" * 30)
    recipe = 'objective = "mlm"\ninit = "bert"\n[data]\ncorpus = "text.txt"\n'
    (tmp_path / "recipe.toml").write_text(recipe)
    with pytest.raises(AmbiguousName, match=r"say specimen:bert or \./bert"):
        vs.train(tmp_path / "recipe.toml", tmp_path / "run")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_counted_and_its_specimen_loaded(name):
    assert vs.count(name).total == vs.count(f"family:{name}").total
    if name in specimens.specimens():
        assert load(name).config == load(f"specimen:{name}").config
        held = specimens.card(name).parameters
        assert vs.count(f"specimen:{name}").total == held != vs.count(name).total


@pytest.mark.parametrize(
    ("slip", "meant"),
    {
        "gtp2": "gpt2",
        "gpt-2": "gpt2",
        "GPT2": "gpt2",
        "gpt2-larg": "gpt2-large",
        "brt": "bert",
        "bert-base-uncasd": "bert-base-uncased",
        "bert-base": "bert-base-cased",
        "ltsm": "lstm",
        "vit-base-patch16-244": "vit-base-patch16-224",
        "openai-comunity/gpt2": "openai-community/gpt2",
        "google-bert/bert-base-uncaesd": "google-bert/bert-base-uncased",
    }.items(),
)
def test_a_slip_is_told_at_once(slip, meant):
    for weights in (True, False):
        with pytest.raises(UnknownModel, match=rf"did you mean [^?]*\b{meant}\b.*hub:{slip}"):
            naming.find(slip, weights)


@pytest.mark.parametrize(
    "name",
    [
        "distilgpt2",
        "bert-base-chinese",
        "bert-base-multilingual-cased",
        "bert-base-german-cased",
        "bert-large-uncased-whole-word-masking",
        "roberta-base",
        "ctrl",
        "t5-small",
        "google/bert_uncased_L-4_H-128_A-2",
        "google/vit-base-patch16-384",
        "google/vit-base-patch16-224-in21k",
        "openai/imagegpt-medium",
        "somebody/gpt2",
        "somebody/gtp2",
    ],
)
def test_a_name_that_the_hub_may_have_is_asked_there(name):
    assert naming.find(name) == naming.Found("hub", name)


def test_all_names_are_listed():
    assert set(naming.names()) == {*SIZES, *FAMILIES, *specimens.specimens()}
    for name in [*naming.names(), *ALIASES]:
        assert naming.find(name).name == name
        assert naming.find(name, weights=False).kind in ("size", "family", "specimen")


def test_distance_counts_what_fingers_do():
    for one, other, distance in [
        ("gpt2", "gpt2", 0),
        ("gtp2", "gpt2", 1),
        ("gpt", "gpt2", 1),
        ("gppt2", "gpt2", 1),
        ("lstm", "ltsn", 2),
        ("", "abc", 3),
        ("ca", "abc", 3),
    ]:
        assert naming.slips(one, other) == naming.slips(other, one) == distance


@pytest.mark.parametrize("given", [5, None, 1.5, b"gpt", ["gpt"], object()])
def test_what_is_no_name_is_told_with_its_type(given):
    for take in (load, vs.count, vs.cost, lambda model: vs.generate(model, "x")):
        with pytest.raises(WrongKind, match="expected a model, its name, or its folder, got"):
            take(given)


def test_a_file_is_not_its_folder(tmp_path):
    folder_here("mine")
    with pytest.raises(NotACheckpoint, match="expected a model's folder"):
        load(tmp_path / "mine" / "model.safetensors")
    file = tmp_path / "gpt2.weights.h5"
    file.write_bytes(b"")
    for name in (file, str(file)):
        with pytest.raises(NotACheckpoint, match="convert FILE NEW_FOLDER makes one"):
            load(name)

"""Models: created, loaded by name or folder, saved; and what cannot be."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from strategies import SMALL, filled, small
from tokenizers import ByteLevelBPETokenizer

from vesalius.checkpoints import files
from vesalius.errors import (
    BrokenFile,
    CheckpointMismatch,
    ImpossibleSetting,
    UnknownModel,
    UnknownSetting,
    Unreachable,
    VesaliusError,
)
from vesalius.families import FAMILIES
from vesalius.model import create, load

# ---------------------------------------------------------------------------------------- creating


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_makes_the_same_model_and_another_another(family):
    one, same, other = (create(family, seed, **SMALL[family]) for seed in (1, 1, 2))
    assert one.family == family
    assert one.state.keys() == same.state.keys() == other.state.keys()
    for name, array in one.state.items():
        assert array.dtype == np.float32
        assert np.isfinite(array).all()
        np.testing.assert_array_equal(array, same.state[name])
    assert any(not np.array_equal(array, other.state[name]) for name, array in one.state.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_creating_a_model_leaves_the_global_random_state_alone(family):
    before = torch.get_rng_state()
    create(family, 3, **SMALL[family])
    assert torch.equal(torch.get_rng_state(), before)


def test_gpt2_is_initialised_as_published():
    layers = 8
    model = create("gpt2", layers=layers, embedding=96, heads=4, vocabulary=500, context=64)
    for name, array in model.state.items():
        if name.endswith("norm.weight"):
            assert (array == 1).all(), name
        elif name.endswith("bias"):
            assert (array == 0).all(), name
        else:
            residual = name.endswith(("attention.output.weight", "feedforward.outer.weight"))
            std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
            # Five standard errors: of the deviation 1 / sqrt(2 N), of the mean 1 / sqrt(N).
            assert array.std() == pytest.approx(std, rel=5 / math.sqrt(2 * array.size)), name
            assert abs(array.mean()) < 5 * std / math.sqrt(array.size), name


@pytest.mark.parametrize("family", ["transformer", "bert", "vit", "tst"])
def test_normalisations_begin_as_the_identity(family):
    norms = {n: a for n, a in create(family, **SMALL[family]).state.items() if "norm." in n}
    assert norms
    for name, array in norms.items():
        assert (array == (0 if name.endswith(("bias", "mean")) else 1)).all(), name


def test_settings_are_checked_when_a_model_is_created():
    with pytest.raises(UnknownModel, match="did you mean"):
        create("gpt22")
    with pytest.raises(UnknownSetting, match="unknown setting 'layer'"):
        create("gpt2", layer=3)
    with pytest.raises(ImpossibleSetting, match="12 cannot be divided among 5 heads"):
        create("gpt2", embedding=12, heads=5)


def given_to(model):
    generator = torch.Generator().manual_seed(0)
    config = model.config
    if model.family == "vit":
        return torch.randn(4, config.channels, config.image, config.image, generator=generator)
    if model.family in ("tst", "patchtst"):
        return torch.randn(4, config.context, config.channels, generator=generator)
    n = config.context if model.family == "ffnn" else 6
    return torch.randint(config.vocabulary, (4, n), generator=generator)


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_works_in_training_and_only_there(family):
    # Layer normalisation, because batch normalisation differs in training without any dropout.
    changes = {"normalisation": "layer"} if family in ("tst", "patchtst") else {}

    def run(network):
        with torch.no_grad():
            result = network(given)
        return result if torch.is_tensor(result) else result.hidden

    for dropout in (0.5, 0.0):
        model = create(family, **{**SMALL[family], **changes, "dropout": dropout})
        given, network = given_to(model), model.network
        assert not network.training
        resting = run(network)
        assert torch.equal(resting, run(network))
        network.train()
        first, second = run(network), run(network)
        assert torch.equal(first, second) == (dropout == 0)
        assert torch.allclose(first, resting, atol=1e-6) == (dropout == 0)
        network.eval()
        assert torch.equal(resting, run(network))


def test_batch_normalisation_gathers_its_statistics_in_training_and_only_there():
    model = create("tst", **SMALL["tst"])
    given = given_to(model)
    name = "blocks.0.attention_norm.running_mean"
    with torch.no_grad():
        model.network(given)
        assert not model.state[name].any()
        model.network.train()(given)
    assert model.state[name].any()


# ----------------------------------------------------------------------------- saving and loading


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_family_comes_back_from_its_folder_to_the_last_bit(tmp_path, family, dtype):
    model = filled(small(family), dtype=dtype)
    model.save(tmp_path / "a" / "b")
    again = load(str(tmp_path / "a" / "b"))
    assert (again.family, again.config, again.dtype) == (family, model.config, dtype)
    assert again.tokenizer is None
    assert again.state.keys() == model.state.keys()
    for name, array in again.state.items():
        assert array.dtype == dtype
        np.testing.assert_array_equal(array, model.state[name])


@pytest.mark.parametrize("layout", ["vesalius", "huggingface"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_edit_that_half_precision_cannot_hold_is_saved(tmp_path, dtype, layout):
    """1.00004 is less than half a step of either from 1: rounded, no number would change."""
    made = create("gpt2", vocabulary=11, context=5, layers=1, embedding=8, heads=2)
    made.dtype = dtype
    made.save(tmp_path / "half")
    model = load(tmp_path / "half")
    model.save(tmp_path / "same", layout)
    assert load(tmp_path / "same").dtype == dtype
    model.state["embedding.weight"][:] *= np.float32(1.00004)
    model.save(tmp_path / "edited", layout)
    again = load(tmp_path / "edited")
    assert again.dtype == "float32"
    for name, array in model.state.items():
        np.testing.assert_array_equal(again.state[name], array)
    model.dtype = dtype
    model.save(tmp_path / "rounded", layout)
    before, rounded = load(tmp_path / "half"), load(tmp_path / "rounded")
    assert rounded.dtype == dtype
    for name, array in before.state.items():
        np.testing.assert_array_equal(rounded.state[name], array)


def test_double_precision_in_a_model_in_single_is_saved_where_single_cannot_hold_it(tmp_path):
    model = create("gpt2", vocabulary=11, context=5, layers=1, embedding=8, heads=2)
    name = "embedding.weight"
    model.state[name] = model.state[name].astype(np.float64)
    model.save(tmp_path / "same")
    assert load(tmp_path / "same").dtype == "float32"
    model.state[name] *= 1 + 1e-12
    model.save(tmp_path / "edited")
    np.testing.assert_array_equal(load(tmp_path / "edited").state[name], model.state[name])


def test_a_folder_that_is_saved_to_while_it_is_loaded_gives_one_model(tmp_path, monkeypatch):
    """Their shapes are equal: nothing else would tell that one's weights have another's heads."""
    sizes = {"vocabulary": 11, "context": 5, "layers": 1, "embedding": 8}
    two, four = (create("gpt2", heads=heads, **sizes) for heads in (2, 4))
    read, waiting = files.read_folder, [four]

    def saved_to_meanwhile(folder):
        if waiting:
            waiting.pop().save(folder)
        return read(folder)

    two.save(tmp_path / "here")
    monkeypatch.setattr(files, "read_folder", saved_to_meanwhile)
    assert load(tmp_path / "here").config == four.config
    waiting += [two, four] * 20
    with pytest.raises(BrokenFile, match="here was written to whenever it was read; wait"):
        load(tmp_path / "here")
    assert len(waiting) == 30


def test_a_file_that_is_replaced_after_its_header_was_read_gives_one_model(tmp_path, monkeypatch):
    """The header of one says where numbers stand that the other does not have."""
    large, little = (create("rnn", vocabulary=n, embedding=8) for n in (31, 11))
    mapped, waiting = np.memmap, [little]

    def replaced_meanwhile(*given, **settings):
        if waiting:
            waiting.pop().save(tmp_path / "here")
        return mapped(*given, **settings)

    large.save(tmp_path / "here")
    monkeypatch.setattr(files.np, "memmap", replaced_meanwhile)
    assert load(tmp_path / "here").config == little.config
    assert not waiting


def test_loading_a_model_gives_it_back():
    model = filled(small("rnn"))
    assert load(model) is model


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_was_created_can_be_saved_and_loaded(tmp_path, family):
    model = create(family, **SMALL[family])
    model.save(tmp_path)
    again = load(tmp_path)
    given = given_to(model)
    with torch.no_grad():
        before, after = model.network(given), again.network(given)
    if not torch.is_tensor(before):
        before, after = before.hidden, after.hidden
    assert torch.equal(before, after)


@pytest.fixture
def tokenizer():
    trained = ByteLevelBPETokenizer()
    text = ["it was going to rain but I forgot to take my umbrella"] * 3
    trained.train_from_iterator(text, vocab_size=280, min_frequency=1, show_progress=False)
    return trained


def with_tokenizer(folder, tokenizer, vocabulary):
    filled(small("gpt2", vocabulary=vocabulary)).save(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_a_tokenizer_in_the_folder_belongs_to_the_model(tmp_path, tokenizer):
    size = tokenizer.get_vocab_size()
    model = load(with_tokenizer(tmp_path / "one", tokenizer, size))
    ids = model.tokenizer.encode("I forgot to rain")
    assert ids == tokenizer.encode("I forgot to rain").ids
    assert model.tokenizer.decode(ids) == "I forgot to rain"
    model.save(tmp_path / "two")
    assert load(tmp_path / "two").tokenizer.encode("I forgot to rain") == ids


def test_an_embedding_may_have_more_rows_than_the_tokenizer_has_words(tmp_path, tokenizer):
    size = tokenizer.get_vocab_size()
    assert load(with_tokenizer(tmp_path, tokenizer, size + 3)).tokenizer.size == size


def test_a_tokenizer_larger_than_the_embedding_is_refused(tmp_path, tokenizer):
    size = tokenizer.get_vocab_size()
    with_tokenizer(tmp_path, tokenizer, size - 1)
    with pytest.raises(
        CheckpointMismatch, match=rf"ids go up to {size - 1}, the embedding's rows to {size - 2};"
    ):
        load(tmp_path)


def test_it_is_the_largest_id_that_must_have_a_row(tmp_path, tokenizer):
    size = tokenizer.get_vocab_size()
    tokenizer.save(str(tmp_path / "whole.json"))
    described = json.loads((tmp_path / "whole.json").read_text())
    described["model"]["vocab"]["last"] = size + 5  # five ids without a token before it
    for rows, fits in ((size + 6, True), (size + 5, False)):
        folder = with_tokenizer(tmp_path / str(rows), tokenizer, rows)
        (folder / "tokenizer.json").write_text(json.dumps(described))
        if fits:
            assert load(folder).tokenizer.rows == rows == load(folder).tokenizer.size + 5
        else:
            with pytest.raises(CheckpointMismatch, match=f"{size + 5}, the embedding's rows to"):
                load(folder)


def test_a_broken_tokenizer_is_named(tmp_path, tokenizer):
    with_tokenizer(tmp_path, tokenizer, 280)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(BrokenFile, match="tokenizer"):
        load(tmp_path)


# ------------------------------------------------------------------------------------------- names


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network, an empty cache, and an empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_fetching(monkeypatch, tmp_path):
    def fetch(*_args, **_settings):
        raise AssertionError("asked the hub")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/nothing-here",
        "/etc/nothing-here",
        "a/../b",
        "",
        " ",
        "x" * 300,
        "x" * 97,
        "a/" + "x" * 5000,
        "a/b/c",
        "a//b",
        "a/",
        "/a",
        "~",
        "~/model",
        "-x",
        ".hidden",
        "a--b",
        "a\x00b",
        "gpt2\n",
        "https://huggingface.co/gpt2",
        "gpt2?x=1",
        "gpt2@main",
        "a\\b",
    ],
)
@pytest.mark.usefixtures("no_fetching")
def test_a_name_that_cannot_be_a_model_is_refused_without_asking_anyone(name):
    with pytest.raises(UnknownModel, match=r"expected a folder with config\.json, or a name such"):
        load(name)


@pytest.mark.usefixtures("no_fetching")
def test_a_file_in_the_place_of_a_folder_is_told_as_that(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    for name in ("model.safetensors", tmp_path / "model.safetensors"):
        with pytest.raises(VesaliusError, match=r"expected a (model's )?folder"):
            load(name)


@pytest.mark.parametrize("name", ["hub:gpt2-", "model.git", "modelé", "me/gpt2-"])
@pytest.mark.usefixtures("offline")
def test_a_name_that_the_hub_would_not_take_is_refused(name):
    with pytest.raises(UnknownModel, match=r"cannot be a Hugging Face name"):
        load(name)


@pytest.mark.parametrize("settings", [{}, {"local_files_only": True}])
@pytest.mark.usefixtures("offline")
def test_a_model_that_is_not_here_is_unreachable_without_a_network(settings):
    for name in ("gpt2", "openai-community/gpt2", "nobody/nothing_0.1"):
        with pytest.raises(Unreachable, match=r"no folder here .*, and the network is not to be"):
            load(name, **settings)


def failing(monkeypatch, error):
    def fetch(*_args, **_settings):
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)


def answered(kind):
    return kind("no", response=SimpleNamespace(headers={}, request=None, status_code=404))


@pytest.mark.usefixtures("offline")
def test_what_the_hub_answers_is_told(monkeypatch):
    failing(monkeypatch, answered(RepositoryNotFoundError))
    with pytest.raises(UnknownModel, match=r"no Hugging Face model 'gpt2-of-us'; did you mean"):
        load("gpt2-of-us")
    failing(monkeypatch, answered(RevisionNotFoundError))
    with pytest.raises(UnknownModel, match="gpt2 has no revision 'v7'"):
        load("gpt2", revision="v7")


@pytest.mark.usefixtures("offline")
def test_a_network_that_fails_is_told_as_that(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    (transport,) = (base for base in HfHubHTTPError.__bases__ if base is not OSError)
    for error in (
        answered(HfHubHTTPError),
        ConnectionError("refused"),
        TimeoutError("slow"),
        transport("proxy"),
    ):
        failing(monkeypatch, error)
        with pytest.raises(Unreachable, match="the network does not answer"):
            load("gpt2")


def test_a_model_in_the_cache_needs_no_network(offline):
    snapshot = offline / "models--me--tiny" / "snapshots" / ("0" * 40)
    filled(small("gpt2")).save(snapshot)
    (offline / "models--me--tiny" / "refs").mkdir()
    (offline / "models--me--tiny" / "refs" / "main").write_text("0" * 40)
    assert load("me/tiny").config == small("gpt2")


@pytest.mark.parametrize("name", ["zaremba-2014-small", "vit-huge-patch14-224", "transformer"])
@pytest.mark.usefixtures("no_fetching")
def test_a_name_without_published_weights_is_told_without_asking_anyone(name):
    with pytest.raises(UnknownModel, match=rf"no weights are .* vesalius\.create\('{name}'\)"):
        load(name)


def test_a_new_vit_begins_as_its_authors_have_it():
    state = create("vit", layers=1, embedding=64, heads=4, classes=10).state
    for name, array in state.items():
        if array.ndim == 2 and name not in ("positions.weight", "class_head.weight"):
            bound = np.sqrt(6 / sum(array.shape))
            assert 0.95 * bound < np.abs(array).max() <= bound, name
    assert not state["class_head.weight"].any()
    assert 0.015 < state["positions.weight"].std() < 0.025

"""Our equations and networks against KerasHub's GPT-2 and BERT, every layer of them.

``make test-peers`` runs this where KerasHub is installed and must be; elsewhere what needs it is
skipped.
"""

import os
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vesalius import equations as eq
from vesalius.checkpoints import layout
from vesalius.equations import OneHot, tracing
from vesalius.errors import MissingExtra, UnknownConfiguration, WrongKind
from vesalius.families import configuration
from vesalius.model import Model
from vesalius.traces.dissection import dissect
from vesalius.verification import peers
from vesalius.verification.agreement import TOLERANCE, observe, verify
from vesalius.verification.peers import keras_steps

GPT2 = [
    {"layers": 1, "embedding": 8, "heads": 1, "vocabulary": 11, "context": 9},
    {"layers": 2, "embedding": 12, "heads": 3, "feedforward": 20, "vocabulary": 29, "context": 9},
    {"layers": 4, "embedding": 32, "heads": 4, "vocabulary": 101, "context": 9},
]
HEADS = [
    {"mlm_head": True, "nsp_head": True, "segments": 3},
    {"mlm_head": True, "pooler": False},
    {"labels": 5},
]
BERT = [
    {**sizes, **heads, "activation": "gelu_tanh"} for sizes, heads in zip(GPT2, HEADS, strict=True)
]
LENGTHS = [1, 6, 9]


@pytest.fixture(scope="module")
def keras():
    """Keras with KerasHub; where VESALIUS_PEERS=1, their absence is a failure."""
    if find_spec("keras_hub") is None and os.environ.get("VESALIUS_PEERS") != "1":
        pytest.skip("KerasHub is not installed; make test-peers installs and uses it")
    return peers._import_keras()[0]


@pytest.fixture
def _double(keras, monkeypatch):
    """Without its rule that 64 bits become 32, except on TensorFlow, Keras computes in double."""
    from keras.src.backend.common import dtypes

    monkeypatch.delitem(dtypes.BIT64_TO_BIT32_DTYPE, "float64")


@pytest.fixture(params=list(TOLERANCE))
def dtype(request, keras):
    if request.param == "float64":
        request.getfixturevalue("_double")
    return request.param


def random_model(family, settings, dtype="float64", seed=0):
    """A model of random numbers so large that every part of it matters."""
    config, rng = configuration(family, **settings), np.random.default_rng(seed)
    state = {
        name: rng.normal(name.endswith("norm.weight"), len(shape) / np.sqrt(shape[-1]), shape)
        for name, shape in layout.shapes(config).items()
    }
    return Model(config, {name: array.astype(dtype) for name, array in state.items()})


def tokens(model, length):
    return np.random.default_rng(length).integers(model.config.vocabulary, size=length)


def distance(ours, theirs):
    assert ours.shape == theirs.shape
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


def apart(ours, theirs, dtype):
    """How far each shared step is from theirs, where that is too far."""
    far = {name: distance(ours[name], theirs[name]) for name in theirs if name in ours}
    return {name: far for name, far in far.items() if not far <= TOLERANCE[dtype]}


def states(layers):
    return {f"H[{l}]" for l in range(layers + 1)}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("settings", GPT2)
def test_gpt2_is_kerass_in_every_layer(settings, length, dtype):
    model = random_model("gpt2", settings, dtype)
    ids = tokens(model, length)
    theirs = keras_steps(model, ids, dtype)
    equations = {step.name: step.value for step in dissect(model, ids).steps}
    network = observe(model, ids)
    assert set(theirs) == states(model.config.layers) | {"H_e", "Z"}
    assert set(theirs) <= set(equations)
    assert set(theirs) - {"H[0]", "H_e"} <= set(network)
    assert not apart(equations, theirs, dtype)
    assert not apart(network, theirs, dtype)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("settings", BERT)
def test_bert_is_kerass_in_every_layer(settings, length, dtype):
    model = random_model("bert", settings, dtype)
    ids = tokens(model, length)
    theirs = keras_steps(model, ids, dtype)
    equations = {step.name: step.value for step in dissect(model, ids).steps}
    network = observe(model, ids)
    heads = ({"h_C"} if model.config.pooler else set()) | (
        {"Z"} if model.config.mlm_head else set()
    )
    assert set(theirs) == states(model.config.layers) | heads
    assert set(theirs) <= set(equations)
    assert set(theirs) - {"H[0]"} <= set(network)
    assert not apart(equations, theirs, dtype)
    assert not apart(network, theirs, dtype)


@pytest.mark.parametrize("padding", [0, 1, 4])
def test_bert_is_kerass_with_segments_and_padding(padding, dtype):
    model = random_model("bert", BERT[0] | {"layers": 3}, dtype)
    ids, real = tokens(model, 9), np.arange(9) < 9 - padding
    segments = np.array([0, 0, 0, 1, 1, 2, 2, 0, 1])
    theirs = keras_steps(model, ids, dtype, segments, real)
    with tracing() as steps:
        H = eq.bert_states(model.parameters, OneHot(ids, model.config.vocabulary), segments, real)
        eq.bert_mlm_logits(model.parameters, H)
        eq.bert_pooled(model.parameters, H)
    with torch.no_grad():
        out = model.network(*(torch.tensor(given[None]) for given in (ids, segments, real)))
    network = {"H[3]": out.hidden[0].numpy().T, "Z": out.mlm[0].numpy().T}
    network["h_C"] = out.pooled[0].numpy()
    assert not apart({step.name: step.value for step in steps}, theirs, dtype)
    assert not apart(network, theirs, dtype)
    plain = keras_steps(model, ids, dtype)
    assert distance(plain["H[1]"], theirs["H[1]"]) > 0.01, "segments and padding made no difference"


@pytest.mark.parametrize(("family", "settings"), [("gpt2", GPT2[1]), ("bert", BERT[1])])
def test_the_erf_form_of_gelu_is_noticed_in_single_precision(keras, family, settings):
    model = random_model(family, settings, "float32")
    ids = tokens(model, 9)
    theirs = keras_steps(model, ids, "float32")
    wrong = Model(model.config.change(activation="gelu"), model.state)
    equations = {step.name: step.value for step in dissect(wrong, ids).steps}
    last = f"H[{model.config.layers}]"
    assert {"H[1]", last, "Z"} <= set(apart(equations, theirs, "float32"))
    assert {"H[1]", last, "Z"} <= set(apart(observe(wrong, ids), theirs, "float32"))


@pytest.mark.parametrize(("family", "settings"), [("gpt2", GPT2[2]), ("bert", BERT[0])])
def test_verification_compares_with_keras_step_by_step(keras, family, settings):
    found = verify(random_model(family, settings), "keras", length=8)
    shared = {row.step for row in found.rows if row.peer == "keras"}
    assert shared >= {*states(settings["layers"]), "Z"}
    assert all(set(row.distance) == {"float32"} for row in found.rows if row.peer == "keras")
    assert found.first_divergence is None


def test_keras_rounds_to_single_precision_on_pytorch(keras):
    """Why verification leaves Keras out in double precision; should this fail, it need not."""
    model = random_model("gpt2", GPT2[1])
    ids = tokens(model, 9)
    equations = {step.name: step.value for step in dissect(model, ids).steps}
    theirs = keras_steps(model, ids, "float64")
    assert 1e-9 < distance(equations["Z"], theirs["Z"]) < 1e-5


def test_kerass_own_masked_lm_has_another_gelu_and_epsilon_in_its_head(keras):
    import keras_hub

    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4, "intermediate_dim": 4}
    backbone = keras_hub.models.BertBackbone(vocabulary_size=5, **sizes)
    head = keras_hub.models.BertMaskedLM(backbone).masked_lm_head
    x = torch.linspace(-3, 3, 50)
    torch.testing.assert_close(head.intermediate_activation(x), torch.nn.functional.gelu(x))
    assert head.layer_norm_epsilon == 1e-5
    layer = backbone.transformer_layers[0]
    tanh_form = torch.nn.functional.gelu(x, approximate="tanh")
    torch.testing.assert_close(layer.activation(x), tanh_form)
    assert layer.layer_norm_epsilon == 1e-12


# ---------------------------------------------------------------- what is refused, without Keras


@pytest.mark.parametrize("family", ["vit", "lstm", "igpt", "transformer"])
def test_a_family_that_keras_lacks_is_refused_by_name(family):
    model = Model(configuration(family), {})
    with pytest.raises(WrongKind, match=f"cannot verify {family} .* one of gpt2, bert"):
        keras_steps(model, np.zeros(1), "float32")


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("bert", {}, r"activation='gelu_tanh' \(the tanh form\), not 'gelu'"),
        ("bert", {"activation": "gelu_tanh", "epsilon": 1e-5}, "epsilon=1e-12, not 1e-05"),
        ("gpt2", {"tied": False, "variant": 1}, "variant=2, not 1; tied=True, not False"),
        ("gpt2", {"key": 32}, "key and value of embedding / heads"),
    ],
)
def test_a_model_that_keras_cannot_be_is_refused_with_the_reason(family, changes, said):
    model = Model(configuration(family, **changes), {})
    with pytest.raises(WrongKind, match=said):
        keras_steps(model, np.zeros(1), "float32")


def test_keras_on_another_backend_is_refused(monkeypatch):
    config = SimpleNamespace(backend=lambda: "tensorflow")
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(config=config))
    monkeypatch.setitem(sys.modules, "keras_hub", SimpleNamespace())
    with pytest.raises(WrongKind, match="runs on tensorflow; expected torch"):
        keras_steps(random_model("gpt2", GPT2[0]), np.zeros(1), "float32")


def test_without_keras_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vesalius\[keras\]'"):
        keras_steps(random_model("gpt2", GPT2[0]), np.zeros(1), "float32")


# ------------------------------------------------------------------------- files that Keras writes


def keras_backbone(keras, family):
    import keras_hub

    kind = {"gpt2": keras_hub.models.GPT2Backbone, "bert": keras_hub.models.BertBackbone}[family]
    sizes = {"num_layers": 2, "num_heads": 3, "hidden_dim": 12, "intermediate_dim": 20}
    backbone = kind(vocabulary_size=29, max_sequence_length=9, **sizes)
    rng = np.random.default_rng(5)
    for weight in backbone.weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return backbone


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Keras, while it writes
@pytest.mark.parametrize("family", ["gpt2", "bert"])
@pytest.mark.parametrize("name", ["x.weights.h5", "x.keras", "preset"])
def test_a_file_of_keras_computes_what_keras_does(keras, tmp_path, family, name):
    from vesalius.checkpoints.conversion import read_model

    backbone, file = keras_backbone(keras, family), tmp_path / name
    write = {"preset": "save_to_preset", "x.keras": "save"}.get(name, "save_weights")
    getattr(backbone, write)(str(file))
    model = read_model(file)
    ids = np.arange(9)[None] * 5 % 29
    given = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    given |= {"segment_ids": ids % 2} if family == "bert" else {}
    expected = backbone(given)
    with torch.no_grad():
        if family == "gpt2":
            ours, theirs = model.network.hidden(torch.tensor(ids)), expected
        else:
            out = model.network(torch.tensor(ids), torch.tensor(ids % 2))
            ours, theirs = out.hidden, expected["sequence_output"]
            assert distance(out.pooled, expected["pooled_output"].detach().cpu()) < 1e-5
    assert distance(ours, theirs.detach().cpu()) < 1e-5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Keras, while it writes
def test_the_mlm_head_of_a_keras_file_is_refused_with_the_reason(keras, tmp_path):
    import keras_hub

    from vesalius.checkpoints.conversion import read_model

    masked = keras_hub.models.BertMaskedLM(keras_backbone(keras, "bert"))
    masked.save_weights(str(tmp_path / "x.weights.h5"))
    with pytest.raises(UnknownConfiguration, match=r"the erf form.*--ignore-extra reads the back"):
        read_model(tmp_path / "x.weights.h5")
    model = read_model(tmp_path / "x.weights.h5", ignore_extra=True)
    assert (model.family, model.config.mlm_head) == ("bert", False)

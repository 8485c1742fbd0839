"""Weights alone become our models and compute what the programs do that saved them.

The programs' models are restated in ``alone``.
"""

import json

import numpy as np
import pytest
import torch
from agreement import agree
from alone import (
    PTB,
    FirstMinGPT,
    MinGPT,
    VitPytorch,
    WordModel,
    drawn,
    tensorflow_logits,
    tensorflow_variables,
)
from click.testing import CliRunner
from processes import vesalius
from safetensors.numpy import save_file
from torch import nn

import vesalius as vs
from vesalius.checkpoints import bare
from vesalius.checkpoints.conversion import read_model
from vesalius.cli import cli
from vesalius.errors import (
    CheckpointMismatch,
    UnknownConfiguration,
    UnknownSetting,
)
from vesalius.model import load

IDS = torch.arange(18).reshape(2, 9) * 5 % 29
CLASSES = {"heads": 2, "pool": "cls"}


def state_of(network):
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def saved(folder, network, kind="pt", change=lambda state: state):
    """The network's weights in a file, and nothing else."""
    state = change(state_of(network) if isinstance(network, nn.Module) else network)
    file = folder / f"weights.{kind}"
    if kind == "pt":
        torch.save(state, file)
    else:
        arrays = {name: np.ascontiguousarray(tensor) for name, tensor in state.items()}
        np.savez(file, **arrays) if kind == "npz" else save_file(arrays, file)
    return file


def without(*names):
    return lambda state: {name: tensor for name, tensor in state.items() if name not in names}


def agree_on(inputs, model, network, within=1e-12):
    with torch.no_grad():
        ours = model.network(inputs)
        agree(getattr(ours, "logits", ours), network(inputs), within)


def refused(file, error, match, **settings):
    with pytest.raises(error, match=match):
        read_model(file, settings=settings)


# ------------------------------------------------------------------------------------ vit-pytorch


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"modules_add": True},  # releases until 0.9.3
        {"heads": 3, "head_width": 8, "depth": 1},  # heads wider than the model in all
        {"heads": 2, "head_width": 3},
        {"heads": 1, "head_width": 16, "depth": 3},  # no projection of the head
        {"heads": 1, "head_width": 16, "modules_add": True},
        {"heads": 1, "head_width": 5},
        {"side": 16, "patch": 8, "width": 12},
    ],
    ids=str,
)
def test_vit_pytorchs_weights_give_its_logits(tmp_path, sizes, kind, rng):
    network = drawn(VitPytorch(**sizes))
    file = saved(tmp_path, network, kind)
    model = read_model(file, settings={"heads": sizes.get("heads", 2), "pool": "cls"})
    assert (model.config.epsilon, model.dtype) == (1e-5, "float64")
    side = sizes.get("side", 12)
    agree_on(torch.tensor(rng.normal(size=(2, 3, side, side))), model, network)


def test_the_channels_of_patches_are_stated_where_three_do_not_fit(tmp_path, rng):
    network = drawn(VitPytorch(channels=1))
    file = saved(tmp_path, network)
    refused(file, UnknownConfiguration, "16 numbers of a patch, which is no square of 3", **CLASSES)
    model = read_model(file, settings={**CLASSES, "channels": 1})
    agree_on(torch.tensor(rng.normal(size=(2, 1, 12, 12))), model, network)


def test_one_head_without_a_projection_need_not_be_stated(tmp_path, rng):
    network = drawn(VitPytorch(heads=1, head_width=16))
    file = saved(tmp_path, network)
    model = read_model(file, settings={"pool": "cls"})
    agree_on(torch.tensor(rng.normal(size=(2, 3, 12, 12))), model, network)
    refused(file, UnknownConfiguration, "without to_out there is 1 head of 16", **CLASSES)


@pytest.mark.parametrize(
    ("network", "change", "settings", "said"),
    [
        (VitPytorch(), without(), {}, r"do not say: heads \(.*\), pool .*--set heads=8 --set pool"),
        (VitPytorch(), without(), {"heads": 2, "pool": "mean"}, "only pool = cls can be converted"),
        (VitPytorch(), without(), {"heads": 2, "pool": "max"}, "pool must be one of cls, mean"),
        (VitPytorch(), without(), {"heads": 5, "pool": "cls"}, "5 heads do not fit .*to_qkv"),
        (VitPytorch(), without(), {"heads": "two", "pool": "cls"}, "heads must be a whole number"),
        (
            VitPytorch(normed_patches=True),
            without(),
            CLASSES,
            r"to_patch_embedding\.1\.weight and to_patch_embedding\.3\.weight: LayerNorms",
        ),
        (VitPytorch(), without("cls_token"), CLASSES, "no cls_token: this is a model such as vit"),
        (
            VitPytorch(),
            lambda state: {
                name.replace("to_patch_embedding.1", "patch_to_embedding"): tensor
                for name, tensor in state.items()
            },
            CLASSES,
            r"before 0\.7\.0, which divided scores by the root of dim until 0\.6\.6",
        ),
        (
            VitPytorch(),
            lambda state: state | {"pos_embedding": state["pos_embedding"][:, 1:]},
            CLASSES,
            "has 8 patches, which are no square",
        ),
    ],
)
def test_a_vit_that_cannot_be_expressed_is_refused(tmp_path, network, change, settings, said):
    file = saved(tmp_path, network, change=change)
    refused(file, UnknownConfiguration, said, **settings)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            without("mlp_head.0.weight", "transformer.layers.1.1.norm.bias"),
            r"do not fit vit-pytorch's ViT \(2\): missing: mlp_head\.0\.weight; missing: transf",
        ),
        (without("pos_embedding"), "missing: pos_embedding"),
        (
            lambda state: state | {"transformer.layers.1.1.fn.net.0.weight": torch.zeros(7, 16)},
            r"misshapen: transformer\.layers\.1\.1\.fn\.net\.0\.weight is \(7, 16\)",
        ),
        (lambda state: state | {"extra": torch.zeros(2)}, "unexpected: extra"),
        (
            lambda state: state | {"mlp_head.1.weight": torch.zeros(5)},
            r"misshapen: mlp_head\.1\.weight is \(5,\); expected 2 axes",
        ),
    ],
)
def test_tensors_of_a_vit_that_do_not_fit_are_named(tmp_path, change, said):
    file = saved(tmp_path, VitPytorch(), change=change)
    refused(file, CheckpointMismatch, said, **CLASSES)


# ----------------------------------------------------------------------------------------- minGPT


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
@pytest.mark.parametrize("network", [MinGPT, FirstMinGPT])
@pytest.mark.parametrize(
    "sizes", [{}, {"heads": 4, "depth": 1}, {"width": 10, "heads": 1, "depth": 3, "words": 31}]
)
def test_mingpts_weights_give_its_logits(tmp_path, network, sizes, kind):
    network = drawn(network(**sizes))
    file = saved(tmp_path, network, kind)
    model = read_model(file, settings={"heads": sizes.get("heads", 3)})
    assert not model.config.tied
    agree_on(IDS, model, network)
    model.save(tmp_path / "converted", layout="huggingface")
    agree_on(IDS, load(tmp_path / "converted"), network)


@pytest.mark.parametrize(("network", "form"), [(MinGPT, "gelu_tanh"), (FirstMinGPT, "gelu")])
def test_each_mingpt_has_its_own_form_of_gelu(tmp_path, network, form):
    file = saved(tmp_path, network())
    assert read_model(file, settings={"heads": 3}).config.activation == form


@pytest.mark.parametrize(
    ("described", "heads"),
    [
        ({"model": {"model_type": "gpt-nano", "n_head": None}, "trainer": {"seed": 1}}, 3),
        ({"model": {"model_type": "gpt-mini", "n_head": 4}}, 4),
        ({"n_head": 6}, 6),
        ({"heads": 2}, 2),
    ],
)
def test_the_config_json_that_mingpt_writes_says_the_heads(tmp_path, described, heads):
    network = drawn(MinGPT(heads=heads))
    saved(tmp_path, network)
    (tmp_path / "config.json").write_text(json.dumps(described))
    for source in (tmp_path, tmp_path / "weights.pt"):
        agree_on(IDS, read_model(source), network)
    assert read_model(tmp_path, settings={"heads": 1}).config.heads == 1


@pytest.mark.parametrize("network", [MinGPT, FirstMinGPT])
def test_an_output_that_repeats_the_embedding_is_tied(tmp_path, network):
    network = drawn(network())
    first, last = (
        (network.transformer["wte"], network.lm_head)
        if isinstance(network, MinGPT)
        else (network.tok_emb, network.head)
    )
    last.weight.data = first.weight.data.clone()
    file, settings = saved(tmp_path, network), {"heads": 3}
    if isinstance(network, MinGPT):  # which nanoGPT's weights alone could be too
        refused(file, UnknownConfiguration, r"do not say: activation .*nanoGPT", **settings)
        settings["activation"] = "gelu_tanh"
    model = read_model(file, settings=settings)
    assert model.config.tied
    agree_on(IDS, model, network)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({}, UnknownConfiguration, r"minGPT.* do not say: heads .*--set heads=12.*config\.json"),
        ({"heads": 5}, UnknownConfiguration, "12 cannot be divided among 5 heads"),
        ({"heads": True}, UnknownConfiguration, "heads must be a whole number"),
        ({"heads": 3, "activation": "swish"}, UnknownConfiguration, "activation must be one of"),
        ({"model_type": "gpt5"}, UnknownConfiguration, "model_type must be one of openai-gpt"),
        ({"haeds": 3}, UnknownSetting, "no setting 'haeds' .* did you mean heads"),
    ],
)
@pytest.mark.parametrize("network", [MinGPT, FirstMinGPT])
def test_settings_of_mingpt_that_cannot_be_used_are_said(tmp_path, network, settings, error, said):
    refused(saved(tmp_path, network()), error, said, **settings)


@pytest.mark.parametrize(
    ("network", "name"),
    [(MinGPT, "transformer.h.1.mlp.c_fc.bias"), (FirstMinGPT, "blocks.1.mlp.2.bias")],
)
def test_what_mingpt_should_have_is_missed(tmp_path, network, name):
    file = saved(tmp_path, network(), change=without(name))
    refused(file, CheckpointMismatch, f"missing: {name}", heads=3)


# ------------------------------------------------------------------------- nn.LSTM and nn.RNN


NAMES = [
    ("encoder", "rnn", "decoder"),
    ("embedding", "lstm", "fc"),
    ("embed", "lstm", "linear"),
    ("emb", "encoder_lstm", "output"),
    ("word_embeddings", "layers", "head"),
    ("encoder", "decoder", "out"),  # whose decoder is the LSTM
]


@pytest.mark.parametrize("kind", ["pt", "safetensors", "npz"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"names": names, "depth": 1 + i % 3, "output_bias": bool(i % 2)}
        for i, names in enumerate(NAMES)
    ]
    + [{"hidden": 6}, {"hidden": 6, "tied": True}, {"bias": False}],
    ids=str,
)
def test_an_lstms_weights_give_its_logits(tmp_path, sizes, kind):
    network = drawn(WordModel(**sizes))
    model = read_model(saved(tmp_path, network, kind))
    tied, bias = sizes.get("tied", False), sizes.get("output_bias", True)
    assert (model.family, model.config.tied, model.config.output_bias) == ("lstm", tied, bias)
    agree_on(IDS, model, network)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_an_rnns_weights_give_its_logits_once_its_nonlinearity_is_stated(
    tmp_path, nonlinearity, bias
):
    network = drawn(WordModel(nn.RNN, nonlinearity=nonlinearity, bias=bias))
    file = saved(tmp_path, network)
    refused(file, UnknownConfiguration, r"do not say: activation .*--set activation=tanh")
    model = read_model(file, settings={"activation": nonlinearity})
    assert model.family == "rnn"
    agree_on(IDS, model, network)
    (tmp_path / "config.json").write_text(json.dumps({"nonlinearity": nonlinearity}))
    agree_on(IDS, read_model(file), network)


def test_in_single_precision_sums_of_biases_are_as_close_as_rounding(tmp_path):
    network = drawn(WordModel()).float()
    model = read_model(saved(tmp_path, network))
    assert model.dtype == "float32"
    agree_on(IDS, model, network, 1e-5)


def test_tied_weights_that_were_saved_once_are_found(tmp_path):
    network = drawn(WordModel(hidden=6, tied=True))
    agree_on(IDS, read_model(saved(tmp_path, network, change=without("decoder.weight"))), network)
    plain = drawn(WordModel(hidden=6, tied=True, output_bias=False))
    file = saved(tmp_path, plain, change=without("decoder.weight"))
    refused(file, UnknownConfiguration, r"no output layer: .* --set tied=true")
    agree_on(IDS, read_model(file, settings={"tied": True}), plain)


def test_weights_stand_where_trainers_put_them(tmp_path):
    """Lightning's prefix, and the key of PyTorch's own tutorial."""
    network = drawn(WordModel())
    inner = {f"model.{name}": tensor for name, tensor in state_of(network).items()}
    for key in ("state_dict", "model_state_dict"):
        torch.save({"epoch": 3, key: inner}, tmp_path / "last.pt")
        agree_on(IDS, read_model(tmp_path / "last.pt"), network)


@pytest.mark.parametrize(
    ("network", "change", "said"),
    [
        (WordModel(bidirectional=True), without(), "rnn.weight_ih_l0_reverse: .* bidirectional"),
        (WordModel(proj_size=4), without(), "rnn.weight_hr_l0: the network has proj_size"),
        (WordModel(nn.GRU), without(), "rnn.weight_ih_l0 has three gates: .* nn.GRU"),
        (WordModel(names=("table", "rnn", "decoder")), without(), "no embedding: .* table"),
        (
            WordModel(),
            lambda state: state | {"fc.weight": torch.zeros(29, 10)},
            "decoder and fc could each be the output",
        ),
        (
            WordModel(),
            lambda state: state | {"other.weight_ih_l0": torch.zeros(40, 6)},
            "2 recurrent networks, 'rnn.' and 'other.'",
        ),
    ],
)
def test_a_recurrent_network_that_cannot_be_expressed_is_refused(tmp_path, network, change, said):
    refused(saved(tmp_path, network, change=change), UnknownConfiguration, said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("rnn.weight_hh_l0"), "missing: rnn.weight_hh_l0"),
        (without("rnn.bias_hh_l1"), "missing: rnn.bias_hh_l1; the others have biases"),
        (without("rnn.weight_ih_l1"), "missing: rnn.weight_ih_l1"),
        (lambda s: s | {"rnn.bias_hh_l1": torch.zeros(3)}, r"rnn.bias_hh_l1 \(3,\)"),
        (lambda s: s | {"decoder.weight": torch.zeros(29, 9)}, r"\(29, 9\), expected \(29, 10\)"),
        (lambda s: s | {"rnn.weight_ih_l0": torch.zeros(41, 6)}, "has 41 rows"),
        (lambda s: s | {"norm.weight": torch.zeros(10)}, "unexpected: norm.weight"),
        (lambda s: s | {"encoder.weight": torch.zeros(29)}, r"encoder.weight is \(29,\)"),
    ],
)
def test_tensors_of_an_lstm_that_do_not_fit_are_named(tmp_path, change, said):
    refused(saved(tmp_path, WordModel(), change=change), CheckpointMismatch, said)


# ------------------------------------------------------------------------------------- TensorFlow


CELLS = [
    {},
    {"cell": "Model/RNN/multi_rnn_cell/cell_{l}/lstm_cell"},  # LSTMBlockCell, LSTMCell
    {"cell": "rnnlm/multi_rnn_cell/cell_{l}/basic_lstm_cell", "scope": "rnnlm/", "depth": 3},
    {"cell": "rnn/basic_lstm_cell", "scope": "", "depth": 1},
]


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
@pytest.mark.parametrize("forget_bias", [0, 1.0, -0.25])
@pytest.mark.parametrize("cells", CELLS, ids=str)
@pytest.mark.parametrize("sizes", [{}, {"hidden": 6}, {"hidden": 6, "tied": True}], ids=str)
def test_tensorflows_cells_give_their_logits(tmp_path, cells, sizes, forget_bias, kind):
    variables = tensorflow_variables(**cells, **sizes)
    file = saved(tmp_path, variables, kind)
    model = read_model(file, settings={"forget_bias": forget_bias})
    expected = tensorflow_logits(variables, IDS.numpy(), forget_bias, **cells)
    assert (model.family, model.config.tied) == ("lstm", sizes.get("tied", False))
    agree_on(IDS, model, lambda _: torch.tensor(expected))


def test_variables_of_training_and_numbers_of_outputs_are_passed_over(tmp_path):
    variables = tensorflow_variables()
    beside = {"global_step": np.int64(7), "Model/Variable": np.float32(1), "beta1_power": 0.9}
    beside["Model/embedding/Adam"] = np.zeros((29, 6))
    named = {f"{name}:0": array for name, array in (variables | beside).items()}
    model = read_model(saved(tmp_path, named, "npz"), settings={"forget_bias": 0.0})
    expected = tensorflow_logits(variables, IDS.numpy(), 0)
    agree_on(IDS, model, lambda _: torch.tensor(expected))


def test_a_cell_that_cudnn_trained_adds_no_forget_bias(tmp_path):
    cell = PTB.replace("basic_lstm_cell", "cudnn_compatible_lstm_cell")
    variables = tensorflow_variables(cell=cell)
    file = saved(tmp_path, variables, "npz")
    expected = tensorflow_logits(variables, IDS.numpy(), 0, cell=cell)
    agree_on(IDS, read_model(file), lambda _: torch.tensor(expected))
    refused(file, UnknownConfiguration, "must be 0 with cudnn_compatible", forget_bias=1)


def test_weights_and_biases_are_the_older_names_of_kernel_and_bias(tmp_path):
    variables = tensorflow_variables()
    older = {
        name.replace("/kernel", "/weights").replace("/bias", "/biases"): array
        for name, array in variables.items()
    }
    model = read_model(saved(tmp_path, older, "npz"), settings={"forget_bias": 1})
    expected = tensorflow_logits(variables, IDS.numpy(), 1)
    agree_on(IDS, model, lambda _: torch.tensor(expected))


def test_half_precision_of_a_npz_is_kept(tmp_path):
    halves = {name: a.astype(np.float16) for name, a in tensorflow_variables().items()}
    model = read_model(saved(tmp_path, halves, "npz"), settings={"forget_bias": 0})
    assert (model.dtype, model.state["embedding.weight"].dtype) == ("float16", np.float32)


KERNEL = PTB.format(l=1) + "/kernel"


@pytest.mark.parametrize(
    ("change", "settings", "error", "said"),
    [
        (
            without(),
            {},
            UnknownConfiguration,
            r"do not say: forget_bias .*ptb_word_lm\.py has 0\.0",
        ),
        (without(), {"forget_bias": "one"}, UnknownConfiguration, "must be a number; got 'one'"),
        (without(KERNEL), {"forget_bias": 0}, CheckpointMismatch, "missing: .*cell_1.*kernel"),
        (without("Model/embedding"), {"forget_bias": 0}, CheckpointMismatch, "called embedding"),
        (
            without("Model/softmax_b", "Model/softmax_w"),
            {"forget_bias": 0},
            CheckpointMismatch,
            "missing: softmax_w",
        ),
        (
            lambda v: v | {KERNEL: v[KERNEL][1:]},
            {"forget_bias": 0},
            CheckpointMismatch,
            r"misshapen: .*cell_1.* is \(19, 40\), expected \(20, 40\)",
        ),
        (
            lambda v: v | {PTB.format(l=0) + "/w_f_diag": np.zeros(10)},
            {"forget_bias": 0},
            UnknownConfiguration,
            "w_f_diag: the cell has peepholes",
        ),
        (
            lambda v: v | {"Model/RNN/lstm_cell/projection/kernel": np.zeros((10, 4))},
            {"forget_bias": 0},
            UnknownConfiguration,
            "the cell has a projection of its state",
        ),
        (
            lambda v: v | {"other/basic_lstm_cell/kernel": np.zeros((16, 40))},
            {"forget_bias": 0},
            UnknownConfiguration,
            "several stacks of cells",
        ),
    ],
)
def test_variables_that_do_not_fit_are_named(tmp_path, change, settings, error, said):
    file = saved(tmp_path, tensorflow_variables(), "npz", change)
    refused(file, error, said, **settings)


# ------------------------------------------------------------------------------------- all layouts


NETWORKS = {
    "vit-pytorch's ViT": VitPytorch,
    "minGPT": MinGPT,
    "minGPT as it was until 2022": FirstMinGPT,
    "a language model of torch.nn.LSTM or torch.nn.RNN": WordModel,
}


@pytest.mark.parametrize("title", NETWORKS)
def test_inspect_says_whose_weights_a_folder_holds_alone(tmp_path, title):
    saved(tmp_path, NETWORKS[title](), "safetensors").rename(tmp_path / "model.safetensors")
    seen = vs.inspect(tmp_path)
    said = f"the tensors are those of {title}; convert them with: vesalius convert"
    assert any(problem.startswith(said) for problem in seen.problems)


def test_every_layout_is_known_by_its_own_names_alone():
    shapes = {
        title: {name: tuple(tensor.shape) for name, tensor in network().state_dict().items()}
        for title, network in NETWORKS.items()
    }
    variables = {name: a.shape for name, a in tensorflow_variables().items()}
    shapes["a language model of TensorFlow's LSTM cells"] = variables
    assert set(shapes) == {layout.title for layout in bare.LAYOUTS}
    for title, names in shapes.items():
        assert [layout.title for layout in bare.LAYOUTS if layout.fits(names)] == [title]


def test_layers_alone_are_no_language_model():
    shapes = {name: tuple(t.shape) for name, t in nn.LSTM(4, 4).state_dict().items()}
    assert bare.recognise(shapes) is None


def test_a_config_json_that_says_what_it_is_goes_before_the_names(tmp_path):
    saved(tmp_path, MinGPT(), "safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    refused(tmp_path / "weights.safetensors", UnknownSetting, "heads: settings are stated", heads=3)
    refused(tmp_path / "weights.safetensors", CheckpointMismatch, r"do not fit config\.json")


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
def test_weights_that_are_not_finite_are_refused(tmp_path, kind):
    network = WordModel()
    network.decoder.weight.data[3, 4] = torch.nan
    refused(saved(tmp_path, network, kind), ValueError, "NaN or infinity in decoder.weight")


def test_whole_numbers_and_sums_beyond_all_numbers_are_refused(tmp_path):
    whole = {name: a.astype(int) for name, a in tensorflow_variables().items()}
    file = saved(tmp_path, whole, "npz")
    refused(file, CheckpointMismatch, "not floating point: .*bias is int64", forget_bias=0.5)
    network = WordModel()
    for bias in (network.rnn.bias_ih_l1, network.rnn.bias_hh_l1):
        bias.data[:] = 3e38
    refused(saved(tmp_path, network), ValueError, "NaN or infinity in rnn.bias_ih_l1")


def test_convert_takes_what_the_weights_do_not_say(tmp_path):
    network = drawn(MinGPT(), seed=2)
    source, target = str(saved(tmp_path, network)), tmp_path / "converted"
    asked = vesalius("convert", source, str(target))
    assert asked.returncode == 2
    assert "State it as in --set heads=12" in asked.stderr
    done = CliRunner().invoke(cli, ["convert", source, str(target), "--set", "heads=3"])
    assert done.exit_code == 0, done.output
    assert "gpt2 as GPT2LMHeadModel, in huggingface's layout, float64" in done.output
    agree_on(IDS, load(target), network)


def test_convert_writes_our_layout_where_hugging_face_has_none(tmp_path):
    network = drawn(WordModel())
    target = tmp_path / "converted"
    done = CliRunner().invoke(cli, ["convert", str(saved(tmp_path, network)), str(target)])
    assert "lstm in vesalius's layout" in done.output
    agree_on(IDS, load(target), network)


def test_convert_reads_true_numbers_and_words(tmp_path):
    variables = tensorflow_variables(hidden=6, tied=True)
    target = tmp_path / "converted"
    arguments = ["convert", str(saved(tmp_path, variables, "npz")), str(target)]
    done = CliRunner().invoke(cli, [*arguments, "--set", "forget_bias=0.5"])
    assert done.exit_code == 0, done.output
    expected = tensorflow_logits(variables, IDS.numpy(), 0.5)
    agree_on(IDS, load(target), lambda _: torch.tensor(expected))

"""Files of nanoGPT, timm and Keras become our models, and compute what their libraries do.

The two former are restated in ``libraries``: names, shapes and a forward pass in plain PyTorch.
"""

import json
import sys

import numpy as np
import pytest
import torch
from agreement import agree
from libraries import GPT2, VIT, nanogpt_logits, nanogpt_state, timm_logits, timm_state
from safetensors.numpy import save_file

from vesalius.checkpoints.conversion import read_model
from vesalius.cli import cli
from vesalius.errors import (
    BrokenFile,
    CheckpointMismatch,
    MissingExtra,
    NotACheckpoint,
    UnknownConfiguration,
)
from vesalius.model import load
from vesalius.tokenizers import train_characters

ARGUMENTS = {"vocab_size": 29, "block_size": 9, "n_layer": 2, "n_embd": 12, "n_head": 3}
ARGUMENTS |= {"dropout": 0.0, "bias": True}
IDS = torch.arange(18).reshape(2, 9) * 5 % 29


def nanogpt_file(folder, prefix="", biases=True, **changes):
    """What nanoGPT's training loop saves."""
    state = nanogpt_state(GPT2.change(feedforward=48))  # four times as wide, always
    if not biases:
        state = {k: v for k, v in state.items() if not k.endswith(".bias") or ".attn.bias" in k}
    state = {prefix + name: torch.tensor(array).float() for name, array in state.items()}
    optimizer = {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1}]}
    held = {"model": state, "optimizer": optimizer, "iter_num": 3, "config": {"out_dir": "out"}}
    arguments = {k: v for k, v in {**ARGUMENTS, **changes}.items() if v is not ...}
    torch.save({**held, "model_args": arguments}, folder / "ckpt.pt")
    return {name.removeprefix(prefix): tensor.double().numpy() for name, tensor in state.items()}


@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_nanogpts_file_computes_what_nanogpt_does(tmp_path, prefix):
    theirs = nanogpt_file(tmp_path, prefix)
    for source in (tmp_path, tmp_path / "ckpt.pt"):
        model = read_model(source)
        assert (model.family, model.config.activation, model.dtype) == ("gpt2", "gelu", "float32")
        with torch.no_grad():
            agree(model.network(IDS), nanogpt_logits(theirs, IDS, 3), 1e-5)


LETTERS = "".join(chr(ord("a") + i) for i in range(26)) + " .\n"


def test_a_nanogpt_of_characters_gets_them_from_its_text(tmp_path):
    """As its prepare.py numbers them: sorted(set(text))."""
    nanogpt_file(tmp_path)
    text = "the quick brown fox jumps over the lazy dog.\n"
    (tmp_path / "input.txt").write_text(text)
    model = read_model(tmp_path / "ckpt.pt", tokenizer=tmp_path / "input.txt")
    numbers = {c: i for i, c in enumerate(sorted(set(text)))}
    assert set(text) == set(LETTERS)
    assert model.tokenizer.encode("fox\n") == [numbers[c] for c in "fox\n"]
    model.save(tmp_path / "converted", "huggingface")
    again = load(tmp_path / "converted")
    assert again.tokenizer.decode(again.tokenizer.encode("lazy dog")) == "lazy dog"


def test_a_nanogpt_of_byte_pairs_gets_a_models_tokenizer_though_its_rows_were_padded(tmp_path):
    nanogpt_file(tmp_path)
    (tmp_path / "tokens").mkdir()
    train_characters(["abcdef"]).save(tmp_path / "tokens")
    for source in (tmp_path / "tokens", tmp_path / "tokens" / "tokenizer.json"):
        assert read_model(tmp_path / "ckpt.pt", tokenizer=source).tokenizer.size == 6


@pytest.mark.parametrize(
    ("name", "held", "said"),
    [
        ("meta.pkl", "", "pickled and could run code, so it is not read; .* give that text"),
        ("other.txt", "abc", "has 3 characters, the model 29 tokens"),
    ],
)
def test_a_tokenizer_that_cannot_be_the_models_is_refused(tmp_path, name, held, said):
    nanogpt_file(tmp_path)
    (tmp_path / name).write_text(held)
    with pytest.raises(NotACheckpoint, match=said):
        read_model(tmp_path / "ckpt.pt", tokenizer=tmp_path / name)


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path):
    nanogpt_file(tmp_path)
    with pytest.raises(NotACheckpoint, match="go up to 4,095, those of the model to 28"):
        read_model(tmp_path / "ckpt.pt", tokenizer="gpt")


def test_convert_says_that_a_tokenizer_is_missing_and_takes_one(tmp_path, capsys):
    nanogpt_file(tmp_path)
    source, text = str(tmp_path / "ckpt.pt"), tmp_path / "input.txt"
    cli.main(["convert", source, str(tmp_path / "a")], standalone_mode=False)
    assert "--tokenizer gives it one" in capsys.readouterr().out
    text.write_text(LETTERS)
    arguments = ["convert", source, str(tmp_path / "b"), "--tokenizer", str(text)]
    cli.main(arguments, standalone_mode=False)
    assert "no tokenizer" not in capsys.readouterr().out
    assert load(tmp_path / "b").tokenizer.size == 29


def test_nanogpt_without_biases_has_biases_of_zero(tmp_path):
    theirs = nanogpt_file(tmp_path, biases=False, bias=False)
    zeros = {
        name.replace("weight", "bias"): np.zeros(len(array))
        for name, array in theirs.items()
        if "wte" not in name and "wpe" not in name and "lm_head" not in name
    }
    model = read_model(tmp_path)
    with torch.no_grad():
        agree(model.network(IDS), nanogpt_logits(zeros | theirs, IDS, 3), 1e-5)
    model.save(tmp_path / "new", layout="huggingface")
    assert load(tmp_path / "new").config.symbols() == model.config.symbols()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n_head": ...}, "model_args lack n_head"),
        ({"n_head": 5}, "12 cannot be divided among 5 heads"),
        ({"n_layer": "2"}, "layers must be a whole number, got '2'"),
    ],
)
def test_settings_of_nanogpt_that_cannot_be_used_are_said(tmp_path, changes, said):
    nanogpt_file(tmp_path, **changes)
    with pytest.raises(UnknownConfiguration, match=said):
        read_model(tmp_path)


def test_biases_that_nanogpt_should_have_are_missed(tmp_path):
    nanogpt_file(tmp_path, biases=False)
    said = r"missing: transformer\.h\.\*\.attn\.c_attn\.bias, 2 times"
    with pytest.raises(CheckpointMismatch, match=said):
        read_model(tmp_path)


def timm_folder(folder, change=lambda state: state, pickled=False, **described):
    """What timm pushes to a hub."""
    state = change(timm_state(VIT))
    if pickled:
        tensors = {name: torch.tensor(array).float() for name, array in state.items()}
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        arrays = {name: array.astype(np.float32) for name, array in state.items()}
        save_file(arrays, folder / "model.safetensors")
    scaling = {"mean": [0.5, 0.25, 0.125], "std": [0.5, 0.2, 0.1], "input_size": [3, 12, 12]}
    said = {"architecture": "vit_tiny_patch4_12", "num_classes": 5, "global_pool": "token"}
    said |= {"pretrained_cfg": scaling} | described
    (folder / "config.json").write_text(json.dumps(said))
    return state


@pytest.mark.parametrize("pickled", [False, True])
def test_timms_folder_computes_what_timm_does(tmp_path, pickled, rng):
    theirs = timm_folder(tmp_path, pickled=pickled)
    model = read_model(tmp_path)
    assert model.config == VIT
    assert model.preprocessing.mean == [127.5, 63.75, 31.875]
    assert model.preprocessing.std == [127.5, 51.0, 25.5]
    pixels = torch.tensor(rng.normal(size=(2, 3, 12, 12)))
    with torch.no_grad():
        agree(model.network(pixels.float()).logits, timm_logits(theirs, pixels, VIT), 1e-5)


def test_timms_heads_are_said_where_its_name_does_not_tell_them(tmp_path):
    timm_folder(tmp_path, architecture="vit_little_patch4_12")
    with pytest.raises(UnknownConfiguration, match=r'add "model_args": \{"num_heads"'):
        read_model(tmp_path)
    timm_folder(tmp_path, architecture="vit_little_patch4_12", model_args={"num_heads": 3})
    assert read_model(tmp_path).config == VIT


def test_timm_without_biases_of_queries_keys_and_values(tmp_path, rng):
    theirs = timm_folder(
        tmp_path, lambda state: {k: v for k, v in state.items() if not k.endswith("qkv.bias")}
    )
    model = read_model(tmp_path)
    assert not model.config.qkv_bias
    pixels = torch.tensor(rng.normal(size=(2, 3, 12, 12)))
    zeros = {f"blocks.{l}.attn.qkv.bias": np.zeros(36) for l in range(2)}
    with torch.no_grad():
        expected = timm_logits(zeros | theirs, pixels, VIT)
        agree(model.network(pixels.float()).logits, expected, 1e-5)


@pytest.mark.parametrize(
    "described",
    [
        {"model_args": 3, "pretrained_cfg": [1]},
        {"pretrained_cfg": {"mean": [10**400, 1, 1], "std": 1}},
        {"pretrained_cfg": {"mean": [0.5], "std": [0.5]}, "label_names": 7},
    ],
)
def test_what_timm_says_oddly_is_as_if_it_were_not_said(tmp_path, described):
    timm_folder(tmp_path, **described)
    assert not read_model(tmp_path).preprocessing


def test_other_models_of_timm_are_refused_by_name(tmp_path):
    timm_folder(tmp_path, architecture="resnet50")
    with pytest.raises(UnknownConfiguration, match="'resnet50'; of timm's models vit and deit"):
        read_model(tmp_path)
    timm_folder(tmp_path, global_pool="avg")
    with pytest.raises(UnknownConfiguration, match="global_pool = 'avg'; only 'token'"):
        read_model(tmp_path)
    timm_folder(tmp_path, lambda state: state | {"fc_norm.weight": np.zeros(3)})
    with pytest.raises(CheckpointMismatch, match=r"unexpected: fc_norm\.weight"):
        read_model(tmp_path)
    assert read_model(tmp_path, ignore_extra=True).config == VIT


def test_without_h5py_a_file_of_keras_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "gpt2.weights.h5").write_bytes(b"")
    with pytest.raises(MissingExtra, match=r"pip install 'vesalius\[hdf5\]'"):
        read_model(tmp_path / "gpt2.weights.h5")


@pytest.mark.parametrize("name", ["x.weights.h5", "x.keras"])
def test_a_damaged_file_of_keras_is_called_broken(tmp_path, name):
    pytest.importorskip("h5py", reason="Keras's files are read by h5py")
    (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(BrokenFile, match="cannot be read as Keras's"):
        read_model(tmp_path / name)

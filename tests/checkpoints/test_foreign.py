"""Files of other programs, shards and names with a prefix: read, or called by their names."""

import json
import shutil
import struct

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file
from strategies import filled, small

import vesalius as vs
from vesalius.checkpoints import foreign
from vesalius.checkpoints.conversion import read_model
from vesalius.cli import cli
from vesalius.errors import CheckpointMismatch, NotACheckpoint, UnknownConfiguration
from vesalius.model import load

WIDTH, INNER, LAYERS, HEADS, SHARED, WORDS, CONTEXT = 8, 16, 2, 4, 2, 32, 16


def gguf(architecture="qwen2"):
    """The beginning of a file of llama.cpp: a magic, counts, and the first of its keys."""

    def text(words):
        return struct.pack("<Q", len(words)) + words.encode()

    said = text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    return b"GGUF" + struct.pack("<IQQ", 3, 291, 24) + said + text("general.name") + bytes(64)


def llama2c(words=WORDS):
    """A whole file of llama2.c's first version; an output of its own if ``words`` are negative."""
    kv = SHARED * WIDTH // HEADS
    layer = 2 * WIDTH + 2 * WIDTH * WIDTH + 2 * WIDTH * kv + 3 * WIDTH * INNER
    numbers = abs(words) * WIDTH * (2 if words < 0 else 1) + LAYERS * layer + WIDTH
    numbers += CONTEXT * WIDTH // HEADS
    sizes = struct.pack("<7i", WIDTH, INNER, LAYERS, HEADS, SHARED, words, CONTEXT)
    return sizes + np.zeros(numbers, "<f4").tobytes()


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "gpt2"
    filled(small("gpt2", layers=3), dtype="float32").save(folder, "huggingface")
    return folder


def beside_config(published, folder):
    folder.mkdir()
    shutil.copy(published / "config.json", folder)
    return folder


@pytest.mark.parametrize("name", ["model.gguf", "pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gguf(), "is GGUF, the format of llama.cpp; its architecture is qwen2"),
        (b"GGUF" + bytes(40), "is GGUF, the format of llama.cpp; its architecture is unknown"),
        (llama2c(), "is in the format of llama2.c; its architecture is llama"),
        (llama2c(-WORDS), "is in the format of llama2.c; its architecture is llama"),
        (b"24ka" + bytes(40), "is in the format of llama2.c; its architecture is llama"),
    ],
    ids=["GGUF", "GGUF cut short", "llama2.c", "untied llama2.c", "later llama2.c"],
)
def test_a_model_of_another_program_is_called_by_its_name(published, tmp_path, name, content, said):
    folder = beside_config(published, tmp_path / "theirs")
    (folder / name).write_bytes(content)
    for read in (load, read_model):
        with pytest.raises(NotACheckpoint) as caught:
            read(folder)
        assert f"{folder / name} {said}. It is not read; expected" in str(caught.value)
        assert "pickled" not in str(caught.value)
    with pytest.raises(NotACheckpoint, match="It is not read"):
        read_model(folder / name)
    seen = vs.inspect(folder)
    assert [said in problem for problem in seen.problems] == [True]
    assert next(file for file in seen.files if file.name == name).what.startswith("not read: ")
    (folder / "config.json").unlink()  # as most folders with one of these files are
    with pytest.raises(NotACheckpoint, match="It is not read"):
        load(folder)


def test_pickles_and_weights_are_of_no_other_program(published, tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "a.bin")
    torch.save({"a": torch.zeros(3)}, tmp_path / "b.bin", _use_new_zipfile_serialization=False)
    (tmp_path / "cut.bin").write_bytes(llama2c()[:-4])
    (tmp_path / "few.bin").write_bytes(b"\1\0\0\0")
    files = [published / "model.safetensors", *sorted(tmp_path.iterdir())]
    assert [foreign.program_of(file) for file in files] == [None] * 5


def in_two(published, folder, suffix, write):
    """The tensors of a model in two shards; which tensor is in which."""
    tensors, placed = load_file(published / "model.safetensors"), {}
    names = sorted(tensors)
    for k, part in enumerate((names[::2], names[1::2]), 1):
        shard = f"{suffix[0]}-0000{k}-of-00002{suffix[1]}"
        write({name: tensors[name] for name in part}, folder / shard)
        placed |= dict.fromkeys(part, shard)
    return placed


def pickle_to(tensors, file):
    torch.save({name: torch.from_numpy(array) for name, array in tensors.items()}, file)


def test_pickled_shards_are_converted_by_their_index(published, tmp_path):
    folder = beside_config(published, tmp_path / "theirs")
    placed = in_two(published, folder, ("pytorch_model", ".bin"), pickle_to)
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    with pytest.raises(NotACheckpoint, match="convert it with: vesalius convert"):
        load(folder)
    done = CliRunner().invoke(cli, ["convert", str(folder), str(tmp_path / "new")])
    assert done.exit_code == 0
    before, after = load(published).state, load(tmp_path / "new").state
    assert all(np.array_equal(before[name], after[name]) for name in before)
    index.write_text(
        json.dumps({"weight_map": {**placed, "one.more": "pytorch_model-00001-of-00002.bin"}})
    )
    with pytest.raises(ValueError, match=r"lack one\.more"):
        read_model(folder)
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(NotACheckpoint, match=r"names pytorch_model-00002.*, which is not there"):
        read_model(folder)


def test_shards_without_their_index_are_named(published, tmp_path):
    folder = beside_config(published, tmp_path / "theirs")
    in_two(published, folder, ("model", ".safetensors"), save_file)
    said = (
        r"holds model-00001-of-00002.safetensors and model-00002-of-00002.safetensors, "
        r"but no model.safetensors.index.json"
    )
    for read in (load, read_model):
        with pytest.raises(NotACheckpoint, match=said):
            read(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(NotACheckpoint, match=r"holds no model.safetensors; model-00001-of.* is"):
        load(folder)


def renamed(published, folder, prefix):
    beside_config(published, folder)
    tensors = load_file(published / "model.safetensors")
    save_file(
        {prefix + name: array for name, array in tensors.items()}, folder / "model.safetensors"
    )
    return folder


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.", "module._orig_mod."])
def test_what_training_put_before_all_names_is_taken_off(published, tmp_path, prefix):
    folder = renamed(published, tmp_path / "theirs", prefix)
    before, model = load(published).state, load(folder)
    assert all(np.array_equal(before[name], model.state[name]) for name in before)
    assert vs.inspect(folder).problems == ()
    assert model.locate("E", (0, 0)).tensor.startswith(prefix)  # where it stands in the file
    load(published).save(tmp_path / "ours")
    held = load_file(tmp_path / "ours" / "model.safetensors")
    wrapped = {prefix + name: array for name, array in held.items()}
    save_file(wrapped, tmp_path / "ours" / "model.safetensors")
    assert all(np.array_equal(before[name], load(tmp_path / "ours").state[name]) for name in before)


def test_another_prefix_of_all_names_is_named(published, tmp_path):
    folder = renamed(published, tmp_path / "theirs", "net.")
    with pytest.raises(CheckpointMismatch, match=r"the names begin with 'net\.transformer\.', wit"):
        load(folder)


def test_what_every_layer_lacks_is_told_once(published, tmp_path):
    folder = renamed(published, tmp_path / "theirs", "my_")
    with pytest.raises(CheckpointMismatch) as caught:
        load(folder)
    said = str(caught.value)
    assert "missing: h.*.attn.c_attn.bias, 3 times; " in said
    assert "unexpected: my_transformer.h.*.ln_1.bias, 3 times; " in said
    assert ".1." not in said


def test_a_model_that_is_not_known_is_not_sent_to_convert(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    torch.save({"a": torch.zeros(3)}, tmp_path / "pytorch_model.bin")
    for read in (load, read_model):
        with pytest.raises(UnknownConfiguration, match="model_type 'albert'"):
            read(tmp_path)
    assert not any("convert" in problem for problem in vs.inspect(tmp_path).problems)


def test_weights_that_nothing_describes_lead_to_the_page_on_own_weights(tmp_path):
    state = torch.nn.LSTM(8, 8).state_dict()
    torch.save(state, tmp_path / "lstm.pt")
    for read in (load, read_model):
        with pytest.raises(NotACheckpoint, match=r"docs/own-weights\.md"):
            read(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UnknownConfiguration, match=r"no tensors to tell it by.*own-weights\.md"):
        vs.count(tmp_path)
    with pytest.raises(UnknownConfiguration, match=r"the tensors are of no known.*own-weights\.md"):
        read_model(tmp_path)


TABLE = bytes(40) + bytes.fromhex("57fb808b247547db")


@pytest.mark.parametrize("given", ["model.ckpt-7.index", "model.ckpt-7", "."])
def test_a_checkpoint_of_tensorflow_says_how_to_export_it(tmp_path, given):
    (tmp_path / "model.ckpt-7.index").write_bytes(TABLE)
    (tmp_path / "model.ckpt-7.data-00000-of-00001").write_bytes(bytes(64))
    with pytest.raises(NotACheckpoint) as caught:
        read_model(tmp_path / given)
    lines = str(caught.value).splitlines()
    assert f"tf.train.load_checkpoint({str(tmp_path / 'model.ckpt-7')!r})" in lines[1]
    assert lines[2].startswith("  np.savez('weights.npz', **{n: reader.get_tensor(n) for n in ")
    assert vs.inspect(tmp_path).files[0].what.startswith("not read: of a TensorFlow checkpoint")


def test_the_data_of_a_checkpoint_of_tensorflow_lead_to_its_name(tmp_path):
    data = tmp_path / "model.ckpt-7.data-00000-of-00001"
    data.write_bytes(bytes(64))
    (tmp_path / "old.ckpt").write_bytes(TABLE)  # one file, until 2017
    for file, name in ((data, r"model\.ckpt-7"), (tmp_path / "old.ckpt", r"old\.ckpt")):
        with pytest.raises(NotACheckpoint, match=rf"load_checkpoint\('.*{name}'\)"):
            read_model(file)

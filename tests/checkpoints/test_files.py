"""Weights on disk: views of the file, errors that say what is wrong with it, atomic saving."""

import io
import json
import os
import pickle
import shutil
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from strategies import filled, small

from vesalius.checkpoints import files
from vesalius.equations import OneHot, arrays, transformer_logits
from vesalius.errors import (
    BrokenFile,
    CheckpointMismatch,
    ImpossibleSetting,
    NotACheckpoint,
    NotFinite,
    UnknownConfiguration,
    VesaliusError,
)
from vesalius.model import create, load
from vesalius.tokenizers import train_byte_pairs


@pytest.fixture
def folder(tmp_path):
    """A model in our own layout."""
    filled(small("gpt2"), dtype="float32").save(tmp_path / "model")
    return tmp_path / "model"


def packed(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ONE = tensor([2], 0, 8)
BROKEN = {
    "empty": (b"", "no safetensors file, or is cut short.* 0$"),
    "shorter than a length": (b"\x01\x02", "no safetensors file, or is cut short"),
    "header longer than the file": (
        struct.pack("<Q", 1000) + b"{}",
        "its header should be 1000 bytes of 10$",
    ),
    "header over the limit": (
        struct.pack("<Q", 2**63) + b"{}",
        f"its header should be {2**63} bytes of 10$",
    ),
    "header that is not JSON": (packed(b"{not json"), "damaged header: "),
    "header that is not text": (packed(b"\xff\xfe\x00\xd8"), "damaged header: "),
    "header that is a list": (packed([]), "damaged header: expected a JSON object"),
    "header nested without end": (packed(b"[" * 100_000), "damaged header: "),
    "header with an endless number": (packed(b'{"a":' + b"1" * 5000 + b"}"), "damaged header: "),
    "entry that is no object": (packed({"a": 3}), "tensor a has no data_offsets"),
    "no offsets": (packed({"a": {"dtype": "F32", "shape": [2]}}), "a has no data_offsets"),
    "offsets that are fractions": (
        packed({"a": tensor([2], 0.0, 8.0)}, bytes(8)),
        "a has no data_offsets",
    ),
    "data cut short": (packed({"a": ONE}, bytes(7)), "8 bytes expected, 7 there"),
    "data left over": (packed({"a": ONE}, bytes(9)), "8 bytes expected, 9 there"),
    "overlap": (
        packed({"a": ONE, "b": tensor([2], 4, 12)}, bytes(12)),
        "tensor b should take 8 bytes from 8 on, its header says 4 to 12",
    ),
    "hole": (
        packed({"a": ONE, "b": tensor([2], 12, 20)}, bytes(20)),
        "tensor b should take 8 bytes from 8 on, its header says 12 to 20",
    ),
    "hole in front": (
        packed({"a": tensor([2], 4, 12)}, bytes(12)),
        "tensor a should take 8 bytes from 0 on, its header says 4 to 12",
    ),
    "offsets before the data": (
        packed({"a": tensor([2], -8, 0)}, bytes(8)),
        "tensor a should take 8 bytes from 0 on, its header says -8 to 0",
    ),
    "shape of another size": (
        packed({"a": tensor([3], 0, 8)}, bytes(8)),
        "tensor a should take 12 bytes from 0 on, its header says 0 to 8",
    ),
    "negative shape": (packed({"a": tensor([-2], 0, 8)}, bytes(8)), r"impossible shape \[-2\]"),
    "fractional shape": (packed({"a": tensor([2.0], 0, 8)}, bytes(8)), "impossible shape"),
    "shape that is no list": (packed({"a": tensor(2, 0, 8)}, bytes(8)), "impossible shape 2"),
    "shape of true": (packed({"a": tensor([True], 0, 4)}, bytes(4)), "impossible shape"),
    "shape beyond any memory": (packed({"a": tensor([0, 2**70], 0, 0)}), "impossible shape"),
    "shape of many empty planes": (packed({"a": tensor([0, 2**47, 2**47], 0, 0)}), "impossible"),
    "shape of too many axes": (packed({"a": tensor([1] * 99, 0, 4)}, bytes(4)), "impossible shape"),
    "unknown dtype": (
        packed({"a": tensor([2], 0, 2, "F8_E4M3")}, bytes(2)),
        "tensor a has dtype 'F8_E4M3'; known are F64, F32",
    ),
    "no dtype": (packed({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "dtype None"),
    "dtype that is a list": (
        packed({"a": tensor([2], 0, 8, ["F32"])}, bytes(8)),
        r"tensor a has dtype \['F32'\]",
    ),
    "Git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n",
        "is a Git LFS pointer, not the file itself; run 'git lfs pull'",
    ),
    "something else": (b"PK\x03\x04" + bytes(100), "no safetensors file"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_named_with_what_is_wrong(folder, kind):
    content, message = BROKEN[kind]
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(BrokenFile, match=message) as caught:
        load(folder)
    assert str(folder / "model.safetensors") in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        {"a" * 10**6: 3},
        {"a" * 10**6: tensor([2], 0, 9)},
        {"a": tensor([1] * 10**6, 0, 4)},
        {"a": tensor([2], 0, 8, "F" * 10**6)},
        {"a": tensor([2], 0, 10**4000)},
    ],
)
def test_whatever_a_header_says_the_message_is_short(folder, header):
    (folder / "model.safetensors").write_bytes(packed(header, bytes(8)))
    with pytest.raises(BrokenFile, match="…") as caught:
        load(folder)
    assert len(str(caught.value)) < 1000


def test_reading_takes_time_in_proportion_to_the_number_of_tensors(tmp_path):
    def taken(count):
        header = {f"t{i}": tensor([0], 0, 0) for i in range(count)}
        (tmp_path / "model.safetensors").write_bytes(packed({**header, "z": ONE}, bytes(8)))
        before = time.process_time()
        assert len(files.read_folder(tmp_path).arrays) == count + 1
        return time.process_time() - before

    # Ten times as long; a hundred times where names are compared in pairs.
    assert taken(50_000) < 40 * taken(5_000)


def test_the_limit_of_a_header_holds_for_files_that_are_large_enough(folder):
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", files.HEADER_LIMIT + 1))
        stream.truncate(files.HEADER_LIMIT + 100)  # sparse: takes no space
    with pytest.raises(BrokenFile, match=r"100000001 bytes"):
        load(folder)
    assert files.HEADER_LIMIT == 100_000_000


def test_tensors_without_numbers_may_stand_anywhere_in_the_header(tmp_path):
    header = {"b": tensor([2], 0, 8), "a": tensor([0], 0, 0), "c": tensor([0], 8, 8)}
    (tmp_path / "file").write_bytes(packed(header, bytes(8)))
    assert set(load_file(tmp_path / "file")) == {"a", "b", "c"}
    found = files.read(tmp_path / "file").arrays
    assert {name: array.shape for name, array in found.items()} == {"a": (0,), "b": (2,), "c": (0,)}


VALID = packed(
    {
        "__metadata__": {"format": "pt"},
        "embedding.weight": tensor([2, 3], 0, 24),
        "norm": tensor([2], 24, 28, "F16"),
        "bias": tensor([3], 28, 34, "BF16"),
        "mask": tensor([2], 34, 36, "BOOL"),
    },
    bytes(range(36)),
)
changes = st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=4)


@settings(max_examples=300)
@example(changes=[], length=len(VALID))
@given(changes, st.just(len(VALID)) | st.integers(0, len(VALID)))
def test_a_damaged_file_gives_arrays_or_says_that_it_is_broken(tmp_path_factory, changes, length):
    content = bytearray(VALID)
    for place, value in changes:
        content[place] = value
    file = tmp_path_factory.getbasetemp() / f"damaged-{os.getpid()}"
    file.write_bytes(content[:length])
    try:
        found = files.read(file).arrays
    except BrokenFile:
        return
    assert all(isinstance(array, np.ndarray) for array in found.values())
    assert length == len(VALID)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 100)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", "F32", "F16", "BOOL", "relu", "gpt2", "BertForMaskedLM", "learned"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@settings(max_examples=200)
@given(st.sampled_from(["dtype", "shape", "data_offsets", None]), anything)
def test_whatever_a_header_says_it_is_read_or_refused(tmp_path_factory, key, value):
    entry = {**tensor([0, 3], 8, 8), key: value} if key else value
    file = tmp_path_factory.getbasetemp() / f"header-{os.getpid()}"
    file.write_bytes(packed({"a": ONE, "b": entry}, bytes(8)))
    try:
        found = files.read(file).arrays
    except BrokenFile:
        return
    assert found.keys() == {"a", "b"}


@pytest.fixture(scope="module", params=["gpt2", "bert", "vit", "ours"])
def described(request, tmp_path_factory):
    """A folder, and what its config.json says."""
    folder = tmp_path_factory.mktemp(request.param)
    family, layout = request.param, "huggingface"
    if family == "ours":
        family, layout = "tst", "vesalius"
    filled(small(family), dtype="float32").save(folder, layout=layout)
    return folder, json.loads((folder / "config.json").read_text())


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_a_config_says_it_is_read_or_refused(described, data):
    folder, said = described
    key = data.draw(st.sampled_from([*said, "num_labels", "self", "n_inner"]))
    change = {key: data.draw(anything)}
    (folder / "config.json").write_text(json.dumps(said | change))
    try:
        model = load(folder)
    except VesaliusError:
        return
    assert model.family in ("gpt2", "bert", "vit", "tst")


def test_all_tensors_that_do_not_fit_are_listed_at_once(folder):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["norm.bias"], tensors["blocks.1.attention.key.bias"]
    tensors["norm.scale"] = np.zeros(3, np.float32)
    tensors["positions.weight"] = np.zeros((4, 12), np.float32)
    tensors["embedding.weight"] = np.zeros(5, np.float32)
    save_file(tensors, file)
    with pytest.raises(CheckpointMismatch) as caught:
        load(folder)
    for problem in (
        "(5)",
        "missing: norm.bias",
        "missing: blocks.1.attention.key.bias",
        "unexpected: norm.scale",
        "misshapen: positions.weight is (4, 12), expected (9, 12)",
        "misshapen: embedding.weight is (5,), expected (17, 12)",
    ):
        assert problem in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_named_unless_they_are_allowed(folder, value):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["norm.bias"][3] = value
    tensors["blocks.1.feedforward.inner.weight"][2, 1] = value
    save_file(tensors, file)
    with pytest.raises(NotFinite, match=r"NaN or infinity in ") as caught:
        load(folder)
    for name in ("norm.bias", "blocks.1.feedforward.inner.weight", "allow_non_finite=True"):
        assert name in str(caught.value)
    assert "positions" not in str(caught.value)
    model = load(folder, allow_non_finite=True)
    np.testing.assert_equal(model.state["norm.bias"][3], np.float32(value))


def test_weights_that_are_large_but_finite_are_fine(folder):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["positions.weight"][:] = np.finfo(np.float32).max
    save_file(tensors, file)
    assert load(folder).state["positions.weight"].max() == np.finfo(np.float32).max


def test_weights_that_are_whole_numbers_are_refused(folder):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["norm.bias"] = tensors["norm.bias"].astype(np.int32)
    save_file(tensors, file)
    with pytest.raises(CheckpointMismatch, match=r"norm\.bias.*int32"):
        load(folder)


def test_weights_of_mixed_precision_are_run_in_the_widest(folder):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["norm.bias"] = tensors["norm.bias"].astype(np.float64)
    tensors["norm.weight"] = tensors["norm.weight"].astype(np.float16)
    save_file(tensors, file)
    model = load(folder)
    with torch.no_grad():
        assert model.network(torch.tensor([[1, 2]])).dtype == torch.float64
    assert transformer_logits(model.parameters, OneHot([1, 2], 17)).dtype == np.float64


# ------------------------------------------------------------------------------ folders and shards


def test_a_folder_without_a_config_is_no_checkpoint(folder):
    (folder / "config.json").unlink()
    with pytest.raises(NotACheckpoint, match=r"holds no config\.json; expected a model's folder"):
        load(folder)


def test_a_folder_without_weights_is_no_checkpoint(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(NotACheckpoint, match=r"holds no model\.safetensors"):
        load(folder)


class Malicious:
    """Unpickling this leaves a file behind."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_refused_and_never_unpickled(folder, tmp_path, name):
    trace = tmp_path / "executed"
    pickle.loads(pickle.dumps(Malicious(trace)))  # it would work
    trace.rmdir()
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Malicious(trace)))
    with pytest.raises(NotACheckpoint, match=rf"{name}, which is pickled .* vesalius convert"):
        load(folder)
    assert not trace.exists()


def test_pickled_weights_beside_safetensors_are_not_touched(folder, tmp_path):
    trace = tmp_path / "executed"
    buffer = io.BytesIO()
    torch.save({"embedding.weight": Malicious(trace)}, buffer)
    (folder / "pytorch_model.bin").write_bytes(buffer.getvalue())
    (folder / "training_args.bin").write_bytes(pickle.dumps(Malicious(trace)))
    load(folder)
    assert not trace.exists()


def shard(folder, parts=3):
    """Split the weights of a folder into several files with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, weight_map = list(tensors), {}
    for k in range(parts):
        file = f"model-{k + 1:05}-of-{parts:05}.safetensors"
        part = {name: tensors[name] for name in names[k::parts]}
        save_file(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    write_index(folder, {"metadata": {}, "weight_map": weight_map})
    return weight_map


def write_index(folder, index):
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_shards_are_one_model(folder):
    whole = load(folder).state
    expected = {name: array.copy() for name, array in whole.items()}
    shard(folder)
    found = load(folder).state
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])


def test_a_shard_that_is_missing_is_named(folder):
    shard(folder)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(NotACheckpoint, match=r"names model-00002-of-00003\.safetensors, which is"):
        load(folder)


def test_a_tensor_that_its_shard_lacks_is_named(folder):
    weight_map = shard(folder)
    weight_map["norm.scale"] = "model-00001-of-00003.safetensors"
    write_index(folder, {"weight_map": weight_map})
    with pytest.raises(BrokenFile, match=r"the shards of .* lack norm\.scale"):
        load(folder)


def test_a_tensor_that_the_only_shard_lacks_is_named(folder):
    weight_map = shard(folder, parts=1)
    write_index(folder, {"weight_map": weight_map})
    load(folder)
    write_index(
        folder, {"weight_map": {**weight_map, "norm.scale": next(iter(weight_map.values()))}}
    )
    with pytest.raises(BrokenFile, match=r"the shards of .* lack norm\.scale"):
        load(folder)


def test_a_tensor_in_two_shards_is_refused(folder):
    shard(folder)
    first, second = sorted(folder.glob("model-*.safetensors"))[:2]
    tensors = load_file(second)
    name, array = next(iter(load_file(first).items()))
    save_file({**tensors, name: array + 1}, second)
    with pytest.raises((BrokenFile, CheckpointMismatch), match=name):
        load(folder)


@pytest.mark.parametrize("name", ["../x", "..", ".", "", "/etc/passwd", "a/b", "a/../b"])
def test_an_index_that_points_outside_its_folder_is_refused(folder, name):
    shard(folder)
    (folder.parent / "x").write_bytes(VALID)
    write_index(folder, {"weight_map": {"a": name}})
    with pytest.raises(BrokenFile, match="points outside its folder"):
        load(folder)


@pytest.mark.parametrize("index", [{}, {"weight_map": []}, {"weight_map": {"a": 3}}, []])
def test_an_index_without_names_and_files_is_refused(folder, index):
    shard(folder)
    write_index(folder, index)
    with pytest.raises(BrokenFile, match=r"model\.safetensors\.index\.json"):
        load(folder)


# --------------------------------------------------------------------------------- our config.json


def test_a_config_that_is_not_json_is_refused(folder):
    for text in (
        "{",
        "",
        "\ufeff",
        "[" * 100_000,
        '{"layers": ' + "1" * 5000 + "}",
    ):
        (folder / "config.json").write_text(text)
        with pytest.raises(BrokenFile, match=r"config\.json is not JSON: "):
            load(folder)
    (folder / "config.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(BrokenFile, match=r"config\.json is not JSON: "):
        load(folder)


@pytest.mark.parametrize(("text", "kind"), [("[]", "list"), ("3", "int"), ("null", "NoneType")])
def test_a_config_that_is_no_object_is_refused(folder, text, kind):
    (folder / "config.json").write_text(text)
    with pytest.raises(BrokenFile, match=rf"config\.json should be a JSON object, got {kind}"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vesalius": "gpt3"}, "family 'gpt3'; known are ffnn, rnn, lstm"),
        ({"vesalius": ["gpt2"]}, r"family \['gpt2'\]; known are ffnn, rnn, lstm"),
        ({"heads": 5}, "embedding 12 cannot be divided among 5 heads"),
        ({"heads": "3"}, "heads must be a whole number, got '3'"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"activation": "swish"}, "activation must be one of gelu, gelu_tanh, relu, .*got 'swish'"),
        ({"colour": "red"}, "unknown setting 'colour'"),
        ({"self": 1}, "unknown setting 'self'"),
        ({"dropout": 1.0}, "dropout must be below 1"),
        ({"epsilon": float("nan")}, "epsilon must be at least 0, got nan"),
    ],
)
def test_a_config_of_ours_that_makes_no_sense_is_refused(folder, change, message):
    described = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(described | change))
    with pytest.raises(UnknownConfiguration, match=message):
        load(folder)


@pytest.mark.parametrize(
    "change", [{"embedding": 3 * 10**18}, {"vocabulary": 10**30}, {"layers": 100_000}]
)
def test_a_config_beyond_all_measure_is_refused_in_one_short_message(folder, change):
    described = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(described | change))
    with pytest.raises(VesaliusError) as caught:
        load(folder)
    assert len(str(caught.value)) < 1000


# ------------------------------------------------------------------------------- memory and saving


def test_loaded_arrays_are_views_of_the_file_and_the_network_shares_them(folder):
    model = load(folder)
    for array in model.state.values():
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert isinstance(base, np.memmap)
    for name, tensor in model.network.state_dict().items():
        assert np.shares_memory(model.state[name], tensor.numpy())
    for letter, array in arrays(model.parameters):
        assert any(np.shares_memory(array, ours) for ours in model.state.values()), letter
    with torch.no_grad():
        model.network.blocks[1].feedforward.outer.bias.fill_(7)
    assert (model.parameters.Phi[1].Pi.b_2 == 7).all()


def test_changing_a_loaded_model_does_not_change_its_file(folder):
    content = (folder / "model.safetensors").read_bytes()
    model = load(folder)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.zero_()
    assert not model.state["embedding.weight"].any()
    assert (folder / "model.safetensors").read_bytes() == content
    assert load(folder).state["embedding.weight"].all()


def test_a_model_can_be_saved_over_the_file_that_it_is_a_view_of(folder):
    model = load(folder)
    expected = {name: array.copy() for name, array in model.state.items()}
    expected["norm.bias"] += 1
    model.state["norm.bias"] += 1
    model.save(folder)
    for name, array in load(folder).state.items():
        np.testing.assert_array_equal(array, expected[name])
        np.testing.assert_array_equal(model.state[name], expected[name])


def test_when_saving_fails_the_old_file_stays_and_nothing_else(folder, monkeypatch):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    model = load(folder)
    model.state["norm.bias"] += 1

    def half_done(_tensors, file, metadata):
        Path(file).write_bytes(b"half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr("safetensors.serialize_file", half_done)
    with pytest.raises(OSError, match="no space left"):
        model.save(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_no_temporary_file_stays_behind(folder):
    assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors"}


def test_a_saved_file_is_one_that_the_reference_implementation_reads(folder):
    model = load(folder)
    with safe_open(folder / "model.safetensors", "numpy") as opened:
        assert opened.metadata() == {"format": "pt"}
        assert set(opened.keys()) == set(model.state)
        for name in opened.keys():  # noqa: SIM118 - it is no dictionary
            np.testing.assert_array_equal(opened.get_tensor(name), model.state[name])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_every_precision_comes_back_as_it_was_stored(tmp_path, rng, dtype):
    kind = getattr(torch, dtype)
    original = torch.tensor(rng.normal(size=(5, 3))).to(kind)
    precise = "float64" if dtype == "float64" else "float32"
    array = original.to(getattr(torch, precise)).numpy()
    files.write(tmp_path / "file", {"a": array}, dtype)
    with safe_open(tmp_path / "file", "pt") as opened:
        assert opened.get_tensor("a").dtype == kind
        assert torch.equal(opened.get_tensor("a"), original)
    found = files.read(tmp_path / "file")
    assert (found.dtype, found.arrays["a"].dtype) == (dtype, precise)
    np.testing.assert_array_equal(found.arrays["a"], array)


def test_rounding_to_bfloat16_is_pytorchs(tmp_path, rng):
    halfway = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 2.0**-133, 3.3e38], np.float32)
    array = np.concatenate([rng.normal(size=1000).astype(np.float32), halfway])
    files.write(tmp_path / "file", {"a": array}, "bfloat16")
    expected = torch.tensor(array).bfloat16().float().numpy()
    np.testing.assert_array_equal(files.read(tmp_path / "file").arrays["a"], expected)


def test_arrays_that_are_not_contiguous_are_saved_as_they_look(tmp_path, rng):
    array = rng.normal(size=(4, 6)).astype(np.float32)
    views = {"transposed": array.T, "sliced": array[:, ::2], "backwards": array[::-1]}
    files.write(tmp_path / "file", views, "float32")
    for name, found in files.read(tmp_path / "file").arrays.items():
        np.testing.assert_array_equal(found, views[name])


def test_a_folder_can_be_moved_while_its_model_is_in_use(folder):
    model = load(folder)
    expected = model.state["embedding.weight"].copy()
    shutil.rmtree(folder)
    np.testing.assert_array_equal(model.state["embedding.weight"], expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_that_a_precision_cannot_hold_are_refused_and_nothing_is_written(tmp_path, dtype):
    array = np.array([1.0, 3.4e38], np.float32)
    with pytest.raises(ImpossibleSetting, match=f"{dtype} cannot hold numbers as large as .* a"):
        files.write(tmp_path / "file", {"a": array}, dtype)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", ["config.json", "tokenizer.json"])
def test_a_save_that_fails_leaves_every_file_of_the_older_model(tmp_path, monkeypatch, failing):
    model = create("gpt2", layers=1, embedding=12, vocabulary=300, context=5)
    model.tokenizer = train_byte_pairs(["the rain fell on the river"] * 3, 300)
    model.save(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    write_text = Path.write_text

    def full_disk(self, *arguments, **options):
        if failing in self.name:  # or beside it, to take its place
            raise OSError(28, "No space left on device")
        return write_text(self, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", full_disk)
    other = create("gpt2", seed=1, layers=2, embedding=12, vocabulary=300, context=5)
    other.tokenizer = model.tokenizer
    with pytest.raises(OSError, match="No space left"):
        other.save(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_nan_stays_one_in_bfloat16(tmp_path):
    array = np.array([0x7F800001, 0xFF800001], np.uint32).view(np.float32)
    files.write(tmp_path / "file", {"a": array}, "bfloat16")
    assert np.isnan(files.read(tmp_path / "file").arrays["a"]).all()


def test_an_ignored_buffer_may_hold_infinity(tmp_path):
    create("gpt2", layers=1, embedding=12, vocabulary=9, context=5).save(tmp_path, "huggingface")
    tensors = dict(files.read(tmp_path / "model.safetensors").arrays)
    tensors["transformer.h.0.attn.masked_bias"] = np.array(-np.inf, np.float32)
    files.write(tmp_path / "model.safetensors", tensors, "float32")
    load(tmp_path)
    tensors["transformer.wpe.weight"] = np.full((5, 12), np.inf, np.float32)
    files.write(tmp_path / "model.safetensors", tensors, "float32")
    with pytest.raises(NotFinite, match="wpe"):
        load(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_weights_may_be_read_by_whoever_may_read_the_configuration(folder):
    weights, config = ((folder / name).stat().st_mode for name in (files.WEIGHTS, "config.json"))
    assert weights == config

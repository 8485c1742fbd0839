"""A folder's weights are counted too, and where they differ from the formula is said to the last
number."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import filled, small

import vesalius as vs
from vesalius.checkpoints import files
from vesalius.checkpoints.fitting import HARMLESS
from vesalius.cli import cli
from vesalius.errors import CheckpointMismatch
from vesalius.families import FAMILIES
from vesalius.model import load


def shown(capsys, *arguments):
    cli.main([*map(str, arguments)], standalone_mode=False)
    return capsys.readouterr().out


THEIRS = ("gpt2", "bert", "vit")


def changed(folder, change):
    """Rewrite a folder's weights with some of them changed."""
    tensors = {name: np.array(array) for name, array in files.read_folder(folder).arrays.items()}
    change(tensors)
    files.write(folder / files.WEIGHTS, tensors)


def accounted(counted):
    held = counted.checkpoint
    return held.total - counted.total == sum(d.numbers for d in held.differences)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layout", ["vesalius", "huggingface"])
def test_a_model_as_it_was_saved_is_what_the_formula_says(tmp_path, family, layout):
    if layout == "huggingface" and family not in THEIRS:
        pytest.skip("only ours has it")
    filled(small(family)).save(tmp_path, layout)
    counted = vs.count(tmp_path)
    assert counted.checkpoint.fits
    assert {d.kind for d in counted.checkpoint.differences} <= {"statistics"}
    assert accounted(counted)
    assert counted.checkpoint.total == sum(
        a.size for a in files.read_folder(tmp_path).arrays.values()
    )


def test_what_is_missing_left_over_or_misshapen_is_listed_with_its_numbers(tmp_path, capsys):
    filled(small("gpt2")).save(tmp_path, "huggingface")
    whole = vs.count(tmp_path)

    def spoil(tensors):
        del tensors["transformer.ln_f.bias"]
        tensors["classifier.weight"] = np.zeros((3, 64), np.float32)
        tensors["transformer.wpe.weight"] = tensors["transformer.wpe.weight"][:-1]

    changed(tmp_path, spoil)
    counted = vs.count(tmp_path)
    assert counted.total == whole.total
    found = {d.tensor: (d.kind, d.numbers) for d in counted.checkpoint.differences}
    d_e = counted.config.embedding
    assert found == {
        "classifier.weight": ("unexpected", 192),
        "transformer.wpe.weight": ("misshapen", -d_e),
        "ln_f.bias": ("missing", -d_e),
    }
    assert accounted(counted)
    assert not counted.checkpoint.fits
    text = shown(capsys, "count", tmp_path)
    assert "+192  unexpected: classifier.weight, 3 × 64" in text
    assert f"{192 - 2 * d_e:,} more than the formula" in text
    told = json.loads(shown(capsys, "count", tmp_path, "--json"))
    assert told["total"] == whole.total
    assert told["checkpoint"]["total"] == whole.checkpoint.total + 192 - 2 * d_e
    assert [d["kind"] for d in told["checkpoint"]["differences"]] == [
        d.kind for d in counted.checkpoint.differences
    ]


def test_copies_of_tied_matrices_and_buffers_are_told_as_that(tmp_path, capsys):
    filled(small("gpt2", tied=True)).save(tmp_path, "huggingface")

    def old(tensors):
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
        for l in range(2):
            tensors[f"transformer.h.{l}.attn.bias"] = np.zeros((1, 1, 5, 5), np.float32)

    changed(tmp_path, old)
    counted = vs.count(tmp_path)
    assert [d.kind for d in counted.checkpoint.differences].count("tied copy") == 1
    assert {d.kind for d in counted.checkpoint.differences} == {"tied copy", "buffer"}
    assert counted.checkpoint.fits
    assert accounted(counted)
    load(tmp_path)
    assert "+50  buffer: transformer.h.*.attn.bias, 1 × 1 × 5 × 5, 2 times" in shown(
        capsys, "count", tmp_path
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: f.unlink(), "holds no model.safetensors"),
        (lambda f: f.rename(f.with_name("pytorch_model.bin")), "is pickled and never read"),
        (lambda f: f.write_bytes(f.read_bytes()[:-4]), "is cut short or damaged"),
        (lambda f: f.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS"),
    ],
)
def test_weights_that_cannot_be_counted_are_told(tmp_path, capsys, spoil, said):
    filled(small("bert")).save(tmp_path, "huggingface")
    spoil(tmp_path / files.WEIGHTS)
    counted = vs.count(tmp_path)
    assert said in counted.checkpoint.problem
    assert not counted.checkpoint.fits
    assert said in " ".join(shown(capsys, "count", tmp_path).split())
    assert said in json.loads(shown(capsys, "count", tmp_path, "--json"))["checkpoint"]["problem"]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_counting_finds_a_fault_wherever_loading_does(tmp_path_factory, data):
    family = data.draw(st.sampled_from((*THEIRS, "tst", "lstm")))
    folder = tmp_path_factory.mktemp("mutated")
    filled(small(family)).save(folder, "huggingface" if family in THEIRS else "vesalius")

    def mutate(tensors):
        for _ in range(data.draw(st.integers(0, 3))):
            name = data.draw(st.sampled_from(sorted(tensors)))
            match data.draw(st.sampled_from(["drop", "rename", "cut", "turn", "round"])):
                case "drop":
                    del tensors[name]
                case "rename":
                    tensors[f"x.{name}"] = tensors.pop(name)
                case "cut":
                    tensors[name] = tensors[name][:1]
                case "turn":
                    tensors[name] = tensors[name].T
                case "round":
                    tensors[name] = tensors[name].astype(np.int8)

    changed(folder, mutate)
    counted = vs.count(folder)
    assert accounted(counted)
    harmful = [d for d in counted.checkpoint.differences if d.kind not in HARMLESS]
    if harmful:
        with pytest.raises(CheckpointMismatch, match=rf"config\.json \({len(harmful)}\)"):
            load(folder)
    else:
        load(folder)


def test_a_changed_setting_makes_another_model_which_no_file_holds(tmp_path):
    filled(small("gpt2")).save(tmp_path)
    assert vs.count(tmp_path, layers=7).checkpoint is None
    assert vs.count("gpt2").checkpoint is None


def test_a_model_is_counted_and_costed_as_its_folder_is(tmp_path):
    model = filled(small("gpt2"))
    model.save(tmp_path)
    assert vs.count(model).rows == vs.count(tmp_path).rows
    assert vs.cost(model).rows == vs.cost(tmp_path).rows
    assert vs.count(model.config).total == vs.count(model).total
    assert vs.count(model, layers=9).total == vs.count(tmp_path, layers=9).total

"""Looking at a folder: what it holds, what each tensor is, and whatever is wrong with it."""

import json
import pickle

import numpy as np
import pytest
import transformers
from strategies import filled, small

import vesalius as vs
from vesalius.checkpoints import files
from vesalius.checkpoints.inspection import inspect
from vesalius.cli import cli
from vesalius.errors import CheckpointMismatch
from vesalius.families import FAMILIES
from vesalius.specimens import specimens
from vesalius.tokenizers import train_characters
from vesalius.views.shown import Table

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"


@pytest.fixture
def folder(tmp_path):
    """A GPT-2 in Hugging Face's layout, with a tokenizer."""
    model = filled(small("gpt2", vocabulary=17, layers=2, tied=True))
    model.tokenizer = train_characters(["abcd"])
    model.save(tmp_path, "huggingface")
    return tmp_path


def changed(folder, change, dtype="float32"):
    tensors = {name: np.array(array) for name, array in files.read_folder(folder).arrays.items()}
    change(tensors)
    files.write(folder / files.WEIGHTS, tensors, dtype)


def run(capsys, *arguments):
    """What the command prints, and its exit code."""
    code = cli.main(["inspect", *map(str, arguments)], standalone_mode=False)
    return " ".join(capsys.readouterr().out.split()), code or 0


@pytest.mark.parametrize("name", specimens())
def test_a_specimen_is_a_whole_model(name):
    found = vs.inspect(name)
    assert found.problems == ()
    assert found.family == vs.load(name).family
    assert all(tensor.names and tensor.symbols for tensor in found.tensors)
    assert {tensor.dtype for tensor in found.tensors} == {"float16"}
    assert found.total - found.formula == sum(d.numbers for d in found.differences)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_has_the_letter_that_its_view_has(tmp_path, family):
    model = filled(small(family))
    model.save(tmp_path)
    for tensor in vs.inspect(tmp_path).tensors:
        assert tensor.names == (tensor.name,)
        for symbol in tensor.symbols:
            theta = eval(f"t.{symbol}", {"t": _Counted(model.parameters), "m": 1})
            assert np.shares_memory(theta, model.state[tensor.name]), symbol


HEADS = {
    "BertModel": "BERT with a pooler",
    "BertForMaskedLM": "BERT with an MLM head",
    "BertForPreTraining": "BERT with a pooler, an MLM head and an NSP head",
    "BertForNextSentencePrediction": "BERT with a pooler and an NSP head",
    "BertForSequenceClassification": "BERT with a pooler and a head for 3 labels of a text",
    "BertForTokenClassification": "BERT with a head for 3 labels of every token",
    "BertForQuestionAnswering": "BERT with a head for the start and end of an answer",
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_bert_of_transformers_is_said_to_have_the_heads_of_its_class(tmp_path, kind):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 11}
    config = transformers.BertConfig(**sizes, intermediate_size=12, max_position_embeddings=6)
    if kind != "BertForQuestionAnswering":
        config.num_labels = 3
    getattr(transformers, kind)(config).save_pretrained(tmp_path)
    found = vs.inspect(tmp_path)
    assert found.problems == ()
    assert found.model == found.to_json()["model"] == HEADS[kind]
    assert next(iter(found.view())) == f"{tmp_path}: {HEADS[kind]}, in Hugging Face's layout"
    assert HEADS[kind] in next(
        part.title for part in vs.load(tmp_path).view() if isinstance(part, Table)
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_without_heads_is_called_by_its_family_and_a_head_of_labels_is_named(family):
    config = vs.configuration(family)
    if "labels" in config.settings() and family != "igpt":
        assert "4 labels" in FAMILIES[family].described(config.change(labels=4))
    assert FAMILIES[family].described(config).startswith(FAMILIES[family].title)


class _Counted:
    """A parameter set whose lists count from one, as the paper does."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        return value if isinstance(value, np.ndarray) else _Counted(value)

    def __getitem__(self, number):
        return _Counted(self.inner[number - 1])


def test_fused_and_transposed_tensors_are_named_in_the_paper_and_here(folder, capsys):
    tensors = {tensor.name: tensor for tensor in vs.inspect(folder).tensors}
    fused = tensors["transformer.h.1.attn.c_attn.weight"]
    assert fused.symbols == tuple(f"Phi[2].Gamma.Psi[m].W_{letter}" for letter in "QKV")
    assert fused.names == tuple(
        f"blocks.1.attention.{name}.weight" for name in ("query", "key", "value")
    )
    text, code = run(capsys, folder)
    assert code == 0
    assert "transformer.h.*.attn.c_attn.weight × 2" in text
    assert "Phi[l].Gamma.Psi[m].W_{Q,K,V}" in text
    assert "blocks.*.attention.{query,key,value}.weight" in text
    assert "tokenizer: words or characters, 4 tokens" in text
    assert "no NaN, no infinity" in text


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_nan_and_infinity_are_counted_in_every_precision(folder, dtype, capsys):
    def spoil(tensors):
        tensors["transformer.wpe.weight"][0, :3] = np.nan
        tensors["transformer.wpe.weight"][1, :2] = [np.inf, -np.inf]

    changed(folder, spoil, dtype)
    found = {tensor.name: tensor for tensor in vs.inspect(folder).tensors}
    assert found.pop("transformer.wpe.weight").nan == 3
    assert all((t.nan, t.infinite, t.dtype) == (0, 0, dtype) for t in found.values())
    text, code = run(capsys, folder)
    assert code == 2
    assert "transformer.wpe.weight: 3 NaN and 2 infinite of" in text
    assert "values were not looked at" in run(capsys, folder, "--no-values")[0]
    assert vs.inspect(folder, values=False).tensors[0].nan is None


def test_large_finite_numbers_are_no_infinity(folder):
    changed(folder, lambda t: t["transformer.wpe.weight"].fill(3e38))
    assert not any(t.nan or t.infinite for t in vs.inspect(folder).tensors)


def test_copies_are_found_and_a_tied_one_that_differs_is_told(folder):
    def tie(tensors):
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"]

    changed(folder, tie)
    found = vs.inspect(folder)
    copy = next(t for t in found.tensors if t.name == "lm_head.weight")
    assert (copy.role, copy.copy_of) == ("tied copy", "transformer.wte.weight")
    assert found.problems == ()
    changed(folder, lambda tensors: tensors["lm_head.weight"].__iadd__(1))
    assert (
        "lm_head.weight should repeat embedding.weight, and does not" in vs.inspect(folder).problems
    )


def test_what_does_not_fit_is_listed(folder, capsys):
    def spoil(tensors):
        del tensors["transformer.ln_f.bias"]
        tensors["classifier.weight"] = np.zeros((3, 64), np.float32)

    changed(folder, spoil)
    text, code = run(capsys, folder)
    assert code == 2
    assert "unexpected: classifier.weight, 3 × 64 (+192 numbers)" in text
    assert "missing: ln_f.bias" in text


def test_whole_numbers_do_not_fit_either_since_loading_refuses_them(folder, capsys):
    weight = "transformer.h.1.mlp.c_fc.weight"

    def rounded(tensors):
        tensors[weight] = tensors[weight].astype(np.int8)

    changed(folder, rounded, dtype=None)
    text, code = run(capsys, folder)
    assert code == 2
    assert f"✗ not floating point: {weight} is int8" in text
    (role,) = {t.role for t in vs.inspect(folder).tensors if t.name == weight}
    assert role == "not floating point"
    assert not vs.count(folder).checkpoint.fits
    with pytest.raises(CheckpointMismatch, match="not floating point"):
        vs.load(folder)


class Bomb:
    def __reduce__(self):
        return (open, ("exploded", "w"))


def lacking_config(folder):
    (folder / "config.json").unlink()


def broken_config(folder):
    (folder / "config.json").write_text("{")


def pointer(folder):
    (folder / files.WEIGHTS).write_bytes(LFS)


def cut_short(folder):
    whole = (folder / files.WEIGHTS).read_bytes()
    (folder / files.WEIGHTS).write_bytes(whole[:-100])


def beheaded(folder):
    (folder / files.WEIGHTS).write_bytes(b"\x00" * 7)


def pickled(folder):
    (folder / files.WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))


def broken_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{")


def lost_shards(folder):
    (folder / files.WEIGHTS).unlink()
    (folder / files.INDEX).write_text('{"weight_map": {"a": "model-00001-of-00001.safetensors"}}')


def emptied(folder):
    for file in folder.iterdir():
        file.unlink()


@pytest.mark.parametrize(
    ("spoil", "said", "tensors"),
    [
        (lacking_config, "config.json", True),
        (broken_config, "is not JSON", True),
        (pointer, "Git LFS pointer", False),
        (cut_short, "is cut short or damaged", True),
        (beheaded, "is no safetensors file", False),
        (pickled, "is pickled and never read", False),
        (broken_tokenizer, "tokenizer.json is not JSON", True),
        (lost_shards, "which is not there", False),
        (emptied, "holds no model.safetensors", False),
    ],
)
def test_a_broken_folder_is_told_as_far_as_it_goes(
    folder, capsys, monkeypatch, spoil, said, tensors
):
    monkeypatch.chdir(folder.parent)
    spoil(folder)
    found = vs.inspect(folder)
    assert any(said in problem for problem in found.problems), found.problems
    assert bool(found.tensors) == tensors
    text, code = run(capsys, folder)
    assert code == 2
    assert said in text
    told, _ = run(capsys, folder, "--json")
    assert json.loads(told)["problems"] == list(found.problems)
    assert not (folder.parent / "exploded").exists()


def test_json_has_every_tensor(folder, capsys):
    told = json.loads(run(capsys, folder, "--json")[0])
    held = files.read_folder(folder).arrays
    assert {t["name"]: tuple(t["shape"]) for t in told["tensors"]} == {
        name: array.shape for name, array in held.items()
    }
    assert told["total"] == sum(array.size for array in held.values())
    assert told["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    assert told["tokenizer"]["size"] == 4


def test_a_notebook_shows_the_same_and_a_repr_the_essential(folder):
    found = inspect(folder)
    assert "transformer.wte.weight" in found._repr_html_()
    assert repr(found).startswith(f"<{folder}: gpt2, {len(found.tensors)} tensors, ")

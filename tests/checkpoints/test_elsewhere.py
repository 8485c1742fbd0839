"""Checkpoints as they are found: with more or less in them than a config.json says."""

import json

import pytest
import torch
from hugging import KINDS, describe, peer, rewrite, same_outputs, saved, tensors_in
from processes import shown, vesalius

import vesalius as vs
from vesalius.checkpoints import pickled
from vesalius.counting import count
from vesalius.errors import BrokenFile, CheckpointMismatch, NotACheckpoint, UnknownConfiguration
from vesalius.model import load
from vesalius.verification.agreement import verify

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n"


@pytest.fixture(autouse=True)
def _quiet(no_progress_bars):
    pass


def add(folder, **tensors):
    rewrite(folder, lambda held: held | tensors)


# ---------------------------------------------------------------------------------- extra tensors


def test_extra_tensors_are_named_with_the_way_to_pass_over_them(tmp_path):
    theirs = saved(tmp_path, "GPT2LMHeadModel")
    add(tmp_path, **{"value_head.weight": torch.zeros(1, 24), "value_head.bias": torch.zeros(1)})
    with pytest.raises(CheckpointMismatch) as caught:
        load(tmp_path)
    for said in ("unexpected: value_head.bias", "unexpected: value_head.weight", "--ignore-extra"):
        assert said in str(caught.value)
    same_outputs("GPT2LMHeadModel", theirs, load(tmp_path, ignore_extra=True))


def test_passing_over_extra_tensors_passes_over_nothing_else(tmp_path):
    saved(tmp_path, "GPT2LMHeadModel")
    add(tmp_path, **{"extra": torch.zeros(1), "transformer.ln_f.bias": torch.zeros(3)})
    with pytest.raises(CheckpointMismatch, match=r"\(1\): misshapen: ln_f.bias") as caught:
        load(tmp_path, ignore_extra=True)
    assert "--ignore-extra" not in str(caught.value)


def test_our_own_layout_may_have_extra_tensors_too(tmp_path):
    saved(tmp_path / "theirs", "GPT2LMHeadModel")
    load(tmp_path / "theirs").save(tmp_path / "ours")
    add(tmp_path / "ours", extra=torch.zeros(1))
    with pytest.raises(CheckpointMismatch, match=r"unexpected: extra; .*--ignore-extra"):
        load(tmp_path / "ours")
    assert load(tmp_path / "ours", ignore_extra=True).family == "gpt2"


@pytest.mark.parametrize(
    ("kind", "tensor", "said"),
    [
        ("GPT2LMHeadModel", "qa_outputs.bias", "the head of GPT2ForQuestionAnswering"),
        ("ViTModel", "vit.embeddings.mask_token", "masked image modelling, whose decoder is not"),
    ],
)
def test_heads_that_there_is_no_place_for_are_named_by_what_they_are(tmp_path, kind, tensor, said):
    saved(tmp_path, kind)
    add(tmp_path, **{tensor: torch.zeros(1, 1, 24)})
    with pytest.raises(CheckpointMismatch, match=said):
        load(tmp_path)


def test_the_decoder_of_masked_image_modelling_is_the_masked_patch_head(tmp_path):
    kind = "ViTForMaskedImageModeling"
    theirs = saved(tmp_path / "theirs", kind)
    describe(tmp_path / "theirs", architectures=...)
    model = load(tmp_path / "theirs")
    assert model.config.masked_patch_head
    assert same_outputs(kind, theirs, model) == {"reconstruction"}
    pixels, masked = torch.randn(2, 2, 12, 12), torch.arange(9).expand(2, 9) % 4 == 1
    with torch.no_grad():
        expected = theirs(pixels, bool_masked_pos=masked).reconstruction
        ours = model.network(pixels, masked).patches
    rows = expected.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).reshape(2, 9, -1)
    torch.testing.assert_close(ours, rows, atol=1e-5, rtol=0)


# ------------------------------------------------------------------- what a config.json leaves open


@pytest.mark.parametrize("kind", KINDS)
def test_a_family_is_known_by_its_class_or_by_its_tensors(tmp_path, kind):
    theirs = saved(tmp_path, kind)
    describe(tmp_path, model_type=...)
    same_outputs(kind, theirs, load(tmp_path))
    describe(tmp_path, architectures=...)
    same_outputs(kind, theirs, load(tmp_path))


def test_a_family_that_nothing_tells_is_asked_for(tmp_path):
    saved(tmp_path, "GPT2LMHeadModel")
    describe(tmp_path, model_type=..., architectures=["LlamaForCausalLM"])
    with pytest.raises(UnknownConfiguration, match=r"LlamaForCausalLM.* and no model_type"):
        load(tmp_path)
    describe(tmp_path, architectures=...)
    rewrite(tmp_path, lambda held: {f"net.{name}": tensor for name, tensor in held.items()})
    with pytest.raises(UnknownConfiguration, match='add "model_type" to it if it is one of gpt2'):
        load(tmp_path)


def test_an_output_matrix_of_its_own_is_told_how_to_be_said(tmp_path):
    saved(tmp_path, "GPT2LMHeadModel", tie_word_embeddings=False)
    describe(tmp_path, tie_word_embeddings=True)
    with pytest.raises(CheckpointMismatch, match="tie_word_embeddings = false in config"):
        load(tmp_path)
    describe(tmp_path, tie_word_embeddings=False)
    assert not load(tmp_path).config.tied


def test_a_bert_with_pooler_and_words_alone_is_written_and_verified(tmp_path):
    saved(tmp_path / "theirs", "BertForPreTraining")
    rewrite(
        tmp_path / "theirs", lambda t: {k: v for k, v in t.items() if "seq_relationship" not in k}
    )
    describe(tmp_path / "theirs", architectures=["BertForMaskedLM"])
    model = load(tmp_path / "theirs")
    config = model.config
    assert (config.pooler, config.mlm_head, config.nsp_head) == (True, True, False)
    model.save(tmp_path / "ours", layout="huggingface")
    before, after = tensors_in(tmp_path / "theirs"), tensors_in(tmp_path / "ours")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert load(tmp_path / "ours").config == model.config
    verified = verify(model, "transformers")
    assert "Z" in {row.step for row in verified.rows if row.peer == "transformers"}
    assert verified.first_divergence is None


@pytest.mark.parametrize("kind", ["ViTModel", "ViTForImageClassification"])
def test_a_vit_may_lack_the_biases_of_queries_keys_and_values(tmp_path, kind):
    theirs = saved(tmp_path / "theirs", kind, qkv_bias=False)
    model = load(tmp_path / "theirs")
    same_outputs(kind, theirs, model)
    assert verify(model).first_divergence is None
    assert count(model.config).total == theirs.num_parameters()
    model.save(tmp_path / "ours", layout="huggingface")
    assert tensors_in(tmp_path / "ours").keys() == tensors_in(tmp_path / "theirs").keys()
    assert load(tmp_path / "ours").config == model.config


# ------------------------------------------------------------------ files that are something else


def test_transposed_matrices_are_called_transposed(tmp_path):
    saved(tmp_path, "GPT2LMHeadModel")
    turned = ("mlp.c_fc.weight", "mlp.c_proj.weight", "attn.c_attn.weight")
    rewrite(tmp_path, lambda held: {k: v.T if k.endswith(turned) else v for k, v in held.items()})
    with pytest.raises(CheckpointMismatch) as caught:
        load(tmp_path)
    assert str(caught.value).count("transposed: ") == 3
    assert "h.*.mlp.c_fc.weight is (40, 24), expected (24, 40), 3 times" in str(caught.value)
    assert "misshapen" not in str(caught.value)
    for seen in (repr(vs.inspect(tmp_path)), shown("count", str(tmp_path))):
        assert "transposed: " in seen
        assert "misshapen" not in seen
    assert "as many as the formula, but:" in " ".join(seen.split())


def test_a_head_that_only_the_class_promises_is_advised_on(tmp_path):
    saved(tmp_path, "BertForPreTraining")
    rewrite(tmp_path, lambda held: {k: v for k, v in held.items() if "seq_relationship" not in k})
    with pytest.raises(CheckpointMismatch, match=r"NSP head; .*BertForMaskedLM"):
        load(tmp_path)
    describe(tmp_path, architectures=["BertForMaskedLM"])
    assert not load(tmp_path).config.nsp_head


def test_biases_that_only_config_json_promises_are_advised_on(tmp_path):
    saved(tmp_path, "ViTForImageClassification")
    gone = ("query.bias", "key.bias", "value.bias")
    rewrite(tmp_path, lambda held: {k: v for k, v in held.items() if not k.endswith(gone)})
    with pytest.raises(CheckpointMismatch, match="qkv_bias = false"):
        load(tmp_path)
    describe(tmp_path, qkv_bias=False)
    assert not load(tmp_path).config.qkv_bias


@pytest.mark.parametrize("name", ["training_args.bin", "optimizer.pt", "scheduler.pt", "scaler.pt"])
def test_what_training_leaves_beside_the_weights_is_not_the_weights(tmp_path, name):
    saved(tmp_path, "GPT2LMHeadModel")
    (tmp_path / name).write_bytes(b"pickled settings")
    (tmp_path / "model.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(NotACheckpoint, match=r"holds no model\.safetensors"):
        load(tmp_path)
    with pytest.raises(NotACheckpoint, match="holds no weights"):
        pickled.find(tmp_path)
    torch.save(peer("GPT2LMHeadModel").state_dict(), tmp_path / "weights.bin")
    assert pickled.find(tmp_path).name == "weights.bin"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "config.json"])
def test_a_pointer_of_git_lfs_is_called_that_whatever_its_name(tmp_path, name):
    saved(tmp_path, "GPT2LMHeadModel")
    (tmp_path / name).write_bytes(POINTER)
    with pytest.raises(BrokenFile, match=f"{name} is a Git LFS pointer, .*git lfs pull"):
        pickled.read(tmp_path / name) if name.endswith(".bin") else load(tmp_path)


def test_a_pointer_in_place_of_pickled_weights_is_not_to_be_converted(tmp_path):
    saved(tmp_path, "GPT2LMHeadModel")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(POINTER)
    with pytest.raises(BrokenFile, match="is a Git LFS pointer"):
        load(tmp_path)
    for verb in ("count", "inspect"):
        seen = vesalius(verb, str(tmp_path)).stdout
        assert "is a Git LFS pointer" in " ".join(seen.split())
        assert "vesalius convert" not in seen


def test_what_is_kept_of_a_class_that_was_guessed_is_whole(tmp_path):
    saved(tmp_path / "theirs", "GPT2LMHeadModel")
    describe(tmp_path / "theirs", model_type=..., architectures=...)
    load(tmp_path / "theirs").save(tmp_path / "ours", layout="huggingface")
    described = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert (described["model_type"], described["architectures"]) == ("gpt2", ["GPT2LMHeadModel"])

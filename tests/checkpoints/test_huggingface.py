"""Checkpoints of Transformers: the same numbers in both directions, to the last bit."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from agreement import agree
from hugging import (
    BERT,
    KINDS,
    VIT,
    describe,
    inputs,
    peer,
    rewrite,
    same_outputs,
    saved,
    tensors_in,
)
from strategies import filled, small
from transformers.utils import logging

from vesalius.checkpoints import huggingface
from vesalius.counting import count
from vesalius.errors import CheckpointMismatch, UnknownConfiguration
from vesalius.families import FAMILIES
from vesalius.families.activations import ACTIVATIONS
from vesalius.model import load


@pytest.fixture(autouse=True, scope="module")
def _no_progress_bars():
    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


COMPARED = {
    "GPT2Model": set(),
    "BertModel": {"last_hidden_state", "pooler_output"},
    "BertForPreTraining": {"prediction_logits", "seq_relationship_logits"},
    "BertForQuestionAnswering": {"start_logits", "end_logits"},
    "ViTModel": {"last_hidden_state", "pooler_output"},
    "ViTForMaskedImageModeling": {"reconstruction"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_transformers_gives_its_logits_and_states(tmp_path, kind):
    theirs = peer(kind)
    theirs.save_pretrained(tmp_path)
    model = load(tmp_path)
    for batch, n in ((1, 1), (2, 9), (3, 20)):
        compared = same_outputs(kind, theirs, model, batch=batch, n=n)
        assert compared == COMPARED.get(kind, {"logits"})


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("GPT2LMHeadModel", {"activation_function": "gelu"}),
        ("GPT2LMHeadModel", {"activation_function": "gelu_pytorch_tanh"}),
        ("GPT2LMHeadModel", {"activation_function": "relu", "layer_norm_epsilon": 1e-2}),
        ("GPT2LMHeadModel", {"activation_function": "gelu_fast"}),
        ("GPT2LMHeadModel", {"activation_function": "silu"}),
        ("BertForPreTraining", {"hidden_act": "mish"}),
        ("ViTModel", {"hidden_act": "quick_gelu"}),
        ("GPT2LMHeadModel", {"n_inner": None, "n_head": 1}),
        ("BertForMaskedLM", {"hidden_act": "gelu_new"}),
        ("BertForMaskedLM", {"hidden_act": "relu", "layer_norm_eps": 1e-2}),
        ("ViTModel", {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-2}),
        ("ViTModel", {"image_size": 12, "patch_size": 6}),
    ],
)
def test_the_settings_of_a_config_are_understood(tmp_path, kind, changes):
    theirs = saved(tmp_path / "theirs", kind, **changes)
    model = load(tmp_path / "theirs")
    same_outputs(kind, theirs, model)
    model.save(tmp_path / "ours", layout="huggingface")
    again = getattr(transformers, kind).from_pretrained(tmp_path / "ours").eval()
    same_outputs(kind, again, model)
    for key in changes.keys() & {"activation_function", "hidden_act"}:
        assert getattr(again.config, key) == changes[key]


@pytest.mark.parametrize("model_type", huggingface.dialects())
def test_a_key_that_a_config_leaves_out_means_what_transformers_means_by_that(model_type):
    theirs = transformers.AutoConfig.for_model(model_type)
    keys = huggingface.dialects()[model_type].settings
    said = {key: getattr(theirs, key) for key in keys.values()}

    def read(said):
        found = huggingface.read_config({"model_type": model_type, **said}, {})
        return found.change(feedforward=found.symbols()["d_f"])  # None is four times embedding

    for key in said:
        assert read({k: v for k, v in said.items() if k != key}) == read(said), key


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_for_transformers_is_what_it_wrote(tmp_path, kind):
    theirs = peer(kind)
    theirs.save_pretrained(tmp_path / "theirs")
    load(tmp_path / "theirs").save(tmp_path / "ours", layout="huggingface")
    original, written = tensors_in(tmp_path / "theirs"), tensors_in(tmp_path / "ours")
    if kind == "GPT2Model":  # we write the language model that it is the body of
        original = {f"transformer.{name}": tensor for name, tensor in original.items()}
    assert written.keys() == original.keys()
    for name, tensor in written.items():
        assert tensor.dtype == original[name].dtype
        assert torch.equal(tensor, original[name]), name
    again, info = getattr(transformers, kind).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(info.values()), info
    given, _ = inputs(kind)
    with torch.no_grad():
        before, after = (m.eval()(**given).to_tuple() for m in (theirs, again))
    for one, other in zip(before, after, strict=True):
        if torch.is_tensor(one):
            assert torch.equal(one, other)


def test_ties_are_kept_when_transformers_reads_what_we_wrote(tmp_path):
    for kind, tie in {
        "GPT2LMHeadModel": ("transformer.wte.weight", "lm_head.weight"),
        "BertForMaskedLM": (
            "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.weight",
        ),
        "BertForPreTraining": ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    }.items():
        peer(kind).save_pretrained(tmp_path / kind)
        load(tmp_path / kind).save(tmp_path / f"{kind}-ours", layout="huggingface")
        again = getattr(transformers, kind).from_pretrained(tmp_path / f"{kind}-ours")
        first, second = (again.get_parameter(name) for name in tie)
        assert first.data_ptr() == second.data_ptr()


def test_the_class_that_is_written_is_the_one_that_was_read(tmp_path):
    for kind in KINDS:
        peer(kind).save_pretrained(tmp_path / kind)
        load(tmp_path / kind).save(tmp_path / f"{kind}-ours", layout="huggingface")
        described = json.loads((tmp_path / f"{kind}-ours" / "config.json").read_text())
        expected = "GPT2LMHeadModel" if kind == "GPT2Model" else kind
        assert described["architectures"] == [expected]


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertForPreTraining", "ViTModel"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_precisions_come_back_to_the_last_bit(tmp_path, kind, dtype):
    peer(kind, getattr(torch, dtype)).save_pretrained(tmp_path / "theirs")
    model = load(tmp_path / "theirs")
    assert model.dtype == dtype
    model.save(tmp_path / "ours", layout="huggingface")
    original, written = tensors_in(tmp_path / "theirs"), tensors_in(tmp_path / "ours")
    assert written.keys() == original.keys()
    for name, tensor in written.items():
        assert tensor.dtype == original[name].dtype == getattr(torch, dtype)
        assert torch.equal(tensor, original[name]), name
    again = getattr(transformers, kind).from_pretrained(tmp_path / "ours")
    assert again.dtype == getattr(torch, dtype)
    model.save(tmp_path / "own")
    assert load(tmp_path / "own").dtype == dtype
    for name, array in load(tmp_path / "own").state.items():
        np.testing.assert_array_equal(array, model.state[name])


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertForPreTraining", "ViTModel"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sharded_checkpoints_are_read_like_whole_ones(tmp_path, kind, dtype):
    theirs = peer(kind, getattr(torch, dtype))
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="10KB")
    theirs.save_pretrained(tmp_path / "whole")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 2
    assert not (tmp_path / "shards" / "model.safetensors").exists()
    shards, whole = load(tmp_path / "shards"), load(tmp_path / "whole")
    assert (shards.config, shards.dtype) == (whole.config, whole.dtype)
    assert shards.state.keys() == whole.state.keys()
    for name, array in shards.state.items():
        np.testing.assert_array_equal(array, whole.state[name])


def test_tensors_of_mixed_precision_come_back_to_the_last_bit(tmp_path):
    """Normalisations are often kept in single precision where all else is not."""
    peer("GPT2LMHeadModel", torch.float16).save_pretrained(tmp_path / "theirs")
    rewrite(
        tmp_path / "theirs",
        lambda tensors: {k: v.float() / 3 if ".ln_" in k else v for k, v in tensors.items()},
    )
    load(tmp_path / "theirs").save(tmp_path / "ours", layout="huggingface")
    original, written = tensors_in(tmp_path / "theirs"), tensors_in(tmp_path / "ours")
    for name, tensor in written.items():
        assert torch.equal(tensor.float(), original[name].float()), name


# ------------------------------------------------------------------------------------- old spelling


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertForPreTraining"])
def test_the_prefix_of_the_body_may_be_missing(tmp_path, kind):
    theirs = saved(tmp_path, kind)
    prefix = {"GPT2LMHeadModel": "transformer.", "BertForPreTraining": "bert."}[kind]
    rewrite(tmp_path, lambda tensors: {k.removeprefix(prefix): v for k, v in tensors.items()})
    same_outputs(kind, theirs, load(tmp_path))


@pytest.mark.parametrize("kind", ["GPT2Model", "BertModel"])
def test_the_prefix_of_the_body_may_be_there_without_need(tmp_path, kind):
    theirs = saved(tmp_path, kind)
    prefix = {"GPT2Model": "transformer.", "BertModel": "bert."}[kind]
    rewrite(tmp_path, lambda tensors: {prefix + k: v for k, v in tensors.items()})
    same_outputs(kind, theirs, load(tmp_path))


@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_old_buffers_are_passed_over(tmp_path, prefix):
    theirs = saved(tmp_path, "GPT2LMHeadModel")

    def add_buffers(tensors):
        tensors = {prefix + k.removeprefix("transformer."): v for k, v in tensors.items()}
        for l in range(3):
            mask = torch.tril(torch.ones(1, 1, 20, 20, dtype=torch.bool))
            tensors[f"{prefix}h.{l}.attn.bias"] = mask
            tensors[f"{prefix}h.{l}.attn.masked_bias"] = torch.tensor(-1e4)
        return tensors

    rewrite(tmp_path, add_buffers)
    same_outputs("GPT2LMHeadModel", theirs, load(tmp_path))


def test_position_ids_are_passed_over(tmp_path):
    theirs = saved(tmp_path, "BertForMaskedLM")
    positions = {"bert.embeddings.position_ids": torch.arange(20)[None]}
    rewrite(tmp_path, lambda tensors: tensors | positions)
    same_outputs("BertForMaskedLM", theirs, load(tmp_path))


def test_gains_and_biases_may_be_called_gamma_and_beta(tmp_path):
    theirs = saved(tmp_path, "BertForPreTraining")

    def rename(name):
        return re.sub(
            r"LayerNorm\.(weight|bias)$",
            lambda m: {"weight": "LayerNorm.gamma", "bias": "LayerNorm.beta"}[m.group(1)],
            name,
        )

    rewrite(tmp_path, lambda tensors: {rename(k): v for k, v in tensors.items()})
    assert "bert.embeddings.LayerNorm.gamma" in tensors_in(tmp_path)
    same_outputs("BertForPreTraining", theirs, load(tmp_path))


def decoder_copies(tensors):
    return tensors | {
        "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
    }


def test_tied_copies_are_read_as_what_they_repeat(tmp_path):
    theirs = saved(tmp_path / "bert", "BertForPreTraining")
    rewrite(tmp_path / "bert", decoder_copies)
    same_outputs("BertForPreTraining", theirs, load(tmp_path / "bert"))
    theirs = saved(tmp_path / "gpt2", "GPT2LMHeadModel")
    rewrite(tmp_path / "gpt2", lambda t: t | {"lm_head.weight": t["transformer.wte.weight"]})
    same_outputs("GPT2LMHeadModel", theirs, load(tmp_path / "gpt2"))


@pytest.mark.parametrize(
    ("kind", "copy", "original"),
    [
        ("GPT2LMHeadModel", "lm_head.weight", "wte.weight"),
        ("BertForMaskedLM", "cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
        ("BertForMaskedLM", "cls.predictions.decoder.bias", "cls.predictions.bias"),
    ],
)
def test_a_tied_copy_that_differs_is_refused(tmp_path, kind, copy, original):
    saved(tmp_path, kind)

    def differ(tensors):
        if kind == "BertForMaskedLM":
            tensors = decoder_copies(tensors)
        else:
            tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
        return tensors | {copy: tensors[copy] + 1e-3}

    rewrite(tmp_path, differ)
    message = f"{copy} differs from {original}, to which it should be tied"
    with pytest.raises(CheckpointMismatch, match=re.escape(message)):
        load(tmp_path)


def test_an_output_embedding_that_is_not_tied_is_read_and_written(tmp_path):
    theirs = saved(tmp_path / "theirs", "GPT2LMHeadModel", tie_word_embeddings=False)
    model = load(tmp_path / "theirs")
    assert not model.config.tied
    assert not np.array_equal(model.state["output.weight"], model.state["embedding.weight"])
    same_outputs("GPT2LMHeadModel", theirs, model)
    model.save(tmp_path / "ours", layout="huggingface")
    again, info = transformers.GPT2LMHeadModel.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(info.values()), info
    assert again.lm_head.weight.data_ptr() != again.transformer.wte.weight.data_ptr()
    assert torch.equal(again.lm_head.weight, theirs.lm_head.weight)


def test_a_body_whose_output_is_not_the_embedding_is_no_language_model(tmp_path):
    saved(tmp_path, "GPT2Model", tie_word_embeddings=False)
    with pytest.raises(CheckpointMismatch) as caught:
        load(tmp_path)
    for said in (
        "(1): missing: lm_head.weight (the output matrix: tie_word_embeddings = false",
        "true that it is the embedding; a GPT2Model has none, a GPT2LMHeadModel does)",
    ):
        assert said in str(caught.value)
    describe(tmp_path, tie_word_embeddings=True)
    assert load(tmp_path).config.tied


def test_heads_are_known_by_their_tensors_where_no_class_is_said(tmp_path):
    for kind, heads in {
        "BertModel": (True, False, False, 0),
        "BertForPreTraining": (True, True, True, 0),
        "BertForMaskedLM": (False, True, False, 0),
        "BertForNextSentencePrediction": (True, False, True, 0),
        "BertForSequenceClassification": (True, False, False, 3),
        "BertForTokenClassification": (False, False, False, 4),
        "BertForQuestionAnswering": (False, False, False, 2),
    }.items():
        theirs = saved(tmp_path / kind, kind)
        describe(tmp_path / kind, architectures=...)
        model = load(tmp_path / kind)
        c = model.config
        assert (c.pooler, c.mlm_head, c.nsp_head, c.labels) == heads
        same_outputs(kind, theirs, model)


def test_heads_that_the_class_does_not_promise_are_read_where_the_file_holds_them(tmp_path):
    """As with bert-base-uncased, whose config.json says less than its file holds."""
    theirs = saved(tmp_path, "BertForPreTraining")
    describe(tmp_path, architectures=["BertForMaskedLM"])
    model = load(tmp_path)
    assert (model.config.pooler, model.config.nsp_head) == (True, True)
    same_outputs("BertForPreTraining", theirs, model)


def test_a_backbone_without_its_pooler_can_be_read(tmp_path):
    described = transformers.BertConfig(**BERT)
    transformers.BertModel(described, add_pooling_layer=False).save_pretrained(tmp_path / "bert")
    assert not load(tmp_path / "bert").config.pooler
    described = transformers.ViTConfig(**VIT)
    transformers.ViTModel(described, add_pooling_layer=False).save_pretrained(tmp_path / "vit")
    assert not load(tmp_path / "vit").config.pooler


def test_the_activation_of_a_pooler_does_not_matter_to_a_vit_without_one(tmp_path):
    theirs = saved(tmp_path, "ViTForImageClassification", pooler_act="gelu")
    model = load(tmp_path)
    same_outputs("ViTForImageClassification", theirs, model)
    model.save(tmp_path / "again", layout="huggingface")
    same_outputs("ViTForImageClassification", theirs, load(tmp_path / "again"))
    assert json.loads((tmp_path / "again" / "config.json").read_text())["pooler_act"] == "gelu"


# ------------------------------------------------------------------------------- what does not fit


def test_all_tensors_that_do_not_fit_are_listed_at_once(tmp_path):
    saved(tmp_path, "GPT2LMHeadModel")

    def spoil(tensors):
        del tensors["transformer.ln_f.bias"], tensors["transformer.h.1.attn.c_attn.weight"]
        tensors["transformer.h.7.ln_1.weight"] = torch.zeros(24)
        tensors["transformer.h.0.attn.c_attn.bias"] = torch.zeros(71)
        tensors["transformer.wpe.weight"] = torch.zeros(24, 20)
        return tensors

    rewrite(tmp_path, spoil)
    with pytest.raises(CheckpointMismatch) as caught:
        load(tmp_path)
    for problem in (
        "(5)",
        "missing: ln_f.bias",
        "missing: h.1.attn.c_attn.weight",
        "unexpected: h.7.ln_1.weight",
        "misshapen: h.0.attn.c_attn.bias is (71,), expected (72,)",
        "transposed: wpe.weight is (24, 20), expected (20, 24)",
    ):
        assert problem in str(caught.value)


def test_a_head_that_the_class_promises_must_be_there(tmp_path):
    saved(tmp_path, "BertForSequenceClassification")
    rewrite(tmp_path, lambda t: {k: v for k, v in t.items() if not k.startswith("classifier")})
    with pytest.raises(CheckpointMismatch, match=r"missing: classifier\.bias; missing: classifier"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "twin"),
    [
        ("GPT2LMHeadModel", "transformer.wte.weight", "wte.weight"),
        ("BertModel", "embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"),
    ],
)
def test_a_tensor_that_stands_there_twice_is_refused(tmp_path, kind, name, twin):
    saved(tmp_path, kind)
    rewrite(tmp_path, lambda tensors: tensors | {twin: tensors[name] + 1})
    plain = name.removeprefix("transformer.")
    with pytest.raises(CheckpointMismatch, match=rf"holds {re.escape(plain)} twice"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "GPT2LMHeadModel",
            {"model_type": "llama"},
            "'llama'; known are gpt2, bert, vit, imagegpt",
        ),
        ("GPT2LMHeadModel", {"model_type": ["gpt2"]}, "known are gpt2, bert, vit, imagegpt"),
        ("GPT2LMHeadModel", {"n_head": 5}, "24 cannot be divided among 5 heads"),
        ("GPT2LMHeadModel", {"n_head": "4"}, "heads must be a whole number, got '4'"),
        ("GPT2LMHeadModel", {"n_layer": 0}, "layers must be at least 1, got 0"),
        (
            "GPT2LMHeadModel",
            {"activation_function": "prelu"},
            "'prelu', which has parameters of its own",
        ),
        ("GPT2LMHeadModel", {"activation_function": ["gelu"]}, "known are gelu, "),
        ("BertModel", {"architectures": 3}, "architectures"),
        (
            "GPT2LMHeadModel",
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx = True; only False can be read",
        ),
        (
            "GPT2LMHeadModel",
            {"scale_attn_weights": False},
            "scale_attn_weights = False; only True can be read",
        ),
        ("GPT2LMHeadModel", {"add_cross_attention": True}, "add_cross_attention = True"),
        ("BertModel", {"is_decoder": True}, "is_decoder = True; only False can be read"),
        ("BertModel", {"hidden_act": "prelu"}, "'prelu', which has parameters of its own"),
        ("BertModel", {"num_attention_heads": 7}, "24 cannot be divided among 7 heads"),
        ("BertModel", {"architectures": [["BertModel"]]}, "architectures"),
        (
            "BertModel",
            {"position_embedding_type": "relative_key"},
            "position_embedding_type = 'relative_key'; only 'absolute' can be read",
        ),
        ("BertForMaskedLM", {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ("ViTModel", {"patch_size": 5}, "image 12 cannot be cut into patches of 5"),
        ("ViTModel", {"image_size": [12, 12]}, "image must be a whole number"),
        ("ViTModel", {"pooler_act": "gelu"}, "pooler_act = 'gelu'; only 'tanh' can be read"),
    ],
)
def test_a_config_that_cannot_be_read_is_refused(tmp_path, kind, changes, message):
    saved(tmp_path, kind)
    describe(tmp_path, **changes)
    with pytest.raises(UnknownConfiguration, match=re.escape(message)):
        load(tmp_path)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("gpt2", {"key": 3}, "key and value other than embedding / heads"),
        ("gpt2", {"value": 5}, "key and value other than embedding / heads"),
        ("bert", {"key": 3, "value": 3}, "key and value other than embedding / heads"),
        ("gpt2", {"positions": "sinusoidal"}, "sinusoidal positions"),
        ("gpt2", {"attention_bias": False}, "attention without biases"),
        ("gpt2", {"variant": 1}, "variant 1"),
        ("gpt2", {"causal": False}, "causal mask"),
        ("igpt", {"normalisation": "rms"}, "whose output is the embedding, or predicts the start"),
        ("igpt", {"tied": False, "start_predicted": False}, "does not predict the start"),
        ("vit", {"masked_patch_head": True}, "two of classes, pooler and masked-patch head"),
        ("vit", {"pooler": True}, "pooler"),
    ],
)
def test_what_their_layout_cannot_say_is_refused(tmp_path, family, changes, message):
    with pytest.raises(UnknownConfiguration, match=re.escape(message)):
        filled(small(family, **changes)).save(tmp_path / "new", layout="huggingface")
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").iterdir())


def test_an_array_that_they_have_no_place_for_is_refused():
    model = filled(small("bert"))
    state = {**model.state, "order_head.weight": np.zeros((2, 3))}
    with pytest.raises(UnknownConfiguration, match=r"has no place for order_head\.weight"):
        huggingface.write_state(model.config, state)


def test_an_activation_that_they_lack_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "gelu", replace(ACTIVATIONS["gelu"], theirs=()))
    with pytest.raises(UnknownConfiguration, match="cannot say: the activation gelu"):
        filled(small("bert", activation="gelu")).save(tmp_path / "new", layout="huggingface")


@pytest.mark.parametrize(
    "family", sorted(FAMILIES.keys() - {"gpt2", "igpt", "bert", "vit", "patchtst"})
)
def test_families_that_they_have_no_layout_for_are_refused(tmp_path, family):
    with pytest.raises(
        UnknownConfiguration, match=r"no layout for .*; it has gpt2, bert, vit, imagegpt"
    ):
        filled(small(family)).save(tmp_path / "new", layout="huggingface")


def test_the_published_igpt_is_counted_as_transformers_has_it():
    with torch.device("meta"):
        theirs = transformers.ImageGPTForCausalImageModeling(transformers.ImageGPTConfig())
    assert count("igpt-small").total == theirs.num_parameters() == 76_682_240


def test_an_igpt_with_layer_normalisation_is_written_as_the_gpt2_that_it_is(tmp_path):
    model = filled(small("igpt"), dtype="float32")
    model.save(tmp_path, layout="huggingface")
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    ids = torch.arange(4)[None] % model.config.vocabulary
    with torch.no_grad():
        agree(model.network(ids), again(ids).logits, 1e-5)


def test_a_layout_that_is_unknown_is_refused(tmp_path):
    with pytest.raises(ValueError, match="hugging-face"):
        filled(small("gpt2")).save(tmp_path / "new", layout="hugging-face")


@pytest.mark.parametrize("family", ["gpt2", "bert", "vit"])
def test_a_model_of_our_own_is_read_by_transformers(tmp_path, family):
    model = filled(small(family), dtype="float32")
    model.save(tmp_path, layout="huggingface")
    kind = json.loads((tmp_path / "config.json").read_text())["architectures"][0]
    _, info = getattr(transformers, kind).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    again = load(tmp_path)
    for name, array in again.state.items():
        np.testing.assert_array_equal(array, model.state[name])
    assert again.config.symbols() == model.config.symbols()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_precision_of_a_model_of_our_own_is_told(tmp_path, dtype):
    model = filled(small("gpt2"), dtype="float32")
    model.dtype = dtype
    model.save(tmp_path, layout="huggingface")
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == dtype
    assert transformers.GPT2LMHeadModel.from_pretrained(tmp_path).dtype == getattr(torch, dtype)
    assert load(tmp_path).dtype == dtype


def test_what_our_configuration_has_no_word_for_is_kept(tmp_path):
    saved(tmp_path / "theirs", "BertForSequenceClassification", pad_token_id=3)
    labels = {"0": "sad", "1": "glad", "2": "mad"}
    describe(tmp_path / "theirs", id2label=labels, classifier_dropout=0.25)
    load(tmp_path / "theirs").save(tmp_path / "ours", layout="huggingface")
    described = json.loads((tmp_path / "ours" / "config.json").read_text())
    kept = [described[key] for key in ("pad_token_id", "id2label", "classifier_dropout")]
    assert kept == [3, labels, 0.25]


def test_a_bert_without_heads_is_their_model_without_a_pooler(tmp_path):
    model = filled(small("bert", mlm_head=False, nsp_head=False, pooler=False))
    model.save(tmp_path / "new", layout="huggingface")
    said = json.loads((tmp_path / "new" / "config.json").read_text())
    assert said["architectures"] == ["BertModel"]
    assert not load(tmp_path / "new").config.pooler

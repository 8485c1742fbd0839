"""Checkpoints of Transformers with random numbers, and whether our networks agree with them."""

import json

import numpy as np
import torch
import transformers
from agreement import agree
from safetensors.torch import load_file, save_file

WITHIN = 1e-5  # of the largest: single precision through a few layers; a wrong GELU is 4.7e-4

GPT2 = {"vocab_size": 31, "n_positions": 20, "n_embd": 24, "n_layer": 3, "n_head": 4}
GPT2 |= {"n_inner": 40, "bos_token_id": 0, "eos_token_id": 1}
SENTENCES = {"num_labels": 3, "pad_token_id": 31}  # which no text has
ENCODER = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
ENCODER |= {"intermediate_size": 40}
BERT = {**ENCODER, "vocab_size": 31, "max_position_embeddings": 20, "type_vocab_size": 3}
VIT = {**ENCODER, "image_size": 12, "patch_size": 4, "num_channels": 2, "num_labels": 5}

IMAGEGPT = {k: v for k, v in GPT2.items() if "token_id" not in k}
KINDS = {
    "GPT2Model": ("GPT2Config", GPT2),
    "GPT2LMHeadModel": ("GPT2Config", GPT2),
    "GPT2ForSequenceClassification": ("GPT2Config", {**GPT2, **SENTENCES}),
    "ImageGPTForCausalImageModeling": ("ImageGPTConfig", IMAGEGPT),
    "BertModel": ("BertConfig", BERT),
    "BertForPreTraining": ("BertConfig", BERT),
    "BertForMaskedLM": ("BertConfig", BERT),
    "BertForNextSentencePrediction": ("BertConfig", BERT),
    "BertForSequenceClassification": ("BertConfig", {**BERT, "num_labels": 3}),
    "BertForTokenClassification": ("BertConfig", {**BERT, "num_labels": 4}),
    "BertForQuestionAnswering": ("BertConfig", BERT),
    "ViTModel": ("ViTConfig", VIT),
    "ViTForMaskedImageModeling": ("ViTConfig", {**VIT, "encoder_stride": 4}),
    "ViTForImageClassification": ("ViTConfig", VIT),
}


LABELLED_LAST = ("GPT2ForSequenceClassification",)
"""Whose logits are not what the call of our network gives."""


def peer(kind, dtype=torch.float32, **changes):
    """A model of Transformers with random numbers everywhere, biases and gains too."""
    name, settings = KINDS[kind]
    with torch.random.fork_rng():
        torch.manual_seed(7)
        described = getattr(transformers, name)(**{**settings, **changes})
        model = getattr(transformers, kind)(described)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model.to(dtype).eval()


def saved(tmp_path, kind, **changes):
    theirs = peer(kind, **changes)
    theirs.save_pretrained(tmp_path)
    return theirs


def tensors_in(folder):
    files = sorted(folder.glob("*.safetensors"))
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def rewrite(folder, change):
    """Change the tensors of a folder's file by hand."""
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: tensor.clone().contiguous() for name, tensor in change(tensors).items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def describe(folder, **changes):
    file = folder / "config.json"
    described = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in described.items() if v is not ...}))


def inputs(kind, batch=2, n=9):
    """What Transformers is given, and what our network is."""
    rng = np.random.default_rng(n)
    if kind.startswith("ViT"):
        pixels = torch.tensor(rng.normal(size=(batch, 2, 12, 12)), dtype=torch.float32)
        return {"pixel_values": pixels}, (pixels,)
    ids = torch.tensor(rng.integers(31, size=(batch, n)))
    if "GPT" in kind:
        return {"input_ids": ids}, (ids,)
    segments = torch.tensor(rng.integers(3, size=(batch, n)))
    real = torch.arange(n) < torch.tensor(rng.integers(1, n + 1, size=(batch, 1)))
    theirs = {"input_ids": ids, "token_type_ids": segments, "attention_mask": real.long()}
    return theirs, (ids, segments, real)


def states_of(network, given):
    """What every block gives, and the output."""
    found = []
    hooks = [
        block.register_forward_hook(lambda _m, _i, out: found.append(out))
        for block in network.blocks
    ]
    with torch.no_grad():
        out = network(*given)
    for hook in hooks:
        hook.remove()
    return found, out


def outputs_of(kind, out):
    """Our outputs under the names of theirs."""
    if "GPT" in kind:
        return {"logits": out}
    named = {"last_hidden_state": out.hidden, "pooler_output": out.pooled}
    if kind.startswith("ViT"):
        if out.patches is not None:  # 3 x 3 patches of 4 x 4 pixels in 2 colours, put together
            grid = out.patches.unflatten(2, (4, 4, 2)).unflatten(1, (3, 3))
            named["reconstruction"] = grid.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)
        return {**named, "logits": out.logits}
    named |= {"prediction_logits": out.mlm, "seq_relationship_logits": out.nsp}
    if kind == "BertForMaskedLM":
        named["logits"] = out.mlm
    elif kind == "BertForNextSentencePrediction":
        named["logits"] = out.nsp
    elif kind == "BertForQuestionAnswering":
        named["start_logits"], named["end_logits"] = out.labels.unbind(-1)
    elif out.labels is not None:
        named["logits"] = out.labels
    return named


def same_outputs(kind, theirs, model, **shape):
    given, ours = inputs(kind, **shape)
    with torch.no_grad():
        expected = theirs(**given, output_hidden_states=True)
    states, out = states_of(model.network, ours)
    out = model.network.labels(*ours).detach() if kind in LABELLED_LAST else out
    named = outputs_of(kind, out)
    if "GPT" in kind:  # whose last states are given normalised
        states[-1] = model.network.hidden(*ours).detach()
    for at_layer, theirs_at_layer in zip(states, expected.hidden_states[1:], strict=True):
        agree(at_layer, theirs_at_layer, WITHIN)
    compared = {name for name in named if getattr(expected, name, None) is not None}
    for name in compared:
        agree(named[name], getattr(expected, name), WITHIN)
    return compared

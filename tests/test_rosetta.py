"""The tables between our arrays and those of Keras, nanoGPT and timm.

nanoGPT and timm are restated here: a state with their names and shapes, and the forward pass that
they compute with it, in plain PyTorch. KerasHub itself is met in ``test_keras``.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from agreement import agree
from torch.nn import functional as F

from vesalius.checkpoints import huggingface, layout, others
from vesalius.errors import CheckpointMismatch, UnknownConfiguration
from vesalius.families import configuration
from vesalius.model import Model

PAGE = (Path(__file__).parents[1] / "docs" / "rosetta.md").read_text()

EVERYTHING = {
    "gpt2": {"tied": False},
    "bert": {"mlm_head": True, "nsp_head": True, "labels": 2},
    "vit": {"pooler": True, "masked_patch_head": True},
}
SMALL = {"layers": 2, "embedding": 12, "heads": 3, "feedforward": 20}
GPT2 = configuration("gpt2", vocabulary=29, context=9, activation="gelu", **SMALL)
BERT = configuration("bert", vocabulary=29, context=9, mlm_head=True, **SMALL)
VIT = configuration("vit", image=12, patch=4, channels=3, classes=5, epsilon=1e-6, **SMALL)
TABLES = [("Keras", GPT2), ("Keras", BERT), ("nanoGPT", GPT2), ("timm", VIT)]
LACKING = {
    ("Keras", "gpt2"): {"output"},
    ("nanoGPT", "gpt2"): {"output"},
    ("Keras", "bert"): {"nsp_head", "label_head"},
    ("timm", "vit"): {"pooler", "mask_token", "patch_head"},
    ("Hugging Face", "gpt2"): set(),
    ("Hugging Face", "bert"): set(),
    ("Hugging Face", "vit"): {"mask_token", "patch_head"},
}


def random_state(shapes):
    rng = np.random.default_rng(7)
    return {
        name: rng.normal("norm" in name and "weight" in name, 0.5, shape)
        for name, shape in shapes.items()
    }


# ---------------------------------------------------------------------------------- the page


def columns(family):
    """The page's table of a family: each column's cells by its heading."""
    titles = {"gpt2": "GPT-2", "bert": "BERT", "vit": "Vision transformer"}
    section = re.search(rf"^## {titles[family]}.*?\n\n(.*?)\n(?:\n|\Z)", PAGE, re.M | re.S).group(1)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in section.splitlines()]
    return {heading: [row[i] for row in rows[2:]] for i, heading in enumerate(rows[0])}


def names(column):
    return [re.match(r"`(.*?)`", cell).group(1) for cell in column if cell]


@pytest.mark.parametrize("family", EVERYTHING)
def test_every_array_of_ours_stands_on_the_page_once(family):
    config = configuration(family, **EVERYTHING[family])
    expected = {re.sub(r"\.\d+\.", ".{l}.", name) for name in layout.shapes(config)}
    counted = Counter(names(columns(family)["ours"]))
    assert set(counted) == expected
    assert set(counted.values()) == {1}


@pytest.mark.parametrize(("library", "family"), LACKING)
def test_a_library_names_every_array_that_it_has(library, family):
    table = columns(family)
    lacking = {
        ours.split(".")[0]
        for ours, theirs in zip(names(table["ours"]), table[library], strict=True)
        if not theirs
    }
    assert lacking == LACKING[library, family]


@pytest.mark.parametrize("family", EVERYTHING)
def test_no_other_library_stands_on_the_page(family):
    known = {library for library, of in LACKING if of == family}
    assert set(columns(family)) == {"paper", "ours", *known}


@pytest.mark.parametrize("family", EVERYTHING)
def test_the_page_says_how_an_array_is_read_only_where_it_differs(family):
    cells = [cell for column in columns(family).values() for cell in column]
    assert not any("the same" in cell for cell in cells)
    assert any(cell.endswith("`") for cell in cells)
    assert any(cell.endswith(", transposed") for cell in cells)


def test_the_page_tells_fused_rows_from_fused_columns():
    table = columns("gpt2")
    i = table["paper"].index("`Phi[l].Gamma.Psi[m].W_K`")
    assert table["Hugging Face"][i].endswith("second third of the columns, transposed")
    assert table["nanoGPT"][i].endswith("second third of the rows")
    assert table["Keras"][i].endswith("heads joined, transposed")


# --------------------------------------------------------------------------------- the tables


@pytest.mark.parametrize(("library", "config"), TABLES)
def test_a_state_survives_both_ways_to_the_last_bit(library, config):
    ours = random_state(layout.shapes(config))
    theirs = others.write_state(library, config, ours)
    back = others.read_state(library, config, theirs)
    again = others.write_state(library, config, back)
    for before, after in ((ours, back), (theirs, again)):
        assert set(before) == set(after)
        for name in before:
            np.testing.assert_array_equal(before[name], after[name], strict=True)


@pytest.mark.parametrize(("library", "config"), TABLES)
def test_reading_copies_nothing(library, config):
    shapes = layout.shapes(config)
    theirs = others.write_state(library, config, random_state(shapes))
    theirs = {name: np.ascontiguousarray(array) for name, array in theirs.items()}
    for name, array in others.read_state(library, config, theirs).items():
        if name != "projection.weight":  # colours change their place within a patch
            assert any(np.shares_memory(array, tensor) for tensor in theirs.values()), name


def test_kerass_heads_have_an_axis_of_their_own():
    theirs = others.write_state("Keras", GPT2, random_state(layout.shapes(GPT2)))
    attention = "transformer_layer_1/self_attention"
    assert theirs[f"{attention}/query/kernel"].shape == (12, 3, 4)
    assert theirs[f"{attention}/value/bias"].shape == (3, 4)
    assert theirs[f"{attention}/attention_output/kernel"].shape == (3, 4, 12)


@pytest.mark.parametrize(
    ("library", "config", "said"),
    [
        ("timm", GPT2, "no table of timm for gpt2; there is for vit"),
        ("Keras", configuration("igpt"), "no table of Keras for igpt; there is for gpt2, bert"),
        ("nanoGPT", GPT2.change(tied=False), "nanoGPT has no place for output.weight"),
        ("timm", VIT.change(pooler=True), "timm has no place for pooler.bias, pooler.weight"),
        ("Keras", BERT.change(nsp_head=True), "Keras has no place for nsp_head.bias"),
        ("nanoGPT", GPT2.change(value=5), "embedding / heads = 12 / 3 only, got 4 and 5"),
        ("nanoGPT", GPT2.change(attention_bias=False), "attention with biases"),
    ],
)
def test_what_a_library_has_no_place_for_is_said(library, config, said):
    with pytest.raises(UnknownConfiguration, match=said):
        others.write_state(library, config, random_state(layout.shapes(config)))
    with pytest.raises(UnknownConfiguration, match=said):
        others.read_state(library, config, {})


def test_every_tensor_that_does_not_fit_is_listed():
    state = nanogpt_state(GPT2)
    del state["transformer.h.1.ln_2.bias"]
    state["transformer.h.0.mlp.c_fc.weight"] = state["transformer.h.0.mlp.c_fc.weight"].T
    state["transformer.extra"] = np.zeros(3)
    with pytest.raises(CheckpointMismatch) as caught:
        others.read_state("nanoGPT", GPT2, state)
    for said in (
        "missing: transformer.h.1.ln_2.bias",
        "misshapen: transformer.h.0.mlp.c_fc.weight is (12, 20), expected (20, 12)",
        "unexpected: transformer.extra",
    ):
        assert said in str(caught.value)


def test_hugging_faces_gpt2_is_nanogpts_transposed():
    ours = random_state(layout.shapes(GPT2))
    theirs = huggingface.write_state(GPT2, ours)
    nano = others.write_state("nanoGPT", GPT2, ours)
    assert set(theirs) == set(nano)
    for name, array in nano.items():
        transposed = re.search(r"(c_attn|c_proj|c_fc)\.weight", name)
        np.testing.assert_array_equal(theirs[name], array.T if transposed else array)


# ------------------------------------------------------------------------ nanoGPT and timm restated


def linear(name, rows, columns):
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def nanogpt_state(config):
    """What nanoGPT saves: the tied head twice, and the causal mask as a buffer."""
    d, d_f = config.embedding, config.feedforward
    shapes = {"transformer.wte.weight": (config.vocabulary, d)}
    shapes["transformer.wpe.weight"] = (config.context, d)
    for l in range(config.layers):
        layer = f"transformer.h.{l}"
        shapes |= norm(f"{layer}.ln_1", d) | norm(f"{layer}.ln_2", d)
        shapes |= linear(f"{layer}.attn.c_attn", 3 * d, d) | linear(f"{layer}.attn.c_proj", d, d)
        shapes |= linear(f"{layer}.mlp.c_fc", d_f, d) | linear(f"{layer}.mlp.c_proj", d, d_f)
    state = random_state(shapes | norm("transformer.ln_f", d))
    mask = np.tril(np.ones((1, 1, config.context, config.context)))
    state |= {f"transformer.h.{l}.attn.bias": mask for l in range(config.layers)}
    return state | {"lm_head.weight": state["transformer.wte.weight"].copy()}


def timm_state(config):
    d, P, C = config.embedding, config.patch, config.channels
    shapes = {"cls_token": (1, 1, d), "pos_embed": (1, (config.image // P) ** 2 + 1, d)}
    shapes |= {"patch_embed.proj.weight": (d, C, P, P), "patch_embed.proj.bias": (d,)}
    for l in range(config.layers):
        layer = f"blocks.{l}"
        shapes |= norm(f"{layer}.norm1", d) | norm(f"{layer}.norm2", d)
        shapes |= linear(f"{layer}.attn.qkv", 3 * d, d) | linear(f"{layer}.attn.proj", d, d)
        shapes |= linear(f"{layer}.mlp.fc1", config.feedforward, d)
        shapes |= linear(f"{layer}.mlp.fc2", d, config.feedforward)
    return random_state(shapes | norm("norm", d) | linear("head", config.classes, d))


class Plain:
    """Layers by name, straight from a state."""

    def __init__(self, state, heads, epsilon):
        self.state = {name: torch.tensor(array) for name, array in state.items()}
        self.heads, self.epsilon = heads, epsilon

    def linear(self, name, x):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, name, x):
        weight, bias = self.state[f"{name}.weight"], self.state[f"{name}.bias"]
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return centred / (variance + self.epsilon).sqrt() * weight + bias

    def attend(self, fused, output, x, mask):
        joined = []
        q, k, v = self.linear(fused, x).chunk(3, dim=-1)
        for q_m, k_m, v_m in zip(*(a.chunk(self.heads, dim=-1) for a in (q, k, v)), strict=True):
            scores = q_m @ k_m.transpose(-1, -2) / q_m.shape[-1] ** 0.5
            joined.append(scores.masked_fill(mask == 0, -torch.inf).softmax(-1) @ v_m)
        return self.linear(output, torch.cat(joined, dim=-1))


def nanogpt_logits(state, ids, heads):
    of = Plain(state, heads, 1e-5)
    x = of.state["transformer.wte.weight"][ids]
    x = x + of.state["transformer.wpe.weight"][: ids.shape[1]]
    mask = torch.ones(ids.shape[1], ids.shape[1]).tril()
    for l in range(GPT2.layers):
        h = f"transformer.h.{l}"
        normed = of.norm(f"{h}.ln_1", x)
        x = x + of.attend(f"{h}.attn.c_attn", f"{h}.attn.c_proj", normed, mask)
        inner = F.gelu(of.linear(f"{h}.mlp.c_fc", of.norm(f"{h}.ln_2", x)))
        x = x + of.linear(f"{h}.mlp.c_proj", inner)
    return of.norm("transformer.ln_f", x) @ of.state["lm_head.weight"].T


def timm_logits(state, pixels, config):
    of = Plain(state, config.heads, config.epsilon)
    kernel, bias = of.state["patch_embed.proj.weight"], of.state["patch_embed.proj.bias"]
    x = F.conv2d(pixels, kernel, bias, stride=config.patch).flatten(2).transpose(1, 2)
    x = torch.cat([of.state["cls_token"].expand(len(x), -1, -1), x], 1) + of.state["pos_embed"]
    for l in range(config.layers):
        b = f"blocks.{l}"
        normed = of.norm(f"{b}.norm1", x)
        x = x + of.attend(f"{b}.attn.qkv", f"{b}.attn.proj", normed, torch.ones(1))
        inner = F.gelu(of.linear(f"{b}.mlp.fc1", of.norm(f"{b}.norm2", x)))
        x = x + of.linear(f"{b}.mlp.fc2", inner)
    return of.linear("head", of.norm("norm", x)[:, 0])


@pytest.mark.parametrize("length", [1, 5, 9])
def test_our_network_computes_what_nanogpt_does_with_its_weights(length):
    theirs = nanogpt_state(GPT2)
    model = Model(GPT2, others.read_state("nanoGPT", GPT2, theirs))
    ids = torch.randint(GPT2.vocabulary, (2, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        agree(model.network(ids), nanogpt_logits(theirs, ids, GPT2.heads))


def test_our_network_computes_what_timm_does_with_its_weights(rng):
    theirs = timm_state(VIT)
    model = Model(VIT, others.read_state("timm", VIT, theirs))
    pixels = torch.tensor(rng.normal(size=(2, VIT.channels, VIT.image, VIT.image)))
    with torch.no_grad():
        agree(model.network(pixels).logits, timm_logits(theirs, pixels, VIT))


def test_a_head_of_nanogpt_that_is_not_the_embedding_is_refused():
    theirs = nanogpt_state(GPT2)
    theirs["lm_head.weight"][3, 4] += 1
    with pytest.raises(CheckpointMismatch, match=r"lm_head\.weight differs from transformer\.wte"):
        others.read_state("nanoGPT", GPT2, theirs)

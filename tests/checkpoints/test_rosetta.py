"""The tables between our arrays and those of Keras, nanoGPT and timm.

nanoGPT and timm are restated in ``libraries``; KerasHub itself is met in ``test_keras``.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import peers
import pytest
import torch
from agreement import agree
from libraries import (
    GPT2,
    SMALL,
    VIT,
    nanogpt_logits,
    nanogpt_state,
    random_state,
    timm_logits,
    timm_state,
)

from vesalius.checkpoints import huggingface, layout, libraries
from vesalius.errors import CheckpointMismatch, UnknownConfiguration
from vesalius.families import FAMILIES, configuration, family_of
from vesalius.model import Model

PAGE = (Path(__file__).parents[2] / "docs" / "rosetta.md").read_text()

EVERYTHING = {
    "gpt2": {"tied": False, "labels": 2},
    "bert": {"mlm_head": True, "nsp_head": True, "labels": 2},
    "vit": {"pooler": True, "masked_patch_head": True},
    "tst": {},
    "patchtst": {"end_padding": False},
    "lstm": {"tied": False, "output_bias": True, "labels": 2},
    "rnn": {"tied": False, "output_bias": True, "labels": 2},
    "ffnn": {"output_bias": True},
}
BERT = configuration("bert", vocabulary=29, context=9, mlm_head=True, **SMALL)
TST = configuration("tst", channels=4, context=6, outputs=5, **SMALL)
TABLES = [("Keras", GPT2), ("Keras", BERT), ("nanoGPT", GPT2), ("timm", VIT)]
TABLES.append(("mvts_transformer", TST))
TABLES += [(name, GPT2.change(tied=False)) for name in ("minGPT", "minGPT until 2022")]
TABLES.append(("vit-pytorch", VIT.change(qkv_bias=False, key=5, value=5, heads=2)))
RECURRENT = {"vocabulary": 11, "embedding": 6, "hidden": 10, "tied": False, "output_bias": True}
LSTM, RNN = (configuration(family, **RECURRENT) for family in ("lstm", "rnn"))
TABLES += [("PyTorch", LSTM), ("PyTorch", RNN), ("TensorFlow", LSTM)]
LACKING = {
    ("Keras", "gpt2"): {"output", "label_head"},
    ("nanoGPT", "gpt2"): {"output", "label_head"},
    ("Keras", "bert"): {"nsp_head", "label_head"},
    ("minGPT", "gpt2"): {"label_head"},
    ("minGPT until 2022", "gpt2"): {"label_head"},
    ("timm", "vit"): {"pooler", "mask_token", "patch_head"},
    ("vit-pytorch", "vit"): {"blocks", "pooler", "mask_token", "patch_head"},
    ("Hugging Face", "gpt2"): set(),
    ("Hugging Face", "bert"): set(),
    ("Hugging Face", "vit"): set(),
    ("Hugging Face", "patchtst"): set(),
    ("mvts_transformer", "tst"): set(),
    ("PyTorch", "lstm"): {"label_head"},
    ("TensorFlow", "lstm"): {"label_head"},
    ("Keras", "lstm"): {"embedding", "output", "output_bias", "label_head"},
    ("PyTorch", "rnn"): {"label_head"},
    ("Keras", "rnn"): {"embedding", "output", "output_bias", "label_head"},
    ("PyTorch", "ffnn"): {"embedding"},
    ("Keras", "ffnn"): {"embedding"},
}


# ---------------------------------------------------------------------------------- the page


def columns(family):
    """The page's table of a family: each column's cells by its heading."""
    titles = {"gpt2": "GPT-2", "bert": "BERT", "vit": "Vision transformer"}
    titles |= {
        "tst": "Time series",
        "patchtst": "PatchTST",
        "lstm": "LSTM",
        "rnn": "Elman",
        "ffnn": "Feedforward",
    }
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
    gates = 4 if family == "lstm" else 1
    assert all(n == (gates if "layers" in name else 1) for name, n in counted.items())


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


def test_every_table_of_a_family_is_tried():
    tried = {(library, family_of(config).name) for library, config in TABLES}
    told = {(library, row.name) for row in FAMILIES.values() for library in row.libraries}
    assert tried == told


@pytest.mark.parametrize(("library", "config"), TABLES)
def test_a_state_survives_both_ways_to_the_last_bit(library, config):
    ours = random_state(layout.shapes(config))
    theirs = libraries.write_state(library, config, ours)
    back = libraries.read_state(library, config, theirs)
    again = libraries.write_state(library, config, back)
    for before, after in ((ours, back), (theirs, again)):
        assert set(before) == set(after)
        for name in before:
            np.testing.assert_array_equal(before[name], after[name], strict=True)


@pytest.mark.parametrize(("library", "config"), TABLES)
def test_reading_copies_nothing(library, config):
    shapes = layout.shapes(config)
    theirs = libraries.write_state(library, config, random_state(shapes))
    theirs = {name: np.ascontiguousarray(array) for name, array in theirs.items()}
    for name, array in libraries.read_state(library, config, theirs).items():
        # Colours change their place within a patch, gates within a cell of TensorFlow.
        if name != "projection.weight" and library != "TensorFlow":
            assert any(np.shares_memory(array, tensor) for tensor in theirs.values()), name


def test_kerass_heads_have_an_axis_of_their_own():
    theirs = libraries.write_state("Keras", GPT2, random_state(layout.shapes(GPT2)))
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
        ("vit-pytorch", VIT, r"no place for blocks\.0\.attention\.key\.bias"),
        ("vit-pytorch", VIT.change(value=5), "keys and values of one width, got 4 and 5"),
        ("PyTorch", LSTM.change(labels=2), r"PyTorch has no place for label_head\.weight"),
    ],
)
def test_what_a_library_has_no_place_for_is_said(library, config, said):
    with pytest.raises(UnknownConfiguration, match=said):
        libraries.write_state(library, config, random_state(layout.shapes(config)))
    with pytest.raises(UnknownConfiguration, match=said):
        libraries.read_state(library, config, {})


def test_every_tensor_that_does_not_fit_is_listed():
    state = nanogpt_state(GPT2)
    del state["transformer.h.1.ln_2.bias"]
    state["transformer.h.0.mlp.c_fc.weight"] = state["transformer.h.0.mlp.c_fc.weight"].T
    state["transformer.extra"] = np.zeros(3)
    with pytest.raises(CheckpointMismatch) as caught:
        libraries.read_state("nanoGPT", GPT2, state)
    for said in (
        "missing: transformer.h.1.ln_2.bias",
        "transposed: transformer.h.0.mlp.c_fc.weight is (12, 20), expected (20, 12)",
        "unexpected: transformer.extra",
    ):
        assert said in str(caught.value)


def test_hugging_faces_gpt2_is_nanogpts_transposed():
    ours = random_state(layout.shapes(GPT2))
    theirs = huggingface.write_state(GPT2, ours)
    nano = libraries.write_state("nanoGPT", GPT2, ours)
    assert set(theirs) == set(nano)
    for name, array in nano.items():
        transposed = re.search(r"(c_attn|c_proj|c_fc)\.weight", name)
        np.testing.assert_array_equal(theirs[name], array.T if transposed else array)


# ------------------------------------------------------------------------ nanoGPT and timm


def test_our_network_computes_what_mvts_transformer_does_with_its_weights(rng):
    """Its modules are PyTorch's own, put together in ``peers.TST``; here they get its names."""
    theirs, state = peers.TST(TST).double().eval(), {}
    for name, parameter in [*theirs.named_parameters(), *theirs.named_buffers()]:
        if parameter.is_floating_point():
            drawn = rng.uniform(0.5, 1.5, parameter.shape)
            parameter.data = torch.tensor(drawn - ("running_var" not in name))
        named = name.replace("attention.", "self_attn.").replace("positions", "pos_enc.pe")
        named = named.replace("project.", "project_inp.").replace("output.", "output_layer.")
        array = parameter.detach().numpy()
        state[named.replace("layers.", "transformer_encoder.layers.", 1)] = (
            array[:, None] if name == "positions" else array
        )
    model = Model(TST, libraries.read_state("mvts_transformer", TST, state))
    series, real = (
        torch.tensor(rng.normal(size=(3, 6, 4))),
        torch.arange(6) < torch.tensor([[6], [4], [1]]),
    )
    with torch.no_grad():
        agree(model.network(series, real), theirs(series, real)[1])


@pytest.mark.parametrize("length", [1, 5, 9])
def test_our_network_computes_what_nanogpt_does_with_its_weights(length):
    theirs = nanogpt_state(GPT2)
    model = Model(GPT2, libraries.read_state("nanoGPT", GPT2, theirs))
    ids = torch.randint(GPT2.vocabulary, (2, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        agree(model.network(ids), nanogpt_logits(theirs, ids, GPT2.heads))


def test_our_network_computes_what_timm_does_with_its_weights(rng):
    theirs = timm_state(VIT)
    model = Model(VIT, libraries.read_state("timm", VIT, theirs))
    pixels = torch.tensor(rng.normal(size=(2, VIT.channels, VIT.image, VIT.image)))
    with torch.no_grad():
        agree(model.network(pixels).logits, timm_logits(theirs, pixels, VIT))


def test_a_head_of_nanogpt_that_is_not_the_embedding_is_refused():
    theirs = nanogpt_state(GPT2)
    theirs["lm_head.weight"][3, 4] += 1
    with pytest.raises(CheckpointMismatch, match=r"lm_head\.weight differs from transformer\.wte"):
        libraries.read_state("nanoGPT", GPT2, theirs)

"""Figures are drawn from what a model is: every id is a step or a set, every number the trace's."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import vesalius as vs
from vesalius import tokenizers
from vesalius.equations.parameters import arrays
from vesalius.errors import UnknownPart, WrongKind
from vesalius.figures import parts_of

SVG = "{http://www.w3.org/2000/svg}"
SMALL = {"vocabulary": 40, "embedding": 12}
MODELS = {
    "ffnn": ("ffnn", SMALL | {"layers": 6, "hidden": 5, "context": 3, "output_bias": True}),
    "rnn": ("rnn", SMALL | {"tied": False, "hidden": 7, "output_bias": True}),
    "lstm": ("lstm", SMALL | {"layers": 4}),
    "post-norm, fixed positions": ("transformer", SMALL | {"heads": 3, "layers": 2}),
    "many heads": ("gpt2", SMALL | {"heads": 12, "layers": 6, "tied": False}),
    "more heads than are drawn": ("gpt2", SMALL | {"embedding": 33, "heads": 33, "layers": 1}),
    "gpt2, labels": ("gpt2", SMALL | {"heads": 3, "layers": 1, "labels": 3}),
    "lstm, labels": ("lstm", SMALL | {"layers": 1, "labels": 3}),
    "bert, whole": ("bert", SMALL | {"layers": 2, "heads": 3, "mlm_head": True, "nsp_head": True}),
    "bert, its backbone": ("bert", SMALL | {"layers": 2, "heads": 3}),
    "bert, labels": ("bert", SMALL | {"layers": 1, "heads": 3, "labels": 3}),
    "bert, labelled tokens": (
        "bert",
        SMALL | {"layers": 1, "heads": 3, "labels": 3, "labelled": "tokens", "pooler": False},
    ),
    "vit": (
        "vit",
        {"embedding": 12, "heads": 3, "layers": 2, "image": 8, "patch": 4, "classes": 3},
    ),
    "vit, all heads": (
        "vit",
        {"embedding": 12, "heads": 3, "layers": 1, "image": 8, "patch": 4, "channels": 1}
        | {"classes": 3, "pooler": True, "masked_patch_head": True},
    ),
    "vit, no classes": (
        "vit",
        {"embedding": 12, "heads": 3, "layers": 1, "image": 8, "patch": 4, "classes": 0},
    ),
    "igpt": ("igpt", SMALL | {"heads": 3, "layers": 2, "normalisation": "rms", "context": 9}),
    "tst": ("tst", {"embedding": 12, "heads": 3, "layers": 2, "channels": 3, "context": 6}),
    "tst, series": (
        "tst",
        {"embedding": 12, "heads": 3, "layers": 1, "channels": 3, "context": 6, "head": "series"},
    ),
    "patchtst": (
        "patchtst",
        {"embedding": 12, "heads": 3, "layers": 2, "channels": 2, "context": 9, "patch": 4}
        | {"stride": 2, "horizon": 5, "affine": True},
    ),
}


WHOLE = (
    "ffnn",
    "rnn",
    "lstm",
    "post-norm, fixed positions",
    "many heads",
    "vit",
    "tst",
    "patchtst",
)
"""Of which all parts are drawn; of the others, those in which they differ."""


def given(model):
    config = model.config
    if model.family == "vit":
        return np.linspace(0, 1, 64 * config.channels).reshape(8, 8, config.channels)
    if model.family in ("tst", "patchtst"):
        return np.linspace(-1, 1, 18).reshape(config.channels, -1)
    return [1, 2, 3] if model.family == "ffnn" else [1, 2, 3, 1, 2, 3, 1, 39]


def ids(figure):
    """The ids of a figure's file, which must be whole."""
    root = ElementTree.fromstring(figure.svg)
    found = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(found) == len(set(found)), "an id stands twice"
    assert not [node for node in root.iter() if node.get("style") or node.tag == f"{SVG}style"]
    assert found == [part.id for part in figure.parts]
    return set(found)


def texts(figure):
    root = ElementTree.fromstring(figure.svg)
    return ["".join(node.itertext()).replace("\u200b", "") for node in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", MODELS)
def test_every_part_is_a_step_or_a_parameter_set_of_the_model(name):
    family, settings = MODELS[name]
    model = vs.create(family, **settings)
    trace = vs.dissect(model, given(model))
    sizes = {path: array.size for path, array in arrays(model.parameters, trained_only=True)}
    n = len(trace.tokens())
    alike = ("model", "tokens", "parameters") if name not in WHOLE else ()
    for kind in parts_of(model):
        if alike and kind["part"] not in alike:
            continue
        for text in (None, trace):
            if text is None and kind["text"] == "needed":
                continue
            drawn = vs.figure(text or model, kind["part"])
            assert ids(drawn)
            for part in drawn.parts:
                numbered = placed(part.id, model, n)
                step = placed(part.step, model, n)
                assert not step or step in trace, (kind["part"], part)
                if part.id == "theta":
                    assert part.count == sum(sizes.values()) == vs.count(model).total
                elif part.parameters:
                    inside = [s for p, s in sizes.items() if _within(p, numbered)]
                    assert inside, (kind["part"], part)
                    assert part.kind == "more" or part.count == sum(inside), (kind["part"], part)
                else:
                    assert step, (kind["part"], part)


def placed(name, model, n):
    """A name with the last layer, the first head and the last time in place of their letters."""
    name = re.sub(r"(?<=\[)l(?=[\],])", str(model.config.layers), name)
    return re.sub(r"(?<=,)[in](?=\])", str(n), re.sub(r"(?<=[\[,])m(?=\])", "1", name))


def _within(path, whole):
    """Whether an array belongs to a set: ``Phi[1].W`` to ``Phi[1]`` and to ``Phi``."""
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


@pytest.mark.parametrize("name", ["gpt", "bert", "lstm"])
def test_counts_are_the_counters(name):
    model = vs.load(name)
    counted = {row.symbol: row.count for row in vs.count(model).rows}
    letters = {"Phi[2]": "Φ[l]", "Phi[2].Gamma": "Γ[l]", "Phi[2].Pi": "Π[l]", "E": "E"}
    letters |= {"Phi[2].Xi_1": "Ξ₁[l]", "Xi_e": "Ξₑ", "Lambda": "Λ", "Lambda_s": "Λˢ", "Pi_C": "Πᶜ"}
    drawn = {part.id: part.count for part in vs.figure(model, "model[2]").parts}
    both = {path for path, symbol in letters.items() if path in drawn and symbol in counted}
    assert len(both) >= {"gpt": 6, "bert": 7, "lstm": 2}[name]
    assert {path: drawn[path] for path in both} == {path: counted[letters[path]] for path in both}
    shown = texts(vs.figure(model, "model[2]"))
    assert all(f"{drawn[path]:,}" in shown for path in both)


def test_attention_by_example_has_the_numbers_of_the_trace():
    trace = vs.dissect("gpt", "He shook his")
    q, k, mu = (trace[f"{one}[3,4]"] for one in ("q", "k", "mu"))
    shown = texts(vs.figure(trace, "query[3,4]", position=2))
    assert [f"{x:.3f}" for x in mu[2]] == [
        text for text in shown if re.fullmatch(r"0\.\d{3}", text)
    ]
    scores = [text.replace("−", "-") for text in shown if re.fullmatch(r"−?\d+\.\d\d?", text)]
    assert scores == [f"{x:.{2 if abs(x) < 10 else 1}f}" for x in q[2] @ k.T / 8]
    assert "head" not in "".join(shown)
    every = texts(vs.figure(trace, "attention[3]"))
    expected = [f"{x:.3f}" for m in range(1, 5) for x in trace[f"mu[3,{m}]"][2]]
    assert [text for text in every if re.fullmatch(r"[01]\.\d{3}", text)] == expected
    matrix = texts(vs.figure(trace, "head[3,4]"))
    assert [text for text in matrix if re.fullmatch(r"[01]\.\d\d", text)] == [
        f"{mu[i, j]:.2f}" for i in range(3) for j in range(i + 1)
    ]
    odds = texts(vs.figure(trace, "tokens"))
    assert f"{100 * trace['Y_hat'][:, 2].max():.1f} %" in odds


@pytest.mark.parametrize(
    ("gate", "mask", "result"), [("forget", "p", "k"), ("add", "r", "d"), ("output", "s", "h")]
)
def test_a_gate_has_the_numbers_of_the_trace(gate, mask, result):
    trace = vs.dissect("lstm", "He shook his")
    root = ElementTree.fromstring(vs.figure(trace, f"{gate}[2]").svg)
    for symbol in (mask, result):
        group = root.find(f".//{SVG}g[@id='{symbol}[2,3]']")
        shown = [float(node.text.replace("−", "-")) for node in group.iter(f"{SVG}text")]
        assert len(shown) == 20
        values = trace[f"{symbol}[2,3]"]
        assert all(np.abs(values - number).min() <= 0.005 + 1e-9 for number in shown)
    at_first = vs.figure(trace, f"{gate}[1]", position=0)
    assert f"{mask}[1,1]" in ids(at_first)


def test_whatever_a_token_holds_the_file_is_whole(tmp_path):
    model = vs.create("gpt2", layers=1, embedding=8, heads=2, vocabulary=40, context=16)
    model.tokenizer = tokenizers.train_characters(["<&\"'>\x01\n é日😀"])
    text = "<&\"'>\n"
    for part in ("tokens", "attention", "query", "head"):
        assert ids(vs.figure(model, part, text))
        vs.figure(model, part, text, theme="dark").save(tmp_path / f"{part}.png")
        assert (tmp_path / f"{part}.png").read_bytes().startswith(b"\x89PNG")


WRONG = (
    ({"part": "blok"}, "did you mean block"),
    ({"part": "head[9,1]"}, "layers 1 to 4"),
    ({"part": "head[1,5]"}, "heads 1 to 4"),
    ({"part": "block[1,2]"}, r"expected block\[l\]"),
    ({"part": "forget"}, "no part 'forget'"),
    ({"part": "23"}, "no figure 23"),
    ({"part": "head", "text": "He", "position": 3}, "past the last token, 0"),
)


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_a_part_that_is_not_there_is_said(wrong, said):
    with pytest.raises(UnknownPart, match=said):
        vs.figure("gpt", **wrong)


def test_what_cannot_be_drawn_or_kept_is_said(tmp_path):
    with pytest.raises(WrongKind, match="shows the numbers of a text"):
        vs.figure("gpt", "10")
    with pytest.raises(WrongKind, match="light or dark, got 'blue'"):
        vs.figure("gpt", theme="blue")
    for ending in ("pdf", "gif"):
        with pytest.raises(WrongKind, match=r"\.svg or \.png"):
            vs.figure("gpt").save(tmp_path / f"a.{ending}")


def test_numbers_of_the_paper_mean_their_figures():
    assert vs.figure("gpt2", "14").title.startswith("Figure 14b")
    assert vs.figure("transformer", "14").title.startswith("Figure 14a")
    assert vs.figure("gpt", "11", "He shook").title.startswith("Figure 11")
    assert vs.figure("gpt", "13").title.startswith("Figure 13")
    assert vs.figure("lstm", "22", "He shook").title.startswith("Figures 21 and 22")
    assert vs.figure("gpt")._repr_svg_().startswith("<svg")

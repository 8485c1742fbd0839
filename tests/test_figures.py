"""Figures are drawn from what a model is: every id is a step or a set, every number the trace's."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import vesalius as vs
from vesalius import tokenizers
from vesalius.equations.parameters import arrays
from vesalius.errors import UnknownPart, WrongKind
from vesalius.figures import parts_of
from vesalius.figures.gates import GATES
from vesalius.figures.heat import colour, limit_of

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
    return written(ElementTree.fromstring(figure.svg))


def written(root):
    return ["".join(node.itertext()).replace("\u200b", "") for node in root.iter(f"{SVG}text")]


def every(model, parts=()):
    """All figures of a model, without a text and with one."""
    trace = vs.dissect(model, given(model))
    for kind in parts_of(model):
        for text in (None, trace):
            if (text is None and kind["text"] == "needed") or (parts and kind["part"] not in parts):
                continue
            yield kind["part"], vs.figure(text or model, kind["part"])


def drawn_of(name):
    """A model, and the figures of it that are drawn in tests."""
    family, settings = MODELS[name]
    model = vs.create(family, **settings)
    return model, every(model, () if name in WHOLE else ("model", "tokens", "input", "parameters"))


@pytest.mark.parametrize("name", MODELS)
def test_every_part_is_a_step_or_a_parameter_set_of_the_model(name):
    model, figures = drawn_of(name)
    trace = vs.dissect(model, given(model))
    sizes = {path: array.size for path, array in arrays(model.parameters, trained_only=True)}
    n = len(trace.tokens())
    for kind, drawn in figures:
        assert ids(drawn)
        for part in drawn.parts:
            numbered = placed(part.id, model, n)
            step = placed(part.step, model, n)
            assert not step or step in trace, (kind, part)
            members = [placed(member, model, n) for member in part.members]
            held = [s for p, s in sizes.items() if any(_within(p, one) for one in members)]
            assert not members or part.count == sum(held), (kind, part)
            if part.id == "theta":
                assert part.count == sum(sizes.values()) == vs.count(model).total
            elif part.parameters:
                inside = [s for p, s in sizes.items() if _within(p, numbered)]
                assert inside, (kind, part)
                assert part.kind == "more" or part.count == sum(inside), (kind, part)
            else:
                assert step or members, (kind, part)


def placed(name, model, n):
    """A name with the last layer, the first head and the last time in place of their letters."""
    name = re.sub(r"(?<=\[)l(?=[\],])", str(model.config.layers), name)
    return re.sub(r"(?<=,)[in](?=\])", str(n), re.sub(r"(?<=[\[,])m(?=\])", "1", name))


def _within(path, whole):
    """Whether an array belongs to a set: ``Phi[1].W`` to ``Phi[1]`` and to ``Phi``."""
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


@pytest.mark.parametrize("name", MODELS)
def test_dimensions_in_letters_and_in_numbers_are_those_of_the_arrays(name):
    model, figures = drawn_of(name)
    sizes = {path: array.size for path, array in arrays(model.parameters, trained_only=True)}
    kinds = set()
    for kind, drawn in figures:
        for group in ElementTree.fromstring(drawn.svg).iter(f"{SVG}g"):
            if group.get("class") != "dims" or not group.get("of", group.get("data-of")):
                continue
            letters, numbers = written(group)
            paths = [placed(path, model, 1) for path in group.get("data-of").split()]
            size = sum(sizes[path] for path in paths)
            size *= model.config.heads if letters.startswith("M × ") else 1
            shown = np.prod([int(one.replace(",", "")) for one in numbers.split(" × ")])
            assert shown == value_of(letters, model, paths[0]) == size, (kind, letters, numbers)
            kinds.add(kind)
    assert {"model", "tokens", "parameters"} <= kinds


def value_of(letters, model, path):
    """What dimensions in letters come to: ``|V| × d_e``, ``4 × d_o × (d_i + d_o)``."""
    known = model.config.symbols()
    first = path.startswith("Phi[1]")
    names = {"|V|": "V", "|Y|": "Y", "P²C": "P2C", "s": "segments"}
    names["di"] = "d_e" if first else "d_o"

    def number(match):
        name = match[0]
        return str(known[names.get(name) or (f"d_{name[1]}" if name[0] == "d" else name)])

    plain = re.sub(r"^\w: ", "", letters)
    sums = re.sub(r"\|V\||\|Y\||P²C|d[ekvfhoi]|[MnCPTs]", number, plain).replace("−", "-")
    return eval(re.sub(r" × |(?<=\d) (?=\d)", "*", sums))


@pytest.mark.parametrize("name", MODELS)
def test_an_arrow_ends_before_its_head_would_stand_in_the_box_that_it_leaves(name):
    for kind, drawn in drawn_of(name)[1]:
        paths = [node.get("d") for node in ElementTree.fromstring(drawn.svg).iter(f"{SVG}path")]
        for line, head in pairwise(paths):
            if not head.endswith("Z"):
                continue
            *_, before, _end = re.findall(r"(-?[\d.]+) (-?[\d.]+)", line)
            tip = re.match(r"M(-?[\d.]+) (-?[\d.]+)", head).groups()
            far = sum(abs(float(a) - float(b)) for a, b in zip(before, tip, strict=True))
            assert far >= 9, (kind, line, head)


@pytest.mark.parametrize("name", MODELS)
def test_brown_are_the_biases_that_attention_may_do_without(name):
    model, _ = drawn_of(name)
    root = ElementTree.fromstring(vs.figure(model, "parameters").svg)
    brown = {
        group.get("id")
        for group in root.iter(f"{SVG}g")
        if any("fill-bias" in (node.get("class") or "") for node in group.findall(f"{SVG}text"))
    }
    paths = [path for path, _ in arrays(model.parameters, trained_only=True)]
    may = {path for path in paths if re.search(r"Gamma\.(b_O|Psi\[1\]\.b_[QKV])$", path)}
    assert {placed(path, model, 1) for path in brown} == {
        path
        for path in may
        if path.startswith(f"Phi[{1 if len(may) == 0 else model.config.layers}]")
    }


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


def test_a_set_names_all_that_it_holds():
    def letters(model, part, name, text=None):
        drawn = ElementTree.fromstring(vs.figure(model, part, text).svg)
        group = drawn.findall(f".//{SVG}g[@id='{name}']")[-1]
        return re.findall(r"[^\s{},=]+", " ".join(written(group)[:-1]))

    gpt = vs.create("gpt2", **SMALL | {"heads": 2, "layers": 1})
    head = letters(gpt, "head[1,2]", "Phi[1].Gamma.Psi[2]")
    assert head == ["Ψ2[1]", *(f"{a}2{one}[1]" for a in "Wb" for one in "QKV")]
    assert letters(gpt, "attention[1]", "Phi[1].Gamma")[1:] == ["Ψ1[1]", "Ψ2[1]", "WO[1]", "bO[1]"]
    plain = vs.create("gpt2", **SMALL | {"heads": 2, "layers": 1, "attention_bias": False})
    assert letters(plain, "attention[1]", "Phi[1].Gamma")[1:] == ["Ψ1[1]", "Ψ2[1]", "WO[1]"]
    vit = vs.create(*MODELS["vit"][:1], **MODELS["vit"][1])
    assert letters(vit, "tokens", "theta") == ["θ", "E", "be", "xclass", "Λ", "Φ", "Ξe", "ΠY"]
    assert letters(vit, "input", "input") == ["E", "be", "xclass", "Λ"]
    bert = vs.create(*MODELS["bert, whole"][:1], **MODELS["bert, whole"][1])
    assert letters(bert, "input", "input") == ["E", "Λs", "Λp", "Ξe"]


@pytest.mark.parametrize("part", ["tokens", "input"])
@pytest.mark.parametrize("name", ["bert, whole", "post-norm, fixed positions"])
def test_what_is_normalised_before_the_first_block_is_drawn_so(name, part):
    model = vs.create(MODELS[name][0], **MODELS[name][1])
    drawn = {one.id: one for one in vs.figure(model, part).parts}
    assert drawn["H[0]"].label == "layerNorm"
    assert drawn["Xi_e"].count == 24
    shown = texts(vs.figure(model, part))
    assert shown.index("layerNorm") < shown.index("h1[0]")


def test_an_image_gets_a_class_token_and_positions():
    model = vs.create(MODELS["vit"][0], **MODELS["vit"][1])
    drawn = vs.figure(model, "input")
    assert {"x_class", "Lambda", "X", "H[0]"} <= ids(drawn)
    shown = texts(drawn)
    assert {"xclass", "λ1", "h1[0]", "P1", "ω1", "x1", "λ2"} <= set(shown)
    assert "P4" in shown
    assert "x4" in shown
    assert "h5[0]" in shown


def test_a_block_in_the_middle_does_not_read_the_embeddings():
    model = vs.create("gpt2", **SMALL | {"heads": 2, "layers": 5})
    for part, below in (("model", "H[l−1]"), ("model[3]", "H[2]")):
        shown = texts(vs.figure(model, part))
        assert shown.index("H[0]") < shown.index(below) < shown.index("H[5]")
    assert "blocks 1 to 2" in texts(vs.figure(model, "model[3]"))
    assert texts(vs.figure(model, "model[1]")).count("H[0]") == 1
    recurrent = vs.create("lstm", **SMALL | {"layers": 3})
    assert "hi[l−1]" in texts(vs.figure(recurrent, "model"))


def test_words_of_their_own_have_one_hot_vectors_of_their_own():
    model = vs.create("gpt2", **SMALL | {"heads": 2, "layers": 1})
    root = ElementTree.fromstring(vs.figure(model, "input", [7, 8, 7, 9, 38]).svg)
    ones = {}
    for node in root.iter(f"{SVG}rect"):
        if "fill-ink" in (node.get("class") or ""):
            ones[float(node.get("x"))] = float(node.get("y"))
    rows = [ones[x] for x in sorted(ones)]
    assert len(rows) == 5
    assert rows[0] == rows[2]
    assert len(set(rows)) == 4


def test_outputs_and_states_have_the_colours_of_their_values():
    trace = vs.dissect("lstm", "He shook his")
    svg = vs.figure(trace, "tokens").svg
    for k, column in enumerate(trace["Y_hat"].T):
        assert svg.count(colour(float(column.max()), 1, True, "light")[0]) >= 1
        state = np.stack([trace[f"h[2,{i}]"] for i in (1, 2, 3)], axis=1).astype(np.float64)
        for value in state[:5, k]:
            assert colour(float(value), limit_of(state), True, "light")[0] in svg


@pytest.mark.parametrize("gate", ["forget", "add", "output"])
def test_a_gate_does_not_look_as_if_it_amplified(gate):
    trace = vs.dissect("lstm", "He shook his")
    root = ElementTree.fromstring(vs.figure(trace, f"{gate}[2]").svg)
    source, _, result = GATES[gate]
    time = 2 if gate == "forget" else 3
    groups = [root.find(f".//{SVG}g[@id='{n}']") for n in (f"{source}[2,{time}]", f"{result}[2,3]")]
    heights = [[float(n.get("height")) for n in group.iter(f"{SVG}rect")] for group in groups]
    assert all(after <= before + 0.51 for before, after in zip(*heights, strict=True))
    values = np.abs(trace[f"{result}[2,3]"])
    before = np.abs(trace[f"{source}[2,{time}]"])
    before = np.tanh(before) if gate == "output" else before
    assert max(heights[1]) == pytest.approx(
        44 * values[np.argsort(-before)[:20]].max() / max(before.max(), values.max()), abs=0.02
    )


def test_the_query_reaches_the_keys_at_its_right():
    model = vs.create("bert", **MODELS["bert, its backbone"][1])
    figure = vs.figure(model, "query[1,1]", [1, 2, 3, 4, 5], position=1)
    group = ElementTree.fromstring(figure.svg).find(f".//{SVG}g[@id='q[1,1]']")
    lines = [
        [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", node.get("d"))]
        for node in group.findall(f"{SVG}path")
        if not node.get("d").endswith("Z")
    ]
    level, left, right = next((a[1], a[0], b[0]) for a, *_, b in lines if a[1] == b[1])
    reached = [line[0][0] for line in lines if line[0][1] == level and line[-1][1] != level]
    assert len(reached) == 5
    assert left <= min(reached)
    assert right >= max(reached)


def test_a_layer_of_an_lstm_names_its_gates_and_shows_its_matrices():
    shown = texts(vs.figure("lstm", "layer"))
    assert {"forget gate", "add gate", "output gate"} <= set(shown)
    assert {f"{array}{gate}[l]" for array in "UWb" for gate in "PRQS"} <= set(shown)


def test_a_picture_says_what_it_is():
    titled, plain = (vs.figure("gpt", "block", titled=one) for one in (True, False))
    assert titled.title == "Figure 14b: one transformer block, variant 2"
    assert titled.title in " ".join(texts(titled))
    assert "gpt2" in " ".join(texts(titled)) or "gpt:" in " ".join(texts(titled))
    assert titled.title not in " ".join(texts(plain))
    assert titled.parts == plain.parts
    with pytest.raises(ValueError, match="titled"):
        vs.figure("gpt", titled="no")

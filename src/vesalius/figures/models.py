"""Whole models, matrix by matrix, with one layer opened: Figures 4, 7, 16, 24 in one manner.

``n`` tokens are the columns of one matrix here; ``tokens`` draws them side by side.
"""

from collections.abc import Callable
from dataclasses import replace

from vesalius.figures import recurrent
from vesalius.figures.blocks import FRAMED, block, norm_name
from vesalius.figures.column import GAP, LOW, Column
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.sets import Dims, dims
from vesalius.figures.subject import Subject, times

NUMBER = "16"
"""Of the paper, for transformers; the rows of other families say theirs."""


def model_figure(d: Drawing, s: Subject) -> str:
    """The whole model, from what it reads to what it gives."""
    s = replace(s, layer=1) if s["L"] == 1 else s
    column = Column(d, s)
    _read(column)
    if "M" in s.symbols:
        add_positions(column)
        _layers(column, lambda: block(column, _layer_name(s, "block")))
        _after(column)
    elif s.family.window:
        column.box("concatenate", "h_0", times(s["n"] * s["d_e"]))
        _layers(column, lambda: _dense(column))
        _words(column, "z", "y_hat", times(s["V"]))
    else:
        _layers(column, lambda: recurrent.cell_in_model(column, _layer_name(s, "layer")))
        if s.has("W_Y"):
            _labels(column)
        _words(column, "Z", "Y_hat", times(s["V"], s.n))
    total = s.count("theta")
    with d.part(Part("theta", "θ", "set", count=total), f"all parameters: {total:,}"):
        right, low = d.right - 2, d.bottom
        d.maths(right, low - 16, "θ", 12.5, "parameter", "end", underlined=True)
        d.text(right, low - 2, f"{total:,}", 9, "soft", "end", fixed=True)
    number = s.family.figures.get("model", NUMBER)
    return f"The whole model, as Figure {number}"


def _layer_name(s: Subject, what: str) -> str:
    return f"{what} {s.layer} of {s['L']}" if s.layer else f"{what} l, of {s['L']}"


def _read(column: Column) -> None:
    """From the input to the embeddings X."""
    s = column.subject
    wide = times(s["d_e"], s.n)
    if s.family.reads == "images":
        patches = (s["n"] - 1, s["P2C"])
        column.begin("I", times(s["H"], s["H"], s["C"]))
        column.box("patches", "Omega", times(*patches[::-1]))
        column.box("projection", "X_0", times(s["d_e"], patches[0]), path="E", dims=dims(s, "E"))
        _bias(column, "b_e")
        column.box("class token first", "X", wide, path="x_class", dims=dims(s, "x_class"))
    elif s.family.by_channel:
        column.begin("Ω", times(s["C"], s["tau"]))
        column.box("instance norm", "Omega_n", times(s["C"], s["tau"]))
        if s.has("Xi_r"):
            column.box("gain", "Omega_bar", times(s["C"], s["tau"]), path="Xi_r")
        column.box("patches", "Omega_p", times(s["P"], s.n))
        column.box("projection", "X", wide, path="E", dims=dims(s, "E"))
        _bias(column, "b_e")
    elif s.family.reads == "series":
        column.begin("Ω", times(s["C"], s.n), s.given, s.given)
        project_series(column)
    else:
        column.begin("Ω", times(s["V"], s.n))
        # Below the first recurrent layer stand its dimensions, apart from those of the embedding.
        gap = 2 * GAP if s.layer == 1 and s.family.carries_state else GAP
        column.box("embedding", "X", wide, path="E", dims=dims(s, "E"), gap=gap)


def project_series(column: Column) -> None:
    """Every time step as a vector, scaled as TST's authors have it."""
    s = column.subject
    wide = times(s["d_e"], s.n)
    column.box("projection", "X_0", wide, path="E", dims=dims(s, "E"))
    _bias(column, "b_e")
    column.box("× √d_e", "X", wide, maths=True)


def _bias(column: Column, path: str) -> None:
    """The bias of the box that was drawn last, beside its matrix."""
    column.set(column.y + GAP + LOW / 2, path, column.x + column.half + 56)


def add_positions(column: Column) -> None:
    """From X to H[0]: positions, segments where there are any, a normalisation in variant 1."""
    s = column.subject
    wide = times(s["d_e"], s.n)
    bert = s.has("Lambda_p")
    normed = s.has("Xi_e") and s["order"] == "post"
    y = column.plus("" if normed else "H[0]", "" if normed else wide, gap=16 if normed else GAP)
    if bert:
        column.from_right(y, "Lambda_p")
        at = column.x - column.half - 10
        d = column.drawing
        d.line((at + 4, y), (column.x - 8, y))
        column.set(y, "Lambda_s", at, anchor="end")
    else:
        column.from_right(y, "Lambda", "Λ, fixed")
        if s.has("Lambda"):
            column.dims(y, dims(s, "Lambda"))
    if normed:
        column.box(norm_name(s), "H[0]", wide, path="Xi_e", dims=dims(s, "Xi_e.alpha"))


def _layers(column: Column, draw: Callable[[], None]) -> None:
    """One layer opened, between those below and above it, which are dots."""
    s = column.subject
    L, l = s["L"], s.layer
    if l is None:
        _more(column, "1", "l − 1", "l−1")
        draw()
        _more(column, "l + 1", str(L), str(L))
        return
    if l > 1:
        _more(column, "1", str(l - 1), str(l - 1), l - 1)
    draw()
    if l < L:
        _more(column, str(l + 1), str(L), str(L), l + 1)
    else:
        column.rise("", "", 18)


def _more(column: Column, first: str, last: str, given: str, next_: int = 0) -> None:
    """Layers that are not drawn, and what the last of them gives; a page goes to the next."""
    s, d = column.subject, column.drawing
    what = "block" if "M" in s.symbols else "layer"
    said = f"{what} {first}" if first == last else f"{what}s {first} to {last}"

    def drawn() -> None:
        d.dots(column.x, column.y - 8)
        d.text(column.x + 10, column.y - 4.5, said, 9.5, "soft")

    if next_:
        name = f"Phi[{next_}]"
        with d.part(Part(name, said, "more", parameters=name), f"go to {what} {next_}"):
            drawn()
    else:
        drawn()
    column.y -= 16
    gap = GAP + (10 if first != "1" else 0)  # heads branch off above the last layer
    if "M" in s.symbols:
        column.rise(f"H^{{[{given}]}}", times(s["d_e"], s.n), gap)
    else:
        step = f"h[{given}]" if s.family.window else s.at(f"h[{given},i]")
        column.rise(s.state(step), times(s["d_h" if s.family.window else "d_o"]), gap)


def _dense(column: Column) -> None:
    """The dense layers of the feedforward model (23)."""
    s = column.subject
    bottom = column.y
    column.framed = FRAMED
    column.rise("", "", 12)
    label = f"dense, {s['activation']}"
    wide, of = times(s["d_h"]), dims(s, "Phi[l].W")
    column.box(label, "h[l]", wide, path="Phi[l]", dims=of, gap=GAP + 15)
    column.framed = 0
    column.frame(bottom, _layer_name(s, "layer"))


def _words(column: Column, logits: str, odds: str, shape: str) -> None:
    """From the last states to a distribution over the vocabulary."""
    s = column.subject
    if s.has("U"):
        column.box("logits", logits, shape, path="U", dims=dims(s, "U"), fill="output")
    else:
        y = column.box("logits", logits, shape, fill="output")
        column.drawing.maths(column.x + column.half + 8, y + 4, "E^T, tied", 11, "soft")
    if s.has("b_U"):
        _bias(column, "b_U")
    column.box("softmax", odds, shape, letter="")
    _end(column, odds)


def _end(column: Column, step: str, x: float = 0.0) -> None:
    """The letter of what comes out, on top."""
    s = column.subject
    column.drawing.maths(column.x, column.y - 5, s.state(step), 13.5, "output", "middle")


def _after(column: Column) -> None:
    """What follows a transformer's last block, by family."""
    s = column.subject
    wide = times(s["d_e"], s.n)
    if s.family.reads == "images":
        return _image_heads(column, wide)
    if s.family.by_channel:
        return _forecast_head(column)
    if s.family.reads == "series":
        return _series_head(column, wide)
    if s.has("Lambda_s"):
        return _bert_heads(column, wide)
    if s["order"] == "pre":
        gain, gap = dims(s, "Xi_e.alpha"), GAP + 10 * s.has("W_Y")
        column.box(norm_name(s), "H_e", wide, path="Xi_e", dims=gain, gap=gap)
    if s.has("W_Y"):
        _labels(column)
    return _words(column, "Z", "Y_hat", times(s["V_U"], s.n))


def _labels(column: Column) -> None:
    """The label head of a language model, on the last token's state or on the mean of all."""
    mean = column.subject["pooling"] == "mean"
    boxes = [("mean", "h_bar", "")] if mean else []
    _side(column, [*boxes, ("labels", "z", "W_Y")], read="h_1 … h_n" if mean else "h_n")


def _image_heads(column: Column, wide: str) -> None:
    s = column.subject
    gain, gap = dims(s, "Xi_e.alpha"), GAP + 10 * s.has("Pi_R")
    column.box(norm_name(s), "H_e", wide, path="Xi_e", dims=gain, gap=gap)
    side = []
    if s.has("Pi_C"):
        side.append(("pooler", "h_C", "Pi_C"))
    if s.has("Pi_Y") and s.has("Pi_R"):
        side.append(("class head", "z", "Pi_Y"))
    _side(column, side)
    if s.has("Pi_R"):
        shape, of = times(s["P2C"], s["n"] - 1), Dims() if side else dims(s, "Pi_R.W")
        column.box("restore patches", "Omega_hat", shape, path="Pi_R", dims=of, letter="")
        _end(column, "Omega_hat")
    elif s.has("Pi_Y"):
        of = Dims() if side else dims(s, "Pi_Y.W")
        column.box("class head", "z", times(s["Y"]), path="Pi_Y", dims=of, letter="")
        _end(column, "z")


def _series_head(column: Column, wide: str) -> None:
    s = column.subject
    column.box(str(s["activation"]), "H_e", wide)
    if s["series"]:
        of = dims(s, "Pi_Y.W")
        column.box("output layer", "Omega_hat", times(s["C"], s.n), path="Pi_Y", dims=of, letter="")
        return _end(column, "Omega_hat")
    column.box("concatenate", "h_0", times(s["n"] * s["d_e"]))
    of = dims(s, "Pi_Y.W")
    column.box("output layer", "z", times(s["Y"]), path="Pi_Y", dims=of, letter="")
    return _end(column, "z")


def _forecast_head(column: Column) -> None:
    """Each channel's states in one vector, and what follows at the level of its series."""
    s = column.subject
    column.box("flatten", "H_f", times(s["nd_e"], s["C"]))
    of = dims(s, "Pi_Y.W")
    column.box("output layer", "Y_n", times(s["T"], s["C"]), path="Pi_Y", dims=of)
    if s.has("Xi_r"):
        column.box("gain undone", "Y_u", times(s["C"], s["T"]))
    column.box("× σ, + μ", "Omega_hat", times(s["C"], s["T"]), letter="")
    _end(column, "Omega_hat")


def _bert_heads(column: Column, wide: str) -> None:
    """Figure 24: the MLM head goes on, the heads that read the first token branch off."""
    s = column.subject
    side = [("pooler", "h_C", "Pi_C")] if s.has("Pi_C") else []
    if s.has("Pi_N"):
        side += [("NSP", "z_C", "Pi_N"), ("softmax", "y_hat_C", "")]
    labels = s.has("Pi_Y")
    read = "h_1"
    if labels and s["labelled"] == "sequence" and s["pooling"] == "mean" and not side:
        side, read, labels = [("mean", "h_bar", ""), ("labels", "z", "Pi_Y")], "h_1 … h_n", False
    elif labels and s["labelled"] == "sequence" and not s.has("Pi_N"):
        side.append(("labels", "z", "Pi_Y"))
        labels = False
    if not s.has("Pi_M") and not labels:
        return _side(column, side, alone=True, read=read)
    _side(column, side, read=read)
    if s.has("Pi_M"):
        column.box("dense, " + str(s["activation"]), "H_M", wide, path="Pi_M")
        column.box(norm_name(s), "H_O", wide, path="Xi_m")
        y = column.box("logits", "Z", times(s["V"], s.n), fill="output")
        column.drawing.maths(column.x + column.half + 8, y - 11, "E^T, tied", 11, "soft")
        column.set(y + 6, "b_E")
        column.box("softmax", "Y_hat", times(s["V"], s.n), letter="")
        return _end(column, "Y_hat")
    column.box("label head", "z", "", path="Pi_Y", letter="")
    return _end(column, "z")


def _side(
    column: Column, boxes: list[tuple[str, str, str]], alone: bool = False, read: str = "h_1"
) -> None:
    """Heads that read one token's state: a narrow column of their own, at the left."""
    s, d = column.subject, column.drawing
    if not boxes:
        return
    x = column.x - column.half - 58
    start = column.y + 13
    side = Column(d, s, x, 40)
    side.y = column.y - 12
    if alone:
        d.line(
            (column.x, column.y),
            (column.x, column.y - 14),
            (x, column.y - 14),
            (x, column.y - 34),
            head=True,
        )
        side.y = column.y - 34
    else:
        d.line((column.x, start), (x, start), (x, side.y))
    d.maths(x - 7, side.y + (14 if alone else 11), read, 11, "state", "end")
    for label, step, path in boxes:
        top = side.y - LOW
        count = s.count(path) if path else 0
        with d.part(Part(step, label, "box", step), f"{label} gives {step}"):
            d.rect(x - 40, top, 80, LOW)
            d.text(x, top + (10.5 if count else 15.5), label, 10, anchor="middle")
            side.y = top
            fill = "state" if step in ("h_C", "h_bar") else "output"
            side.rise("" if step == boxes[-1][1] else s.state(step), "", GAP, fill)
        if count:
            with d.part(
                Part(path, s.letter(path), "set", parameters=path, count=count),
                f"{path}: {count:,} parameters",
            ):
                d.maths(x - 34, top + 19, s.letter(path), 9, "parameter", underlined=True)
                d.text(x + 35, top + 19.5, f"{count:,}", 8, "soft", "end", fixed=True)
    d.maths(x, side.y - 5, s.state(boxes[-1][1]), 13, "output", "middle")

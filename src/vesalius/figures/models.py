"""Whole models, matrix by matrix, with one layer opened: Figures 4, 7, 16, 24 in one manner.

``n`` tokens are the columns of one matrix here; ``tokens`` draws them side by side.
"""

from collections.abc import Callable

from vesalius.figures import recurrent
from vesalius.figures.blocks import FRAMED, block, norm_name
from vesalius.figures.column import GAP, LOW, Column, shape_of
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.subject import Subject, times

NUMBER = "16"
"""Of the paper, for transformers; the rows of other families say theirs."""


def model_figure(d: Drawing, s: Subject) -> str:
    """The whole model, from what it reads to what it gives."""
    column = Column(d, s)
    _read(column)
    if "M" in s.symbols:
        _positions(column)
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
    return f"{s.name}, {s.family.title}, as Figure {number}"


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
        dims = shape_of(s, "E", "d_e", "P²C")
        column.box("projection", "X_0", times(s["d_e"], patches[0]), path="E", dims=dims)
        _bias(column, "b_e")
        column.box("class token first", "X", wide, path="x_class", dims=("d_e", times(s["d_e"])))
    elif s.family.by_channel:
        column.begin("Ω", times(s["C"], s["tau"]))
        column.box("instance norm", "Omega_n", times(s["C"], s["tau"]))
        if s.has("Xi_r"):
            column.box("gain", "Omega_bar", times(s["C"], s["tau"]), path="Xi_r")
        column.box("patches", "Omega_p", times(s["P"], s.n))
        column.box("projection", "X", wide, path="E", dims=shape_of(s, "E", "d_e", "P"))
        _bias(column, "b_e")
    elif s.family.reads == "series":
        column.begin("Ω", times(s["C"], s.n), s.given, s.given)
        column.box("projection", "X_0", wide, path="E", dims=shape_of(s, "E", "d_e", "C"))
        _bias(column, "b_e")
        column.box("× √d_e", "X", wide, maths=True)
    else:
        column.begin("Ω", times(s["V"], s.n))
        column.box("embedding", "X", wide, path="E", dims=shape_of(s, "E", "d_e", "|V|"))


def _bias(column: Column, path: str) -> None:
    """The bias of the box that was drawn last, beside its matrix."""
    column.set(column.y + GAP + LOW / 2, path, column.x + column.half + 56)


def _positions(column: Column) -> None:
    s = column.subject
    wide = times(s["d_e"], s.n)
    bert = s.has("Lambda_p")
    normed = s.has("Xi_e") and s["variant"] == 1
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
            column.dims(y, *shape_of(s, "Lambda", "d_e", "n"))
    if normed:
        column.box(norm_name(s), "H[0]", wide, path="Xi_e", dims=("d_e", times(s["d_e"])))


def _layers(column: Column, draw: Callable[[], None]) -> None:
    """One layer opened, and what lies below and above it."""
    s = column.subject
    below = 0 if s.layer is None else s.layer - 1
    above = 0 if s.layer is None else s["L"] - s.layer
    _more(column, 1, below, below)
    draw()
    _more(column, s["L"] - above + 1, s["L"], s["L"] - above + 1)
    if not above:
        column.rise("", "", 18)


def _more(column: Column, first: int, last: int, next_: int) -> None:
    """Layers that are not drawn; a page goes to the next of them."""
    s, d = column.subject, column.drawing
    if last < first or s.layer is None:
        return
    what = "block" if "M" in s.symbols else "layer"
    said = f"{what} {first}" if first == last else f"{what}s {first}–{last}"
    with d.part(
        Part(f"Phi[{next_}]", said, "more", parameters=f"Phi[{next_}]"), f"go to {what} {next_}"
    ):
        d.dots(column.x, column.y - 6)
        d.text(column.x + 10, column.y - 2.5, said, 9.5, "soft")
    column.y -= 14
    column.rise("", "", 18)


def _dense(column: Column) -> None:
    """The dense layers of the feedforward model (23)."""
    s = column.subject
    bottom = column.y
    column.framed = FRAMED
    column.rise("", "", 12)
    columns = ("n d_e", s["n"] * s["d_e"]) if (s.layer or s["L"]) == 1 else ("d_h", s["d_h"])
    dims = (f"d_h × {columns[0]}", times(s["d_h"], columns[1]))
    label = f"dense, {s['activation']}"
    column.box(label, "h[l]", times(s["d_h"]), path="Phi[l]", dims=dims, gap=GAP + 15)
    column.framed = 0
    column.frame(bottom, _layer_name(s, "layer"))


def _words(column: Column, logits: str, odds: str, shape: str) -> None:
    """From the last states to a distribution over the vocabulary."""
    s = column.subject
    if s.has("U"):
        u = s.shape("U") or ()
        inner = "d_e" if "M" in s.symbols else "d_h" if s.family.window else "d_o"
        column.box(
            "logits", logits, shape, path="U", dims=(f"|V| × {inner}", times(*u)), fill="output"
        )
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
    if s["variant"] == 2:
        column.box(norm_name(s), "H_e", wide, path="Xi_e", dims=("d_e", times(s["d_e"])))
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
    column.box(norm_name(s), "H_e", wide, path="Xi_e", dims=("d_e", times(s["d_e"])))
    side = []
    if s.has("Pi_C"):
        side.append(("pooler", "h_C", "Pi_C"))
    if s.has("Pi_Y") and s.has("Pi_R"):
        side.append(("class head", "z", "Pi_Y"))
    _side(column, side)
    if s.has("Pi_R"):
        shape, dims = times(s["P2C"], s["n"] - 1), ("P²C × d_e", times(s["P2C"], s["d_e"]))
        dims = ("", "") if side else dims
        column.box("restore patches", "Omega_hat", shape, path="Pi_R", dims=dims, letter="")
        _end(column, "Omega_hat")
    elif s.has("Pi_Y"):
        dims = ("", "") if side else ("|Y| × d_e", times(s["Y"], s["d_e"]))
        column.box("class head", "z", times(s["Y"]), path="Pi_Y", dims=dims, letter="")
        _end(column, "z")


def _series_head(column: Column, wide: str) -> None:
    s = column.subject
    column.box(str(s["activation"]), "H_e", wide)
    if s["series"]:
        dims = shape_of(s, "Pi_Y.W", "C", "d_e")
        column.box(
            "output layer", "Omega_hat", times(s["C"], s.n), path="Pi_Y", dims=dims, letter=""
        )
        return _end(column, "Omega_hat")
    column.box("concatenate", "h_0", times(s["n"] * s["d_e"]))
    dims = shape_of(s, "Pi_Y.W", "|Y|", "n d_e")
    column.box("output layer", "z", times(s["Y"]), path="Pi_Y", dims=dims, letter="")
    return _end(column, "z")


def _forecast_head(column: Column) -> None:
    """Each channel's states in one vector, and what follows at the level of its series."""
    s = column.subject
    column.box("flatten", "H_f", times(s["nd_e"], s["C"]))
    dims = shape_of(s, "Pi_Y.W", "T", "n d_e")
    column.box("output layer", "Y_n", times(s["T"], s["C"]), path="Pi_Y", dims=dims)
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
        column.drawing.maths(column.x + column.half + 8, y - 8, "E^T, tied", 11, "soft")
        column.set(y + 8, "b_E")
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

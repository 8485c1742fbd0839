"""Recurrent layers: Figures 6 and 19 (Elman's), 23 (the LSTM's), 7, 18 and 20 (over time)."""

from vesalius.figures.column import GAP, Column, package, shape_of
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.subject import Subject, times

GATES = {
    "P": ("p", "σ", "forget"),
    "R": ("r", "σ", "add"),
    "Q": ("q", "tanh", ""),
    "S": ("s", "σ", "output"),
}
"""The four affine maps of an LSTM's layer, left to right: what each gives, and through what."""


ARRAYS = {"U": ("d_o", "d_o"), "W": ("d_o", "d_i"), "b": ("d_o",)}
"""What each has."""


def is_lstm(s: Subject) -> bool:
    return s.has("Phi[l].W_P")


def cell_in_model(column: Column, label: str) -> None:
    """A layer in its frame, within the whole model."""
    s, d = column.subject, column.drawing
    base = column.y
    out = lstm(d, s, column.x, base) if is_lstm(s) else elman(d, s, column.x, base)
    left, right = column.x - 104, column.x + 104
    d.rect(left, out, right - left, base - out, "state-wash", "state", 10, under=True)
    d.text(left + 9, out + 15, label, 9.5, "state", bold=True)
    column.y = out
    column.set(base - 58, "Phi[l]", right + 8)
    w, u = ("W_P", "U_P") if is_lstm(s) else ("W", "U")
    for i, (path, letters) in enumerate(((u, "d_o × d_o"), (w, "d_o × d_i"))):
        y = base - (104 if is_lstm(s) else 40) + 30 * i
        d.maths(left - 8, y, f"{path[0]}: {letters}", 10.5, "soft", "end")
        d.text(
            left - 8,
            y + 11.5,
            times(*(s.shape(f"Phi[l].{path}") or ())),
            9,
            "soft",
            "end",
            fixed=True,
        )


def _before(s: Subject, letter: str) -> str:
    """What comes from the token before."""
    low = "i−1"
    if s.length is not None:
        time = s.length if s.position is None else s.position + 1
        low = str(time - 1)
    return f"{letter}_{{{low}}}^{{[{s.index('l')}]}}"


def elman(d: Drawing, s: Subject, x: float, y: float) -> float:
    """Figure 19; where its output leaves at the top."""
    step = s.at("h[l,i]")
    low, plus, high = y - 40, y - 66, y - 112
    d.line((x, y), (x, low + 13))
    d.rect(x - 20, low - 13, 40, 26)
    d.maths(x, low + 4, s.letter("Phi[l].W"), 12, "parameter", "middle")
    d.line((x, low - 13), (x, plus + 8))
    d.sign(x, plus, "+")
    d.line((x - 118, plus), (x - 84, plus))
    d.rect(x - 84, plus - 13, 40, 26)
    d.maths(x - 64, plus + 4, s.letter("Phi[l].U"), 12, "parameter", "middle")
    d.line((x - 44, plus), (x - 8, plus))
    d.maths(x - 120, plus + 4, _before(s, "h"), 12, "state", "end")
    d.line((x + 52, plus), (x + 8, plus))
    d.maths(x + 56, plus + 4, s.letter("Phi[l].b"), 12, "bias")
    d.line((x, plus - 8), (x, high + 13))
    with d.part(Part(step, "activation", "box", step), f"gives {step}"):
        d.rect(x - 32, high - 13, 64, 26)
        d.text(x, high + 4, str(s.symbols.get("activation", "tanh")), 11.5, anchor="middle")
        d.line((x, high - 13), (x, high - 50), head=False)
        d.line((x, high - 34), (x + 118, high - 34))
        d.maths(x + 6, high - 18, s.state(step), 12, "state")
        d.text(x - 6, high - 18, times(s["d_o"]), 9, "soft", "end", fixed=True)
        d.maths(x + 121, high - 30, s.state(step), 12, "state")
    return high - 50


def lstm(d: Drawing, s: Subject, x: float, y: float) -> float:
    """Figure 23; where its output leaves at the top."""
    places = dict(zip(GATES, (x - 72, x - 24, x + 24, x + 72), strict=True))
    bus, box, c = y - 16, y - 46, y - 152
    product, right = c + 44, x + 118
    d.line((x, y), (x, bus), head=False)
    d.line((x - 118, bus), (places["S"], bus), (places["S"], box + 13))
    for letter in "PRQ":
        d.line((places[letter], bus), (places[letter], box + 13))
    d.maths(x - 120, bus + 4, _before(s, "h"), 12, "state", "end")
    for letter, (symbol, g, _) in GATES.items():
        at, step = places[letter], s.at(f"{symbol}[l,i]")
        with d.part(Part(step, f"{g} {letter}", "box", step), f"gives {step}"):
            d.rect(at - 19, box - 13, 38, 26)
            d.text(at, box + 4, g, 11, anchor="middle")
            end = {"P": c + 7, "S": c + 7}.get(letter)
            if end is not None:
                d.line((at, box - 13), (at, end))
            else:
                side = -1 if letter == "R" else 1
                d.line((at, box - 13), (at, product), (x + 7 * side, product))
            d.maths(at + 4, box - 19, symbol, 12, "score" if g == "σ" else "state")
    d.line((x - 118, c), (places["P"] - 7, c))
    d.maths(x - 120, c + 4, _before(s, "c"), 12, "state", "end")
    kept, added, context, shown = (s.at(f"{one}[l,i]") for one in "kdch")
    with d.part(Part(kept, "product", "sum", kept), f"gives {kept}"):
        d.sign(places["P"], c, "·", 7)
        d.line((places["P"] + 7, c), (x - 8, c))
        d.maths(x - 46, c - 5, "k", 12, "state")
    with d.part(Part(added, "product", "sum", added), f"gives {added}"):
        d.sign(x, product, "·", 7)
        d.line((x, product - 7), (x, c + 8))
        d.maths(x + 5, c + 22, "d", 12, "state")
    with d.part(Part(context, "sum", "sum", context), f"gives {context}"):
        d.sign(x, c, "+")
        d.line((x + 8, c), (x + 28, c))
        d.line((x + 14, c), (x + 14, c - 30), (right, c - 30))
        d.maths(right + 3, c - 26, s.state(context), 12, "state")
    d.rect(x + 28, c - 9, 30, 18, rounded=9)
    d.text(x + 43, c + 3.5, "tanh", 9.5, anchor="middle")
    d.line((x + 58, c), (places["S"] - 7, c))
    with d.part(Part(shown, "product", "sum", shown), f"gives {shown}"):
        d.sign(places["S"], c, "·", 7)
        d.line((places["S"] + 7, c), (right, c))
        d.maths(right + 3, c + 4, s.state(shown), 12, "state")
        d.line((x + 92, c), (x + 92, c - 48), (x, c - 48), (x, c - 72), head=False)
    return c - 72


def layer_figure(d: Drawing, s: Subject) -> str:
    """Figure 19 or 23, with its parameters."""
    lstm_ = is_lstm(s)
    below = "x_i" if s.layer == 1 else f"h_i^{{[{'l−1' if s.layer is None else s.layer - 1}]}}"
    column = Column(d, s, half=112)
    column.begin(below, "", fill="state")
    base = column.y
    out = lstm(d, s, 0, base) if lstm_ else elman(d, s, 0, base)
    d.rect(-104, out, 208, base - out, "state-wash", "state", 10, under=True)
    column.y = out
    column.rise("", "", 18)
    d.maths(0, column.y - 5, s.state(s.at("h[l,i]")), 13, "state", "middle")
    column.half = 178
    for k, (array, letters) in enumerate(ARRAYS.items()):
        first = f"Phi[l].{array}_P" if lstm_ else f"Phi[l].{array}"
        column.dims(out + 24 + 44 * k, f"{array}: {' × '.join(letters)}", shape_of(s, first)[1])
        for i, gate in enumerate(GATES if lstm_ else ("",)):
            path = f"Phi[l].{array}_{gate}" if lstm_ else first
            column.set(out + 24 + 44 * (i if lstm_ else k), path, 190 + 64 * k * lstm_)
    kind = "LSTM" if lstm_ else "rnn"
    sets = ["U^P", "W^P", "b^P", "…", "b^S"] if lstm_ else ["W", "U", "b"]
    package(d, s, f"{kind}_{{Φ[{s.index('l')}]}}", sets, "Phi[l]")
    return "Figure 23: an LSTM layer" if lstm_ else "Figure 19: an Elman layer"


__all__ = ["GAP", "cell_in_model", "layer_figure"]

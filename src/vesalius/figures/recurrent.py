"""Recurrent layers: Figures 6 and 19 (Elman's), 23 (the LSTM's), 7, 18 and 20 (over time)."""

from vesalius.figures.column import GAP, Column, package
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.sets import Dims, dims, repeated
from vesalius.figures.subject import Subject, times

GATES = {"P": ("p", "σ"), "R": ("r", "σ"), "Q": ("q", "tanh"), "S": ("s", "σ")}
"""The four affine maps of an LSTM's layer, left to right: what each gives, and through what."""
ARRAYS = "UWb"
"""What each has."""
HALF, PITCH = 112, 54
"""Half the width of a layer's frame, and the way from one gate to the next."""


def is_lstm(s: Subject) -> bool:
    return s.has("Phi[l].W_P")


def weights(s: Subject, layer: str) -> Dims:
    """The dimensions of a layer's matrices, that of its input and that of its past together."""
    if not is_lstm(s):
        return dims(s, f"{layer}.W", f"{layer}.U")
    every = [f"{layer}.{array}_{gate}" for gate in GATES for array in "WU"]
    return repeated("4", len(GATES), dims(s, f"{layer}.W_P", f"{layer}.U_P"), every)


def cell_in_model(column: Column, label: str) -> None:
    """A layer in its frame, within the whole model."""
    s, d = column.subject, column.drawing
    base = column.y
    out = lstm(d, s, column.x, base) if is_lstm(s) else elman(d, s, column.x, base)
    left, half = column.x - HALF, column.half
    d.rect(left, out, 2 * HALF, base - out, "state-wash", "state", 10, under=True)
    d.text(left + 9, out + 15, label, 9.5, "state", bold=True)
    column.y, column.half = out, HALF
    column.set(base - 58, "Phi[l]")
    column.half = half
    column.dims(base + 10, weights(s, "Phi[l]"))  # below, since a page's pane is narrow


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
    low, plus, high = y - 40, y - 86, y - 132
    left, right = x - HALF - 16, x + HALF + 16
    d.line((x, y), (x, low + 13), head=True)
    d.rect(x - 20, low - 13, 40, 26)
    d.maths(x, low + 4, s.letter("Phi[l].W"), 12, "parameter", "middle")
    d.line((x, low - 13), (x, plus + 8))
    d.sign(x, plus, "+")
    d.line((left, plus), (x - 84, plus))
    d.rect(x - 84, plus - 13, 40, 26)
    d.maths(x - 64, plus + 4, s.letter("Phi[l].U"), 12, "parameter", "middle")
    d.line((x - 44, plus), (x - 8, plus))
    d.maths(left - 3, plus + 4, _before(s, "h"), 12, "state", "end")
    d.line((x + 52, plus), (x + 8, plus))
    d.maths(x + 56, plus + 4, s.letter("Phi[l].b"), 12, "parameter")
    d.line((x, plus - 8), (x, high + 13))
    with d.part(Part(step, "activation", "box", step), f"gives {step}"):
        d.rect(x - 32, high - 13, 64, 26)
        d.text(x, high + 4, str(s.symbols.get("activation", "tanh")), 11.5, anchor="middle")
        d.line((x, high - 13), (x, high - 50), head=False)
        d.line((x, high - 34), (right, high - 34))
        d.circle(x, high - 34, 2, "ink", "none")
        d.maths(x + 6, high - 19, s.state(step), 12, "state")
        d.text(x - 6, high - 19, times(s["d_o"]), 9, "soft", "end", fixed=True)
        d.maths(right + 3, high - 30, s.state(step), 12, "state")
    return high - 50


def lstm(d: Drawing, s: Subject, x: float, y: float) -> float:
    """Figure 23; where its output leaves at the top."""
    bus, affine, g = y - 18, y - 36, y - 102
    product = g - 66
    c = product - 42
    places = _gates(d, s, x, bus, affine, g, {"P": c + 7, "S": c + 7, "R": product, "Q": product})
    left, right, P, S = x - HALF - 16, x + HALF + 16, places["P"], places["S"]
    d.line((x, y), (x, bus), head=False)
    d.line((left, bus), (S, bus), head=False)
    d.maths(left - 3, bus + 4, _before(s, "h"), 12, "state", "end")
    d.line((left, c), (P - 7, c))
    d.maths(left - 3, c + 4, _before(s, "c"), 12, "state", "end")
    kept, added, context, shown = (s.at(f"{one}[l,i]") for one in "kdch")
    with d.part(Part(kept, "forget gate", "sum", kept), f"the forget gate gives {kept}"):
        d.sign(P, c, "·", 7)
        d.line((P + 7, c), (x - 8, c))
        d.maths((P + x) / 2, c - 5, "k", 12, "state", "middle")
        d.text(P, c - 15, "forget gate", 9, "soft", "middle")
    with d.part(Part(added, "add gate", "sum", added), f"the add gate gives {added}"):
        d.sign(x, product, "·", 7)
        d.line((x, product - 7), (x, c + 8))
        d.maths(x + 6, (product + c) / 2 + 5, "d", 12, "state")
        d.text(x, product + 20, "add gate", 9, "soft", "middle")
    with d.part(Part(context, "sum", "sum", context), f"gives {context}"):
        d.sign(x, c, "+")
        d.line((x + 8, c), (x + 30, c))
        d.line((x + 16, c), (x + 16, c - 32), (right, c - 32))
        d.circle(x + 16, c, 2, "ink", "none")
        d.maths(right + 3, c - 28, s.state(context), 12, "state")
    d.rect(x + 30, c - 9, 28, 18, rounded=9)
    d.text(x + 44, c + 3.5, "tanh", 9.5, anchor="middle")
    d.line((x + 58, c), (S - 7, c))
    with d.part(Part(shown, "output gate", "sum", shown), f"the output gate gives {shown}"):
        d.sign(S, c, "·", 7)
        d.line((S + 7, c), (right, c))
        d.circle(S + 18, c, 2, "ink", "none")
        d.maths(right + 3, c + 4, s.state(shown), 12, "state")
        d.text(S - 11, c - 15, "output gate", 9, "soft", "middle")
        d.over(S + 18, c, c - 44, c - 32)
        d.line((S + 18, c - 44), (S + 18, c - 54), (x, c - 54), (x, c - 74), head=False)
    return c - 74


def _gates(
    d: Drawing, s: Subject, x: float, bus: float, low: float, g: float, ends: dict[str, float]
) -> dict[str, float]:
    """Four affine maps of the input and the past, and what each goes through; where they are."""
    places = {letter: x + (k - 1.5) * PITCH for k, letter in enumerate(GATES)}
    for letter, (symbol, function) in GATES.items():
        at, step = places[letter], s.at(f"{symbol}[l,i]")
        d.line((at, bus), (at, low))
        if letter != "S":
            d.circle(at, bus, 2, "ink", "none")
        d.rect(at - 21, low - 50, 42, 50)
        for k, array in enumerate(ARRAYS):
            name = s.letter(f"Phi[l].{array}_{letter}")
            d.maths(at, low - 36 + 15.5 * k, name, 11.5, "parameter", "middle")
        d.line((at, low - 50), (at, g))
        with d.part(Part(step, f"{function} {letter}", "box", step), f"gives {step}"):
            d.rect(at - 21, g - 24, 42, 24)
            d.text(at, g - 8, function, 11, anchor="middle")
            if letter in "PS":
                d.line((at, g - 24), (at, ends[letter]))
            else:
                side = -1 if letter == "R" else 1
                d.line((at, g - 24), (at, ends[letter]), (x + 7 * side, ends[letter]))
            d.maths(at + 4, g - 30, symbol, 12, "score" if function == "σ" else "state")
    return places


def layer_figure(d: Drawing, s: Subject) -> str:
    """Figure 19 or 23, with its parameters."""
    lstm_ = is_lstm(s)
    below = "x_i" if s.layer == 1 else f"h_i^{{[{'l−1' if s.layer is None else s.layer - 1}]}}"
    column = Column(d, s, half=HALF)
    column.begin(below, "", fill="state")
    base = column.y
    out = lstm(d, s, 0, base) if lstm_ else elman(d, s, 0, base)
    d.rect(-HALF, out, 2 * HALF, base - out, "state-wash", "state", 10, under=True)
    column.y = out
    column.rise("", "", 18)
    d.maths(0, column.y - 5, s.state(s.at("h[l,i]")), 13, "state", "middle")
    column.half = 188
    for k, array in enumerate(ARRAYS):
        first = f"Phi[l].{array}_P" if lstm_ else f"Phi[l].{array}"
        found = dims(s, first)
        column.dims(out + 24 + 44 * k, found._replace(letters=f"{array}: {found.letters}"))
        for i, gate in enumerate(GATES if lstm_ else ("",)):
            path = f"Phi[l].{array}_{gate}" if lstm_ else first
            column.set(out + 24 + 44 * (i if lstm_ else k), path, 196 + 64 * k * lstm_)
    kind = "LSTM" if lstm_ else "rnn"
    package(d, s, f"{kind}_{{Φ[{s.index('l')}]}}", "Phi[l]")
    return "Figure 23: an LSTM layer" if lstm_ else "Figure 19: an Elman layer"


__all__ = ["GAP", "cell_in_model", "layer_figure"]

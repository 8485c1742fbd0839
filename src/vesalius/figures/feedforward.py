"""Feedforward networks: the dense layers of Figure 9, and the network of a block (37)."""

from vesalius.figures.column import LOW, Column, package
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.sets import Dims, dims
from vesalius.figures.subject import Subject, times

MOST = 4
"""Layers that are drawn; of more, the first and the last."""


def serves(s: Subject) -> bool:
    return s.family.window or s.has("Phi[l].Pi")


def network_figure(d: Drawing, s: Subject) -> str:
    """Figure 9, or in its manner the network of a block."""
    return _dense_layers(d, s) if s.family.window else _of_block(d, s)


def _affine(column: Column, weights: str, bias: str) -> float:
    """A product with a matrix and a sum with a bias; where the sum is."""
    s, d = column.subject, column.drawing
    y = column.y - LOW / 2
    column.set(y, weights)
    column.dims(y, dims(s, weights))
    d.rect(column.x - column.half, column.y - LOW, 2 * column.half, LOW)
    d.maths(column.x, column.y - 7, s.letter(weights), 12.5, "parameter", "middle")
    column.y -= LOW
    column.rise("", "", 16)
    y = column.y - 7
    d.line((column.x + column.half + 6, y), (column.x + 7, y))
    column.set(y, bias)
    column.dims(y, dims(s, bias))
    return y


def _of_block(d: Drawing, s: Subject) -> str:
    column = Column(d, s, half=70)
    start = s.at("C_bar[l]" if s["order"] == "pre" else "C[l]")
    column.begin(s.state(start), times(s["d_e"], s.n), fill="state")
    y = _affine(column, "Phi[l].Pi.W_1", "Phi[l].Pi.b_1")
    d.sign(0, y, "+", 7)
    column.y = y - 7
    column.rise("", "", 16)
    column.box(str(s["activation"]), "F[l]", times(s["d_f"], s.n))
    y = _affine(column, "Phi[l].Pi.W_2", "Phi[l].Pi.b_2")
    name = s.at("D[l]")
    with d.part(Part(name, "sum", "sum", name), f"the sum gives {name}"):
        d.sign(0, y, "+", 7)
        column.y = y - 7
        column.rise("", times(s["d_e"], s.n))
        d.maths(0, column.y - 5, s.state(name), 13, "state", "middle")
    package(d, s, f"ffnn_{{Π[{s.index('l')}]}}", "Phi[l].Pi")
    return "The feedforward network of a block, equation 37, as Figure 9"


def _dense_layers(d: Drawing, s: Subject) -> str:
    column, L = Column(d, s, half=70), s["L"]
    places = [-96.0, -32.0, 32.0, 96.0]
    with d.part(Part("X", "embeddings", "vector", "X"), "X, a column for each token"):
        for k, x in enumerate(places):
            if k == 2:
                d.dots(x, -4, across=True)
                continue
            d.maths(x, 0, f"x_{{{(1, 2, 0, s['n'])[k]}}}", 13, "state", "middle")
            d.line((x, -14), (x, -32))
    column.half = 126
    column.dims(-5, Dims("d_e", times(s["d_e"])))
    column.half = 70
    with d.part(Part("h_0", "concatenate", "box", "h_0"), "concatenation gives h_0"):
        d.rect(-126, -55, 252, 23, "state-wash", "state", 5)
        d.text(0, -39.5, "concatenate", 11.5, anchor="middle")
        column.y = -55
        column.rise("h_0", times(s["n"] * s["d_e"]))
    drawn = list(range(1, L + 1)) if L <= MOST else [1, 2, 0, L]
    for l in drawn:
        if not l:
            d.dots(0, column.y - 9)
            column.y -= 18
            column.rise(f"h^{{[{L - 1}]}}", "")
            continue
        y = _affine(column, f"Phi[{l}].W", f"Phi[{l}].b")
        d.sign(0, y, "+", 7)
        column.y = y - 7
        column.rise("", "", 16)
        last = l == L
        column.box(str(s["activation"]), f"h[{l}]", times(s["d_h"]), letter="" if last else None)
    d.maths(0, column.y - 5, f"h^{{[{L}]}}", 13, "state", "middle")
    package(d, s, "ffnn_Φ", "Phi")
    return f"Figure 9: the feedforward network, {L} dense {'layer' if L == 1 else 'layers'}"

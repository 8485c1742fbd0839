"""The transformer's inside: Figures 15 (stack), 14 (block), 13 (attention), 12 (head).

Boxes have the names of the paper's functions; what the model has not is not drawn.
"""

import math

from vesalius.families.blocks import ORDERS
from vesalius.figures.column import GAP, LOW, Column, package
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.sets import dims, repeated
from vesalius.figures.subject import Subject, times

STUB = 17
"""Below a sublayer, where a residual connection leaves the line."""
FRAMED = 19
"""How much further out than its boxes a block's frame is."""
DRAWN = 32
"""Heads that have a box of their own; where there are more, none has."""


def norm_name(s: Subject) -> str:
    return f"{s['normalisation']}Norm"


def block(column: Column, label: str, path: str = "Phi[l]") -> None:
    """Figure 14 in a frame: variant 1 normalises after each sublayer, variant 2 before it."""
    s = column.subject
    wide, before = times(s["d_e"], s.n), s["order"] == "pre"
    bottom = column.y
    column.framed = FRAMED
    column.rise("", "", STUB)
    for state, xi in (("C[l]", "Phi[l].Xi_1"), ("H[l]", "Phi[l].Xi_2")):
        attends, start = state == "C[l]", column.y + STUB - 8
        gain = dims(s, f"{xi}.alpha")
        last = GAP + (STUB - 8 if attends else 15)
        if before:
            step = "H_bar[l]" if attends else "C_bar[l]"
            column.box(norm_name(s), step, wide, path=xi, dims=gain)
        if attends:
            heads_box(column, wide)
        else:
            inner = dims(s, "Phi[l].Pi.W_1")
            column.box("ffnn", "D[l]", wide, path="Phi[l].Pi", dims=inner)
        if before:
            column.past(start, column.plus(state, wide, last))
        else:
            column.past(start, column.plus("", gap=16))
            column.box(norm_name(s), state, wide, path=xi, dims=gain, gap=last)
    column.framed = 0
    column.frame(bottom, label, path)


def heads_box(column: Column, wide: str) -> None:
    """Multi-head attention with a small box for each head."""
    s, d = column.subject, column.drawing
    many = s["M"] if s["M"] <= DRAWN else 0
    rows = math.ceil(many / 8)
    each = math.ceil(many / rows) if rows else 0
    height = 22 + 18 * rows if many else LOW
    top = column.y - height
    of_heads = repeated("M", s["M"], dims(s, "Phi[l].Gamma.Psi[m].W_Q"))
    label = "multiHeadAttention"
    column.box(label, "A[l]", wide, path="Phi[l].Gamma", dims=of_heads, height=height)
    size = min(23.0, (2 * column.half - 8) / each - 3) if each else 0
    for m in range(many):
        in_row = min(each, many - m // each * each)
        x = column.x - (in_row * (size + 3) - 3) / 2 + m % each * (size + 3)
        y = top + 20 + 18 * (m // each)
        head = s.at(f"P[l,{m + 1}]")
        scores = head.replace("P", "mu")
        with d.part(Part(head, f"head {m + 1}", "head", scores), f"head {m + 1} gives {head}"):
            d.rect(x, y, size, 15, "raised", "score", 4)
            d.text(x + size / 2, y + 11, str(m + 1), 9, "score", "middle", bold=True)


def block_figure(d: Drawing, s: Subject) -> str:
    """Figure 14, a or b."""
    column = Column(d, s)
    column.begin(f"H^{{[{_below(s)}]}}", times(s["d_e"], s.n), fill="state")
    block(column, f"block {s.index('l')}" + (f" of {s['L']}" if s.layer else ""), path="")
    column.rise("", "", 18)
    d.maths(0, column.y - 5, s.state(s.at("H[l]")), 13, "state", "middle")
    package(d, s, f"transBlock_{{{_flat(s.letter('Phi[l]'))}}}", "Phi[l]")
    variant = list(ORDERS.values()).index(s["order"]) + 1
    return f"Figure 14{'ab'[variant - 1]}: one transformer block, variant {variant}"


def _below(s: Subject) -> str:
    return "l−1" if s.layer is None else str(s.layer - 1)


def _flat(letter: str) -> str:
    """A letter that can stand low: without braces."""
    return letter.replace("^{", "").replace("_{", "").replace("}", "")


def stack_figure(d: Drawing, s: Subject) -> str:
    """Figure 15: the blocks on each other; of many, the first and the last two."""
    column = Column(d, s, half=70)
    wide = times(s["d_e"], s.n)
    column.begin("H^{[0]}", wide, "H[0]", "H[0]", "state")
    L = s["L"]
    drawn = list(range(1, L + 1)) if L <= 5 else [1, 2, 0, L - 1, L]
    for l in drawn:
        if not l:
            d.dots(column.x, column.y - 9)
            column.y -= 20
            column.rise(f"H^{{[{L - 2}]}}", "")
            continue
        label = f"transBlock_{{Φ[{l}]}}"
        column.box(label, f"H[{l}]", wide, path=f"Phi[{l}]", height=30, maths=True)
    package(d, s, "transformer_Φ", "Phi")
    return f"Figure 15: {L} transformer blocks"


def attention_figure(d: Drawing, s: Subject) -> str:
    """Figure 13: every head reads the whole sequence; their results stand side by side."""
    M = s["M"]
    drawn = list(range(1, M + 1)) if M <= 6 else [1, 2, 3, 0, M]
    size, space = 74, 16
    left = -(len(drawn) * (size + space) - space) / 2
    before = s["order"] == "pre"
    letter = f"{'H̄' if before else 'H'}^{{[{s.index('l') if before else _below(s)}]}}"
    d.maths(0, 0, letter, 13, "state", "middle")
    d.text(18, -0.5, times(s["d_e"], s.n), 9, "soft", fixed=True)
    places = [left + i * (size + space) + size / 2 for i in range(len(drawn))]
    d.line((0, -14), (0, -34), head=False)
    d.line((places[0], -34), (places[-1], -34), head=False)
    for m, x in zip(drawn, places, strict=True):
        if not m:
            d.text(x, -78, "…", 16, "soft", "middle")
            continue
        d.line((x, -34), (x, -58))
        name = s.at(f"P[l,{m}]")
        scores = name.replace("P", "mu")
        with d.part(Part(name, f"head {m}", "head", scores), f"head {m} gives {name}"):
            d.rect(x - size / 2, -90, size, 32, "raised", "score")
            d.maths(
                x, -70, f"selfAttention_{{Ψ_{m}}}".replace(f"Ψ_{m}", f"Ψ{m}"), 9.5, anchor="middle"
            )
            d.line((x, -90), (x, -122))
            d.maths(x + 6, -102, f"P_{{{m}}}", 12, "state")
            d.text(x - 6, -102, times(s.n, s["d_v"]), 8.5, "soft", "end", fixed=True)
    wide = places[-1] - places[0] + size
    d.rect(places[0] - size / 2, -144, wide, 22, "score-wash", "score", 5)
    d.text(0, -129, "concatenate", 11, anchor="middle")
    column = Column(d, s, half=max(62, wide / 2))
    column.y = -144
    column.rise("P", times(s.n, s["Md_v"]))
    column.half = 62
    name = "Phi[l].Gamma.W_O"
    y = column.y - LOW / 2
    column.half = max(62, wide / 2)
    column.dims(-74, repeated("M", M, dims(s, "Phi[l].Gamma.Psi[m].W_Q")))
    column.dims(y, dims(s, name))
    column.set(y, name)
    if s.has("Phi[l].Gamma.b_O"):
        column.set(y - 34, "Phi[l].Gamma.b_O")
        column.dims(y - 34, dims(s, "Phi[l].Gamma.b_O"))
    column.half = 62
    column.box("(P W^O)^T", "A[l]", times(s["d_e"], s.n), maths=True)
    d.maths(0, column.y - 5, s.state(s.at("A[l]")), 13, "state", "middle")
    package(d, s, f"multiHeadAttention_{{{_flat(s.letter('Phi[l].Gamma'))}}}", "Phi[l].Gamma")
    return f"Figure 13: multi-head attention, {M} heads"


def head_figure(d: Drawing, s: Subject) -> str:
    """Figure 12: queries, keys and values; scores, mask, softmax; weighted values."""
    from vesalius.figures.heat import thumbnail

    places = {"Q": -110.0, "K": 0.0, "V": 110.0}
    wide = {"Q": s["d_k"], "K": s["d_k"], "V": s["d_v"]}
    live = s.trace is not None
    below = f"H[{'l-1' if s.layer is None else s.layer - 1}]"
    source = s.at("H_bar[l]") if s["order"] == "pre" else below
    d.maths(0, 0, s.state(source.replace("-", "−")), 13, "state", "middle")
    d.text(20, -0.5, times(s["d_e"], s.n), 9, "soft", fixed=True)
    d.line((0, -14), (0, -32), head=False)
    d.line((places["Q"], -32), (places["V"], -32), head=False)
    column, tall = Column(d, s, half=206 if live else 162), 40.0 if live else 0.0
    for letter, x in places.items():
        d.line((x, -32), (x, -52))
        step, path = s.at(f"{letter.lower()}[l,m]"), f"Phi[l].Gamma.Psi[m].W_{letter}"
        with d.part(Part(step, letter, "box", step), f"gives {step}"):
            d.rect(x - 42, -80, 84, 28)
            d.maths(x, -62, s.letter(path), 12.5, "parameter", "middle")
            d.line((x, -80), (x, -108))
            d.maths(x + 6, -91, letter.lower(), 12.5, "state")
            d.text(x - 6, -91, times(s.n, wide[letter]), 8.5, "soft", "end", fixed=True)
            if live:
                thumbnail(d, s, step, x - 40, -148, 80, 40, signed=True)
    for i, letter in enumerate(places):
        path = f"Phi[l].Gamma.Psi[m].W_{letter}"
        y = -46.0 - 33 * i
        column.set(y, path)
        column.dims(y, dims(s, path))
    up = -108 - tall
    if s.has("Phi[l].Gamma.Psi[m].b_Q"):
        for i, letter in enumerate(places):
            path = f"Phi[l].Gamma.Psi[m].b_{letter}"
            column.set(-145.0 - 33 * i, path)
            column.dims(-145.0 - 33 * i, dims(s, path))
    middle = (places["Q"] + places["K"]) / 2
    for x, end in ((places["Q"], middle - 8), (places["K"], middle + 8)):
        d.line((x, up), (x, up - 26), (end, up - 26))
    d.sign(middle, up - 26, "×")
    d.maths(middle, up - 8, f"q k^T / √{s['d_k']}", 10.5, "soft", "middle")
    d.line((middle, up - 34), (middle, up - 56))
    d.sign(middle, up - 64, "+")
    mask = Part("S", "mask", "score", "S")
    with d.part(mask, "the mask S"):
        if live:
            thumbnail(d, s, "S", middle - 118, up - 84, 40, 40, signed=False)
            d.line((middle - 76, up - 64), (middle - 8, up - 64))
            d.maths(middle - 98, up - 88, "S", 12.5, "score", "middle")
        else:
            d.line((middle - 70, up - 64), (middle - 8, up - 64))
            d.maths(middle - 80, up - 60, "S", 12.5, "score", "middle")
            d.text(middle - 90, up - 49, times(s.n, s.n), 8.5, "soft", "middle", fixed=True)
    d.line((middle, up - 72), (middle, up - 94))
    scores = s.at("mu[l,m]")
    with d.part(Part(scores, "softmax", "box", scores), f"softmax gives {scores}"):
        d.rect(middle - 42, up - 120, 84, 26)
        d.text(middle, up - 103, "softmax", 11.5, anchor="middle")
        high = up - 120
        if live:
            side = _side(s)
            d.line((middle, high), (middle, high - 20))
            d.maths(middle - 8, high - 7, "μ", 12.5, "score", "end")
            high -= 22 + thumbnail(
                d, s, scores, middle - side / 2, high - 22, side, side, numbers=True
            )
            d.line((middle, high), (middle, high - 22), (52, high - 22))
        else:
            d.line((middle, high), (middle, high - 34), (52, high - 34))
            d.maths(middle + 6, high - 12, "μ", 12.5, "score")
            d.text(middle - 6, high - 12, times(s.n, s.n), 8.5, "soft", "end", fixed=True)
    level = high - (22 if live else 34)
    result = s.at("P[l,m]")
    with d.part(Part(result, "weighted values", "sum", result), f"gives {result}"):
        d.line((places["V"], up), (places["V"], level), (68, level))
        d.sign(60, level, "×")
        d.line((60, level - 8), (60, level - 34))
        if live:
            thumbnail(d, s, result, 20, level - 76, 80, 40, signed=True)
            d.maths(60, level - 84, f"P_{{{s.index('m')}}}", 13, "state", "middle")
        else:
            d.maths(60, level - 40, f"P_{{{s.index('m')}}}", 13, "state", "middle")
        d.text(
            110 if live else 84,
            level - 53 if live else level - 40,
            times(s.n, s["d_v"]),
            9,
            "soft",
            fixed=True,
        )
    package(d, s, f"selfAttention_{{Ψ{s.index('m')}}}", "Phi[l].Gamma.Psi[m]")
    return "Figure 12: one self-attention head"


def _side(s: Subject) -> float:
    assert s.length is not None
    return min(168.0, max(96.0, 34.0 * s.length))

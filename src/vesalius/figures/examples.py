"""Attention by example, with the numbers of a text: one query (Figure 10), all heads (Figure 11).

Every number is one of the trace: products of q and k, the mask S, the scores mu, the results P, A.
"""

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.figures.column import package
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.heat import colour, limit_of, short, strip
from vesalius.figures.lettering import quoted, visible
from vesalius.figures.subject import Subject, times

APART, MOST = 124, 7
"""Between two tokens, and how many are drawn; of more, those with the largest scores."""


def chosen(s: Subject, scores: Array, most: int = MOST) -> list[int]:
    """The tokens that are drawn, in their order: the query's own, and the most attended to."""
    i = _position(s)
    if len(scores) <= most:
        return list(range(len(scores)))
    best = [j for j in np.argsort(-scores, kind="stable").tolist() if j != i][: most - 1]
    return sorted([*best, i])


def _position(s: Subject) -> int:
    assert s.length is not None
    return s.length - 1 if s.position is None else s.position


def source_of(s: Subject) -> str:
    """What a layer's heads read."""
    assert s.layer is not None
    return f"H_bar[{s.layer}]" if s["order"] == "pre" else f"H[{s.layer - 1}]"


def query_figure(d: Drawing, s: Subject) -> str:
    """Figure 10: what one query makes of all keys and values."""
    trace, i = s.trace, _position(s)
    assert trace is not None
    q, k, v, mu, P = (np.asarray(trace[s.at(f"{one}[l,m]")]) for one in ("q", "k", "v", "mu", "P"))
    X, S, tokens = np.asarray(trace[source_of(s)]), np.asarray(trace["S"]), trace.tokens()
    scores = q[i] @ k.T / np.sqrt(s["d_k"])
    columns = chosen(s, mu[i])
    places = {j: (n - (len(columns) - 1) / 2) * APART for n, j in enumerate(columns)}
    limits = [limit_of(one) for one in (X, np.concatenate([q, k]), v)]
    for j, x in places.items():
        here = j == i
        fill = "score" if here else "ink"
        d.text(x, 0, visible(tokens[j]), 13, fill, "middle", bold=True)
        d.line((x, -16), (x, -30))
        strip(d, X[:, j], x - 40, -42, 80, 12, limits[0])
        d.maths(x + 44, -32, f"x_{{{j + 1}}}", 11.5, "state")
        d.line((x, -42), (x, -56), head=False)
        d.line((x - 24, -56), (x + 24, -56), head=False)
        for side, letter, held, limit in ((-24, "k", k[j], limits[1]), (24, "v", v[j], limits[2])):
            d.line((x + side, -56), (x + side, -72))
            strip(d, held, x + side - 6, -122, 12, 50, limit)
            d.maths(x + side + 9, -94, f"{letter}_{{{j + 1}}}", 11.5, "state")
    at = places[i]
    level = -196.0
    low = min(places.values())
    query = s.at("q[l,m]")
    with d.part(Part(query, "query", "vector", query), f"the query of token {i + 1}"):
        d.line((at + 24, -56), (at + 56, -56), (at + 56, -72), stroke="score", turn=5)
        strip(d, q[i], at + 50, -122, 12, 50, limits[1])
        d.maths(at + 65, -94, f"q_{{{i + 1}}}", 11.5, "score")
        right = max(at + 56, max(places.values()) - 44)
        d.line((at + 56, -122), (at + 56, -140), head=False, stroke="score")
        d.line((low - 44, -140), (right, -140), head=False, stroke="score")
        for x in places.values():
            points = ((x - 44, -140), (x - 44, level + 32), (x - 31, level + 32))
            d.line(*points, stroke="score", turn=4)
    for x in places.values():
        d.line((x - 24, -122), (x - 24, level + 40))
    key, mask, score, value = (s.at(one) for one in ("k[l,m]", "S", "mu[l,m]", "v[l,m]"))
    with d.part(Part(key, "keys", "sum", key), "products of the query with each key"):
        for j, x in places.items():
            d.sign(x - 24, level + 32, "·", 7, "ink")
            d.text(x - 14, level + 36, short(float(scores[j])), 10.5, "ink", fixed=True)
            d.line((x - 24, level + 25), (x - 24, level + 7))
        d.maths(low - 56, level + 36, f"q_{{{i + 1}}}·k / √{s['d_k']}", 11, "soft", "end")
    with d.part(Part(mask, "mask", "sum", mask), "the mask is added"):
        for j, x in places.items():
            d.sign(x - 24, level, "+", 7)
            d.text(
                x - 14, level + 4, "0" if np.isfinite(S[i, j]) else "−∞", 10.5, "score", fixed=True
            )
            d.line((x - 24, level - 7), (x - 24, level - 24))
        d.maths(low - 56, level + 4, f"S_{{{i + 1}}}", 11.5, "score", "end")
    right = max(places.values())
    with d.part(Part(value, "values", "sum", value), "the values, weighted by the scores"):
        for x in places.values():
            d.line((x + 24, -122), (x + 24, level - 97))
            d.sign(x + 24, level - 104, "×", 7)
            d.line((x + 24, level - 111), (x + 24, level - 130), head=False)
    with d.part(Part(score, "softmax", "box", score), f"softmax gives {score}"):
        d.rect(low - 46, level - 46, right - low + 40, 22)
        d.text((low + right) / 2 - 24, level - 31, "softmax", 11.5, anchor="middle")
        for j, x in places.items():
            d.line((x - 24, level - 46), (x - 24, level - 62))
            fill, light = colour(float(mu[i, j]), 1.0, False, d.theme)
            d.rect(x - 44, level - 82, 40, 20, fill, "score", 5)
            d.text(
                x - 24,
                level - 68,
                f"{mu[i, j]:.3f}",
                10.5,
                "raised" if light else "ink",
                "middle",
                fixed=True,
            )
            d.line((x - 24, level - 82), (x - 24, level - 104), (x + 17, level - 104))
        d.maths(low - 56, level - 68, f"μ_{{{i + 1}}}", 11.5, "score", "end")
    top = level - 130
    middle = sum(places.values()) / len(places) + 24
    result = s.at("P[l,m]")
    with d.part(Part(result, "sum", "sum", result), f"the sum gives {result}"):
        d.line((low + 24, top), (right + 24, top), head=False)
        d.line((middle, top), (middle, top - 16))
        d.sign(middle, top - 23, "+", 7)
        d.line((middle, top - 30), (middle, top - 46))
        strip(d, P[i], middle - 60, top - 62, 120, 16)
        d.maths(middle + 66, top - 49, f"p_{{{i + 1},{s.head}}}", 13, "state")
        d.text(middle - 66, top - 50, times(s["d_v"]), 9, "soft", "end", fixed=True)
    if len(columns) < len(tokens):
        rest = 1 - float(mu[i, columns].sum())
        left_out = len(tokens) - len(columns)
        d.text(middle + 40, top - 20, f"and {left_out} more, μ {rest:.3f}", 9.5, "soft")
    package(d, s, f"selfAttention_{{Ψ{s.head}}}", "Phi[l].Gamma.Psi[m]")
    return f"Figure 10: layer {s.layer}, head {s.head} at {quoted(tokens[i])}"


def heads_figure(d: Drawing, s: Subject) -> str:
    """Figure 11: every head's scores at one token, its result, and what they come to."""
    trace, i = s.trace, _position(s)
    assert trace is not None
    tokens, M = trace.tokens(), s["M"]
    every = [np.asarray(trace[f"mu[{s.layer},{m}]"])[i] for m in range(1, M + 1)]
    columns = chosen(s, np.max(every, axis=0), 5)
    wide = len(columns) * 46 + 14
    drawn = list(range(1, M + 1)) if M <= 6 else [1, 2, 3, 0, M]
    half = (len(drawn) * (wide + 40) - 40) / 2
    top = -158.0
    for n, m in enumerate(drawn):
        x = n * (wide + 40) + wide / 2 - half
        if m:
            _one_head(d, s, m, x, wide, columns, every[m - 1], i)
            d.line((x, -128), (x, top))
        else:
            d.dots(x, -56, across=True)
    d.rect(-half, top - 20, 2 * half, 20, "score-wash", "score", 5)
    result = np.concatenate([np.asarray(trace[f"P[{s.layer},{m}]"])[i] for m in range(1, M + 1)])
    d.text(0, top - 6, "concatenate", 11, anchor="middle")
    d.line((0, top - 20), (0, top - 36))
    strip(d, result, -150, top - 52, 300, 16)
    d.maths(156, top - 39, f"p_{{{i + 1}}}", 12.5, "state")
    d.text(-156, top - 40, times(s["Md_v"]), 9, "soft", "end", fixed=True)
    d.line((0, top - 52), (0, top - 68))
    name, out = "Phi[l].Gamma.W_O", s.at("A[l]")
    d.rect(-40, top - 92, 80, 24)
    d.maths(0, top - 76, s.letter(name), 12.5, "parameter", "middle")
    with d.part(Part(out, "result", "vector", out), f"gives {out}"):
        d.line((0, top - 92), (0, top - 108))
        strip(d, np.asarray(trace[out])[:, i], -150, top - 124, 300, 16)
        d.maths(156, top - 111, f"a_{{{i + 1}}}", 12.5, "state")
        d.text(-156, top - 112, times(s["d_e"]), 9, "soft", "end", fixed=True)
    package(d, s, f"multiHeadAttention_{{Γ[{s.layer}]}}", "Phi[l].Gamma")
    return f"Figure 11: the {M} heads of layer {s.layer} at {quoted(tokens[i])}"


def _one_head(
    d: Drawing, s: Subject, m: int, x: float, wide: float, columns: list[int], scores: Array, i: int
) -> None:
    """A head in a frame: its scores as bars over the tokens, and what they give."""
    name = f"P[{s.layer},{m}]"
    assert s.trace is not None
    tokens, y = s.trace.tokens(), 0.0
    with d.part(Part(name, f"head {m}", "frame", f"mu[{s.layer},{m}]"), f"head {m} gives {name}"):
        d.rect(x - wide / 2, y - 100, wide, 116, "raised", "score", 8)
        d.text(x - wide / 2 + 8, y - 86, f"head {m}", 10, "score", bold=True)
        for n, j in enumerate(columns):
            at = x - wide / 2 + 7 + 46 * n + 23
            high = 48 * float(scores[j])
            d.rect(at - 13, y - 12 - high, 26, high, "score", "none", 2)
            d.text(at, y - 15 - high, f"{scores[j]:.3f}", 9, "ink", "middle", fixed=True)
            d.text(
                at,
                y + 2,
                visible(tokens[j], 7),
                9.5,
                "score" if j == i else "ink",
                "middle",
                bold=j == i,
            )
        d.line((x - wide / 2 + 8, y - 12), (x + wide / 2 - 8, y - 12), stroke="edge", head=False)
        d.line((x, y - 100), (x, y - 114))
        strip(d, np.asarray(s.trace[name])[i], x - wide / 2 + 10, y - 128, wide - 20, 14)
        d.maths(x + wide / 2 - 6, y - 117, f"p_{{{i + 1},{m}}}", 11, "state")

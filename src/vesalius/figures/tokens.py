"""Token by token: language models as Figures 4, 5 and 7 have them, and BERT's Figure 24.

Each token is a column, from its one-hot vector to the distribution that follows it; with a text the
columns are its tokens, and vectors have the colours of their values.
"""

from vesalius.figures.column import package
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.lettering import visible
from vesalius.figures.recurrent import is_lstm
from vesalius.figures.rows import APART, Rows
from vesalius.figures.subject import Subject, times


def tokens_figure(d: Drawing, s: Subject) -> str:
    """Figure 4, 5, 7 or 24, by family."""
    rows = Rows(d, s)
    rows.side.aside = 96 if s.has("Pi_N") else 0
    rows.read()
    if s.family.window:
        return _feedforward(rows)
    if "M" not in s.symbols:
        return _recurrent(rows)
    rows.arrows()
    rows.wide("transformer_Φ", f"H[{s['L']}]", "Phi", ("L blocks", f"{s['L']} blocks"))
    rows.arrows()
    rows.vectors("h", shape="d_e", above=f"[{s['L']}]", held=f"H[{s['L']}]")
    return _heads(rows)


def _heads(rows: Rows) -> str:
    s = rows.s
    inside = ["E", "Λ", "Φ"]
    if s.family.reads in ("images", "series"):
        return _values_out(rows)
    if s.has("Lambda_s"):
        if s.has("Pi_N"):
            _next_sentence(rows)
        if s.has("Pi_M"):
            rows.arrows()
            rows.wide("MLM head", "H_O", "Pi_M", high=30)
            rows.side.set(rows.y + 15, "b_E", rows.side.half + 60)
            rows.words("Z", "Y_hat", "ŷ")
        package(rows.d, s, "f_θ", ["E", "Λ^s", "Λ^p", "Ξ_e", "Φ", "…"], "theta")
        return "Figure 24: BERT, token by token"
    if s["variant"] == 2:
        rows.arrows()
        rows.wide(
            "layerNorm" if s["centred"] else "rmsNorm", "H_e", "Xi_e", ("d_e", times(s["d_e"])), 26
        )
    rows.words("Z", "Y_hat", "ŷ")
    sets = [*inside, "Ξ_e", *(["U"] if s.has("U") else [])]
    package(rows.d, s, "Ŷ = f_θ(Ω)", sets, "theta")
    return "Figure 5: a transformer language model, token by token"


def _next_sentence(rows: Rows) -> None:
    """The head that reads the first token: a branch at the left."""
    d, s, (_, first) = rows.d, rows.s, rows.places[0]
    x, y = first - 84, rows.y + 8
    d.line((first, y), (x, y), (x, y - 22))
    y -= 22
    for label, step, path in (
        ("pooler", "h_C", "Pi_C"),
        ("NSP", "z_C", "Pi_N"),
        ("softmax", "y_hat_C", ""),
    ):
        with d.part(Part(step, label, "box", step), f"{label} gives {step}"):
            d.rect(x - 34, y - 24, 68, 24)
            d.text(x, y - 8.5, label, 10.5, anchor="middle")
            d.line((x, y - 24), (x, y - 42))
            d.maths(x + 6, y - 29, s.state(step), 11.5, "state" if step == "h_C" else "output")
        if path:
            with d.part(Part(path, s.letter(path), "set", parameters=path, count=s.count(path))):
                d.maths(x - 40, y - 9, s.letter(path), 11, "parameter", "end", underlined=True)
        y -= 42


def _values_out(rows: Rows) -> str:
    """Images and series: what the heads give."""
    s, d = rows.s, rows.d
    if s.family.by_channel:
        rows.arrows()
        dims = ("T × n d_e", times(s["T"], s["nd_e"]))
        rows.wide("each channel flattened, output layer", "Y_n", "Pi_Y", dims, 30)
        d.line((0, rows.y), (0, rows.y - 18))
        d.maths(0, rows.y - 24, s.state("Omega_hat"), 13, "output", "middle")
        package(d, s, "f_θ", ["E", "Λ", "Φ", s.letter("Pi_Y")], "theta")
        return f"{s.name}, patches of all channels side by side, as Figure 5"
    image = s.family.reads == "images"
    if image:
        rows.arrows()
        rows.wide("layerNorm", "H_e", "Xi_e", ("d_e", times(s["d_e"])), 26)
    whole = image or not s["series"]
    step = "z" if (s.has("Pi_Y") and whole) else "Omega_hat"
    path = "Pi_R" if image and not s.has("Pi_Y") else "Pi_Y"
    if not s.has(path):
        package(d, s, "f_θ", ["E", "Λ", "Φ"], "theta")
        return f"{s.name}, token by token"
    first = rows.places[0]
    if image and path == "Pi_Y":
        rows.arrows(only=(first[0],))
        x = first[1]
        with d.part(Part(step, "class head", "box", step), f"the class head gives {step}"):
            d.rect(x - 40, rows.y - 26, 80, 26)
            d.text(x, rows.y - 9, "class head", 11, anchor="middle")
            d.line((x, rows.y - 26), (x, rows.y - 44))
            d.maths(x, rows.y - 50, "z", 13, "output", "middle")
        rows.side.set(rows.y - 13, path)
        rows.side.dims(rows.y - 13, "|Y| × d_e", times(s["Y"], s["d_e"]))
    else:
        rows.arrows()
        dims = (
            ("|Y| × n d_e", times(s["Y"], s["n"] * s["d_e"])) if not image and whole else ("", "")
        )
        rows.wide("output layer" if not image else "restore patches", step, path, dims, 30)
        d.line((0, rows.y), (0, rows.y - 18))
        d.maths(0, rows.y - 24, s.state(step), 13, "output", "middle")
    package(d, s, "f_θ", ["E", "Λ", "Φ", s.letter(path)], "theta")
    return f"{s.name}, {s.words} side by side, as Figures 5 and 25"


def _feedforward(rows: Rows) -> str:
    """Figure 4: all embeddings in one vector, and one distribution."""
    s, d = rows.s, rows.d
    left, right = rows.all[0][1] - 40, rows.all[-1][1] + 40
    rows.arrows()
    with d.part(Part("h_0", "concatenate", "box", "h_0"), "concatenation gives h_0"):
        d.rect(left, rows.y - 24, right - left, 24, "state-wash", "state", 5)
        d.text(0, rows.y - 8, "concatenate", 11.5, anchor="middle")
    rows.side.dims(rows.y - 12, "n d_e", times(s["n"] * s["d_e"]))
    rows.y -= 24
    rows.places, rows.all = [("n", 0.0)], [("n", 0.0)]
    rows.arrows()
    last = f"h[{s['L']}]"
    with d.part(Part(last, "ffnn", "box", last), f"the network gives {last}"):
        d.rect(-80, rows.y - 36, 160, 36, "state-wash", "state", 10)
        d.maths(0, rows.y - 14, "ffnn_Φ", 14, anchor="middle")
    rows.side.set(rows.y - 18, "Phi")
    rows.side.dims(rows.y - 18, "L layers", f"{s['L']}, of {s['d_h']}")
    rows.y -= 36
    for name in ("z", "y_hat"):
        label, maths = ("U", True) if name == "z" else ("softmax", False)
        rows.arrows()
        with d.part(Part(name, label, "box", name), f"gives {name}"):
            d.rect(-40, rows.y - 24, 80, 24)
            (d.maths if maths else d.text)(
                0, rows.y - 8, label, 12, "parameter" if maths else "ink", "middle"
            )
        if maths:
            rows.side.set(rows.y - 12, "U")
            rows.side.dims(rows.y - 12, "|V| × d_h", times(*(s.shape("U") or ())))
        rows.y -= 24
        d.maths(8, rows.y - 5, "z_n" if maths else "", 12, "output")
    rows.arrows()
    d.maths(0, rows.y - 5, "ŷ_n", 13.5, "output", "middle")
    if s.trace is not None:
        best = s.trace.likeliest(1)[0]
        d.text(
            20, rows.y - 5, f"{visible(best[1])}  {100 * best[2]:.1f} %", 12, "output", bold=True
        )
    package(d, s, "ŷ_n = f_θ(Ω)", ["Φ", "E", "U"], "theta")
    return "Figure 4: the feedforward language model"


def _recurrent(rows: Rows) -> str:
    """Figures 7, 18 and 20: layers unrolled in time."""
    s, d = rows.s, rows.d
    layers = list(range(1, s["L"] + 1)) if s["L"] <= 3 else [1, 0, s["L"]]
    lstm = is_lstm(s)
    for l in layers:
        rows.arrows(18)
        if not l:
            for _, x in rows.places:
                d.dots(x, rows.y - 8)
            rows.y -= 20
            continue
        middle = rows.y - 18
        start = rows.places[0][1] - 62
        d.text(start - 4, middle + 4, "0", 12, "soft", "end")
        levels = (middle - 8, middle + 8) if lstm else (middle,)
        before = start
        for name, x in rows.places:
            step = f"h[{l},{name}]"
            with d.part(Part(step, f"layer {l}", "box", step), f"layer {l} gives {step}"):
                d.rect(x - 26, rows.y - 36, 52, 36, "state-wash", "state")
                d.maths(
                    x, middle + 5, f"{'LSTM' if lstm else 'rnn'}_{{Φ[{l}]}}", 11, anchor="middle"
                )
            for k, level in enumerate(levels):
                d.line((before, level), (x - 26, level))
                if before > start and x - before < APART:
                    letter = "c" if lstm and k == 0 else "h"
                    d.maths(before + 6, level - 4 if k == 0 else level + 12, letter, 11, "state")
            before = x + 26
            if rows.gap is not None and x < rows.gap < x + APART * 1.5:
                for level in levels:
                    d.line((before, level), (rows.gap - 12, level))
                d.dots(rows.gap, middle, across=True)
                before = rows.gap + 12
        rows.side.set(middle, f"Phi[{l}]")
        rows.side.dims(
            middle,
            "d_o × (d_o + d_i)",
            times(*(s.shape(f"Phi[{l}].U{'_P' if lstm else ''}") or ())),
        )
        rows.y -= 36
    rows.arrows()
    rows.vectors("h", shape="d_o", above=f"[{s['L']}]")
    rows.words("Z", "Y_hat", "ŷ")
    package(d, s, "ŷ_i = f_θ(ω_{1:i})", ["E", "Φ", *(["U"] if s.has("U") else [])], "theta")
    return f"Figures 7 and {'20' if lstm else '18'}: a recurrent language model, unrolled in time"

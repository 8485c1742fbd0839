"""Token by token: language models as Figures 4, 5 and 7 have them, and BERT's Figure 24.

Each token is a column, from its one-hot vector to the distribution that follows it; with a text the
columns are its tokens, and vectors have the colours of their values.
"""

from vesalius.figures.blocks import norm_name
from vesalius.figures.column import package
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.lettering import visible
from vesalius.figures.recurrent import is_lstm, weights
from vesalius.figures.rows import APART, Rows
from vesalius.figures.sets import Dims, dims
from vesalius.figures.subject import Subject, times


def tokens_figure(d: Drawing, s: Subject) -> str:
    """Figure 4, 5, 7 or 24, by family."""
    rows = Rows(d, s)
    rows.side.aside = 112 if s.has("Lambda_s") and _reads_first(s) else 0
    rows.read()
    if s.family.window:
        return _feedforward(rows)
    if "M" not in s.symbols:
        return _recurrent(rows)
    rows.arrows()
    rows.wide("transformer_Φ", f"H[{s['L']}]", "Phi", Dims("L blocks", f"{s['L']}"))
    rows.arrows()
    rows.vectors("h", shape="d_e", above=f"[{s['L']}]", held=f"H[{s['L']}]")
    return _heads(rows)


def _reads_first(s: Subject) -> bool:
    """Whether a head reads the first token alone."""
    return s.has("Pi_C") or s.has("Pi_N") or (s.has("Pi_Y") and s["labelled"] == "sequence")


def _heads(rows: Rows) -> str:
    s = rows.s
    if s.family.reads in ("images", "series"):
        return _values_out(rows)
    if s.has("Lambda_s"):
        whole = s.has("Pi_Y") and s["labelled"] == "sequence"
        boxes = (
            ("pooler", "h_C", "Pi_C"),
            ("NSP", "z_C", "Pi_N"),
            ("softmax", "y_hat_C", "Pi_N"),
            ("labels", "z", "Pi_Y" if whole else ""),
        )
        _branch(rows, [box for box in boxes if box[2] and s.has(box[2])])
        if s.has("Pi_Y") and not whole:
            rows.arrows()
            rows.wide("label head", "z", "Pi_Y", dims(s, "Pi_Y.W"), 26)
        if s.has("Pi_M"):
            rows.arrows()
            dense = f"MLM head: dense, {s['activation']}"
            rows.wide(dense, "H_M", "Pi_M", dims(s, "Pi_M.W"), 26)
            rows.arrows()
            rows.wide(norm_name(s), "H_O", "Xi_m", dims(s, "Xi_m.alpha"), 26)
            rows.words("Z", "Y_hat", "ŷ")
        package(rows.d, s, "f_θ", "theta")
        return "Figure 24: BERT, token by token"
    if s["order"] == "pre":
        rows.arrows()
        rows.wide(norm_name(s), "H_e", "Xi_e", dims(s, "Xi_e.alpha"), 26)
    rows.words("Z", "Y_hat", "ŷ")
    package(rows.d, s, "Ŷ = f_θ(Ω)", "theta")
    return "Figure 5: a transformer language model, token by token"


def _branch(rows: Rows, boxes: list[tuple[str, str, str]]) -> None:
    """Heads that read the first token: a branch at the left."""
    if not boxes:
        return
    d, s, (_, first) = rows.d, rows.s, rows.places[0]
    x, y = first - 84, rows.y - 5
    d.line((first, y), (x, y), (x, y - 22))
    y -= 22
    for label, step, path in boxes:
        with d.part(Part(step, label, "box", step), f"{label} gives {step}"):
            d.rect(x - 34, y - 24, 68, 24)
            d.text(x, y - 8.5, label, 10.5, anchor="middle")
            d.line((x, y - 24), (x, y - 42))
            d.maths(x + 6, y - 29, s.state(step), 11.5, "state" if step == "h_C" else "output")
        if label != "softmax":
            count = s.count(path)
            about = f"{path}: {count:,} parameters"
            with d.part(Part(path, s.letter(path), "set", parameters=path, count=count), about):
                d.maths(x - 40, y - 13, s.letter(path), 11, "parameter", "end", underlined=True)
                d.text(x - 40, y, f"{count:,}", 9, "soft", "end", fixed=True)
        y -= 42


def _values_out(rows: Rows) -> str:
    """Images and series: what the heads give."""
    s, d = rows.s, rows.d
    if s.family.by_channel:
        rows.arrows()
        of = dims(s, "Pi_Y.W")
        rows.wide("each channel flattened, output layer", "Y_n", "Pi_Y", of, 30)
        d.line((0, rows.y), (0, rows.y - 18))
        d.maths(0, rows.y - 24, s.state("Omega_hat"), 13, "output", "middle")
        package(d, s, "f_θ", "theta")
        return "Patches of all channels side by side, as Figure 5"
    image = s.family.reads == "images"
    if image:
        rows.arrows()
        rows.wide(norm_name(s), "H_e", "Xi_e", dims(s, "Xi_e.alpha"), 26)
    whole = image or not s["series"]
    step = "z" if (s.has("Pi_Y") and whole) else "Omega_hat"
    path = "Pi_R" if image and not s.has("Pi_Y") else "Pi_Y"
    if not s.has(path):
        package(d, s, "f_θ", "theta")
        return f"{s.words.capitalize()} side by side, as Figures 5 and 25"
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
        rows.side.dims(rows.y - 13, dims(s, "Pi_Y.W"))
        if s.has("Pi_R"):
            _restored(rows)
    else:
        rows.arrows()
        label = "restore patches" if image else "output layer"
        rows.wide(label, step, path, dims(s, f"{path}.W"), 30)
        d.line((0, rows.y), (0, rows.y - 18))
        d.maths(0, rows.y - 24, s.state(step), 13, "output", "middle")
    package(d, s, "f_θ", "theta")
    return f"{s.words.capitalize()} side by side, as Figures 5 and 25"


def _restored(rows: Rows) -> None:
    """What the masked-patch head makes of every patch, beside the class head."""
    s, d = rows.s, rows.d
    rows.y += 16
    rows.arrows(only=[name for name, _ in rows.places[1:]])
    left, right = rows.places[1][1] - 32, rows.all[-1][1] + 40
    middle = (left + right) / 2
    with d.part(Part("Omega_hat", "restore patches", "box", "Omega_hat"), "gives Omega_hat"):
        d.rect(left, rows.y - 26, right - left, 26)
        d.text(middle, rows.y - 9, "restore patches", 11, anchor="middle")
        d.line((middle, rows.y - 26), (middle, rows.y - 44))
        d.maths(middle, rows.y - 50, s.state("Omega_hat"), 13, "output", "middle")
    rows.side.set(rows.y - 13, "Pi_R", rows.side.half + 60)


def _feedforward(rows: Rows) -> str:
    """Figure 4: all embeddings in one vector, and one distribution."""
    s, d = rows.s, rows.d
    left, right = rows.all[0][1] - 40, rows.all[-1][1] + 40
    rows.arrows()
    with d.part(Part("h_0", "concatenate", "box", "h_0"), "concatenation gives h_0"):
        d.rect(left, rows.y - 24, right - left, 24, "state-wash", "state", 5)
        d.text(0, rows.y - 8, "concatenate", 11.5, anchor="middle")
    rows.side.dims(rows.y - 12, Dims("n d_e", times(s["n"] * s["d_e"])))
    rows.y -= 24
    rows.places, rows.all = [("n", 0.0)], [("n", 0.0)]
    rows.arrows()
    last = f"h[{s['L']}]"
    with d.part(Part(last, "ffnn", "box", last), f"the network gives {last}"):
        d.rect(-80, rows.y - 36, 160, 36, "state-wash", "state", 10)
        d.maths(0, rows.y - 14, "ffnn_Φ", 14, anchor="middle")
    rows.side.set(rows.y - 18, "Phi")
    rows.side.dims(rows.y - 18, Dims("L layers", f"{s['L']}, of {s['d_h']}"))
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
            rows.side.dims(rows.y - 12, dims(s, "U"))
            rows.side.set(rows.y - 12, "b_U" if s.has("b_U") else "", rows.side.half + 60)
        rows.y -= 24
        d.maths(8, rows.y - 5, "z_n" if maths else "", 12, "output")
    rows.arrows()
    d.maths(0, rows.y - 5, "ŷ_n", 13.5, "output", "middle")
    if s.trace is not None:
        best = s.trace.likeliest(1)[0]
        d.text(
            20, rows.y - 5, f"{visible(best[1])}  {100 * best[2]:.1f} %", 12, "output", bold=True
        )
    package(d, s, "ŷ_n = f_θ(Ω)", "theta")
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
        rows.side.dims(middle, weights(s, f"Phi[{l}]"))
        rows.y -= 36
    rows.arrows()
    rows.vectors("h", shape="d_o", above=f"[{s['L']}]", held=f"h[{s['L']},i]")
    rows.words("Z", "Y_hat", "ŷ")
    package(d, s, "ŷ_i = f_θ(ω_{1:i})", "theta")
    return f"Figures 7 and {'20' if lstm else '18'}: a recurrent language model, unrolled in time"

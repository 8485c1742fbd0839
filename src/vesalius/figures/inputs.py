"""How the input becomes embeddings: patches and words (Figure 25), a masked series (Figure 26)."""

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.figures import models
from vesalius.figures.column import Column, package
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.heat import colour
from vesalius.figures.rows import Rows
from vesalius.figures.sets import members
from vesalius.figures.subject import Subject, times

SIDE = 132
"""Of an image."""
EMBEDDING = ("E", "b_e", "x_class", "Lambda", "Lambda_s", "Lambda_p")
"""The parameters that embed an input, of those that a model has."""
RATIO, SEGMENT = 0.15, 3
"""Of a series: the share that is masked, and the mean length of a masked piece."""


def input_figure(d: Drawing, s: Subject) -> str:
    """Figure 25, a or b, or Figure 26."""
    if s.family.reads == "images":
        return _image(d, s)
    if s.family.reads == "series" and not s.family.by_channel:
        return _series(d, s)
    rows = Rows(d, s)
    rows.read()
    _package(d, s)
    return f"Figure 25b: {s.words} become embeddings"


def _package(d: Drawing, s: Subject) -> None:
    """The parameters that make the input of the first layer."""
    normed = ("Xi_e",) if s.symbols.get("order") == "post" and s.has("Xi_e") else ()
    used = [path for path in members(s, "theta") if path in (*EMBEDDING, *normed)]
    package(d, s, "H^{[0]}" if "M" in s.symbols else "X = E Ω", "input", used)


def _image(d: Drawing, s: Subject) -> str:
    """An image in patches, which are flattened, projected and stand in a row."""
    side = s["H"] // s["P"]
    drawn = min(side, 14)
    each = SIDE / drawn
    pixels = None if s.trace is None else np.asarray(s.trace.graph.given, dtype=np.float64)
    if pixels is not None:
        _pixels(d, pixels, -SIDE / 2, -SIDE)
    d.rect(-SIDE / 2, -SIDE, SIDE, SIDE, "none" if pixels is not None else "score-wash", "ink", 0)
    for k in range(1, drawn):
        for a, b in (((k * each, 0), (k * each, SIDE)), ((0, k * each), (SIDE, k * each))):
            start = (a[0] - SIDE / 2, a[1] - SIDE)
            d.line(start, (b[0] - SIDE / 2, b[1] - SIDE), stroke="score", thick=0.8, head=False)
    d.maths(SIDE / 2 + 10, -SIDE / 2, "I", 13)
    d.text(SIDE / 2 + 22, -SIDE / 2, times(s["H"], s["H"], s["C"]), 9, "soft", fixed=True)
    d.text(
        SIDE / 2 + 10, -SIDE / 2 + 16, f"{side} × {side} patches of {s['P']} × {s['P']}", 9, "soft"
    )
    d.line((0, -SIDE), (0, -SIDE - 18))
    y = -SIDE - 18.0
    numbers = [1, 2, 3, 0, side * side]
    places = [(k - 2) * 84.0 for k in range(5)]
    for number, x in zip(numbers, places, strict=True):
        if not number:
            d.dots(x, y - 21, across=True)
            continue
        if pixels is not None:
            p, (r, c) = s["P"], divmod(number - 1, side)
            _pixels(d, pixels[r * p : r * p + p, c * p : c * p + p], x - 19, y - 38, 38, pixels)
        d.rect(x - 19, y - 38, 38, 38, "none" if pixels is not None else "score-wash", "score", 0)
        d.maths(x + 24, y - 15, f"P_{{{number}}}", 12)
    rows = Rows(d, s)
    names = [str(number + 1) if number else "" for number in numbers]
    rows.all = [("1", places[0] - 96), *zip(names, places, strict=True)]
    rows.places = [(name, x) for name, x in rows.all if name]
    rows.side.half = 84 * 2 + 96 + 44
    rows.y = y - 38
    rows.arrows(only=[name for name, _ in rows.places[1:]])
    rows.embed()
    _package(d, s)
    return "Figure 25a: an image becomes patches, and patches embeddings"


def _pixels(
    d: Drawing, pixels: Array, x: float, y: float, side: float = SIDE, among: Array | None = None
) -> None:
    """Grey or coloured squares; at most 56 in a row."""
    every = pixels if among is None else among
    step = max(1, len(pixels) // 56)
    small = pixels[::step, ::step]
    low, high = float(every.min()), float(every.max())
    bright = (small - low) / ((high - low) or 1.0)
    each = side / len(small)
    for r, c in np.ndindex(small.shape[:2]):
        found = np.round(255 * np.resize(bright[r, c], 3)).astype(int)
        fill = "#" + "".join(f"{v:02x}" for v in found.tolist())
        d.rect(x + c * each, y + r * each, each + 0.05, each + 0.05, fill, "none", 0)


def _series(d: Drawing, s: Subject) -> str:
    """Figure 26: pieces of each channel are masked on their own; what is left is projected."""
    from vesalius.data.masking import geometric_masks

    channels, n = min(s["C"], 12), min(s["n"], 60)
    masks = geometric_masks(np.random.default_rng(0), 1, n, channels, RATIO, SEGMENT)[0].T
    values = None
    if s.trace is not None:
        values = np.asarray(s.trace.graph.given, dtype=np.float64)[:channels, :n]
    wide, high = max(4.0, min(13.0, 420 / n)), 15.0
    left, top = -n * wide / 2, -channels * high
    limit = 1.0 if values is None else float(np.abs(values).max()) or 1.0

    def drawn() -> None:
        for (c, t), masked in np.ndenumerate(
            masks[:, : None if values is None else len(values[0])]
        ):
            fill = "score" if masked else "state-wash"
            if values is not None and not masked:
                fill, _ = colour(float(values[c, t]), limit, True, d.theme)
            d.rect(left + t * wide, top + c * high, wide, high - 3, fill, "edge", 0, thick=0.5)

    if s.given:
        with d.part(
            Part(s.given, "series", "vector", s.given), "the series, a row for each channel"
        ):
            drawn()
    else:
        drawn()
    d.text(left - 8, top + channels * high / 2 + 2, f"{s['C']} channels", 9.5, "soft", "end")
    d.text(0, 14, f"{s['n']} time steps", 9.5, "soft", "middle")
    d.rect(left, 24, 10, 10, "score", "none", 1)
    masked = 100 * float(masks.mean())
    d.text(
        left + 15,
        33,
        f"masked: {masked:.0f} % here, in pieces of {SEGMENT} on average",
        9.5,
        "soft",
    )
    column = Column(d, s)
    column.y = top
    column.rise("Ω", times(s["C"], s.n), fill="ink")
    models.project_series(column)
    models.add_positions(column)
    _package(d, s)
    return "Figure 26: how a series is masked, and becomes embeddings"

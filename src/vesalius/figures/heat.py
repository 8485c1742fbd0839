"""Values in figures: heat maps, strips and bars, with numbers where they can be read."""

import math

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.figures.drawing import Drawing
from vesalius.figures.subject import Subject
from vesalius.views.colours import rgb

CELLS = 24
"""Rows and columns of a small map; larger matrices show the first."""


def colour(
    value: float, limit: float, signed: bool, theme: str, far: str = "score"
) -> tuple[str, bool]:
    """A value's colour, and whether writing on it must be that of the paper."""
    share = min(1.0, abs(value) / limit) if limit else 0.0
    end = rgb(("positive" if value > 0 else "negative") if signed else far, theme)
    depth = share if signed else math.sqrt(share)
    mixed = (round(a + depth * (b - a)) for a, b in zip(rgb("raised", theme), end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed), depth > 0.6


def short(value: float) -> str:
    """Three significant digits, as numbers in figures have them."""
    if not math.isfinite(value):
        return "−∞" if value < 0 else "∞"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}".replace("-", "−")


def limit_of(values: Array) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(np.quantile(finite, 0.995)) if finite.size else 1.0


def thumbnail(
    d: Drawing,
    s: Subject,
    step: str,
    x: float,
    y: float,
    width: float,
    height: float,
    signed: bool = False,
    numbers: bool = False,
) -> float:
    """A step's values as a small map; with numbers it stands above y. How high it is."""
    assert s.trace is not None
    values = np.asarray(s.trace[step], dtype=np.float64)
    many = values[:CELLS, :CELLS]
    rows, columns = many.shape
    y = y - height if numbers else y
    cell, tall = width / columns, height / rows
    limit = 1.0 if step.startswith("mu") else limit_of(values)
    for (i, j), value in np.ndenumerate(many):
        masked = not math.isfinite(value)
        fill, light = ("line", False) if masked else colour(value, limit, signed, d.theme)
        place = (x + j * cell, y + i * tall, cell, tall)
        d.rect(*place, fill=fill, stroke="none", rounded=0)
        if numbers and cell >= 24:
            said = "" if masked or (value == 0) else short(value)
            fill = "raised" if light else "ink"
            d.text(
                place[0] + cell / 2, place[1] + tall / 2 + 3.5, said, 9, fill, "middle", fixed=True
            )
    d.rect(x, y, width, height, "none", "edge", 0)
    return height


def strip(
    d: Drawing, values: Array, x: float, y: float, width: float, height: float, limit: float = 0.0
) -> None:
    """A vector as a strip of colours, its first entries if it is long."""
    many = np.asarray(values, dtype=np.float64)[:CELLS]
    limit = limit or limit_of(np.asarray(values, dtype=np.float64))
    across = width >= height
    each = (width if across else height) / len(many)
    for i, value in enumerate(many):
        fill, _ = colour(float(value), limit, True, d.theme)
        place = (x + i * each, y, each, height) if across else (x, y + i * each, width, each)
        d.rect(*place, fill=fill, stroke="none", rounded=0)
    d.rect(x, y, width, height, "none", "edge", 0)

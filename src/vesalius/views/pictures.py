"""Small pictures as SVG: heat maps, bars and lines that need no library and no other file.

Signed values go from purple through paper to orange with zero at paper; shares are one hue on a
square-root scale. Text takes the page's colour, so that pictures can be read on light and on dark.
"""

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from vesalius.checkpoints.plain import replacing
from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind
from vesalius.views.colours import DARK_NOTEBOOKS, LIGHT_NOTEBOOKS, rgb
from vesalius.views.shown import Shown

CELL, BAR, LETTER = 34, 16, 6.6
"""Pixels: the side of a cell, the height of a bar, the width of a letter at 11 pixels."""
PAPER = (247, 245, 240)
NEGATIVE, POSITIVE, SHARE = (rgb(name, "light") for name in ("negative", "positive", "parameter"))
STYLE = (
    ".plate text{font:11px system-ui,sans-serif;fill:currentColor}"
    ".plate .title{font-weight:600;font-size:12px}.plate .faint{opacity:.65}"
    ".plate .cell{fill:#1b1b1b}.plate .light{fill:#fdfcf9}"
    ".plate{color:#1c1e21}@media (prefers-color-scheme:dark){.plate{color:#e6e4df}}"
    f"{','.join(f'{place} .plate' for place in LIGHT_NOTEBOOKS)}{{color:#1c1e21}}"
    f"{','.join(f'{place} .plate' for place in DARK_NOTEBOOKS)}{{color:#e6e4df}}"
)
"""Of pictures alone, also where one stands inside a page."""


DRAWN = 16
"""Tokens side by side."""
SIZE = re.compile(r'width="(\d+)" height="(\d+)"')


def grid(
    values: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    axes: tuple[str, str] = ("", ""),
    signed: bool = True,
    words: Sequence[Sequence[str]] | None = None,
    limit: float | None = None,
    room: int = 14,
) -> str:
    """A heat map with its numbers, or with ``words`` in their place; NaN is left blank.

    ``limit`` has the deepest colour; all but a few values are below it unless it is said. ``room``
    is that of rows' names, in letters.
    """
    values = np.asarray(values, dtype=np.float64)
    numbers = [_number(float(value)) for value in values.flat if math.isfinite(value)]
    inside = numbers if words is None else [word for row in words for word in row]
    written = [*columns, *inside]
    wide = max((CELL, *(_width(_cut(name)) + 8 for name in written)))
    left = 14 + max((_width(_cut(name, room)) for name in (*rows, axes[0])), default=0) + 8
    top = (46 if title else 30) + (14 if axes[1] else 0)
    if limit is None:
        finite = np.abs(values[np.isfinite(values)])
        limit = float(np.quantile(finite, 0.995)) if finite.size else 1.0
    parts = [_title(title), _text(left, top - 22, axes[1], "faint") if axes[1] else ""]
    if axes[0]:
        parts.append(_text(left - 8, top - 6, axes[0], "faint", "end"))
    for j, name in enumerate(columns):
        parts.append(_text(left + (j + 0.5) * wide, top - 6, _cut(name), "", "middle"))
    for i, name in enumerate(rows):
        y = top + i * 24
        parts.append(_text(left - 8, y + 16, _cut(name, room), "", "end"))
        for j in range(values.shape[1]):
            value, x = values[i, j], left + j * wide
            if not math.isfinite(value):
                continue
            colour, light = _colour(float(value), limit or 1.0, signed)
            word = "" if words is None else f" {words[i][j]}"
            told = escape(f"{name} · {columns[j]}:{word} {value:.6g}")
            kind = "cell light" if light else "cell"
            said = _number(float(value)) if words is None else _cut(words[i][j])
            parts.append(
                f'<g><title>{told}</title><rect x="{x:.1f}" y="{y}" width="{wide - 1:.1f}" '
                f'height="23" fill="{colour}"/>'
                + _text(x + wide / 2 - 0.5, y + 15.5, said, kind, "middle")
                + "</g>"
            )
    across = max(left + len(columns) * wide + 12, _titled(title))
    return _svg(across, top + len(rows) * 24 + 10, parts)


def largest_columns(values: Array) -> Array:
    """The columns that a picture of tokens has room for: the largest by size, in their order."""
    sizes = np.nan_to_num(np.abs(values)).max(axis=0, initial=0.0)
    return np.sort(np.argsort(-sizes, kind="stable")[:DRAWN])


def bars(rows: Sequence[tuple[str, float]], title: str = "", note: str = "") -> str:
    """Signed bars, one below the other, with their numbers."""
    left = 14 + max((_width(_cut(name, 28)) for name, _ in rows), default=0) + 8
    room, most = 320.0, max((abs(value) for _, value in rows), default=1.0) or 1.0
    least = min(0.0, *(value for _, value in rows)) if rows else 0.0
    reach = max(0.0, *(value for _, value in rows)) - least if rows else 1.0
    scale = room / (reach or most)
    zero, top, parts = left + 52 - least * scale, 34 if title else 12, [_title(title)]
    for i, (name, value) in enumerate(rows):
        y = top + i * (BAR + 5)
        start, wide = zero + min(0.0, value) * scale, max(abs(value) * scale, 0.6)
        colour = f"rgb{POSITIVE if value >= 0 else NEGATIVE}".replace(" ", "")
        parts.append(_text(left, y + 12, _cut(name, 28), "", "end"))
        parts.append(
            f'<rect x="{start:.1f}" y="{y}" width="{wide:.1f}" height="{BAR}" fill="{colour}"/>'
        )
        at, anchor = (start + wide + 5, "start") if value >= 0 else (start - 5, "end")
        parts.append(_text(at, y + 12, f"{value:+.4g}", "", anchor))
    bottom = top + len(rows) * (BAR + 5)
    parts.append(
        f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{top - 4}" y2="{bottom}" '
        'stroke="currentColor" stroke-opacity=".45"/>'
    )
    if note:
        parts.append(_text(14, bottom + 16, note, "faint"))
    return _svg(max(left + room + 120, _titled(title)), bottom + (26 if note else 10), parts)


def mosaic(
    maps: Array, rows: Sequence[str], columns: Sequence[str], title: str = "", pixel: int = 6
) -> str:
    """Small maps of shares in rows and columns, each on its own scale and without numbers."""
    maps = np.asarray(maps, dtype=np.float64)
    high, wide = maps.shape[2] * pixel, max(maps.shape[3] * pixel, _width(max(columns, key=len)))
    left, top = 14 + max(map(_width, rows)) + 8, 46 if title else 30
    parts = [_title(title)]
    for j, name in enumerate(columns):
        parts.append(_text(left + j * (wide + 10) + wide / 2, top - 6, name, "", "middle"))
    for i, name in enumerate(rows):
        y = top + i * (high + 10)
        parts.append(_text(left - 8, y + high / 2 + 4, name, "", "end"))
        for j, other in enumerate(columns):
            x, most = left + j * (wide + 10), float(np.quantile(maps[i, j], 0.99)) or 1.0
            told = f"{name} · {other}: at most {maps[i, j].max():.4g}"
            parts.append(f"<g><title>{escape(told)}</title>")
            for (r, c), value in np.ndenumerate(maps[i, j]):
                colour, _ = _colour(float(value), most, signed=False)
                parts.append(
                    f'<rect x="{x + c * pixel:.1f}" y="{y + r * pixel}" width="{pixel}" '
                    f'height="{pixel}" fill="{colour}"/>'
                )
            parts.append("</g>")
    across = max(left + len(columns) * (wide + 10) + 12, _titled(title))
    return _svg(across, top + len(rows) * (high + 10), parts)


def forecast(
    past: Array, future: Array, ends: tuple[Array, Array] | None, title: str, wide: int = 320
) -> str:
    """A line that goes on as a forecast, with the interval around it."""
    high, top, left = 110.0, 30.0, 52.0
    every = np.concatenate([past, future, *(ends or ())])
    low, reach = float(every.min()), float(np.ptp(every)) or 1.0
    across = (wide - left - 12) / max(1, len(past) + len(future) - 1)

    def path(values: Array, start: int) -> str:
        points = ((left + (start + i) * across, float(v)) for i, v in enumerate(values))
        return " ".join(f"{x:.1f},{top + high * (1 - (v - low) / reach):.1f}" for x, v in points)

    def line(points: str, colour: str) -> str:
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>'

    parts, now = [_title(_cut(title, 40))], len(past)
    if ends is not None:
        around = f"{path(ends[0], now)} {' '.join(path(ends[1], now).split()[::-1])}"
        fill = f"rgb{POSITIVE}".replace(" ", "")
        parts.append(f'<polygon points="{around}" fill="{fill}" fill-opacity=".22"/>')
    joined = np.concatenate([past[-1:], future])
    parts.append(line(path(past, 0), "currentColor"))
    parts.append(line(path(joined, now - 1), f"rgb{POSITIVE}".replace(" ", "")))
    for value, y in ((low + reach, top + 4), (low, top + high + 4)):
        parts.append(_text(left - 6, y, f"{value:.3g}", "faint", "end"))
    return _svg(wide, top + high + 14, parts)


def beside(pictures: Sequence[str], wide: int = 1000) -> str:
    """Several pictures in one, in rows of as many as fit."""
    parts, left, top, most, across = [], 0, 0, 0, 0
    for picture in pictures:
        width, height = map(int, SIZE.search(picture).groups())  # type: ignore[union-attr]
        if left and left + width > wide:
            left, top, most = 0, top + most + 10, 0
        parts.append(picture.replace("<svg ", f'<svg x="{left}" y="{top}" ', 1))
        left, most = left + width + 10, max(most, height)
        across = max(across, left)
    return _svg(across, top + most, parts)


class Pictured(Shown):
    """A result with a picture, which notebooks show below its tables."""

    def picture(self) -> str:
        """An SVG."""
        raise AssertionError("every result draws its own")

    def plot(self, file: str | Path) -> None:
        """Write the picture as .svg or .png."""
        save(self.picture(), file)

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}{self.picture()}"


def save(svg: str, file: str | Path) -> None:
    """Write a picture as .svg or .png, whole or not at all."""
    file = Path(file)
    if file.suffix not in (".svg", ".png"):
        raise WrongKind(f"a picture is saved as .svg or .png, got {str(file)!r}")
    picture = png(svg) if file.suffix == ".png" else svg.encode()
    with replacing(file) as place:
        place.write_bytes(picture)


def png(svg: str) -> bytes:
    """A picture in pixels, two for each unit, on white: pixels cannot follow a dark page."""
    import resvg_py as resvg

    return bytes(resvg.svg_to_bytes(svg_string=svg, zoom=2, background="#ffffff"))


def _colour(value: float, limit: float, signed: bool) -> tuple[str, bool]:
    """The colour of a value, and whether writing on it must be light."""
    share = min(1.0, abs(value) / limit)
    far = (POSITIVE if value > 0 else NEGATIVE) if signed else SHARE
    depth = share if signed else math.sqrt(share)
    mixed = tuple(round(near + depth * (end - near)) for near, end in zip(PAPER, far, strict=True))
    return f"rgb{mixed}".replace(" ", ""), depth > 0.62


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.2f}" if 0.005 <= abs(value) < 100 else f"{value:.0e}".replace("e-0", "e-")


def _width(text: str) -> float:
    return sum(LETTER if ord(c) < 0x1100 else 12 for c in text)


def _cut(text: str, most: int = 14) -> str:
    shown = "".join(c if c.isprintable() else "⏎" if c == "\n" else "�" for c in text)
    shown = f"·{shown[1:]}" if shown.startswith(" ") else shown
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _title(text: str) -> str:
    return _text(14, 18, text, "title") if text else ""


def _titled(text: str) -> float:
    """The width that a title needs."""
    return 28 + 6.8 * len(text) if text else 0


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _svg(wide: float, high: float, parts: Sequence[str]) -> str:
    inside = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plate" width="{wide:.0f}" '
        f'height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}"><style>{STYLE}</style>{inside}</svg>'
    )

"""What a model and a trace show of themselves in a notebook: a picture first, tables below.

HTML without scripts and other files. Text takes the notebook's colour and tints let it through, so
that it can be read on light and on dark.
"""

from collections.abc import Iterable, Sequence
from html import escape
from math import sqrt
from typing import Any, NamedTuple

from vesalius.views import Part, html

WORDS, TOKENS, HEADS, CELLS = 5, 64, 16, 6000
"""What is drawn at most: likeliest words, tokens, heads of a layer, cells of attention."""
PIXELS, APART = 46, 51
"""The side of a head's picture, and the way from one to the next."""
FAINT = 0.002
"""A score that is not drawn."""
OUTPUT, SCORE = "178, 66, 128", "196, 118, 24"
TINTS = ("0, 90, 143", "0, 128, 98", "196, 118, 24", "178, 66, 128", "110, 84, 184")
STYLE = f"""
.vesalius {{ max-width: 60em }}
.vesalius .top {{ font: 600 1.35em/1.3 "Iowan Old Style", Palatino, "Noto Serif", Georgia, serif;
  margin: .1em 0 .4em }}
.vesalius .top span {{ font: 13px system-ui, sans-serif; opacity: .65; margin-left: .7em }}
.vesalius .chips {{ display: flex; flex-wrap: wrap; gap: 4px; margin: .3em 0 .7em }}
.vesalius .chips span {{ padding: 2px 8px; border: 1px solid rgba(128, 128, 128, .35);
  border-radius: 7px; white-space: pre; font: 600 14px/1.35 Palatino, Georgia, serif }}
.vesalius .chips > small {{ align-self: center }}
.vesalius .chips small {{ font: 10px system-ui, sans-serif; opacity: .75 }}
.vesalius .plates {{ display: flex; flex-wrap: wrap; gap: 1.2em 2.4em; align-items: flex-start }}
.vesalius .bars {{ display: grid; grid-template-columns: auto 9em auto; gap: 3px 10px;
  align-items: center }}
.vesalius .bars i {{ font: 600 14px Palatino, Georgia, serif; white-space: pre; text-align: right }}
.vesalius .bars div {{ height: 11px; border-radius: 3px; background: rgba({OUTPUT}, .85) }}
.vesalius .bars span {{ font-variant-numeric: tabular-nums }}
.vesalius .stack {{ display: flex; gap: 2px; height: 30px; overflow: hidden; border-radius: 7px;
  margin: .4em 0 .3em }}
.vesalius .stack span {{ overflow: hidden; text-align: center; white-space: nowrap;
  font: italic 600 14px/30px Palatino, Georgia, serif }}
.vesalius .key {{ display: flex; flex-wrap: wrap; gap: 2px 16px; margin-bottom: .5em }}
.vesalius .key span::before {{ content: ""; display: inline-block; width: 9px; height: 9px;
  margin-right: 5px; border-radius: 2px; background: var(--tint) }}
.vesalius summary {{ cursor: pointer; margin: .5em 0 .2em; opacity: .8 }}
.vesalius figure {{ margin: 0 }}
.vesalius figcaption {{ opacity: .65; margin-bottom: 3px }}
.vesalius svg text {{ font: 9.5px system-ui, sans-serif; fill: currentColor; opacity: .65 }}
"""


class Set(NamedTuple):
    """Parameters of one kind: the size of each, and how many there are."""

    symbol: str
    name: str
    size: int
    times: int


class Head(NamedTuple):
    """Where a head looks: a row for each query, a column for each key."""

    name: str
    layer: int
    head: int
    scores: Any


Best = Sequence[tuple[int, str, float]]
"""Words or classes: number, name and probability."""


def of_trace(
    title: tuple[str, str],
    given: str | Sequence[tuple[str, float | None]],
    best: tuple[str, Best],
    heads: Sequence[Head],
    parts: Iterable[Part],
) -> str:
    """What was read, what comes of it, where every head looks, and all steps.

    ``given`` is a sentence, or tokens with their bits; ``best`` says where the words are likeliest.
    """
    drawn = f"{_bars(*best)}{_attention(heads)}"
    return _page(
        _top(*title),
        f"<p>{escape(given)}</p>" if isinstance(given, str) else _chips(given),
        f'<div class="plates">{drawn}</div>' if drawn else "",
        _folded(title[1], parts),
    )


def of_model(title: tuple[str, str], sets: Sequence[Set], parts: Sequence[Part]) -> str:
    """How large it is and where its parameters lie, and its settings."""
    total = sum(one.size * one.times for one in sets) or 1
    stack, key, others = [], [], 0
    for i, one in enumerate(sets):
        size, tint = one.size * one.times, TINTS[i % len(TINTS)]
        many = f" × {one.times}" if one.times > 1 else ""
        said = escape(f"{one.name} {one.symbol}: {one.size:,}{many}, {size / total:.1%}")
        name = escape(one.symbol) if size > 0.06 * total else ""
        style = f"flex: {size / total:.5f} 1 0; background: rgba({tint}, .38)"
        stack.append(f'<span style="{style}" title="{said}">{name}</span>')
        if size < 0.001 * total:
            others += size
        else:
            key.append(f'<span style="--tint: rgba({tint}, .7)">{said}</span>')
    if others:
        key.append(f'<span style="--tint: rgba(128, 128, 128, .5)">others: {others:,}</span>')
    tables, lines = ([p for p in parts if isinstance(p, str) is kind] for kind in (False, True))
    return _page(
        _top(*title),
        f'<div class="stack">{"".join(stack)}</div><div class="key">{"".join(key)}</div>',
        _folded("settings", tables),
        *(f"<p>{escape(str(line))}</p>" for line in lines),
    )


def _page(*pieces: str) -> str:
    return f'<div class="vesalius"><style>{STYLE}</style>{"".join(pieces)}</div>'


def _top(name: str, rest: str) -> str:
    return f'<div class="top">{escape(name)}<span>{escape(rest)}</span></div>'


def _folded(name: str, parts: Iterable[Part]) -> str:
    return f"<details><summary>{escape(name)}</summary>{html(*parts)}</details>"


def _visible(token: str) -> str:
    """A token whose blanks and line ends can be seen."""
    return escape(token.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥"))


def _chips(tokens: Sequence[tuple[str, float | None]]) -> str:
    """The tokens, deeper where they surprised."""
    told = []
    for token, bits in tokens[-TOKENS:]:
        style = f"background: rgba({OUTPUT}, {min(0.6, (bits or 0.0) / 18):.2f})"
        below = "" if bits is None else f" <small>{bits:.1f}</small>"
        told.append(f'<span style="{style}">{_visible(token)}{below}</span>')
    more = "… " if len(tokens) > TOKENS else ""
    known = any(bits is not None for _, bits in tokens)
    legend = "<small>bits of surprisal</small>" if known else ""
    return f'<div class="chips">{more}{"".join(told)}{legend}</div>'


def _bars(where: str, best: Best) -> str:
    if not best:
        return ""
    most = max(p for _, _, p in best) or 1.0
    rows = (
        f"<i>{_visible(name or str(i))}</i>"
        f'<div style="width: {max(1.0, 100 * p / most):.1f}%"></div><span>{p:.1%}</span>'
        for i, name, p in best[:WORDS]
    )
    bars = f'<div class="bars">{"".join(rows)}</div>'
    return f"<figure><figcaption>{escape(where)}</figcaption>{bars}</figure>"


def _attention(heads: Sequence[Head]) -> str:
    """Where every head looks: queries downwards, keys across, the last layer on top."""
    drawable = [one for one in heads if one.head <= HEADS]
    if not drawable or sum(one.scores.size for one in drawable) > CELLS:
        return ""
    layers = sorted({one.layer for one in drawable}, reverse=True)
    across = max(one.head for one in drawable)
    wide, high = 22 + across * APART, 16 + len(layers) * APART
    drawn = [
        f'<text x="{22 + m * APART + PIXELS / 2}" y="10" text-anchor="middle">{m + 1}</text>'
        for m in range(across)
    ]
    for row, layer in enumerate(layers):
        top = 16 + row * APART
        drawn.append(f'<text x="12" y="{top + PIXELS / 2 + 3}" text-anchor="end">{layer}</text>')
        drawn += [_head(one, top) for one in drawable if one.layer == layer]
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    caption = "<figcaption>attention: heads across, layers upwards</figcaption>"
    return f"<figure>{caption}<svg {size}>{''.join(drawn)}</svg></figure>"


def _head(one: Head, top: float) -> str:
    left = 22 + (one.head - 1) * APART
    rows, columns = one.scores.shape
    down, across = PIXELS / rows, PIXELS / columns
    cells = "".join(
        f'<rect x="{left + j * across:.2f}" y="{top + i * down:.2f}" width="{across:.2f}" '
        f'height="{down:.2f}" fill="rgba({SCORE}, {sqrt(p):.2f})"/>'
        for i, row in enumerate(one.scores.tolist())
        for j, p in enumerate(row)
        if p > FAINT
    )
    place = f'x="{left}" y="{top}" width="{PIXELS}" height="{PIXELS}" rx="3"'
    frame = f'<rect {place} fill="none" stroke="rgba(128, 128, 128, .4)"/>'
    return f"<g><title>{escape(one.name)}</title>{cells}{frame}</g>"

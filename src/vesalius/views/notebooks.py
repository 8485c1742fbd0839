"""What a model and a trace show of themselves in a notebook: a picture first, tables below.

HTML without scripts and other files. Colours are the page's, light or dark as the notebook is; text
takes the notebook's colour, and tints let it through.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from vesalius.views import rasters
from vesalius.views.colours import rgb
from vesalius.views.shown import Part, counted, html

WORDS, TOKENS, HEADS = 5, 1000, 16
"""What is drawn at most: likeliest words, the last tokens, heads of a layer."""
PIXELS = 46
"""The side of a head's picture."""
TINTS = ("parameter", "state", "score", "output", "negative")
STYLE = f"""
.vesalius {{ max-width: 60em }}
.vesalius .top {{ font: 600 1.35em/1.3 "Iowan Old Style", Palatino, "Noto Serif", Georgia, serif;
  margin: .1em 0 .4em }}
.vesalius .top span {{ font: 13px system-ui, sans-serif; opacity: .65; margin-left: .7em }}
.vesalius .long {{ display: flex; flex-direction: column-reverse; max-height: 13em; overflow: auto;
  margin-bottom: .7em }}
.vesalius .chips {{ display: flex; flex-wrap: wrap; gap: 4px; margin: .3em 0 .7em }}
.vesalius .chips span {{ padding: 2px 8px; border: 1px solid rgba(128, 128, 128, .35);
  border-radius: 7px; white-space: pre; font: 600 14px/1.35 Palatino, Georgia, serif }}
.vesalius .chips > small {{ align-self: center }}
.vesalius .chips small {{ font: 10px system-ui, sans-serif; opacity: .75 }}
.vesalius .plates {{ display: flex; flex-wrap: wrap; gap: 1.2em 2.4em; align-items: flex-start }}
.vesalius .bars {{ display: grid; grid-template-columns: auto 9em auto; gap: 3px 10px;
  align-items: center }}
.vesalius .bars i {{ font: 600 14px Palatino, Georgia, serif; white-space: pre; text-align: right }}
.vesalius .bars div {{ height: 11px; border-radius: 3px; background: rgba(var(--v-output), .85) }}
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
.vesalius .heads {{ display: grid; gap: 5px; align-items: center; justify-items: center;
  justify-content: start }}
.vesalius .heads span {{ font-size: 10px; opacity: .65 }}
.vesalius .heads div {{ width: {PIXELS}px; height: {PIXELS}px; border-radius: 3px;
  outline: 1px solid rgba(128, 128, 128, .4) }}
.vesalius .heads i {{ display: block; height: 100%; background: rgb(var(--v-score)) }}
.vesalius img {{ width: {rasters.SIDE}px; image-rendering: pixelated; border-radius: 3px }}
"""


CLASSES = "classes"
"""What the bars of classes are headed by; all others are of tokens."""


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
    image: tuple[Any, int] | None = None,
) -> str:
    """What was read, what comes of it, where every head looks, and the steps.

    ``given`` is a sentence, or tokens with their bits; ``best`` says where the words are likeliest;
    ``image`` has the values of a picture, and how many of them a patch is wide.
    """
    drawn = f"{_image(*image) if image else ''}{_bars(*best)}{_attention(heads)}"
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
        style = f"flex: {size / total:.5f} 1 0; background: rgba(var(--v-{tint}), .38)"
        stack.append(f'<span style="{style}" title="{said}">{name}</span>')
        if size < 0.001 * total:
            others += size
        else:
            key.append(f'<span style="--tint: rgba(var(--v-{tint}), .7)">{said}</span>')
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
    shown = token.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
    return escape("".join(c if c.isprintable() else repr(c)[1:-1] for c in shown))


def _chips(tokens: Sequence[tuple[str, float | None]]) -> str:
    """The tokens, deeper where they surprised."""
    told = []
    for token, bits in tokens[-TOKENS:]:
        style = f"background: rgba(var(--v-output), {min(0.6, (bits or 0.0) / 18):.2f})"
        below = "" if bits is None else f" <small>{bits:.1f}</small>"
        told.append(f'<span style="{style}">{_visible(token)}{below}</span>')
    before = len(tokens) - TOKENS
    more = f"<small>… {counted(before, 'token')} before</small>" if before > 0 else ""
    known = any(bits is not None for _, bits in tokens)
    legend = "<small>bits of surprisal</small>" if known else ""
    chips = f'<div class="chips">{more}{"".join(told)}{legend}</div>'
    return f'<div class="long">{chips}</div>'  # which begins at its end, where words come next


def _image(values: Any, patch: int) -> str:
    address = rasters.image(values, patch, rgb("score", "dark"))
    rows, columns = values.shape[0] // patch, values.shape[1] // patch
    said = f"{rows} × {columns} patches of {patch} × {patch}"
    return f'<figure><figcaption>{said}</figcaption><img alt="{said}" src="{address}"></figure>'


def _bars(where: str, best: Best) -> str:
    if not best:
        return ""
    shown = escape if where == CLASSES else _visible
    most = max(p for _, _, p in best) or 1.0
    rows = (
        f"<i>{shown(name or str(i))}</i>"
        f'<div style="width: {max(1.0, 100 * p / most):.1f}%"></div><span>{_percent(p)}</span>'
        for i, name, p in best[:WORDS]
    )
    bars = f'<div class="bars">{"".join(rows)}</div>'
    return f"<figure><figcaption>{escape(where)}</figcaption>{bars}</figure>"


def _percent(p: float) -> str:
    """One decimal; of less than a tenth of a percent two digits."""
    return f"{p:.1%}" if p == 0 or p >= 0.000995 else f"{100 * p:.2g}%"


def _attention(heads: Sequence[Head]) -> str:
    """Where every head looks: queries downwards, keys across, the last layer on top."""
    drawable = [one for one in heads if one.head <= HEADS]
    if not drawable:
        return ""
    layers = sorted({one.layer for one in drawable}, reverse=True)
    across = max(one.head for one in drawable)
    drawn = ["<span></span>", *(f"<span>{m + 1}</span>" for m in range(across))]
    for layer in layers:
        drawn.append(f"<span>{layer}</span>")
        row = {one.head: one for one in drawable if one.layer == layer}
        drawn += [_head(row[m]) if m in row else "<span></span>" for m in range(1, across + 1)]
    style = f"grid-template-columns: auto repeat({across}, {PIXELS}px)"
    grid = f'<div class="heads" style="{style}">{"".join(drawn)}</div>'
    said = "attention: heads across, layers upwards; in each, queries downwards and keys across"
    left_out = max(one.head for one in heads) - HEADS
    said += f"; {counted(left_out, 'more head')} of a layer left out" if left_out > 0 else ""
    return f"<figure><figcaption>{said}</figcaption>{grid}</figure>"


def _head(one: Head) -> str:
    mask = f"url({rasters.scores(one.scores, PIXELS)}) 0 0 / 100% 100%"
    inside = f'<i style="-webkit-mask: {mask}; mask: {mask}"></i>'
    return f'<div title="{escape(one.name)}">{inside}</div>'

"""Letters and words in figures: indices up and down, widths of texts, tokens that can be seen."""

import re
from html import escape

RUN = re.compile(r"([_^])(?:\{([^}]*)\}|(.))")
BLANK = "␣"
BAR, HAT = "\u0304", "\u0302"
ACCENTS = re.compile(f"[{BAR}{HAT}]")
"""Which follow their letter; they are drawn."""


def runs(text: str) -> list[tuple[str, str]]:
    """A formula in pieces, each with ``_`` or ``^`` if it stands low or high."""
    found, start = [], 0
    for match in RUN.finditer(text):
        if match.start() > start:
            found.append((text[start : match.start()], ""))
        found.append((match[2] if match[2] is not None else match[3], match[1]))
        start = match.end()
    return [*found, (text[start:], "")] if start < len(text) else found


def span(text: str, up: str, size: float) -> str:
    """A piece of a formula; letters slant, and what follows is brought back to the line."""
    shift = {"": 0.0, "_": 0.25, "^": -0.42}[up] * size
    words = re.findall(r"[^\W\d_]+|[\W\d_]+", text) or [text]
    found = []
    for i, word in enumerate(words):
        slanted = ' font-style="italic"' if len(word) == 1 and word.isalpha() else ""
        moved = f' dy="{number(shift)}"' if up and i == 0 else ""
        small = f' font-size="{number(size * 0.72)}"' if up else ""
        found.append(f"<tspan{moved}{small}{slanted}>{escape(word)}</tspan>")
    back = f'<tspan dy="{number(-shift)}">\u200b</tspan>' if up else ""
    return "".join(found) + back


def wide(text: str, size: float) -> float:
    """About how wide a text is."""
    narrow, broad = "iljt.,:;|[]()'!f \u200b", "mwMWΩ"
    units = 0.0
    for c in text:
        if "\u0300" <= c <= "\u036f" or c == "\u200b":
            continue
        units += (
            1.0
            if ord(c) >= 0x1100 and not 0x2000 <= ord(c) < 0x2300
            else 0.3
            if c in narrow
            else 0.82
            if c in broad
            else 0.66
            if c.isupper()
            else 0.545
        )
    return units * size


def broken(text: str, size: float, most: float) -> list[str]:
    """A sentence in lines no wider than ``most``, broken between words."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and wide(longer, size) <= most:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def visible(token: str, most: int = 12) -> str:
    """A token that can be seen: blanks and line ends have signs, what cannot be printed too."""
    signs = {"\n": "↵", "\t": "⇥", "\r": "␍"}
    shown = "".join(signs.get(c) or (c if c.isprintable() else "�") for c in token)
    rest = shown.lstrip(" ")
    shown = BLANK * (len(shown) - len(rest)) + rest
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def quoted(token: str) -> str:
    """A token within a sentence."""
    return f"“{visible(token, 24).replace(BLANK, ' ')}”"


def number(value: float) -> str:
    """A coordinate, with no more digits than can be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"

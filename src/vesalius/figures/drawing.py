"""A pen for figures: SVG that needs no style sheet, with an id for every part.

Colours are attributes, so that a file stands alone, and classes too, so that a page can say them
anew: ``fill-state``, ``stroke-ink``. Nothing has a style of its own, which strict pages refuse.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape

from vesalius.figures.lettering import ACCENTS, BLANK, HAT, broken, number, runs, span, wide
from vesalius.views.colours import THEMES

SANS = "'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, 'DejaVu Sans', sans-serif"
MATHS = "'STIX Two Text', 'Times New Roman', 'Liberation Serif', 'DejaVu Serif', serif"
MARGIN = 7
Point = tuple[float, float]


@dataclass(frozen=True)
class Part:
    """A part of a figure: what it is called, and the step or parameter set that it stands for."""

    id: str
    label: str
    kind: str
    step: str = ""
    parameters: str = ""
    """The path of a parameter set, as ``Phi[3].Gamma``."""
    count: int = 0
    """How many numbers the set has."""
    members: tuple[str, ...] = ()
    """The paths that the set is said to hold, where the figure lists them."""


@dataclass
class Drawing:
    """What was drawn so far; y grows downwards, and the edges grow with what is drawn."""

    theme: str = "light"
    parts: list[Part] = field(default_factory=list)
    _under: list[str] = field(default_factory=list)
    _over: list[str] = field(default_factory=list)
    _edges: list[float] = field(default_factory=lambda: [1e9, 1e9, -1e9, -1e9])

    @property
    def left(self) -> float:
        return self._edges[0]

    @property
    def top(self) -> float:
        return self._edges[1]

    @property
    def right(self) -> float:
        return self._edges[2]

    @property
    def bottom(self) -> float:
        return self._edges[3]

    def reach(self, x: float, y: float) -> None:
        """Make room up to a point."""
        least, most = self._edges[:2], self._edges[2:]
        self._edges = [*map(min, least, (x, y)), *map(max, most, (x, y))]

    def _add(self, text: str, under: bool = False) -> None:
        (self._under if under else self._over).append(text)

    def _paint(self, fill: str, stroke: str = "none", width: float = 1) -> str:
        """Colours by name, as classes and as attributes; ``#`` and ``none`` are as they are."""
        classes, found = [], []
        for name, value in (("fill", fill), ("stroke", stroke)):
            colour = THEMES[self.theme].get(value)
            if colour is not None:
                classes.append(f"{name}-{value}")
            if colour is not None or name == "fill" or value != "none":
                found.append(f'{name}="{colour or value}"')
        if stroke != "none" and width != 1:
            found.append(f'stroke-width="{number(width)}"')
        said = [f'class="{" ".join(classes)}"'] if classes else []
        return " ".join([*said, *found])

    @contextmanager
    def part(self, part: Part, title: str = "") -> Iterator[None]:
        """All that is drawn meanwhile belongs to a part."""
        self.parts.append(part)
        data = {"step": part.step, "parameters": part.parameters, "count": part.count or ""}
        about = "".join(f' data-{key}="{escape(str(v))}"' for key, v in data.items() if v)
        self._add(f'<g id="{escape(part.id)}" class="part {part.kind}"{about}>')
        self._add(f"<title>{escape(title or part.label)}</title>")
        yield
        self._add("</g>")

    @contextmanager
    def group(self, kind: str, **data: str) -> Iterator[None]:
        """All that is drawn meanwhile says something of ``data``, without being a part."""
        about = "".join(f' data-{key}="{escape(value)}"' for key, value in data.items() if value)
        self._add(f'<g class="{kind}"{about}>')
        yield
        self._add("</g>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 11,
        fill: str = "ink",
        anchor: str = "start",
        bold: bool = False,
        underlined: bool = False,
        fixed: bool = False,
    ) -> None:
        """Words; ``fixed`` ones have figures of one width."""
        more = ' font-weight="600"' if bold else ""
        more += ' text-decoration="underline"' if underlined else ""
        more += ' font-variant-numeric="tabular-nums"' if fixed else ""
        blanks = len(text) - len(text.lstrip(BLANK))
        if blanks:  # drawn, as fonts that have the sign would set the whole word
            length, text = wide(text, size), text[blanks:]
            start = x - {"start": 0.0, "middle": length / 2, "end": length}[anchor]
            step = (length - wide(text, size)) / blanks
            for k in range(blanks):
                left, right = start + k * step + 1, start + (k + 1) * step - 1.5
                ends = [(left, y - 1), (left, y + 2), (right, y + 2), (right, y - 1)]
                self.curve(ends, fill, 1)
            x, anchor = start + blanks * step, "start"
        self._text(x, y, escape(text), wide(text, size), size, fill, anchor, SANS, more)

    def maths(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 12,
        fill: str = "ink",
        anchor: str = "start",
        underlined: bool = False,
    ) -> None:
        """Letters of the paper: ``H^{[l]}`` and ``W_m^Q`` have their indices up and down."""
        pieces = runs(text)
        inside = "".join(span(ACCENTS.sub("", word), up, size) for word, up in pieces)
        length = sum(wide(word, size * (0.72 if up else 1)) for word, up in pieces)
        self._text(x, y, inside, length, size, fill, anchor, MATHS, "")
        start = x - {"start": 0.0, "middle": length / 2, "end": length}[anchor]
        if underlined:
            self.line(
                (start, y + 4.5), (start + length, y + 4.5), stroke=fill, thick=0.8, head=False
            )
        for found in ACCENTS.finditer(text):  # few fonts set them well
            before = text[: found.start() - 1]
            at = start + wide(before, size) + wide(text[found.start() - 1], size) / 2 + size * 0.06
            high = y - size * (0.78 if text[found.start() - 1].isupper() else 0.6)
            self._accent(at, high, found[0], size * 0.2, fill)

    def _accent(self, x: float, y: float, accent: str, half: float, fill: str) -> None:
        ends = [(x - half, y), (x + half, y)]
        if accent == HAT:
            ends = [(x - half, y), (x, y - half), (x + half, y)]
        self.curve(ends, fill, 0.9)

    def _text(
        self,
        x: float,
        y: float,
        inside: str,
        length: float,
        size: float,
        fill: str,
        anchor: str,
        family: str,
        more: str,
    ) -> None:
        start = x - {"start": 0.0, "middle": length / 2, "end": length}[anchor]
        self.reach(start, y - size * 0.8)
        self.reach(start + length, y + size * 0.25)
        turned = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._add(
            f'<text x="{number(x)}" y="{number(y)}"{turned} font-family="{family}" '
            f'font-size="{number(size)}"{more} {self._paint(fill)}>{inside}</text>'
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "raised",
        stroke: str = "ink",
        rounded: float = 6,
        dashed: bool = False,
        thick: float = 1,
        under: bool = False,
    ) -> None:
        self.reach(x, y)
        self.reach(x + width, y + height)
        more = ' stroke-dasharray="4 3"' if dashed else ""
        more += f' rx="{number(rounded)}"' if rounded else ""
        self._add(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}"{more} {self._paint(fill, stroke, thick)}/>',
            under,
        )

    def circle(
        self, x: float, y: float, radius: float, fill: str = "raised", stroke: str = "ink"
    ) -> None:
        self.reach(x - radius, y - radius)
        self.reach(x + radius, y + radius)
        place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
        self._add(f"<circle {place} {self._paint(fill, stroke)}/>")

    def line(
        self,
        *points: Point,
        stroke: str = "ink",
        thick: float = 1,
        head: bool = True,
        dashed: bool = False,
        turn: float = 7,
    ) -> None:
        """A line through points with rounded corners, and at its end the head of an arrow."""
        for point in points:
            self.reach(*point)
        end, before = points[-1], points[-2]
        way = (_sign(end[0] - before[0]), _sign(end[1] - before[1]))
        last = (end[0] - 4 * way[0], end[1] - 4 * way[1]) if head else end
        more = ' stroke-dasharray="3 3"' if dashed else ""
        path = _rounded([*points[:-1], last], turn)
        self._add(f'<path d="{path}"{more} {self._paint("none", stroke, thick)}/>')
        if head:
            self._add(f'<path d="{_head(end, way)}" {self._paint(stroke)}/>')

    def over(
        self, x: float, bottom: float, top: float, crossed: float, stroke: str = "ink"
    ) -> None:
        """A line upwards that passes over another one in a small arc."""
        r = 5
        self.reach(x, bottom)
        self.reach(x, top)
        low, high = number(crossed + r), number(crossed - r)
        path = f"M{number(x)} {number(bottom)}V{low}A{r} {r} 0 0 1 {number(x)} {high}V{number(top)}"
        self._add(f'<path d="{path}" {self._paint("none", "ink")}/>')

    def curve(self, points: Sequence[Point], stroke: str, thick: float = 1.4) -> None:
        """A line through many points."""
        for point in points:
            self.reach(*point)
        path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        self._add(f'<path d="{path}" {self._paint("none", stroke, thick)}/>')

    def sign(self, x: float, y: float, sign: str, radius: float = 8, stroke: str = "ink") -> None:
        """A circle with ``+``, or with a dot or cross for a product."""
        self.circle(x, y, radius, "raised", stroke)
        if sign == "·":
            return self.circle(x, y, 1.7, stroke, "none")
        r = radius * 0.5 if sign == "+" else radius * 0.42
        ends = [(-r, 0, r, 0), (0, -r, 0, r)] if sign == "+" else [(-r, -r, r, r), (-r, r, r, -r)]
        path = "".join(
            f"M{number(x + a)} {number(y + b)}L{number(x + c)} {number(y + d)}"
            for a, b, c, d in ends
        )
        return self._add(f'<path d="{path}" {self._paint("none", stroke, 1.2)}/>')

    def dots(self, x: float, y: float, across: bool = False) -> None:
        """Three dots for what is left out."""
        for k in (-1, 0, 1):
            self.circle(x + 5 * k * across, y + 5 * k * (not across), 1.1, "soft", "none")

    def entitle(self, title: str, about: str) -> None:
        """Write above all that is drawn what it is, in lines that are no wider than it."""
        left, most = self.left, max(self.right - self.left, 210.0)
        lines = [(line, 12.0, True) for line in broken(title, 12.5, most)]
        lines += [(line, 9.5, False) for line in broken(about, 9.5, most)]
        y = self.top - 14 - sum(size + 5 for _, size, _ in lines)
        with self.group("caption"):
            for line, size, bold in lines:
                y += size + 5
                self.text(left, y, line, size, "ink" if bold else "soft", bold=bold)

    def svg(self, title: str, about: str = "") -> str:
        """The whole as a file of its own."""
        x, y = self.left - MARGIN, self.top - MARGIN
        width, height = self.right - x + MARGIN, self.bottom - y + MARGIN
        box = " ".join(map(number, (x, y, width, height)))
        paper = (
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" class="paper" fill="{THEMES[self.theme]["paper"]}"/>'
        )
        described = f"<desc>{escape(about)}</desc>" if about else ""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="vesalius-figure" viewBox="{box}" '
            f'width="{number(width)}" height="{number(height)}" role="img" '
            f'aria-label="{escape(title)}"><title>{escape(title)}</title>{described}{paper}'
            f"{''.join(self._under)}{''.join(self._over)}</svg>\n"
        )


def _sign(value: float) -> int:
    return (value > 1e-6) - (value < -1e-6)


def _head(end: Point, way: tuple[int, int]) -> str:
    (x, y), (a, b) = end, way
    points = [
        (x, y),
        (x - 7 * a - 3.2 * b, y - 7 * b - 3.2 * a),
        (x - 7 * a + 3.2 * b, y - 7 * b + 3.2 * a),
    ]
    return "M" + "L".join(f"{number(p)} {number(q)}" for p, q in points) + "Z"


def _rounded(points: Sequence[Point], turn: float) -> str:
    """Straight pieces whose corners are quarter circles, or less where there is no room."""
    path = f"M{number(points[0][0])} {number(points[0][1])}"
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        r = min(turn, _far(before, here) / 2, _far(here, after) / 2)
        start, end = _towards(here, before, r), _towards(here, after, r)
        path += f"L{number(start[0])} {number(start[1])}"
        path += f"Q{number(here[0])} {number(here[1])} {number(end[0])} {number(end[1])}"
    return f"{path}L{number(points[-1][0])} {number(points[-1][1])}"


def _far(a: Point, b: Point) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _towards(here: Point, there: Point, r: float) -> Point:
    far = _far(here, there) or 1.0
    return here[0] + (there[0] - here[0]) * r / far, here[1] + (there[1] - here[1]) * r / far

"""One vertical line of boxes, bottom to top: dimensions at its left, parameter sets at its right.

That is how the paper organises its figures (Figure 1). A box, the arrow that leaves it and the
letter of what it gives are one part, whose id is the step's name.
"""

from collections.abc import Sequence

from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.lettering import runs, wide
from vesalius.figures.sets import NONE, Dims, listed, members, tone
from vesalius.figures.subject import Subject

HALF, LOW, GAP, PLUS = 57, 23, 20, 7
"""Half the width of a box, its height, the length of an arrow, the radius of a sum."""
INSIDE = 8
"""How far a frame stands from its boxes."""
PAST = 11
"""How far a residual connection passes a box."""
WIDE = 165
"""Of a line of a set."""


class Column:
    """A line of boxes that grows upwards."""

    def __init__(
        self, drawing: Drawing, subject: Subject, x: float = 0.0, half: float = HALF
    ) -> None:
        self.drawing, self.subject, self.x, self.half = drawing, subject, x, half
        self.y = 0.0
        """Where the next box stands."""
        self.aside = 0.0
        """How much further left dimensions stand, beside a branch."""
        self.framed = 0.0
        """How much further out dimensions and sets stand, inside a frame."""

    def begin(
        self, letter: str, shape: str = "", id_: str = "", step: str = "", fill: str = "ink"
    ) -> None:
        """What comes in from below, with an arrow."""
        if id_:
            with self.drawing.part(Part(id_, letter, "state", step)):
                self._begin(letter, shape, fill)
        else:
            self._begin(letter, shape, fill)

    def _begin(self, letter: str, shape: str, fill: str) -> None:
        self.drawing.maths(self.x, self.y, letter, 13, fill, "middle")
        if shape:
            far = wide("".join(word for word, _ in runs(letter)), 13) / 2 + 8
            self.drawing.text(self.x + far, self.y - 0.5, shape, 9, "soft", fixed=True)
        self.y -= 13
        self.rise("", "", 20)

    def rise(self, letter: str, shape: str, gap: float = GAP, fill: str = "state") -> None:
        """An arrow upwards, with the letter of what goes along it."""
        middle = self.y - min(gap, GAP) / 2 + 4
        self.drawing.line((self.x, self.y), (self.x, self.y - gap))
        if letter:
            self.drawing.maths(self.x + 7, middle, letter, 11.5, fill)
        if shape:
            self.drawing.text(self.x - 7, middle - 0.5, shape, 9, "soft", "end", fixed=True)
        self.y -= gap

    def box(
        self,
        label: str,
        step: str,
        shape: str = "",
        *,
        path: str = "",
        letter: str | None = None,
        dims: Dims = NONE,
        height: float = LOW,
        fill: str = "state",
        gap: float = GAP,
        maths: bool = False,
        said: str = "",
    ) -> float:
        """A box that gives a step, and the arrow that leaves it; where its middle is."""
        s, d = self.subject, self.drawing
        name, top = s.at(step), self.y - height
        with d.part(Part(name, label, "box", name), said or f"{label} gives {name}"):
            d.rect(self.x - self.half, top, 2 * self.half, height)
            write = d.maths if maths else d.text
            write(
                self.x,
                top + height / 2 + 4 if height <= 30 else top + 14.5,
                label,
                11.5,
                anchor="middle",
            )
            self.y = top
            self.rise(s.state(name) if letter is None else letter, shape, gap, fill)
        self.set(top + min(height, LOW) / 2, path)
        self.dims(top + min(height, LOW) / 2, dims)
        return top + height / 2

    def plus(self, step: str, shape: str = "", gap: float = GAP, inner: str = "") -> float:
        """A sum; where its middle is. Without a step it is part of what follows."""
        s, d, y = self.subject, self.drawing, self.y - PLUS
        name = s.at(step)
        if name:
            with d.part(Part(name, "sum", "sum", name), f"the sum gives {name}"):
                d.sign(self.x, y, "+", PLUS)
                self.y = y - PLUS
                self.rise(s.state(name), shape, gap)
        else:
            d.sign(self.x, y, "+", PLUS)
            self.y = y - PLUS
            self.rise(inner, shape, gap, "soft")
        return y

    def past(self, start: float, end: float) -> None:
        """A residual connection: it leaves the line below a sublayer and comes back at its sum."""
        x = self.x - self.half - PAST
        points = ((self.x, start), (x, start), (x, end), (self.x - PLUS, end))
        self.drawing.line(*points, stroke="state", thick=1.3, turn=9)

    def set(
        self, y: float, path: str, x: float | None = None, note: str = "", anchor: str = "start"
    ) -> None:
        """A parameter set and its count, at the right unless it is said where."""
        if not path:
            return
        s, d = self.subject, self.drawing
        at = self.x + self.half + 8 + min(self.framed, INSIDE) if x is None else x
        count = s.count(path)
        if not count:  # one that is fixed, or shared with another
            d.maths(at, y + 4, note or s.letter(path), 12, "soft")
            return
        name = s.at(path)
        part = Part(name, s.letter(path), "set", parameters=name, count=count)
        with d.part(part, f"{name}: {count:,} parameters"):
            d.maths(at, y - 1.5, s.letter(path), 12, tone(s, path), anchor, underlined=True)
            d.text(at, y + 12.5, f"{count:,}", 9, "soft", anchor, fixed=True)

    def dims(self, y: float, found: Dims) -> None:
        """Dimensions of parameters, at the left: in letters, and below them in numbers."""
        d, at = self.drawing, self.x - self.half - 8 - self.framed - self.aside
        with d.group("dims", of=" ".join(map(self.subject.at, found.of))):
            if found.letters:
                low = y - 0.5 if found.numbers else y + 4
                d.maths(at, low, found.letters, 10.5, "soft", "end")
            if found.numbers:
                d.text(at, y + 11, found.numbers, 9, "soft", "end", fixed=True)

    def from_right(self, y: float, path: str, note: str = "", step: str = "") -> None:
        """A parameter that is added at a sum."""
        at = self.x + self.half + 8 + min(self.framed, INSIDE)
        self.drawing.line((at - 4, y), (self.x + PLUS, y))
        self.set(y, path, at, note)

    def frame(self, bottom: float, label: str, path: str = "", more: float = 0.0) -> None:
        """A frame around all since ``bottom``, with its name at the top."""
        left = self.x - self.half - PAST - INSIDE - more
        right = self.x + self.half + INSIDE
        top = self.y
        size = (right - left, bottom - top)
        self.drawing.rect(left, top, *size, "state-wash", "state", 10, under=True)
        self.drawing.text(left + 9, top + 15, label, 9.5, "state", bold=True)
        self.set(top + 12, path, right + 7)


def package(
    drawing: Drawing, s: Subject, function: str, path: str, held: Sequence[str] = ()
) -> None:
    """At the far right: the function that the figure packages, and the set of its parameters.

    The set is that of ``path`` with all its members; or ``held``, what the figure uses of a model,
    which has a name of the figure's own in place of a path.
    """
    d, x = drawing, drawing.right + 12
    top, bottom = d.top + 2, d.bottom - 2
    middle = (top + bottom) / 2
    d.line((x - 5, top), (x, top), (x, bottom), (x - 5, bottom), stroke="edge", head=False)
    d.line((x, middle), (x + 8, middle), stroke="edge", head=False)
    d.maths(x + 14, middle - 14, function, 12.5)
    inside = tuple(held) or members(s, path)
    count, name = sum(map(s.count, inside)), s.at(path)
    part = Part(
        name,
        s.letter(path) if not held else path,
        "set",
        parameters="" if held or path == "theta" else name,
        count=count,
        members=tuple(map(s.at, inside)),
    )
    opening = "{ " if held else f"{s.letter(path)} = {{ "
    with d.part(part, f"{name}: {count:,} parameters"):
        y = middle + 5
        for i, line in enumerate(_lines(listed(s, inside), opening)):
            d.maths(x + 14 + long(opening) * (i > 0), y, line, 12, "parameter")
            y += 16
        d.text(x + 14, y - 1, f"{count:,} parameters", 9, "soft", fixed=True)


def _lines(letters: Sequence[str], opening: str) -> list[str]:
    """A set in lines of letters."""
    lines = [opening]
    for i, letter in enumerate(letters):
        last = i == len(letters) - 1
        piece = f"{letter} }}" if last else f"{letter}, "
        indent = 0 if len(lines) == 1 else long(opening)
        if lines[-1] != opening and indent + long(lines[-1] + piece) > WIDE:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def long(formula: str) -> float:
    """About how wide a formula of a set is."""
    return sum(wide(word, 12 * (0.72 if up else 1)) for word, up in runs(formula))

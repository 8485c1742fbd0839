"""Columns side by side that grow upwards together: a token, or a patch or time step, in each."""

from collections.abc import Sequence

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.figures.column import Column, shape_of
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.heat import colour, limit_of
from vesalius.figures.lettering import visible
from vesalius.figures.subject import Subject, times

APART = 96
"""Between two columns."""
CELLS = 5
"""Entries of a vector that are drawn."""
MOST = 6
"""Columns; of more tokens the first and the last are drawn."""


class Rows:
    """Columns that grow upwards together."""

    def __init__(self, d: Drawing, s: Subject) -> None:
        self.d, self.s, self.y = d, s, 0.0
        names = _columns(s)
        left = -(len(names) - 1) * APART / 2
        self.all = [(name, left + k * APART) for k, name in enumerate(names)]
        self.places = [(name, x) for name, x in self.all if name]
        """The columns that are drawn: the token's number, and where."""
        self.first = 1
        """The number of the first vector of what is drawn."""
        room = 52 if "M" in s.symbols or s.family.window else 84
        self.side = Column(d, s, half=APART * (len(names) - 1) / 2 + room)

    @property
    def gap(self) -> float | None:
        """Where columns are left out."""
        return next((x for name, x in self.all if not name), None)

    def arrows(self, length: float = 16, only: Sequence[str] = ()) -> None:
        for name, x in self.places:
            if not only or name in only:
                self.d.line((x, self.y), (x, self.y - length))
        self.y -= length

    def vectors(
        self,
        letter: str,
        step: str = "",
        fill: str = "state",
        shape: str = "",
        hot: bool = False,
        above: str = "",
        held: str = "",
    ) -> None:
        """A vector in every column and its size at the left; ``held`` is the step of its values."""
        high = CELLS * 6.5
        part = Part(step, letter, "vector", step) if step else None
        if part:
            with self.d.part(part, f"{step}, a column for each of the {self.s.words}"):
                self._vectors(letter, step or held, fill, high, hot, above)
        else:
            self._vectors(letter, step or held, fill, high, hot, above)
        if self.gap is not None:
            self.d.dots(self.gap, self.y - high / 2, across=True)
        self.y -= high
        self.side.dims(self.y + high / 2, shape, "")

    def _vectors(
        self, letter: str, step: str, fill: str, high: float, hot: bool, above: str
    ) -> None:
        values = self._values(step)
        for name, x in self.places:
            held = None if values is None else values[:, int(name) - self.first]
            limit = 1.0 if values is None else limit_of(values)
            for k in range(CELLS):
                shade = "raised"
                if hot:
                    shade = "ink" if k == self._hot(name) else "raised"
                elif held is not None and k < len(held):
                    shade, _ = colour(float(held[k]), limit, True, self.d.theme)
                self.d.rect(x - 5, self.y - high + 6.5 * k, 10, 6.5, shade, fill, 0, thick=0.8)
            up = f"^{{{above}}}" if above else ""
            self.d.maths(x + 10, self.y - high / 2 + 4, f"{letter}_{{{name}}}{up}", 12, fill)
            if hot and self.s.trace is not None:
                id_ = f"1 at {self.s.trace.ids[int(name) - 1]:,}"
                self.d.text(x + 10, self.y - high / 2 + 16, id_, 8, "soft", fixed=True)

    def _hot(self, name: str) -> int:
        """The cell that is one: where the token's id stands in the vocabulary."""
        if self.s.trace is None:
            return self.places.index(next(one for one in self.places if one[0] == name))
        return int(CELLS * self.s.trace.ids[int(name) - 1] / self.s["V"])

    def _values(self, step: str) -> Array | None:
        trace = self.s.trace
        if trace is None or not step:
            return None
        value = np.asarray(trace[step], dtype=np.float64)
        return value[:, None] if value.ndim == 1 else value

    def boxes(
        self, label: str, path: str = "", dims: tuple[str, str] = ("", ""), fill: str = "parameter"
    ) -> None:
        """The same box in every column: one matrix for all of them."""
        for _, x in self.places:
            self.d.rect(x - 24, self.y - 24, 48, 24)
            write = self.d.maths if fill == "parameter" else self.d.text
            write(x, self.y - 8, label, 12.5 if fill == "parameter" else 10.5, fill, "middle")
        self.side.set(self.y - 12, path)
        self.side.dims(self.y - 12, *dims)
        self.y -= 24

    def wide(
        self, label: str, step: str, path: str, dims: tuple[str, str] = ("", ""), high: float = 44
    ) -> None:
        """One box over all columns."""
        left, right = self.all[0][1] - 40, self.all[-1][1] + 40
        name = self.s.at(step)
        with self.d.part(Part(name, label, "box", name), f"{label} gives {name}"):
            self.d.rect(left, self.y - high, right - left, high, "state-wash", "state", 10)
            self.d.maths((left + right) / 2, self.y - high / 2 + 5, label, 14, "ink", "middle")
        if path:
            self.side.set(self.y - high / 2, path)
            self.side.dims(self.y - high / 2, *dims)
        self.y -= high

    def read(self) -> None:
        """From the tokens to their embeddings."""
        d, s = self.d, self.s
        if s.trace is not None:
            tokens = s.trace.tokens()
            for name, x in self.places:
                d.text(
                    x, self.y, visible(tokens[int(name) - 1], 11), 12, anchor="middle", bold=True
                )
            self.y -= 14
            self.arrows(12)
        rows = {"images": "P²C", "series": "C"}.get(s.family.reads, "|V|")
        rows = "P" if s.family.by_channel else rows
        hot = s.family.reads not in ("images", "series")
        every = self.places
        if s.family.reads == "images":  # the first column is the class token, which is no patch
            self.places, self.first = every[1:], 2
        self.vectors("ω", s.given, "ink", rows, hot=hot)
        self.arrows()
        self.boxes("E", "E", shape_of(s, "E", "d_e", rows))
        self.arrows()
        if self.first == 2:
            d.maths(every[0][1], self.y + 12, "x_{class}", 12, "parameter", "middle")
            self.side.set(self.y + 30, "x_class", self.side.half + 52)
        if s.has("b_e"):
            self.side.set(self.y + 30, "b_e", self.side.half + (92 if self.first == 2 else 52))
        self.places, self.first = every, 1
        self.vectors("x", "X", shape="d_e")
        if "M" in s.symbols:
            self._positions()

    def _positions(self) -> None:
        d, s = self.d, self.s
        path = "Lambda_p" if s.has("Lambda_p") else "Lambda"
        self.arrows(12)
        bert = s.has("Lambda_s")
        for name, x in self.places:
            d.sign(x, self.y - 7, "+", 7)
            d.line((x - 24, self.y - 7), (x - 7, self.y - 7))
            high = "^s" if bert else ""
            d.maths(x - 26, self.y - 3, f"λ_{{{name}}}{high}", 11.5, "parameter", "end")
            if bert:
                d.line((x + 24, self.y - 7), (x + 7, self.y - 7))
                d.maths(x + 26, self.y - 3, f"λ_{{{name}}}^p", 11.5, "parameter")
        self.side.set(self.y - 7, path, note="Λ, fixed")
        if bert:
            self.side.set(self.y - 7, "Lambda_s", self.side.half + 60)
        self.side.dims(self.y - 7, *shape_of(s, path, "d_e", "n"))
        self.y -= 14
        self.arrows(12)
        self.vectors("h", "H[0]", shape="d_e", above="[0]")

    def words(self, logits: str, odds: str, letter: str) -> None:
        """From states to distributions, and the likeliest words of a text."""
        s = self.s
        rows = s["V_U"] if "V_U" in s.symbols else s["V"]
        inner = "d_e" if "M" in s.symbols else "d_h" if s.family.window else "d_o"
        self.arrows()
        if s.has("U"):
            self.boxes("U", "U", (f"|V| × {inner}", times(*(s.shape("U") or ()))))
        else:
            self.boxes("E^T", "", ("|V| × d_e", times(rows, s["d_e"])))
        self.arrows()
        self.vectors("z", logits, "output", "|V|")
        self.arrows()
        self.boxes("softmax", fill="ink")
        self.arrows()
        self.vectors(letter, odds, "output", "|V|")
        self.likeliest(odds)

    def likeliest(self, step: str) -> None:
        s = self.s
        if s.trace is None or s.trace.model is None:
            return
        odds, tokenizer = self._values(step), s.trace.model.tokenizer
        assert odds is not None
        self.y -= 8
        for name, x in self.places:
            column = odds[:, -1 if odds.shape[1] == 1 else int(name) - 1]
            best = int(np.argmax(column))
            word = tokenizer.piece(best) if tokenizer else str(best)
            self.d.text(x, self.y - 14, visible(word, 11), 12, "output", "middle", bold=True)
            self.d.text(
                x, self.y - 1, f"{100 * column[best]:.1f} %", 10, "output", "middle", fixed=True
            )
        self.y -= 26


def _columns(s: Subject) -> list[str]:
    """The tokens' numbers, with nothing where some are left out."""
    if s.trace is None:
        return ["1", "2", "", str(s["n"]) if s.family.window else "n"]
    n = s.length or 1
    if n <= MOST:
        return [str(k) for k in range(1, n + 1)]
    return ["1", "2", "3", "", str(n - 1), str(n)]

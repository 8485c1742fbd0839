"""Columns side by side that grow upwards together: a token, or a patch or time step, in each."""

from collections.abc import Sequence

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.figures.blocks import norm_name
from vesalius.figures.column import Column
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.heat import colour, limit_of
from vesalius.figures.lettering import visible
from vesalius.figures.sets import NONE, Dims, dims
from vesalius.figures.subject import Subject

APART = 96
"""Between two columns."""
CELLS, CELL = 5, 6.5
"""Entries of a vector that are drawn, and how high each is."""
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
        self.shift = 0
        """How far the vectors' numbers are behind those of the columns: patches stand one on."""
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
        entries: Sequence[int] = range(CELLS),
        limit: float = 0.0,
    ) -> None:
        """A vector in every column and its size at the left.

        ``held`` is the step of its values, ``h[2,i]`` one step per token; ``entries`` are drawn.
        The darkest colour stands for ``limit``. Default: what the values reach.
        """
        cells = max(CELLS, len(self._words)) if hot else len(entries)
        high = cells * CELL
        part = Part(step, letter, "vector", step) if step else None
        if part:
            with self.d.part(part, f"{step}, a column for each of the {self.s.words}"):
                self._vectors(letter, step or held, fill, cells, hot, above, entries, limit)
        else:
            self._vectors(letter, step or held, fill, cells, hot, above, entries, limit)
        if self.gap is not None:
            self.d.dots(self.gap, self.y - high / 2, across=True)
        self.y -= high
        self.side.dims(self.y + high / 2, Dims(shape))

    def _vectors(
        self,
        letter: str,
        step: str,
        fill: str,
        cells: int,
        hot: bool,
        above: str,
        entries: Sequence[int],
        limit: float,
    ) -> None:
        values, high = self._values(step), cells * CELL
        for name, x in self.places:
            held = None if values is None else values[:, int(name) - 1 - self._behind(values)]
            limit = limit or (1.0 if values is None else limit_of(values))
            for k in range(cells):
                shade = "raised"
                if hot:
                    shade = "ink" if k == self._hot(name) else "raised"
                elif held is not None and entries[k] < len(held):
                    shade, _ = colour(float(held[entries[k]]), limit, True, self.d.theme)
                self.d.rect(x - 5, self.y - high + CELL * k, 10, CELL, shade, fill, 0, thick=0.8)
            up = f"^{{{above}}}" if above else ""
            low = f"{letter}_{{{self._number(name)}}}{up}"
            self.d.maths(x + 10, self.y - high / 2 + 4, low, 12, fill)
            if hot and self.s.trace is not None:
                id_ = f"1 at {self.s.trace.ids[int(name) - 1]:,}"
                self.d.text(x + 10, self.y - high / 2 + 16, id_, 8, "soft", fixed=True)

    def _behind(self, values: Array) -> int:
        """How many columns of the figure have none among these values."""
        return 0 if values.shape[1] == (self.s.length or 0) else self.shift

    def _number(self, name: str) -> str:
        """A column's number among the vectors that are drawn."""
        if not self.shift:
            return name
        return str(int(name) - self.shift) if name.isdecimal() else f"{name}−{self.shift}"

    @property
    def _words(self) -> list[int]:
        """The words that are drawn, by their ids: the rows in which their vectors have a one."""
        if self.s.trace is None:
            return list(range(len(self.places)))
        return sorted({self.s.trace.ids[int(name) - 1] for name, _ in self.places})

    def _hot(self, name: str) -> int:
        """The cell that is one: words of their own have cells of their own."""
        if self.s.trace is None:
            return next(k for k, one in enumerate(self.places) if one[0] == name)
        return self._words.index(self.s.trace.ids[int(name) - 1])

    def _values(self, step: str) -> Array | None:
        trace = self.s.trace
        if trace is None or not step:
            return None
        if step.endswith(",i]"):
            one = [trace[f"{step[:-2]}{i + 1}]"] for i in range(self.s.length or 0)]
            return np.stack(one, axis=1).astype(np.float64)
        value = np.asarray(trace[step], dtype=np.float64)
        return value[:, None] if value.ndim == 1 else value

    def boxes(self, label: str, path: str = "", of: Dims = NONE, fill: str = "parameter") -> None:
        """The same box in every column: one matrix for all of them."""
        for _, x in self.places:
            self.d.rect(x - 24, self.y - 24, 48, 24)
            write = self.d.maths if fill == "parameter" or "_" in label else self.d.text
            write(x, self.y - 8, label, 12.5 if fill == "parameter" else 10.5, fill, "middle")
        self.side.set(self.y - 12, path)
        self.side.dims(self.y - 12, of)
        self.y -= 24

    def wide(self, label: str, step: str, path: str, of: Dims = NONE, high: float = 44) -> None:
        """One box over all columns."""
        left, right = self.all[0][1] - 40, self.all[-1][1] + 40
        name = self.s.at(step)
        with self.d.part(Part(name, label, "box", name), f"{label} gives {name}"):
            self.d.rect(left, self.y - high, right - left, high, "state-wash", "state", 10)
            write = self.d.maths if "_" in label else self.d.text
            size = 14 if "_" in label else 11.5
            write((left + right) / 2, self.y - high / 2 + 4.5, label, size, "ink", "middle")
        if path:
            self.side.set(self.y - high / 2, path)
            self.side.dims(self.y - high / 2, of)
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
        self.embed()

    def embed(self) -> None:
        """From what is read to its embeddings, and to the input of the transformer."""
        s = self.s
        size = {"images": "P²C", "series": "C"}.get(s.family.reads, "|V|")
        hot, every = s.family.reads not in ("images", "series"), self.places
        if s.family.reads == "images":  # the first column is the class token, which is no patch
            self.places, self.shift = every[1:], 1
        self.vectors("ω", s.given, "ink", "P" if s.family.by_channel else size, hot=hot)
        self.arrows()
        self.boxes("E, b_e" if s.has("b_e") else "E", "E", dims(s, "E"))
        if s.has("b_e"):
            self.side.set(self.y + 12, "b_e", self.side.half + 60)
        if s.family.reads == "series" and not s.family.by_channel:
            self.arrows()
            self.boxes("× √d_e", fill="ink")
        self.arrows()
        self.vectors("x", "X", shape="d_e")
        if self.shift:
            self._class_token(every[0][1])
        self.places, self.shift = every, 0
        if "M" in s.symbols:
            self._positions()

    def _class_token(self, x: float) -> None:
        """In front of the patches, a parameter."""
        d, high = self.d, CELLS * CELL
        values = self._values("X")
        for k in range(CELLS):
            fill = "raised"
            if values is not None and k < len(values):
                fill, _ = colour(float(values[k, 0]), limit_of(values), True, d.theme)
            place = (x - 5, self.y + CELL * k, 10, CELL)
            d.rect(*place, fill, "parameter", 0, thick=0.8)
        d.maths(x + 10, self.y + high / 2 + 4, "x_{class}", 12, "parameter")
        self.side.set(self.y + high / 2, "x_class")

    def _positions(self) -> None:
        d, s = self.d, self.s
        path = "Lambda_p" if s.has("Lambda_p") else "Lambda"
        bert = s.has("Lambda_s")
        self.arrows(24 if bert else 12)
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
            self.side.dims(self.y - 20, dims(s, "Lambda_s"))
        self.side.dims(self.y - 7 + 13 * bert, dims(s, path))
        self.y -= 14
        normed = s.has("Xi_e") and s["order"] == "post"
        self.arrows(28 if bert else 16 if normed else 12)
        if normed:
            self.wide(norm_name(s), "H[0]", "Xi_e", dims(s, "Xi_e.alpha"), 26)
            self.arrows()
            self.vectors("h", shape="d_e", above="[0]", held="H[0]")
        else:
            self.vectors("h", "H[0]", shape="d_e", above="[0]")

    def words(self, logits: str, odds: str, letter: str) -> None:
        """From states to distributions, and the likeliest words of a text."""
        s = self.s
        self.arrows()
        if s.has("U"):
            self.boxes("U", "U", dims(s, "U"))
        else:
            of = dims(s, "E")
            letters, numbers = (" × ".join(reversed(one.split(" × "))) for one in of[:2])
            self.boxes("E^T", "", Dims(letters, numbers, of.of))
        for bias in ("b_U", "b_E"):
            if s.has(bias):
                self.side.set(self.y + 12, bias, self.side.half + (60 if s.has("U") else 8))
        self.arrows()
        entries = self._likeliest(odds)
        self.vectors("z", logits, "output", "|V|", entries=entries)
        self.arrows()
        self.boxes("softmax", fill="ink")
        self.arrows()
        self.vectors(letter, odds, "output", "|V|", entries=entries, limit=1)
        self.likeliest(odds)

    def _likeliest(self, step: str) -> Sequence[int]:
        """The likeliest word of every column that is drawn, then those likely in any of them."""
        values = self._values(step)
        if values is None:
            return range(CELLS)
        drawn = values[:, [int(name) - 1 - self._behind(values) for name, _ in self.places]]
        best = set(drawn.argmax(axis=0).tolist())
        order = np.argsort(-drawn.max(axis=1), kind="stable")
        others = [int(row) for row in order if row not in best]
        return sorted([*best, *others[: max(0, CELLS - len(best))]])

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

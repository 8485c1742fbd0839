"""What is drawn: a model's configuration with its shapes, counts and letters, and where one looks.

Shapes and counts are those of the parameter set, by its paths: ``Phi[3].Gamma.Psi[2].W_Q``.
"""

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from vesalius.families import family_of, shapes
from vesalius.families.config import Config
from vesalius.families.family import Family, OwnConfig
from vesalius.machine.properties import cached_property
from vesalius.traces.trace import Trace

LETTERS = {
    "Phi": "Φ",
    "Gamma": "Γ",
    "Psi": "Ψ",
    "Pi": "Π",
    "Xi": "Ξ",
    "Lambda": "Λ",
    "Omega": "Ω",
    "mu": "μ",
    "alpha": "α",
    "beta": "β",
    "theta": "θ",
}
STATISTICS = (".mean", ".variance")
"""Arrays that are not trained."""
SUPERSCRIPT = {"Lambda_s", "Lambda_p", "Pi_C", "Pi_M", "Pi_N", "Pi_Y", "Pi_R", "b_E", "W_Y"}
"""Names whose second letter the paper sets high."""


@dataclass(frozen=True)
class Subject:
    """A model, and the layer, head and position that a figure looks at."""

    config: Config
    name: str
    layer: int | None = None
    head: int | None = None
    position: int | None = None
    """Of a token, from 0."""
    length: int | None = None
    """How many tokens there are; ``n``, if it is not said."""
    trace: Trace | None = None
    """A forward pass, for figures with numbers."""

    @property
    def family(self) -> Family:
        return family_of(self.config)

    @cached_property
    def symbols(self) -> dict[str, Any]:
        return self.config.symbols()

    def __getitem__(self, symbol: str) -> Any:
        return self.symbols[symbol]

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every trained array of two layers with one head, which tell those of all."""
        return _shapes(self.config)

    def at(self, name: str) -> str:
        """A step's name or path with the layer, head and time in place of their letters."""
        for letter, value in (("l", self.layer), ("m", self.head)):
            if value is not None:
                name = re.sub(rf"(?<=[\[,]){letter}(?=[\],])", str(value), name)
        if self.length is not None:
            time = self.length if self.position is None else self.position + 1
            name = re.sub(r"(?<=[\[,])i(?=\])", str(time), name)
        return name

    def index(self, letter: str) -> str:
        """``l``, or the layer's number."""
        value = {"l": self.layer, "m": self.head}[letter]
        return letter if value is None else str(value)

    def known(self, path: str) -> str:
        """The path among ``shapes`` whose array or set has the same size as this one."""
        layer = min(self.layer or self["L"], 2, self["L"])
        path = path.replace("Phi[l]", f"Phi[{layer}]").replace("Psi[m]", "Psi[1]")
        path = re.sub(r"Psi\[\d+\]", "Psi[1]", path)
        return re.sub(r"Phi\[(?:[3-9]|\d\d+)\]", f"Phi[{min(2, self['L'])}]", path)

    def shape(self, path: str) -> tuple[int, ...] | None:
        """Of an array by its path, or None where the model has no such."""
        return self.shapes.get(self.known(path))

    def has(self, path: str) -> bool:
        return self.count(path) > 0

    def count(self, path: str) -> int:
        """How many trained numbers a set or an array has."""
        if path == "theta":
            names = {re.split(r"[\[.]", name)[0] for name in self.shapes}
            return sum(self.count(name) for name in names)
        if path == "Phi":
            further = self._sum(f"Phi[{min(2, self['L'])}].")
            return self._sum("Phi[1].") + int(self["L"] - 1) * further
        path = self.known(path)
        exact = self.shapes.get(path)
        return math.prod(exact) if exact is not None else self._sum(f"{path}.")

    def _sum(self, start: str) -> int:
        """The numbers of all arrays whose paths begin so, each head counted."""
        found = 0
        for path, shape in self.shapes.items():
            if path.startswith(start):
                heads = ".Psi[" in path and ".Psi[" not in start
                found += math.prod(shape) * (self["M"] if heads else 1)
        return found

    def letter(self, path: str) -> str:
        """A parameter set as the paper writes it: ``Ξ_1^{[l]}``."""
        *above, name = path.split(".")
        if above and name in ("W", "b", "alpha", "beta"):  # α of Ξ_1 is α_1, W of Π^C is W^C
            name += "".join(above[-1].partition("[")[0].partition("_")[1:])
        layer = re.search(r"Phi\[(\w+)\]", path)
        high = "" if layer is None else f"[{self.at(f'[{layer[1]}]').strip('[]')}]"
        base, _, low = re.sub(r"\[\w+\]$", "", name).partition("_")
        base = LETTERS.get(base, base)
        if name.startswith("Psi["):
            low = self.at(name.replace("Psi", "")).strip("[]")
        if name.partition("[")[0] in SUPERSCRIPT or (above and above[-1] in SUPERSCRIPT):
            return f"{base}^{{{low}}}"
        if path.startswith("Phi[") and low in ("Q", "K", "V", "O", "P", "R", "S"):
            head = self.index("m") if ".Psi" in path else ""
            return base + (f"_{{{head}}}" if head else "") + f"^{{{low}{high}}}"
        return base + (f"_{{{low}}}" if low else "") + (f"^{{{high}}}" if high else "")

    def state(self, step: str) -> str:
        """A step as the paper writes it: ``H̄^{[l]}``, ``h_i^{[l]}``, ``Ŷ``."""
        match = re.fullmatch(r"(\w+?)(?:\[([\w,−]+)\])?", step)
        assert match is not None, step
        name, place = match[1], (match[2] or "").split(",") if match[2] else []
        name, _, more = name.partition("_")
        marks = {"bar": "\u0304", "hat": "\u0302"}
        first, _, rest = more.partition("_")
        base = LETTERS.get(name, name) + marks.get(first, "")
        base = {"Y\u0302": "Ŷ", "y\u0302": "ŷ"}.get(base, base)
        rest = rest if first in marks else more
        if not place:
            return base + (
                f"^{{{rest}}}" if rest.isupper() or rest == "e" else f"_{{{rest}}}" if rest else ""
            )
        low = place[1] if len(place) > 1 else ""
        return base + (f"_{{{low}}}" if low else "") + f"^{{[{place[0]}]}}"

    @property
    def n(self) -> str:
        """How many tokens, as shapes say it."""
        if self.family.by_channel:
            return f"{self['C'] * self['n']:,}"
        if self.family.window or self.family.fixed_length(self.config):
            return f"{self['n']:,}"
        return "n" if self.length is None else f"{self.length:,}"

    @property
    def given(self) -> str:
        """The step that holds the input, where there is one: patches, or a series with padding."""
        if self.family.by_channel:
            return "Omega_p"
        if self.family.reads == "images":
            return "Omega"
        return "Omega" if self.family.reads == "series" and not self["series"] else ""

    @property
    def words(self) -> str:
        """What stands side by side: tokens, pixels, patches or time steps."""
        if self.family.by_channel:
            return "patches"
        return {"pixels": "pixels", "images": "patches", "series": "time steps"}.get(
            self.family.reads, "tokens"
        )


@cache
def _shapes(config: OwnConfig) -> dict[str, tuple[int, ...]]:
    found = shapes(config, L=min(config.symbols()["L"], 2), M=1)
    return {path: shape for path, shape in found.items() if not path.endswith(STATISTICS)}


def times(*sizes: object) -> str:
    """``256 × 4,096``."""
    return " × ".join(f"{size:,}" if isinstance(size, int) else str(size) for size in sizes)

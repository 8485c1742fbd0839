"""The model as the paper draws it: bottom to top, dimensions at the left, parameters at the right.

A figure is boxes and lines with places, made from a configuration. Names of steps hold the letters
``l`` and ``m`` where a layer and a head go, which the page puts in.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from vesalius.counting import Count, count
from vesalius.families import family_of
from vesalius.model import Model

WIDTH, MIDDLE, BOX = 280, 138, 108
GAP = 22
"""Between two boxes, where an arrow goes."""
LOW, HIGH = 24, 44
"""Heights of a box: plain, and with heads in it."""
PLUS = 15
NAMED = 24
"""Above a layer's boxes, where its name stands."""
DRAWN = 12
"""Heads that have a box of their own; where there are more, none has."""


@dataclass
class Node:
    """A box, a sum or a name of several layers, with the step that it gives."""

    kind: str
    """"box", "heads", "plus", "more" or "word"."""
    label: str
    x: float
    y: float
    width: float
    height: float
    step: str = ""
    shape: str = ""
    parameters: str = ""
    count: int = 0
    heads: int = 0
    inside: bool = False
    """Whether it is part of a layer."""


@dataclass
class Figure:
    """What there is to draw; y grows downwards."""

    nodes: list[Node] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Arrows up the middle, as paths of SVG."""
    residuals: list[str] = field(default_factory=list)
    """Connections past a sublayer."""
    block: dict[str, Any] | None = None
    width: float = WIDTH
    height: float = 0.0
    y: float = 0.0
    """Where the next box stands, counted upwards as negative numbers while it is drawn."""

    def add(self, kind: str, label: str, step: str = "", **more: Any) -> Node:
        """A box on top of what there is, with an arrow to it."""
        height = {"heads": HIGH, "plus": PLUS, "more": 14, "word": 16}.get(kind, LOW)
        wide = {"plus": PLUS, "more": 90, "word": 160}.get(kind, BOX)
        if self.nodes:
            self.lines.append(f"M{MIDDLE} {self.y}V{self.y - GAP + 4}")
            self.y -= GAP
        place = (MIDDLE - wide / 2, self.y - height, wide, height)
        node = Node(kind, label, *place, step, **more)
        self.y -= height
        self.nodes.append(node)
        return node

    def past(self, start: float, plus: Node) -> None:
        """A connection that leaves below a sublayer and comes back at its sum."""
        x, end = MIDDLE - BOX / 2 - 15, plus.y + PLUS / 2
        self.residuals.append(
            f"M{MIDDLE} {start}H{x + 8}Q{x} {start} {x} {start - 8}"
            f"V{end + 8}Q{x} {end} {x + 8} {end}H{plus.x}"
        )

    def to_json(self) -> dict[str, Any]:
        top = self.y - 6
        return {
            "nodes": [asdict(node) for node in self.nodes],
            "lines": self.lines,
            "residuals": self.residuals,
            "block": self.block,
            "box": [0, top, self.width, -top + 6],
        }


def figure(model: Model) -> dict[str, Any]:
    """The figure of a model, from its configuration."""
    drawn, counted = Figure(), count(model)
    symbols = model.config.symbols()
    drawn.add("box", "embedding", "X", shape=f"{symbols['d_e']} × n", **_set(counted, "E"))
    if "M" in symbols:
        _transformer(drawn, counted, symbols, family_of(model.config).name)
    elif family_of(model.config).window:
        drawn.add("box", "concatenate", "h_0", shape=f"{symbols['n'] * symbols['d_e']}")
        _layers(drawn, symbols, [("dense", "h[l]", f"{symbols['d_h']}", _set(counted, "Φ[1]"))])
    else:
        gates: list[tuple[Any, ...]] = [(name, f"{letter}[l,i]", "", {}) for name, letter in GATES]
        state: list[tuple[Any, ...]] = [
            ("state", "h[l,i]", f"{symbols['d_o']}", _set(counted, "Φ[l]"))
        ]
        lstm = family_of(model.config).name == "lstm"
        _layers(drawn, symbols, [*(gates if lstm else ()), *state])
    one = family_of(model.config).window
    wide = "" if one else " × n"
    tied = symbols.get("untied") is False or "mlm_head" in symbols
    out = {"parameters": "Eᵀ, tied"} if tied else _set(counted, "U")
    if family_of(model.config).reads in ("images", "series"):
        drawn.add("box", "classes", "z", shape=f"{symbols['Y']:,}", **_set(counted, "Πʸ"))
        return drawn.to_json()
    drawn.add("box", "logits", "z" if one else "Z", shape=f"{symbols['V']:,}{wide}", **out)
    drawn.add("box", "softmax", "y_hat" if one else "Y_hat", shape=f"{symbols['V']:,}{wide}")
    return drawn.to_json()


GATES = (
    ("candidate", "q"),
    ("input gate", "p"),
    ("forget gate", "r"),
    ("context", "c"),
    ("output gate", "s"),
)
"""What an LSTM's layer computes before its state."""


def _set(counted: Count, symbol: str) -> dict[str, Any]:
    """A parameter set as the figure names it, and how many numbers one of it has."""
    for row in counted.rows:
        if row.symbol == symbol:
            return {"parameters": symbol, "count": row.count}
    return {}


def _layers(drawn: Figure, symbols: dict[str, Any], boxes: list[tuple[Any, ...]]) -> None:
    _below(drawn, symbols["L"])
    start = drawn.y - GAP / 2
    for label, step, shape, more in boxes:
        drawn.add("box", label, step, shape=shape, inside=True, **more)
    _around(drawn, start, symbols["L"], {})


def _below(drawn: Figure, layers: int) -> None:
    if layers > 1:
        drawn.add("more", "blocks below", "below")


def _around(drawn: Figure, start: float, layers: int, counted: dict[str, Any]) -> None:
    top = drawn.y - NAMED
    drawn.lines.append(f"M{MIDDLE} {drawn.y}V{top}")
    drawn.y = top
    x = MIDDLE - BOX / 2 - 24
    drawn.block = {"x": x, "y": top, "width": BOX + 48, "height": start - top, **counted}
    if layers > 1:
        drawn.add("more", "blocks above", "above")


def _transformer(drawn: Figure, counted: Count, symbols: dict[str, Any], family: str) -> None:
    """Figure 14: variant 1 normalises after each sublayer, variant 2 before it."""
    wide = f"{symbols['d_e']} × n"
    positions = _set(counted, "Λ") or _set(counted, "Λᵖ")
    first, second = _set(counted, "Ξ₁[l]"), _set(counted, "Ξ₂[l]")
    before = symbols["variant"] == 2
    drawn.add("plus", "+", "H[0]", **positions)
    _below(drawn, symbols["L"])
    start = drawn.y - GAP / 2
    for one, sublayer in ((first, "attention"), (second, "network")):
        attends = sublayer == "attention"
        begun = drawn.y - GAP / 2
        if before:
            step = "H_bar[l]" if attends else "C_bar[l]"
            drawn.add("box", "layerNorm", step, shape=wide, inside=True, **one)
        if attends:
            drawable = symbols["M"] if symbols["M"] <= DRAWN else 0
            heads = {"heads": drawable, "inside": True}
            label = f"{symbols['M']} attention heads"
            kind = "heads" if drawable else "box"
            drawn.add(kind, label, "A[l]", shape=wide, **heads, **_set(counted, "Γ[l]"))
        else:
            inner = f"{symbols['d_f']} × n"
            more = _set(counted, "Π[l]")
            drawn.add("box", "ffnn", "D[l]", shape=inner, inside=True, **more)
        state = "C[l]" if attends else "H[l]"
        plus = drawn.add("plus", "+", state if before else "", inside=True)
        drawn.past(begun, plus)
        if not before:
            drawn.add("box", "layerNorm", state, shape=wide, inside=True, **one)
    _around(drawn, start, symbols["L"], _set(counted, "Φ[l]"))
    if before:
        drawn.add("box", "layerNorm", "H_e", shape=wide, **_set(counted, "Ξₑ"))
    if family == "bert":
        drawn.add("box", "MLM head", "H_O", shape=wide, **_set(counted, "Πᴹ"))

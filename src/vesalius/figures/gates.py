"""The multiplicative gate with the numbers of a text: Figures 21 and 22.

A vector, a mask between zero and one, and their product: c, p and k of the forget gate (45), q, r
and d of the add gate (46), tanh c, s and h of the output gate (48).
"""

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.heat import short
from vesalius.figures.lettering import quoted
from vesalius.figures.subject import Subject

UNITS, EACH, HIGH = 20, 25, 44
"""Units that are drawn, as in the paper; the width of each, and the height of a bar of one."""
GATES = {"forget": ("c", "p", "k"), "add": ("q", "r", "d"), "output": ("c", "s", "h")}
"""What is gated, the mask, and the result."""


def gate_figure(d: Drawing, s: Subject, gate: str) -> str:
    """Bars over the units with the largest entries, and the sigmoid that made the mask."""
    trace = s.trace
    assert trace is not None
    assert s.length is not None
    assert s.layer is not None
    time = s.length if s.position is None else s.position + 1
    source, mask, result = GATES[gate]
    before = gate == "forget"
    width = len(trace[f"{mask}[{s.layer},{time}]"])
    name = f"{source}[{s.layer},{time - before}]"
    v = np.zeros(width) if before and time == 1 else np.asarray(trace[name], dtype=np.float64)
    v = np.tanh(v) if gate == "output" else v
    held = {
        one: np.asarray(trace[f"{one}[{s.layer},{time}]"], np.float64) for one in (mask, result)
    }
    units = np.sort(np.argsort(-np.abs(v), kind="stable")[:UNITS])
    letter = "tanh c" if gate == "output" else source
    low = f"_{{{time - before}}}^{{[{s.layer}]}}"
    rows = (
        ("a", f"{letter}{low}", name if not before or time > 1 else "", v, "state"),
        (
            "b",
            f"{mask}_{{{time}}}^{{[{s.layer}]}}",
            f"{mask}[{s.layer},{time}]",
            held[mask],
            "score",
        ),
        (
            "c",
            f"{result}_{{{time}}}^{{[{s.layer}]}}",
            f"{result}[{s.layer},{time}]",
            held[result],
            "state",
        ),
    )
    y, most = 0.0, max(1e-9, float(np.abs(v).max()), float(np.abs(held[result]).max()))
    for what, shown, step, values, fill in rows:
        one = 1.0 if fill == "score" else most  # a and c have one scale: a gate never amplifies
        y = _bars(d, y, what, shown, step, values[units], fill, units, one) + 26
    _diagram(d, -126, 88, rows[0][1], rows[1][1], rows[2][1])
    _sigmoid(d, -126, 272, held[mask][units])
    read = quoted(trace.tokens()[time - 1])
    few = f"{len(units)} of {width} units, those with the largest entries"
    d.text(0, -26, few if len(units) < width else f"all {width} units", 11, "soft")
    return f"Figures 21 and 22: the {gate} gate of layer {s.layer} at {read}"


def _bars(
    d: Drawing,
    y: float,
    what: str,
    letter: str,
    step: str,
    values: Array,
    fill: str,
    units: Array,
    most: float,
) -> float:
    """Bars up and down from a line, each with its number; where they end."""
    above = HIGH if (values > 0).any() else 8
    below = HIGH if (values < 0).any() else 6
    zero = y + above + 20
    d.text(0, y, f"{what})", 11, bold=True)
    d.maths(16, y, letter, 13, fill)

    def drawn() -> None:
        for n, value in enumerate(values.tolist()):
            x, high = n * EACH + 8, HIGH * abs(value) / most
            shade = "score" if fill == "score" else "positive" if value >= 0 else "negative"
            d.rect(
                x, zero - high if value >= 0 else zero, EACH - 7, max(high, 0.5), shade, "none", 1
            )
            at = zero - high - 3 if value >= 0 else zero + high + 9
            d.text(x + (EACH - 7) / 2, at, short(value), 7.5, "ink", "middle", fixed=True)

    if step:
        with d.part(Part(step, letter, "vector", step), f"{step}, {len(values)} units"):
            drawn()
    else:
        drawn()
    d.line((4, zero), (EACH * len(values) + 4, zero), stroke="edge", head=False)
    for tick, drawn_ in ((most, above == HIGH), (-most, below == HIGH)):
        if drawn_:
            at = zero - HIGH * tick / most
            d.line((0, at), (4, at), stroke="edge", head=False)
            d.text(-3, at + 3, short(tick), 8, "soft", "end", fixed=True)
    for n, unit in enumerate(units.tolist()):
        d.text(
            n * EACH + 8 + (EACH - 7) / 2,
            zero + below + 21,
            str(unit),
            7,
            "soft",
            "middle",
            fixed=True,
        )
    return zero + below + 23


def _diagram(d: Drawing, x: float, y: float, vector: str, mask: str, result: str) -> None:
    """Figure 21a: the control goes through the sigmoid and multiplies the vector."""
    d.text(x - 74, y - 84, "21 a)", 10, "soft", bold=True)
    d.maths(x - 74, y + 4, vector, 12.5, "state", "middle")
    d.line((x - 48, y), (x - 8, y))
    d.sign(x, y, "·")
    d.line((x + 8, y), (x + 46, y))
    d.maths(x + 72, y + 4, result, 12.5, "state", "middle")
    d.rect(x - 20, y + 34, 40, 26)
    d.text(x, y + 51, "σ", 12, anchor="middle")
    d.line((x, y + 34), (x, y + 8))
    d.maths(x + 6, y + 25, mask, 12, "score")
    d.line((x, y + 84), (x, y + 60))


def _sigmoid(d: Drawing, x: float, y: float, mask: Array) -> None:
    """Figure 21b: the sigmoid, and where the mask's entries stand on it."""
    d.text(x - 74, y - 34, "21 b)", 10, "soft", bold=True)
    wide, high = 130.0, 90.0
    left, zero = x - wide / 2, y + high
    d.line((left, zero), (left + wide, zero), stroke="edge", head=False)
    d.line((x, zero), (x, y - 6), stroke="edge", head=False)
    d.line((left, y), (left + wide, y), stroke="line", head=False, dashed=True)
    d.text(x - 4, y + 3, "1", 8.5, "soft", "end")
    ticks = np.linspace(-8, 8, 65)
    curve = [(x + t * wide / 16, zero - high / (1 + np.exp(-t))) for t in ticks.tolist()]
    d.curve(curve, "score")
    odds = np.clip(mask, 1e-6, 1 - 1e-6)
    for at, value in zip(np.log(odds / (1 - odds)).tolist(), mask.tolist(), strict=True):
        d.circle(
            x + max(-8.0, min(8.0, at)) * wide / 16, zero - high * value, 2.6, "raised", "score"
        )
    for tick in (-8, 0, 8):
        d.text(x + tick * wide / 16, zero + 11, str(tick).replace("-", "−"), 8.5, "soft", "middle")

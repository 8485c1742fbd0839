"""Figure 17: every trainable parameter with its dimensions, from top to bottom.

Brown are, as in the paper, the biases of attention that a model may do without.
"""

import re
from dataclasses import dataclass, field

from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.sets import dims, tone
from vesalius.figures.subject import Subject

ROW, EDGE, WIDE = 19, 10, 330


@dataclass
class Node:
    """A set with its parts, or an array."""

    path: str
    parts: list["Node"] = field(default_factory=list)
    repeated: str = ""


def tree(s: Subject) -> list[Node]:
    """The parameter sets as they contain each other; layers and heads once."""
    two = s.count("Phi[1]") != s.count("Phi[2]") and s["L"] > 1
    root = Node("")
    for path in s.shapes:
        if re.search(r"Psi\[([2-9]|\d\d)", path) or (not two and "Phi[2]" in path):
            continue
        path = path.replace("Psi[1]", "Psi[m]")
        path = path.replace("Phi[2]", "Phi[l]") if two else path.replace("Phi[1]", "Phi[l]")
        here, at = root, ""
        for name in path.split("."):
            at = f"{at}.{name}" if at else name
            found = next((part for part in here.parts if part.path == at), None)
            if found is None:
                times_ = (
                    "M"
                    if name == "Psi[m]"
                    else ("L − 1" if two else "L")
                    if name == "Phi[l]"
                    else ""
                )
                found = Node(at, repeated=times_)
                here.parts.append(found)
            here = found
    return root.parts


def parameters_figure(d: Drawing, s: Subject) -> str:
    """All sets in frames that contain each other."""
    total = s.count("theta")
    with d.part(Part("theta", "θ", "set", count=total), f"all parameters: {total:,}"):
        d.maths(0, 0, "θ", 16, "parameter")
        d.text(18, -1, "all trainable parameters", 11.5, bold=True)
        d.text(WIDE + 90, -1, f"{total:,}", 11, anchor="end", bold=True, fixed=True)
    y = 12.0
    for node in tree(s):
        y = _node(d, s, node, 0.0, y) + 5
    d.maths(0, y + 14, _hyper(s), 11.5, "soft")
    return f"Figure 17: all trainable parameters of {s.name}"


def _hyper(s: Subject) -> str:
    """The hyperparameters that the dimensions are made of."""
    known = ("d_e", "d_k", "d_v", "d_f", "d_o", "d_h", "M", "L", "P", "C")
    said = [f"{name} = {s[name]:,}" for name in known if name in s.symbols]
    more = {"V": "|V|", "n": "n", "Y": "|Y|"}
    return ",  ".join(said + [f"{b} = {s[a]:,}" for a, b in more.items() if s.symbols.get(a)])


def _node(d: Drawing, s: Subject, node: Node, x: float, y: float) -> float:
    """Draw a set or an array from y downwards; where it ends."""
    count = s.count(node.path)
    right = WIDE + 90 - x
    part = Part(
        s.at(node.path), s.letter(node.path), "set", parameters=s.at(node.path), count=count
    )
    with d.part(part, f"{part.id}: {count:,} parameters"):
        fill = tone(s, node.path)
        d.maths(x + EDGE, y + 14, s.letter(node.path), 13, fill, underlined=not node.parts)
        if node.parts:
            many = (
                f"  × {s['M'] if node.repeated == 'M' else s['L'] - (node.repeated != 'L'):,}"
                if node.repeated
                else ""
            )
            d.text(
                right - EDGE, y + 14, f"{count:,}{many}", 10, "ink", "end", bold=True, fixed=True
            )
        else:
            found = dims(s, node.path)
            with d.group("dims", of=part.id):
                d.maths(150, y + 14, found.letters, 12, "soft")
                d.text(WIDE - 40, y + 13.5, found.numbers, 10, "soft", "end", fixed=True)
            d.text(right - EDGE, y + 14, f"{count:,}", 10, "ink", "end", fixed=True)
    if not node.parts:
        return y + ROW
    inside = y + ROW + 2
    for one in node.parts:
        inside = _node(d, s, one, x + 12, inside) + (4 if one.parts else 0)
    d.rect(x, y, right - x, inside - y + 4, "none", "edge", 8, under=True)
    return inside + 4

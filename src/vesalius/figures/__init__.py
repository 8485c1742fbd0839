"""The paper's figures, drawn from a model's configuration: ``vs.figure`` and ``vesalius figure``.

Bottom to top, dimensions at the left, parameter sets at the right. ``PARTS`` says which there are;
some show the numbers of a text.
"""

import re
import typing
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesalius import arguments
from vesalius.checkpoints import naming
from vesalius.checkpoints.folders import read_config
from vesalius.counting import described
from vesalius.equations.parameters import ParameterSet
from vesalius.errors import UnknownPart, WrongKind, nearest
from vesalius.figures import (
    blocks,
    examples,
    feedforward,
    gates,
    inputs,
    models,
    parameters,
    recurrent,
    tokens,
)
from vesalius.figures.drawing import Drawing, Part
from vesalius.figures.subject import Subject
from vesalius.model import loaded
from vesalius.traces.dissection import dissect
from vesalius.traces.trace import Trace
from vesalius.views import pictures
from vesalius.views.colours import THEMES

if TYPE_CHECKING:
    from vesalius.families.config import Config
    from vesalius.model import ModelLike
    from vesalius.traces.dissection import Given

Draw = Callable[[Drawing, Subject], str]
"""Draws, and says what was drawn."""


@dataclass(frozen=True)
class Kind:
    """A figure that can be drawn."""

    draw: Draw | None
    """Without a text; None where it is nothing but numbers."""
    figures: str
    """Of the paper, by number; a family's row may say others."""
    says: str
    serves: Callable[[Subject], bool] = lambda s: True
    place: str = ""
    """``l`` where it shows a layer, ``l,m`` where it shows a head."""
    live: Draw | None = None
    """With the numbers of a text; None where they change nothing."""


def _attends(s: Subject) -> bool:
    return "M" in s.symbols


def _recurs(s: Subject) -> bool:
    return s.family.carries_state and s.has("Phi[l]") and "M" not in s.symbols


def _gates(s: Subject) -> bool:
    return _recurs(s) and recurrent.is_lstm(s)


PARTS = {
    "model": Kind(
        models.model_figure, models.NUMBER, "the whole, with one layer opened", place="l"
    ),
    "tokens": Kind(
        tokens.tokens_figure,
        "5",
        "the whole, token by token",
        live=tokens.tokens_figure,
    ),
    "input": Kind(
        inputs.input_figure,
        "25",
        "how the input becomes embeddings",
        live=inputs.input_figure,
    ),
    "transformer": Kind(blocks.stack_figure, "15", "the blocks on each other", _attends),
    "block": Kind(blocks.block_figure, "14", "one transformer block", _attends, "l"),
    "attention": Kind(
        blocks.attention_figure,
        "11 13",
        "all heads of a layer; with a text, what each looks at",
        _attends,
        "l",
        examples.heads_figure,
    ),
    "head": Kind(
        blocks.head_figure, "12", "one head, matrix by matrix", _attends, "l,m", blocks.head_figure
    ),
    "query": Kind(
        None, "10", "what one token asks of the others", _attends, "l,m", examples.query_figure
    ),
    "network": Kind(
        feedforward.network_figure, "9", "a feedforward network", feedforward.serves, "l"
    ),
    "layer": Kind(recurrent.layer_figure, "19", "one recurrent layer", _recurs, "l"),
    **{
        gate: Kind(
            None,
            "21 22",
            f"the {gate} gate at work",
            _gates,
            "l",
            partial(gates.gate_figure, gate=gate),
        )
        for gate in gates.GATES
    },
    "parameters": Kind(parameters.parameters_figure, "17", "every array and its dimensions"),
}
"""The figures by the name of the part that they show."""


@dataclass(frozen=True)
class Figure:
    """A figure as SVG, which notebooks show."""

    title: str
    svg: str
    parts: tuple[Part, ...]
    """Everything that has an id: steps, and parameter sets with their counts."""

    def save(self, file: str | Path) -> None:
        """Write it as .svg or .png."""
        if Path(file).suffix.lower() == ".pdf":
            raise WrongKind(
                f"a figure is saved as .svg or .png, got {str(file)!r}; Inkscape, a browser or "
                f"rsvg-convert -f pdf -o a.pdf a.svg make a PDF of the .svg"
            )
        pictures.save(self.svg, file)

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "parts": [asdict(part) for part in self.parts],
            "svg": self.svg,
        }

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Figure({self.title!r}, {len(self.parts)} parts)"


def figure(
    model: "ModelLike | Trace",
    part: str | None = None,
    text: "Given | None" = None,
    *,
    position: int | None = None,
    length: int | None = None,
    theme: str = "light",
    titled: bool = True,
) -> Figure:
    """The paper's figure of a model, or of one part of it, from its configuration.

    ``part`` is a name of ``vesalius.figures.PARTS``, with a layer and a head where it has them, or
    the number of a figure of the paper: ``"block[3]"``, ``"head[3,4]"``, ``"14"``. With a ``text``,
    or a trace in place of the model, the figures of attention, gates and tokens have its numbers:
    at the token ``position``, counted from 0, or at the last. ``length`` says how many tokens
    shapes are for, where there is no text; ``theme`` is ``light`` or ``dark``. Its title stands
    above the picture, unless ``titled`` is false.
    """
    if arguments.text("theme", theme) not in THEMES:
        raise WrongKind(f"a theme is {' or '.join(THEMES)}, got {theme!r}")
    config, name, trace = _subject(model, text)
    n = len(trace.tokens()) if trace is not None else None
    if length is not None and n is None:
        n = arguments.whole("length", length, least=1)
    if position is not None:
        position = arguments.whole("position", position, least=0)
        if n is not None and position >= n:
            raise UnknownPart(f"position {position} is past the last token, {n - 1}")
    plain = Subject(config, name, length=n, position=position, trace=trace)
    kind, layer, head = _part(plain, part)
    live = trace is not None and kind.live is not None
    if live and "l" in kind.place:  # numbers are those of one layer, and one head
        layer = layer or plain["L"]
        head = head or (1 if "m" in kind.place else None)
    draw = kind.live if live else kind.draw
    if draw is None:
        raise WrongKind("this figure shows the numbers of a text; give one")
    subject = Subject(config, name, layer, head, position, n, trace if live else None)
    drawing = Drawing(theme)
    title = draw(drawing, subject)
    if arguments.truth("titled", titled):
        drawing.entitle(title, _about(subject))
    return Figure(title, drawing.svg(title, _about(subject)), tuple(drawing.parts))


def parts_of(model: "ModelLike | Trace") -> list[dict[str, object]]:
    """What can be drawn of a model: part, place, figures of the paper, and whether a text shows."""
    config, name, _ = _subject(model, None)
    subject = Subject(config, name)
    return [
        {
            "part": part,
            "place": kind.place,
            "figures": _numbers(subject, part),
            "shows": kind.says,
            "text": "needed" if kind.draw is None else "shown" if kind.live else "",
        }
        for part, kind in _served(subject).items()
    ]


def _served(s: Subject) -> dict[str, Kind]:
    """The figures of a model; of a family with parameter sets of its own, those sets alone."""
    if s.family.parameters.get() not in typing.get_args(ParameterSet):
        return {"parameters": PARTS["parameters"]}
    return {name: kind for name, kind in PARTS.items() if kind.serves(s)}


def _numbers(s: Subject, part: str) -> list[str]:
    """The paper's figures that a part of a model stands for."""
    return s.family.figures.get(part, PARTS[part].figures).split()


def _about(s: Subject) -> str:
    return f"{s.name}: {s.family.title}, {s.count('theta'):,} parameters"


def _subject(
    model: "ModelLike | Trace", text: "Given | None"
) -> "tuple[Config, str, Trace | None]":
    """The configuration, what to call it, and a trace where there is one."""
    if isinstance(model, Trace):
        if model.model is None:
            raise WrongKind("this trace has no model; say which made it: read_trace(file, model=…)")
        return model.model.config, model.family, model
    if text is not None:
        held = loaded(model)
        name = model if isinstance(model, str) else held.family
        return held.config, name, dissect(held, text)
    if isinstance(model, str):  # weights are meant first, as where a text is read
        found = naming.find(model)
        if found.folder is not None:
            return read_config(found.folder), model, None
    config, name, _ = described(model)
    return config, name, None


def _part(s: Subject, part: str | None) -> tuple[Kind, int | None, int | None]:
    """What a part's name means: the figure, and its layer and head if it has them."""
    said = arguments.text("part", part).strip() if part is not None else "model"
    known = _served(s)
    if said.isdecimal():
        found = [kind for name, kind in known.items() if said in _numbers(s, name)]
        drawable = [kind for kind in found if _drawable(s, kind)]
        if not found:
            numbers = sorted({n for name in known for n in _numbers(s, name)}, key=int)
            raise UnknownPart(
                f"{s.name} has no figure {said}; it has those of the paper's figures "
                f"{', '.join(numbers)}"
            )
        return (drawable or found)[0], None, None
    match = re.fullmatch(r"(\w+)(?:\[\s*(\d+)\s*(?:,\s*(\d+)\s*)?\])?", said)
    if match is None or match[1] not in known:
        name = match[1] if match else said
        raise UnknownPart(f"{s.name} has no part {name!r} to draw; {nearest(name, known)}")
    kind, places = known[match[1]], [int(one) for one in match.groups()[1:] if one]
    axes = [axis for axis in kind.place.split(",") if axis]
    if len(places) > len(axes):
        form = f"{match[1]}[{kind.place}]" if axes else match[1]
        raise UnknownPart(f"expected {form}, got {said!r}")
    for axis, place in zip(axes, places, strict=False):
        what, most = ("layer", s["L"]) if axis == "l" else ("head", s["M"])
        if not 1 <= place <= most:
            raise UnknownPart(f"{s.name} has the {what}s 1 to {most}, got {place} in {said!r}")
    layer, head = (*places, None, None)[:2]
    return kind, layer, head


def _drawable(s: Subject, kind: Kind) -> bool:
    return kind.draw is not None or (s.trace is not None and kind.live is not None)


__all__ = ["PARTS", "Figure", "Kind", "figure", "parts_of"]

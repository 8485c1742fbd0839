"""The classes of texts, images and series, with names and probabilities: ``vesalius classify``.

Images and series go through the equations, prepared as in training; a series may have a value in
place of a class. Texts are left to ``labelling``, with their classes, labels and values.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from vesalius.arguments import Progress
from vesalius.capabilities import require_served
from vesalius.data.inputs import Input, class_names, label_kind, read_inputs, reads_arrays
from vesalius.equations.parameters import Array
from vesalius.errors import EmptySequence, WrongKind
from vesalius.families import family_of
from vesalius.model import PREPROCESSING, Model, ModelLike, loaded
from vesalius.tasks.labelling.use import (
    Candidate,
    Labels,
    Text,
    Value,
    input_lines,
    label_logits,
    named,
    probabilities,
    ranked,
    value_of,
)
from vesalius.traces.dissection import dissect
from vesalius.views.shown import Part, Shown, Table

if TYPE_CHECKING:
    from vesalius.data.inputs import Source

    Sources = list[str] | list[Path] | list[Array] | tuple[str | Path | Array, ...]


@dataclass(frozen=True, repr=False)
class Classification(Shown):
    """The classes of one text, image or series, the likeliest first."""

    source: str
    """The text, or the file and which of those in it."""
    candidates: tuple[Candidate, ...]
    prepared: str
    """What was done to the input before the model read it."""
    label: str | None = None
    """The class that its file says it has."""
    hint: str = ""

    @property
    def name(self) -> str:
        """The likeliest class."""
        return self.candidates[0].name

    @property
    def right(self) -> bool | None:
        """Whether it is what the file says; None where that says nothing."""
        return None if self.label is None else self.label == self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        best = ", ".join(f"{c.name} {c.probability:.4f}" for c in self.candidates[:3])
        label = "" if self.label is None else f"; its file says {self.label}"
        return "\n  ".join([f"Classification: {best}{label}", *input_lines(self)])

    def told(self, top: int | None = None) -> list[str]:
        """The likeliest classes, in words."""
        return [f"{c.name} {c.probability:.4f}" for c in self.candidates[:top]]

    def view(self, top: int | None = None) -> Iterator[Part]:
        rows = [(c.name, f"{c.probability:.4f}") for c in self.candidates[:top]]
        yield Table(("class", "probability"), rows, right=(1,), title=self.source)
        yield from input_lines(self)

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        return {
            "source": self.source,
            "class": self.name,
            "candidates": [asdict(candidate) for candidate in self.candidates[:top]],
            "prepared": self.prepared,
            "label": self.label,
            "hint": self.hint or None,
        }


Result = Classification | Labels | Value


@overload
def classify(
    model: ModelLike, given: "Sources", raw: bool = False, invert: bool = False
) -> list[Classification] | list[Value]: ...


@overload
def classify(
    model: ModelLike, given: "Source", raw: bool = False, invert: bool = False
) -> Classification | Value | list[Classification] | list[Value]: ...


@overload
def classify(
    model: ModelLike, given: list[Text], raw: bool = False, invert: bool = False
) -> list[Result]: ...


def classify(
    model: ModelLike,
    given: "Source | Sources | list[Text]",
    raw: bool = False,
    invert: bool = False,
) -> Result | list[Classification] | list[Value] | list[Result]:
    """The classes of a text, an image or a series: a ``Classification``, or a list of several.

    ``given`` is a text, a pair of texts, or for models of images and series an array or a file
    (.png, .jpg, .npy; .ts, .csv, .npy); or a list of these. ``raw`` leaves the numbers of arrays as
    they are; ``invert`` turns dark into bright. Models that tell several labels of a text at once
    give ``Labels``, models of values, of texts or series, a ``Value``.
    """
    model = loaded(model)
    require_served(model, "classify")
    if not reads_arrays(model):
        if raw or invert:
            raise WrongKind(f"raw and invert are for images and series, not {model.family}")
        texts: Any = given if isinstance(given, list) else [given]
        found = classify_texts(model, texts)
        return found if isinstance(given, list) else found[0]
    if not class_names(model) and not _tells_values(model):
        raise WrongKind(
            f"this {model.family} tells no classes apart: it has no head for them; "
            f"expected one that was trained on classes, or on a value for each input"
        )
    if not model.preprocessing and not raw:
        raise WrongKind(
            f"how the model's input was scaled is not known: it has no {PREPROCESSING}; "
            f"say raw where the input is scaled already"
        )
    # A list of files or arrays is of several inputs; one of numbers is an array.
    several = isinstance(given, list | tuple) and all(
        isinstance(one, str | os.PathLike | np.ndarray) for one in given
    )
    sources: Any = given if several else [given]
    inputs = [one for source in sources for one in read_inputs(model, source, raw, invert)]
    if not inputs:
        raise EmptySequence("expected an image or a series, got none")
    results: Any = [_told(model, one) for one in inputs]
    return results if several or len(results) > 1 else results[0]  # type: ignore[no-any-return]


def _tells_values(model: Model) -> bool:
    """Whether a model of images or series has a head of one number for each input."""
    config = model.config
    return "z" in family_of(config).outputs(config) and config.symbols()["Y"] == 1


def _told(model: Model, given: Input) -> Classification | Value:
    trace = dissect(model, given, only="z")
    if not class_names(model):
        return Value(given.source, value_of(model, float(trace["z"][0])), given.prepared)
    candidates = tuple(Candidate(*row) for row in trace.classes())
    return Classification(given.source, candidates, given.prepared, given.label, given.hint)


def classify_texts(
    model: Model, texts: Sequence[Text], progress: Progress | None = None
) -> list[Result]:
    """What a label head tells of each text."""
    logits, told = label_logits(model, texts, progress)
    kind, sources = label_kind(model), [named(text) for text in texts]
    if kind == "values":
        values = [value_of(model, float(row[0])) for row in logits]
        return [
            Value(of, value, *how) for of, value, how in zip(sources, values, told, strict=True)
        ]
    ranks = [ranked(model, row) for row in probabilities(model, logits)]
    make = Labels if kind == "labels" else Classification
    return [
        make(of, rank, how.prepared, hint=how.hint)
        for of, rank, how in zip(sources, ranks, told, strict=True)
    ]

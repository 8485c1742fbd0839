"""One forward pass in the paper's equations, every step named: what ``vesalius dissect`` shows.

All steps are recorded or those named, and any can be edited on the way; ``traces`` says what a
trace can be asked. Images and series are scaled as in training.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius import arguments
from vesalius.capabilities import tokenizer_of
from vesalius.data.inputs import Input, class_names, position_names, read_input, reads_arrays
from vesalius.equations import OneHot, Steps, tracing
from vesalius.errors import TokenOutOfRange, UnknownStep, WrongKind, nearest
from vesalius.families import family_of
from vesalius.model import Model, ModelLike, loaded
from vesalius.tokenizers import Encoded, rules
from vesalius.traces.edits import Edits
from vesalius.traces.edits.values import EditLike
from vesalius.traces.trace import Trace

if TYPE_CHECKING:
    from vesalius.data.inputs import Source

    Given = str | Sequence[int] | tuple[str, str] | Source | Input
    """What a model reads: a text, token ids, or for images and series a file or an array; BERT a
    pair of texts too."""


def dissect(
    model: ModelLike,
    text: "Given",
    only: str | Iterable[str] | None = None,
    edit: Mapping[str, EditLike] | None = None,
    *,
    raw: bool = False,
    invert: bool = False,
    index: int | None = None,
) -> Trace:
    """Run a model in the paper's equations and keep every step, or ``only`` those named.

    ``text`` is a text or token ids, for BERT a pair of texts too; for models of images and series
    an array (height x width x channels, channels x time) or a file, of which ``index`` is the one
    to read where it holds several. They are scaled as the model's ``preprocessing.json`` says,
    unless they are ``raw``; ``invert`` turns dark into bright.

    ``edit={"A[3]": f}`` replaces a value by ``f(value)`` at that step and lets the rest follow. A
    key may be a pattern, ``"P[2,*]"``, with a token position, ``"H[2]@5"``, or with cells as NumPy
    indexes them, ``"F[1](37, :)"``; several apply in their order. A value may be a number or an
    array too, or ``vs.zero`` and ``vs.mean(texts)``, which is known as ablation, ``vs.scale(2.0)``,
    ``vs.noise(0.1)``, or ``vs.from_trace(other)``, which is known as activation patching.
    """
    return trace_of(read(model, text, raw, invert, index), only, edit)


@dataclass(frozen=True, eq=False)
class Reading:
    """What a model is given, read once for any number of forward passes."""

    model: Model
    given: Any
    ids: list[int]
    more: Mapping[str, Any]
    """What the family's run takes besides."""
    about: Mapping[str, Any]
    """What a trace tells of it."""

    def run(self) -> None:
        """One forward pass, for whoever is tracing."""
        family = family_of(self.model.config)
        symbols = self.model.config.symbols()
        family.run(self.model.parameters, self.given, symbols, **self.more)

    @property
    def length(self) -> int:
        """How many tokens, patches or time steps there are."""
        return len(self.about.get("tokens", self.ids))

    def of_another(self, text: Any, symbols: Sequence[str]) -> tuple[Steps, int]:
        """Steps of some symbols in a forward pass on another text, and its length."""
        other = read(self.model, text)
        return trace_of(other, symbols).steps, other.length


def read(
    model: ModelLike, text: Any, raw: bool = False, invert: bool = False, index: int | None = None
) -> Reading:
    """What ``dissect`` makes of a text, an image or a series."""
    model = loaded(model)
    apart = _segmented(model, text)
    if not reads_arrays(model):
        if raw or invert or index is not None:
            name = family_of(model.config).name
            raise WrongKind(f"raw, invert and index are for images and series, not {name}")
        ids = _ids(model, text) if apart is None else apart.ids
        given = OneHot(ids, model.parameters.E.shape[1])
        more: dict[str, Any] = {} if apart is None else {"segments": apart.segments}
        about: dict[str, Any] = {"given": np.asarray(ids), "classes": class_names(model)}
        if model.tokenizer is not None:
            about["hint"] = model.tokenizer.note_unknown(ids)
        return Reading(model, given, ids, more, {**about, **more})
    index = None if index is None else arguments.whole("index", index, least=0)
    found = text if isinstance(text, Input) else read_input(model, text, raw, invert, index)
    about = {"classes": class_names(model), "prepared": found.prepared, "given": found.values}
    about["tokens"] = position_names(model, found)
    real = {} if found.real is None else {"real": found.real}
    return Reading(model, found.values, [], real, about)


def trace_of(
    reading: Reading,
    only: str | Iterable[str] | None = None,
    edit: Mapping[str, EditLike] | None = None,
) -> Trace:
    """A forward pass of what was read."""
    model = reading.model
    editor = None if edit is None else Edits(edit, reading.length, reading.of_another)
    with tracing(_patterns(only), edit=editor) as steps:
        reading.run()
    if steps.unmet:
        unknown = [f"{name!r}: {nearest(name, steps.passed)}" for name in steps.unmet]
        raise UnknownStep(f"no step of this model is called {'; or '.join(unknown)}")
    layers = model.config.symbols()["L"]
    name = family_of(model.config).name
    return Trace(model, reading.ids, steps, name, layers=layers, edits=edit, **reading.about)


def _patterns(only: Any) -> list[str] | str | None:
    if only is None or isinstance(only, str):
        return only
    names = list(only) if isinstance(only, Iterable) else [only]
    if not all(isinstance(name, str) for name in names):
        raise UnknownStep(f"expected names of steps, as in 'A[3], mu[1,*]'; got {_told(only)}")
    return names


def encoded(model: Model, text: str) -> Encoded:
    """The tokens of a text; taggers that were taught by case read capitals in segment 1."""
    found = tokenizer_of(model).encode_with_offsets(text)
    return _by_case(text, found) if model.preprocessing.case else found


def _by_case(text: str, found: Encoded) -> Encoded:
    """The tokens of a text with their segments by case, as taggers read them."""
    capital = np.zeros(len(text), bool)
    for word, start, end in rules.tokens(text):
        capital[start:end] = word[:1].isupper()
    segments = [int(end > start and capital[start]) for start, end in found.offsets]
    return replace(found, segments=segments)


def _segmented(model: Model, text: Any) -> Encoded | None:
    """Tokens in segments: of two texts, of words by case, or as given; None of plain ones."""
    if isinstance(text, str) and model.preprocessing.case:
        return encoded(model, text)
    several = isinstance(text, tuple | list) and len(text) == 2
    two = several and all(isinstance(one, str) for one in text)
    if not two and not isinstance(text, Encoded):
        return None
    if model.config.symbols().get("segments", 1) < 2:
        raise WrongKind(f"a pair of texts is for bert with two segments, this is {model.family}")
    return text if isinstance(text, Encoded) else tokenizer_of(model).encode_pair(*text)


def again(trace: Trace) -> Reading:
    """What a trace is of, to be run once more."""
    assert trace.model is not None
    graph = trace.graph
    if not reads_arrays(trace.model):
        if graph.segments is None:
            return read(trace.model, trace.ids)
        return read(trace.model, Encoded(trace.ids, [], list(graph.segments)))
    assert graph.given is not None
    real = trace.real()
    known = None if real is None else real[: graph.given.shape[1]]
    return read(trace.model, Input(graph.given, (), real=known))


def _ids(model: Model, text: Any) -> list[int]:
    if isinstance(text, str):
        if model.tokenizer is None:
            raise WrongKind("this model has no tokenizer; give token ids in place of text")
        return model.tokenizer.encode(text)
    try:
        if isinstance(text, bytes | bytearray | Mapping) or any(
            i is True or i is False for i in text
        ):
            raise TypeError
        return [index(i) for i in text]
    except (TypeError, ValueError):
        raise TokenOutOfRange(
            f"expected a text, or a sequence of whole token ids; got {_told(text)}"
        ) from None


def _told(value: Any) -> str:
    """What was given, in a few words."""
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:59] + '…'}"

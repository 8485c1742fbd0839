"""One forward pass in the paper's equations, every step named: what ``vesalius dissect`` shows.

A trace can be read, filtered, edited on the way, saved, and asked for the next word at any depth.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from vesalius import equations as eq
from vesalius.equations import OneHot, Steps, tracing
from vesalius.equations.parameters import Array
from vesalius.errors import BrokenFile, TokenOutOfRange, UnknownStep, WrongKind, WrongLength
from vesalius.families import family_of
from vesalius.model import Model, ModelLike, loaded

Edits = dict[str, Callable[[Array], Array]]


@dataclass(frozen=True)
class Summary:
    """One step in numbers."""

    equation: str
    symbol: str
    name: str
    shape: tuple[int, ...]
    norm: float
    least: float
    most: float

    def to_json(self) -> dict[str, Any]:
        return self.__dict__.copy()


class Trace:
    """The steps of a forward pass; ``trace["A[3]"]`` is a value by its name."""

    def __init__(self, model: Model | None, ids: list[int], steps: Steps, family: str) -> None:
        self.model, self.ids, self.steps, self.family = model, ids, steps, family

    def __getitem__(self, name: str) -> Array:
        value: Array = self.steps[name]
        return value

    def names(self) -> list[str]:
        return self.steps.names()

    def summaries(self) -> list[Summary]:
        """Every step with its shape, norm and range."""
        return [_summary(step) for step in self.steps]

    def tokens(self) -> list[str]:
        """The input's tokens as text, or as numbers where there is no tokenizer."""
        if self.model is None or self.model.tokenizer is None:
            return [str(i) for i in self.ids]
        return [self.model.tokenizer.piece(i) for i in self.ids]

    def likeliest(self, count: int = 10) -> list[tuple[int, str, float]]:
        """The likeliest words after the last token (masked models: at it), with probabilities."""
        return self._ranked(self._distribution()[:, -1], count)

    def _distribution(self) -> Array:
        for name in ("Y_hat", "y_hat"):
            if name in self.names():
                value = self[name]
                return value if value.ndim == 2 else value[:, None]
        raise UnknownStep("no distribution over words was recorded; record Y_hat too")

    def _ranked(self, y_hat: Array, count: int) -> list[tuple[int, str, float]]:
        best = np.argsort(-y_hat, kind="stable")[:count]
        tokenizer = self.model.tokenizer if self.model else None
        return [
            (int(i), tokenizer.piece(int(i)) if tokenizer else "", float(y_hat[i])) for i in best
        ]

    def read_out(self, layer: int) -> Array:
        """The distributions over the vocabulary, read from the states after ``layer``.

        The states go through what follows the last layer in this model: the final normalisation of
        variant 2, BERT's MLM head, and the output embedding.
        """
        if self.model is None:
            raise WrongKind("a trace read from a file has no model to read out with")
        theta = self.model.parameters
        if isinstance(theta, eq.Bert):
            return eq.softmax(eq.bert_mlm_logits(theta, self[f"H[{layer}]"]))
        if not isinstance(theta, eq.TransformerLM):
            raise WrongKind(f"{self.family} has no states to read words from at every layer")
        H = self[f"H[{layer}]"]
        H = H if theta.variant == 1 else eq.normalise_output(theta.Xi_e, H)
        return eq.softmax(eq.logits(theta.E.T if theta.U is None else theta.U, H))

    def save(self, file: str | Path) -> None:
        """Write all steps to a safetensors file, and what they are to a JSON file beside it."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        file = Path(file)
        if file.suffix != ".safetensors":
            raise WrongKind(f"a trace is saved as .safetensors, got {str(file)!r}")
        values = {step.name: np.ascontiguousarray(step.value) for step in self.steps}
        try:
            save_file(values, file)
        except SafetensorError as error:
            raise OSError(f"{file} cannot be written: {error}") from error
        description = {
            "family": self.family,
            "ids": self.ids,
            "tokens": self.tokens(),
            "steps": [
                {**summary.to_json(), "place": step.place}
                for summary, step in zip(self.summaries(), self.steps, strict=True)
            ],
        }
        text = json.dumps(description, ensure_ascii=False, indent=1)
        _beside(file).write_text(text, encoding="utf-8")


def _beside(file: Path) -> Path:
    """Where the description of a saved trace stands."""
    return file.parent / f"{file.name}.json"


def read_trace(file: str | Path) -> Trace:
    """A trace that was saved."""
    from vesalius.checkpoints.files import read
    from vesalius.checkpoints.plain import read_json

    file = Path(file)
    if missing := [str(part) for part in (file, _beside(file)) if not os.path.exists(part)]:
        raise BrokenFile(
            f"there is no {' and no '.join(missing)}; a trace is two files, "
            f"as Trace.save and 'vesalius dissect --save' write them"
        )
    description, arrays = read_json(_beside(file)), read(file).arrays
    steps = Steps()
    try:
        for entry in description["steps"]:
            if entry["name"] not in arrays:
                raise BrokenFile(f"{file} lacks the step {entry['name']!r} that its JSON names")
            equation = eq.find(entry["equation"])
            steps.append(eq.Step(entry["symbol"], entry["place"], equation, arrays[entry["name"]]))
            if steps[-1].name != entry["name"]:
                raise BrokenFile(
                    f"{_beside(file)} calls a step {entry['name']!r} whose symbol and place are "
                    f"{entry['symbol']!r} and {entry['place']!r}"
                )
        ids = [index(i) for i in description["ids"]]
        return Trace(None, ids, steps, str(description["family"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise BrokenFile(f"{_beside(file)} does not describe a trace: {error!r}") from error


def _summary(step: eq.Step) -> Summary:
    value = np.asarray(step.value, dtype=np.float64)
    finite = value[np.isfinite(value)]  # masks hold minus infinity
    bounds = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
    norm = float(np.linalg.norm(finite))
    return Summary(
        step.equation.name, step.symbol, step.name, value.shape, norm, *map(float, bounds)
    )


def dissect(
    model: ModelLike,
    text: str | Sequence[int] | Array,
    only: str | Iterable[str] | None = None,
    edit: Edits | None = None,
) -> Trace:
    """Run a model in the paper's equations and keep every step, or ``only`` those named.

    ``edit={"A[3]": f}`` replaces a value by ``f(value)`` at that step and lets the rest follow:
    zeros switch a head off, a value of another trace is patched in. Images (height x width x
    channels) and series (channels x time) are given as arrays.
    """
    model = loaded(model)
    family, theta = family_of(model.config), model.parameters
    run, ids = _runner(model, theta, text)
    with tracing(only, edit=edit) as steps:
        run()
    if only and not steps:
        raise UnknownStep(f"no step of this model is called {only!r}")
    return Trace(model, ids, steps, family.name)


def _runner(model: Model, theta: Any, text: Any) -> tuple[Callable[[], Any], list[int]]:
    """What to run for this family and input, and the token ids if there are any."""
    if isinstance(theta, eq.ViT):
        image = _array(text, 3, "an image: height x width x channels").astype(theta.E.dtype)
        side, channels = (model.config.symbols()[letter] for letter in "PC")
        _require_channels(image.shape[2], channels)
        return lambda: _run_vit(theta, eq.patches(image, side)), []
    if isinstance(theta, eq.TST):
        series = _array(text, 2, "a series: channels x time").astype(theta.E.dtype)
        _require_channels(len(series), theta.E.shape[1])
        runner = eq.tst_series if model.config.symbols()["series"] else eq.tst_outputs
        return lambda: runner(theta, series), []
    ids = _ids(model, text)
    Omega_ids = OneHot(ids, theta.E.shape[1])
    runs: dict[type, Callable[..., Any]] = {
        eq.FeedforwardLM: eq.feedforward_lm,
        eq.TransformerLM: eq.transformer_lm,
        eq.ElmanLM: eq.recurrent_lm,
        eq.LSTMLM: eq.recurrent_lm,
    }
    if isinstance(theta, eq.Bert):
        return lambda: _run_bert(model, theta, Omega_ids), ids
    return lambda: runs[type(theta)](theta, Omega_ids), ids


def _run_bert(model: Model, theta: eq.Bert, Omega: OneHot) -> None:
    """The backbone once, and then every head that is there."""
    H = eq.bert_states(theta, Omega)
    if theta.Pi_M is not None:
        eq.distributions(eq.bert_mlm_logits(theta, H))
    if theta.Pi_C is None:
        read = H
    else:
        pooled = eq.bert_pooled(theta, H)
        read = pooled if getattr(model.config, "labelled", "") == "sequence" else H
        if theta.Pi_N is not None:
            eq.nsp_distribution(theta.Pi_N, pooled)
    if theta.Pi_Y is not None:
        eq.label_logits(theta.Pi_Y, read)


def _run_vit(theta: eq.ViT, Omega: Array) -> None:
    """The backbone once, and then every head that is there; no patch is masked."""
    H = eq.vit_states(theta, Omega)
    if theta.Pi_C is not None:
        eq.pool(theta.Pi_C, H[:, 0])
    if theta.Pi_Y is not None:
        eq.class_logits(theta.Pi_Y, H[:, 0])
    if theta.Pi_R is not None:
        eq.reconstruct_patches(theta.Pi_R, H[:, 1:])


def _require_channels(found: int, expected: int) -> None:
    if found != expected:
        raise WrongLength(f"this model reads {expected} channels, got {found}")


def _array(value: Any, axes: int, what: str) -> Array:
    if isinstance(value, str):
        raise WrongKind(f"this model does not read text; expected {what}, as an array")
    array = np.asarray(value)
    if array.ndim != axes:
        raise WrongKind(f"this model reads {what}; got an array of {array.ndim} axes")
    return array


def _ids(model: Model, text: Any) -> list[int]:
    if not isinstance(text, str):
        try:
            return [index(i) for i in text]
        except TypeError:
            raise TokenOutOfRange(f"expected a sequence of whole token ids, got {text!r}") from None
    if model.tokenizer is None:
        raise WrongKind("this model has no tokenizer; give token ids in place of text")
    return model.tokenizer.encode(text)

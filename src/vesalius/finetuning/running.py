"""One run of fine-tuning: its usual settings by the size of the data, the training, its numbers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vesalius.arguments import Progress
from vesalius.data.batches import Batches, TwoParts
from vesalius.data.pairs import MaskedText
from vesalius.data.windows import Streams, Windows
from vesalius.errors import EmptyCorpus, WrongKind
from vesalius.finetuning.backbones import Backbone
from vesalius.finetuning.results import FineTuned
from vesalius.finetuning.tasks import Task
from vesalius.training import Callback, train
from vesalius.training.initialisation import LEAST, configured
from vesalius.training.recipe import recipe, write_recipe
from vesalius.training.settings import Recipe

RECIPE = "recipe.toml"
WIDE = 768
RATE, HIGHEST = 5e-5, 1e-3
"""The learning rate at BERT base's width, as published, and that of narrow and recurrent models."""
MUON = 1.5e-3
"""That of Muon, whose steps hardly depend on the width."""
WINDOWS = 2048
"""Windows of a text that are validated on at most."""


class Sizes(NamedTuple):
    """How much there is to learn from."""

    training: int
    validation: int
    steps: int
    """Of an epoch."""
    looked_at: int
    """Examples or windows that a validation looks at."""


def trained(
    said: dict[str, Any],
    folder: Path,
    resume: bool,
    task: Task,
    begins: Backbone,
    epochs: float,
    callbacks: "list[Callback]",
    progress: Progress,
) -> FineTuned:
    """Train by what a recipe says and what is usual for the rest."""
    whole, sizes = _completed(said, task, begins, epochs, progress)
    read = recipe(whole)
    noting = Noting(whole, folder)
    outcome = train(read, folder, resume=resume, callbacks=[noting, *callbacks], progress=progress)
    result = FineTuned(
        folder,
        begins.name,
        task,
        str(getattr(read.data, "corpus")),  # noqa: B009 # all data have one
        sizes.training,
        sizes.validation,
        outcome.step,
        outcome.reason,
        {},
        {},
        (*noting.notes, *_told(read)),
    )
    if not (result.done and outcome.valid):
        return result
    numbers = _numbers(task, read, result, noting.run, outcome.valid, progress)
    return replace(result, numbers=numbers, before=_before(task, begins, noting.run))


class Noting(Callback):
    """Writes the recipe once the run is known to begin, and keeps what it says of its data."""

    def __init__(self, said: Mapping[str, Any], folder: Path) -> None:
        self.said, self.folder = said, folder
        self.notes: tuple[str, ...] = ()
        self.run: Any = None

    def begins(self, run: Any) -> None:
        write_recipe(self.said, self.folder / RECIPE)
        self.notes = tuple(getattr(run.batches, "notes", ()))
        self.run = run


def _told(read: Recipe) -> Iterable[str]:
    if getattr(read.data, "case", False):
        yield (
            "words with a capital are read in segment 1, since the tokenizer lowers letters; "
            "elsewhere, give token_type_ids so"
        )


# What is usual --------------------------------------------------------------------


def _completed(
    said: Mapping[str, Any], task: Task, begins: Backbone, epochs: float, progress: Progress
) -> tuple[dict[str, Any], Sizes]:
    """A recipe with all that was left open, and how much there is to learn from."""
    asked = said.get("training") or {}
    batch = asked.get("batch")
    sizes = None
    while sizes is None:
        tried = recipe({**said, "training": {**asked, "batch": batch}})
        try:
            sizes, model = _sizes(tried, task, begins, progress)
        except EmptyCorpus:  # a short text has few windows
            if task.name != "text" or "batch" in asked or tried.training.batch == 1:
                raise
            batch = tried.training.batch // 2
    steps = tried.training.steps if "steps" in asked else max(1, math.ceil(epochs * sizes.steps))
    every = min(steps, max(sizes.steps, math.ceil(steps / max(1, epochs))))
    optimiser: str = asked.get("optimiser", begins.optimiser)
    usual = {"optimiser": optimiser, "learning_rate": _rate(begins, optimiser)}
    usual |= {"steps": steps, "batch": tried.training.batch}
    usual |= {"warmup": steps // 10, "beta2": 0.999, "weight_decay": 0.01}
    usual |= {"evaluate_every": every, "save_every": every, "validate_on": sizes.looked_at}
    settled = {**(said.get("model") or {}), **model}
    return {**said, "model": settled, "training": {**usual, **asked}}, sizes


def _rate(begins: Backbone, optimiser: str) -> float:
    if optimiser == "muon":
        return MUON
    width: int = getattr(begins.config, "embedding")  # noqa: B009 # every family has it
    rate = RATE * (WIDE / width) ** 2
    return HIGHEST if begins.family.carries_state else min(HIGHEST, rate)


def _sizes(
    read: Recipe, task: Task, begins: Backbone, progress: Progress
) -> tuple[Sizes, dict[str, Any]]:
    """How much there is, and settings of the model that follow; refuses data that do not fit."""
    source = task.learns.source(read, begins.tokenizer, progress)
    model = {name: source.implied[name] for name in task.follows} if begins.model else {}
    _require_fitting(read, task, begins, {**source.implied, **model, **read.model}, model)
    whole = replace(read, model={**read.model, **model})
    config = configured(whole, task.learns, source.implied, begins.model)
    return counted(source.batches(config), read.training.batch), model


def _require_fitting(
    read: Recipe, task: Task, begins: Backbone, wanted: Mapping[str, Any], free: Mapping[str, Any]
) -> None:
    """Refuse data of another shape than the model reads."""
    if begins.model is None:
        return
    for name in ("channels", "image", "context"):
        has, needs = getattr(begins.config, name, None), wanted.get(name)
        if has is None or needs is None or name in free:
            continue
        if has < needs if name in LEAST else has != needs:
            what = {"channels": "channels", "image": "pixels a side", "context": "time steps"}[name]
            upto = "up to " if name in LEAST else ""
            window = f"cut them by [data] window = {has}, or " if name == "context" else ""
            raise WrongKind(
                f"{begins.name} reads {task.examples} of {upto}{has} {what}, but the data have "
                f"{needs}; {window}start from nothing with family:{begins.family.name}"
            )


def counted(batches: Batches, batch: int) -> Sizes:
    """How much there is in batches."""
    if isinstance(batches, TwoParts):
        training, validation = len(batches.training), len(batches.validation)
        return Sizes(training, validation, training // min(batch, training), validation)
    assert isinstance(batches, Windows | Streams | MaskedText)
    tokens, held = len(batches.tokens.ids), len(batches.held_out.ids)
    window = batches.length if isinstance(batches, MaskedText) else batches.window
    apart = 1 if isinstance(batches, Windows) and batches.single else window
    looked_at = min(WINDOWS, max(1, math.ceil(held / apart)))
    return Sizes(tokens, held, max(1, tokens // (batch * apart)), looked_at)


# Its numbers ----------------------------------------------------------------------


def _numbers(
    task: Task,
    read: Recipe,
    result: FineTuned,
    run: Any,
    valid: Mapping[str, float],
    progress: Progress,
) -> dict[str, float]:
    """What people compare, of what was held out."""
    objective = task.learns
    if task.by_example:
        model, data = result.model, read.data
        corpus: str = getattr(data, "valid") or getattr(data, "corpus")  # noqa: B009
        held = objective.held_out(model, corpus, progress)
        means, _ = held.objective.measured(model, held.batches.valid(), held)
        return held.objective.report(means, model.preprocessing)
    if read.training.patience:  # the best model was kept, which may not be the last
        valid = objective.means(result.model.network, run.batches.valid(read.training.validate_on))
    return _reported(task, valid, run)


def _before(task: Task, begins: Backbone, run: Any) -> dict[str, float]:
    """The numbers of the model as it was."""
    if not task.compared or begins.model is None or not task.learns.serves(begins.model):
        return {}
    batches = run.batches.valid(run.settings.validate_on)
    return _reported(task, task.learns.means(begins.model.network, batches), run)


def _reported(task: Task, means: Mapping[str, float], run: Any) -> dict[str, float]:
    found = task.learns.report(means, run.source.preprocessing)
    if not task.learns.writes_text:
        return found
    held = run.batches.held_out
    bits = means["loss"] / math.log(2) * (len(held.ids) - 1) / max(1, held.bytes)
    return {"bits_per_byte": bits, **found}

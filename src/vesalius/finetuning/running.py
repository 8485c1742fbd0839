"""One run of fine-tuning: its usual settings by the size of the data, the training, its numbers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vesalius.arguments import Progress
from vesalius.data.batches import Batches, TwoParts
from vesalius.errors import EmptyCorpus, WrongKind
from vesalius.finetuning.backbones import Backbone
from vesalius.finetuning.results import FineTuned
from vesalius.tasks import Task
from vesalius.tasks.language.pairs import MaskedText
from vesalius.tasks.language.windows import Streams, Windows
from vesalius.training import Callback, run
from vesalius.training.initialisation import LEAST, Setup, configured
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
    read: Any,
    epochs: float,
    callbacks: "list[Callback]",
    progress: Progress,
) -> FineTuned:
    """Train by what a recipe says and what is usual for the rest."""
    whole, sizes, setup = _completed(said, task, begins, read, epochs, progress)
    final = recipe(whole)
    writing = RecipeFile(whole, folder)
    outcome = run(final, folder, resume, [writing, *callbacks], progress, setup)
    result = FineTuned(
        folder,
        begins.name,
        task,
        str(getattr(final.data, "corpus")),  # noqa: B009 # all data have one
        sizes.training,
        sizes.validation,
        outcome.step,
        outcome.reason,
        {},
        {},
        (*getattr(setup.batches, "notes", ()), *_told(final)),
    )
    if not (result.done and outcome.valid):
        return result
    numbers = _numbers(task, final, result, setup, outcome.valid)
    return replace(result, numbers=numbers, before=_before(task, final, setup))


class RecipeFile(Callback):
    """Writes the recipe once the run is known to begin."""

    def __init__(self, said: Mapping[str, Any], folder: Path) -> None:
        self.said, self.folder = said, folder

    def begins(self, run: Any) -> None:
        write_recipe(self.said, self.folder / RECIPE)


def _told(read: Recipe) -> Iterable[str]:
    if getattr(read.data, "case", False):
        yield (
            "words with a capital are read in segment 1, since the tokenizer lowers letters; "
            "elsewhere, give token_type_ids so"
        )


# What is usual --------------------------------------------------------------------


def _completed(
    said: Mapping[str, Any],
    task: Task,
    begins: Backbone,
    read: Any,
    epochs: float,
    progress: Progress,
) -> tuple[dict[str, Any], Sizes, Setup]:
    """A recipe with all that was left open, how much there is to learn from, and the run's setup.

    Data that do not fit the model are refused.
    """
    asked = said.get("training") or {}
    tried, objective = recipe(said), task.learns
    source = objective.source(tried, begins.tokenizer, progress, read)
    follows = {name: source.implied[name] for name in task.follows} if begins.model else {}
    _require_fitting(task, begins, {**source.implied, **follows, **tried.model}, follows)
    settled = replace(tried, model={**tried.model, **follows})
    config = configured(settled, objective, source.implied, begins.model)
    batch, batches = tried.training.batch, None
    while batches is None:
        try:
            batches = source.batches(config, batch)
        except EmptyCorpus:  # a short text has few windows
            if task.option != "text" or "batch" in asked or batch == 1:
                raise
            batch //= 2
    sizes = counted(batches, batch)
    steps = tried.training.steps if "steps" in asked else max(1, math.ceil(epochs * sizes.steps))
    every = min(steps, max(sizes.steps, math.ceil(steps / max(1, epochs))))
    optimiser: str = asked.get("optimiser", begins.optimiser)
    usual = {"optimiser": optimiser, "learning_rate": _rate(begins, optimiser)}
    usual |= {"steps": steps, "batch": batch}
    usual |= {"warmup": steps // 10, "beta2": 0.999, "weight_decay": 0.01}
    usual |= {"evaluate_every": every, "save_every": every, "validate_on": sizes.looked_at}
    model = {**(said.get("model") or {}), **follows}
    setup = Setup(objective, begins.model, source, config, batches)
    return {**said, "model": model, "training": {**usual, **asked}}, sizes, setup


def _rate(begins: Backbone, optimiser: str) -> float:
    if optimiser == "muon":
        return MUON
    width: int = getattr(begins.config, "embedding")  # noqa: B009 # every family has it
    rate = RATE * (WIDE / width) ** 2
    return HIGHEST if begins.family.carries_state else min(HIGHEST, rate)


def _require_fitting(
    task: Task, begins: Backbone, wanted: Mapping[str, Any], free: Mapping[str, Any]
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
    setup: Setup,
    valid: Mapping[str, float],
) -> dict[str, float]:
    """What people compare, of what was held out."""
    objective, batches = task.learns, setup.batches
    if task.by_example:
        model, held = result.model, objective.validated(setup.source, batches)
        means, _ = held.objective.measured(model, held.batches.valid(), held)
        return held.objective.report(means, model.preprocessing)
    if read.training.patience:  # the best model was kept, which may not be the last
        valid = objective.means(result.model.network, batches.valid(read.training.validate_on))
    return _reported(task, valid, setup)


def _before(task: Task, read: Recipe, setup: Setup) -> dict[str, float]:
    """The numbers of the model as it was."""
    model = setup.started
    if not task.compared or model is None or not task.learns.serves(model):
        return {}
    batches = setup.batches.valid(read.training.validate_on)
    return _reported(task, task.learns.means(model.network, batches), setup)


def _reported(task: Task, means: Mapping[str, float], setup: Setup) -> dict[str, float]:
    found = task.learns.report(means, setup.source.preprocessing)
    if not task.learns.writes_text:
        return found
    held: Any = getattr(setup.batches, "held_out")  # noqa: B009 # texts have it
    bits = means["loss"] / math.log(2) * (len(held.ids) - 1) / max(1, held.bytes)
    return {"bits_per_byte": bits, **found}

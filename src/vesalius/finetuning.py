"""Somebody's own task in one call: a model, a table of labelled texts, and a recipe for them.

``finetune`` writes the recipe beside the run and trains by it, so that the run resumes, and can be
repeated, as all runs are. What a label head computes is said in ``equations``, how it is trained in
``training.objectives.labelled``.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesalius import arguments, naming
from vesalius.arguments import Progress
from vesalius.data.labelled import labelled_parts
from vesalius.data.settings import LabelledData
from vesalius.errors import ImpossibleSetting, UnknownSetting, WrongKind, nearest
from vesalius.families import family_of
from vesalius.families.config import Config, Setting
from vesalius.model import Model, ModelLike, loaded
from vesalius.training.objectives import OBJECTIVES
from vesalius.training.recipe import changed, recipe, write_recipe
from vesalius.training.settings import Recipe, Training
from vesalius.views import Part, Shown, Table

if TYPE_CHECKING:
    from vesalius.training import Callback

RECIPE = "recipe.toml"
TASKS = {"classes": "text-classes", "labels": "text-labels", "values": "text-values"}
"""What can be asked of texts, and the objective of it."""
EPOCHS, DROPOUT = 10, 0.1
WIDE = 768
RATE, HIGHEST = 5e-5, 1e-3
"""The learning rate at BERT base's width, as published, and that of narrow and recurrent models."""


@dataclass(frozen=True, repr=False)
class FineTuned(Shown):
    """What fine-tuning came to."""

    folder: Path
    backbone: str
    objective: str
    training: int
    """Texts that were trained on."""
    validation: int
    """Texts that were held out."""
    step: int
    reason: str
    """finished, patience (early stopping), or the signal that stopped it."""
    numbers: dict[str, float]
    """Of the texts that were held out: loss and accuracy, or the error of values."""
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> Model:
        return loaded(self.folder)

    @property
    def done(self) -> bool:
        return self.reason in ("finished", "patience")

    def to_json(self) -> dict[str, Any]:
        about: dict[str, Any] = {"folder": str(self.folder), "backbone": self.backbone}
        about |= {"objective": self.objective, "step": self.step, "reason": self.reason}
        counts = {"training": self.training, "validation": self.validation}
        return {**about, **counts, **self.numbers, "notes": list(self.notes)}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in self.numbers.items())
        return f"FineTuned: {self.backbone} towards {self.objective} in {self.folder}; {numbers}"

    def view(self) -> Iterator[Part]:
        if not self.done:
            yield f"{self.reason}: saved at step {self.step}; go on with --resume"
            return
        rows = [("texts to train on", f"{self.training:,}"), ("held out", f"{self.validation:,}")]
        for name, number in self.numbers.items():
            shown = f"{number:.2%}" if name.endswith("accuracy") else f"{number:,.4f}"
            rows.append((f"{name.replace('_', ' ')} on these", shown))
        yield Table((f"{self.backbone}, {self.objective}", ""), rows, right=(1,))
        yield from self.notes
        yield f'vesalius classify {self.folder} "some text of yours"'
        yield f"vesalius evaluate {self.folder} other-texts.csv"
        yield f"vesalius explore {self.folder}"


def finetune(
    backbone: ModelLike,
    data: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    text: str = "text",
    label: str = "label",
    second: str | None = None,
    group: str | None = None,
    valid: str | os.PathLike[str] | None = None,
    task: str = "classes",
    strategy: str = "finetune",
    epochs: float = EPOCHS,
    seed: int = 0,
    resume: bool = False,
    changes: Mapping[str, str] | None = None,
    callbacks: "Iterable[Callback]" = (),
    progress: Progress | None = None,
    **settings: Setting,
) -> FineTuned:
    """Train a model on a table of labelled texts: CSV, TSV or JSON lines with named columns.

    ``task`` is classes, labels (several at once, in a cell with separators, a list, or in columns
    of 0 and 1 whose names ``label`` says with commas) or values. ``second`` names a column of
    second texts. Without ``valid`` a tenth is held out, each class in its share, and no ``group``
    on both sides. ``settings`` are those of a recipe's data and training, by name, such as
    ``examples=10`` or ``steps=500``; ``changes`` those of ``--set``.

    The folder ``out`` gets the recipe, checkpoints, metrics and the model, and stands for the model
    wherever one is asked for.
    """
    objective = OBJECTIVES[TASKS[arguments.choice("task", task, TASKS)]]
    model, named = _backbone(backbone)
    if model.family not in objective.families:
        raise WrongKind(
            f"{objective.name} needs a model of {', '.join(objective.families)}; "
            f"{named} is one of {model.family}"
        )
    columns = {"text": text, "second": second, "label": label, "group": group}
    files = {"corpus": _placed("data", data), "valid": _placed("valid", valid)}
    sections = _sections(model.config, settings)
    said: dict[str, Any] = {
        "title": f"{Path(named).name}, fine-tuned on {Path(str(files['corpus'])).name}",
        "init": named,
        "objective": objective.name,
        "strategy": None if strategy == "finetune" else arguments.text("strategy", strategy),
        "seed": arguments.whole("seed", seed, least=0),
        "model": {"dropout": max(DROPOUT, _number(model.config, "dropout")), **sections["model"]},
        "data": {**files, **columns, **sections["data"]},
        "training": sections["training"],
    }
    said = changed({key: value for key, value in said.items() if value is not None}, changes)
    read = recipe(said)
    training, validation = labelled_parts(_labelled(read.data), task, read.seed)
    sizes = (len(training), len(validation))
    epochs = arguments.number("epochs", epochs)
    if epochs <= 0:
        raise ImpossibleSetting(f"epochs must be above 0, got {epochs}")
    rate = RATE * (WIDE / _number(model.config, "embedding")) ** 2
    rate = HIGHEST if family_of(model.config).carries_state else min(HIGHEST, rate)
    usual = _usual(*sizes, epochs, read.training.batch)
    said["training"] = {"learning_rate": rate, **usual, **(said.get("training") or {})}
    return _trained(
        recipe(said), said, Path(arguments.path("out", out)), sizes, resume, callbacks, progress
    )


def _trained(
    whole: Recipe,
    said: Mapping[str, Any],
    folder: Path,
    sizes: tuple[int, int],
    resume: bool,
    callbacks: "Iterable[Callback]",
    progress: Progress | None,
) -> FineTuned:
    from vesalius.training import Callback, train

    objective = OBJECTIVES[whole.objective]
    noted: dict[str, Any] = {"notes": (), "kept": {}}

    class Noting(Callback):
        """Writes the recipe once the run is known to begin, and keeps what it says of its data."""

        def begins(self, run: Any) -> None:
            write_recipe(said, folder / RECIPE)
            noted["notes"] = tuple(getattr(run.batches, "notes", ()))
            noted["kept"] = run.source.preprocessing

    told = [Noting(), *callbacks]
    outcome = train(whole, folder, resume=resume, callbacks=told, progress=progress)
    numbers = objective.report(outcome.valid, noted["kept"]) if outcome.valid else {}
    return FineTuned(
        folder,
        str(whole.init),
        objective.name,
        *sizes,
        outcome.step,
        outcome.reason,
        numbers,
        noted["notes"],
    )


def _backbone(given: ModelLike) -> tuple[Model, str]:
    """The model to start from, and what a recipe calls it: a name, or a folder from its root."""
    model = loaded(given)
    if isinstance(given, str) and naming.find(given).kind != "folder":
        return model, given
    if model.folder is None:
        raise WrongKind("a recipe starts from a model in files; save this one, and give its folder")
    return model, str(model.folder.absolute())


def _placed(name: str, given: object) -> str | None:
    """A file from its root, so that the recipe finds it from anywhere; a corpus by its name."""
    if given is None:
        return None
    path = arguments.path(name, given)
    return str(Path(path).absolute()) if Path(path).exists() else path


def _labelled(data: Config) -> LabelledData:
    assert isinstance(data, LabelledData)
    return data


def _number(config: Config, name: str) -> Any:
    return getattr(config, name)


def _sections(config: Config, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings under the part of the recipe that they belong to."""
    known: dict[str, type[Config]]
    known = {"training": Training, "data": LabelledData, "model": type(config)}
    found: dict[str, dict[str, Any]] = {section: {} for section in known}
    for name, value in settings.items():
        homes = [section for section, kind in known.items() if name in kind.settings()]
        if not homes:
            every = [key for kind in known.values() for key in kind.settings()]
            raise UnknownSetting(f"a recipe has no setting {name!r}; {nearest(name, every)}")
        found[homes[0]][name] = arguments.plain(value)
    return found


def _usual(training: int, validation: int, epochs: float, batch: int) -> dict[str, Any]:
    """What suits a laptop: epochs as steps, and all that is held out looked at once an epoch."""
    steps = max(1, math.ceil(epochs * (training // min(batch, training))))
    return {
        "steps": steps,
        "batch": batch,
        "warmup": steps // 10,
        "beta2": 0.999,
        "weight_decay": 0.01,
        "evaluate_every": (every := max(1, math.ceil(steps / max(1, epochs)))),
        "save_every": every,
        "validate_on": validation,
    }

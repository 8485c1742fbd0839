"""Somebody's own task in one call: a model, data in the formats that people have, and a recipe.

``finetune`` writes the recipe beside the run and trains by it, so that the run resumes, and can be
repeated, as all runs are. ``choosing`` tells the task; how it is learnt is left to ``tasks``.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from vesalius import arguments
from vesalius.arguments import Progress, silent
from vesalius.data.tables import read_table
from vesalius.errors import ImpossibleSetting, UnknownSetting, nearest
from vesalius.families.config import Config, Setting
from vesalius.finetuning import given
from vesalius.finetuning.backbones import Backbone
from vesalius.finetuning.choosing import columns_of, task_for
from vesalius.finetuning.results import FineTuned as FineTuned
from vesalius.finetuning.results import FineTunedSeeds as FineTunedSeeds
from vesalius.model import ModelLike
from vesalius.tasks import Task
from vesalius.tasks.labelling.data import training_file
from vesalius.training.recipe import changed
from vesalius.training.settings import Training

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from vesalius.training import Callback

    Given = str | os.PathLike[str] | Mapping[str, Sequence[object]] | Sequence[object] | ArrayLike
    """A file, a folder, a name; columns; texts; arrays; texts or arrays with their answers."""


@overload
def finetune(
    backbone: ModelLike,
    data: "Given",
    *,
    out: str | os.PathLike[str],
    text: str | None = None,
    label: str | None = None,
    second: str | None = None,
    group: str | None = None,
    valid: "Given | None" = None,
    task: str | None = None,
    strategy: str = "finetune",
    epochs: float | None = None,
    seed: int = 0,
    seeds: None = None,
    resume: bool = False,
    changes: Mapping[str, str] | None = None,
    callbacks: "Iterable[Callback]" = (),
    progress: Progress | None = None,
    **settings: Setting,
) -> FineTuned: ...


@overload
def finetune(
    backbone: ModelLike,
    data: "Given",
    *,
    out: str | os.PathLike[str],
    text: str | None = None,
    label: str | None = None,
    second: str | None = None,
    group: str | None = None,
    valid: "Given | None" = None,
    task: str | None = None,
    strategy: str = "finetune",
    epochs: float | None = None,
    seed: int = 0,
    seeds: int,
    resume: bool = False,
    changes: Mapping[str, str] | None = None,
    callbacks: "Iterable[Callback]" = (),
    progress: Progress | None = None,
    **settings: Setting,
) -> FineTunedSeeds: ...


def finetune(
    backbone: ModelLike,
    data: "Given",
    *,
    out: str | os.PathLike[str],
    text: str | None = None,
    label: str | None = None,
    second: str | None = None,
    group: str | None = None,
    valid: "Given | None" = None,
    task: str | None = None,
    strategy: str = "finetune",
    epochs: float | None = None,
    seed: int = 0,
    seeds: int | None = None,
    resume: bool = False,
    changes: Mapping[str, str] | None = None,
    callbacks: "Iterable[Callback]" = (),
    progress: Progress | None = None,
    **settings: Setting,
) -> FineTuned | FineTunedSeeds:
    """Train a model on data of one's own: texts, words, questions, images or series.

    The task follows from the data and the backbone; ``task`` says it where it is open. ``data`` is
    a file, a folder or a corpus by name, or in Python texts with labels, columns by name, or arrays
    with answers, which are written beside the run. ``text``, ``label``, ``second`` and ``group``
    name columns; of words with tags the first two are numbers. ``backbone`` may be
    ``family:patchtst`` or the like, to start from nothing.

    Without ``valid`` a tenth is held out. ``settings`` are those of a recipe's data, training and
    model, by name, such as ``examples=10``, ``steps=500`` or ``horizon=24``; ``changes`` those of
    ``--set``. The folder ``out`` gets the recipe, checkpoints, metrics and the model, and stands
    for the model wherever one is asked for. With ``seeds=3`` the same is done for three seeds, from
    ``seed`` on, each in a folder of its own.
    """
    from vesalius.finetuning.running import trained

    folder = Path(arguments.path("out", out))
    begins = Backbone.of(backbone)
    named = {"text": text, "label": label, "second": second, "group": group}
    columns = {name: arguments.text(name, one) for name, one in named.items() if one is not None}
    corpus, other = (_placed(name, one, folder, begins) for name, one in _both(data, valid))
    assert corpus is not None
    asked, kind, read = task_for(corpus, begins.name, begins.family, task, columns)
    chosen = columns_of(asked, kind, columns)
    if kind == "table" and asked.option == "text":
        column = chosen.pop("text", "text")
        table = read or read_table(training_file(corpus))
        corpus, read = str(given.texts_of(table, column, folder)), None
    sections = _sections(asked, begins.config, settings)
    if begins.model is not None:
        for section, suiting in asked.suits(begins.config, begins.tokenizer).items():
            sections[section] = {**suiting, **sections[section]}
    whole = asked.learns.settings.get("labelled") == "sequence"
    if strategy == "features" and whole and "pooling" in begins.config.settings():
        sections["model"].setdefault("pooling", "mean")  # no frozen state holds a whole text
    held = {} if other is None else {"valid": other}
    if held and kind == "timeline":
        raise ImpossibleSetting(
            "valid is not for a series along time, whose parts follow each other; see split"
        )
    said: dict[str, Any] = {
        "title": f"{Path(begins.name).name}, fine-tuned on {Path(corpus).name}",
        "init" if begins.model is not None else "family": begins.name,
        "objective": asked.name,
        "strategy": None if strategy == "finetune" else arguments.text("strategy", strategy),
        "seed": arguments.whole("seed", seed, least=0),
        "model": sections["model"],
        "data": {"corpus": corpus, **held, **chosen, **sections["data"]},
        "training": {**asked.training, **sections["training"]},
    }
    said = changed({key: value for key, value in said.items() if value is not None}, changes)
    passes = asked.epochs if epochs is None else arguments.number("epochs", epochs)
    if passes <= 0:
        raise ImpossibleSetting(f"epochs must be above 0, got {passes}")
    arguments.callback("progress", progress)
    common = (asked, begins, read, passes, list(callbacks), progress or silent)
    if seeds is None:
        return trained(said, folder, resume, *common)
    every = range(seed, seed + arguments.whole("seeds", seeds, least=1))
    runs: list[FineTuned] = []
    for one in every:
        place = folder / f"seed-{one}"
        runs.append(trained({**said, "seed": one}, place, resume and place.exists(), *common))
        if not runs[-1].done:
            break
    return FineTunedSeeds(folder, tuple(runs), tuple(every))


def _both(data: Any, valid: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return ("data", data), ("valid", valid)


def _placed(name: str, data: Any, folder: Path, begins: Backbone) -> str | None:
    """A file from its root, so that the recipe finds it from anywhere; a corpus by its name."""
    if data is None and name == "valid":
        return None
    if not isinstance(data, str | os.PathLike):
        return str(given.beside(data, folder, begins.family))
    path = arguments.path(name, data)
    return str(Path(path).absolute()) if Path(path).exists() else path


def _sections(task: Task, config: Config, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings under the part of the recipe that they belong to."""
    known: dict[str, type[Config]]
    known = {"training": Training, "data": task.learns.data, "model": type(config)}
    found: dict[str, dict[str, Any]] = {section: {} for section in known}
    for name, value in given.items():
        homes = [section for section, kind in known.items() if name in kind.settings()]
        if not homes:
            every = [key for kind in known.values() for key in kind.settings()]
            raise UnknownSetting(f"a recipe has no setting {name!r}; {nearest(name, every)}")
        found[homes[0]][name] = arguments.plain(value)
    return found

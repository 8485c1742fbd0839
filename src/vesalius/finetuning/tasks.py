"""The table of tasks: what can be asked of data of a kind, and what suits it.

A row says how its data are recognised (their kind, and their labels), which objective learns them,
its usual settings, and what to run afterwards. Which families serve is said in their own rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vesalius import arguments
from vesalius.data import images, parts, series
from vesalius.data.labelled import training_file
from vesalius.data.tables import read_table
from vesalius.errors import ImpossibleSetting, UnknownSetting, UnusableData, WrongKind
from vesalius.families import FAMILIES
from vesalius.families.config import Config
from vesalius.finetuning.kinds import KINDS, kinds_of
from vesalius.tokenizers import Tokenizer
from vesalius.training.objectives import OBJECTIVES, Objective

Sections = dict[str, dict[str, Any]]
Suiting = Callable[[Config, Tokenizer | None], Sections]
DROPOUT = 0.1
MANY = 20
"""Different numbers in a column of labels, above which they are hardly classes."""


def _as_it_is(config: Config, tokenizer: Tokenizer | None) -> Sections:
    return {}


def _dropped(config: Config, tokenizer: Tokenizer | None) -> Sections:
    """Few texts are learnt by heart without dropout."""
    if "dropout" not in config.settings():
        return {}
    return {"model": {"dropout": max(DROPOUT, getattr(config, "dropout"))}}  # noqa: B009


def _capitals(config: Config, tokenizer: Tokenizer | None) -> Sections:
    """Where the tokenizer lowers letters, segments tell which words begin with a capital."""
    if tokenizer is None:
        return _dropped(config, tokenizer)
    lowers = tokenizer.encode("Bath Ely") == tokenizer.encode("bath ely")
    case = lowers and config.symbols().get("segments", 0) > 1
    return {**_dropped(config, tokenizer), "data": {"case": case}}


def _pictures(config: Config, tokenizer: Tokenizer | None) -> Sections:
    """Pictures are made as large, and of as many colours, as the model reads them."""
    return {"data": {"side": getattr(config, "image"), "colours": getattr(config, "channels")}}  # noqa: B009


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is asked of data of one kind."""

    name: str
    kind: str
    objective: str
    examples: str
    """What the data are counted in."""
    then: tuple[str, ...]
    """What to run with the model, after ``vesalius`` and with {folder} and {data} filled in."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns that it has, of text, label, second and group, and the settings they give."""
    suits: Suiting = _as_it_is
    """Settings that follow from the model that it starts from."""
    epochs: float = 10
    training: Mapping[str, Any] = field(default_factory=dict)
    follows: tuple[str, ...] = ()
    """Settings of the model that follow from the data, whatever it starts from."""
    by_example: bool = False
    """Whether its numbers need more than validation has: whole sentences or questions."""
    compared: bool = False
    """Whether the model as it was can be measured, too."""

    @property
    def learns(self) -> Objective:
        return OBJECTIVES[self.objective]


_LABELLED: dict[str, Any] = {
    "kind": "table",
    "examples": "texts",
    "then": ('classify {folder} "some text of yours"', "evaluate {folder} other-texts.csv"),
    "columns": {name: name for name in ("text", "label", "second", "group")},
    "suits": _dropped,
}
_PAIRS = ('classify {folder} "a text" "a second text"', "evaluate {folder} other-texts.csv")
_READ: dict[str, Any] = {"name": "text", "examples": "tokens", "suits": _dropped}
_READ |= {"epochs": 3, "compared": True}
_NEXT: dict[str, Any] = {
    "objective": "next-token",
    "then": ('generate {folder} "It was"', "evaluate {folder} other.txt"),
}
_MASKED: dict[str, Any] = {
    "objective": "mlm",
    "then": (
        'fill {folder} "It was a [MASK] day."',
        "evaluate {folder} other.txt",
        "finetune {folder} labelled-texts.csv --out NEXT",
    ),
}
_IMAGES: dict[str, Any] = {"kind": "images", "examples": "images", "suits": _pictures}
_SERIES: dict[str, Any] = {"kind": "series", "examples": "series", "columns": {"label": "label"}}
_SERIES |= {"epochs": 100}

TASKS = (
    Task(name="classes", objective="text-classes", **_LABELLED),
    Task(name="labels", objective="text-labels", **_LABELLED),
    Task(name="values", objective="text-values", **_LABELLED),
    Task(kind="table", columns={"text": "text"}, **_READ, **_NEXT),
    Task(kind="table", columns={"text": "text"}, **_READ, **_MASKED),
    Task(kind="text", **_READ, **_NEXT),
    Task(kind="text", **_READ, **_MASKED),
    Task(
        name="tags",
        kind="words",
        objective="tags",
        examples="sentences",
        then=('tag {folder} "Some words of yours."', "evaluate {folder} other{suffix}"),
        columns={"text": "word", "label": "column"},
        suits=_capitals,
        epochs=5,
        by_example=True,
    ),
    Task(
        name="answers",
        kind="questions",
        objective="answers",
        examples="windows",
        then=(
            'answer {folder} "Some question?" --context FILE.txt',
            "evaluate {folder} other.json",
        ),
        suits=_dropped,
        epochs=5,
        by_example=True,
    ),
    Task(
        name="classes",
        objective="image-classes",
        then=("classify {folder} FILE.png", "evaluate {folder} OTHER-IMAGES"),
        **_IMAGES,
    ),
    Task(
        name="masked",
        objective="masked-patches",
        then=("evaluate {folder} OTHER-IMAGES", "finetune {folder} LABELLED-IMAGES --out NEXT"),
        **_IMAGES,
    ),
    Task(
        name="classes",
        objective="series-classes",
        then=("classify {folder} FILE{suffix}", "evaluate {folder} OTHER{suffix}"),
        **_SERIES,
    ),
    Task(name="values", objective="series-values", then=("evaluate {folder} OTHER.ts",), **_SERIES),
    Task(
        name="masked",
        objective="masked-series",
        then=("evaluate {folder} OTHER{suffix}", "finetune {folder} LABELLED.ts --out NEXT"),
        **_SERIES,
    ),
    Task(
        name="forecast",
        kind="timeline",
        objective="forecast",
        examples="windows",
        then=("forecast {folder} {data}", "evaluate {folder} {data}"),
        epochs=4,
        training={"batch": 128, "optimiser": "adam", "warmup": 0, "weight_decay": 0.0},
        follows=("channels",),
    ),
)
NAMES = tuple(dict.fromkeys(task.name for task in TASKS))


def task_for(
    corpus: str, named: str, family: str, asked: str | None, columns: Mapping[str, str]
) -> tuple[Task, Any]:
    """The task that data are for, by a model of a family; ``asked`` says it where it is open.

    With it comes what was read of the data to tell it, if anything was.
    """
    if asked is not None:
        arguments.choice("task", asked, NAMES)
    kinds = kinds_of(corpus, columns.get("text", "text"))
    rows = [task for kind in kinds for task in TASKS if task.kind == kind]
    fitting = [task for task in rows if asked in (None, task.name)]
    if not fitting:
        there = ", ".join(dict.fromkeys(task.name for task in rows))
        wanted = dict.fromkeys(KINDS[task.kind] for task in TASKS if task.name == asked)
        raise UnusableData(
            f"task {asked} needs {'; or '.join(wanted)}; {corpus} is for task {there}"
        )
    served = [task for task in fitting if task.objective in FAMILIES[family].objectives]
    if not served:
        raise _unserved(fitting, named, family)
    alike = [task for task in served if task.kind == served[0].kind]
    having = [t for t in fitting if t.kind == alike[0].kind and columns.keys() <= t.columns.keys()]
    if having and not any(task in alike for task in having):
        raise _unserved(having, named, family)
    found, read = alike[0], None
    if len(alike) > 1:
        found, read = _chosen(alike, corpus, columns, fitting[0])
    return (replace(found, then=_PAIRS) if "second" in columns else found), read


def _chosen(
    alike: Sequence[Task], corpus: str, columns: Mapping[str, str], likeliest: Task
) -> tuple[Task, Any]:
    """The task of several that data are for; what they look like is said if they are for none."""
    try:
        name, read = CHOICES[alike[0].kind](corpus, columns)
    except UnusableData as error:
        if likeliest.kind == alike[0].kind:
            raise
        kind, _, _ = KINDS[likeliest.kind].partition(":")
        families = ", ".join(likeliest.learns.families)
        raise UnusableData(
            f"{error}. It looks like {kind}, for which there are models of {families}"
        ) from error
    return next((task for task in alike if task.name == name), alike[0]), read


def _unserved(fitting: Sequence[Task], named: str, family: str) -> WrongKind:
    """The complaint about a model of a family that does not serve."""
    alike = [t for t in fitting if (t.kind, t.name) == (fitting[0].kind, fitting[0].name)]
    wanted = " or ".join(task.objective for task in alike)
    families = [name for name in FAMILIES if any(name in t.learns.families for t in alike)]
    kinds = {task.kind for task in TASKS if task.objective in FAMILIES[family].objectives}
    serves = "; or ".join(what for kind, what in KINDS.items() if kind in kinds)
    return WrongKind(
        f"{wanted} needs a model of {', '.join(families)}; {named} is one of {family}"
        + (f", which learns from {serves}" if serves else ", which recipes train")
    )


def columns_of(task: Task, columns: Mapping[str, str]) -> dict[str, Any]:
    """What the columns that were named set in a recipe's data."""
    found: dict[str, Any] = {}
    for option, given in columns.items():
        if option not in task.columns:
            those = [one for one in TASKS if option in one.columns]
            kinds = dict.fromkeys(KINDS[one.kind] for one in those)
            if names := dict.fromkeys(one.name for one in those if one.kind == task.kind):
                raise ImpossibleSetting(
                    f"{option} is for task {', '.join(names)}; not for task {task.name}"
                )
            raise ImpossibleSetting(
                f"{option} is for {'; or '.join(kinds)}; not for {KINDS[task.kind]}"
            )
        number = task.kind == "words"
        if number and not str(given).isdecimal():
            raise ImpossibleSetting(
                f"{option} must be the number of a column here, counted from 1, got {given!r}"
            )
        found[task.columns[option]] = int(given) if number else given
    return found


# What data of a kind are for, where there are several tasks, and what was read of them -


def _of_table(corpus: str, columns: Mapping[str, str]) -> tuple[str, Any]:
    table, label = read_table(training_file(corpus)), columns.get("label", "label")
    if "," in label:
        return "labels", table
    try:
        cells = table.cells(label)
    except UnusableData as error:
        raise UnusableData(
            f"{error}. Say which it is as label, or say task text to read the texts alone"
        ) from error
    if any(isinstance(cell, list) for cell in cells):
        return "labels", table
    known = {_number(cell) for cell in cells}
    if None in known or not (len(known) > MANY or any("." in str(cell) for cell in cells)):
        return "classes", table
    raise UnknownSetting(
        f"the column {label!r} of {table.name} holds {len(known)} different numbers; say what they "
        f"are as task: values, to be predicted as numbers, or classes"
    )


def _number(cell: Any) -> float | None:
    try:
        found = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None


def _of_images(corpus: str, columns: Mapping[str, str]) -> tuple[str, Any]:
    known = not parts.here(corpus) or images.has_labels(corpus)
    return "classes" if known else "masked", None


def _of_series(corpus: str, columns: Mapping[str, str]) -> tuple[str, Any]:
    file = parts.series_files(corpus)[0]
    if Path(file).suffix.lower() != ".ts":
        return "classes" if "label" in columns else "masked", None
    read = series.read_ts(file)
    unlabelled = "masked" if read.labels is None else "classes"
    return "values" if read.targets is not None else unlabelled, read


CHOICES: dict[str, Callable[[str, Mapping[str, str]], tuple[str, Any]]] = {
    "table": _of_table,
    "images": _of_images,
    "series": _of_series,
}

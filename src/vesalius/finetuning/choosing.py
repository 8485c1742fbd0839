"""Which task data are for: by their kind, by their labels, and by what the backbone serves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vesalius import arguments
from vesalius.data import images, parts, series
from vesalius.data.tables import read_table
from vesalius.errors import ImpossibleSetting, UnknownSetting, UnusableData, WrongKind
from vesalius.families import FAMILIES
from vesalius.families.family import Family
from vesalius.tasks import Task, all_tasks
from vesalius.tasks.kinds import KINDS, kinds_of
from vesalius.tasks.labelling.data import training_file

MANY = 20
"""Different numbers in a column of labels, above which they are hardly classes."""


class Choice(NamedTuple):
    """A task for data of a kind, and what was read of them to choose it, if anything was."""

    task: Task
    kind: str
    read: Any = None


def task_for(
    corpus: str, named: str, family: Family, option: str | None, columns: Mapping[str, str]
) -> Choice:
    """The task that data are for, by a model of a family; ``option`` names it where it is open."""
    tasks = sorted(all_tasks(), key=lambda task: not task.labelled)
    if option is not None:
        arguments.choice("task", option, tuple(dict.fromkeys(t.option for t in tasks if t.kinds)))
    kinds = kinds_of(corpus, columns.get("text", "text"))
    rows = [Choice(task, kind) for kind in kinds for task in tasks if kind in task.kinds]
    fitting = [row for row in rows if option in (None, row.task.option)]
    if not fitting:
        there = ", ".join(dict.fromkeys(row.task.option for row in rows))
        of_option = (task for task in tasks if task.option == option)
        wanted = dict.fromkeys(KINDS[kind] for task in of_option for kind in task.kinds)
        raise UnusableData(
            f"task {option} needs {'; or '.join(wanted)}; {corpus} is for task {there}"
        )
    served = [row for row in fitting if row.task.serves(family)]
    if not served:
        raise _unserved(fitting, named, family)
    kind = served[0].kind
    alike = [row for row in served if row.kind == kind]
    having = [
        row for row in fitting if row.kind == kind and columns.keys() <= row.task.kinds[kind].keys()
    ]
    if having and not any(row in alike for row in having):
        raise _unserved(having, named, family)
    choice = alike[0] if len(alike) == 1 else _chosen(alike, corpus, columns, fitting[0])
    if "second" in columns:
        return choice._replace(task=replace(choice.task, then=choice.task.then_pairs))
    return choice


def _chosen(
    alike: Sequence[Choice], corpus: str, columns: Mapping[str, str], likeliest: Choice
) -> Choice:
    """The task of several that data are for; the error adds what the data look like instead."""
    try:
        option, read = CHOICES[alike[0].kind](corpus, columns)
    except UnusableData as error:
        if likeliest.kind == alike[0].kind:
            raise
        kind, _, _ = KINDS[likeliest.kind].partition(":")
        families = ", ".join(likeliest.task.served)
        raise UnusableData(
            f"{error}. It looks like {kind}, for which there are models of {families}"
        ) from error
    choice = next((row for row in alike if row.task.option == option), alike[0])
    return choice._replace(read=read)


def _unserved(fitting: Sequence[Choice], named: str, family: Family) -> WrongKind:
    """The error about a model of a family that does not serve."""
    first = fitting[0]
    alike = [r.task for r in fitting if (r.kind, r.task.option) == (first.kind, first.task.option)]
    wanted = " or ".join(task.name for task in alike)
    families = [one.name for one in FAMILIES.values() if any(task.serves(one) for task in alike)]
    kinds = {kind for task in all_tasks() if task.serves(family) for kind in task.kinds}
    serves = "; or ".join(what for kind, what in KINDS.items() if kind in kinds)
    return WrongKind(
        f"{wanted} needs a model of {', '.join(families)}; {named} is one of {family.name}"
        + (f", which learns from {serves}" if serves else ", which recipes train")
    )


def columns_of(task: Task, kind: str, columns: Mapping[str, str]) -> dict[str, Any]:
    """What the columns that were named set in a recipe's data."""
    found: dict[str, Any] = {}
    for option, value in columns.items():
        if option not in task.kinds[kind]:
            those = [(t, k) for t in all_tasks() for k, has in t.kinds.items() if option in has]
            kinds = dict.fromkeys(KINDS[one] for _, one in those)
            if names := dict.fromkeys(other.option for other, one in those if one == kind):
                raise ImpossibleSetting(
                    f"{option} is for task {', '.join(names)}; not for task {task.option}"
                )
            raise ImpossibleSetting(f"{option} is for {'; or '.join(kinds)}; not for {KINDS[kind]}")
        number = kind == "words"
        if number and not str(value).isdecimal():
            raise ImpossibleSetting(
                f"{option} must be the number of a column here, counted from 1, got {value!r}"
            )
        found[task.kinds[kind][option]] = int(value) if number else value
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

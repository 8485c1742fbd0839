"""Labels of texts: one of several classes, several labels at once, or a value."""

from typing import Any

from vesalius.families.family import Lazy
from vesalius.tasks.task import Task, with_dropout

_TEXTS: dict[str, Any] = {
    "kinds": {"table": {name: name for name in ("text", "label", "second", "group")}},
    "labelled": True,
    "examples": "texts",
    "then": ('classify {folder} "some text of yours"', "evaluate {folder} other-texts.csv"),
    "then_pairs": (
        'classify {folder} "a text" "a second text"',
        "evaluate {folder} other-texts.csv",
    ),
    "suits": with_dropout,
}
_PLACE = "vesalius.tasks.labelling.objective"
TASKS = (
    Task(name="text-classes", option="classes", objective=Lazy(f"{_PLACE}:CLASSES"), **_TEXTS),
    Task(name="text-labels", option="labels", objective=Lazy(f"{_PLACE}:LABELS"), **_TEXTS),
    Task(name="text-values", option="values", objective=Lazy(f"{_PLACE}:VALUES"), **_TEXTS),
)

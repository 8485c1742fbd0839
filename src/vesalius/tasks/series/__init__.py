"""Whole time series: their classes, a value for each, and masked stretches."""

from typing import Any

from vesalius.families.family import Lazy
from vesalius.tasks.task import Task

_SERIES: dict[str, Any] = {
    "kinds": {"series": {"label": "label"}},
    "examples": "series",
    "epochs": 100,
}
_PLACE = "vesalius.tasks.series.objective"
TASKS = (
    Task(
        name="masked-series",
        option="masked",
        objective=Lazy(f"{_PLACE}:MASKED"),
        then=("evaluate {folder} OTHER{suffix}", "finetune {folder} LABELLED.ts --out NEXT"),
        **_SERIES,
    ),
    Task(
        name="series-classes",
        option="classes",
        objective=Lazy(f"{_PLACE}:CLASSES"),
        labelled=True,
        then=("classify {folder} FILE{suffix}", "evaluate {folder} OTHER{suffix}"),
        **_SERIES,
    ),
    Task(
        name="series-values",
        option="values",
        objective=Lazy(f"{_PLACE}:VALUES"),
        labelled=True,
        then=("evaluate {folder} OTHER.ts",),
        **_SERIES,
    ),
)

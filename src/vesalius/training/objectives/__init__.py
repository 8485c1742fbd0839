"""The table of objectives; each is an object of its own, made beside its kind of data.

Which families an objective serves is said in their rows (``Family.objectives``).
"""

from typing import Any

from vesalius.errors import UnknownSetting, nearest
from vesalius.training.objectives import (
    answers,
    forecasting,
    images,
    labelled,
    series,
    tagging,
    text,
)
from vesalius.training.objectives.objective import Objective as Objective

OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for kind in (text, labelled, tagging, answers, images, series, forecasting)
    for objective in kind.OBJECTIVES
}


def objective_named(name: object) -> Objective:
    if name not in OBJECTIVES:
        asked = "a recipe says its objective" if name is None else f"unknown objective {name!r}"
        raise UnknownSetting(f"{asked}; {nearest(str(name), OBJECTIVES)}")
    return OBJECTIVES[name]

"""What models are trained for and used for: a folder and a row for each task, and the table.

A folder holds a task's data, objective, metrics, baseline and use; what several share stands here:
``task`` (a row), ``objective``, ``kinds`` (of data), ``classification`` and ``embedding`` (verbs).
A task of another package is named in the entry point group ``vesalius.tasks``. Importing this
imports rows alone.
"""

from functools import cache

from vesalius.errors import UnknownSetting, nearest
from vesalius.families.plugins import with_added
from vesalius.tasks import answering, forecasting, images, labelling, language, series, tagging
from vesalius.tasks.task import Task as Task

MODULES = (language, labelling, tagging, answering, images, series, forecasting)
OURS: dict[str, Task] = {task.name: task for module in MODULES for task in module.TASKS}
GROUP = "vesalius.tasks"


@cache
def all_tasks() -> tuple[Task, ...]:
    """Ours, and those of other packages."""
    return with_added(GROUP, Task, tuple(OURS.values()))


def task_named(name: object) -> Task:
    """The task of an objective; other packages are asked about names that are not ours."""
    if isinstance(name, str) and name in OURS:
        return OURS[name]
    known = {task.name: task for task in all_tasks()}
    if not isinstance(name, str) or name not in known:
        asked = "a recipe says its objective" if name is None else f"unknown objective {name!r}"
        raise UnknownSetting(f"{asked}; {nearest(str(name), known)}")
    return known[name]

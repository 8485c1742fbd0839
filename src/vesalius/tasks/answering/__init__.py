"""Answers to questions, as spans of a paragraph."""

from vesalius.families.family import Lazy
from vesalius.tasks.task import Task, with_dropout

TASKS = (
    Task(
        name="answers",
        option="answers",
        objective=Lazy("vesalius.tasks.answering.objective:ANSWERS"),
        kinds={"questions": {}},
        labelled=True,
        examples="windows",
        then=(
            'answer {folder} "Some question?" --context FILE.txt',
            "evaluate {folder} other.json",
        ),
        suits=with_dropout,
        epochs=5,
        by_example=True,
    ),
)

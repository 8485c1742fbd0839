"""Language models: the next token, masked tokens, and whether one sentence follows another."""

from typing import Any

from vesalius.families.family import Lazy
from vesalius.tasks.task import Task, with_dropout

_READING: dict[str, Any] = {
    "kinds": {"table": {"text": "text"}, "text": {}},
    "option": "text",
    "examples": "tokens",
    "suits": with_dropout,
    "epochs": 3,
    "compared": True,
}
_PLACE = "vesalius.tasks.language.objective"
TASKS = (
    Task(
        name="next-token",
        objective=Lazy(f"{_PLACE}:NEXT_TOKEN"),
        then=('generate {folder} "It was"', "evaluate {folder} other.txt"),
        **_READING,
    ),
    Task(
        name="mlm",
        objective=Lazy(f"{_PLACE}:MLM"),
        then=(
            'fill {folder} "It was a [MASK] day."',
            "evaluate {folder} other.txt",
            "finetune {folder} labelled-texts.csv --out NEXT",
        ),
        **_READING,
    ),
    Task(name="nsp", objective=Lazy(f"{_PLACE}:NSP")),
    Task(name="mlm+nsp", objective=Lazy(f"{_PLACE}:MLM_NSP")),
)

"""Multiple choice: which of several endings a text has. The row, the verb and its command.

How it is learnt and measured stands in ``choice_objective``, which is imported when it is needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, json_option, load
from vesalius.families.family import Lazy
from vesalius.model import ModelLike, loaded
from vesalius.tasks.task import Task, with_dropout
from vesalius.views.shown import Part, Shown, Table


@dataclass(frozen=True, repr=False)
class Chosen(Shown):
    """The endings of a text with their probabilities, in their order."""

    text: str
    endings: list[str]
    probabilities: list[float]

    @property
    def best(self) -> str:
        return self.endings[max(range(len(self.endings)), key=self.probabilities.__getitem__)]

    def __repr__(self) -> str:
        return f"Chosen: {self.best}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "best": self.best}

    def view(self) -> Iterator[Part]:
        rows = [(e, f"{p:.4f}") for e, p in zip(self.endings, self.probabilities, strict=True)]
        yield Table(("ending", "probability"), rows, right=(1,), prose=(0,), title=self.text)


def choose(model: ModelLike, text: str, endings: Sequence[str]) -> Chosen:
    """Which ending a text has, by a softmax over their scores; PyTorch is not needed."""
    from vesalius.equations import softmax
    from vesalius.tasks.labelling.use import label_logits

    scores, _ = label_logits(loaded(model), [(text, ending) for ending in endings])
    return Chosen(text, list(endings), softmax(scores[:, 0], axis=0).tolist())


@click.command("choose")
@click.argument("model", shell_complete=complete_models)
@click.argument("text")
@click.argument("endings", nargs=-1, required=True)
@json_option
def command(model: str, text: str, endings: tuple[str, ...], as_json: bool) -> None:
    """Choose the ending of TEXT among ENDINGS.

    Example: vesalius choose my-chooser "It rained, so she took" "her umbrella" "a swim"
    """
    terminal.show_result(choose(load(model), text, endings), as_json)


TASK = Task(
    name="multiple-choice",
    option="choice",
    objective=Lazy("choice_objective:CHOICE"),
    families=("bert",),
    command=Lazy("choice_task:command"),
    kinds={"table": {"text": "text", "label": "label"}},
    labelled=True,
    examples="texts",
    then=('choose {folder} "some text" "an ending" "another"', "evaluate {folder} other.csv"),
    suits=with_dropout,
    epochs=5,
)

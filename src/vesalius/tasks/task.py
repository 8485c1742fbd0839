"""A row of the table of tasks: what it is learnt by, what its data are, and what to do with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vesalius.families import FAMILIES
from vesalius.families.config import Config
from vesalius.families.family import Family, Lazy

if TYPE_CHECKING:
    from vesalius.tasks.objective import Objective
    from vesalius.tokenizers import Tokenizer

Sections = dict[str, dict[str, Any]]
Suiting = Callable[[Config, "Tokenizer | None"], Sections]
DROPOUT = 0.1


def as_it_is(config: Config, tokenizer: "Tokenizer | None") -> Sections:
    return {}


def with_dropout(config: Config, tokenizer: "Tokenizer | None") -> Sections:
    """Few texts are learnt by heart without dropout."""
    if "dropout" not in config.settings():
        return {}
    return {"model": {"dropout": max(DROPOUT, getattr(config, "dropout"))}}  # noqa: B009


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One row of the table."""

    name: str
    """What a recipe calls it: its objective."""
    objective: Lazy
    """An ``Objective``: its data, losses, heads, metrics and baselines."""
    families: tuple[str, ...] = ()
    """The families that it serves, besides those whose rows name it."""
    command: Lazy | None = None
    """A command of its own for the command line, where that has none for it."""

    # Fine-tuning; without kinds of data, only recipes train it.
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The kinds of data (see ``kinds``) that it is learnt from; for each, which of the columns
    text, label, second and group they have, and the settings that these give."""
    option: str = ""
    """What ``finetune`` calls it in ``--task``, of the tasks that a kind of data is for."""
    labelled: bool = False
    """Whether it is learnt from answers that people gave; these tasks come first."""
    examples: str = "examples"
    """What the data are counted in."""
    then: tuple[str, ...] = ()
    """What to run with the model, after ``vesalius`` and with {folder} and {data} filled in."""
    then_pairs: tuple[str, ...] = ()
    """The same for pairs of texts."""
    suits: Suiting = as_it_is
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
    def learns(self) -> "Objective":
        objective: Objective = self.objective.get()
        return objective

    def serves(self, family: Family) -> bool:
        return self.name in family.objectives or family.name in self.families

    @property
    def served(self) -> tuple[str, ...]:
        """The families that can be trained towards it."""
        return tuple(family.name for family in FAMILIES.values() if self.serves(family))

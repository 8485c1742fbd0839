"""Small trained models of every family, one folder each, as ``load`` reads them.

Beside its weights in half precision each has a card: what it was trained on, by which recipe, at
what cost, and how good it is. ``recipes/specimens.py`` makes them.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vesalius.errors import UnknownModel, nearest

FOLDER = Path(__file__).parent
CARD = "card.json"
SNAPSHOTS = FOLDER / "snapshots"
"""Models along the training of recipes/stories-small.toml, in folders named after their steps."""
HEADLINES = {
    "bits_per_byte": "{bits_per_byte:.3f} bits per byte",
    "bits_per_pixel": "{bits_per_pixel:.3f} bits per pixel",
    "next_sentence_accuracy": "{accuracy:.1%} of masks, {next_sentence_accuracy:.1%} of pairs",
    "accuracy": "{accuracy:.1%} right",
}
"""What a result is compared by, the first that it has."""


@dataclass(frozen=True)
class Card:
    """What is known of a specimen."""

    title: str
    family: str
    parameters: int
    corpus: str
    data: str
    """What the corpus is."""
    licence: str
    """Of the corpus."""
    steps: int
    operations: int
    """Of the matrix products of all training steps, by formula; a multiply-add is two."""
    seconds: float
    """Of all training steps, without validation."""
    machine: str
    date: str
    versions: dict[str, str]
    result: dict[str, Any]
    """What ``evaluate`` gives on the part of the corpus that it was not trained on."""
    recipe: dict[str, Any]

    @property
    def headline(self) -> str:
        """The number to compare it by."""
        fitting = (words for key, words in HEADLINES.items() if key in self.result)
        return next(fitting, "").format(**self.result)

    @property
    def numbers(self) -> dict[str, str]:
        """The results in words and figures."""
        return {
            key.replace("_", " "): f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"
            for key, value in self.result.items()
            if not isinstance(value, str)
        }

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def specimens() -> list[str]:
    """The models that ship with the package."""
    return sorted(file.parent.name for file in FOLDER.glob("*/config.json"))


def card(name: str) -> Card:
    """The card of a specimen."""
    if name not in specimens():
        raise UnknownModel(f"there is no specimen {name!r}; {nearest(name, specimens())}")
    return Card(**json.loads((FOLDER / name / CARD).read_text(encoding="utf-8")))


def snapshots() -> dict[int, Path]:
    """The folders of the models along one small training run, by step."""
    folders = sorted(SNAPSHOTS.glob("step-*"))
    return {int(folder.name.removeprefix("step-")): folder for folder in folders}

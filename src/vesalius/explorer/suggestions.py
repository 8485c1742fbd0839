"""What the page may offer a model to read: texts, pairs, masks, examples and files."""

from typing import Any

from vesalius.errors import VesaliusError
from vesalius.examples import shelf
from vesalius.explorer.reading import maskable
from vesalius.explorer.uploads import accepted
from vesalius.families import family_of
from vesalius.model import Model

BEGINS = {"vit": 4, "igpt": 4, "tst": 31}
"""Examples to begin with, by specimen: ones of which it is not quite sure."""


def offered(model: Model) -> dict[str, Any]:
    """What a model reads, and what there is for it to begin with."""
    reads = family_of(model.config).reads
    symbols = model.config.symbols()
    told: dict[str, Any] = {
        "reads": reads,
        "pairs": bool(symbols.get("nsp_head")) and symbols.get("segments", 1) > 1,
        "masks": maskable(model),
        "window": bool(family_of(model.config).window),
        "accepts": accepted(model),
        "examples": [],
        "corpus": "",
        "begins": None,
        "more": 0,
    }
    if reads != "text":
        try:
            found = shelf(model)
        except VesaliusError:  # a model of one's own, whose corpus nobody knows
            return told
        told["examples"] = [{"number": number, "label": label} for number, label in found.few]
        numbers = [number for number, _ in found.few]
        wanted = BEGINS.get(model.folder.name) if model.folder else None
        told["begins"] = wanted if wanted in numbers else next(iter(numbers), None)
        told |= {"corpus": found.corpus, "more": found.count}
    return told

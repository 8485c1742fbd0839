"""What the page may offer a model to read: texts, pairs, masks, examples and files."""

from typing import Any

from vesalius.data.examples import shelf
from vesalius.equations.parameters import LSTM, Elman
from vesalius.errors import VesaliusError
from vesalius.explorer.reading import maskable
from vesalius.explorer.uploads import accepted
from vesalius.families import family_of
from vesalius.model import Model

BEGINS = {"vit": 4, "igpt": 4}
"""Examples to begin with, by specimen, where not the first: ones that it gets right without being
quite sure. They are numbers of the part of the corpus that training held out."""

MEMORY = ((LSTM, "c"), (Elman, "h"))
"""Recurrent layers whose gates the page can show, with the state that is their memory."""

TEXT, MASKED, LONGER = "He shook his", "He shook his [MASK].", "He shook his head and said to the"
"""What a page begins with: any text, one to fill, and one that fills a window."""
TAGGED = "Emma walked home from London"
ASKED = ("Who shook his head?", "The old man shook his head and said nothing.")
FOLLOWS, HOLDS, OTHER = "B: does this follow?", "B: where is the answer?", "B: a text more"
"""What the second text is for: next sentences, answers, and classes of one text or two."""


def offered(model: Model) -> dict[str, Any]:
    """What a model reads, and what there is for it to begin with."""
    reads = family_of(model.config).reads
    text, second = _begun(model) if reads == "text" else ("", "")
    told: dict[str, Any] = {
        "reads": reads,
        "text": text,
        "second": second,
        "pairs": _second(model),
        "masks": maskable(model),
        "window": bool(family_of(model.config).window),
        "accepts": accepted(model),
        "examples": [],
        "corpus": "",
        "begins": None,
        "more": 0,
        "heads": model.config.attends,
        "gates": _memory(model),
        "boxes": _boxes(model),
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


def _boxes(model: Model) -> dict[str, str]:
    """Steps inside a box of a figure, by their symbols, and the step that the box gives."""
    rows = family_of(model.config).steps(model.config)
    return {row.symbol: row.within.partition("[")[0] for row in rows if row.within}


def _memory(model: Model) -> str:
    """Which state the gates of a recurrent network write to; empty where there are none to show."""
    if not family_of(model.config).carries_state:
        return ""
    return next((state for kind, state in MEMORY if isinstance(model.parameters.Phi[0], kind)), "")


def _begun(model: Model) -> tuple[str, str]:
    """What a page reads first, and the other text of a pair; without a tokenizer, token ids."""
    symbols, window = model.config.symbols(), family_of(model.config).window
    if model.tokenizer is None:
        return " ".join(map(str, range(min(symbols["V"], 8 if window else 3)))), ""
    if symbols.get("labels") and symbols.get("labelled") == "tokens":
        return TAGGED, ""
    if symbols.get("labels") and symbols.get("labelled") == "span":
        return ASKED
    if maskable(model):
        return MASKED, ""
    return LONGER if window else TEXT, ""


def _second(model: Model) -> str:
    """What a second text is for; empty where the model reads one."""
    symbols = model.config.symbols()
    if symbols.get("segments", 1) < 2 or model.tokenizer is None:
        return ""
    labelled = symbols.get("labelled") if symbols.get("labels") else ""
    if labelled == "span":
        return HOLDS
    if labelled == "sequence":
        return OTHER
    return FOLLOWS if symbols.get("nsp_head") else ""

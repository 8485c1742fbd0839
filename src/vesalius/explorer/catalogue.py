"""The models that may be explored: a list made at the start, from which a page picks by id."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from vesalius import naming
from vesalius.counting import count
from vesalius.errors import UnknownModel, nearest
from vesalius.explorer.offering import offered
from vesalius.families import family_of
from vesalius.model import Model, load
from vesalius.specimens import card, specimens

DEFAULT = "gpt"
TEXTS = {"bert": "He shook his [MASK].", "ffnn": "He shook his head and said to the"}
"""What a page begins with, by family."""
TEXT = "He shook his"


class Entry:
    """One model, loaded when it is first asked for; ``lock`` lets heavy work in one at a time."""

    def __init__(self, key: str, name: str, title: str, model: Model | None = None) -> None:
        self.key, self.name, self.title = key, name, title
        self.lock = Lock()
        self._model = model
        self._digest = ""

    @contextmanager
    def at_work(self) -> Iterator[Model]:
        """The model, while nobody else works with it."""
        with self.lock:
            if self._model is None:
                self._model = load(self.name)
            yield self._model

    def digest(self, model: Model) -> str:
        """What the model is, in a few letters: the same weights and settings give the same."""
        if not self._digest:
            found = hashlib.sha256(repr(model.config).encode())
            for name, array in model.state.items():
                found.update(name.encode())
                found.update(np.ascontiguousarray(array).view(np.uint8).data)
            self._digest = found.hexdigest()
        return self._digest

    def to_json(self) -> dict[str, Any]:
        return {"id": self.key, "title": self.title}

    def described(self) -> dict[str, Any]:
        """The settings, the symbols, and the count of every part."""
        with self.at_work() as model:
            family = family_of(model.config)
            return {
                **self.to_json(),
                **model.to_json(),
                "name": self.name.removeprefix("specimen:"),
                "family": family.name,
                "family_title": family.title,
                "symbols": model.config.symbols(),
                "settings": model.config.described(),
                "context": model.config.symbols().get("n_max"),
                "count": count(model).to_json(),
                "text": self._text(model),
                **offered(model),
            }

    def _text(self, model: Model) -> str:
        """What a page reads first: token ids, where there is no tokenizer; no text of pictures."""
        if family_of(model.config).reads != "text":
            return ""
        if model.tokenizer is None:
            most = min(model.config.symbols()["V"], 8 if family_of(model.config).window else 3)
            return " ".join(map(str, range(most)))
        return TEXTS.get(family_of(model.config).name, TEXT)


class Catalogue:
    """The models by their ids, the one to begin with first."""

    def __init__(self, given: str | None = None) -> None:
        self.entries: dict[str, Entry] = {}
        if given is not None:
            self._add(given)
        for name in (DEFAULT, *specimens()):
            if name not in self.entries:
                self.entries[name] = Entry(name, f"specimen:{name}", card(name).title)

    def _add(self, given: str) -> None:
        found = naming.find(given)
        if found.kind == "specimen":
            entry = Entry(found.name, f"specimen:{found.name}", card(found.name).title)
        else:
            folder = found.name if found.folder is None else found.folder.resolve().name
            key = re.sub(r"[^\w.-]+", "-", folder).strip("-.") or "model"
            key = f"{key}-2" if key in specimens() else key
            entry = Entry(key, given, folder)
        with entry.at_work():  # what cannot be read is said before the page opens
            pass
        self.entries[entry.key] = entry

    def __getitem__(self, key: str) -> Entry:
        if key not in self.entries:
            raise UnknownModel(f"there is no model {key!r} here; {nearest(key, self.entries)}")
        return self.entries[key]

    @property
    def first(self) -> Entry:
        return next(iter(self.entries.values()))

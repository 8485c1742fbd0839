"""The models that may be explored: a list made at the start, from which a page picks by id."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from vesalius import equations as eq
from vesalius.checkpoints import naming
from vesalius.counting import count
from vesalius.errors import UnknownModel, VesaliusError, nearest
from vesalius.explorer.suggestions import offered
from vesalius.families import family_of
from vesalius.figures import parts_of
from vesalius.machine.cancellation import check
from vesalius.model import Model, load
from vesalius.specimens import card, specimens
from vesalius.training.callbacks import METRICS

DEFAULT = "gpt"
PATIENCE = 0.1
"""Seconds after which whoever waits for a model sees whether that is still wanted."""


class ModelChanged(VesaliusError):
    """The files of a model have changed since they were read."""

    def __init__(self, title: str) -> None:
        super().__init__(
            f"the files of {title} have changed since they were read, so that what was computed "
            f"is not theirs any more; open it anew to read them as they are now"
        )


class Entry:
    """One model, loaded when it is first asked for; ``lock`` lets heavy work in one at a time."""

    def __init__(self, key: str, name: str, title: str, model: Model | None = None) -> None:
        self.key, self.name, self.title = key, name, title
        self.lock = Lock()
        self._model = model
        self._digest = ""
        self._files = _files(model)
        self.edition = 0
        """How often its files have changed: what was computed of older ones is worth nothing."""
        self.waiting = 0
        """How many want to work with it, the one that does among them."""

    @contextmanager
    def at_work(self) -> Iterator[Model]:
        """The model, while nobody else works with it."""
        self.waiting += 1
        try:
            while not self.lock.acquire(timeout=PATIENCE):
                check()
            try:
                check()
                yield self._loaded()
            finally:
                self.lock.release()
        finally:
            self.waiting -= 1

    def give_way(self) -> None:
        """Before work that nobody waits for: whoever waits goes first.

        A lock alone would not do it: who releases it and asks at once gets it again.
        """
        while self.waiting:
            check()
            time.sleep(0.001)

    def _loaded(self) -> Model:
        if self._model is not None and _files(self._model) != self._files:
            self._model, self._digest = None, ""
            self.edition += 1
            raise ModelChanged(self.title)
        if self._model is None:
            try:
                self._model = load(self.name)
            except FileNotFoundError as error:
                raise UnknownModel(
                    f"the files of {self.title} were removed while they were read; "
                    f"choose another model, or open it anew when they are back"
                ) from error
            self._files = _files(self._model)
        return self._model

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
            family, symbols = family_of(model.config), model.config.symbols()
            return {
                **self.to_json(),
                **model.to_json(),
                "name": self.name.removeprefix("specimen:"),
                "family": family.name,
                "family_title": family.title,
                "symbols": symbols,
                "settings": model.config.described(),
                "formulas": formulas(symbols),
                "context": symbols.get("tau", symbols.get("n_max")),
                "count": count(model).to_json(),
                "figures": parts_of(model),
                **offered(model),
            }


def formulas(symbols: Mapping[str, Any]) -> dict[str, str]:
    """The LaTeX of equations that are written otherwise for a model than in general."""
    written = {name: one.written_for(symbols).latex for name, one in eq.REGISTRY.items()}
    return {name: latex for name, latex in written.items() if latex != eq.REGISTRY[name].latex}


def _files(model: Model | None) -> list[tuple[str, int, int]]:
    """The names, sizes and times of a model's files."""
    folder: Path | None = None if model is None else model.folder
    if folder is None or not folder.is_dir():
        return []
    with suppress(FileNotFoundError):  # one may be removed while they are looked at
        stats = [(file.name, file.stat()) for file in sorted(folder.iterdir()) if file.is_file()]
        return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return []


def _called(folder: Path) -> str:
    """A folder's name; that of its run where it is the model that a run came to."""
    run = folder.name == "model" and (folder.parent / METRICS).exists()
    return folder.parent.name if run else folder.name


def entry_of(given: str, model: Model | None = None) -> Entry:
    """The model of a name or a folder, which the explorer can show."""
    found = naming.find(given)
    if found.kind == "specimen":
        entry = Entry(found.name, f"specimen:{found.name}", card(found.name).title, model)
    else:
        folder = found.name if found.folder is None else _called(found.folder.resolve())
        key = re.sub(r"[^\w.-]+", "-", folder).strip("-.") or "model"
        key = f"{key}-2" if key in specimens() else key
        entry = Entry(key, given, folder, model)
    with entry.at_work():  # what cannot be read is said before the page opens
        pass
    return entry


class Catalogue:
    """The models by their ids, the one to begin with first."""

    def __init__(self, given: str | None = None) -> None:
        self.entries: dict[str, Entry] = {}
        self.checkpoint: Callable[[str], Entry] | None = None
        """Finds what is not listed: ``RUN@STEP``, a checkpoint of a training run."""
        if given is not None:
            self._add(given)
        for name in (DEFAULT, *specimens()):
            if name not in self.entries:
                self.entries[name] = Entry(name, f"specimen:{name}", card(name).title)

    def _add(self, given: str) -> None:
        entry = entry_of(given)
        self.entries[entry.key] = entry

    def __getitem__(self, key: str) -> Entry:
        if key not in self.entries and "@" in key and self.checkpoint is not None:
            return self.checkpoint(key)
        if key not in self.entries:
            raise UnknownModel(f"there is no model {key!r} here; {nearest(key, self.entries)}")
        return self.entries[key]

    @property
    def first(self) -> Entry:
        return next(iter(self.entries.values()))

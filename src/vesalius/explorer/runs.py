"""Runs by what they are of: a model, what it reads and cuts give one hash, and one trace."""

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from vesalius import __version__
from vesalius.analyses.replaying import with_cuts
from vesalius.dissection import dissect
from vesalius.errors import UnknownStep, VesaliusError
from vesalius.explorer.catalogue import Catalogue, Entry
from vesalius.explorer.reading import Asked, What, what
from vesalius.explorer.uploads import Uploads
from vesalius.model import Model
from vesalius.traces import Trace

BYTES = 1 << 30
"""Of the steps of all runs that are kept; the one least lately asked for goes first."""


class UnknownRun(VesaliusError):
    """A run that is not kept any more, or never was; posting it again brings it back."""


@dataclass(frozen=True)
class Run:
    """One forward pass that is kept."""

    key: str
    entry: Entry
    trace: Trace
    cuts: tuple[str, ...]
    milliseconds: float
    again: int
    """How many steps were computed; with cuts, only those that depend on them."""
    clean: str
    """The run without cuts: its own key where there are none."""
    what: What
    """What was read."""
    answers: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """What was asked about it before."""

    @property
    def size(self) -> int:
        return sum(step.value.nbytes for step in self.trace.steps)


class Runs:
    """The runs that are kept, by their keys."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue, self.uploads = catalogue, Uploads()
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = Lock()

    def __getitem__(self, key: str) -> Run:
        with self._lock:
            if key not in self._runs:
                raise UnknownRun("this run is not kept here; post its text again")
            self._runs.move_to_end(key)
            return self._runs[key]

    def make(self, model: str, asked: Asked, cuts: Sequence[str] = ()) -> Run:
        """The run of what is asked for; made once, however often."""
        entry = self.catalogue[model]
        with entry.at_work() as loaded:
            read = what(loaded, asked, self.uploads)
            clean = self._one(entry, loaded, read, ())
            return self._one(entry, loaded, read, tuple(sorted(set(cuts)))) if cuts else clean

    def uncut(self, run: Run) -> Run:
        """The same run without its cuts, kept or made anew."""
        with run.entry.at_work() as model:
            return self._one(run.entry, model, run.what, ())

    def _one(self, entry: Entry, model: Model, read: What, cuts: tuple[str, ...]) -> Run:
        key, clean = (_key(entry.digest(model), read.key, some) for some in (cuts, ()))
        with self._lock:
            if key in self._runs:
                self._runs.move_to_end(key)
                return self._runs[key]
        begun = time.perf_counter()
        if cuts:
            trace, again = with_cuts(self[clean].trace, cuts)
        else:
            trace = dissect(model, read.given, edit=read.edit)
            again = len(trace)
        taken = 1000 * (time.perf_counter() - begun)
        run = Run(key, entry, trace, cuts, taken, again, clean, read)
        with self._lock:
            self._runs[key] = run
            total = sum(one.size for one in self._runs.values())
            while total > BYTES and len(self._runs) > 2:
                total -= self._runs.popitem(last=False)[1].size
        return run


def _key(digest: str, read: str, cuts: tuple[str, ...]) -> str:
    said = json.dumps([__version__, digest, read, cuts])
    return hashlib.sha256(said.encode()).hexdigest()[:24]


def step_of(run: Run, name: str) -> Any:
    """A step of a run by its name."""
    if name not in run.trace:
        raise UnknownStep(run.trace.graph.step(name).name)  # which says what is meant instead
    return run.trace.graph.step(name)

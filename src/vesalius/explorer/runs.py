"""Runs by what they are of: a model, what it reads and cuts give one hash, and one trace."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vesalius import __version__
from vesalius.analyses.alignment import Alignment
from vesalius.analyses.long_traces import Layered, LongTrace, is_long, nobody
from vesalius.analyses.replaying import with_cuts
from vesalius.equations.parameters import Array
from vesalius.errors import VesaliusError, WrongKind
from vesalius.explorer.catalogue import Catalogue, Entry, ModelChanged
from vesalius.explorer.keeping import LEAST, Kept, weight
from vesalius.explorer.reading import Asked, What, what
from vesalius.explorer.uploads import Uploads
from vesalius.model import Model
from vesalius.traces.dissection import dissect
from vesalius.traces.edits.values import Edit
from vesalius.traces.trace import Trace

BYTES = 512 << 20
"""Of all runs that are kept, with the checkpoints that they are of."""
ANSWERS = 64 << 20
"""Of what was asked about them before."""


Answers = Kept[tuple[Any, ...], Any]


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
    """How many steps were computed; with cuts, only the steps that depend on them."""
    clean: str
    """The run without cuts: its own key where there are none."""
    what: What
    """What was read."""
    patches: tuple[str, ...] = ()
    """Steps whose values are another run's."""
    source: "Run | None" = None
    """The run that patches are taken from."""
    edition: int = 0
    """Of the model's files that it was computed from."""
    answers: "Answers" = field(default_factory=lambda: Kept(ANSWERS, weight))
    """What was asked about runs before, by the run's key and the question."""

    @property
    def edited(self) -> bool:
        return bool(self.cuts or self.patches)

    def edits(self) -> dict[str, Edit]:
        """What patches put in the place of steps."""
        if self.source is None:
            return {}
        return Alignment(self.trace, self.source.trace).patches(self.patches)

    @property
    def size(self) -> int:
        """The bytes of its steps, and of the run that some are taken from."""
        if isinstance(self.trace, LongTrace):
            return self.trace.own
        own = sum(LEAST + int(step.value.nbytes) for step in self.trace.steps)
        return own + (0 if self.source is None else self.source.size)


class Runs:
    """The runs that are kept, by their keys."""

    def __init__(self, catalogue: Catalogue | Mapping[str, Entry]) -> None:
        self.catalogue, self.uploads = catalogue, Uploads()
        self.answers: Answers = Kept(ANSWERS, weight)
        self._runs: Kept[str, Run] = Kept(BYTES, lambda run: run.size, 2, _of_models)

    def __getitem__(self, key: str) -> Run:
        run = self._runs.get(key)
        if run is None:
            raise UnknownRun("this run is not kept here; post what it reads again")
        if run.edition != run.entry.edition:
            raise ModelChanged(run.entry.title)
        return run

    def make(
        self,
        model: str,
        asked: Asked,
        cuts: Sequence[str] = (),
        told: "Told | None" = None,
        patches: Sequence[str] = (),
        source: str | None = None,
    ) -> Run:
        """The run of what is asked for; made once, however often.

        ``patches`` are steps whose values are taken from the run ``source``.
        """
        other = None if source is None or not patches else self[source]
        if patches and other is None:
            raise WrongKind("patches are values of another run; say its id as the source")
        entry = self.catalogue[model]
        with entry.at_work() as loaded:
            read = what(loaded, asked, self.uploads)
            told = told or Told()
            digest = entry.digest(loaded)
            more = (_sorted(patches), other) if other is not None else ((), None)
            changes = (*_sorted(cuts), *_taken(*more))
            key, clean = (key_of(digest, read.key, some) for some in (changes, ()))
            told.begun(key, clean, loaded, read.ids)
            found = self._one(entry, loaded, read, (), told.layered)
            if not changes:
                return found
            return self._one(entry, loaded, read, _sorted(cuts), told.layered, *more)

    def uncut(self, run: Run) -> Run:
        """The same run without its cuts, kept or made anew."""
        with run.entry.at_work() as model:
            return self._one(run.entry, model, run.what, ())

    def _one(
        self,
        entry: Entry,
        model: Model,
        read: What,
        cuts: tuple[str, ...],
        layered: Layered = nobody,
        patches: tuple[str, ...] = (),
        source: Run | None = None,
    ) -> Run:
        digest, changes = entry.digest(model), (*cuts, *_taken(patches, source))
        key, clean = (key_of(digest, read.key, some) for some in (changes, ()))
        known = self._runs.get(key)
        if known is not None and known.edition == entry.edition:
            return known
        begun = time.perf_counter()
        if is_long(model, len(read.ids)):
            if source is not None:
                raise WrongKind("this text is too long for values to be taken from another run")
            before = self[clean].trace if cuts else None
            assert before is None or isinstance(before, LongTrace)
            trace: Trace = LongTrace(model, read.given, cuts, before, layered)
            again = trace.again  # type: ignore[attr-defined]
        elif cuts or source is not None:
            before = self[clean].trace
            edits = Alignment(before, source.trace).patches(patches) if source is not None else {}
            trace, again = with_cuts(before, cuts, edits)
        else:
            trace = dissect(model, read.given, edit=read.edit)
            again = len(trace)
        taken = 1000 * (time.perf_counter() - begun)
        of = (patches, source, entry.edition, self.answers)
        run = Run(key, entry, trace, cuts, taken, again, clean, read, *of)
        self._runs.put(key, run)
        return run

    def forget(self, key: str) -> None:
        if self._runs.pop(key) is None:
            raise UnknownRun("this run is not kept here; there is nothing to forget")


def _of_models(runs: Sequence[Run]) -> int:
    """Bytes of the checkpoints that runs are of; models of the list are loaded anyway."""
    models = {run.entry: run.trace.model for run in runs if "@" in run.entry.key}
    states = [model.state for model in models.values() if model is not None]
    return sum(int(array.nbytes) for state in states for array in state.values())


class Told:
    """Who is told of a run in the making; nobody, unless a subclass says otherwise."""

    def begun(self, key: str, clean: str, model: Model, ids: list[int]) -> None:
        """Its names are known, and what it will be of."""

    def layered(self, layer: int, state: Array) -> None:
        """The state after a layer has been computed."""


def _taken(patches: Sequence[str], source: Run | None) -> tuple[str, ...]:
    """What is patched, and from which run, as a run's key has it."""
    return () if source is None else tuple(f"{name} of {source.key}" for name in patches)


def _sorted(cuts: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(cuts)))


def key_of(digest: str, read: str, cuts: tuple[str, ...]) -> str:
    """What a run is called: by the model's digest, what it reads, and what is cut."""
    said = json.dumps([__version__, digest, read, cuts])
    return hashlib.sha256(said.encode()).hexdigest()[:24]

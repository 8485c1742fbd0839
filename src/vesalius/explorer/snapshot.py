"""What a file keeps of a run: the server's answers, by what is asked, as far as there is room.

A page in a file has no server. First comes what the page opens with, then each cut of one head or
network, other positions and words, values, and numbers unfolded, those near the outcome first.
"""

import base64
import json
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from vesalius import equations as eq
from vesalius.analyses.replaying import with_cuts
from vesalius.arguments import Progress
from vesalius.errors import UnknownStep, WrongKind, WrongLength
from vesalius.explorer import results
from vesalius.explorer.catalogue import Entry
from vesalius.explorer.classes import classed
from vesalius.explorer.reading import Asked as Said
from vesalius.explorer.runs import Run, Runs, key_of
from vesalius.families import family_of
from vesalius.figures import figure
from vesalius.views.shown import counted

WINDOW = 256
"""Rows and columns that the page asks for at once."""
UNFOLDED = 1000
"""Numbers whose terms are kept; each takes milliseconds to make."""
WORDS, FEWER = 12, 100
"""Words that can be asked about, and words of a list that is not the first."""
ODDS = ("Y_hat", "y_hat")
FAR = 3.0
"""How far the first cells of steps are from the outcome, counted in terms."""
NEAR = 16
"""Scores of a row that are unfolded."""
POSITIONS = 8
"""Tokens after which can be asked, from the last on."""
RESERVED = 4096
"""Bytes for the list of what was left out."""
Cell = tuple[int, ...]
Asked = tuple[int | None, int]
"""A position, or None for the one that the page opens with, and a word."""


Given = str | tuple[str, str] | list[int]
"""A text, two of them, or token ids."""


@dataclass
class Kept:
    """Lines of a key and its answer, deflated, within a number of bytes."""

    room: int
    left: list[str] = field(default_factory=list)
    """What there was no room for, in words."""
    keys: set[str] = field(default_factory=set)
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    _stream: Any = field(default_factory=lambda: zlib.compressobj(wbits=-15))

    def add(self, key: str, answer: Any) -> bool:
        """Keep an answer, if it is new and there is room for it; whether it is kept."""
        if key in self.keys:
            return True
        if not isinstance(answer, str):
            answer = json.dumps(results.told(answer), ensure_ascii=False, separators=(",", ":"))
        stream = self._stream.copy()
        data = stream.compress(f"{key}\t{answer}\n".encode()) + stream.flush(zlib.Z_SYNC_FLUSH)
        if self.size + len(data) > self.room:
            return False
        self._stream = stream
        self.keys.add(key)
        self.parts.append(data)
        self.size += len(data)
        return True

    def same(self, key: str, other: str) -> bool:
        """Keep that one question has another's answer."""
        return self.add(key, f"={other}")

    def whole(self) -> bytes:
        return b"".join([*self.parts, self._stream.copy().flush()])


def keep(entry: Entry, given: Given, room: int, progress: Progress) -> Kept:
    """The answers about one run, in ``room`` bytes at most."""
    runs = Runs({entry.key: entry})
    with entry.at_work() as model:
        family, tokenizer = family_of(model.config), model.tokenizer
    if family.reads != "text":
        raise WrongKind(
            f"a file keeps a run of a text so far, and {family.name} reads {family.reads}; "
            f"'vesalius explore {entry.key}' shows it"
        )
    said = _said(given)
    clean = runs.make(entry.key, said)
    kept = Kept(room - RESERVED)
    text, second = said.text or "", said.second or ""
    if said.ids is not None:
        spaced = " ".join(map(str, said.ids))
        text = spaced if tokenizer is None else tokenizer.decode(said.ids)
    if not _opening(kept, entry, clean, {"text": text, "second": second}):
        raise WrongLength(
            f"what the page opens with takes more than {room:,} bytes; give a shorter text"
        )
    asked = _asked(kept, clean)
    _cuts(kept, clean, asked, progress)
    _targets(kept, clean, asked)
    word = asked[0][1]
    values = _values(kept, clean, word)
    unfolded = _unfold(kept, clean, word, progress)
    changed = _changed(kept, clean, word, progress)
    kept.room += RESERVED
    cells = sum(step.value.size for step in clean.trace.steps)
    kept.left = [
        f"the terms of {counted(cells - unfolded, 'number')} of {cells:,}; those near the outcome "
        f"are here",
        *([f"values of {_listed(values)}"] if values else ()),
        *([f"{changed:,} heat maps and unfoldings of runs with a cut"] if changed else ()),
        "other texts, and two cuts at once",
    ]
    about: dict[str, Any] = {
        "model": entry.name.removeprefix("specimen:"),
        "key": entry.key,
        "left": kept.left,
    }
    about |= {"ids": given} if tokenizer is None else {"text": text}
    about |= {"second": second} if second else {}
    kept.add("about", about)
    return kept


def _said(given: Given) -> Said:
    """What a page would ask for."""
    if isinstance(given, str):
        return Said(text=given)
    if isinstance(given, tuple):
        return Said(text=given[0], second=given[1])
    return Said(ids=given)


def question(path: str, **asked: int | str | None) -> str:
    """A question as the page puts it, whatever the order of its parts."""
    said = "&".join(f"{name}={asked[name]}" for name in sorted(asked) if asked[name] is not None)
    return f"/api/{path}{'?' if said else ''}{said}"


def _opening(kept: Kept, entry: Entry, run: Run, texts: dict[str, str]) -> bool:
    """The model with what its page reads first, the equations, and the first screen."""
    answers = {
        "models": [entry.to_json()],
        f"models/{entry.key}": entry.described() | texts,
        "equations": {name: classed(one) for name, one in eq.REGISTRY.items()},
    }
    done = [kept.add(question(path), answer) for path, answer in answers.items()]
    done.append(_figures(kept, entry, run))
    done.append(kept.add("run ", _posted(run)))
    done.append(_summary(kept, run, None, None))
    if "H[0]" in run.trace:
        done.append(kept.add(question(f"runs/{run.key}/lens"), results.lens(run)))
    path = question(f"runs/{run.key}/vocabulary")
    every = results.vocabulary(run, "", 1 << 30, None)
    done.append(kept.add(path, every) or kept.add(path, results.vocabulary(run, "", FEWER, None)))
    return all(done)


def _figures(kept: Kept, entry: Entry, run: Run) -> bool:
    """The model's figure at every layer, for light and dark."""
    asked: dict[str, Any] = {"length": len(run.trace.ids)}
    done = []
    with entry.at_work() as model:
        for layer in _layers(run):
            for theme in ("light", "dark"):
                asked |= {"part": f"model[{layer}]", "theme": theme}
                drawn = figure(model, **asked, titled=False).to_json()
                done.append(kept.add(question(f"models/{entry.key}/figure", **asked), drawn))
    return all(done)


def _posted(run: Run, changed: Sequence[str] = ()) -> dict[str, Any]:
    made = {"id": run.key, "clean": run.clean, "milliseconds": run.milliseconds}
    return {**made, "changed": list(changed)}


def _summary(kept: Kept, run: Run, word: int | None, position: int | None) -> bool:
    """A summary; its steps, which all of a run have in common, are kept once."""
    found = results.summary(run, word, position)
    steps = kept.add(f"steps {run.key}", found.pop("steps"))
    path = f"runs/{run.key}"
    named = question(path, word=found["target"]["id"], position=position)
    done = kept.add(named, found)
    return (
        steps and done and (word is not None or kept.same(question(path, position=position), named))
    )


def _asked(kept: Kept, run: Run) -> list[Asked]:
    """What may be asked about: other words, and other positions."""
    first = results.target_of(run, None, None)
    row = first.cells[0][0][0]
    found: list[Asked] = [(None, row)]
    found += [(None, word["id"]) for word in results.vocabulary(run, "", WORDS, None)["words"]]
    by_token = results.target_of(run, None, 0).step  # of two texts not what the page opens with
    wide = run.trace[by_token].ndim > 1
    for position in range(len(run.trace.ids))[-POSITIONS:] if wide else ():
        found.append((position, results.target_of(run, None, position).cells[0][0][0]))
    return list(dict.fromkeys(found))


def _cuts(kept: Kept, clean: Run, asked: list[Asked], progress: Progress) -> None:
    """Each head and network cut once: what becomes of every word that may be asked about."""
    trace = clean.trace
    targets = [(one, results.target_of(clean, one[1], one[0])) for one in asked]
    effects: dict[Asked, dict[str, Any]] = {one: {} for one in asked}
    names = [name for layer in _layers(clean) for name in results.cuttable(clean, layer)]
    for done, (name, run) in enumerate(_each(clean, names), 1):
        changed = [step.name for step in run.trace.steps if step.value is not trace[step.name]]
        first, word = asked[0]
        if kept.add(f"run {name}", _posted(run, changed)):
            _summary(kept, run, word, first)
            path, own = f"runs/{run.key}", results.target_of(clean, word, first)
            kept.add(question(f"{path}/vocabulary"), results.vocabulary(run, "", FEWER, None))
            uncut = results.told_of(own, name, trace[own.step])
            for layer in _layers(clean):
                told = [uncut] if name in results.cuttable(clean, layer) else []
                kept.add(question(f"{path}/cuts", layer=layer, word=word), told)
        for one, target in targets:
            effects[one][name] = results.told_of(target, name, run.trace[target.step])
        progress("cuts", done, len(names))
    for (position, word), found in effects.items():
        for layer in _layers(clean) if found else ():
            told = [found[name] for name in results.cuttable(clean, layer)]
            path = f"runs/{clean.key}/cuts"
            kept.add(question(path, layer=layer, word=word, position=position), told)


def _layers(run: Run) -> range:
    return range(run.trace.graph.layers, 0, -1)


def _each(clean: Run, names: Sequence[str]) -> Iterator[tuple[str, Run]]:
    """One run after the other: all of them at once may not fit into memory."""
    entry, read = clean.entry, clean.what
    with entry.at_work() as model:
        digest = entry.digest(model)
    for name in names:
        begun = time.perf_counter()
        trace, again = with_cuts(clean.trace, [name])
        taken = 1000 * (time.perf_counter() - begun)
        key = key_of(digest, read.key, (name,))
        yield name, Run(key, entry, trace, (name,), taken, again, clean.key, read)


def _targets(kept: Kept, run: Run, asked: list[Asked]) -> None:
    """Other words and positions, and what every head adds to them by token."""
    heads = [step.name for step in run.trace.steps if step.symbol == "P" and "head" in step.place]
    for position, word in asked:
        _summary(kept, run, word, position)
        if position is not None:
            path = question(f"runs/{run.key}", position=position)
            kept.same(path, question(f"runs/{run.key}", word=word, position=position))
            few = results.vocabulary(run, "", FEWER, position)
            kept.add(question(f"runs/{run.key}/vocabulary", position=position), few)
        for name in heads if word == asked[0][1] or position is not None else ():
            shares = results.sources(run, name, word, position)
            where = question(f"runs/{run.key}/sources/{name}", word=word, position=position)
            kept.add(where, shares)


def _windows(value: Any) -> Iterator[tuple[int, int, Any]]:
    """The parts of a step that the page asks for, each with its first row and column."""
    flat = np.asarray(value, dtype="<f4")
    flat = flat.reshape(flat.shape[0], -1) if flat.ndim else flat.reshape(1, 1)
    for top in range(0, flat.shape[0], WINDOW):
        for left in range(0, flat.shape[1], WINDOW):
            yield top, left, flat[top : top + WINDOW, left : left + WINDOW]


def _values(kept: Kept, run: Run, word: int) -> list[str]:
    """The values of all steps, from the cursor's on and small ones first; what is left out."""
    steps = list(run.trace.steps)
    steps.sort(key=lambda step: step.value.size)
    left: dict[str, None] = {}
    for first in (True, False):
        for step in steps:
            for top, corner, part in _windows(step.value):
                here = (top, corner) == _window(run, step.name, word)
                if here is first and not _part(kept, run, step.name, top, corner, part):
                    left[step.name] = None
    return list(left)


def _window(run: Run, name: str, word: int) -> tuple[int, int]:
    """The first row and column of the part in which the cursor first stands."""
    top, left = (*beginning(run, name, word), 0)[:2]
    return top // WINDOW * WINDOW, left // WINDOW * WINDOW


def _part(kept: Kept, run: Run, name: str, top: int, left: int, part: Any) -> bool:
    key = f"values {run.key} {name} {top},{left}"
    return kept.add(key, base64.b64encode(part.tobytes()).decode())


def beginning(run: Run, name: str, word: int) -> Cell:
    """Where the cursor stands in a step at first: the page's own rule, where it opens."""
    step = run.trace.graph.step(name)
    value = np.asarray(step.value, dtype=np.float32)
    if not value.ndim:
        return (0,)
    position = results.place(run, None)
    rows, columns = results.axes(step, len(run.trace.ids))
    if rows == "vocabulary":
        return (word, position) if value.ndim > 1 else (word,)
    row = position if rows else 0
    top = row // WINDOW * WINDOW
    part = np.abs(value.reshape(len(value), -1)[top : top + WINDOW, :WINDOW])
    if rows:
        r, c = row, int(part[row - top].argmax())
    elif columns:
        c = min(position, part.shape[1] - 1)
        r = int(part[:, c].argmax())
    else:
        r, c = map(int, np.unravel_index(part.argmax(), part.shape))
    return (r, c) if value.ndim > 1 else (r,)


def _unfold(kept: Kept, run: Run, word: int, progress: Progress) -> int:
    """Numbers from the outcome and from each step's first cell downwards; how many are kept.

    A best-first search: an operand is one further away, and one more for each larger term.
    """
    target = results.target_of(run, word, None)
    odds = ("y_hat_C",) if target.step == "z_C" else ODDS
    starts = [(name, target.cells[0][0], 0.0) for name in (*odds, target.step) if name in run.trace]
    starts += [(name, beginning(run, name, word), FAR) for name in run.trace]
    for step in run.trace.steps:
        if step.symbol == "mu":
            row = beginning(run, step.name, word)[0]
            starts += [
                (step.name, (row, key), 2 * FAR) for key in range(step.value.shape[1])[:NEAR]
            ]
    waiting = [(far, number, name, at) for number, (name, at, far) in enumerate(starts)]
    heapify(waiting)
    numbers, seen = count(len(waiting)), set[tuple[str, Cell]]()
    while waiting and len(seen) < UNFOLDED:
        far, _, name, at = heappop(waiting)
        if (name, at) in seen:
            continue
        found = _unfolded(kept, run, name, at)
        if found is None:
            break
        seen.add((name, at))
        for rank, term in enumerate(found.get("terms", ())):
            for side, one in enumerate(f for f in term["factors"] if f["kind"] == "step"):
                reach = far + 1 + rank + side / 2
                heappush(waiting, (reach, next(numbers), one["name"], tuple(one["at"])))
        progress("unfolding", len(seen), UNFOLDED)
    progress("unfolding", UNFOLDED, UNFOLDED)
    return len(seen)


def _unfolded(kept: Kept, run: Run, name: str, at: Cell) -> dict[str, Any] | None:
    """A number's terms; None where there is no room for them."""
    try:
        found = results.unfolded(run, name, at)
    except UnknownStep:  # whose rule needs a step that was not recorded
        return {}
    path = question(f"runs/{run.key}/unfold/{name}/{','.join(map(str, at))}")
    return found if kept.add(path, found) else None


def _changed(kept: Kept, clean: Run, word: int, progress: Progress) -> int:
    """What a cut changes, where the cursor first stands; how much of it is left out."""
    names = [key.removeprefix("run ") for key in sorted(kept.keys) if key.startswith("run ")]
    missing = 0
    for done, (_, run) in enumerate(_each(clean, [name for name in names if name]), 1):
        for step in run.trace.steps:
            if step.value is clean.trace[step.name]:
                continue
            here = _window(run, step.name, word)
            part = next(p for top, left, p in _windows(step.value) if (top, left) == here)
            missing += not _part(kept, run, step.name, *here, part)
            at = beginning(run, step.name, word)
            missing += _unfolded(kept, run, step.name, at) is None
        progress("values with a cut", done, len(names) - 1)
    return missing


def _listed(names: list[str]) -> str:
    few = ", ".join(names[:6])
    return few if len(names) <= 6 else f"{few} and {counted(len(names) - 6, 'more step')}"

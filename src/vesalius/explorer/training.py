"""Training runs below a folder: their metrics while they train, and their checkpoints as models.

A page names a run by its id and a checkpoint by ``RUN@STEP``; no path comes over HTTP. The last
model of a finished run is ``RUN@model``.
"""

import json
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from vesalius.checkpoints.plain import read_json
from vesalius.errors import UnknownModel, VesaliusError, nearest
from vesalius.explorer.catalogue import Entry
from vesalius.training.callbacks import METRICS
from vesalius.training.checkpointing import CHECKPOINTS, POSITION, Checkpoints

DEEP, MOST = 3, 500
"""Folders below the one that was given, and runs in all."""
LOADED = 4
"""Checkpoints whose models are kept."""
PORTION = 1 << 23
"""Bytes of metrics that one answer tells of."""
TAIL = 1 << 16
"""Bytes at the end of the metrics in which the last losses are looked for."""
QUIET = 300
"""Seconds without a line after which a run is no longer called live."""
FINAL = "model"


class UnknownTraining(VesaliusError):
    """A training run that is not below the folder."""


class Trainings:
    """The runs below a folder by their ids; seen anew whenever they are listed."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._runs: dict[str, Path] = {}
        self._entries: OrderedDict[tuple[str, int], Entry] = OrderedDict()
        self._lock = Lock()
        self.look()

    def look(self) -> dict[str, Path]:
        """Find the runs that there are now."""
        found: dict[str, Path] = {}
        for run in sorted(_runs_below(self.folder, DEEP)) if self.folder else ():
            assert self.folder is not None
            inner = run.relative_to(self.folder).as_posix()
            name = self.folder.resolve().name if inner == "." else inner
            key = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
            while key in found:
                key += "-2"
            found[key] = run
            if len(found) == MOST:
                break
        self._runs = found
        return found

    def __getitem__(self, key: str) -> Path:
        if key not in self._runs and key not in self.look():
            raise UnknownTraining(f"there is no training run {key!r} here; {_known(self._runs)}")
        return self._runs[key]

    def entry(self, key: str) -> Entry:
        """A checkpoint as a model of the catalogue."""
        name, _, which = key.rpartition("@")
        run = self[name]
        folder = run / FINAL if which == FINAL else run / CHECKPOINTS / f"step-{which:0>8}"
        known = [str(step) for step in steps(run)] + ([FINAL] if _finished(run) else [])
        written = _written(folder / "config.json") if which in known else None
        if written is None:
            known = [one for one in known if one != which]
            raise UnknownModel(
                f"the run {name} has no checkpoint {which!r} any more; {_known(known)}"
            )
        about = (key, written)
        with self._lock:
            if about not in self._entries:
                title = f"{name}, {'finished' if which == FINAL else f'step {int(which):,}'}"
                self._entries[about] = Entry(key, str(folder.resolve()), title)
            self._entries.move_to_end(about)
            while len(self._entries) > LOADED:
                self._entries.popitem(last=False)
            return self._entries[about]


def _known(names: Any) -> str:
    return nearest("", names) if names else "there is none yet"


def _runs_below(folder: Path, deep: int) -> Iterator[Path]:
    """Folders that hold metrics or checkpoints; what cannot be read is passed over."""
    if (folder / METRICS).is_file() or (folder / CHECKPOINTS).is_dir():
        yield folder
        return
    with suppress(OSError):
        for inner in folder.iterdir() if deep else ():
            if inner.is_dir() and not inner.name.startswith("."):
                yield from _runs_below(inner, deep - 1)


def steps(run: Path) -> list[int]:
    """The steps that there are checkpoints of; none where all are removed while one looks."""
    with suppress(FileNotFoundError):
        return Checkpoints(run, keep=1).steps()
    return []


def _written(file: Path) -> int | None:
    """When a file was written; None where there is none any more."""
    with suppress(FileNotFoundError):
        return file.stat().st_mtime_ns
    return None


def _finished(run: Path) -> bool:
    return (run / FINAL / "config.json").is_file()


# What is told ----------------------------------------------------------------


def described(key: str, run: Path) -> dict[str, Any]:
    """A run in short: its recipe, how far it is, its last losses, and its checkpoints."""
    kept = steps(run)
    recipe = _recipe(run, kept)
    last = _last(run)
    live = (run / ".lock").exists() and time.time() - _changed(run) < QUIET
    return {
        "id": key,
        "title": recipe.get("title") or "",
        "family": recipe.get("family") or "",
        "steps": recipe.get("training", {}).get("steps"),
        "step": max([*kept[-1:], *(line["step"] for line in last.values())], default=0),
        "loss": last.get("train", {}).get("loss"),
        "valid": last.get("valid", {}).get("loss"),
        "live": live,
        "checkpoints": kept,
        "finished": _finished(run),
    }


def _changed(run: Path) -> float:
    with suppress(OSError):
        return (run / METRICS).stat().st_mtime
    return 0.0


def _recipe(run: Path, kept: list[int]) -> dict[str, Any]:
    """What the newest checkpoint says of its recipe; one may be removed while it is read."""
    for step in reversed(kept):
        with suppress(VesaliusError, OSError):
            found = read_json(run / CHECKPOINTS / f"step-{step:08d}" / POSITION).get("recipe")
            return found if isinstance(found, dict) else {}
    return {}


def _last(run: Path) -> dict[str, dict[str, Any]]:
    """The last line of each kind."""
    with suppress(OSError), (run / METRICS).open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(max(0, size - TAIL))
        return {line["kind"]: line for line in _lines(opened.read())}
    return {}


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The whole lines among some bytes; NaN, which JSON has not, is no number."""
    for text in data.split(b"\n"):
        with suppress(ValueError):
            line = json.loads(text, parse_constant=lambda _: None)
            known = isinstance(line, dict) and isinstance(line.get("kind"), str)
            if known and isinstance(line.get("step"), int):
                yield line


def metrics(run: Path, after: int = 0, tag: str = "") -> dict[str, Any]:
    """The lines from a byte on, by column; a file that was written anew is told from its start.

    A run that goes on from a checkpoint writes a new file, whose tag is another.
    """
    file = run / METRICS
    data = b""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        about = Path(file).stat()
        current = f"{about.st_ino}"
        after = after if tag == current and after <= about.st_size else 0
        opened.seek(after)
        data = opened.read(PORTION)
        data = data[: data.rfind(b"\n") + 1]  # half a line is read again when it is whole
        tag = current
    found: dict[str, list[dict[str, Any]]] = {"train": [], "valid": [], "sample": []}
    for line in _lines(data):
        if line["kind"] in found:
            found[line["kind"]].append(line)
    return {
        "from": after,
        "next": after + len(data),
        "tag": tag,
        "more": len(data) > PORTION // 2,
        "train": _columns(found["train"]),
        "valid": _columns(found["valid"]),
        "samples": [{"step": one["step"], "text": one.get("text", "")} for one in found["sample"]],
    }


def _columns(lines: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Numbers by name, with None where a line has none."""
    names = {name: None for line in lines for name in line if name != "kind"}
    return {name: [line.get(name) for line in lines] for name in names}


def routes(app: FastAPI, trainings: Trainings) -> None:
    """``GET /api/training``, and below it each run and its metrics."""

    @app.get("/api/training")
    def all_runs() -> Any:
        found = trainings.look()
        listed = [described(key, run) for key, run in found.items()]
        return JSONResponse({"here": trainings.folder is not None, "runs": listed})

    @app.get("/api/training/{key}")
    def one(key: str) -> Any:
        return JSONResponse(described(key, trainings[key]))

    @app.get("/api/training/{key}/metrics")
    def told_metrics(key: str, after: int = 0, tag: str = "") -> Any:
        return JSONResponse(metrics(trainings[key], max(0, after), tag))

"""Cases of one target in a process of its own, one after the other, until the time is over.

Prints a line of JSON for each new finding and one at the end. A case that takes too long or breaks
the process ends it; which one it was stands in the file ``now``.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

from fuzz import models, texts, watching
from fuzz.commands import Commands
from fuzz.routes import Routes
from fuzz.targets import TARGETS, Target

ALL: dict[str, type[Target]] = {
    **TARGETS,
    **models.TARGETS,
    **texts.TARGETS,
    "commands": Commands,
    "routes": Routes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=ALL)
    parser.add_argument("folder", type=Path, help="Where seeds, cases and findings are kept.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=2**62)
    parser.add_argument("--seconds", type=float, default=2**31)
    arguments = parser.parse_args()
    watching.without_network()
    sys.dont_write_bytecode = True  # what a case imports late would be written beside its source
    search = Search(arguments.target, arguments.folder, arguments.seed)
    number, end = arguments.first, time.monotonic() + arguments.seconds
    while True:
        search.one(number)
        number += 1
        if number >= arguments.first + arguments.cases or time.monotonic() >= end:
            break
    search.tell({"next": number, **search.summary()})


class Search:
    """One target's seeds, and what was seen of it."""

    def __init__(self, target: str, folder: Path, seed: int) -> None:
        self.name, self.folder, self.seed = target, folder, seed
        seeds = Path(tempfile.mkdtemp(dir=folder, prefix="seeds-"))
        self.target = ALL[target](seeds)
        self.place, self.now = folder / "case", (folder / "now").open("w")
        self.watch = watching.Watch(folder)
        self.cases = self.answered = 0
        self.known: set[str] = set()
        for number in range(-20, 0):  # import what is imported late, outside all bounds
            self._try(number)
        self.answered = 0
        self.before = watching.limit_memory()
        self.began = time.monotonic()
        self.out = (folder / "out").open("a")

    def one(self, number: int) -> None:
        self.now.seek(0)
        self.now.write(f"{number:020}")
        self.now.flush()
        watching.limit_time()
        self.cases += 1
        kind, problem = self._try(number)
        if (grown := watching.most_memory() - self.before) > watching.MEMORY:
            kind, problem = "memory", f"memory grew by {grown >> 20} MB"
            self.before = watching.most_memory()
        if problem and kind not in self.known:
            self.known.add(kind)
            self.tell({"case": number, "problem": problem})

    def _try(self, number: int) -> tuple[str, str]:
        """What kind of problem a case has, and the problem; or nothing."""
        random = Random(f"{self.name} {self.seed} {number}")
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        case = self.target.case(random, self.place)
        try:
            self.answered += self.watch.run(case)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _kind(error), "".join(map(_short, traceback.format_exception(error)[-12:]))
        return "", ""

    def summary(self) -> dict[str, float]:
        grown = watching.most_memory() - self.before
        about = {"cases": self.cases, "answered": self.answered, "megabytes": grown / 2**20}
        return {**about, "seconds": time.monotonic() - self.began}

    def tell(self, what: dict[str, object]) -> None:
        self.out.write(json.dumps(what) + "\n")
        self.out.flush()
        if "case" in what:
            kept = self.folder / "found" / f"{self.name}-{self.seed}-{what['case']}"
            shutil.copytree(self.place, kept, dirs_exist_ok=True)


def _kind(error: BaseException) -> str:
    """Findings from the same place of the package are one."""
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for raised in (error, error.__cause__)
        if raised is not None
        for frame in traceback.extract_tb(raised.__traceback__)
        if "vesalius" in Path(frame.filename).parts
    ]
    said = str(error)[:30] if isinstance(error, watching.Finding) else ""
    return f"{type(error).__name__} {said} {frames[-1:]}"


def _short(text: str) -> str:
    return text if len(text) < 800 else f"{text[:500]} … {text[-300:]}"


if __name__ == "__main__":
    main()

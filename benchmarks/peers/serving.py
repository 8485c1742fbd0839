"""How a contestant is asked and answers: JSON lines in, JSON lines out, one model in one process.

It first says which versions it has, or what is missing. What it measures is the generation alone.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Generate = Callable[[Any, int], Any]
"""From a prompt, or several, and a number of tokens to as many new tokens, chosen greedily."""


def serve(prepare: Callable[[Path, str, int], Generate], *packages: str) -> None:
    """Prepare a model once, from a folder in Hugging Face's layout, and generate when told to."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("precision")
    arguments.add_argument("threads", type=int)
    said = arguments.parse_args()
    if missing := [package for package in packages if not _version(package)]:
        print(json.dumps({"missing": missing}), file=answers)
        return
    generate = prepare(said.folder, said.precision, said.threads)
    versions = {package: _version(package) for package in packages}
    print(json.dumps({"versions": versions}), file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        new = asked["new"] if asked["do"] == "generate" else 1
        start = time.perf_counter()
        ids = generate(asked["prompt"], new)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "ids": ids}), file=answers)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

"""Which part of one file was held out: told by the file's hash, a share and a seed.

A model keeps the three, so that whoever evaluates it on the same file gets the part that it has
not seen. Members of a group, such as the questions on an article, are on one side together.
"""

import hashlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vesalius.data.batches import generator
from vesalius.errors import ImpossibleSetting


def split_of(file: Path, share: float, seed: int) -> dict[str, Any]:
    """How a file is split, as a model keeps it."""
    if not share:
        raise ImpossibleSetting("[data] split must be above 0, or valid must name another file")
    return {"sha256": _digest(file), "split": share, "seed": seed}


def same(file: Path, kept: Mapping[str, Any]) -> bool:
    """Whether it is the file that was split so."""
    return bool(kept) and kept.get("sha256") == _digest(file)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def rows(groups: Sequence[Hashable], kept: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Which examples to train on, and which are held out; neither part is empty.

    Groups are drawn until the held-out part has its share of the examples.
    """
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        raise ImpossibleSetting(
            "there is one group of examples, which cannot be on both sides; name others to "
            "validate on as valid"
        )
    sizes = Counter(groups)
    wanted = len(groups) * float(kept["split"])
    held, taken = set[Hashable](), 0
    for place in generator(int(kept["seed"])).permutation(len(names))[: len(names) - 1]:
        name = names[int(place)]
        if held and taken + sizes[name] / 2 > wanted:
            break
        held.add(name)
        taken += sizes[name]
    train = [row for row, name in enumerate(groups) if name not in held]
    return train, [row for row, name in enumerate(groups) if name in held]

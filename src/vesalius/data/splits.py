"""Which part of some files was held out: told by their hash, a share and a seed.

A model keeps the three, so that whoever evaluates it on the same files gets the part that it has
not seen. Members of a group, such as the questions on an article, are on one side together.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vesalius.data.batches import generator
from vesalius.errors import ImpossibleSetting

SPLITTING = 3  # end of the random key of splits by class
SEEN = "all of it, which training has seen"
"""What an evaluation says of files that were trained on as a whole."""

Files = Path | Sequence[Path]


def split_of(files: Files, share: float, seed: int) -> dict[str, Any]:
    """How files are split, as a model keeps it."""
    if not share:
        raise ImpossibleSetting("[data] split must be above 0, or valid must name another file")
    return {"sha256": _digest(files), "split": share, "seed": seed}


def all_of(files: Files) -> dict[str, Any]:
    """That all of some files was trained on, as a model keeps it."""
    return {"sha256": _digest(files), "split": 0.0}


def same(files: Files, kept: Mapping[str, Any] | None) -> bool:
    """Whether these are the files that were trained on."""
    return kept is not None and bool(kept) and kept.get("sha256") == _digest(files)


def whole(kept: Mapping[str, Any]) -> bool:
    """Whether nothing of the files was held out."""
    return not kept.get("split")


def _digest(files: Files) -> str:
    """Of one file its bytes; of several also their places beside each other."""
    if isinstance(files, Path):
        files = [files]
    contents = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    if len(contents) == 1:
        return contents[0]
    folder = os.path.commonpath(files)
    places = [file.relative_to(folder).as_posix() for file in files]
    return hashlib.sha256(repr([*zip(places, contents, strict=True)]).encode()).hexdigest()


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


def by_class(
    classes: Sequence[Sequence[int]],
    share: float,
    seed: int,
    groups: Sequence[Hashable] | None = None,
) -> tuple[list[int], list[int]]:
    """Which examples to train on, and which are held out: each class in its share.

    Examples may have several classes; those of one group stay together. Nothing is held out where
    classes are too small for it.
    """
    members: dict[Hashable, list[int]] = {}
    for row in range(len(classes)):
        members.setdefault(row if groups is None else groups[row], []).append(row)
    together = list(members.values())
    total = Counter(label for given in classes for label in given)
    taken: Counter[int] = Counter()
    held_out: list[int] = []
    for place in generator(seed, SPLITTING).permutation(len(together)):
        added = Counter(label for row in together[place] for label in classes[row])
        # A group is held out if that brings its classes nearer to their shares of the examples.
        gain = sum(
            abs(share * total[label] - taken[label])
            - abs(share * total[label] - taken[label] - count)
            for label, count in added.items()
        )
        if gain > 0 and all(taken[label] + added[label] < total[label] for label in added):
            taken += added
            held_out += together[place]
    held = set(held_out)
    return [row for row in range(len(classes)) if row not in held], sorted(held_out)


def apart(classes: Sequence[int], share: float, seed: int) -> tuple[list[int], list[int]]:
    """As ``by_class``, of examples with one class each; where those are small, by chance alone.

    Neither part is empty.
    """
    count = len(classes)
    if not share or count < 2:
        raise ImpossibleSetting(
            f"there are {count} examples and [data] split is {share}; "
            f"name others to validate on as valid, or set split above 0"
        )
    train, held_out = by_class([(number,) for number in classes], share, seed)
    if held_out:
        return train, held_out
    order = generator(seed, SPLITTING).permutation(count)
    cut = min(count - 1, max(1, round(count * (1 - share))))
    return sorted(order[:cut].tolist()), sorted(order[cut:].tolist())

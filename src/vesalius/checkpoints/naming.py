"""What a name means: a specimen, a folder, a published size, a family, or a Hugging Face model.

All that takes a model asks ``find``, so that a name means the same everywhere. A ``Path``, or what
has a separator in it, is a folder; a bare name that could be two things is refused, with a way to
say each: ``./gpt``, ``specimen:gpt``, ``size:gpt2``, ``family:lstm``, ``hub:gpt2``.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vesalius import specimens
from vesalius.errors import AmbiguousName, NotACheckpoint, UnknownModel, WrongKind
from vesalius.families import ALIASES, FAMILIES, HUB_NAMES, SIZES
from vesalius.families import names as described

HUB_NAME = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
MEANINGS = {
    "specimen": "a specimen",
    "size": "a published size",
    "family": "a family",
    "hub": "a Hugging Face model",
}
"""What may stand before a colon, and what it says of the name behind it."""


@dataclass(frozen=True)
class Found:
    """What a name means."""

    kind: str
    """folder, specimen, size, family or hub."""
    name: str
    folder: Path | None = None
    """Of folders and specimens."""


def names() -> list[str]:
    """Every name that means a model here, without asking a network or looking for folders."""
    return sorted({*specimens.specimens(), *described()})


def find(name: object, weights: bool = True) -> Found:
    """What a name means.

    Some names are a specimen's and a family's, such as lstm. With ``weights`` the specimen is
    meant; without, as in counting, the family.
    """
    if isinstance(name, os.PathLike):
        if not is_folder(name):
            _require_no_file(name)
            raise UnknownModel(f"there is no folder {str(name)!r}; expected one with config.json")
        return _in_folder(name)
    if not isinstance(name, str):
        raise WrongKind(
            f"expected a model, its name, or its folder, got {name!r} of type {type(name).__name__}"
        )
    kind, colon, rest = name.partition(":")
    if colon and kind in MEANINGS:
        return _said(kind, rest)
    known = _known(name, weights)
    if not is_folder(name):
        return known or _elsewhere(name)
    separated = any(separator in name for separator in (os.sep, os.altsep) if separator)
    if known is not None and not separated:
        raise AmbiguousName(
            f"{name!r} is {MEANINGS[known.kind]} and a folder here; "
            f"say {known.kind}:{name} or .{os.sep}{name}"
        )
    return _in_folder(name)


def _in_folder(name: str | os.PathLike[str]) -> Found:
    """The model of a folder, or the one that the run in it came to."""
    folder = Path(name)
    run = not (folder / "config.json").exists() and (folder / "model" / "config.json").exists()
    return Found("folder", str(name), folder / "model" if run else folder)


def _known(name: str, weights: bool) -> Found | None:
    """What is meant by a name that is in one of the tables."""
    size = SIZES.get(ALIASES.get(name, name))
    specimen = name in specimens.specimens()
    if not weights and size is not None:
        return Found("size", ALIASES.get(name, name))
    if specimen and (weights or name not in FAMILIES):
        return Found("specimen", name, specimens.FOLDER / name)
    if name in FAMILIES and size is None:
        return Found("family", name)
    if size is None:
        return None
    # Whoever names an organisation is given theirs; without weights anywhere it stays a size.
    return Found("hub" if name in HUB_NAMES or "/" in name else "size", name)


def known_names() -> dict[str, list[str]]:
    """The names that may stand behind a colon, by what stands before it."""
    return {"specimen": specimens.specimens(), "size": [*SIZES, *ALIASES], "family": [*FAMILIES]}


def _said(kind: str, name: str) -> Found:
    """A name with its kind before it."""
    if kind == "hub":
        if not HUB_NAME.fullmatch(name):
            raise UnknownModel(f"{name!r} cannot be a Hugging Face name; expected one as in gpt2")
        return Found("hub", name)
    known = known_names()[kind]
    if name not in known:
        close = near(name, known) or known[:8]
        raise UnknownModel(f"{name!r} is not {MEANINGS[kind]}; did you mean {', '.join(close)}?")
    folder = specimens.FOLDER / name if kind == "specimen" else None
    return Found(kind, ALIASES.get(name, name), folder)


def _elsewhere(name: str) -> Found:
    """A name that is nothing here: of a Hugging Face model, unless it is a slip of the pen."""
    _require_no_file(name)
    if not HUB_NAME.fullmatch(name):
        raise UnknownModel(
            f"there is no folder {name!r}, and it cannot be a Hugging Face name; "
            f"expected a folder with config.json, or a name such as gpt2"
        )
    if close := _meant(name):
        raise UnknownModel(
            f"unknown model {name!r}; did you mean {', '.join(close)}? "
            f"To ask Hugging Face for it, say hub:{name}"
        )
    return Found("hub", name)


def _meant(name: str) -> list[str]:
    """Known names that differ from this by a slip, or begin with it.

    Names with an organisation whose digits alone differ are siblings, not slips.
    """
    if "/" not in name:
        begun = [known for known in names() if known.startswith(f"{name}-")]
        return near(name, [*names(), *(a for a in ALIASES if "/" not in a)]) or begun[:3]
    close = near(name, (alias for alias in ALIASES if "/" in alias))
    return [alias for alias in close if re.sub(r"\d", "", alias) != re.sub(r"\d", "", name)]


def near(name: str, known: Iterable[str]) -> list[str]:
    """The names within a slip or two of this one, nearest first, three at most."""
    allowed = 1 if len(name) < 8 else 2
    far = {other: slips(name.lower(), other.lower()) for other in known}
    return sorted((o for o, d in far.items() if d <= allowed), key=lambda o: (far[o], o))[:3]


def slips(one: str, other: str) -> int:
    """Letters to insert, drop, replace, or exchange with their neighbour (Damerau's distance)."""
    before, row = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and (a, one[i - 2]) == (other[j - 2], b):
                best = min(best, older[j - 2] + 1)
            row.append(best)
    return row[-1]


def is_folder(name: str | os.PathLike[str]) -> bool:
    """Whether there is a folder of this name; the empty name is none."""
    return os.path.isdir(name)


def _require_no_file(name: str | os.PathLike[str]) -> None:
    if os.path.isfile(name) or str(name).endswith((".safetensors", ".bin", ".pt", ".json")):
        raise NotACheckpoint(
            f"{str(name)!r} names a file; expected a model's folder. Of a file that it can read, "
            f"vesalius convert FILE NEW_FOLDER makes one"
        )

"""Entities as IOB2 writes them in tags: B- begins one, I- goes on with one of its kind, O is none.

Read strictly: an I- without its beginning is no entity. An entity is found where its kind, its
first and its last word are right.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Words from start to end, the end not among them."""

    kind: str
    start: int
    end: int


def is_iob2(names: Iterable[str]) -> bool:
    """Whether tags are IOB2's: O, and B- or I- before a kind."""
    others = [name for name in names if name != "O"]
    begun = any(name.startswith("B-") for name in others)
    return begun and all(name.startswith(("B-", "I-")) for name in others)


def entities(tags: Sequence[str]) -> list[Span]:
    """The entities of a sentence, in their order."""
    found: list[Span] = []
    for at, tag in enumerate(tags):
        mark, _, kind = tag.partition("-")
        if mark == "B":
            found.append(Span(kind, at, at + 1))
        elif mark == "I" and found and found[-1].end == at and found[-1].kind == kind:
            found[-1] = found[-1]._replace(end=at + 1)
    return found


def entity_scores(
    predicted: Iterable[Sequence[str]], truth: Iterable[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 over all entities of all sentences; 0 where there are none."""
    given = wanted = shared = 0
    for ours, true in zip(predicted, truth, strict=True):
        found, expected = set(entities(ours)), set(entities(true))
        given, wanted, shared = (
            given + len(found),
            wanted + len(expected),
            shared + len(found & expected),
        )
    return {
        "precision": shared / max(1, given),
        "recall": shared / max(1, wanted),
        "f1": 2 * shared / max(1, given + wanted),
    }

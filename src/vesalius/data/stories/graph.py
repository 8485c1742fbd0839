"""Rules as a graph: from each place to the next by a word or by a slot.

Alternatives that begin alike are drawn together until they differ, so that every word is a step.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from vesalius.data.stories.notation import END, Call, Choice, Phrase, Slot, Word


class Arc(NamedTuple):
    """From one position to another, by a word or by whatever a slot prints."""

    probability: float
    label: Word | Slot
    target: int


def graph(rules: Mapping[str, Phrase]) -> list[list[Arc]]:
    """The arcs that leave each position; the first is where documents begin, and where `END` leads.

    A position is what may still come: phrases, each with its probability given the words so far.
    Weights are fractions, so that equal positions are found to be equal.
    """
    whole: Phrase = (Call(next(iter(rules))), Word(END, END))
    start, over = _certain(whole), _certain(())
    numbers = {start: 0, over: 0}
    pending, positions = [start], []
    for position in pending:
        following: dict[Word | Slot, dict[Phrase, Fraction]] = {}
        for phrase, share in position:
            for weight, label, rest in _heads(rules, phrase, share):
                rests = following.setdefault(label, {})
                rests[rest] = rests.get(rest, Fraction(0)) + weight
        arcs = []
        for label in sorted(following, key=repr):  # a set has no order that lasts
            rests = following[label]
            total = sum(rests.values())
            target = frozenset((rest, weight / total) for rest, weight in rests.items())
            if target not in numbers:
                numbers[target] = len(pending)
                pending.append(target)
            arcs.append(Arc(float(total), label, numbers[target]))
        positions.append(arcs)
    return positions


def _certain(phrase: Phrase) -> frozenset[tuple[Phrase, Fraction]]:
    return frozenset({(phrase, Fraction(1))})


def _heads(
    rules: Mapping[str, Phrase], phrase: Phrase, weight: Fraction
) -> Iterator[tuple[Fraction, Word | Slot, Phrase]]:
    """The words and slots that a phrase can begin with, each with its weight and what is left."""
    first, rest = phrase[0], phrase[1:]
    match first:
        case Call(rule):
            yield from _heads(rules, rules[rule] + rest, weight)
        case Choice(options):
            for share, option in options:
                yield from _heads(rules, option + rest, weight * share)
        case Word() | Slot():
            yield weight, first, rest

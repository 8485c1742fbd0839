"""A dictionary as a tagger: the most frequent tag of a word; of an unknown word, of its ending.

What a network has to beat at parts of speech. It sees a word at a time, and no context.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Share
from vesalius.tasks.tagging.data import Tagged
from vesalius.tasks.tagging.entities import entity_scores, is_iob2

LONGEST = 5
"""Letters of an ending."""
RARE = 10
"""Words that occur so often at most tell what unknown words are like: frequent ones do not."""


class MostFrequentTag:
    """Learnt from sentences by counting."""

    def __init__(self, train: Tagged) -> None:
        words: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in train.sentences:
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                words[word][tag] += 1
        lowered: dict[str, Counter[str]] = defaultdict(Counter)
        endings: dict[str, Counter[str]] = defaultdict(Counter)
        for word, tags in words.items():
            lowered[word.lower()] += tags
            if tags.total() <= RARE:
                for ending in _endings(word):
                    endings[ending] += tags
        self.words, self.lowered, self.endings = map(_commonest, (words, lowered, endings))

    def tag(self, words: Sequence[str]) -> list[str]:
        return [self._tag(word) for word in words]

    def _tag(self, word: str) -> str:
        """By the word as it is, by its lower case, or by its longest known ending."""
        known = self.words.get(word) or self.lowered.get(word.lower())
        return known or next(self.endings[e] for e in _endings(word) if e in self.endings)

    def scores(self, part: Tagged) -> dict[str, float]:
        """Accuracy over words, and of IOB2 the entities that are found."""
        found = [self.tag(sentence.words) for sentence in part.sentences]
        true = [sentence.tags for sentence in part.sentences]
        pairs = [p for a, b in zip(found, true, strict=True) for p in zip(a, b, strict=True)]
        right = sum(a == b for a, b in pairs) / max(1, len(pairs))
        means: dict[str, float] = {"accuracy": Share(right)}
        if not is_iob2(set(self.words.values())):
            return means
        return means | {f"entity_{name}": v for name, v in entity_scores(found, true).items()}


def by_dictionary(training: Tagged, part: Tagged) -> list[Baseline]:
    """The most frequent tag, counted in some sentences and measured on others."""
    words = sum(len(sentence.words) for sentence in training.sentences)
    about = f"the most frequent tag of a word or of its ending, counted in {words:,} words"
    return [Baseline("dictionary", about, MostFrequentTag(training).scores(part))]


def _endings(word: str) -> Iterable[str]:
    """The last letters, the longest ending first, each with what kind of word it ends."""
    kind = "0" if any(c.isdigit() for c in word) else "A" if word[:1].isupper() else "a"
    if not any(c.isalnum() for c in word):
        kind = "."
    for length in range(min(LONGEST, len(word)), -1, -1):
        yield f"{kind}{word[len(word) - length :].lower()}"
    yield ""


def _commonest(counts: dict[str, Counter[str]]) -> dict[str, str]:
    """Of equally frequent tags the first in the alphabet."""
    return {key: min(tags, key=lambda tag: (-tags[tag], tag)) for key, tags in counts.items()}

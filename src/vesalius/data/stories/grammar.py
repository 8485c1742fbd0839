"""Grammars of documents with exact probabilities of the next word and an exact entropy.

The state is a function of the words so far: a position in the rules, and the rows of each table
that no word has ruled out yet. Only stories are sampled; everything said about them is summed.
"""

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.data.stories.graph import graph
from vesalius.data.stories.notation import END, Slot, Word, read_rules, read_table, read_words
from vesalius.errors import ImpossibleContext, UnusableGrammar
from vesalius.machine.properties import cached_property

STOP = "."
"""The word that ends a sentence."""


class Token(NamedTuple):
    """A word and its part of speech."""

    word: str
    tag: str


Sentence: TypeAlias = list[Token]
Document: TypeAlias = list[Sentence]
Rows: TypeAlias = tuple[int, ...]


class State(NamedTuple):
    """All that matters of the words so far."""

    position: int
    """Where in the rules."""

    rows: tuple[Rows, ...]
    """The rows still possible, for each variable; one row where the words have said which."""


class Option(NamedTuple):
    """A word that can come next."""

    probability: float
    tag: str
    state: State
    """The state after it."""


class Measure(NamedTuple):
    """What is summed exactly over all documents of a grammar."""

    nats: float
    """The entropy of a document, its end included."""

    words: float
    """The expected number of words of a document: punctuation counts, and so does the end."""

    longest: int
    """The largest number of words, counted likewise."""

    states: int
    """The states that were summed over; states that differ by names alone count as one."""

    @property
    def entropy(self) -> float:
        """Nats per word of the endless stream of documents: no model's loss is lower."""
        return self.nats / self.words

    @property
    def perplexity(self) -> float:
        """exp(entropy): as many equally likely words would be as hard to guess."""
        return math.exp(self.entropy)


class Grammar:
    """Weighted rules over tables, and the random documents that they describe.

    A table is of things that belong together, such as a name and its pronouns. One of its rows
    holds throughout a document, or throughout a sentence where the variable is ``passing``. Which
    one is not said beforehand: a slot prints one column of it, and what is printed rules the other
    rows out. Alternatives may begin alike, and are told apart where they differ; but no word may
    come from two different slots, or from a slot and a rule, at the same place.
    """

    def __init__(
        self,
        rules: str,
        words: Mapping[str, str],
        tables: Mapping[str, str] | None = None,
        passing: Collection[str] = (),
    ) -> None:
        self._tags = read_words(words)
        self._tables = {name: read_table(text) for name, text in (tables or {}).items()}
        for name, table in self._tables.items():
            if unknown := sorted({word for row in table.rows for word in row} - set(self._tags)):
                raise UnusableGrammar(f"the table of {name} has words without tags: {unknown}")
        if strange := sorted(set(passing) - set(self._tables)):
            raise UnusableGrammar(f"passing variables without a table: {', '.join(strange)}")
        self._variables = {name: index for index, name in enumerate(self._tables)}
        self._passing = {self._variables[name] for name in passing}
        self._any = tuple(tuple(range(len(table.rows))) for table in self._tables.values())
        self._printed: dict[tuple[Slot, Rows], dict[str, tuple[float, Rows]]] = {}
        self._settled: dict[tuple[Rows, ...], tuple[Rows, ...]] = {}
        self._positions = graph(read_rules(rules, self._tables, self._tags))
        for position in range(self.positions):
            self._refuse_ambiguity(position)
        self._cumulative = [
            list(accumulate(arc.probability for arc in arcs[:-1])) for arcs in self._positions
        ]
        self.start = State(0, self._any)

    def vocabulary(self) -> list[str]:
        """All words: the end of a document, then the others in alphabetical order."""
        return [END, *sorted(self._tags)]

    def tags(self) -> list[str]:
        """The parts of speech, in alphabetical order."""
        marked = {arc.label.tag for arcs in self._positions for arc in arcs if arc.label.tag}
        return sorted({*self._tags.values(), *marked} - {END})

    @property
    def positions(self) -> int:
        """The number of places in the rules."""
        return len(self._positions)

    def options(self, state: State) -> dict[str, Option]:
        """Every word that can come next, with its probability and where it leads."""
        options: dict[str, Option] = {}
        for probability, label, target in self._positions[state.position]:
            for word, (share, left) in self._prints(label, state.rows).items():
                before = options[word].probability if word in options else 0.0
                after = self._after(word, label, target, state.rows, left)
                tag = label.tag or self._tags[word]
                options[word] = Option(before + probability * share, tag, after)
        return options

    def walk(self, words: Sequence[str]) -> Iterator[tuple[State, Option]]:
        """Word by word: the state before it, and the option that it took there."""
        state = self.start
        for place, word in enumerate(words):
            options = self.options(state)
            if word not in options:
                first = list(self._probabilities(state))[:5]
                more = f" and {len(options) - 5} more" if len(options) > 5 else ""
                before = " ".join(words[max(0, place - 8) : place])
                where = f"after {before!r}" if place else "at the beginning"
                raise ImpossibleContext(
                    f"word {place + 1} cannot be {word!r} {where}; "
                    f"possible there: {', '.join(first)}{more}"
                )
            yield state, options[word]
            state = options[word].state

    def distributions(self, words: Sequence[str]) -> Iterator[dict[str, float]]:
        """What `next_word` says before each of the words, and after the last."""
        state = self.start
        for before, option in self.walk(words):
            yield self._probabilities(before)
            state = option.state
        yield self._probabilities(state)

    def next_word(self, context: Sequence[str]) -> dict[str, float]:
        """The exact probability of every word that can follow these, the likeliest first.

        The words are those of a document from its beginning; after `END` another begins.
        """
        state = self.start
        for _, option in self.walk(context):
            state = option.state
        return self._probabilities(state)

    def log_probabilities(self, words: Sequence[str]) -> Float[Array, " n"]:
        """log p(wᵢ | w₁ ... wᵢ₋₁) of each word, in nats."""
        logs: Float[Array, " n"] = np.log([option.probability for _, option in self.walk(words)])
        return logs

    def log_probability(self, document: Document) -> float:
        """log p(document) in nats, its end included."""
        return float(self.log_probabilities(stream(document)).sum())

    def read(self, words: Sequence[str]) -> list[Document]:
        """The words put back into documents and sentences, with their parts of speech."""
        documents: list[Document] = []
        before = END
        for word, (_, option) in zip(words, self.walk(words), strict=True):
            if word != END:
                if before == END:
                    documents.append([])
                if before in (END, STOP):
                    documents[-1].append([])
                documents[-1][-1].append(Token(word, option.tag))
            before = word
        return documents

    def sample(self, rng: np.random.Generator) -> Document:
        """One random document."""
        position, rows = self.start
        document: Document = []
        before = STOP
        while True:
            chosen = bisect(self._cumulative[position], rng.random())
            _, label, target = self._positions[position][chosen]
            printed = self._prints(label, rows)
            reached = list(accumulate(share for share, _ in printed.values()))[:-1]
            word = list(printed)[bisect(reached, rng.random()) if reached else 0]
            if word == END:
                return document
            if before == STOP:
                document.append([])
            document[-1].append(Token(word, label.tag or self._tags[word]))
            position, rows = self._after(word, label, target, rows, printed[word][1])
            before = word

    def documents(self, seed: int, count: int | None = None) -> Iterator[Document]:
        """As many random documents as wanted, or without end; the same for the same seed."""
        rng = np.random.default_rng(seed)
        produced = 0
        while count is None or produced < count:
            yield self.sample(rng)
            produced += 1

    @cached_property
    def measure(self) -> Measure:
        """Entropy and length of the documents, summed over all states from the last to the first.

        H(s) = Σ_w p(w | s) (−log p(w | s) + H(s after w)), and H = 0 after the end. The words say
        which state comes next, so that this is the entropy of the words themselves.
        """
        following: dict[State, list[tuple[float, State | None]]] = {}
        done: dict[State | None, tuple[float, float, int]] = {None: (0.0, 0.0, 0)}
        start = self._nameless(self.start)
        pending = [start]
        while pending:
            state = pending[-1]
            if state not in following:
                following[state] = [
                    (option.probability, None if word == END else self._nameless(option.state))
                    for word, option in self.options(state).items()
                ]
                pending += [after for _, after in following[state] if after and after not in done]
                continue
            pending.pop()
            if state not in done:
                rests = [(p, *done[after]) for p, after in following[state]]
                done[state] = (
                    sum(p * (nats - math.log(p)) for p, nats, _, _ in rests),
                    sum(p * words for p, _, words, _ in rests) + 1,
                    max(longest for _, _, _, longest in rests) + 1,
                )
        return Measure(*done[start], states=len(following))

    def _probabilities(self, state: State) -> dict[str, float]:
        options = self.options(state)
        ranked = sorted(options, key=lambda word: (-options[word].probability, word))
        return {word: options[word].probability for word in ranked}

    def _prints(self, label: Word | Slot, rows: tuple[Rows, ...]) -> dict[str, tuple[float, Rows]]:
        """The words that a label can print, each with its share and the rows that it leaves."""
        if isinstance(label, Word):
            return {label.word: (1.0, ())}
        possible = rows[self._variables[label.variable]]
        if (label, possible) not in self._printed:
            table = self._tables[label.variable]
            left = defaultdict(list)
            for row in possible:
                left[table.rows[row][label.column]].append(row)
            whole = sum(table.weights[row] for row in possible)
            self._printed[label, possible] = {
                word: (float(sum(table.weights[row] for row in rest) / whole), tuple(rest))
                for word, rest in left.items()
            }
        return self._printed[label, possible]

    def _after(
        self, word: str, label: Word | Slot, target: int, rows: tuple[Rows, ...], left: Rows
    ) -> State:
        if word == END:
            return self.start
        if isinstance(label, Slot):
            index = self._variables[label.variable]
            rows = (*rows[:index], left, *rows[index + 1 :])
        if word == STOP and self._passing:
            both = enumerate(zip(rows, self._any, strict=True))
            rows = tuple(every if i in self._passing else kept for i, (kept, every) in both)
        return State(target, rows)

    def _nameless(self, state: State) -> State:
        """One state for all that go on alike but for the words of rows that are settled."""
        if state.rows not in self._settled:
            self._settled[state.rows] = tuple(
                (alike[rows[0]],) if len(rows) == 1 else rows
                for rows, alike in zip(state.rows, self._alike, strict=True)
            )
        return State(state.position, self._settled[state.rows])

    @cached_property
    def _alike(self) -> list[Rows]:
        """For each table and row, the first row whose columns repeat one another in the same way.

        Where such a row is settled, two slots print the same word if they do so in the other, and
        no word but theirs can be the same: rows that are alike differ by names only.
        """
        shapes = [
            [tuple(row.index(word) for word in row) for row in table.rows]
            for table in self._tables.values()
        ]
        return [tuple(map(shape.index, shape)) for shape in shapes]

    def _refuse_ambiguity(self, position: int) -> None:
        """A word may come from two slots only where both of them leave the same behind."""
        seen: dict[str, tuple[tuple[object, ...], str]] = {}
        for _, label, target in self._positions[position]:
            for word, (_, rows) in self._prints(label, self._any).items():
                variable = label.variable if isinstance(label, Slot) else None
                leaves = (variable, rows, label.tag, target)
                first, source = seen.setdefault(word, (leaves, self._spelled(label)))
                if first != leaves:
                    raise UnusableGrammar(
                        f"after {self._way_to(position)!r} the word {word!r} can come from "
                        f"{source} and from {self._spelled(label)}, and what follows differs; "
                        "let the alternatives begin with the same words or slots"
                    )

    def _way_to(self, position: int) -> str:
        """The last words and slots of a shortest way to a position."""
        way: list[str] = []
        while position and len(way) < 8:
            position, label = next(
                (before, arc.label)
                for before, arcs in enumerate(self._positions)
                for arc in arcs
                if arc.target == position
            )
            way.append(self._spelled(label))
        return " ".join(reversed(way))

    def _spelled(self, label: Word | Slot) -> str:
        """A word or a slot as it is written in the rules."""
        if isinstance(label, Word):
            return f"{label.word}/{label.tag}"
        return f"{label.variable}.{self._tables[label.variable].columns[label.column]}"


def stream(document: Document) -> list[str]:
    """The words of a document, and its end."""
    return [*(token.word for sentence in document for token in sentence), END]

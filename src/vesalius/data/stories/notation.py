"""The notation of grammars: rules with weighted alternatives, tables of what belongs together.

Reads both into plain tuples and refuses what cannot be meant. It knows nothing of probabilities:
`vesalius.data.stories.grammar` makes a machine of what is read here.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from vesalius.errors import UnusableGrammar, nearest

END = "<end>"
"""The word that ends a document. No rule prints it: it follows the last word of the first rule."""


class Word(NamedTuple):
    """A word as it stands: ``river``, or with a part of speech of its own, ``rain/VERB``."""

    word: str
    tag: str


class Slot(NamedTuple):
    """What a table says in one column: ``hero.name`` prints the name of the hero."""

    variable: str
    column: int
    tag: str | None


class Call(NamedTuple):
    """Another rule, by its capitalised name."""

    rule: str


class Choice(NamedTuple):
    """Alternatives, each with its share of one."""

    options: "tuple[tuple[Fraction, Phrase], ...]"


Item: TypeAlias = Word | Slot | Call | Choice
Phrase: TypeAlias = tuple[Item, ...]


class Table(NamedTuple):
    """Rows of words that belong together, of which one holds; and how likely each is.

    ::

           name  he   his
        3: i     i    my       three times as likely as the next
           mara  she  her
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    weights: tuple[Fraction, ...]


def read_table(text: str) -> Table:
    """A table: the first line names its columns, each other line is a row of one word a column."""
    header, *lines = [line.split() for line in text.splitlines() if line.strip()] or [[]]
    if len(set(header)) < len(header):
        raise UnusableGrammar(f"a table has two columns of the same name among {header}")
    rows, weights = [], []
    for cells in lines:
        weighted = cells[0].endswith(":")
        weights.append(_weight(cells[0]) if weighted else Fraction(1))
        row = tuple(cells[weighted:])
        if len(row) != len(header):
            raise UnusableGrammar(f"the row {row} has {len(row)} words for the columns {header}")
        if row in rows:
            raise UnusableGrammar(f"the row {row} is there twice; give it a weight instead")
        rows.append(row)
    if not rows:
        raise UnusableGrammar(f"the table of {header} has no rows")
    total = sum(weights)
    return Table(tuple(header), tuple(rows), tuple(weight / total for weight in weights))


def read_words(words: Mapping[str, str]) -> dict[str, str]:
    """The usual part of speech of every word, from a list of words for each part of speech."""
    tags: dict[str, str] = {}
    for tag, listed in words.items():
        for word in listed.split():
            if word in tags:
                raise UnusableGrammar(
                    f"{word!r} is listed under {tags[word]} and again under {tag}; "
                    f"list it once, and write {word}/{tag} in the rules where it is that"
                )
            tags[word] = tag
    return tags


def read_rules(
    text: str, tables: Mapping[str, Table], tags: Mapping[str, str]
) -> dict[str, Phrase]:
    """The rules by name, in order; the first is the whole document.

    ::

        Story = Opening (3: Walk | Rest) .
        Walk  = hero.name walked (| slowly | 2: home)

    ``3:`` weighs an alternative, others weigh one; an empty alternative says nothing.
    """
    parts = re.split(r"^([A-Z]\w*)\s*=", text, flags=re.MULTILINE)
    if parts[0].strip() or len(parts) == 1:
        raise UnusableGrammar(f"expected a rule such as 'Story = ...', got {parts[0].strip()!r}")
    rules: dict[str, Phrase] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if name in rules:
            raise UnusableGrammar(f"the rule {name} is there twice")
        reader = _Reader(name, body, tables, tags)
        rules[name] = reader.alternatives()
        if reader.pending:
            raise UnusableGrammar(f"the rule {name} closes a parenthesis that it did not open")
    _refuse_recursion(rules)
    return rules


class _Reader:
    """One rule's text, from left to right."""

    def __init__(
        self, rule: str, body: str, tables: Mapping[str, Table], tags: Mapping[str, str]
    ) -> None:
        self.rule, self.tables, self.tags = rule, tables, tags
        self.pending = re.findall(r"[()|]|[^\s()|]+", body)[::-1]

    def alternatives(self) -> Phrase:
        options = [self.option()]
        while self.pending and self.pending[-1] == "|":
            self.pending.pop()
            options.append(self.option())
        if len(options) == 1:
            return options[0][1]
        total = sum(weight for weight, _ in options)
        return (Choice(tuple((weight / total, phrase) for weight, phrase in options)),)

    def option(self) -> tuple[Fraction, Phrase]:
        weight = Fraction(1)
        phrase: Phrase = ()
        if self.pending and self.pending[-1].endswith(":"):
            weight = _weight(self.pending.pop())
        while self.pending and self.pending[-1] not in ("|", ")"):
            phrase += self.items(self.pending.pop())
        return weight, phrase

    def items(self, piece: str) -> Phrase:
        if piece == "(":
            phrase = self.alternatives()
            if not self.pending:
                raise UnusableGrammar(f"the rule {self.rule} opens a parenthesis and leaves it so")
            self.pending.pop()
            return phrase
        piece, _, tag = piece.partition("/")
        if piece[:1].isupper():
            return (Call(piece),)
        variable, _, column = piece.partition(".")
        if variable and column:
            return (self.slot(variable, column, tag),)
        if piece not in self.tags:
            raise UnusableGrammar(
                f"the rule {self.rule} has the word {piece!r}, which has no part of speech; "
                f"{nearest(piece, self.tags)}"
            )
        return (Word(piece, tag or self.tags[piece]),)

    def slot(self, variable: str, column: str, tag: str) -> Slot:
        known = {f"{name}.{c}": None for name, table in self.tables.items() for c in table.columns}
        if f"{variable}.{column}" not in known:
            raise UnusableGrammar(
                f"the rule {self.rule} has {variable}.{column}, which no table has; "
                f"{nearest(f'{variable}.{column}', known)}"
            )
        return Slot(variable, self.tables[variable].columns.index(column), tag or None)


def _weight(piece: str) -> Fraction:
    try:
        weight = Fraction(piece.removesuffix(":"))
    except (ValueError, ZeroDivisionError):
        raise UnusableGrammar(f"expected a weight such as '3:', got {piece!r}") from None
    if weight <= 0:
        raise UnusableGrammar(f"a weight is a number above zero, got {piece!r}")
    return weight


def _refuse_recursion(rules: Mapping[str, Phrase]) -> None:
    """Every document must be finite, so no rule may come back to itself."""

    def visit(phrase: Phrase, path: tuple[str, ...]) -> None:
        for item in phrase:
            match item:
                case Choice(options):
                    for _, option in options:
                        visit(option, path)
                case Call(rule):
                    if rule not in rules:
                        raise UnusableGrammar(
                            f"the rule {path[-1]} calls {rule}, which is no rule; "
                            f"{nearest(rule, rules)}"
                        )
                    if rule in path:
                        raise UnusableGrammar(f"a rule calls itself: {' > '.join((*path, rule))}")
                    visit(rules[rule], (*path, rule))

    for name, phrase in rules.items():
        visit(phrase, (name,))

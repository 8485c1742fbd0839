"""What the page is told: the shape of every answer, from which its types are written.

``docs/api_types.py`` writes them for TypeScript; a test compares real answers with these.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Cell = list[float]


Numeral = float | Literal["inf", "-inf", "nan"]
"""JSON has no infinities: they come by name."""


class ModelName(TypedDict):
    id: str
    title: str


class ModelInfoCount(TypedDict):
    total: float


class ModelInfoExample(TypedDict):
    number: float
    label: str | None


class ModelInfo(ModelName):
    name: str
    """What Python and the command line call it."""
    family: str
    family_title: str
    parameters: float
    dtype: str
    context: float | None
    tokenizer: float | None
    """The words of the tokenizer, or null where there is none."""
    text: str
    """What to begin with, and the other text of a pair."""
    second: str
    symbols: dict[str, object]
    formulas: dict[str, str]
    """The LaTeX of equations that this model computes with other functions than the paper's."""
    figures: list[Drawable]
    count: ModelInfoCount
    reads: Literal["text", "pixels", "images", "series"]
    pairs: str
    """What a second text is for; empty where it reads one."""
    masks: bool
    """Whether it restores what is masked."""
    window: bool
    """Whether it reads a fixed number of tokens, so that not any text will do."""
    accepts: list[str]
    """Endings of the files that it reads."""
    examples: list[ModelInfoExample]
    corpus: str
    begins: float | None
    """The example to begin with, if there is one."""
    more: float
    """Examples that can be asked for by any number."""
    heads: bool
    """Whether there are attention heads to show."""
    gates: Literal["", "c", "h"]
    """Which of the states over time the room of gates shows as memory; empty where it has none."""
    boxes: dict[str, str]
    """Steps that are drawn inside a box, by their symbols, with that of the step it gives."""


Span = tuple[float, float, float, float, str]


class SeenPicture(TypedDict):
    """How tokens lie in a picture."""

    kind: Literal["patches", "pixels"]
    across: float
    """Cells of a side."""
    first: float
    """The token of the first cell."""
    levels: NotRequired[float]
    restores: bool


class SeenSeries(TypedDict):
    """How tokens lie in a series."""

    kind: Literal["series"]
    channels: float
    time: float
    real: float
    """Columns of the states that are no padding."""
    names: list[str]
    """The channels, where each is read for itself."""
    spans: list[Span]
    """What patches cover: channel, first time, how many, number in the channel, name."""
    overlap: float
    """How many patches cover a time."""


Seen = SeenPicture | SeenSeries


class Word(TypedDict):
    id: float
    token: str
    rank: float
    probability: float | None
    """Null where the model gives values, which have none."""
    value: float


class Effect(TypedDict):
    """The target with one part more cut, or with its cut taken back."""

    name: str
    probability: float | None
    value: float


class Part(TypedDict):
    name: str
    share: float
    what: str


class StepPlace(TypedDict):
    layer: NotRequired[float]
    head: NotRequired[float]
    time: NotRequired[float]


class Step(TypedDict):
    name: str
    symbol: str
    place: StepPlace
    equation: str
    shape: list[float]
    rows: str
    columns: str
    kind: Literal["state", "score", "output"]
    cut: str


class Forecast(TypedDict):
    """The value of a forecast that is looked at, in the units of its series."""

    channel: float
    step: float
    time: str
    value: float
    ends: tuple[float, float] | None
    """The ends of its interval, where the model keeps one, and what it is to hold."""
    level: float
    mean: float
    """What the model's own numbers are scaled by."""
    std: float
    scaled: bool


class Course(TypedDict):
    """One channel of a forecast: what was before, what is to come, and what came, if known."""

    channel: float
    past: list[float]
    values: list[float]
    ends: tuple[list[float], list[float]] | None
    level: float
    follows: list[float] | None
    before: list[str]
    after: list[str]


class SummaryTarget(TypedDict):
    id: float
    token: str
    rank: float | None
    """Its place among all words or classes; null of values."""
    step: str
    at: Cell
    logit: float
    probability: float | None


class SummaryHidden(TypedDict):
    id: float
    token: str
    probability: float
    rank: float


class Summary(TypedDict):
    id: str
    clean: str
    model: str
    name: str
    """What Python and the command line call the model."""
    family: str
    ids: list[float]
    tokens: list[str]
    blanks: bool
    """Whether tokens hold the blanks between words."""
    surprisal: list[float | None]
    cuts: list[str]
    patches: list[str]
    """Steps whose values are another run's."""
    position: float
    masked: bool
    target: SummaryTarget
    forecast: Forecast | None
    """The target of a forecast; null of all else."""
    likeliest: list[Word]
    outcomes: float
    """How many words, classes or values there are."""
    parts: list[Part]
    sum: float
    difference: float
    bound: float
    """How far rounding alone can bring the sum of the parts from the target."""
    precise: bool
    """Whether that is small beside the values of the target's step."""
    layers: float
    long: bool
    """Whether only states are kept, so that the rest is computed anew when it is asked for."""
    steps: list[Step]
    milliseconds: float
    again: float
    dtype: str
    python: str
    """What was read, as Python and the command line write it."""
    command: str
    second: str
    """The second text of a pair, or nothing."""
    segments: list[float]
    """Of a pair: 0 or 1 for each token."""
    within: dict[str, str]
    """The letters that tokens are some bytes of, by place."""
    masks: list[float]
    behind: dict[str, str]
    """What the masks hide, by place."""
    hidden: SummaryHidden | None
    follows: float | None
    """Of a pair: the probability that the second text follows."""
    label: str | None
    source: str
    files: float
    """How many its file holds."""
    prepared: str
    hint: str
    input: Seen | None


class Check(TypedDict):
    """What another implementation gave for the same outputs."""

    peer: Literal["network", "engine"] | None
    """Which it was; none where there is no other here."""
    steps: list[str]
    numbers: float
    difference: float
    agrees: bool


class MakingWord(TypedDict):
    layer: float
    token: str
    probability: float


class Making(TypedDict):
    """A run in the making: the word that each state gives so far, that of the embeddings first."""

    id: str
    tokens: float
    layers: float
    words: list[MakingWord]


class Location(TypedDict):
    symbol: str
    name: str
    file: str
    tensor: str
    index: list[float]
    offset: float
    dtype: str


class Factor(TypedDict):
    kind: Literal["step", "parameter", "input", "constant"]
    name: str
    at: Cell
    value: Numeral
    location: Location | None
    function: str
    """What the term takes of the number, with a dot in its place, as "tanh(·)"; or nothing."""


class Term(TypedDict):
    value: Numeral
    factors: list[Factor]


class UnfoldingRival(TypedDict):
    at: float
    sum: Numeral


class UnfoldingCurve(TypedDict):
    reach: float
    values: list[Numeral]


class Unfolding(TypedDict):
    step: str
    at: Cell
    equation: str
    value: Numeral
    terms: list[Term]
    others: float
    rest: Numeral
    sum: Numeral
    outer: str
    computed: Numeral
    difference: Numeral
    bound: Numeral
    """How far rounding alone can bring what the terms make from the value."""
    notes: dict[str, Numeral]
    rivals: list[UnfoldingRival]
    curve: UnfoldingCurve | None
    edited: bool
    """Whether the value was replaced, so that its terms do not make it."""


class Symbol(TypedDict):
    """One letter of an equation, and its class, which has a colour and a mark."""

    name: str
    latex: str
    meaning: str
    known_as: str
    """What other works call it, or nothing."""
    shape: str
    kind: Literal["parameter", "bias", "score", "output", "input", "dimension", "state"]


class Erratum(TypedDict):
    number: str
    """E17."""
    kind: str
    title: str
    paper: str
    practice: str


class Equation(TypedDict):
    label: str
    number: float | None
    name: str
    title: str
    section: str
    latex: str
    remarks: str
    symbols: list[Symbol]
    errata: NotRequired[list[Erratum]]
    """Where the paper and practice part ways about it."""
    source: str


class Drawable(TypedDict):
    """A figure that can be drawn: of the model, of a layer ("l") or of a head ("l,m")."""

    part: str
    place: Literal["", "l", "l,m"]
    figures: list[str]
    shows: str
    text: Literal["", "shown", "needed"]
    """Whether it shows the numbers of a text, or is nothing without one."""

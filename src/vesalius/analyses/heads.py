"""What each attention head does: where it looks, how sharply, and what depends on it.

Heads of texts and series are told by the positions that they attend to: previous-token heads,
induction heads, heads that rest on the first token. Heads of a vision transformer are told by the
offset in the picture. All read mu[l,m] and P[l,m] of traces.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius import arguments
from vesalius.analyses.replaying import Replay, each
from vesalius.analyses.targets import Target, Wanted, find
from vesalius.arguments import Progress, silent
from vesalius.data.inputs import read_inputs, reads_arrays
from vesalius.equations.parameters import Array
from vesalius.errors import EmptySequence, WrongKind
from vesalius.families import FAMILIES, family_of
from vesalius.model import Model, ModelLike, loaded
from vesalius.traces.dissection import Reading, read, trace_of
from vesalius.traces.trace import Trace
from vesalius.views import pictures
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Part, Table, counted

if TYPE_CHECKING:
    from vesalius.traces.dissection import Given

MEANINGS = {
    "entropy": ("Entropy, in nats", "of the attention"),
    "previous": ("Previous token", "share of attention to the token before"),
    "first": ("First token", "share of attention to it"),
    "duplicate": ("Duplicate tokens", "share of attention to the same token, earlier"),
    "induction": ("Induction", "share of attention to what followed the same token, earlier"),
    "class": ("Class token", "share of a patch's attention to it"),
    "itself": ("Itself", "share of a patch's attention to itself"),
    "offset": ("Strongest offset", "mean share of attention there"),
    "effect": ("Cut: logit", "of the target without the head, minus with it"),
    "effect_probability": ("Cut: probability", "of the target without the head, minus with it"),
}
"""The scores: what pictures call them, and what they are."""
EFFECTS = ("effect", "effect_probability")
SHARES = ("previous", "first", "duplicate", "induction", "class")
"""Scores that pictures show on one scale, up to all of the attention."""
WORTH = 0.25
"""An offset counts as the strongest if at least this share of the patches have a patch there."""


@dataclass(frozen=True)
class Head:
    """One head and its scores; None where no query had such a position."""

    layer: int
    head: int
    scores: dict[str, float | None]
    offset: tuple[int, int] | None = None
    """Of a vision transformer: the strongest offset, rows down and columns to the right."""

    @property
    def name(self) -> str:
        return f"P[{self.layer},{self.head}]"

    def to_json(self) -> dict[str, Any]:
        offset = None if self.offset is None else list(self.offset)
        return {"layer": self.layer, "head": self.head, **self.scores, "strongest": offset}


@dataclass(frozen=True, eq=False)
class Heads(Pictured):
    """All heads of a model by layer and head, averaged over the texts that were read."""

    family: str
    texts: int
    table: dict[str, Array]
    """Scores, each layers x heads; NaN where no query had such a position."""
    queries: dict[str, int]
    """Over how many queries the shares are averaged; effects are averaged over texts."""
    targets: list[str]
    """Whose logit the effects are about, one a text."""
    offsets: Array | None = None
    """Of a vision transformer: layers x heads x dy x dx, the mean attention at each offset."""
    strongest: Array | None = None
    """Of a vision transformer: layers x heads x 2, the strongest offset (dy, dx)."""

    def sorted_by(self, score: str | None = None) -> list[Head]:
        """All heads, the highest score first; effects by their size.

        Without a name the effects sort, or else the first score after the entropy.
        """
        score = arguments.choice("score", score or self._usual(), self.table)
        values = self.table[score]
        keys = np.nan_to_num(np.abs(values) if score in EFFECTS else values, nan=-np.inf)
        order = np.argsort(-keys.ravel(), kind="stable")
        return [self._head(*divmod(int(k), values.shape[1])) for k in order]

    def _usual(self) -> str:
        return "effect" if "effect" in self.table else list(self.table)[1]

    def _scored(self) -> list[str]:
        """The scores that some head has: a text may have no token that stands there twice."""
        return [name for name, scores in self.table.items() if not np.isnan(scores).all()]

    def _head(self, l: int, m: int) -> Head:
        scores = {name: _known(values[l, m]) for name, values in self.table.items()}
        at = None
        if self.strongest is not None:
            at = (int(self.strongest[l, m, 0]), int(self.strongest[l, m, 1]))
        return Head(l + 1, m + 1, scores, at)

    def __repr__(self) -> str:
        few = ", ".join(f"{h.name} {h.scores[self._usual()]:.3g}" for h in self.sorted_by()[:3])
        return f"{self._headline()}\n  by {self._usual()}: {few} …"

    def _headline(self) -> str:
        layers, heads = self.table["entropy"].shape
        noun = "text" if FAMILIES[self.family].reads == "text" else "input"
        read = f"{layers} layers of {counted(heads, 'head')}, {counted(self.texts, noun)}"
        return f"{self.family}: {read}"

    def view(self) -> Iterator[Part]:
        yield from self.told()

    def told(self, by: str | None = None) -> Iterator[Part]:
        """The table, sorted by a score."""
        yield self._headline()
        if self.targets:
            few = ", ".join(dict.fromkeys(self.targets))
            yield f"effects are about {few if len(few) <= 200 else few[:199] + '…'}"
        names = self._scored()
        rows = []
        for head in self.sorted_by(by):
            cells = [_shown(head.scores[name], name) for name in names]
            at = () if head.offset is None else (f"{head.offset[0]:+d}, {head.offset[1]:+d}",)
            rows.append((head.name, *cells, *at))
        heads = ["head", *(name.replace("_", "\n") for name in names)]
        heads += ["strongest"] if self.strongest is not None else []
        yield Table(heads, rows, right=tuple(range(1, len(heads))))
        over = (f"{name} {n:,}" for name, n in self.queries.items())
        yield f"queries that had such a position: {', '.join(over)}"
        for name in names:
            yield f"  {name.replace('_', ' ')}: {MEANINGS[name][1]}"

    def picture(self, by: str | None = None) -> str:
        """Layers x heads as SVG: one score, or all of them."""
        layers, heads = self.table["entropy"].shape
        rows = [str(l + 1) for l in range(layers)]
        columns = [str(m + 1) for m in range(heads)]
        wanted = [arguments.choice("score", by, self.table)] if by else self._scored()
        drawn = [
            pictures.grid(
                self.table[name],
                rows,
                columns,
                MEANINGS[name][0],
                ("layer", "head"),
                signed=name in EFFECTS,
                limit=1.0 if name in SHARES else None,
            )
            for name in wanted
        ]
        if self.offsets is not None and not by:
            title = "Attention by offset; the patch itself is in the middle"
            named = [f"layer {row}" for row in rows], [f"head {column}" for column in columns]
            drawn.append(pictures.mosaic(self.offsets, *named, title))
        return pictures.beside(drawn)

    def plot(self, file: str | Path, by: str | None = None) -> None:
        """Write the picture as .svg or .png."""
        pictures.save(self.picture(by), file)

    def to_json(self, by: str | None = None) -> dict[str, Any]:
        """Every head with its scores, sorted, and over how many queries they are averaged."""
        return {
            "family": self.family,
            "texts": self.texts,
            "by": by or self._usual(),
            "queries": self.queries,
            "targets": self.targets,
            "heads": [head.to_json() for head in self.sorted_by(by)],
        }


def heads(
    model: ModelLike,
    texts: "Given | Sequence[Given]",
    target: Wanted = None,
    effects: bool = True,
    progress: Progress = silent,
) -> Heads:
    """What every attention head does on one or several texts (or images, or series).

    Several stand in a list; a tuple of two is a pair of sentences where the model reads such.
    Shares of attention are averaged over the queries that have such a position. With ``effects``
    every head is cut once in every text (its P[l,m] is zero, all else follows): what the
    ``target``'s logit and probability change by. The target is the likeliest word or class of each
    text unless it is said, as ``analyses.targets`` reads it.
    """
    model = loaded(model)
    symbols = model.config.symbols()
    if "M" not in symbols:
        having = ", ".join(name for name, f in FAMILIES.items() if "M" in f.config().symbols())
        raise WrongKind(f"{model.family} has no attention heads; families that have: {having}")
    given = _several(model, texts)
    if not given:
        raise EmptySequence("expected at least one text to look at heads on, got none")
    scores = Shares() if family_of(model.config).reads != "images" else Offsets()
    changes, targets = list[Array](), list[str]()
    cuts = symbols["L"] * symbols["M"] if effects else 0
    total = len(given) * (cuts or 1)
    for k, text in enumerate(given):
        reading = read(model, text)
        trace = trace_of(reading)
        scores.add(trace, np.array(_attention(trace, symbols["L"], symbols["M"])))
        if effects:
            wanted = _target(trace, target)
            targets.append(wanted.label)
            many = symbols["L"], symbols["M"]
            changes.append(
                _effects(reading, trace, wanted, *many, _later(progress, k * cuts, total))
            )
        else:
            progress("heads", k + 1, total)
    table, queries = scores.mean()
    for j, name in enumerate(EFFECTS if effects else ()):
        found = np.mean(changes, axis=0)[j]
        if np.isfinite(found).all():
            table[name] = found
    return Heads(
        model.family, len(given), table, queries, targets, scores.offsets(), scores.strongest()
    )


def heads_of(trace: Trace) -> Heads:
    """What every head does in a trace that is at hand, edited or not; effects are left out."""
    layers = [step.place["layer"] for step in trace.steps if step.symbol == "mu"]
    if not layers or trace.model is None:
        raise WrongKind(f"this trace of {trace.family} has no scores mu[l,m], or no model")
    images = family_of(trace.model.config).reads == "images"
    M = layers.count(1)
    scores = [Offsets() if images else Shares() for _ in range(max(layers))]
    for l, of_layer in enumerate(scores, 1):  # one after the other: long texts take memory
        mu = [np.asarray(trace[f"mu[{l},{m}]"], np.float64) for m in range(1, M + 1)]
        of_layer.add(trace, np.array([mu]))
    tables, queries = zip(*(of_layer.mean() for of_layer in scores), strict=True)
    table = {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}
    found = ([of_layer.offsets(), of_layer.strongest()] for of_layer in scores)
    offsets, strongest = (
        None if parts[0] is None else np.concatenate(parts) for parts in zip(*found, strict=True)
    )
    return Heads(trace.family, 1, table, queries[0], [], offsets, strongest)


def _several(model: Model, texts: Any) -> list[Any]:
    """What is given: one text alone, or several; token ids are one; all that a file holds."""
    found: list[Any]
    if isinstance(texts, str | PathLike | np.ndarray) or _is_pair(model, texts):
        found = [texts]
    elif isinstance(texts, Iterable):
        found = list(texts)
        if found and all(isinstance(i, int | np.integer) for i in found):
            found = [found]
    else:
        raise arguments.wrong("texts", "a text or several", texts)
    if reads_arrays(model):
        return [one for given in found for one in read_inputs(model, given)]
    return found


def _is_pair(model: Model, texts: Any) -> bool:
    """Whether a tuple is one input, as ``dissect`` reads it; a list is several."""
    two = isinstance(texts, tuple) and len(texts) == 2
    return two and model.config.symbols().get("segments", 1) > 1


def _attention(trace: Trace, layers: int, heads: int) -> list[list[Array]]:
    return [
        [np.asarray(trace[f"mu[{l},{m}]"], np.float64) for m in range(1, heads + 1)]
        for l in range(1, layers + 1)
    ]


def _target(trace: Trace, wanted: Wanted) -> Target:
    try:
        return find(trace, wanted)
    except WrongKind as error:
        raise WrongKind(f"{error}; effects=False, or --no-effects, leaves effects out") from error


class Shares:
    """Attention to positions of a text: sums over queries, and how many there were."""

    def __init__(self) -> None:
        self.sums: dict[str, Array | float] = {}
        self.counts: dict[str, int] = {}

    def add(self, trace: Trace, mu: Array) -> None:
        """``mu`` is layers x heads x queries x keys."""
        real, seen = trace.real(), np.isfinite(trace["S"])
        if real is not None:
            mu, seen = mu[:, :, real][:, :, :, real], seen[np.ix_(real, real)]
        self._count("entropy", _entropy(mu).sum(axis=-1), mu.shape[-1])
        for name, pattern in _patterns(seen, trace.ids).items():
            had = pattern.any(axis=1)
            self._count(name, (mu * pattern).sum(axis=(-2, -1)), int(had.sum()))

    def _count(self, name: str, value: Array, queries: int) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value
        self.counts[name] = self.counts.get(name, 0) + queries

    def mean(self) -> tuple[dict[str, Array], dict[str, int]]:
        with np.errstate(invalid="ignore"):
            found = {name: np.divide(sum_, self.counts[name]) for name, sum_ in self.sums.items()}
        return found, self.counts

    def offsets(self) -> Array | None:
        return None

    def strongest(self) -> Array | None:
        return None


def _patterns(seen: Array, ids: Sequence[int]) -> dict[str, Array]:
    """Which key each query's score is about, queries x keys; a query may have none, or several.

    ``seen`` is what the mask lets a query see: of PatchTST the patches of its own channel, each of
    which has a first one.
    """
    n = len(seen)
    query, key = np.indices((n, n))
    tokens = np.asarray(ids) if ids else np.arange(n)
    same = (tokens[:, None] == tokens) & (key < query)
    after = np.zeros((n, n), bool)
    after[:, 1:] = same[:, :-1]
    return {
        "previous": (key == query - 1) & seen,
        "first": (key == seen.argmax(axis=1)[:, None]) & (key < query),
        "duplicate": same,
        "induction": after & (key < query),
    }


class Offsets(Shares):
    """Attention by the offset in a picture; the class token is the first."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: Array | float = 0.0
        self.room = np.zeros(0)
        """How many patches have a patch at an offset, by dy and dx."""
        self.images = 0

    def add(self, trace: Trace, mu: Array) -> None:
        side = round((mu.shape[-1] - 1) ** 0.5)
        patches = mu[:, :, 1:, 1:]
        self._count("entropy", _entropy(mu).sum(axis=-1), mu.shape[-1])
        self._count("class", mu[:, :, 1:, 0].sum(axis=-1), side * side)
        self._count("itself", np.trace(patches, axis1=-2, axis2=-1), side * side)
        wide = 2 * side - 1
        y, x = divmod(np.arange(side * side), side)
        dy, dx = (at[None, :] - at[:, None] + side - 1 for at in (y, x))
        where = (dy * wide + dx).ravel()
        sums = [np.bincount(where, one.ravel(), wide * wide) for part in patches for one in part]
        along = side - np.abs(np.arange(1 - side, side))
        self.room = np.outer(along, along)
        self.maps = self.maps + np.reshape(sums, (*mu.shape[:2], wide, wide))
        self.images += 1

    def mean(self) -> tuple[dict[str, Array], dict[str, int]]:
        found, counts = super().mean()
        maps, at = self.offsets(), self.strongest()
        side = (maps.shape[-1] + 1) // 2
        l, m = np.indices(maps.shape[:2])
        found["offset"] = maps[l, m, at[..., 0] + side - 1, at[..., 1] + side - 1]
        return found, counts

    def offsets(self) -> Array:
        found: Array = np.asarray(self.maps / (self.room * self.images))
        return found

    def strongest(self) -> Array:
        maps = self.offsets()
        side = (maps.shape[-1] + 1) // 2
        enough = self.room >= WORTH * side * side
        flat = np.where(enough, maps, -1.0).reshape(*maps.shape[:2], -1).argmax(axis=-1)
        found: Array = np.stack(np.divmod(flat, 2 * side - 1), axis=-1) - (side - 1)
        return found


def _entropy(mu: Array) -> Array:
    logs = np.log(mu, out=np.zeros_like(mu), where=mu > 0)
    found: Array = -(mu * logs).sum(axis=-1)
    return found


def _later(progress: Progress, before: int, total: int) -> Progress:
    """Progress that goes on from what is done already."""
    return lambda what, done, _, /: progress(what, before + done, total)


def _effects(
    reading: Reading, trace: Trace, target: Target, layers: int, heads: int, progress: Progress
) -> Array:
    """What cutting each head changes the target's logit and probability by: 2 x layers x heads."""
    replay = Replay(reading, trace, target)
    names = [f"P[{l},{m}]" for l in range(1, layers + 1) for m in range(1, heads + 1)]
    cuts = [partial(replay.outcome, {name: np.zeros_like(trace[name])}) for name in names]
    values, odds = replay.read([replay.outcome({}), *each(cuts, "heads", progress)])
    odds = np.full_like(values, np.nan) if odds is None else odds
    changes = [numbers[1:] - numbers[0] for numbers in (values, odds)]
    return np.array(changes).reshape(2, layers, heads)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _shown(value: float | None, name: str) -> str:
    if value is None:
        return ""
    return f"{value:+.4f}" if name in EFFECTS else f"{value:.3f}"

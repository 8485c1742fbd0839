"""Texts and words as vectors, and which of them are near each other (2.2).

Static vectors are columns of E; contextual ones are hidden states. What the states mean, step by
step, is left to ``dissection``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vesalius import arguments
from vesalius import equations as eq
from vesalius.arguments import Progress, silent
from vesalius.capabilities import context_of, require_fits, require_served, tokenizer_of
from vesalius.checkpoints import files
from vesalius.checkpoints.plain import replacing
from vesalius.equations import OneHot
from vesalius.equations.parameters import Array
from vesalius.errors import (
    EmptyCorpus,
    EmptySequence,
    ImpossibleSetting,
    NotInVocabulary,
    UnknownSetting,
    Unwritable,
    WrongKind,
)
from vesalius.families import family_of
from vesalius.generation.forward import hidden_states
from vesalius.model import Model, ModelLike, loaded
from vesalius.tokenizers import Tokenizer
from vesalius.views.shown import Part, Shown, Table, counted, noted

SHOWN = 20
"""Texts that a table shows."""
WHAT = ("mean", "cls", "tokens", "static")
"""What a text can be embedded as."""
EMBEDDING = "embedding"
"""What progress is told of, in texts."""
AT_ONCE = 4096
"""Texts whose states of every token are held at once."""


@dataclass(frozen=True, repr=False)
class Embeddings(Shown):
    """The vectors of some texts, in the order in which they were given."""

    texts: list[str]
    tokens: list[list[str]]
    """The pieces that each text was read as."""
    what: str
    layer: int | None
    vectors: Array | list[Array]
    """texts x d; of tokens, one array of n x d a text."""
    hint: str = ""
    """What may be wrong with the texts."""

    def save(self, file: str | Path) -> None:
        """Write the vectors to .npy or .safetensors, whole or not at all.

        In safetensors they are called "vectors"; those of tokens are called "0", "1", … by text.
        """
        file = Path(file)
        require_saveable(file, self.what)
        if file.suffix == ".npy":
            with replacing(file) as place, place.open("wb") as opened:
                np.save(opened, self.vectors)
            return
        arrays = (
            {str(i): array for i, array in enumerate(self.vectors)}
            if isinstance(self.vectors, list)
            else {"vectors": self.vectors}
        )
        files.write(file, arrays, str(self.vectors[0].dtype))

    def to_json(self) -> dict[str, Any]:
        rows = zip(self.texts, self.tokens, self.vectors, strict=True)
        found = [{"text": t, "tokens": p, "vector": v.tolist()} for t, p, v in rows]
        return {"what": self.what, "layer": self.layer, "texts": found, "hint": self.hint}

    def __repr__(self) -> str:
        many = counted(len(self.texts), "text")
        layer = "" if self.layer is None else f" after layer {self.layer}"
        about = f"{self.what}{layer} of {many}, {self.vectors[0].shape[-1]} numbers each"
        return "\n  ".join([f"Embeddings: {about}", *noted(self.hint)])

    def view(self) -> Iterator[Part]:
        rows = []
        for text, vectors in zip(self.texts[:SHOWN], self.vectors, strict=False):
            numbers = "  ".join(f"{x:.4f}" for x in vectors.ravel()[:4])
            shape = " × ".join(map(str, vectors.shape))
            short = text if len(text) <= 48 else f"{text[:47]}…"
            rows.append((short, shape, f"{np.linalg.norm(vectors):.4g}", f"{numbers} …"))
        heads = ("text", "shape", "norm", "first numbers")
        yield Table(heads, rows, right=(2,), prose=(0,))
        if more := len(self.texts) - len(rows):
            yield f"{more:,} more texts are left out; to_json and save have all"
        yield from noted(self.hint)


def require_saveable(file: Path, what: str) -> None:
    """Refuse a name under which vectors cannot be saved; better before they are computed."""
    if file.suffix not in (".npy", ".safetensors"):
        raise WrongKind(f"embeddings are saved as .npy or .safetensors, got {str(file)!r}")
    if what == "tokens" and file.suffix == ".npy":
        raise WrongKind(
            f"vectors of tokens are one array for each text, and .npy holds only one; "
            f"save them as .safetensors, not {str(file)!r}"
        )
    if not file.absolute().parent.is_dir():
        raise Unwritable(f"there is no folder {file.parent} to write {file.name} in")


def embed(
    model: ModelLike,
    texts: str | Iterable[str],
    what: str = "mean",
    layer: int | None = None,
    batch: int = 32,
    progress: Progress | None = None,
    *,
    truncate: bool = False,
) -> Embeddings:
    """The vectors of texts.

    ``mean``: the mean of the states of all tokens of a text, [CLS] and [SEP] among them where the
    tokenizer adds them, as sentence-transformers has it. ``cls``: the state of [CLS]. ``tokens``:
    every token's state. ``static``: the mean of the tokens' columns of E, without added tokens; for
    a word of one token, its column.

    States are those after ``layer``, as ``dissect`` names them H[layer], or h[layer,i] in recurrent
    models: the output of layer l, or for 0 the input of the first. By default they are the input of
    the output layer: the last states, in variant 2, such as GPT-2, after the final normalisation
    (Hᵉ, not H[L]).

    Up to ``batch`` texts go through the model at once, with the same result. A text longer than the
    model's context is an error, or is cut with ``truncate``.
    """
    model = loaded(model)
    require_served(model, "embed")
    layer = None if layer is None else arguments.whole("layer", layer)
    _require_possible(model, what, layer)
    batch, texts = arguments.whole("batch", batch, least=1), arguments.texts("texts", texts)
    arguments.callback("progress", progress)
    if not texts:
        raise EmptyCorpus("there are no texts; expected one at least")
    tokenizer, tell = tokenizer_of(model), progress or silent
    if what == "static":
        rows = _tokens(tokenizer, texts, framed=False)
        vectors = [_static(model, row) for row in rows]
        tell(EMBEDDING, len(rows), len(rows))
    else:
        rows = _framed(model, tokenizer, texts, truncate)
        if what == "cls" and any(row[0] != tokenizer.special.get("[CLS]") for row in rows):
            raise WrongKind(
                "the model's tokenizer puts no [CLS] before a text; expected BERT's, or another "
                "kind of vector, such as mean"
            )
        vectors = _contextual(model, rows, what, layer, batch, tell)
    pieces = [[tokenizer.piece(i) for i in row] for row in rows]
    whole = vectors if what == "tokens" else np.stack(vectors)
    hint = tokenizer.note_unknown(id_ for row in rows for id_ in row)
    return Embeddings(texts, pieces, what, layer, whole, hint)


def _require_possible(model: Model, what: str, layer: int | None) -> None:
    if what not in WHAT:
        kinds = f"{', '.join(WHAT[:-1])} or {WHAT[-1]}"
        raise UnknownSetting(f"texts are embedded as {kinds}, got {what!r}")
    if what == "static" and layer is not None:
        raise ImpossibleSetting("static vectors are columns of E and have no layer; leave it out")
    if family_of(model.config).window and what != "static":
        raise WrongKind(
            f"{what} needs a state for every token, and ffnn has one for a whole window; "
            f"it serves static"
        )
    layers: int = model.config.layers  # type: ignore[attr-defined]
    if layer is not None and not 0 <= layer <= layers:
        raise ImpossibleSetting(f"this model has layers 0 to {layers}, got {layer}")


def _tokens(tokenizer: Tokenizer, texts: list[str], framed: bool) -> list[list[int]]:
    """The tokens of texts; each has one at least, its frame not counted."""
    *rows, frame = tokenizer.encode_many([*texts, ""], framed)
    for i, row in enumerate(rows, 1):
        if len(row) <= len(frame):
            raise EmptySequence(f"{_called(i, rows)} is empty; expected some words")
    return rows


def _framed(
    model: Model, tokenizer: Tokenizer, texts: list[str], truncate: bool
) -> list[list[int]]:
    """The tokens of texts as the model reads them, cut to its context where that is allowed."""
    rows = _tokens(tokenizer, texts, framed=True)
    remedy = "shorten it, or say truncate to have it cut"
    for i, row in enumerate(rows if not truncate else (), 1):
        require_fits(model, len(row), _called(i, rows), remedy)
    return [_cut(row, context_of(model), tokenizer.special.get("[SEP]")) for row in rows]


def _cut(row: list[int], context: int | None, end: int | None) -> list[int]:
    """As many tokens as fit; the last stays where it is the end of a frame."""
    if context is None or len(row) <= context:
        return row
    return [*row[: context - 1], end] if row[-1] == end else row[:context]


def _called(number: int, rows: list[list[int]]) -> str:
    return f"text {number} of {len(rows)}" if len(rows) > 1 else "the text"


def _static(model: Model, ids: list[int]) -> Array:
    """The mean of the columns of E (2)."""
    E: Array = model.parameters.E
    mean: Array = eq.embed(E, OneHot(ids, E.shape[1])).mean(axis=1)
    return mean


def _contextual(
    model: Model,
    rows: list[list[int]],
    what: str,
    layer: int | None,
    batch: int,
    progress: Progress,
) -> list[Array]:
    read: dict[str, Callable[[Array], Array]] = {
        "mean": lambda states: states.mean(axis=0),
        "cls": lambda states: states[0].copy(),
        "tokens": lambda states: states.copy(),
    }
    found: list[Array] = []
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]

        def tell(what: str, done: int, total: int | None, /, before: int = start) -> None:
            progress(EMBEDDING, before + done, len(rows))

        states = hidden_states(model, some, layer, batch=batch, progress=tell)
        found += [read[what](of) for of in states]
    return found


# Nearness -----------------------------------------------------------------------


class Neighbour(NamedTuple):
    """A word or a text, and how near it is."""

    text: str
    score: float

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def cosine(vectors: Array, to: Array) -> Array:
    """The cosines between the rows and a vector, higher where nearer; 0 where one is zero."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(to)
    cosines = np.divide(vectors @ to, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    bounded: Array = cosines.clip(-1, 1)  # rounding may go beyond
    return bounded


def euclidean(vectors: Array, to: Array) -> Array:
    """The lengths of the differences between the rows and a vector, lower where nearer."""
    distances: Array = np.linalg.norm(vectors - to, axis=1)
    return distances


DISTANCES = {"cosine": cosine, "euclidean": euclidean}


def similar(
    model: ModelLike,
    query: str,
    among: Iterable[str] | None = None,
    top: int = 10,
    distance: str = "cosine",
    what: str | None = None,
    *,
    truncate: bool = False,
    progress: Progress | None = None,
) -> list[Neighbour]:
    """What is nearest to a word or a text, nearest first.

    Without ``among``, the words of the vocabulary by their columns of E; neither special tokens nor
    those of the query are among them, and a query of several tokens is the mean of their columns.
    With it, those texts, embedded as ``what``: the mean of their states by default, or of static
    vectors in ffnn. Of ``cosine`` the highest is nearest, of ``euclidean`` the lowest.
    """
    model = loaded(model)
    require_served(model, "similar")
    query, top = arguments.text("query", query), arguments.whole("top", top, least=1)
    distance = arguments.choice("distance", distance, DISTANCES)
    arguments.callback("progress", progress)
    if among is None:
        if what not in (None, "static"):
            raise ImpossibleSetting(
                f"words are compared by their static vectors, not by {what!r}, which is for texts; "
                f"give texts to compare with"
            )
        return _similar_words(model, query, top, distance)
    what = what or ("static" if family_of(model.config).window else "mean")
    if what == "tokens":
        raise ImpossibleSetting("texts are compared by one vector each, so not by tokens")
    texts = arguments.texts("among", among)
    if not texts:
        raise EmptyCorpus("there are no texts to compare with; expected one at least")
    found = embed(model, [query], what, truncate=truncate).vectors[0]
    others = embed(model, texts, what, truncate=truncate, progress=progress).vectors
    assert not isinstance(others, list), "one vector a text"
    scores = DISTANCES[distance](others, found)
    return [Neighbour(texts[i], float(scores[i])) for i in order(scores, distance)[:top]]


def _similar_words(model: Model, query: str, top: int, distance: str) -> list[Neighbour]:
    tokenizer = tokenizer_of(model)
    (ids,) = _tokens(tokenizer, [query], framed=False)
    special = tokenizer.special
    if special.get("[UNK]") in ids:
        raise NotInVocabulary(f"{query!r} is not in the vocabulary; expected words that are")
    scores = DISTANCES[distance](model.parameters.E.T, _static(model, ids))
    left_out = {*ids, *special.values()}
    ranked = (int(i) for i in order(scores, distance) if int(i) not in left_out)
    # An embedding may have more rows than there are words.
    words = ((i, piece) for i in ranked if (piece := tokenizer.piece(i)))
    some = islice(words, min(top, len(scores)))  # any number may be asked for
    return [Neighbour(piece, float(scores[i])) for i, piece in some]


def order(scores: Array, distance: str) -> Array:
    """Indices, nearest first."""
    return np.argsort(-scores if distance == "cosine" else scores, kind="stable")

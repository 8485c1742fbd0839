"""Examples for models of images, pixels and series: what no recipe trains on, by number.

They are of the corpus that a specimen's card names, as far as it is at hand; of Fashion-MNIST a few
are in the package. Files of one's own are left to ``inputs``.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from vesalius import arguments
from vesalius.data import parts, registry
from vesalius.data.arrays import read_arrays
from vesalius.data.images import Images
from vesalius.data.series import Series
from vesalius.data.settings import ImageData, SeriesData
from vesalius.equations.parameters import Array
from vesalius.errors import NotFetched, UnknownCorpus, WrongKind, WrongLength
from vesalius.families import family_of
from vesalius.inputs import read_pixels
from vesalius.model import Model, ModelLike, loaded
from vesalius.specimens import FOLDER, card

PACKED = Path(parts.__file__).parent / "examples"
"""Some of a corpus whose licence lets it come with the package."""
FEW = 12
"""Examples to begin with: the first of each class, of as many classes."""


@dataclass(frozen=True, eq=False)
class Example:
    """One picture as bytes, height x width, or one series, channels x time."""

    number: int
    values: Array
    label: str | None


@dataclass(frozen=True, eq=False)
class Shelf:
    """What there are for a model."""

    corpus: str
    held: Images | Series | None
    """All that recipes do not train on, where the corpus is at hand."""
    packed: tuple[Example, ...]

    @property
    def count(self) -> int:
        """How many can be asked for by any number."""
        return 0 if self.held is None else len(self.held)

    @property
    def few(self) -> list[tuple[int, str | None]]:
        """Numbers and labels to begin with."""
        if self.packed:
            return [(one.number, one.label) for one in self.packed]
        if self.held is None:
            return []
        labels = self.held.labels
        if labels is None:
            return [(number, None) for number in range(min(FEW, len(self.held)))]
        _, first = np.unique(labels, return_index=True)
        return [(int(number), self[int(number)].label) for number in sorted(first)[:FEW]]

    def __getitem__(self, number: int) -> Example:
        for one in self.packed:
            if one.number == number:
                return one
        if self.held is None:
            raise NotFetched(
                f"example {number} is of {self.corpus}, which is not here; "
                f"fetch it with: vesalius data get {self.corpus}"
            )
        if not 0 <= number < len(self.held):
            raise WrongLength(f"{self.corpus} has examples 0 to {len(self.held) - 1}, got {number}")
        if isinstance(self.held, Images):
            values = np.moveaxis(self.held.pixels[number], 0, 2)
            values = values[:, :, 0] if values.shape[2] == 1 else values
        else:
            values = np.asarray(self.held.values[number]).T
        label = None if self.held.labels is None else int(self.held.labels[number])
        return Example(number, values, None if label is None else _name(self.held, label))


def _name(held: Images | Series, label: int) -> str:
    return held.names[label] if held.names else str(label)


def shelf(model: Model) -> Shelf:
    """The examples for a model; those of a specimen, whose corpus is known."""
    reads = family_of(model.config).reads
    known = model.folder is not None and model.folder.parent == FOLDER
    if reads == "text" or not known:
        raise WrongKind(
            f"there are no examples for this {model.family}: its corpus is not known"
            if reads != "text"
            else f"examples are for models of images and series, {model.family} reads text"
        )
    assert model.folder is not None
    return _shelf(card(model.folder.name).corpus, "series" if reads == "series" else "images")


@cache
def _shelf(corpus: str, kind: str) -> Shelf:
    held: Images | Series | None = None
    try:
        if kind == "images":
            held, _ = parts.held_out_images(ImageData(corpus=corpus))
        else:
            held, _ = parts.held_out_series(SeriesData(corpus=corpus))
    except (NotFetched, UnknownCorpus):
        pass  # what is in the package has to do
    file = PACKED / f"{corpus}.npz"
    return Shelf(corpus, held, _packed(corpus, file) if file.exists() else ())


def _packed(corpus: str, file: Path) -> tuple[Example, ...]:
    arrays = read_arrays(file)
    names = registry.corpus(corpus).classes
    rows = zip(arrays["numbers"], arrays["images"], arrays["labels"], strict=True)
    return tuple(Example(int(number), image, names[label]) for number, image, label in rows)


def example(model: ModelLike, number: int = 0) -> Array | list[int]:
    """A picture or a series that a specimen was not trained on, as ``dissect`` takes it.

    The numbers are those of the part of its corpus that recipes validate on. A model of pixels is
    given tokens: the one to start from, and every pixel but the last.
    """
    model = loaded(model)
    found = shelf(model)[arguments.whole("number", number, least=0)]
    if family_of(model.config).reads != "pixels":
        return found.values
    return pixel_tokens(model, read_pixels(model, found.values).values)


def pixel_tokens(model: Model, colours: Array) -> list[int]:
    """Pixels as a model is to read them: after the token to start from, unless it sees them all."""
    if not getattr(model.config, "causal", True):
        return [int(i) for i in colours]
    start: int = model.config.vocabulary - 1  # type: ignore[attr-defined]
    return [start, *(int(i) for i in colours[:-1])]

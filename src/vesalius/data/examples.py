"""Examples for models of images, pixels and series: what no recipe trains on, by number.

They are of the corpus that a specimen's card names, as far as it is at hand; of Fashion-MNIST a few
are in the package. Of a model that forecasts they are windows of the test part of the corpus that
it was trained on, with what followed. Files of one's own are left to ``inputs``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from vesalius import arguments
from vesalius.data import parts, registry
from vesalius.data.arrays import read_arrays
from vesalius.data.images import Images
from vesalius.data.inputs import read_pixels
from vesalius.data.lookbacks import LookBacks
from vesalius.data.series import Series
from vesalius.data.settings import ForecastData, ImageData, SeriesData
from vesalius.data.timelines import Windows, borders, fitted, read_timeline
from vesalius.equations.parameters import Array
from vesalius.errors import NotFetched, UnknownCorpus, WrongKind, WrongLength
from vesalius.families import family_of
from vesalius.families.family import OwnConfig
from vesalius.model import Model, ModelLike, loaded
from vesalius.specimens import FOLDER, card

PACKED = Path(parts.__file__).parent / "packed"
"""Some of a corpus whose licence lets it come with the package."""
PARTS = ("borders", "split", "test")
"""Settings of a recipe that say where the parts of a series end."""
FEW = 12
"""Examples to begin with: the first of each class, of as many classes."""


@dataclass(frozen=True, eq=False)
class Example:
    """One picture as bytes, height x width, or one series, channels x time."""

    number: int
    values: Array
    label: str | None
    times: tuple[str, ...] = ()
    """When each time step was, of a series along time, and those that are forecast."""
    follows: Array | None = None
    """What such a series went on to be, channels x time."""


@dataclass(frozen=True, eq=False)
class Shelf:
    """What there are for a model."""

    corpus: str
    held: Images | Series | LookBacks | None
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
        if isinstance(self.held, LookBacks):
            numbers = np.linspace(0, len(self.held) - 1, min(FEW, len(self.held))).astype(int)
            return [(int(number), self.held.when(int(number))) for number in numbers]
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
        if isinstance(self.held, LookBacks):
            past, follows = self.held[number]
            return Example(number, past, None, self.held.times(number), follows)
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
    """The examples for a model whose corpus is known: of a specimen, or of one that forecasts."""
    reads = family_of(model.config).reads
    if family_of(model.config).forecast is not None:
        return _look_backs(model)
    known = model.folder is not None and model.folder.parent == FOLDER
    if reads == "text" or not known:
        raise WrongKind(
            f"there are no examples for this {model.family}: its corpus is not known"
            if reads != "text"
            else f"examples are for models of images and series, {model.family} reads text"
        )
    assert model.folder is not None
    return _shelf(card(model.folder.name).corpus, "series" if reads == "series" else "images")


def _look_backs(model: Model) -> Shelf:
    """Windows of the corpus that the recipe names, not of a file: no model chooses one to read."""
    recipe = model.preprocessing.recipe
    told = recipe.get("data") if isinstance(recipe, Mapping) else None
    default = ForecastData().corpus  # recipes leave out what is as by default
    corpus = told.get("corpus", default) if isinstance(told, Mapping) else None
    known = [one.name for one in registry.corpora() if one.kind == ForecastData.kind]
    if not isinstance(told, Mapping) or corpus not in known:
        raise WrongKind(
            f"there are no examples for this {model.family}: its corpus is not known, or no "
            f"corpus of the registry; give it a file"
        )
    config: OwnConfig = model.config
    names = model.preprocessing.channel_names(config.channels)
    try:
        data = ForecastData(corpus=corpus, **{k: told[k] for k in PARTS if k in told})
        held = _windows(data, config.channels, tuple(names), config.context, config.horizon)
    except NotFetched:
        return Shelf(str(corpus), None, ())
    return Shelf(str(corpus), held, ())


@cache
def _windows(
    data: ForecastData, channels: int, names: tuple[str, ...], context: int, horizon: int
) -> LookBacks:
    timeline = fitted(read_timeline(data.corpus), channels, names, data.corpus)
    _, first, end = borders(len(timeline), data)
    return LookBacks(timeline, Windows("test", timeline.values, first, end, context, horizon))


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
    """A picture or a series that a model was not trained on, as ``dissect`` takes it.

    Models are specimens, and those that forecast a corpus of the registry. The numbers are those
    of the part of its corpus that recipes validate on; of a forecast, of the part to test on. A
    model of pixels is given tokens: the one to start from, and every pixel but the last.
    """
    model = loaded(model)
    found = shelf(model)[arguments.whole("number", number, least=0)]
    if family_of(model.config).reads != "pixels":
        return found.values
    return pixel_tokens(model, read_pixels(model, found.values).values)


def pixel_tokens(model: Model, colours: Array) -> list[int]:
    """Pixels as a model is to read them: after the token to start from, unless it sees them all."""
    if not model.config.causal:
        return [int(i) for i in colours]
    start: int = model.config.vocabulary - 1
    return [start, *(int(i) for i in colours[:-1])]

"""What models of images and series are given: arrays and files, prepared as in training.

Pixels and values are scaled by what the model keeps in ``preprocessing.json``, unless they are
said to be raw; for models of pixels they become tokens. Each input says what was done to it. Text
is left to tokenizers.
"""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius.checkpoints import preprocessor
from vesalius.checkpoints.plain import require_end
from vesalius.data import images
from vesalius.data.arrays import read_array
from vesalius.data.pictures import SUFFIXES, from_bytes, looks_inverted, read_picture
from vesalius.data.series import cut, has_column, read_series
from vesalius.data.timelines import brief, fitted, read_timeline
from vesalius.equations.parameters import Array
from vesalius.errors import (
    EmptySequence,
    NotFinite,
    SequenceTooLong,
    UnusableData,
    WrongKind,
    WrongLength,
)
from vesalius.families import family_of
from vesalius.families.config import Config
from vesalius.families.family import OwnConfig
from vesalius.model import PREPROCESSING, Model
from vesalius.preparation import Preparation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Source = str | os.PathLike[str] | ArrayLike
    """A file, or an array of any library, lists of numbers too: an image, a series, or several."""

AREA = 2048
"""Pixels of a side up to which pictures are shrunk by areas; larger ones by Pillow's filter."""
RAW = "taken as given: raw"
UNKNOWN = f"taken as given: the model has no {PREPROCESSING} or {preprocessor.FILE}"
SCALED = "scaled as in training"
FILES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "images": ("an image", "height x width x channels", (*SUFFIXES, ".npy")),
    "series": ("a series", "channels x time", (".ts", ".csv", ".npy")),
}
"""The name, the axes and the files of each kind of input, by ``Family.reads``."""


@dataclass(frozen=True, eq=False)
class Input:
    """One image (height x width x channels) or series (channels x time), ready for the model."""

    values: Array
    done: tuple[str, ...]
    """What was done to it, in words."""
    source: str = ""
    """The file, and which of those in it."""
    label: str | None = None
    """The class that its file says it has."""
    real: Array | None = None
    """Of a series with gaps: the time steps at which any channel is known."""
    hint: str = ""
    """What may be wrong with it."""
    times: tuple[str, ...] = ()
    """When each time step was, of a series along time, and those that are forecast."""

    @property
    def prepared(self) -> str:
        return "; ".join(self.done)


def reads_arrays(model: Model) -> bool:
    """Whether a model reads images or series, not tokens."""
    return family_of(model.config).reads in FILES


def position_names(model: Model, given: Input) -> list[str]:
    """What the columns of the states are called: patches, or time steps, by their numbers.

    Patch 3 of channel 2 is ``c2 patch 3``.
    """
    s = model.config.symbols()
    if family_of(model.config).by_channel:
        channels, patches = range(1, s["C"] + 1), range(1, s["n"] + 1)
        return [f"c{c} patch {i}" for c in channels for i in patches]  # short: pictures cut names
    if not _is_series(model.config):
        return ["[class]", *(f"patch {i}" for i in range(1, s["n"]))]
    steps = [f"time {i}" for i in range(1, given.values.shape[1] + 1)]
    return steps + ["pad"] * (0 if s["series"] else s["n_max"] - len(steps))


def label_kind(model: Model) -> str:
    """What a model's labels are: classes, several labels at once, values; empty without a head."""
    labels = family_of(model.config).classes(model.config)
    return preprocessor.label_kind(model.preprocessing, model.origin, labels) if labels else ""


def class_names(model: Model) -> list[str]:
    """What the classes of a model are called; none where it tells no classes apart."""
    return label_names(model) if label_kind(model) == "classes" else []


def label_names(model: Model) -> list[str]:
    """What the labels of a model are called, or its tags; none where it has no head for any."""
    labels = family_of(model.config).classes(model.config) or model.config.symbols().get("labels")
    if not labels:
        return []
    names = model.preprocessing.names or preprocessor.names(model.origin)
    return Preparation(names=names).class_names(int(labels))


def read_inputs(
    model: Model, given: "Source", raw: bool = False, invert: bool = False
) -> list[Input]:
    """The inputs that an array or a file holds.

    Bytes of an image, and files, are made what the model reads by the rule of ``data.pictures``;
    other arrays have to fit as they are. Gaps of a series, which only files have, are filled with
    the mean, as in training. ``invert`` is for images whose background is the other one.
    """
    what, axes, suffixes = FILES[family_of(model.config).reads]
    if isinstance(given, str | os.PathLike):
        file = Path(given)
        require_end(file)
        if not file.is_file():
            raise WrongKind(
                f"there is no file {str(given)!r}, and this model does not read text; expected "
                f"{what}: an array, {axes}, or a file of {', '.join(suffixes)}"
            )
        if file.suffix.lower() not in suffixes:
            raise WrongKind(
                f"{file} cannot be read as {what}; expected a file of {', '.join(suffixes)}"
            )
        if file.suffix.lower() != ".npy":
            reader = _series_file if _is_series(model.config) else _picture_file
            return reader(model, file, raw, invert)
        given, source = read_array(file), str(file)
    else:
        source = ""
    array = _array(given, f"{what}: {axes}")
    if not array.size:
        raise EmptySequence(f"expected {what}: {axes}; got an array of {_shape(array)}")
    if _is_series(model.config):
        several, prepare = array.ndim == 3, _series
    else:  # what ends in up to four is an image's channels
        _require_channels_last(model, array)
        several = array.ndim == 4 or (array.ndim == 3 and array.shape[2] > 4)
        prepare = partial(_image, invert=invert)
    parts = list(array) if several else [array]
    return [
        prepare(model, part, raw, _numbered(source, i, len(parts))) for i, part in enumerate(parts)
    ]


def read_input(
    model: Model,
    given: "Source",
    raw: bool = False,
    invert: bool = False,
    index: int | None = None,
) -> Input:
    """The only input that is given, or the one of this number, from 0."""
    found = read_inputs(model, given, raw, invert)
    if index is None:
        if len(found) > 1:
            raise WrongLength(
                f"there are {len(found)} in it, and one is read at a time; "
                f"say which with index, 0 to {len(found) - 1}"
            )
        return found[0]
    if not 0 <= index < len(found):
        raise WrongLength(f"expected an index of 0 to {len(found) - 1}, got {index}")
    return found[index]


def _is_series(config: Config) -> bool:
    return family_of(config).reads == "series"


def _forecasts(config: Config) -> bool:
    """Whether a series is one along time, whose end is what the model looks back on."""
    return family_of(config).forecast is not None


def _array(given: "ArrayLike", expected: str) -> Array:
    if hasattr(given, "detach"):  # a tensor of PyTorch
        given = given.detach().cpu().numpy()
    try:
        array = np.asarray(given)
    except ValueError as error:  # lists of unequal lengths
        raise WrongKind(f"expected {expected}, as an array; got {error}") from error
    if array.dtype.kind not in "fiu":
        got = f"one of {array.dtype}" if isinstance(given, np.ndarray) else type(given).__name__
        raise WrongKind(f"expected {expected}, as an array of numbers; got {got}")
    return array


def _shape(array: Array) -> str:
    return " x ".join(map(str, array.shape)) or "no axes"


def _numbered(source: str, number: int, of: int) -> str:
    if of == 1:
        return source
    return f"{source}, {number}" if source else str(number)


def _dtype(model: Model) -> "np.dtype[Any]":
    return next(iter(model.state.values())).dtype


def _require_finite(values: Array, what: str) -> None:
    if not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise NotFinite(
            f"NaN or infinity in the {what}: {count:,} of {values.size:,} numbers; fill the gaps"
        )


# Images ------------------------------------------------------------------------


def _picture_file(model: Model, file: Path, raw: bool, invert: bool) -> list[Input]:
    config: OwnConfig = model.config
    picture = read_picture(file, config.image, config.channels, invert)
    return [_scaled_image(model, picture.pixels, raw, picture.done, str(file))]


def _require_channels_last(model: Model, array: Array) -> None:
    """Three colours that come first would be taken for three grey images."""
    config: OwnConfig = model.config
    if array.ndim in (3, 4) and array.shape[-3] == config.channels > 1 and array.shape[-1] > 4:
        raise WrongLength(
            f"expected height x width x channels, got {_shape(array)}, whose channels come first, "
            f"as in PyTorch; np.moveaxis(array, -3, -1) puts them last"
        )


def _image(model: Model, array: Array, raw: bool, source: str, invert: bool) -> Input:
    config: OwnConfig = model.config
    if array.ndim not in (2, 3):
        raise WrongKind(
            f"this model reads an image: height x width x channels; "
            f"got an array of {array.ndim} axes"
        )
    if array.dtype.kind in "iu" and array.min() >= 0 and array.max() <= 255:
        picture = from_bytes(array.astype(np.uint8), config.image, config.channels, invert)
        return _scaled_image(model, picture.pixels, raw, picture.done, source)
    if invert:
        raise WrongKind("only bytes, 0 to 255, can be inverted; this array holds other numbers")
    _require_finite(array, "image")
    array = array[:, :, None] if array.ndim == 2 and config.channels == 1 else array
    if array.shape != (config.image, config.image, config.channels):
        raise WrongLength(
            f"this model reads {config.image} x {config.image} x {config.channels} numbers, "
            f"got {_shape(array)}; only bytes are greyed and resized"
        )
    if model.preprocessing and not raw:
        _require_pixels(array)
    return _scaled_image(model, array, raw, (), source)


def _require_pixels(array: Array) -> None:
    """Numbers that are scaled already would be scaled twice."""
    least, most = array.min(), array.max()
    shares = least >= 0 and most <= 1 and (array != np.round(array)).any()
    if least < 0 or most > 255 or shares:
        raise UnusableData(
            f"expected pixels of 0 to 255, got {least:.4g} to {most:.4g}; "
            f"{'multiply by 255' if shares else 'undo their scaling'}, or say raw where the model "
            f"is to read them as they are"
        )


def _scaled_image(
    model: Model, pixels: Array, raw: bool, done: tuple[str, ...], source: str
) -> Input:
    config: OwnConfig = model.config
    if raw or not model.preprocessing:
        values, how, hint = pixels, RAW if raw else UNKNOWN, ""
    else:
        scale = model.preprocessing.scaling(config.channels)
        values, how = scale.apply(pixels), SCALED
        grey = pixels.dtype == np.uint8 and config.channels == 1 and "inverted" not in done
        mean, hint = float(scale.mean.mean()), ""
        if grey and looks_inverted(pixels, mean):
            hint = (
                f"its border is bright, but the model's images were dark "
                f"({mean:.0f} of 255 on average); invert may be what is wanted"
            )
    return Input(values.astype(_dtype(model)), (*done, how), source, hint=hint)


# Pixels as tokens --------------------------------------------------------------


def read_pixels(model: Model, given: "Source", invert: bool = False) -> Input:
    """A picture as the colours that igpt reads, from 0, row by row; as in training.

    Its size becomes the model's by the mean of the area that each pixel covers. The token to start
    from is not among them.
    """
    side, levels = _side_and_levels(model)
    if isinstance(given, str | os.PathLike) and Path(given).suffix.lower() in SUFFIXES:
        picture, source = read_picture(Path(given), None, 1, invert), str(given)
    else:
        given = read_array(Path(given)) if isinstance(given, str | os.PathLike) else given
        array = _array(given, "an image: height x width")
        if array.dtype.kind not in "iu" or not array.size or array.min() < 0 or array.max() > 255:
            raise WrongKind("expected an image as bytes, 0 to 255: height x width x channels")
        picture, source = from_bytes(array.astype(np.uint8), None, 1, invert), ""
    done, (height, width, _) = picture.done, picture.pixels.shape
    if (height, width) != (side, side):
        done = (*done, f"resized from {width} x {height} to {side} x {side}")
    if height == width and side <= width <= AREA:
        small = images.shrunk(images.Images(picture.pixels[None, None, :, :, 0]), side)
        pixels = small.pixels
    else:  # whose pixels have no area of whole numbers
        pixels = from_bytes(picture.pixels, side, 1).pixels[None, None, :, :, 0]
    values = images.colours(images.Images(pixels), levels)[0].astype(np.int64)
    return Input(values, (*done, f"rounded to {levels} greys"), source)


def _side_and_levels(model: Model) -> tuple[int, int]:
    kept, config = model.preprocessing, model.config
    side, levels = kept.side, kept.levels
    if not isinstance(side, int) or not isinstance(levels, int):
        raise WrongKind(
            f"how pictures become this model's colours is not known: its {PREPROCESSING} says no "
            f"levels and side; give it token ids"
        )
    symbols = config.symbols()
    if levels >= symbols["V"] or side * side > symbols["n_max"]:
        raise kept.unfitting(f"levels and side of {symbols['V']} colours at most")
    return side, levels


# Series ------------------------------------------------------------------------


def _series_file(model: Model, file: Path, raw: bool, invert: bool) -> list[Input]:
    if invert:
        raise WrongKind("a series cannot be inverted; that is for images")
    kept = model.preprocessing
    if _forecasts(model.config) and file.suffix.lower() == ".csv":
        config: OwnConfig = model.config
        names = kept.channel_names(config.channels)
        timeline = fitted(read_timeline(file), config.channels, names, str(file))
        times = (*timeline.times, *timeline.after(config.horizon)) if timeline.times else ()
        times = brief(times)
        read = _series(model, timeline.values.T, raw, str(file))
        return [replace(read, times=times[-config.horizon - read.values.shape[1] :])]
    label = kept.label
    if file.suffix.lower() == ".csv" and label and not has_column(file, label):
        label = None
    found = read_series(file, None if file.suffix.lower() == ".ts" else label)
    count, window = len(found), kept.window
    if window is not None:
        found = cut(found, window, kept.stride)
    done = (f"cut into windows of {window}",) if len(found) > count else ()
    return [
        _series(
            model,
            np.asarray(values).T,
            raw,
            _numbered(str(file), i, len(found)),
            done,
            None if found.labels is None else found.names[found.labels[i]],
            gaps=True,
        )
        for i, values in enumerate(found.values)
    ]


def _series(
    model: Model,
    values: Array,
    raw: bool,
    source: str,
    done: tuple[str, ...] = (),
    label: str | None = None,
    gaps: bool = False,
) -> Input:
    config: OwnConfig = model.config
    if values.ndim != 2:
        raise WrongKind(
            f"this model reads a series: channels x time; got an array of {values.ndim} axes"
        )
    if len(values) != config.channels:
        turned = "; transpose it" if values.shape[1] == config.channels else ""
        raise WrongLength(f"this model reads {config.channels} channels, got {len(values)}{turned}")
    if values.shape[1] > config.context and _forecasts(config):
        done = (*done, f"the last {config.context} of {values.shape[1]:,} time steps")
        values = values[:, -config.context :]
    if values.shape[1] > config.context:
        name = source or "the series"
        raise SequenceTooLong(
            f"{name} has {values.shape[1]} time steps, the model {config.context}; shorten it"
        )
    known = ~np.isnan(values) if gaps else np.ones(values.shape, bool)
    _require_finite(values[known], "series")
    how = RAW if raw else UNKNOWN
    if model.preprocessing and not raw:
        scale = model.preprocessing.scaling(config.channels, axes=(1,))
        values, how = scale.apply(values), SCALED
    if not known.all():
        values = np.where(known, values, 0)
        done = (*done, f"{int((~known).sum()):,} gaps filled with the mean")
    real: Array = np.asarray(known.any(axis=0))
    whole = bool(real.all())
    return Input(values.astype(_dtype(model)), (*done, how), source, label, None if whole else real)

"""Which part of a corpus is trained on, and which is held out: one rule for all who ask.

A corpus by name has a part that no recipe trains on: its folder or files of validation, or else the
last tenth of its text. Of files of one's own, a recipe says what to hold out. The stories have no
end; each use has a seed of its own.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from vesalius.data import images, registry, series, texts
from vesalius.data.batches import generator, used_names
from vesalius.data.settings import ImageData, LabelledData, SeriesData
from vesalius.errors import ImpossibleSetting, UnknownCorpus, UnusableData, nearest

HELD_OUT = 0.1
"""The share of a corpus by name that is held out, where no file of its own is."""
STORIES = "stories"
TRAINING_SEED, VALIDATION_SEED = 1, 2
HELD_OUT_STORIES = texts.StoryTexts(words=50_000, seed=3)
"""Stories that no recipe trains on."""


def here(name: str) -> bool:
    """Whether a corpus is a file or folder of one's own; the empty name is none."""
    return bool(name) and os.path.exists(name)


def located(name: str, kind: str, wanted: Callable[[Path], bool]) -> list[Path]:
    """The files of a named corpus that are ``wanted``, training files first."""
    try:
        found = [file for file in registry.locate(name) if wanted(file)]
    except UnknownCorpus as error:
        names = [known.name for known in registry.corpora() if known.kind == kind]
        raise UnknownCorpus(
            f"there is no file or folder {name!r}, and no corpus of this name; "
            f"{nearest(name, names)}"
        ) from error
    if not found:
        raise UnusableData(f"the corpus {name} holds no {kind}")
    return sorted(found, key=lambda file: ("train" not in file.name.lower(), file))


def training_texts(
    corpus: str, words: int, valid: str | None = None, split: float = HELD_OUT
) -> tuple[texts.Texts, texts.Texts]:
    """What to train on, and what to validate on meanwhile; ``words`` is for stories."""
    if corpus == STORIES:
        train: texts.Texts = texts.StoryTexts(words, TRAINING_SEED)
        return train, _validation(valid or STORIES, words)
    if here(corpus):
        whole = texts.read_texts(corpus)
        if valid is not None:
            return whole, _validation(valid, words)
        if found := _by_folder(whole):
            return found
        if not split:
            raise ImpossibleSetting("[data] split must be above 0, or valid must name another text")
        return texts.split(whole, split)
    train, held_out = named_texts(corpus, split)
    return train, held_out if valid is None else _validation(valid, words)


def _validation(name: str, words: int) -> texts.Texts:
    if name == STORIES:
        return texts.StoryTexts(max(1000, words // 20), VALIDATION_SEED)
    return texts.read_texts(name) if here(name) else named_texts(name)[1]


def named_texts(name: str, split: float = HELD_OUT) -> tuple[texts.FileTexts, texts.FileTexts]:
    """The part of a corpus by name to train on, and the part that is held out."""
    files = sorted(located(name, "text", lambda file: file.suffix in texts.SUFFIXES))
    whole = texts.FileTexts(tuple(texts.Part(file, 0, file.stat().st_size) for file in files))
    if found := _by_folder(whole):
        return found
    if split < HELD_OUT:
        raise ImpossibleSetting(
            f"[data] split must be at least {HELD_OUT} for {name}: its last tenth is what models "
            f"are evaluated on; to split it otherwise, give its file in place of its name"
        )
    return texts.split(whole, split)


def _by_folder(whole: texts.FileTexts) -> tuple[texts.FileTexts, texts.FileTexts] | None:
    """The folders train and valid, where there are both."""
    train, valid = (
        texts.FileTexts(tuple(part for part in whole.parts if part.file.parent.name == name))
        for name in ("train", "valid")
    )
    return (train, valid) if train.parts and valid.parts else None


def evaluation_texts(name: str) -> tuple[texts.Texts, str]:
    """What to evaluate on, and in words which part of the corpus that is.

    Of a corpus by name, what no recipe trains on; of a file or folder, all.
    """
    if name == STORIES:
        return HELD_OUT_STORIES, f"{HELD_OUT_STORIES.name} that no recipe trains on"
    if here(name):
        return texts.read_texts(name), "all"
    train, held_out = named_texts(name)
    of = train.size() + held_out.size()
    return held_out, f"{held_out.size():,} of {of:,} bytes, which no recipe trains on"


def series_files(name: str) -> list[Path]:
    """The files of a corpus of series: one, or one to train on and one that is held out.

    A folder of one's own may hold two .ts files whose names end in _TRAIN and _TEST.
    """
    if not here(name):
        return located(name, "series", lambda file: file.suffix in (".ts", ".csv"))
    path = Path(name)
    found = sorted(path.glob("*.ts")) if path.is_dir() else []
    if not found:
        return [path]
    pair = [[f for f in found if f.stem.upper().endswith(end)] for end in ("_TRAIN", "_TEST")]
    if [len(some) for some in pair] != [1, 1]:
        raise UnusableData(
            f"{name} holds {', '.join(file.name for file in found[:4])}; expected one file whose "
            f"name ends in _TRAIN.ts and one in _TEST.ts, or give a file in place of the folder"
        )
    return [pair[0][0], pair[1][0]]


def evaluated_part(name: str, kind: str) -> str:
    """In words, which part of a corpus of texts, images or series models are evaluated on."""
    if kind == "text":
        return evaluation_texts(name)[1]
    if kind == LabelledData.kind:
        return "all" if here(name) else "what no recipe trains on"
    if not here(name):
        return "what recipes validate on, and do not train on"
    files = series_files(name) if kind == "series" else []
    return files[1].name if len(files) > 1 else "all"


def held_out_images(data: ImageData) -> images.Images:
    """All of a file or folder; of a corpus by name, what recipes validate on."""
    if here(data.corpus):
        whole = images.read_images(data.corpus)
    else:
        files = _image_files(data.corpus)
        apart = len(files) > 1 and data.valid is None
        names = registry.corpus(data.corpus).classes
        whole = _named(images.read_images(files[1]), names) if apart else image_parts(data)[1]
    return whole if data.side is None else images.shrunk(whole, data.side)


def _image_files(name: str) -> list[Path]:
    """The files of a corpus by name that hold images, not labels."""
    return located(name, "images", lambda file: "images" in file.name)


def image_parts(data: ImageData) -> tuple[images.Images, images.Images]:
    """Images to train on, and to validate on."""
    own = here(data.corpus)
    files = [Path(data.corpus)]
    if not own:
        files = _image_files(data.corpus)
    names = () if own else registry.corpus(data.corpus).classes
    whole = _named(images.read_images(files[0]), names)
    if len(files) > 1 or (own and data.valid is not None):
        return whole, _named(images.read_images(data.valid or files[1]), names)
    train, valid = (
        images.Images(
            whole.pixels[rows], None if whole.labels is None else whole.labels[rows], whole.names
        )
        for rows in _rows(len(whole), data.split)
    )
    # What is held out of a corpus by name stays so, whatever else is validated on.
    return train, valid if data.valid is None else _named(images.read_images(data.valid), names)


def _named(part: images.Images, names: tuple[str, ...]) -> images.Images:
    """With the classes' names that a corpus is known by, where its files have none."""
    return part if part.names else replace(part, names=names)


def held_out_series(data: SeriesData) -> series.Series:
    """All of a file, or of a folder of tables; of other corpora, what recipes validate on."""
    if here(data.corpus) and len(series_files(data.corpus)) == 1:
        return _windowed(series.read_series(data.corpus, data.label), data)
    return series_parts(data)[1]


def series_parts(data: SeriesData) -> tuple[series.Series, series.Series]:
    """Series to train on, and to validate on."""
    files = series_files(data.corpus)
    if data.label is not None and files[0].suffix == ".ts":
        raise ImpossibleSetting(f"[data] label is for .csv files, but the corpus is {files[0]}")
    training = series.read_series(files[0], data.label)
    other = data.valid or (files[1] if len(files) > 1 else None)
    validation = training if other is None else series.read_series(other, data.label)
    # What is held out of a corpus by name stays so, whatever else is validated on.
    if len(files) == 1 and (data.valid is None or not here(data.corpus)):
        training, rest = _split_series(training, data)
        validation = rest if data.valid is None else validation
    both = training.labels is not None and validation.labels is not None
    if both and training.names != validation.names:
        # The same classes: one part may lack some, name them in another order, or name more.
        extra = [name for name in used_names(validation) if name not in training.names]
        names = [*training.names, *extra]
        training, validation = series.renamed(training, names), series.renamed(validation, names)
    return _windowed(training, data), _windowed(validation, data)


def _split_series(whole: series.Series, data: SeriesData) -> tuple[series.Series, series.Series]:
    if data.window is not None:
        return series.split(whole, data.split)
    if len(whole) == 1:
        raise ImpossibleSetting(
            f"{data.corpus} is one series of {len(whole.values[0])} time steps; "
            f"set [data] window to a number of time steps, and it is cut into windows"
        )
    training, validation = (whole.chosen(rows) for rows in _rows(len(whole), data.split))
    return training, validation


def _windowed(whole: series.Series, data: SeriesData) -> series.Series:
    return whole if data.window is None else series.cut(whole, data.window, data.stride)


def _rows(count: int, share: float) -> tuple[Any, Any]:
    """Which examples to train on and to validate on: drawn, because files are often sorted.

    Neither part is empty.
    """
    if not share or count < 2:
        raise ImpossibleSetting(
            f"there are {count} examples and [data] split is {share}; "
            f"name others to validate on as valid, or set split above 0"
        )
    order = generator(0).permutation(count)
    cut = min(count - 1, max(1, round(count * (1 - share))))
    return order[:cut], order[cut:]

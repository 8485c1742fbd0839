"""Which part of a corpus is trained on, and which is held out: one rule for all who ask.

A corpus by name has a part that no recipe trains on: its folder or files of validation, or else the
last tenth of its text. Of files of one's own, a recipe says what to hold out. The stories have no
end; each use has a seed of its own.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vesalius.data import images, registry, series, splits, texts
from vesalius.data.batches import generator, used_names
from vesalius.data.settings import ImageData, SeriesData
from vesalius.errors import ImpossibleSetting, UnknownCorpus, UnusableData, nearest
from vesalius.preparation import Preparation
from vesalius.views.shown import counted

Examples = TypeVar("Examples", images.Images, series.Series)
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
    whole = texts.FileTexts(
        tuple(texts.Part(file, 0, file.stat().st_size) for file in files),
        joined=any(known.wrapped for known in registry.corpora() if known.name == name),
    )
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
        replace(whole, parts=tuple(p for p in whole.parts if p.file.parent.name == name))
        for name in ("train", "valid")
    )
    return (train, valid) if train.parts and valid.parts else None


def kept_texts(corpus: str, valid: str | None, split: float) -> dict[str, Any]:
    """What was trained on and how it was split, as a model keeps it."""
    if corpus == STORIES:
        return {}
    if not here(corpus):
        train, held_out = named_texts(corpus, split)
        files = sorted({part.file for part in (*train.parts, *held_out.parts)})
        return splits.split_of(files, split, seed=0)
    files = [part.file for part in texts.read_texts(corpus).parts]
    if valid is not None:
        return splits.all_of(files)
    return splits.split_of(files, split or HELD_OUT, seed=0)


def evaluation_texts(name: str, kept: Mapping[str, Any] | None = None) -> tuple[texts.Texts, str]:
    """What to evaluate on, and in words which part of the corpus that is.

    Of a corpus by name, what no recipe trains on; of a file or folder all, unless a part of the
    same was trained on.
    """
    if name == STORIES:
        return HELD_OUT_STORIES, f"{HELD_OUT_STORIES.name} that no recipe trains on"
    if not here(name):
        train, held_out = named_texts(name)
        of = train.size() + held_out.size()
        return held_out, f"{held_out.size():,} of {of:,} bytes, which no recipe trains on"
    whole = texts.read_texts(name)
    if not kept or not splits.same([part.file for part in whole.parts], kept):
        return whole, "all"
    if kept.get("join_lines"):
        whole = replace(whole, joined=True)
    if splits.whole(kept):
        return whole, splits.SEEN
    _, held_out = _by_folder(whole) or texts.split(whole, float(kept["split"]))
    return held_out, f"{held_out.size():,} of {whole.size():,} bytes, which training held out"


def notes_on(*named: tuple[str, texts.Texts]) -> tuple[str, ...]:
    """What to tell of texts, by corpus: of one's own files and folders, not of a corpus by name."""
    own = [some.parts for name, some in named if here(name) and isinstance(some, texts.FileTexts)]
    note = texts.FileTexts(tuple(part for some in own for part in some)).note_line_ends()
    return (note,) if note else ()


def series_files(name: str) -> list[Path]:
    """The files of a corpus of series: a single file, or a file to train on and a held-out file.

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


VALIDATED = "what recipes validate on, and do not train on"


def _image_files(name: str) -> list[Path]:
    """The files of a corpus by name that hold images, not labels."""
    return located(name, "images", lambda file: "images" in file.name)


def image_parts(
    data: ImageData, seed: int = 0
) -> tuple[images.Images, images.Images, dict[str, Any]]:
    """Images to train on and to validate on; and how one's own were split, to be kept."""
    if here(data.corpus):
        whole, files = _read_images(data.corpus, data), images.image_files(data.corpus)
        if data.valid is not None:
            return whole, _read_images(data.valid, data), splits.all_of(files)
        kept = splits.split_of(files, data.split, seed)
        train, held_out = _apart(whole, kept)
        return whole.chosen(train), whole.chosen(held_out), kept
    found, names = _image_files(data.corpus), registry.corpus(data.corpus).classes
    whole = _named(_read_images(found[0], data), names)
    if len(found) > 1:
        valid = _named(_read_images(data.valid or found[1], data), names)
        return whole, valid, splits.all_of(found[0])
    # What is held out of a corpus by name stays so, whatever else is validated on.
    train, rest = (whole.chosen(rows) for rows in _rows(len(whole), data.split))
    valid = rest if data.valid is None else _named(_read_images(data.valid, data), names)
    return train, valid, {}


def held_out_images(
    data: ImageData, kept: Mapping[str, Any] | None = None
) -> tuple[images.Images, str]:
    """What to evaluate on, and in words which part of the corpus that is.

    All of a file or folder, unless a part of the same was trained on; of a corpus by name, what
    recipes validate on.
    """
    if here(data.corpus):
        part, which = _read_images(data.corpus, data), "all"
        if kept and splits.same(images.image_files(data.corpus), kept):
            which = splits.SEEN
            if not splits.whole(kept):
                part = part.chosen(_apart(part, kept)[1])
                which = f"the {counted(len(part), 'image')} that training held out"
    else:
        files = _image_files(data.corpus)
        apart = len(files) > 1 and data.valid is None
        names = registry.corpus(data.corpus).classes
        part = _named(_read_images(files[1], data), names) if apart else image_parts(data)[1]
        which = VALIDATED
    return part, which


def _read_images(file: str | Path, data: ImageData) -> images.Images:
    return images.read_images(file, data.side, data.colours)


def _apart(part: images.Images | series.Series, kept: Mapping[str, Any]) -> tuple[Any, Any]:
    """Which of one's own examples to train on, and which are held out."""
    classes = np.zeros(len(part), int) if part.labels is None else part.labels
    train, held_out = splits.apart(classes.tolist(), float(kept["split"]), int(kept["seed"]))
    return np.array(train), np.array(held_out)


def _named(part: images.Images, names: tuple[str, ...]) -> images.Images:
    """With the classes' names that a corpus is known by, where its files have none."""
    return part if part.names else replace(part, names=names)


def series_parts(
    data: SeriesData, seed: int = 0, read: series.Series | None = None
) -> tuple[series.Series, series.Series, dict[str, Any]]:
    """Series to train on and to validate on; and how one's own were split, to be kept.

    ``read`` is the training file's, if it has been read.
    """
    files = series_files(data.corpus)
    if data.label is not None and files[0].suffix == ".ts":
        raise ImpossibleSetting(f"[data] label is for .csv files, but the corpus is {files[0]}")
    training = read or series.read_series(files[0], data.label)
    other = data.valid or (files[1] if len(files) > 1 else None)
    validation = training if other is None else series.read_series(other, data.label)
    own = here(data.corpus)
    kept = splits.all_of(series.table_files(files[0]))
    # What is held out of a corpus by name stays so, whatever else is validated on.
    if len(files) == 1 and (data.valid is None or not own):
        kept = {**kept, "split": data.split, "seed": seed} if own else {}
        training, rest = _split_series(training, data, kept)
        validation = rest if data.valid is None else validation
    both = training.labels is not None and validation.labels is not None
    if both and training.names != validation.names:
        # The same classes: one part may lack some, name them in another order, or name more.
        extra = [name for name in used_names(validation) if name not in training.names]
        names = [*training.names, *extra]
        training, validation = series.renamed(training, names), series.renamed(validation, names)
    return _windowed(training, data), _windowed(validation, data), kept


def held_out_series(
    data: SeriesData, kept: Mapping[str, Any] | None = None, window: int | None = None
) -> tuple[series.Series, str]:
    """What to evaluate on, and in words which part of the corpus that is.

    All of a file or of a folder of tables, unless a part of the same was trained on; of other
    corpora, what recipes validate on. It is cut into windows as in training, or else as is said.
    """
    cut = data if data.window is not None else data.change(window=window)
    files = series_files(data.corpus)
    if not here(data.corpus) or len(files) > 1:
        which = files[1].name if here(data.corpus) else VALIDATED
        return _windowed(series_parts(data)[1], cut), which
    part, which = series.read_series(files[0], data.label), "all"
    if kept and splits.same(series.table_files(files[0]), kept):
        which = splits.SEEN
        if not splits.whole(kept):
            _, part = _split_series(part, data.change(split=float(kept["split"])), kept)
            which = f"the {len(part):,} series that training held out"
            if data.window is not None:
                which = "the last of the time, which training held out"
    return _windowed(part, cut), which


def _split_series(
    whole: series.Series, data: SeriesData, kept: Mapping[str, Any]
) -> tuple[series.Series, series.Series]:
    if data.window is not None:
        return series.split(whole, data.split)
    if len(whole) == 1:
        raise ImpossibleSetting(
            f"{data.corpus} is one series of {len(whole.values[0])} time steps; "
            f"set [data] window to a number of time steps, and it is cut into windows"
        )
    rows = _apart(whole, kept) if kept else _rows(len(whole), data.split)
    return whole.chosen(rows[0]), whole.chosen(rows[1])


def _windowed(whole: series.Series, data: SeriesData) -> series.Series:
    return whole if data.window is None else series.cut(whole, data.window, data.stride)


def _rows(count: int, share: float) -> tuple[Any, Any]:
    """Which examples of a corpus by name to train on and to validate on; neither part is empty.

    They are drawn, because files are often sorted, and for all recipes in the same way.
    """
    if not share or count < 2:
        raise ImpossibleSetting(
            f"there are {count} examples and [data] split is {share}; "
            f"name others to validate on as valid, or set split above 0"
        )
    order = generator(0).permutation(count)
    cut = min(count - 1, max(1, round(count * (1 - share))))
    return order[:cut], order[cut:]


def relabelled(part: Examples, corpus: str, kept: Preparation, classes: int) -> Examples:
    """The examples with the classes that the model knows, which go by their names if they can."""
    if part.labels is None:
        raise UnusableData(
            f"{corpus} has no labels, but the model tells {classes} classes apart; "
            f"expected a class for each example"
        )
    labels = part.labels
    known = kept.class_names(classes)
    strange = [name for name in used_names(part) if name not in known]
    if part.names and not strange:
        places = [known.index(name) if name in known else -1 for name in part.names]
        labels = np.array(places)[labels]
    elif strange and (kept.names or len(part.names) != classes):
        raise UnusableData(
            f"{corpus} has the class {strange[0]!r}, which the model does not know; "
            f"{nearest(strange[0], known)}"
        )
    if labels.max() >= classes:
        raise UnusableData(
            f"the model tells {classes} classes apart, 0 to {classes - 1}, "
            f"but {corpus} has the class {labels.max()}"
        )
    return replace(part, labels=labels)

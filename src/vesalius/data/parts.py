"""Which part of a corpus is trained on, and which is held out: one rule for all who ask.

A corpus by name has a part that no recipe trains on: its folder or files of validation, or else the
last tenth of its text. Of files of one's own, a recipe says what to hold out. The stories have no
end; each use has a seed of its own.
"""

import os
from collections.abc import Callable
from pathlib import Path

from vesalius.data import registry, texts
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
    """The files of a corpus by name that hold what is wanted, those to train on first."""
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
    """What to train on, and what to validate on meanwhile; of stories, so many words."""
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
    if not here(name):
        return "what recipes validate on, and do not train on"
    files = series_files(name) if kind == "series" else []
    return files[1].name if len(files) > 1 else "all"

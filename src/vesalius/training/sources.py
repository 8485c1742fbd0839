"""From what a recipe says of its data to batches: finding it, making tokens of it, cutting it up.

What the data imply for the model, such as its vocabulary or its classes, is said by the source and
set where the recipe leaves it open.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vesalius import tokenizers
from vesalius.checkpoints import files
from vesalius.data import images, registry, series, texts
from vesalius.data.batches import Batches
from vesalius.data.pairs import MaskedText
from vesalius.data.tokens import Tokens, tokenised
from vesalius.data.windows import Streams, Windows
from vesalius.errors import BrokenFile, ImpossibleSetting
from vesalius.families.configs import Config
from vesalius.tokenizers import Tokenizer
from vesalius.training.recipe import ImageData, Recipe, SeriesData, TextData

Tell = Callable[[str, int, int | None], None]
"""Told what is being done, how much of it is done, and of how much where that is known."""


@dataclass(frozen=True)
class Source:
    """Data, ready to be cut into batches once the model is known."""

    implied: dict[str, Any]
    """Settings of the model that follow from the data."""
    batches: Callable[[Config], Batches]
    digest: str
    """SHA-256 of what is trained on."""
    tokenizer: Tokenizer | None = None
    preprocessing: dict[str, Any] = field(default_factory=dict)
    """What is done to input that is not text before a model sees it; kept with the model."""


def open_source(
    recipe: Recipe, tokenizer: Tokenizer | None = None, tell: Tell | None = None
) -> Source:
    """The data of a recipe; a tokenizer that a model brings along is kept to."""
    tell = tell or (lambda what, done, of: None)
    if isinstance(recipe.data, TextData):
        return _text(recipe, recipe.data, tokenizer, tell)
    if isinstance(recipe.data, ImageData):
        return _images(recipe, recipe.data)
    assert isinstance(recipe.data, SeriesData)
    return _series(recipe, recipe.data)


def _text(recipe: Recipe, data: TextData, tokenizer: Tokenizer | None, tell: Tell) -> Source:
    masked = recipe.objective != "next-token"
    train, valid = text_parts(data)
    cache = registry.cache_folder()
    tokenizer = tokenizer or _tokenizer(data, train, valid, cache, tell)

    def made(part: texts.Texts) -> Tokens:
        what = f"tokens of {part.name}"
        return tokenised(part, tokenizer, cache, masked, lambda done, of: tell(what, done, of))

    tokens, held_out = made(train), made(valid)
    how = recipe.training

    def batches(config: Any) -> Batches:
        window = data.window or getattr(config, "context", None) or 64
        if masked:
            return MaskedText(
                tokens,
                held_out,
                tokenizer,
                window,
                how.batch,
                recipe.seed,
                pairs=recipe.objective != "mlm",
                ratio=data.mask_ratio,
                plain=data.plain_masks,
                whole_words=data.whole_words,
            )
        common = (tokens, held_out, window, how.batch, recipe.seed)
        if data.carried and not hasattr(config, "context"):
            return Streams(*common)
        return Windows(*common, single=not hasattr(config, "heads") and hasattr(config, "context"))

    return Source({"vocabulary": tokenizer.rows}, batches, tokens.digest, tokenizer)


def text_parts(data: TextData) -> tuple[texts.Texts, texts.Texts]:
    """What to train on, and what to validate on."""
    if data.corpus == "stories":
        held_out = max(1000, data.words // 20)
        return texts.StoryTexts(data.words, seed=1), texts.StoryTexts(held_out, seed=2)
    whole = _read_texts(data.corpus)
    if data.valid is not None:
        return whole, _read_texts(data.valid)
    parts = {
        name: texts.FileTexts(tuple(p for p in whole.parts if name in p.file.parent.parts[-1:]))
        for name in ("train", "valid")
    }
    if all(part.parts for part in parts.values()):
        return parts["train"], parts["valid"]
    if not data.split:
        raise ImpossibleSetting("[data] split must be above 0, or valid must name another text")
    return texts.split(whole, data.split)


def _read_texts(name: str) -> texts.FileTexts:
    if Path(name).exists():
        return texts.read_texts(name)
    found = (file for file in registry.locate(name) if file.suffix in texts.SUFFIXES)
    parts = tuple(texts.Part(file, 0, file.stat().st_size) for file in sorted(found))
    if not parts:
        raise BrokenFile(f"the corpus {name} holds no text")
    return texts.FileTexts(parts)


def _tokenizer(
    data: TextData, train: texts.Texts, valid: texts.Texts, cache: Path, tell: Tell
) -> Tokenizer:
    """Learnt from the texts to train on, once; or read from a folder."""
    learners: dict[str, Callable[[Any], Tokenizer]] = {
        "byte-pairs": lambda texts: tokenizers.train_byte_pairs(texts, data.vocabulary),
        "word-pieces": lambda texts: tokenizers.train_word_pieces(texts, data.vocabulary),
        "words": lambda texts: tokenizers.train_words(texts, data.vocabulary),
        "characters": tokenizers.train_characters,
    }
    if data.tokenizer not in learners:
        found = tokenizers.read_tokenizer(data.tokenizer)
        if found is None:
            raise BrokenFile(
                f"{data.tokenizer!r} holds no tokenizer; expected a folder that does, or one of "
                f"{', '.join(learners)} to learn"
            )
        return found
    # Characters are not learnt but listed, so those of all the text are.
    parts = (train, valid) if data.tokenizer == "characters" else (train,)
    known = repr([data.tokenizer, data.vocabulary, *(part.key() for part in parts)])
    folder = cache / "tokenizers" / hashlib.sha256(known.encode()).hexdigest()[:32]
    if not folder.exists():
        tell(f"a vocabulary of {data.tokenizer}", 0, None)
        learnt = learners[data.tokenizer](text for part in parts for text, _ in part.portions())
        folder.parent.mkdir(parents=True, exist_ok=True)
        with files.new_folder(folder) as stage:
            learnt.save(stage)
    read = tokenizers.read_tokenizer(folder)
    assert read is not None
    return read


def _images(recipe: Recipe, data: ImageData) -> Source:
    training, validation = image_parts(data)
    if data.side is not None:
        training, validation = (images.shrunk(part, data.side) for part in (training, validation))
    _, channels, side, _ = training.pixels.shape
    common: dict[str, Any] = {
        "training": training,
        "validation": validation,
        "batch": recipe.training.batch,
        "seed": recipe.seed,
    }
    implied: dict[str, Any] = {"image": side, "channels": channels}
    if recipe.objective in ("next-pixel", "masked-pixels"):
        implied = {"vocabulary": data.levels + 1, "context": side * side}

    def batches(config: Any) -> Batches:
        if recipe.objective == "image-classes":
            return images.LabelledImages(augment=data.augment, **common)
        if recipe.objective == "masked-patches":
            return images.MaskedPatches(patch=config.patch, ratio=data.mask_ratio, **common)
        if recipe.objective == "next-pixel":
            return images.PixelSequences(levels=data.levels, **common)
        return images.MaskedPixels(levels=data.levels, ratio=data.mask_ratio, **common)

    if recipe.objective == "image-classes":
        classes = 0 if training.labels is None else int(training.labels.max()) + 1
        implied["classes"] = max(classes, len(training.names))
    scaling = images.ImageParts(**common).scaling
    kept: dict[str, Any] = _kept(scaling)
    if "levels" in data.settings() and "vocabulary" in implied:
        kept = {"levels": data.levels, "side": side}
    return Source(
        implied, batches, _digest(training.pixels), preprocessing={**kept, "names": training.names}
    )


def image_parts(data: ImageData) -> tuple[images.Images, images.Images]:
    """Images to train on, and to validate on."""
    if data.valid is not None:
        return images.read_images(data.corpus), images.read_images(data.valid)
    if Path(data.corpus).exists():
        whole = images.read_images(data.corpus)
    else:
        files = [file for file in registry.locate(data.corpus) if "images" in file.name]
        first, *others = sorted(files, key=lambda file: "train" not in file.name)
        whole = images.read_images(first)
        if others:
            return whole, images.read_images(others[0])
    cut = _cut(len(whole), data.split)
    parts = [
        images.Images(
            whole.pixels[rows], None if whole.labels is None else whole.labels[rows], whole.names
        )
        for rows in (slice(cut), slice(cut, None))
    ]
    return parts[0], parts[1]


def _series(recipe: Recipe, data: SeriesData) -> Source:
    training, validation = series_parts(data)
    longest = max(len(values) for part in (training, validation) for values in part.values)
    implied = {"channels": training.values[0].shape[1], "context": longest}
    if recipe.objective == "series-classes":
        classes = 0 if training.labels is None else int(training.labels.max()) + 1
        implied["outputs"] = max(classes, len(training.names))
    scaling = series.Scaling.of(training.values)
    common: dict[str, Any] = {
        "training": training,
        "validation": validation,
        "batch": recipe.training.batch,
        "seed": recipe.seed,
        "scaling": scaling,
    }

    def batches(config: Any) -> Batches:
        if recipe.objective == "series-classes":
            return series.LabelledSeries(context=config.context, **common)
        return series.MaskedSeries(
            context=config.context, ratio=data.mask_ratio, mean_length=data.mask_length, **common
        )

    kept = _kept(scaling)
    return Source(
        implied,
        batches,
        _digest(*training.values),
        preprocessing={**kept, "names": training.names},
    )


def series_parts(data: SeriesData) -> tuple[series.Series, series.Series]:
    """Series to train on, and to validate on."""
    if data.valid is not None:
        return series.read_ts(data.corpus), series.read_ts(data.valid)
    if Path(data.corpus).exists():
        whole = series.read_ts(data.corpus)
    else:
        files = registry.locate(data.corpus)
        first, *others = sorted(files, key=lambda file: "TRAIN" not in file.name)
        whole = series.read_ts(first)
        if others:
            return whole, series.read_ts(others[0])
    cut = _cut(len(whole), data.split)
    parts = [
        series.Series(
            whole.values[rows], None if whole.labels is None else whole.labels[rows], whole.names
        )
        for rows in (slice(cut), slice(cut, None))
    ]
    return parts[0], parts[1]


def _cut(count: int, share: float) -> int:
    """Where the last share of so many begins; neither part is empty."""
    if not share or count < 2:
        raise ImpossibleSetting(
            f"there are {count} examples and [data] split is {share}; "
            f"name others to validate on as valid, or set split above 0"
        )
    return min(count - 1, max(1, round(count * (1 - share))))


def _kept(scaling: series.Scaling) -> dict[str, Any]:
    return {"mean": scaling.mean.ravel().tolist(), "std": scaling.std.ravel().tolist()}


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()

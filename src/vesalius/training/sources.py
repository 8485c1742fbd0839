"""From what a recipe says of its data to batches: finding it, making tokens of it, cutting it up.

What the data imply for the model, such as its vocabulary or its classes, is said by the source and
set where the recipe leaves it open.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vesalius import __version__, tokenizers
from vesalius.checkpoints import files
from vesalius.data import images, parts, preprocessing, registry, series, texts
from vesalius.data.batches import Batches, Labelled, Scaling, generator, require_labels, used_names
from vesalius.data.pairs import MaskedText
from vesalius.data.tokens import Tokens, tokenised
from vesalius.data.windows import Streams, Windows
from vesalius.errors import (
    AlreadyThere,
    BrokenFile,
    ImpossibleSetting,
    NotInVocabulary,
    UnusableData,
)
from vesalius.families import family_of
from vesalius.families.config import Config
from vesalius.machine import not_kept, usable_cache
from vesalius.tokenizers import Tokenizer
from vesalius.training.recipe import ImageData, Recipe, SeriesData, TextData
from vesalius.training.sampling import prompt_ids

Tell = Callable[[str, int, int | None], None]
"""Told what is being done, how much of it is done, and of how much where that is known."""
LEARNING = 3
"""Counted up when vocabularies come to be learnt in another way."""
IMAGES_AS = ("split", "side", "mask_ratio")
SERIES_AS = ("split", "window", "stride", "label", "mask_ratio", "mask_length")
"""What a model's preprocessing keeps where its recipe says it, so that others can validate so."""
PAIR = 7
"""Tokens that a row of two texts has at least: three marks, and something of each."""


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
    train, valid = parts.training_texts(data.corpus, data.words, data.valid, data.split)
    cache = usable_cache()
    tokenizer = tokenizer or _tokenizer(data, train, valid, cache, tell)

    def made(part: texts.Texts) -> Tokens:
        what = f"tokens of {part.name}"
        return tokenised(part, tokenizer, cache, masked, lambda done, of: tell(what, done, of))

    how = recipe.training
    if how.sample_every:
        _require_prompt(tokenizer, how.prompt)
    tokens, held_out = made(train), made(valid)

    def batches(config: Any) -> Batches:
        window = _window(data, config, recipe.objective)
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
        if data.carried and family_of(config).carries_state:
            return Streams(*common)
        return Windows(*common, single=family_of(config).window)

    return Source({"vocabulary": tokenizer.rows}, batches, tokens.digest, tokenizer)


def _require_prompt(tokenizer: Tokenizer, prompt: str) -> None:
    try:
        prompt_ids(tokenizer, prompt)
    except NotInVocabulary as error:
        raise NotInVocabulary(f"[training] prompt: {error}") from error


def _window(data: TextData, config: Any, objective: str) -> int:
    """The tokens of a window: the model's context, unless the recipe says otherwise."""
    context = getattr(config, "context", None)
    window: int = data.window or context or 64
    fixed = family_of(config).window
    if context is not None and (window > context or (fixed and window < context)):
        raise ImpossibleSetting(
            f"[data] window is {window}, but the model's context {context}; leave it out to follow"
        )
    least = {"next-token": 1, "mlm": 3}.get(objective, PAIR)
    if window < least:
        raise ImpossibleSetting(f"{objective} needs windows of {least} tokens, got {window}")
    return window


def _tokenizer(
    data: TextData, train: texts.Texts, valid: texts.Texts, cache: Path | None, tell: Tell
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
    read_from = (train, valid) if data.tokenizer == "characters" else (train,)
    learning = (LEARNING, __version__, data.tokenizer, data.vocabulary)
    known = repr([*learning, *(part.key() for part in read_from)])
    name = hashlib.sha256(known.encode()).hexdigest()[:32]
    folder = None if cache is None else cache / "tokenizers" / name
    if folder is not None and (kept := _kept_tokenizer(folder)) is not None:
        return kept
    tell(f"a vocabulary of {data.tokenizer}", 0, None)
    learnt = learners[data.tokenizer](text for part in read_from for text, _ in part.portions())
    if folder is None:
        return learnt
    try:
        shutil.rmtree(folder, ignore_errors=True)  # if it is there, it is damaged
        # Another process may have learnt the same meanwhile.
        with suppress(AlreadyThere), files.new_folder(folder) as stage:
            learnt.save(stage)
    except OSError as error:
        not_kept("vocabularies", folder.parent, error)
    return _kept_tokenizer(folder) or learnt


def _kept_tokenizer(folder: Path) -> Tokenizer | None:
    """A tokenizer from the cache; None if it is not there, or damaged."""
    with suppress(BrokenFile, OSError):
        return tokenizers.read_tokenizer(folder) if folder.exists() else None
    return None


def _images(recipe: Recipe, data: ImageData) -> Source:
    training, validation = image_parts(data)
    if data.side is not None:
        training, validation = (images.shrunk(part, data.side) for part in (training, validation))
    _, channels, side, width = training.pixels.shape
    if side != width:
        raise UnusableData(f"expected square images, got {side} x {width}")
    if recipe.objective == "image-classes":
        require_labels(training, validation)
    common: dict[str, Any] = {
        "training": training,
        "validation": validation,
        "batch": recipe.training.batch,
        "seed": recipe.seed,
    }
    common["scaling"] = images.ImageParts(**common).scale
    kept: dict[str, Any]
    implied: dict[str, Any]
    if recipe.objective in ("next-pixel", "masked-pixels"):
        implied = {"vocabulary": data.levels + 1, "context": side * side}
        kept = {"levels": data.levels, "side": side}
    else:
        implied = {"image": side, "channels": channels}
        kept = preprocessing.kept(common["scaling"])
    if recipe.objective == "image-classes":
        implied["classes"] = _classes(training, validation)
    return Source(
        implied,
        lambda config: image_batches(recipe.objective, data, config, common),
        _digest(training.pixels, training.labels),
        preprocessing={**kept, "names": training.names, **_said(data, IMAGES_AS)},
    )


def image_batches(
    objective: str, data: ImageData, config: Any, common: Mapping[str, Any]
) -> Batches:
    if objective == "image-classes":
        return images.LabelledImages(shift=data.shift, mirror=data.mirror, **common)
    if objective == "masked-patches":
        return images.MaskedPatches(patch=config.patch, ratio=data.mask_ratio, **common)
    if objective == "next-pixel":
        return images.PixelSequences(levels=data.levels, **common)
    return images.MaskedPixels(levels=data.levels, ratio=data.mask_ratio, **common)


def held_out_images(data: ImageData) -> images.Images:
    """All of a file or folder; of a corpus by name, what recipes validate on."""
    whole = images.read_images(data.corpus) if parts.here(data.corpus) else image_parts(data)[1]
    return whole if data.side is None else images.shrunk(whole, data.side)


def image_parts(data: ImageData) -> tuple[images.Images, images.Images]:
    """Images to train on, and to validate on."""
    own = parts.here(data.corpus)
    files = [Path(data.corpus)]
    if not own:
        files = parts.located(data.corpus, "images", lambda file: "images" in file.name)
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


def _series(recipe: Recipe, data: SeriesData) -> Source:
    training, validation = series_parts(data)
    longest = max(len(values) for part in (training, validation) for values in part.values)
    implied = {"channels": training.values[0].shape[1], "context": longest}
    if recipe.objective == "series-classes":
        require_labels(training, validation)
        implied["outputs"] = _classes(training, validation)
    scaling, kept = Scaling.of(training.values), dict[str, Any]()
    common: dict[str, Any] = {
        "training": training,
        "validation": validation,
        "batch": recipe.training.batch,
        "seed": recipe.seed,
        "scaling": scaling,
    }
    if recipe.objective == "series-values":
        series.require_targets(training, validation)
        assert training.targets is not None
        implied["outputs"] = 1
        scale = Scaling.of([training.targets[:, None]])
        common["target_scaling"] = scale
        kept = {"target_mean": float(scale.mean[0]), "target_std": float(scale.std[0])}
    kept |= {**preprocessing.kept(scaling), "names": training.names, **_said(data, SERIES_AS)}
    return Source(
        implied,
        lambda config: series_batches(recipe.objective, data, config, common),
        _digest(*training.values, training.labels, training.targets),
        preprocessing=kept,
    )


def series_batches(
    objective: str, data: SeriesData, config: Any, common: Mapping[str, Any]
) -> Batches:
    if objective == "series-classes":
        return series.LabelledSeries(context=config.context, **common)
    if objective == "series-values":
        return series.TargetedSeries(context=config.context, **common)
    return series.MaskedSeries(
        context=config.context, ratio=data.mask_ratio, mean_length=data.mask_length, **common
    )


def held_out_series(data: SeriesData) -> series.Series:
    """All of a file, or of a folder of tables; of other corpora, what recipes validate on."""
    if parts.here(data.corpus) and len(parts.series_files(data.corpus)) == 1:
        return _windowed(series.read_series(data.corpus, data.label), data)
    return series_parts(data)[1]


def series_parts(data: SeriesData) -> tuple[series.Series, series.Series]:
    """Series to train on, and to validate on."""
    files = parts.series_files(data.corpus)
    if data.label is not None and files[0].suffix == ".ts":
        raise ImpossibleSetting(f"[data] label is for .csv files, but the corpus is {files[0]}")
    training = series.read_series(files[0], data.label)
    other = data.valid or (files[1] if len(files) > 1 else None)
    validation = training if other is None else series.read_series(other, data.label)
    # What is held out of a corpus by name stays so, whatever else is validated on.
    if len(files) == 1 and (data.valid is None or not parts.here(data.corpus)):
        training, rest = _split_series(training, data)
        validation = rest if data.valid is None else validation
    if training.names != validation.names and training.labels is not None:
        training, validation = _named_alike(training, validation)
    return _windowed(training, data), _windowed(validation, data)


def _split_series(whole: series.Series, data: SeriesData) -> tuple[series.Series, series.Series]:
    if data.window is not None:
        return series.split(whole, data.split)
    if len(whole) == 1:
        raise ImpossibleSetting(
            f"{data.corpus} is one series of {len(whole.values[0])} time steps; "
            f"set [data] window to cut it into windows of so many"
        )
    training, validation = (whole.chosen(rows) for rows in _rows(len(whole), data.split))
    return training, validation


def _named_alike(
    training: series.Series, validation: series.Series
) -> tuple[series.Series, series.Series]:
    """Both with the same classes: one may lack some, name them in another order, or name more."""
    if validation.labels is None:
        return training, validation
    extra = [name for name in used_names(validation) if name not in training.names]
    names = [*training.names, *extra]
    return series.renamed(training, names), series.renamed(validation, names)


def _windowed(whole: series.Series, data: SeriesData) -> series.Series:
    return whole if data.window is None else series.cut(whole, data.window, data.stride)


def _rows(count: int, share: float) -> tuple[Any, Any]:
    """Which examples to train on, and which to validate on: drawn, because files are often sorted.

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


def _classes(*parts: Labelled) -> int:
    """How many classes there are, in all parts together."""
    most = max(int(part.labels.max()) + 1 for part in parts if part.labels is not None)
    return max(most, *(len(part.names) for part in parts))


def _said(data: Config, names: tuple[str, ...]) -> dict[str, Any]:
    """Those of some settings that a recipe has changed."""
    default = type(data)()
    return {name: v for name in names if (v := getattr(data, name)) != getattr(default, name)}


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()

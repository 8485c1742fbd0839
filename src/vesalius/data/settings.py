"""What a recipe's ``[data]`` may say, by kinds of data; those of one task are in its folder."""

from dataclasses import dataclass
from typing import ClassVar

from vesalius.families.config import Config, setting


@dataclass(frozen=True, kw_only=True)
class Data(Config):
    """Settings of some kind of data."""

    kind: ClassVar[str]
    """What the registry of corpora calls it."""
    title: ClassVar[str] = ""
    """What the reference of recipes calls it, if not so."""


@dataclass(frozen=True, kw_only=True)
class TextData(Data):
    """Text, and how it becomes tokens."""

    kind = "text"

    corpus: str = setting("stories", "", "a corpus by name, a text file, or a folder of them")
    valid: str | None = setting(None, "", "what to validate on; the last part if none")
    split: float = setting(0.1, "", "share to validate on where that is one text", least=0, below=1)
    join_lines: bool = setting(
        False,
        "",
        "whether to join the lines of paragraphs that were broken to a width; always done "
        "for corpora by name that are marked as wrapped",
    )
    words: int = setting(1_000_000, "", "words of stories to train on")
    tokenizer: str = setting(
        "byte-pairs", "", "byte-pairs, word-pieces, words or characters to learn, or a folder"
    )
    vocabulary: int = setting(8192, "|V|", "tokens to learn at most")
    window: int | None = setting(None, "n", "tokens of a window; the model's context if none")
    carried: bool = setting(True, "", "whether recurrent networks carry their state along")
    mask_ratio: float = setting(0.15, "", "share of tokens to predict", least=0, below=1)
    plain_masks: bool = setting(False, "", "each chosen token becomes [MASK]; else 80/10/10")
    whole_words: bool = setting(False, "", "whether words are masked as a whole")


@dataclass(frozen=True, kw_only=True)
class ImageData(Data):
    """Images, and what is made of them."""

    kind = "images"

    corpus: str = setting("fashion-mnist", "", "a corpus by name, an IDX file, a folder or array")
    valid: str | None = setting(None, "", "what to validate on; the last part if none")
    split: float = setting(0.1, "", "share to validate on where that is one set", least=0, below=1)
    side: int | None = setting(None, "H", "pixels to resize to; as they are if none")
    colours: int | None = setting(
        None, "C", "channels to make of pictures, 1 (grey) or 3; as they are if none"
    )
    levels: int = setting(16, "", "colours that pixels are rounded to, for igpt", least=2)
    shift: int = setting(0, "", "pixels that images to train on move either way", least=0)
    mirror: bool = setting(False, "", "whether images to train on are flipped by chance")
    mask_ratio: float = setting(0.5, "", "share of patches or pixels to restore", least=0, below=1)


@dataclass(frozen=True, kw_only=True)
class SeriesData(Data):
    """Time series."""

    kind = "series"

    corpus: str = setting(
        "japanese-vowels", "", "a corpus by name, a .ts or .csv file, or a folder of such files"
    )
    valid: str | None = setting(None, "", "what to validate on; the last part if none")
    split: float = setting(0.1, "", "share to validate on where that is one set", least=0, below=1)
    window: int | None = setting(None, "n", "time steps to cut series into; as they are if none")
    stride: int | None = setting(None, "", "time steps between windows; a window's length if none")
    label: str | None = setting(None, "", "column of a .csv file that holds the classes")
    mask_ratio: float = setting(0.15, "r", "share of values to restore", least=0, below=1)
    mask_length: float = setting(3.0, "l_m", "mean length of a masked segment")


@dataclass(frozen=True, kw_only=True)
class ForecastData(Data):
    """A series along time, whose parts follow each other."""

    kind, title = "series", "forecasts"

    corpus: str = setting(
        "etth1", "", "a corpus by name, a .csv file (wide, or unique_id, ds, y) or a .npy file"
    )
    borders: str = setting(
        "shares",
        "",
        "where parts end: by shares, or after 12, 16 and 20 months as published for ETT",
        choices=("shares", "ett-hours", "ett-minutes"),
    )
    split: float = setting(0.1, "", "share to validate on, before the test part", least=0, below=1)
    test: float = setting(0.2, "", "share to test on, at the end", least=0, below=1)

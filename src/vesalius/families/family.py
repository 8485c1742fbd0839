"""A row of the table of families: all that others may ask about a family, in one place."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vesalius.families.config import Config, Setting
from vesalius.families.costs import Component, Memory, Operation
from vesalius.families.steps import EMBEDDED, Step

OwnConfig = Any
"""A configuration of the family's own class, which the functions of its row are written for."""
Count = Callable[[OwnConfig], int]
"""The parameters of a configuration."""


INPUTS = ("embedding", "positions", "segments", "projection", "class_token", "mask_token")
"""What networks call the parts that make embeddings of their input."""


class Lazy:
    """Something that is imported when it is first used, written ``module:name``.

    Counting takes less time than importing NumPy, and most commands less than importing PyTorch.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def get(self) -> Any:
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return self.get()(*arguments, **settings)

    def __repr__(self) -> str:
        return f"Lazy({self.place!r})"


@dataclass(frozen=True)
class Size:
    """A published model: how it departs from its family's defaults."""

    source: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    """Other names; the last is the one under which Hugging Face has its weights."""

    @property
    def hub(self) -> str | None:
        """Its name at Hugging Face, or None where its weights are not there."""
        return self.aliases[-1] if self.aliases else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """One row of the table."""

    name: str
    title: str
    sections: str
    """Where the paper treats it."""
    config: type[Config]
    sizes: Mapping[str, Size] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    """The paper's figures of its parts, by number, where they are not those of a transformer."""

    # What it is made of and costs: formulas, which need no arrays.
    components: Callable[[OwnConfig], tuple[Component, ...]]
    operations: Callable[[OwnConfig], list[Operation]]
    activation_memory: Callable[[OwnConfig], list[Memory]]
    decode_state: Callable[[OwnConfig], Memory | None] = lambda config: None
    """What generation keeps from token to token: a KV cache, or a carried state."""
    other_counts: Callable[[OwnConfig, Count], dict[str, int]] = lambda config, count: {}
    """The same model's parameters as others count them, so that nobody need argue."""

    # What computes it.
    parameters: Lazy
    """The parameter set, in the paper's letters."""
    run: Lazy
    """``run(theta, given, symbols)``: the forward pass in the paper's equations, heads too."""
    network: Lazy
    """``network(config)``: the PyTorch module."""
    outputs: Callable[[OwnConfig], dict[str, str]]
    """The paper's symbols: the attribute of what the network gives; empty for all of it."""
    engine: Lazy | None = None
    """``engine(model, dtype, threads)``: compiled for a processor."""
    session: Lazy | None = None
    """``session(engine, slots, layer)``: sequences on the reference engine, in NumPy."""
    forecast: Lazy | None = None
    """``forecast(theta, series)``: what follows a look-back, in the paper's equations."""
    read_out: Lazy | None = None
    """``read_out(theta, H, symbols, beside)``: the logits, or values, that states of any layer
    give, known as logit lens. ``beside`` is what else of a series it takes: which columns are no
    padding, or the mean and deviation of every channel."""
    label_logits: Lazy | None = None
    """``label_logits(model, states)``: what a head that labels whole texts makes of the states of
    each, in NumPy."""

    steps: Callable[[OwnConfig], tuple[Step, ...]] = lambda config: EMBEDDED
    """Where the network has the steps of the equations, and which of them can be cut."""
    below: Callable[[OwnConfig], tuple[str, ...]] = lambda config: INPUTS
    """The parts of the network below its layers, by name; what is neither stands above them."""

    # How it is stored.
    layout: Lazy
    """Rows (paper symbol, name in the network's state, view)."""
    huggingface: tuple[Lazy, ...] = ()
    """Dialects of Hugging Face that it is written in; the first that fits is taken."""
    libraries: Mapping[str, Lazy] = field(default_factory=dict)
    """Other libraries that have it whole, and how they lay it out."""
    layers: Mapping[str, Lazy] = field(default_factory=dict)
    """Libraries that have its layers: nn.LSTM, nn.RNN, nn.Linear; LSTM, SimpleRNN, Dense."""

    # What it can do.
    reads: str = "text"
    """"text", "pixels" (an image as tokens), "images" or "series"."""
    by_channel: bool = False
    """Whether each channel of a series is a sequence of its own, cut into patches: states have the
    patches of one channel after those of the other."""
    window: bool = False
    """Whether it sees a window of fixed length, and nothing before."""
    carries_state: bool = False
    """Whether it carries a state from token to token, however many there are."""
    verbs: tuple[str, ...] = ("evaluate",)
    """What commands it serves; whether a model has the head that one wants is left to that."""
    objectives: tuple[str, ...] = ()
    """What it can be trained towards."""
    input_shape: Callable[[OwnConfig], tuple[int, ...] | None] = lambda config: None
    """The shape of its largest input, where that is not a text of any length."""
    fixed_length: Callable[[OwnConfig], bool] = lambda config: False
    """Whether all its input has that shape, none shorter."""
    classes: Callable[[OwnConfig], int] = lambda config: 0
    """How many classes it tells apart."""
    heads: Callable[[OwnConfig], tuple[str, ...]] = lambda config: ()
    """What stands on its backbone, in words."""

    def described(self, config: OwnConfig) -> str:
        """Its title, and what heads a model of this configuration has."""
        *others, last = self.heads(config) or ("",)
        return (
            f"{self.title} with {', '.join(others)}{' and ' if others else ''}{last}"
            if last
            else self.title
        )

    @property
    def predicts_text(self) -> bool:
        """Whether it is a language model: one that predicts the next token of a text."""
        return "next-token" in self.objectives


def text_labels(config: OwnConfig) -> tuple[str, ...]:
    """The head of a language model that was fine-tuned to label texts."""
    return (f"a head for {config.labels} labels of a text",) if config.labels else ()


def other_tying(config: OwnConfig, count: Count) -> dict[str, int]:
    """What a model has with its output embedding tied to the input's, or not, as it is not."""
    word = "not tied" if config.tied else "tied"
    return {f"with input and output embeddings {word}": count(config.change(tied=not config.tied))}

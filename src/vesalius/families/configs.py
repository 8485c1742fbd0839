"""The hyperparameters of every family, with the paper's symbols.

A configuration is frozen and checked when it is made. ``key``, ``value`` and the other optional
widths stay as they were asked for; what follows from them is in ``symbols()``.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from vesalius.arguments import plain
from vesalius.errors import ImpossibleSetting, UnknownSetting, nearest
from vesalius.families.activations import ACTIVATIONS

RECURRENT_ACTIVATIONS = ("tanh", "sigmoid", "relu")
POSITIONS = ("learned", "sinusoidal")
EXPECTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def setting(
    default: Any,
    symbol: str,
    meaning: str,
    *,
    least: float = 1,
    below: float = math.inf,
    choices: tuple[Any, ...] | None = None,
) -> Any:
    """A hyperparameter: its default, the paper's symbol, what it means, which values it takes."""
    metadata = {"symbol": symbol, "meaning": meaning, "least": least, "below": below}
    return dataclasses.field(default=default, metadata={**metadata, "choices": choices})


def again(parent: type, name: str, default: Any) -> Any:
    """A parent's setting with another default."""
    metadata = {field.name: field.metadata for field in dataclasses.fields(parent)}[name]
    return dataclasses.field(default=default, metadata=metadata)


@cache
def _hints(config: Any) -> dict[str, Any]:
    return typing.get_type_hints(config)


def _kind(config: type["Config"], name: str) -> tuple[type, bool]:
    """The type of a setting, and whether it may be left open (None)."""
    hint = _hints(config)[name]  # type: ignore[arg-type] # classes can be hashed
    if isinstance(hint, types.UnionType):
        return next(h for h in typing.get_args(hint) if h is not types.NoneType), True
    return hint, False


@dataclass(frozen=True, kw_only=True)
class Config:
    """What all configurations can do; the settings are those of the families below."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
            self._check(field.name, getattr(self, field.name), field.metadata)

    def _check(self, name: str, value: Any, rule: Mapping[str, Any]) -> None:
        kind, optional = _kind(type(self), name)
        if value is None and optional:
            return
        if rule["choices"] is not None:
            if value not in rule["choices"] or isinstance(value, bool):
                choices = ", ".join(map(str, rule["choices"]))
                raise ImpossibleSetting(f"{name} must be one of {choices}, got {value!r}")
            return
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ImpossibleSetting(f"{name} must be {EXPECTED[kind]}, got {value!r}")
        if kind in (bool, str):
            return
        if not value >= rule["least"]:
            raise ImpossibleSetting(f"{name} must be at least {rule['least']}, got {value}")
        if not value < rule["below"]:
            limit = "finite" if rule["below"] == math.inf else f"below {rule['below']}"
            raise ImpossibleSetting(f"{name} must be {limit}, got {value}")

    @classmethod
    def settings(cls) -> dict[str, Mapping[str, Any]]:
        """Every setting's symbol, meaning and limits by its name."""
        return {field.name: field.metadata for field in dataclasses.fields(cls)}

    def change(self, /, **changes: Any) -> Self:
        """The same configuration with some settings changed."""
        for name in changes:
            self._require_known(name)
        return dataclasses.replace(self, **changes)

    def _require_known(self, name: str) -> None:
        if name not in self.settings():
            raise UnknownSetting(f"unknown setting {name!r}; {nearest(name, self.settings())}")

    def read(self, name: str, text: str) -> Any:
        """A setting's value from what was typed; the check follows when it is set."""
        self._require_known(name)
        kind, optional = _kind(type(self), name)
        if optional and text.lower() == "none":
            return None
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
        try:
            return kind(text.replace("_", "").replace(",", "") if kind is int else text)
        except ValueError:
            return text

    def symbols(self) -> dict[str, Any]:
        """The paper's letters with their values, as shapes and formulas use them."""
        raise AssertionError("every family says its own")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Blocks(Config):
    """The settings of transformer blocks, which six families share."""

    layers: int = setting(12, "L", "number of transformer blocks", below=10_000)
    embedding: int = setting(768, "d_e", "embedding dimension")
    heads: int = setting(12, "M", "number of attention heads")
    key: int | None = setting(
        None, "d_k", "dimension of queries and keys; embedding / heads if open"
    )
    value: int | None = setting(None, "d_v", "dimension of values; embedding / heads if open")
    feedforward: int | None = setting(None, "d_f", "inner dimension; 4 embedding if open")
    attention_bias: bool = setting(True, "ζ", "whether attention has biases")
    activation: str = setting(
        "gelu", "g", "activation of the feedforward network", choices=tuple(ACTIVATIONS)
    )
    epsilon: float = setting(1e-5, "ε", "added to the variance in normalisations", least=0)
    dropout: float = setting(0.1, "", "share dropped in training", least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.key is None or self.value is None) and self.embedding % self.heads:
            raise ImpossibleSetting(
                f"embedding {self.embedding} cannot be divided among {self.heads} heads; "
                f"set key and value, or choose heads that divide it"
            )

    def symbols(self) -> dict[str, Any]:
        d_k = self.key or self.embedding // self.heads
        d_v = self.value or self.embedding // self.heads
        return {
            "d_e": self.embedding,
            "d_k": d_k,
            "d_v": d_v,
            "d_f": self.feedforward or 4 * self.embedding,
            "M": self.heads,
            "Md_v": self.heads * d_v,
            "L": self.layers,
            "zeta": int(self.attention_bias),
            "zeta_qkv": int(self.attention_bias),
            "epsilon": self.epsilon,
            "activation": self.activation,
            "batch_norm": False,
            "centred": True,
        }


@dataclass(frozen=True, kw_only=True)
class Transformer(Blocks):
    """A transformer language model (4.3, 5.2); the defaults are those of Vaswani et al. [58]."""

    vocabulary: int = setting(37000, "|V|", "number of words in the vocabulary")
    context: int = setting(512, "n", "longest sequence")
    layers: int = again(Blocks, "layers", 6)
    embedding: int = again(Blocks, "embedding", 512)
    heads: int = again(Blocks, "heads", 8)
    variant: int = setting(
        1, "Figure 14", "normalise after a sublayer, as 1, or before, as 2", choices=(1, 2)
    )
    attention_bias: bool = again(Blocks, "attention_bias", False)
    activation: str = again(Blocks, "activation", "relu")
    positions: str = setting("sinusoidal", "Λ", "kind of positional encodings", choices=POSITIONS)
    causal: bool = setting(True, "S", "whether a token sees only those before it")
    tied: bool = setting(True, "U = Eᵀ", "whether input and output embeddings are one matrix")

    def symbols(self) -> dict[str, Any]:
        return {
            **super().symbols(),
            "V": self.vocabulary,
            "V_U": self.vocabulary,
            "n": self.context,
            "n_max": self.context,
            "variant": self.variant,
            "causal": self.causal,
            "learned_positions": self.positions == "learned",
            "untied": not self.tied,
        }


@dataclass(frozen=True, kw_only=True)
class GPT2(Transformer):
    """GPT-2 (5.2): variant 2, learned positions, biases, the tanh form of GELU."""

    vocabulary: int = again(Transformer, "vocabulary", 50257)
    context: int = again(Transformer, "context", 1024)
    layers: int = again(Transformer, "layers", 12)
    embedding: int = again(Transformer, "embedding", 768)
    heads: int = again(Transformer, "heads", 12)
    variant: int = again(Transformer, "variant", 2)
    attention_bias: bool = again(Transformer, "attention_bias", True)
    activation: str = again(Transformer, "activation", "gelu_tanh")
    positions: str = again(Transformer, "positions", "learned")


@dataclass(frozen=True, kw_only=True)
class ImageGPT(GPT2):
    """iGPT (7.1): GPT-2 on pixels, whose colours are the vocabulary; causal or masked."""

    vocabulary: int = setting(513, "|V|", "number of colours, with one token to start from")
    context: int = setting(1024, "n", "number of pixels")
    layers: int = again(GPT2, "layers", 24)
    embedding: int = again(GPT2, "embedding", 512)
    heads: int = again(GPT2, "heads", 8)
    normalisation: str = setting(
        "layer",
        "Ξ",
        "layer normalisation, or without mean and bias (rms)",
        choices=("layer", "rms"),
    )
    start_predicted: bool = setting(
        True, "U", "whether the token to start from is among those that are predicted"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied and not self.start_predicted:
            raise ImpossibleSetting(
                "tied embeddings predict the token to start from; set start_predicted to true, "
                "or tied to false"
            )

    def symbols(self) -> dict[str, Any]:
        outputs = self.vocabulary - (not self.start_predicted)
        return {**super().symbols(), "centred": self.normalisation == "layer", "V_U": outputs}


@dataclass(frozen=True, kw_only=True)
class Bert(Blocks):
    """BERT (6.1): the backbone, and the heads that are wanted."""

    vocabulary: int = setting(30522, "|V|", "number of words in the vocabulary")
    context: int = setting(512, "n", "longest sequence")
    segments: int = setting(2, "s", "number of segments")
    epsilon: float = again(Blocks, "epsilon", 1e-12)
    pooler: bool = setting(True, "Πᶜ", "whether the backbone has its pooler")
    mlm_head: bool = setting(False, "Πᴹ Ξₘ bᴱ", "whether there is a masked-language-model head")
    nsp_head: bool = setting(False, "Πᴺ", "whether there is a next-sentence head")
    labels: int = setting(0, "|Y|", "number of labels of a fine-tuned head; 0 for none", least=0)
    labelled: str = setting(
        "sequence", "Πʸ", "what gets labels", choices=("sequence", "tokens", "span")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nsp_head and not self.pooler:
            raise ImpossibleSetting("nsp_head reads what the pooler gives; set pooler to true")
        if self.labels and self.labelled == "sequence" and not self.pooler:
            raise ImpossibleSetting("a label of the sequence needs the pooler; set pooler to true")
        if self.labels and self.labelled == "span" and self.labels != 2:
            raise ImpossibleSetting(f"a span has 2 labels, its start and end, got {self.labels}")

    def symbols(self) -> dict[str, Any]:
        return {
            **super().symbols(),
            "V": self.vocabulary,
            "n": self.context,
            "n_max": self.context,
            "segments": self.segments,
            "variant": 1,
            "pooler": self.pooler,
            "mlm_head": self.mlm_head,
            "nsp_head": self.nsp_head,
            "two": 2,
            "labels": self.labels,
            "Y": self.labels,
        }


@dataclass(frozen=True, kw_only=True)
class ViT(Blocks):
    """The vision transformer (7.1)."""

    image: int = setting(224, "H = W", "side of the image in pixels")
    patch: int = setting(16, "P", "side of a patch in pixels")
    channels: int = setting(3, "C", "number of colours")
    classes: int = setting(1000, "|Y|", "number of classes; 0 for no class head", least=0)
    epsilon: float = again(Blocks, "epsilon", 1e-12)
    pooler: bool = setting(False, "Πᶜ", "whether there is a tanh layer on the class token")
    masked_patch_head: bool = setting(False, "Πᴿ", "whether there is a head that restores patches")
    qkv_bias: bool = setting(
        True, "ζ", "whether queries, keys and values have biases where attention has"
    )
    dropout: float = again(Blocks, "dropout", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image % self.patch:
            raise ImpossibleSetting(
                f"image {self.image} cannot be cut into patches of {self.patch}; "
                f"choose a patch that divides it"
            )

    def symbols(self) -> dict[str, Any]:
        patches = (self.image // self.patch) ** 2
        return {
            **super().symbols(),
            "P": self.patch,
            "C": self.channels,
            "P2C": self.patch**2 * self.channels,
            "zeta_qkv": int(self.attention_bias and self.qkv_bias),
            "n": patches + 1,
            "n_max": patches + 1,
            "variant": 2,
            "classes": self.classes,
            "Y": self.classes,
            "pooler": self.pooler,
            "masked_patch_head": self.masked_patch_head,
        }


@dataclass(frozen=True, kw_only=True)
class TST(Blocks):
    """The time series transformer (7.2); the defaults are its authors', for JapaneseVowels."""

    channels: int = setting(12, "C", "number of channels of the series")
    context: int = setting(29, "n", "longest series")
    layers: int = again(Blocks, "layers", 3)
    embedding: int = again(Blocks, "embedding", 64)
    heads: int = again(Blocks, "heads", 8)
    normalisation: str = setting(
        "batch", "Ξ", "batch or layer normalisation", choices=("batch", "layer")
    )
    positions: str = setting("learned", "Λ", "kind of positional encodings", choices=POSITIONS)
    head: str = setting(
        "classes",
        "Πʸ",
        "masked series, classes or regression",
        choices=("series", "classes", "regression"),
    )
    outputs: int = setting(9, "|Y|", "number of classes or regressed values")

    def symbols(self) -> dict[str, Any]:
        series = self.head == "series"
        return {
            **super().symbols(),
            "C": self.channels,
            "n": self.context,
            "n_max": self.context,
            "variant": 1,
            "batch_norm": self.normalisation == "batch",
            "learned_positions": self.positions == "learned",
            "series": series,
            "Y": self.outputs,
            "outputs": self.channels if series else self.outputs,
            "read": self.embedding if series else self.embedding * self.context,
        }


@dataclass(frozen=True, kw_only=True)
class Feedforward(Config):
    """The feedforward language model (4.2, 5.1)."""

    vocabulary: int = setting(16383, "|V|", "number of words in the vocabulary")
    context: int = setting(4, "n", "number of words in the window")
    embedding: int = setting(30, "d_e", "embedding dimension (d_0 in 4.2)")
    layers: int = setting(1, "L", "number of dense layers", below=10_000)
    hidden: int = setting(100, "d_h", "width of the dense layers")
    activation: str = setting(
        "tanh", "g", "activation of the dense layers", choices=RECURRENT_ACTIVATIONS
    )
    output_bias: bool = setting(False, "b_U", "whether the logits have a bias")
    dropout: float = again(Blocks, "dropout", 0)

    def symbols(self) -> dict[str, Any]:
        return {
            "V": self.vocabulary,
            "n": self.context,
            "d_e": self.embedding,
            "d_h": self.hidden,
            "L": self.layers,
            "activation": self.activation,
            "output_bias": self.output_bias,
        }


@dataclass(frozen=True, kw_only=True)
class Recurrent(Config):
    """What Elman and LSTM language models (4.4, 5.3) have in common."""

    vocabulary: int = setting(10000, "|V|", "number of words in the vocabulary")
    embedding: int = setting(200, "d_e", "embedding dimension")
    hidden: int | None = setting(None, "d_o", "width of the layers; embedding if open")
    layers: int = setting(2, "L", "number of recurrent layers", below=10_000)
    tied: bool = setting(True, "U = Eᵀ", "whether input and output embeddings are one matrix")
    output_bias: bool = setting(False, "b_U", "whether the logits have a bias")
    dropout: float = again(Blocks, "dropout", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied and self.hidden not in (None, self.embedding):
            raise ImpossibleSetting(
                f"tied embeddings need hidden {self.hidden} to equal embedding {self.embedding}; "
                f"set tied to false, or leave hidden open"
            )

    def symbols(self) -> dict[str, Any]:
        return {
            "V": self.vocabulary,
            "d_e": self.embedding,
            "d_o": self.hidden or self.embedding,
            "L": self.layers,
            "untied": not self.tied,
            "output_bias": self.output_bias,
        }


@dataclass(frozen=True, kw_only=True)
class Elman(Recurrent):
    """The Elman language model (4.4, 5.3)."""

    activation: str = setting(
        "tanh", "g", "activation of the recurrent layers", choices=RECURRENT_ACTIVATIONS
    )

    def symbols(self) -> dict[str, Any]:
        return {**super().symbols(), "activation": self.activation}


@dataclass(frozen=True, kw_only=True)
class LSTM(Recurrent):
    """The LSTM language model (4.4, 5.3)."""

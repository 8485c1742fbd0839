"""What the Elman and the LSTM language model have in common."""

from dataclasses import dataclass
from typing import Any

from vesalius.errors import ImpossibleSetting
from vesalius.families.blocks import BlocksConfig
from vesalius.families.config import Config, again, setting
from vesalius.families.costs import (
    Component,
    Memory,
    Operation,
    embedding,
    label_head,
    label_operations,
    output,
)
from vesalius.families.family import Count, other_tying


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """The settings of recurrent language models (4.4, 5.3)."""

    vocabulary: int = setting(10000, "|V|", "number of words in the vocabulary")
    embedding: int = setting(200, "d_e", "embedding dimension")
    hidden: int | None = setting(None, "d_o", "width of the layers; embedding if none")
    layers: int = setting(2, "L", "number of recurrent layers", below=10_000)
    tied: bool = setting(True, "U = Eᵀ", "whether input and output embeddings are one matrix")
    output_bias: bool = setting(False, "b_U", "whether the logits have a bias")
    dropout: float = again(BlocksConfig, "dropout", 0)
    labels: int = setting(0, "|Y|", "number of labels of a fine-tuned head; 0 for none", least=0)
    pooling: str = setting("last", "h̄", "whose state labels read", choices=("last", "mean"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied and self.hidden not in (None, self.embedding):
            raise ImpossibleSetting(
                f"tied embeddings need hidden {self.hidden} to equal embedding {self.embedding}; "
                f"set tied to false, or leave hidden out"
            )

    def symbols(self) -> dict[str, Any]:
        return {
            "V": self.vocabulary,
            "d_e": self.embedding,
            "d_o": self.hidden or self.embedding,
            "L": self.layers,
            "untied": not self.tied,
            "output_bias": self.output_bias,
            "labels": self.labels,
            "pooling": self.pooling,
            "Y": self.labels,
        }


def recurrent_components(
    config: RecurrentConfig, name: str, square: str, first: str, further: str
) -> tuple[Component, ...]:
    if config.hidden in (None, config.embedding):
        layers = [Component("Φ[l]", f"{name} layers", square, times="L")]
    else:
        layers = [Component("Φ[1]", f"first {name} layer", first)]
        if config.layers > 1:
            layers.append(Component("Φ[l]", f"further {name} layers", further, times="L − 1"))
    heads = (*output(config.tied, "d_o", config.output_bias), *label_head(config.labels, "d_o"))
    return (embedding(), *layers, *heads)


def recurrent_operations(
    config: RecurrentConfig, gates: list[tuple[str, str, str]]
) -> list[Operation]:
    rows = []
    for equation, name, pointwise in gates:
        below = [("d_e", "first layer", "1"), ("d_o", "further layers", "L − 1")]
        for width, which, times in below[: 1 if config.layers == 1 else 2]:
            what = f"{name}, {which}" if config.layers > 1 else name
            products = f"2 n d_o ({width} + d_o)" if name != "context" else "0"
            # The state before the first step is constant: no gradient flows into it.
            backward = "0" if name == "context" else f"2 ({products}) − 2 d_o²"
            rows.append(Operation(equation, what, products, pointwise, times, backward))
    bias = "n |V|" if config.output_bias else "0"
    return [
        *rows,
        Operation("9", "logits", "2 n d_o |V|", bias),
        Operation("10", "softmax", pointwise="5 n |V|"),
        *label_operations(config.labels, "d_o", config.pooling),
    ]


def output_memory(config: RecurrentConfig) -> list[Memory]:
    labels = [Memory("labels", "|Y|")] if config.labels else []
    return [Memory("log-probabilities", "n |V|"), *labels]


def other_counts(config: RecurrentConfig, count: Count) -> dict[str, int]:
    return other_tying(config, count) if config.hidden in (None, config.embedding) else {}

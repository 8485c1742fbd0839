"""The transformer language model, variants 1 and 2 of Figure 14."""

from dataclasses import dataclass
from typing import Any

from vesalius.families import blocks
from vesalius.families.blocks import ORDERS, BlocksConfig
from vesalius.families.config import again, setting
from vesalius.families.costs import (
    Component,
    Memory,
    Operation,
    embedding,
    label_head,
    label_operations,
    output,
)
from vesalius.families.family import INPUTS, Count, Family, Lazy, Size, other_tying, text_labels


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlocksConfig):
    """A transformer language model (4.3, 5.2); the defaults are those of Vaswani et al. [58]."""

    vocabulary: int = setting(37000, "|V|", "number of words in the vocabulary")
    context: int = setting(512, "n", "longest sequence")
    layers: int = again(BlocksConfig, "layers", 6)
    embedding: int = again(BlocksConfig, "embedding", 512)
    heads: int = again(BlocksConfig, "heads", 8)
    variant: int = setting(
        1, "Figure 14", "normalise after a sublayer, as 1, or before, as 2", choices=(1, 2)
    )
    attention_bias: bool = again(BlocksConfig, "attention_bias", False)
    activation: str = again(BlocksConfig, "activation", "relu")
    positions: str = setting(
        "sinusoidal", "Λ", "kind of positional encodings", choices=blocks.POSITIONS
    )
    causal: bool = setting(True, "S", "whether a token sees only those before it")
    tied: bool = setting(True, "U = Eᵀ", "whether input and output embeddings are one matrix")
    labels: int = setting(0, "|Y|", "number of labels of a fine-tuned head; 0 for none", least=0)
    pooling: str = setting("last", "h̄", "whose state labels read", choices=("last", "mean"))

    def options(self) -> dict[str, Any]:
        return {**super().options(), "order": ORDERS[self.variant]}

    def symbols(self) -> dict[str, Any]:
        return {
            **super().symbols(),
            "V": self.vocabulary,
            "V_U": self.vocabulary,
            "n": self.context,
            "n_max": self.context,
            "untied": not self.tied,
            "labels": self.labels,
            "pooling": self.pooling,
            "Y": self.labels,
        }


def words(config: TransformerConfig) -> str:
    """How many words there are logits for."""
    s = config.symbols()
    return "|V|" if s["V_U"] == s["V"] else "(|V| − 1)"


def components(config: TransformerConfig) -> tuple[Component, ...]:
    return (
        embedding(),
        blocks.positions(config.block),
        blocks.norm("Ξₑ", config.block),
        blocks.block_components(config.block),
        *output(config.tied, "d_e", words=words(config)),
        *label_head(config.labels, "d_e"),
    )


def operations(config: TransformerConfig) -> list[Operation]:
    norm = blocks.normalising(config.block)
    if config.block.order == "post":
        before, after = [Operation("39", "positions, normalised", pointwise=f"n d_e + {norm}")], []
    else:
        before = [Operation("7", "positions", pointwise="n d_e")]
        after = [Operation("35", "final normalisation", pointwise=norm)]
    return [
        *before,
        *blocks.block_operations(config.block),
        *after,
        Operation("9", "logits", f"2 n d_e {words(config)}"),
        Operation("10", "softmax", pointwise=f"5 n {words(config)}"),
        *label_operations(config.labels, "d_e", config.pooling),
    ]


def activation_memory(config: TransformerConfig) -> list[Memory]:
    statistics = 2 if config.block.centred else 1
    return [
        Memory("embeddings and their normalisation", f"n (2 d_e + {statistics})"),
        blocks.block_memory(config.block),
        Memory("log-probabilities", f"n {words(config)}"),
        *([Memory("labels", "|Y|")] if config.labels else []),
    ]


def decode_state(config: TransformerConfig) -> Memory | None:
    return Memory("the KV cache, for every token", "L M (d_k + d_v)") if config.causal else None


def other_counts(config: TransformerConfig, count: Count) -> dict[str, int]:
    outputs = config.symbols()["V_U"]
    words = config.vocabulary + (0 if config.tied else outputs)
    positions = config.context if config.positions == "learned" else 0
    tying = other_tying(config, count) if outputs == config.vocabulary else {}
    bare = count(config) - (words + positions) * config.embedding
    return {**tying, "without embeddings and positions": bare}


FAMILY = Family(
    name="transformer",
    title="transformer language model, variants 1 and 2",
    sections="4.3, 5.2",
    config=TransformerConfig,
    # The decoder's self-attention blocks as a language model; cross-attention is left out.
    sizes={"vaswani-base": Size("Vaswani et al. 2017")},
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    decode_state=decode_state,
    other_counts=other_counts,
    parameters=Lazy("vesalius.equations:TransformerLM"),
    run=Lazy("vesalius.equations.runs:transformer"),
    network=Lazy("vesalius.models:TransformerNetwork"),
    outputs=lambda config: {"Z": "words", "z": "labels"} if config.labels else {"Z": ""},
    below=lambda config: INPUTS + (("norm",) if config.block.order == "post" else ()),
    label_logits=Lazy("vesalius.generation.forward:text_labels"),
    classes=lambda config: config.labels,
    heads=text_labels,
    engine=Lazy("vesalius.generation.engines.transformer:TransformerEngine"),
    session=Lazy("vesalius.generation.engines.reference:TransformerSession"),
    read_out=Lazy("vesalius.equations.runs:read_next_words"),
    layout=Lazy("vesalius.checkpoints.layout:TRANSFORMER"),
    verbs=("generate", "classify", "embed", "similar", "evaluate"),
    objectives=("next-token", "text-classes", "text-labels", "text-values"),
)

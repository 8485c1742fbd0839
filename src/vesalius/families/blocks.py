"""Transformer blocks, which six families share: options, settings, parameters, costs.

``BlockOptions`` is the one description of a block. A family's configuration holds it as ``block``:
it chooses the defaults, and which options are settings. Equations, networks, engines, layouts,
counts and figures read it.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from vesalius.errors import ImpossibleSetting
from vesalius.families.activations import ACTIVATIONS
from vesalius.families.config import Config, setting
from vesalius.families.costs import Component, Memory, Operation
from vesalius.machine.properties import cached_property

POSITIONS = ("learned", "sinusoidal")
ORDERS = {1: "post", 2: "pre"}
"""The order of a block by its variant in Figure 14."""


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """How queries and keys are turned by their positions."""

    base: float = 10_000.0
    share: float = 1.0
    """Of the entries of a query that are turned."""
    pairs: str = "halves"
    """Which entries are turned together: halves (t, t + d/2) or neighbours (2t, 2t + 1)."""
    scaling: tuple[tuple[str, float | str], ...] = ()
    """How angles are changed for long texts, by the names that config.json uses."""


@dataclass(frozen=True, kw_only=True)
class Experts:
    """Feedforward networks of which a router chooses a few for each token."""

    many: int
    chosen: int
    normalised: bool = True
    """Whether the weights of the chosen sum to one."""


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """How the blocks of a model are built: one value for everything that models differ in."""

    order: str = "post"
    """post and pre are variants 1 and 2 of Figure 14; parallel adds both sublayers at once,
    sandwich normalises before and after a sublayer."""
    normalisation: str = "layer"
    """layer, rms, batch or none."""
    gain_offset: float = 0.0
    """Added to the gain of a normalisation."""
    epsilon: float = 1e-5
    positions: str = "learned"
    """learned and sinusoidal are added to the embeddings, rotary turns queries and keys, none."""
    rotations: tuple[Rotation | None, ...] = ()
    """Of the layers in turn, where positions are rotary."""
    causal: bool = False
    windows: tuple[int, ...] = ()
    """How far back a token sees, of the layers in turn; 0 is without a limit."""
    groups: int | None = None
    """Heads that have keys and values of their own; all of them if none."""
    qkv_bias: bool = True
    output_bias: bool = True
    feedforward_bias: bool = True
    qk_norm: str = "none"
    """Whether queries and keys are normalised: none, by head, or over the whole width."""
    scores: tuple[str, ...] = ()
    """What changes the scores before their softmax."""
    network: str = "dense"
    """The feedforward network: dense (37), gated, or none."""
    activation: str = "gelu"
    experts: Experts | None = None
    embedding_factor: float = 1.0
    residual_factor: float = 1.0
    logits_factor: float = 1.0
    score_factor: float | None = None
    """Of queries times keys; 1/√d_k if none."""

    @property
    def centred(self) -> bool:
        """Whether a normalisation has a mean that is subtracted, and a bias."""
        return self.normalisation in ("layer", "batch")

    @property
    def normalised(self) -> bool:
        return self.normalisation != "none"


@dataclass(frozen=True, kw_only=True)
class BlocksConfig(Config):
    """The settings of transformer blocks."""

    BLOCK: ClassVar[BlockOptions] = BlockOptions()
    """What the family's blocks are, where no setting says otherwise."""

    layers: int = setting(12, "L", "number of transformer blocks", below=10_000)
    embedding: int = setting(768, "d_e", "embedding dimension")
    heads: int = setting(12, "M", "number of attention heads")
    key: int | None = setting(
        None, "d_k", "dimension of queries and keys; embedding / heads if none"
    )
    value: int | None = setting(None, "d_v", "dimension of values; embedding / heads if none")
    feedforward: int | None = setting(None, "d_f", "inner dimension; 4 embedding if none")
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

    @cached_property
    def block(self) -> BlockOptions:
        """What the blocks are: the family's options, and those that settings choose."""
        return replace(self.BLOCK, **self.options())

    def options(self) -> dict[str, Any]:
        """The options that settings choose; a setting may have the name of its option."""
        options = {option.name for option in fields(BlockOptions)}
        chosen = {name: getattr(self, name) for name in self.settings() if name in options}
        return {"qkv_bias": self.attention_bias, "output_bias": self.attention_bias, **chosen}

    @property
    def causal(self) -> bool:
        return self.block.causal

    @property
    def attends(self) -> bool:
        return True

    @property
    def unlimited(self) -> bool:
        return self.block.positions != "learned"

    def symbols(self) -> dict[str, Any]:
        d_k = self.key or self.embedding // self.heads
        d_v = self.value or self.embedding // self.heads
        block = self.block
        return {
            "d_e": self.embedding,
            "d_k": d_k,
            "d_v": d_v,
            "d_f": self.feedforward or 4 * self.embedding,
            "M": self.heads,
            "Md_v": self.heads * d_v,
            "L": self.layers,
            "zeta": int(block.output_bias),
            "zeta_qkv": int(block.qkv_bias),
            "epsilon": block.epsilon,
            "activation": block.activation,
            "order": block.order,
            "normalisation": block.normalisation,
            "centred": block.centred,
            "batch_norm": block.normalisation == "batch",
            "learned_positions": block.positions == "learned",
            "causal": block.causal,
        }


def positions(block: BlockOptions) -> Component:
    if block.positions == "learned":
        return Component("Λ", "positional encoding", "d_e n")
    return Component("Λ", "positional encoding, fixed", "0")


def norm(symbol: str, block: BlockOptions) -> Component:
    return Component(symbol, "normalisation", "2 d_e" if block.centred else "d_e")


def block_components(block: BlockOptions) -> Component:
    biases = "ζ (M (2 d_k + d_v) + d_e)" if block.qkv_bias == block.output_bias else "ζ d_e"
    parts = (
        Component("Γ[l]", "multi-head attention", f"2 M d_e (d_k + d_v) + {biases}"),
        Component("Π[l]", "feedforward network", "2 d_e d_f + d_e + d_f"),
        norm("Ξ₁[l]", block),
        norm("Ξ₂[l]", block),
    )
    one = Component("Φ[l]", "transformer block", parts=parts, times="L")
    return Component("Φ", "transformer", parts=(one,))


def normalising(block: BlockOptions) -> str:
    """Pointwise operations of one normalisation."""
    return {"layer": "n (7 d_e + 2)", "rms": "n (4 d_e + 2)", "batch": "4 n d_e + 2 d_e"}[
        block.normalisation
    ]


def block_operations(block: BlockOptions) -> list[Operation]:
    biases = "ζ n M (2 d_k + d_v)" if block.qkv_bias == block.output_bias else "0"
    first, second = ("34", "38") if block.order == "post" else ("14b", "14b")
    added = f"n d_e + {normalising(block)}"
    return [
        Operation("24", "queries, keys, values", "2 n M d_e (2 d_k + d_v)", biases, "L"),
        Operation("25", "attention scores", "2 n² M d_k", "7 n² M", "L"),
        Operation("26", "weighted values", "2 n² M d_v", times="L"),
        Operation("30", "heads brought together", "2 n M d_v d_e", "ζ n d_e", "L"),
        Operation(first, "residual and normalisation", pointwise=added, times="L"),
        Operation("37", "feedforward network", "4 n d_e d_f", "n ((a + 1) d_f + d_e)", "L"),
        Operation(second, "residual and normalisation", pointwise=added, times="L"),
    ]


def neurons(block: BlockOptions, width: str, more: int = 0) -> str:
    """What a layer of neurons keeps: the activation's numbers for each, and ``more``."""
    count = ACTIVATIONS[block.activation].kept + more
    return width if count == 1 else f"{count} {width}"


def block_memory(block: BlockOptions) -> Memory:
    """Inputs of both sublayers before and after normalisation, q, k, v, scores, neurons."""
    statistics = {"layer": "4 n", "rms": "2 n", "batch": "4 d_e"}[block.normalisation]
    inputs = f"n (4 d_e + 2 M (d_k + d_v) + {neurons(block, 'd_f')})"
    return Memory("transformer blocks", f"{inputs} + n² M + {statistics}", times="L")

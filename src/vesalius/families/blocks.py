"""Transformer blocks, which six families share: settings, parameters, operations, memory."""

from dataclasses import dataclass
from typing import Any

from vesalius.errors import ImpossibleSetting
from vesalius.families.activations import ACTIVATIONS
from vesalius.families.config import Config, setting
from vesalius.families.costs import Component, Memory, Operation

POSITIONS = ("learned", "sinusoidal")


@dataclass(frozen=True, kw_only=True)
class BlocksConfig(Config):
    """The settings of transformer blocks."""

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


def positions(kind: str) -> Component:
    if kind == "learned":
        return Component("Λ", "positional encoding", "d_e n")
    return Component("Λ", "positional encoding, fixed", "0")


def norm(symbol: str, centred: bool = True) -> Component:
    return Component(symbol, "normalisation", "2 d_e" if centred else "d_e")


def block_components(qkv_bias: bool = True, centred: bool = True) -> Component:
    biases = "ζ (M (2 d_k + d_v) + d_e)" if qkv_bias else "ζ d_e"
    block = (
        Component("Γ[l]", "multi-head attention", f"2 M d_e (d_k + d_v) + {biases}"),
        Component("Π[l]", "feedforward network", "2 d_e d_f + d_e + d_f"),
        norm("Ξ₁[l]", centred),
        norm("Ξ₂[l]", centred),
    )
    one = Component("Φ[l]", "transformer block", parts=block, times="L")
    return Component("Φ", "transformer", parts=(one,))


NORM = "n (7 d_e + 2)"
RMS_NORM = "n (4 d_e + 2)"


def block_operations(
    variant: int, batch_norm: bool = False, qkv_bias: bool = True, layer_norm: str = NORM
) -> list[Operation]:
    biases = "ζ n M (2 d_k + d_v)" if qkv_bias else "0"
    norm = "4 n d_e + 2 d_e" if batch_norm else layer_norm
    first, second = ("34", "38") if variant == 1 else ("14b", "14b")
    return [
        Operation("24", "queries, keys, values", "2 n M d_e (2 d_k + d_v)", biases, "L"),
        Operation("25", "attention scores", "2 n² M d_k", "7 n² M", "L"),
        Operation("26", "weighted values", "2 n² M d_v", times="L"),
        Operation("30", "heads brought together", "2 n M d_v d_e", "ζ n d_e", "L"),
        Operation(first, "residual and normalisation", pointwise=f"n d_e + {norm}", times="L"),
        Operation("37", "feedforward network", "4 n d_e d_f", "n ((a + 1) d_f + d_e)", "L"),
        Operation(second, "residual and normalisation", pointwise=f"n d_e + {norm}", times="L"),
    ]


def neurons(config: BlocksConfig, width: str, more: int = 0) -> str:
    """What a layer of neurons keeps: the activation's numbers for each, and ``more``."""
    count = ACTIVATIONS[config.activation].kept + more
    return width if count == 1 else f"{count} {width}"


def block_memory(config: BlocksConfig, batch_norm: bool = False) -> Memory:
    """Inputs of both sublayers before and after normalisation, q, k, v, scores, neurons."""
    statistics = "4 d_e" if batch_norm else "4 n" if config.symbols()["centred"] else "2 n"
    inputs = f"n (4 d_e + 2 M (d_k + d_v) + {neurons(config, 'd_f')})"
    return Memory("transformer blocks", f"{inputs} + n² M + {statistics}", times="L")

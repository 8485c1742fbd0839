"""PatchTST: forecasting by patches of a series, each channel for itself (Nie et al. 2023)."""

from dataclasses import dataclass, replace
from typing import Any

from vesalius.errors import ImpossibleSetting
from vesalius.families import blocks
from vesalius.families.blocks import ORDERS, BlocksConfig
from vesalius.families.config import again, setting
from vesalius.families.costs import Component, Memory, Operation
from vesalius.families.family import Family, Lazy, Size
from vesalius.families.steps import PLACED, Step, after, before, block_steps


@dataclass(frozen=True, kw_only=True)
class PatchTSTConfig(BlocksConfig):
    """PatchTST, cited in 7.2; the defaults are its authors', for ETTh1."""

    channels: int = setting(7, "C", "number of channels of the series")
    context: int = setting(336, "τ", "look-back: time steps that a forecast is made from")
    horizon: int = setting(96, "T", "time steps that are forecast")
    patch: int = setting(16, "P", "time steps of a patch")
    stride: int = setting(8, "s", "time steps from one patch to the next")
    end_padding: bool = setting(
        True, "", "whether the last value is repeated, a stride long, for one patch more"
    )
    layers: int = again(BlocksConfig, "layers", 3)
    embedding: int = again(BlocksConfig, "embedding", 16)
    heads: int = again(BlocksConfig, "heads", 4)
    feedforward: int | None = again(BlocksConfig, "feedforward", 128)
    variant: int = setting(
        1, "", "order of a block: 1 normalises after each sublayer, 2 before", choices=(1, 2)
    )
    normalisation: str = setting(
        "batch", "Ξ", "batch or layer normalisation", choices=("batch", "layer")
    )
    positions: str = setting(
        "learned", "Λ", "kind of positional encodings", choices=blocks.POSITIONS
    )
    affine: bool = setting(
        False, "Ξᵣ", "whether channels have a gain and a bias after instance normalisation"
    )
    dropout: float = again(BlocksConfig, "dropout", 0.3)
    attention_dropout: float = setting(
        0.0, "", "share of attention scores dropped in training", least=0, below=1
    )
    head_dropout: float = setting(
        0.0, "", "share dropped before the output layer in training", least=0, below=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patch > self.context:
            raise ImpossibleSetting(
                f"a patch of {self.patch} time steps is longer than the context of {self.context}; "
                f"shorten it"
            )

    def options(self) -> dict[str, Any]:
        return {**super().options(), "order": ORDERS[self.variant]}

    def symbols(self) -> dict[str, Any]:
        patches = (self.context - self.patch) // self.stride + 1 + self.end_padding
        return {
            **super().symbols(),
            "C": self.channels,
            "tau": self.context,
            "T": self.horizon,
            "P": self.patch,
            "s": self.stride,
            "pad": self.stride if self.end_padding else 0,
            "n": patches,
            "n_max": patches,
            "nd_e": patches * self.embedding,
            "affine": self.affine,
            "epsilon_r": 1e-5,
        }


def components(config: PatchTSTConfig) -> tuple[Component, ...]:
    return (
        *([Component("Ξᵣ", "gain and bias of a channel", "2 C")] if config.affine else []),
        Component("E", "projection of patches", "d_e P"),
        Component("bₑ", "its bias", "d_e"),
        blocks.positions(config.block),
        blocks.block_components(config.block),
        Component("Πʸ", "output layer", "T (n d_e + 1)"),
    )


def operations(config: PatchTSTConfig) -> list[Operation]:
    """What C channels cost, each a sequence of n patches."""
    products = "2 n P d_e"
    gain = Operation("P.4", "gain of a channel", pointwise="2 tau", times="C")
    undone = Operation("P.11", "gain undone", pointwise="2 T", times="C")
    blocks_of = blocks.block_operations(config.block)
    return [
        Operation("P.1", "mean", pointwise="tau", times="C"),
        Operation("P.2", "deviation", pointwise="3 tau + 2", times="C"),
        Operation("P.3", "instance normalisation", pointwise="2 tau", times="C"),
        *([gain] if config.affine else []),
        # The series needs no gradient, so the backward pass has the weights' products only.
        Operation("P.6", "projection of patches", products, "n d_e", "C", backward=products),
        Operation("P.7", "positions", pointwise="n d_e", times="C"),
        *(replace(row, times="C L") for row in blocks_of),
        Operation("P.10", "output layer", "2 n d_e T", "T", "C"),
        *([undone] if config.affine else []),
        Operation("P.12", "level and scale put back", pointwise="2 T", times="C"),
    ]


def activation_memory(config: PatchTSTConfig) -> list[Memory]:
    inside = blocks.block_memory(config.block)
    return [
        Memory("patches", "n P", "C"),
        replace(inside, times="C L"),
        Memory("flattened states", "n d_e", "C"),
        Memory("forecast", "T", "C"),
    ]


def steps(config: PatchTSTConfig) -> tuple[Step, ...]:
    gain = (after("Omega_bar", "instance_norm", call=0), after("Y_u", "instance_norm", call=1))
    return (
        after("mu_r", "mean", "flat"),
        after("sigma_r", "deviation", "flat"),
        after("Omega_n", "standardised"),
        *(gain if config.affine else ()),
        before("Omega_p", "projection"),
        after("X_0", "projection"),
        *PLACED,
        *block_steps(config.block),
        before("H_f", "output", "transposed"),
        after("Y_n", "output", "transposed"),
    )


FAMILY = Family(
    name="patchtst",
    title="PatchTST: forecasts of a series from its patches",
    sections="7.2",
    config=PatchTSTConfig,
    sizes={
        "patchtst-etth1": Size("Nie et al. 2023"),
        "patchtst-illness": Size(
            "Nie et al. 2023", {"context": 104, "horizon": 24, "patch": 24, "stride": 2}
        ),
    },
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    parameters=Lazy("vesalius.equations:PatchTST"),
    run=Lazy("vesalius.equations.runs:patchtst"),
    network=Lazy("vesalius.models.patchtst:PatchTSTNetwork"),
    outputs=lambda config: {"Omega_hat": ""},
    forecast=Lazy("vesalius.equations:patchtst_forecast"),
    steps=steps,
    read_out=Lazy("vesalius.equations.runs:read_patches"),
    layout=Lazy("vesalius.checkpoints.layout:PATCHTST"),
    huggingface=(Lazy("vesalius.checkpoints.huggingface.patchtst:PATCHTST"),),
    reads="series",
    by_channel=True,
    verbs=("forecast", "evaluate"),
    objectives=("forecast",),
    input_shape=lambda config: (config.channels, config.context),
    fixed_length=lambda config: True,
)

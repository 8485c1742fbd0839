"""The time series transformer."""

from dataclasses import dataclass
from typing import Any

from vesalius.families import blocks
from vesalius.families.blocks import BlocksConfig
from vesalius.families.config import again, setting
from vesalius.families.costs import Component, Memory, Operation
from vesalius.families.family import Family, Lazy, Size
from vesalius.families.steps import PLACED, Step, after, before, block_steps


@dataclass(frozen=True, kw_only=True)
class TSTConfig(BlocksConfig):
    """The time series transformer (7.2); the defaults are its authors', for JapaneseVowels."""

    channels: int = setting(12, "C", "number of channels of the series")
    context: int = setting(29, "n", "longest series")
    layers: int = again(BlocksConfig, "layers", 3)
    embedding: int = again(BlocksConfig, "embedding", 64)
    heads: int = again(BlocksConfig, "heads", 8)
    normalisation: str = setting(
        "batch", "Ξ", "batch or layer normalisation", choices=("batch", "layer")
    )
    positions: str = setting(
        "learned", "Λ", "kind of positional encodings", choices=blocks.POSITIONS
    )
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
            "series": series,
            "Y": self.outputs,
            "outputs": self.channels if series else self.outputs,
            "read": self.embedding if series else self.embedding * self.context,
        }


def components(config: TSTConfig) -> tuple[Component, ...]:
    read_out = "C (d_e + 1)" if config.head == "series" else "|Y| (n d_e + 1)"
    return (
        Component("E", "projection of the channels", "d_e C"),
        Component("bₑ", "its bias", "d_e"),
        blocks.positions(config.block),
        blocks.block_components(config.block),
        Component("Πʸ", "output layer", read_out),
    )


def operations(config: TSTConfig) -> list[Operation]:
    flat = Operation("7.2", "padding and output layer", "2 n d_e |Y|", "n d_e + |Y|")
    series = Operation("7.2", "output layer", "2 n d_e C", "n C")
    return [
        Operation("7.2", "projection", "2 n C d_e", "2 n d_e", backward="2 n C d_e"),
        Operation("7", "positions", pointwise="n d_e"),
        *blocks.block_operations(config.block),
        Operation("7.2", "activation", pointwise="n a d_e"),
        series if config.head == "series" else flat,
    ]


def activation_memory(config: TSTConfig) -> list[Memory]:
    outputs = "n C" if config.head == "series" else "|Y|"
    return [
        Memory("series", "n C"),
        blocks.block_memory(config.block),
        Memory("activation", blocks.neurons(config.block, "n d_e")),
        Memory("outputs", outputs),
    ]


def steps(config: TSTConfig) -> tuple[Step, ...]:
    # Its last states are activated, and then dropped.
    last = (after("H_e", "dropout", call=1),)
    flat = () if config.head == "series" else (before("h_0", "output"),)
    series = (before("Omega", "projection"), after("X_0", "projection"))
    return (*series, *PLACED, *block_steps(config.block), *last, *flat)


FAMILY = Family(
    name="tst",
    title="time series transformer",
    sections="7.2",
    config=TSTConfig,
    figures={"input": "26"},
    sizes={"zerveas-2021": Size("Zerveas et al. 2021")},
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    parameters=Lazy("vesalius.equations:TST"),
    run=Lazy("vesalius.equations.runs:tst"),
    network=Lazy("vesalius.models:TSTNetwork"),
    outputs=lambda config: {"Omega_hat" if config.head == "series" else "z": ""},
    steps=steps,
    read_out=Lazy("vesalius.equations.runs:read_series"),
    layout=Lazy("vesalius.checkpoints.layout:TST"),
    libraries={"mvts_transformer": Lazy("vesalius.checkpoints.libraries:MVTS")},
    reads="series",
    verbs=("classify", "evaluate"),
    objectives=("masked-series", "series-classes", "series-values"),
    input_shape=lambda config: (config.channels, config.context),
    fixed_length=lambda config: config.head != "series",
    classes=lambda config: config.outputs if config.head == "classes" else 0,
    heads=lambda config: (
        "a head for masked series"
        if config.head == "series"
        else f"a head for {config.outputs} {'classes' if config.head == 'classes' else 'values'}",
    ),
)

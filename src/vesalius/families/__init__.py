"""The families of models: the one table that everything else asks.

A row is a family: its configuration, parameter set, equation forward, parts, costs and memory.
Adding a family means adding its files and its row. Nothing here needs torch.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vesalius import arguments
from vesalius.errors import ImpossibleSetting, UnknownModel, nearest
from vesalius.families import components, configs, memory, operations
from vesalius.families.components import Component
from vesalius.families.configs import Config
from vesalius.families.memory import Kept
from vesalius.families.operations import Operation
from vesalius.families.sizes import ALIASES
from vesalius.families.sizes import SIZES as SIZES

if TYPE_CHECKING:
    from vesalius.equations.parameters import Array


@dataclass(frozen=True)
class Family:
    """One row of the table."""

    name: str
    title: str
    sections: str
    config: type[Config]
    parameter_set: str
    """The name of its parameter set in ``vesalius.equations``."""
    equation: str
    """The name of its forward pass in ``vesalius.equations``."""
    module: str
    """The name of its network in ``vesalius.models``."""
    components: Callable[[Any], tuple[Component, ...]]
    operations: Callable[[Any], list[Operation]]
    kept: Callable[[Any], list[Kept]]

    # By name, and looked up when first needed: counting takes less time than importing NumPy.
    @property
    def parameters(self) -> type:
        from vesalius import equations

        return getattr(equations, self.parameter_set)  # type: ignore[no-any-return]

    @property
    def forward(self) -> Callable[..., Any]:
        """The forward pass in the paper's equations: parameters and input to logits or states."""
        from vesalius import equations

        return getattr(equations, self.equation)  # type: ignore[no-any-return]

    @property
    def network(self) -> Callable[[Config], Any]:
        """The PyTorch module."""
        return getattr(importlib.import_module("vesalius.models"), self.module)  # type: ignore[no-any-return]


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "ffnn",
            "feedforward language model",
            "4.2, 5.1",
            configs.Feedforward,
            "FeedforwardLM",
            "feedforward_logits",
            "FeedforwardNetwork",
            components.ffnn,
            operations.ffnn,
            memory.ffnn,
        ),
        Family(
            "rnn",
            "Elman language model",
            "4.4, 5.3",
            configs.Elman,
            "ElmanLM",
            "recurrent_logits",
            "ElmanNetwork",
            components.elman,
            operations.elman,
            memory.elman,
        ),
        Family(
            "lstm",
            "LSTM language model",
            "4.4, 5.3",
            configs.LSTM,
            "LSTMLM",
            "recurrent_logits",
            "LSTMNetwork",
            components.lstm,
            operations.lstm,
            memory.lstm,
        ),
        Family(
            "transformer",
            "transformer language model, variants 1 and 2",
            "4.3, 5.2",
            configs.Transformer,
            "TransformerLM",
            "transformer_logits",
            "TransformerNetwork",
            components.transformer,
            operations.transformer,
            memory.transformer,
        ),
        Family(
            "gpt2",
            "GPT-2",
            "5.2",
            configs.GPT2,
            "TransformerLM",
            "transformer_logits",
            "TransformerNetwork",
            components.transformer,
            operations.transformer,
            memory.transformer,
        ),
        Family(
            "bert",
            "BERT: backbone, MLM head, NSP head",
            "6.1",
            configs.Bert,
            "Bert",
            "bert_states",
            "BertNetwork",
            components.bert,
            operations.bert,
            memory.bert,
        ),
        Family(
            "vit",
            "vision transformer: class head, masked-patch head",
            "7.1",
            configs.ViT,
            "ViT",
            "vit_states",
            "ViTNetwork",
            components.vit,
            operations.vit,
            memory.vit,
        ),
        Family(
            "igpt",
            "iGPT: pixels as tokens",
            "7.1",
            configs.ImageGPT,
            "TransformerLM",
            "transformer_logits",
            "TransformerNetwork",
            components.transformer,
            operations.transformer,
            memory.transformer,
        ),
        Family(
            "tst",
            "time series transformer: masked series, classes, regression",
            "7.2",
            configs.TST,
            "TST",
            "tst_states",
            "TSTNetwork",
            components.tst,
            operations.tst,
            memory.tst,
        ),
    )
}


def names() -> list[str]:
    """Every name that ``configuration`` knows, without the aliases."""
    return [*SIZES, *(name for name in FAMILIES if name not in SIZES)]


def configuration(name: str, **changes: Any) -> Config:
    """The configuration of a named size, or a family's default, with some settings changed."""
    name = ALIASES.get(arguments.text("the model's name", name), name)
    if name in SIZES:
        size = SIZES[name]
        return FAMILIES[size.family].config().change(**size.settings).change(**changes)
    if name in FAMILIES:
        return FAMILIES[name].config().change(**changes)
    raise UnknownModel(f"unknown model {name!r}; {nearest(name, [*names(), *ALIASES])}")


def family_of(config: Config) -> Family:
    """The row that a configuration belongs to."""
    return next(family for family in FAMILIES.values() if family.config is type(config))


def assemble(
    config: Config, fetch: Callable[[str, tuple[int, ...]], "Array"], **symbols: Any
) -> Any:
    """The parameter set of a configuration, its arrays fetched by name and shape.

    ``symbols`` stand in for the configuration's own.
    """
    from vesalius.equations.activations import ACTIVATIONS
    from vesalius.equations.parameters import assemble as assemble_set

    symbols = config.symbols() | symbols
    symbols["g"] = ACTIVATIONS.get(symbols.get("activation", ""))
    return assemble_set(family_of(config).parameters, symbols, fetch)


def shapes(config: Config, **symbols: Any) -> dict[str, tuple[int, ...]]:
    """The name and shape of every array of a configuration's parameter set; none is made."""
    import numpy as np

    found: dict[str, tuple[int, ...]] = {}

    def note(name: str, shape: tuple[int, ...]) -> "Array":
        found[name] = shape
        try:
            return np.broadcast_to(np.float32(0), shape)
        except ValueError as error:
            raise ImpossibleSetting(f"{name} of {shape} is beyond any memory") from error

    assemble(config, note, **symbols)
    return found


def random_parameters(config: Config, seed: int, dtype: Any = "float64") -> Any:
    """A parameter set of random numbers: small, variances positive, gains around one."""
    import numpy as np

    rng = np.random.default_rng(seed)

    def fetch(name: str, shape: tuple[int, ...]) -> "Array":
        letter = name.rpartition(".")[2]
        if letter == "variance":
            return rng.uniform(0.5, 2, shape).astype(dtype)
        centre = 1.0 if letter == "alpha" else 0.0
        return rng.normal(centre, 1 / np.sqrt(max(shape)), shape).astype(dtype)

    return assemble(config, fetch)

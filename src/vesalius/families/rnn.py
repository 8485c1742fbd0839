"""The Elman language model."""

from dataclasses import dataclass
from typing import Any

from vesalius.families import ffnn, recurrent
from vesalius.families.config import setting
from vesalius.families.costs import Component, Memory, Operation
from vesalius.families.family import Family, Lazy, Size, text_labels
from vesalius.families.recurrent import RecurrentConfig


@dataclass(frozen=True, kw_only=True)
class ElmanConfig(RecurrentConfig):
    """The Elman language model (4.4, 5.3)."""

    activation: str = setting(
        "tanh", "g", "activation of the recurrent layers", choices=ffnn.ACTIVATIONS
    )

    def symbols(self) -> dict[str, Any]:
        return {**super().symbols(), "activation": self.activation}


def components(config: ElmanConfig) -> tuple[Component, ...]:
    return recurrent.recurrent_components(
        config, "Elman", "2 d_e² + d_e", "d_o (d_o + d_e + 1)", "2 d_o² + d_o"
    )


def operations(config: ElmanConfig) -> list[Operation]:
    return recurrent.recurrent_operations(config, [("41", "state", "n (a + 2) d_o")])


def activation_memory(config: ElmanConfig) -> list[Memory]:
    return [
        Memory("embeddings", "n d_e"),
        Memory("states", "n d_o", times="L"),
        *recurrent.output_memory(config),
    ]


FAMILY = Family(
    name="rnn",
    title="Elman language model",
    sections="4.4, 5.3",
    config=ElmanConfig,
    figures={"model": "7", "tokens": "6 7 18", "layer": "19"},
    # One hidden layer with sigmoid; 200 units and Penn Treebank's words, as in later comparisons.
    sizes={
        "mikolov-2010": Size(
            "Mikolov et al. 2010", {"layers": 1, "activation": "sigmoid", "tied": False}
        )
    },
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    decode_state=lambda config: Memory("state, in all", "L d_o"),
    other_counts=recurrent.other_counts,
    parameters=Lazy("vesalius.equations:ElmanLM"),
    run=Lazy("vesalius.equations.runs:recurrent"),
    network=Lazy("vesalius.models:ElmanNetwork"),
    outputs=lambda config: {"Z": "words", "z": "labels"} if config.labels else {"Z": ""},
    label_logits=Lazy("vesalius.generation.forward:text_labels"),
    classes=lambda config: config.labels,
    heads=text_labels,
    engine=Lazy("vesalius.generation.engines.recurrent:RecurrentEngine"),
    session=Lazy("vesalius.generation.engines.reference:RecurrentSession"),
    read_out=Lazy("vesalius.equations.runs:read_recurrent_words"),
    layout=Lazy("vesalius.checkpoints.layout:ELMAN"),
    libraries={"PyTorch": Lazy("vesalius.checkpoints.bare.torch_recurrent:DIALECT")},
    layers={"Keras": Lazy("vesalius.checkpoints.libraries:KERAS_RECURRENT")},
    carries_state=True,
    verbs=("generate", "classify", "embed", "similar", "evaluate"),
    objectives=("next-token", "text-classes", "text-labels", "text-values"),
)

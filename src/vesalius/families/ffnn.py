"""The feedforward language model: a window of words."""

from dataclasses import dataclass
from typing import Any

from vesalius.families.blocks import BlocksConfig
from vesalius.families.config import Config, again, setting
from vesalius.families.costs import Component, Memory, Operation, embedding, output
from vesalius.families.family import Family, Lazy, Size
from vesalius.families.steps import EMBEDDED, Step, before

ACTIVATIONS = ("tanh", "sigmoid", "relu")


@dataclass(frozen=True, kw_only=True)
class FeedforwardConfig(Config):
    """The feedforward language model (4.2, 5.1)."""

    vocabulary: int = setting(16383, "|V|", "number of words in the vocabulary")
    context: int = setting(4, "n", "number of words in the window")
    embedding: int = setting(30, "d_e", "embedding dimension (d_0 in 4.2)")
    layers: int = setting(1, "L", "number of dense layers", below=10_000)
    hidden: int = setting(100, "d_h", "width of the dense layers")
    activation: str = setting("tanh", "g", "activation of the dense layers", choices=ACTIVATIONS)
    output_bias: bool = setting(False, "b_U", "whether the logits have a bias")
    dropout: float = again(BlocksConfig, "dropout", 0)

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


def components(config: FeedforwardConfig) -> tuple[Component, ...]:
    layers = [Component("Φ[1]", "first dense layer", "d_h (n d_e + 1)")]
    if config.layers > 1:
        layers.append(Component("Φ[l]", "further dense layers", "d_h (d_h + 1)", times="L − 1"))
    return (embedding(), *layers, *output(False, "d_h", config.output_bias))


def operations(config: FeedforwardConfig) -> list[Operation]:
    rows = [Operation("23", "first dense layer", "2 n d_e d_h", "(a + 1) d_h")]
    if config.layers > 1:
        rows.append(Operation("23", "further dense layers", "2 d_h²", "(a + 1) d_h", "L − 1"))
    bias = "|V|" if config.output_bias else "0"
    return [
        *rows,
        Operation("4", "logits", "2 d_h |V|", bias),
        Operation("5", "softmax", pointwise="5 |V|"),
    ]


def activation_memory(config: FeedforwardConfig) -> list[Memory]:
    return [
        Memory("embeddings", "n d_e"),
        Memory("dense layers", "d_h", times="L"),
        Memory("log-probabilities", "|V|"),
    ]


def steps(config: FeedforwardConfig) -> tuple[Step, ...]:
    inner = (before(f"h[{l}]", f"layers.{l}") for l in range(1, config.layers))
    last = before(f"h[{config.layers}]", "output")
    return (*EMBEDDED, before("h_0", "layers.0"), *inner, last)


FAMILY = Family(
    name="ffnn",
    title="feedforward language model",
    sections="4.2, 5.1",
    config=FeedforwardConfig,
    figures={"model": "4", "tokens": "4"},
    # MLP9 of the Brown corpus: five words with the predicted one, no direct connections.
    sizes={"bengio-2003": Size("Bengio et al. 2003", {"output_bias": True})},
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    parameters=Lazy("vesalius.equations:FeedforwardLM"),
    run=Lazy("vesalius.equations.runs:feedforward"),
    network=Lazy("vesalius.models:FeedforwardNetwork"),
    outputs=lambda config: {"z": ""},
    engine=Lazy("vesalius.generation.engines.feedforward:FeedforwardEngine"),
    session=Lazy("vesalius.generation.engines.reference:FeedforwardSession"),
    steps=steps,
    read_out=Lazy("vesalius.equations.runs:read_window_words"),
    layout=Lazy("vesalius.checkpoints.layout:FFNN"),
    layers={
        "PyTorch": Lazy("vesalius.checkpoints.libraries:TORCH_DENSE"),
        "Keras": Lazy("vesalius.checkpoints.libraries:KERAS_DENSE"),
    },
    window=True,
    verbs=("generate", "embed", "similar", "evaluate"),
    objectives=("next-token",),
    input_shape=lambda config: (config.context,),
    fixed_length=lambda config: True,
)

"""GPT-2."""

from dataclasses import dataclass, replace

from vesalius.families import transformer
from vesalius.families.config import again
from vesalius.families.family import Lazy, Size
from vesalius.families.transformer import TransformerConfig


@dataclass(frozen=True, kw_only=True)
class GPT2Config(TransformerConfig):
    """GPT-2 (5.2): variant 2, learned positions, biases, the tanh form of GELU."""

    vocabulary: int = again(TransformerConfig, "vocabulary", 50257)
    context: int = again(TransformerConfig, "context", 1024)
    layers: int = again(TransformerConfig, "layers", 12)
    embedding: int = again(TransformerConfig, "embedding", 768)
    heads: int = again(TransformerConfig, "heads", 12)
    variant: int = again(TransformerConfig, "variant", 2)
    attention_bias: bool = again(TransformerConfig, "attention_bias", True)
    activation: str = again(TransformerConfig, "activation", "gelu_tanh")
    positions: str = again(TransformerConfig, "positions", "learned")


def _size(name: str, **settings: int) -> Size:
    return Size("Radford et al. 2019", settings, (f"openai-community/{name}",))


FAMILY = replace(
    transformer.FAMILY,
    name="gpt2",
    title="GPT-2",
    sections="5.2",
    config=GPT2Config,
    sizes={
        "gpt2": _size("gpt2"),
        "gpt2-medium": _size("gpt2-medium", layers=24, embedding=1024, heads=16),
        "gpt2-large": _size("gpt2-large", layers=36, embedding=1280, heads=20),
        "gpt2-xl": _size("gpt2-xl", layers=48, embedding=1600, heads=25),
    },
    huggingface=(Lazy("vesalius.checkpoints.huggingface.gpt2:GPT2"),),
    libraries={
        "Keras": Lazy("vesalius.checkpoints.libraries:KERAS_GPT2"),
        "nanoGPT": Lazy("vesalius.checkpoints.libraries:NANOGPT"),
        "minGPT": Lazy("vesalius.checkpoints.bare.mingpt:DIALECT"),
        "minGPT until 2022": Lazy("vesalius.checkpoints.bare.mingpt:FIRST_DIALECT"),
    },
)

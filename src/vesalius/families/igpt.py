"""iGPT: pixels as tokens."""

from dataclasses import dataclass, replace
from typing import Any

from vesalius.errors import ImpossibleSetting
from vesalius.families import gpt2
from vesalius.families.config import again, setting
from vesalius.families.family import Lazy, Size
from vesalius.families.gpt2 import GPT2Config


@dataclass(frozen=True, kw_only=True)
class ImageGPTConfig(GPT2Config):
    """iGPT (7.1): GPT-2 on pixels, whose colours are the vocabulary; causal or masked."""

    vocabulary: int = setting(513, "|V|", "number of colours, with one token to start from")
    context: int = setting(1024, "n", "number of pixels")
    layers: int = again(GPT2Config, "layers", 24)
    embedding: int = again(GPT2Config, "embedding", 512)
    heads: int = again(GPT2Config, "heads", 8)
    normalisation: str = setting(
        "layer",
        "Ξ",
        "layer normalisation, or without mean and bias (rms)",
        choices=("layer", "rms"),
    )
    labels: int = setting(0, "|Y|", "labels are for texts: none", least=0, below=1)
    start_predicted: bool = setting(True, "U", "whether the token to start from is predicted too")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied and not self.start_predicted:
            raise ImpossibleSetting(
                "tied embeddings predict the token to start from; set start_predicted to true, "
                "or tied to false"
            )

    def symbols(self) -> dict[str, Any]:
        outputs = self.vocabulary - (not self.start_predicted)
        return {**super().symbols(), "V_U": outputs}


FAMILY = replace(
    gpt2.FAMILY,
    name="igpt",
    title="iGPT: pixels as tokens",
    sections="7.1",
    config=ImageGPTConfig,
    sizes={
        # 512 colours and a start token, which is not predicted; normalisations without the means
        # and biases of (35), and a GELU that is x sigmoid(1.702 x).
        "igpt-small": Size(
            "Chen et al. 2020",
            {
                "normalisation": "rms",
                "activation": "quick_gelu",
                "tied": False,
                "start_predicted": False,
            },
            ("imagegpt-small", "openai/imagegpt-small"),
        ),
    },
    # With layer normalisation it is GPT-2, on pixels.
    huggingface=(
        Lazy("vesalius.checkpoints.huggingface.gpt2:IMAGE_GPT"),
        Lazy("vesalius.checkpoints.huggingface.gpt2:GPT2"),
    ),
    libraries={},
    reads="pixels",
    verbs=("generate", "evaluate"),
    objectives=("next-pixel", "masked-pixels"),
)

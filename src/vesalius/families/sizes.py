"""The models as published: a name, its family, and how it departs from the family's defaults."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Size:
    """A published model."""

    family: str
    source: str
    settings: dict[str, Any]
    aliases: tuple[str, ...] = ()
    """Other names; the last is the one under which Hugging Face has its weights."""

    @property
    def hub(self) -> str | None:
        """Its name at Hugging Face, or None where its weights are not there."""
        return self.aliases[-1] if self.aliases else None


def _gpt2(name: str, **settings: int) -> Size:
    return Size("gpt2", "Radford et al. 2019", settings, (f"openai-community/{name}",))


def _bert(name: str, layers: int, embedding: int, vocabulary: int = 30522) -> Size:
    settings = {
        "layers": layers,
        "embedding": embedding,
        "heads": embedding // 64,
        "vocabulary": vocabulary,
    }
    return Size("bert", "Devlin et al. 2019", settings, (f"google-bert/{name}",))


def _small_bert(name: str, layers: int, embedding: int) -> Size:
    published = f"bert_uncased_L-{layers}_H-{embedding}_A-{embedding // 64}"
    aliases = (f"prajjwal1/{name}", published, f"google/{published}")
    return Size("bert", "Turc et al. 2019", _bert(name, layers, embedding).settings, aliases)


def _vit(layers: int, embedding: int, heads: int, patch: int, *aliases: str) -> Size:
    settings = {"layers": layers, "embedding": embedding, "heads": heads, "patch": patch}
    return Size("vit", "Dosovitskiy et al. 2021", settings, aliases)


def _zaremba(hidden: int, dropout: float) -> Size:
    settings = {"embedding": hidden, "tied": False, "output_bias": True, "dropout": dropout}
    return Size("lstm", "Zaremba et al. 2014", settings)


SIZES: dict[str, Size] = {
    # MLP9 of the Brown corpus: five words with the predicted one, no direct connections.
    "bengio-2003": Size("ffnn", "Bengio et al. 2003", {"output_bias": True}),
    # One hidden layer with sigmoid; 200 units and Penn Treebank's words, as in later comparisons.
    "mikolov-2010": Size(
        "rnn", "Mikolov et al. 2010", {"layers": 1, "activation": "sigmoid", "tied": False}
    ),
    "zaremba-2014-small": _zaremba(200, 0),
    "zaremba-2014-medium": _zaremba(650, 0.5),
    "zaremba-2014-large": _zaremba(1500, 0.65),
    # The decoder's self-attention blocks as a language model; cross-attention is left out.
    "vaswani-base": Size("transformer", "Vaswani et al. 2017", {}),
    "gpt2": _gpt2("gpt2"),
    "gpt2-medium": _gpt2("gpt2-medium", layers=24, embedding=1024, heads=16),
    "gpt2-large": _gpt2("gpt2-large", layers=36, embedding=1280, heads=20),
    "gpt2-xl": _gpt2("gpt2-xl", layers=48, embedding=1600, heads=25),
    "bert-tiny": _small_bert("bert-tiny", 2, 128),
    "bert-mini": _small_bert("bert-mini", 4, 256),
    "bert-small": _small_bert("bert-small", 4, 512),
    "bert-medium": _small_bert("bert-medium", 8, 512),
    "bert-base-uncased": _bert("bert-base-uncased", 12, 768),
    "bert-base-cased": _bert("bert-base-cased", 12, 768, vocabulary=28996),
    "bert-large-uncased": _bert("bert-large-uncased", 24, 1024),
    "bert-large-cased": _bert("bert-large-cased", 24, 1024, vocabulary=28996),
    "vit-base-patch16-224": _vit(12, 768, 12, 16, "google/vit-base-patch16-224"),
    "vit-large-patch16-224": _vit(24, 1024, 16, 16, "google/vit-large-patch16-224"),
    "vit-huge-patch14-224": _vit(32, 1280, 16, 14),
    "vit-base-patch32-224": _vit(12, 768, 12, 32),
    "vit-large-patch32-224": _vit(24, 1024, 16, 32),
    # 512 colours and a start token, which is not predicted; normalisations without the means and
    # biases of (35), and a GELU that is x sigmoid(1.702 x).
    "igpt-small": Size(
        "igpt",
        "Chen et al. 2020",
        {
            "normalisation": "rms",
            "activation": "quick_gelu",
            "tied": False,
            "start_predicted": False,
        },
        ("imagegpt-small", "openai/imagegpt-small"),
    ),
    "zerveas-2021": Size("tst", "Zerveas et al. 2021", {}),
}

ALIASES: dict[str, str] = {alias: name for name, size in SIZES.items() for alias in size.aliases}
"""Other names of sizes, with their organisation and without."""

HUB_NAMES: dict[str, str] = {
    known: size.hub
    for name, size in SIZES.items()
    if size.hub is not None
    for known in (name, *size.aliases)
    if "/" not in known
}
"""What Hugging Face calls a size that is named without its organisation."""

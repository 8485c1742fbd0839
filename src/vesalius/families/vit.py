"""The vision transformer."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vesalius.errors import ImpossibleSetting
from vesalius.families import blocks
from vesalius.families.blocks import BlockOptions, BlocksConfig
from vesalius.families.config import again, setting
from vesalius.families.costs import Component, Memory, Operation
from vesalius.families.family import Count, Family, Lazy, Size


@dataclass(frozen=True, kw_only=True)
class ViTConfig(BlocksConfig):
    """The vision transformer (7.1)."""

    BLOCK: ClassVar[BlockOptions] = BlockOptions(order="pre")
    image: int = setting(224, "H = W", "side of the image in pixels")
    patch: int = setting(16, "P", "side of a patch in pixels")
    channels: int = setting(3, "C", "number of colours")
    classes: int = setting(1000, "|Y|", "number of classes; 0 for no class head", least=0)
    epsilon: float = again(BlocksConfig, "epsilon", 1e-12)
    pooler: bool = setting(False, "Πᶜ", "whether there is a tanh layer on the class token")
    masked_patch_head: bool = setting(False, "Πᴿ", "whether there is a head that restores patches")
    qkv_bias: bool = setting(
        True, "ζ", "whether queries, keys and values have biases where attention has"
    )
    dropout: float = again(BlocksConfig, "dropout", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image % self.patch:
            raise ImpossibleSetting(
                f"image {self.image} cannot be cut into patches of {self.patch}; "
                f"choose a patch that divides it"
            )

    def options(self) -> dict[str, Any]:
        return {**super().options(), "qkv_bias": self.attention_bias and self.qkv_bias}

    def symbols(self) -> dict[str, Any]:
        patches = (self.image // self.patch) ** 2
        return {
            **super().symbols(),
            "H": self.image,
            "P": self.patch,
            "C": self.channels,
            "P2C": self.patch**2 * self.channels,
            "n": patches + 1,
            "n_max": patches + 1,
            "classes": self.classes,
            "Y": self.classes,
            "pooler": self.pooler,
            "masked_patch_head": self.masked_patch_head,
        }


def components(config: ViTConfig) -> tuple[Component, ...]:
    rows = [
        Component("E", "patch projection", "d_e P² C"),
        Component("bₑ", "its bias", "d_e"),
        Component("x_class", "class token", "d_e"),
        Component("Λ", "positional encoding", "d_e n"),
        blocks.block_components(config.block),
        blocks.norm("Ξₑ", config.block),
    ]
    if config.pooler:
        rows.append(Component("Πᶜ", "pooler", "d_e (d_e + 1)"))
    if config.classes:
        rows.append(Component("Πʸ", "class head", "|Y| (d_e + 1)"))
    if config.masked_patch_head:
        rows.append(Component("x_mask", "mask token", "d_e"))
        rows.append(Component("Πᴿ", "masked-patch head", "P² C (d_e + 1)"))
    return tuple(rows)


def operations(config: ViTConfig) -> list[Operation]:
    patches = "(n − 1)"
    projection = f"2 {patches} P² C d_e"
    rows = [
        # The image needs no gradient, so the backward pass has the weights' products only.
        Operation("7.1", "patch projection", projection, f"{patches} d_e", backward=projection),
        Operation("7", "positions", pointwise="n d_e"),
        *blocks.block_operations(config.block),
        Operation("35", "final normalisation", pointwise=blocks.normalising(config.block)),
    ]
    if config.pooler:
        rows.append(Operation("57", "pooler", "2 d_e²", "2 d_e"))
    if config.classes:
        rows.append(Operation("7.1", "class head", "2 d_e |Y|", "6 |Y|"))
    if config.masked_patch_head:
        restoring = f"2 {patches} d_e P² C"
        rows.append(Operation("7.1", "masked-patch head", restoring, f"{patches} P² C"))
    return rows


def activation_memory(config: ViTConfig) -> list[Memory]:
    rows = [
        Memory("patches", "(n − 1) P² C"),
        blocks.block_memory(config.block),
        Memory("final normalisation", "n (2 d_e + 2)"),
    ]
    if config.pooler:
        rows.append(Memory("pooler", "d_e"))
    if config.classes:
        rows.append(Memory("log-probabilities", "|Y|"))
    if config.masked_patch_head:
        rows.append(Memory("restored patches", "(n − 1) P² C"))
    return rows


def _size(layers: int, embedding: int, heads: int, patch: int, *aliases: str) -> Size:
    settings = {"layers": layers, "embedding": embedding, "heads": heads, "patch": patch}
    return Size("Dosovitskiy et al. 2021", settings, aliases)


def other_counts(config: ViTConfig, count: Count) -> dict[str, int]:
    return {"without class head": count(config.change(classes=0))} if config.classes else {}


FAMILY = Family(
    name="vit",
    title="vision transformer",
    sections="7.1",
    config=ViTConfig,
    sizes={
        "vit-base-patch16-224": _size(12, 768, 12, 16, "google/vit-base-patch16-224"),
        "vit-large-patch16-224": _size(24, 1024, 16, 16, "google/vit-large-patch16-224"),
        "vit-huge-patch14-224": _size(32, 1280, 16, 14),
        "vit-base-patch32-224": _size(12, 768, 12, 32),
        "vit-large-patch32-224": _size(24, 1024, 16, 32),
    },
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    other_counts=other_counts,
    parameters=Lazy("vesalius.equations:ViT"),
    run=Lazy("vesalius.equations.runs:vit"),
    network=Lazy("vesalius.models:ViTNetwork"),
    outputs=lambda config: {
        "H_e": "hidden",
        "h_C": "pooled",
        "z": "logits",
        "Omega_hat": "patches",
    },
    read_out=Lazy("vesalius.equations.runs:read_image"),
    layout=Lazy("vesalius.checkpoints.layout:VIT"),
    huggingface=(Lazy("vesalius.checkpoints.huggingface.vit:VIT"),),
    libraries={
        "timm": Lazy("vesalius.checkpoints.libraries:TIMM"),
        "vit-pytorch": Lazy("vesalius.checkpoints.bare.vit_pytorch:DIALECT"),
    },
    reads="images",
    verbs=("classify", "evaluate"),
    objectives=("masked-patches", "image-classes"),
    input_shape=lambda config: (config.image, config.image, config.channels),
    fixed_length=lambda config: True,
    classes=lambda config: config.classes,
    heads=lambda config: (
        *(("a pooler",) if config.pooler else ()),
        *((f"a head for {config.classes} classes",) if config.classes else ()),
        *(("a masked-patch head",) if config.masked_patch_head else ()),
    ),
)

"""One picture for a model: decoded within bounds and made what the model reads, by one rule.

It is turned upright as its camera says, transparent parts are laid on white, colours become grey
(0.299 R + 0.587 G + 0.114 B) for models of one channel and grey becomes three colours for others,
and another size is resized, without keeping its proportions, by Pillow's bilinear filter, as
Hugging Face does for ViT. Nothing is inverted unless asked for. What was done is said.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray as Array

from vesalius.checkpoints.plain import require_end
from vesalius.errors import BrokenFile, UnusableData, WrongKind

PIXELS = 1 << 26
"""A picture of more is not decoded: a small file can claim any size."""
SUFFIXES = (".png", ".jpg", ".jpeg")
DARK, BRIGHT = 96, 160
"""Of 255: what images are on average, and what their border is, for one to look inverted."""


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels as a model reads them, and what was done to them."""

    pixels: UInt8[Array, "H W C"]
    done: tuple[str, ...]


def read_picture(
    file: str | Path, side: int | None, channels: int, invert: bool = False
) -> Picture:
    """A PNG or JPEG file as ``side`` x ``side`` pixels of ``channels`` channels.

    Without a side it keeps its size.
    """
    from PIL import Image, ImageOps

    require_end(file)
    try:
        with (
            warnings.catch_warnings(action="ignore"),  # of damage that does not matter
            Image.open(file, formats=["PNG", "JPEG"]) as image,
        ):
            if image.width * image.height > PIXELS:
                raise UnusableData(
                    f"{file} has {image.width:,} x {image.height:,} pixels; "
                    f"expected at most {PIXELS:,} in all: make it smaller first"
                )
            upright = ImageOps.exif_transpose(image)
            upright.load()
            if upright.mode == "P":
                upright.convert("RGBA")  # which finds out what its palette lacks
    except Exception as error:  # a damaged file makes Pillow raise anything
        if isinstance(error, FileNotFoundError | UnusableData):
            raise
        if isinstance(error, Image.DecompressionBombError):
            raise UnusableData(
                f"{file} claims to have more pixels than a picture may; "
                f"expected at most {PIXELS:,} in all: make it smaller first"
            ) from error
        raise BrokenFile(f"{file} cannot be read as PNG or JPEG: {error}") from error
    turned = ("turned upright",) if upright.size != image.size else ()
    made = _made(upright, side, channels, invert, str(file))
    return Picture(made.pixels, (*turned, *made.done))


def from_bytes(
    pixels: UInt8[Array, "H W *C"], side: int | None, channels: int, invert: bool = False
) -> Picture:
    """An array of bytes, height x width or height x width x channels, by the same rule."""
    from PIL import Image

    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if not pixels.size or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4)):
        raise WrongKind(
            f"expected an image: height x width, or height x width x 1, 3 or 4 channels; "
            f"got {' x '.join(map(str, pixels.shape))}"
        )
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return _made(image, side, channels, invert, "the image")


def _made(image: Any, side: int | None, channels: int, invert: bool, name: str) -> Picture:
    from PIL import Image, ImageOps

    if image.mode.startswith(("I", "F")):
        raise UnusableData(
            f"{name} has pixels of Pillow's kind {image.mode}; expected 8 bits a channel"
        )
    if channels not in (1, 3):
        raise WrongKind(f"a picture has 1 or 3 channels, this model reads {channels}; give arrays")
    done = []
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
        done.append("laid on white")
    target = "L" if channels == 1 else "RGB"
    if image.mode != target:
        if target == "L" and image.mode != "1":
            done.append("greyed")
        image = image.convert(target)
    if side is not None and image.size != (side, side):
        done.append(f"resized from {image.width} x {image.height} to {side} x {side}")
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    if invert:
        done.append("inverted")
        image = ImageOps.invert(image)
    pixels = np.asarray(image)
    return Picture(pixels[:, :, None] if pixels.ndim == 2 else pixels, tuple(done))


def looks_inverted(pixels: UInt8[Array, "side side C"], mean: float) -> bool:
    """Whether the border is bright although a model's images were dark on average."""
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    return bool(mean < DARK and border.mean() > BRIGHT)

"""Images to learn from: IDX files such as MNIST's, folders of pictures, and NumPy's arrays.

Pixels stay bytes until a batch is made. Whether they fit a model is left to training.
"""

import gzip
import math
import re
import sys
import warnings
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy import ndarray as Array
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator

from vesalius.checkpoints.expanding import require_bounded
from vesalius.checkpoints.plain import require_end
from vesalius.data.arrays import read_arrays
from vesalius.data.batches import Batch, TwoParts, generator
from vesalius.data.masking import IGNORED, even_masks, masked_count
from vesalius.data.pictures import SUFFIXES, from_bytes, read_picture
from vesalius.errors import BrokenFile, EmptyCorpus, ImpossibleSetting, UnusableData, WrongLength
from vesalius.machine.properties import cached_property
from vesalius.preparation import Scaling

IDX_IMAGES, IDX_LABELS = b"\0\0\x08\x03", b"\0\0\x08\x01"  # bytes in three axes, and in one
PIECE = 2**20  # bytes of a file at once
PORTION = 1000  # images at once where they become wider numbers
MOST_SHRUNK = 8 * 1032  # pixels in a byte of a PNG: of one bit, and shrunk by deflate at best
MOVING = 3  # end of the random key of shifts and flips


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one size, with their classes if they have any."""

    pixels: UInt8[Array, "N C H W"]
    labels: Int[Array, " N"] | None = None
    names: tuple[str, ...] = ()
    """What the labels are called."""
    origins: tuple[str, ...] = ()
    """Where each image comes from: its file, or its place in one."""

    def __len__(self) -> int:
        return len(self.pixels)

    def chosen(self, rows: Int[Array, " some"]) -> "Images":
        labels = None if self.labels is None else self.labels[rows]
        origins = tuple(self.origins[row] for row in rows) if self.origins else ()
        return Images(self.pixels[rows], labels, self.names, origins)


def read_images(path: str | Path, side: int | None = None, colours: int | None = None) -> Images:
    """The images of an IDX file, of a folder with one or with pictures, or of an array's file.

    The labels of an IDX file lie beside it, those of pictures are the names of sub-folders, and an
    ``.npz`` has ``images`` and perhaps ``labels`` with ``names``. With ``side`` and ``colours``,
    pictures are made of this size by the rule of ``pictures``; with ``side`` alone, they shrink.
    """
    path = Path(path)
    if not path.exists():
        raise BrokenFile(f"there is no file or folder {str(path)!r} to read images from")
    if path.suffix in (".npy", ".npz"):
        images = _read_array(path)
    else:
        fitted = None if side is None or colours is None else (side, colours)
        images = _read_folder(path, fitted) if path.is_dir() else _read_idx(path)
    if not images.pixels.size:
        raise EmptyCorpus(f"{path} holds no images; its shape is {images.pixels.shape}")
    if images.labels is not None and len(images.labels) != len(images):
        raise UnusableData(f"{path} has {len(images)} images and {len(images.labels)} labels")
    if not images.origins:
        places = tuple(f"{path.name}, image {number}" for number in range(len(images)))
        images = replace(images, origins=places)
    return _fitted(images, side, colours)


def has_labels(path: str | Path) -> bool:
    """Whether images have classes, without reading the pixels of pictures."""
    path = Path(path)
    if path.suffix in (".npy", ".npz"):
        return "labels" in read_arrays(path)
    if not path.is_dir():
        return read_images(path).labels is not None
    idx = any(path.glob("*images*idx3*"))
    return read_images(path).labels is not None if idx else not _pictures(path)


def _fitted(images: Images, side: int | None, colours: int | None) -> Images:
    """Square images shrink by areas; what that cannot do is left to the rule of ``pictures``."""
    _, channels, height, width = images.pixels.shape
    alike = colours in (None, channels)
    if alike and (side is None or height == width == side):
        return images
    if alike and side is not None and (colours is None or height == width >= side):
        return shrunk(images, side)
    assert colours is not None
    made = [from_bytes(np.moveaxis(one, 0, 2), side, colours).pixels for one in images.pixels]
    return replace(images, pixels=np.moveaxis(np.stack(made), 3, 1))


def image_files(path: str | Path) -> list[Path]:
    """The files that ``read_images`` takes pixels and classes from."""
    path = Path(path)
    if not path.is_dir():
        return [path]
    folders = sorted((sub for sub in path.iterdir() if sub.is_dir()), key=_natural)
    pictures = [file for folder in (path, *folders) for file in _pictures(folder)]
    return sorted(path.glob("*images*idx3*"))[:1] or pictures


def _read_idx(file: Path) -> Images:
    pixels = _idx(file, IDX_IMAGES)
    bare = file.name.removesuffix(".gz")
    name = bare.replace("images", "labels").replace("idx3", "idx1")
    beside = [file.with_name(name + end) for end in ("", ".gz") if name != bare]
    labels = next((_idx(other, IDX_LABELS) for other in beside if other.exists()), None)
    return Images(pixels[:, None], None if labels is None else labels.astype(np.int64))


def _idx(file: Path, kind: bytes) -> Array:
    """The bytes of an IDX file in their shape; the numbers before them are big-endian."""
    require_end(file)
    with file.open("rb") as stored:
        packed = stored.read(2) == b"\x1f\x8b"
    axes = kind[3]
    try:
        with gzip.open(file) if packed else file.open("rb") as stream:
            begins, header = stream.read(4), stream.read(4 * axes)
            if begins != kind:
                raise BrokenFile(
                    f"{file} is not an IDX file of {'images' if kind == IDX_IMAGES else 'labels'}: "
                    f"expected it to start with {kind.hex(' ')}, got {begins.hex(' ')}"
                )
            shape = [int.from_bytes(header[4 * axis : 4 * axis + 4]) for axis in range(axes)]
            size = math.prod(shape)
            if packed:
                require_bounded(file, size)
            body = bytearray()  # which grows, since a damaged header can ask for any size
            while len(body) <= size and (piece := stream.read(PIECE)):
                body += piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BrokenFile(f"{file} is damaged or cut short: {error}") from error
    if len(header) < 4 * axes or len(body) != size:
        whole = " x ".join(map(str, shape))
        got = f"more than {size}" if len(body) > size else len(body)
        raise BrokenFile(f"{file} should hold {whole} bytes, got {got}; fetch it again")
    if math.prod(max(1, axis) for axis in shape) > sys.maxsize:  # nothing, in a shape of no array
        raise BrokenFile(f"{file} says that it holds {' x '.join(map(str, shape))} bytes")
    return np.frombuffer(body, np.uint8).reshape(shape)


def _read_array(file: Path) -> Images:
    arrays = read_arrays(file)
    pixels, labels = arrays.get("", arrays.get("images")), arrays.get("labels")
    if pixels is None:
        raise UnusableData(f"{file} has no array images; it has {', '.join(arrays) or 'none'}")
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        raise UnusableData(
            f"{file}: expected images as bytes (uint8) in 3 axes, or 4 with colours, "
            f"got {pixels.dtype} in {pixels.ndim}"
        )
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "iu"):
        raise UnusableData(
            f"{file}: expected labels as whole numbers in one axis, "
            f"got {labels.dtype} in {labels.ndim}"
        )
    if labels is not None and labels.size and labels.min() < 0:
        raise UnusableData(f"{file}: expected labels from 0, got {labels.min()}")
    if pixels.ndim == 4 and pixels.shape[1] > 4 >= pixels.shape[3]:
        pixels = np.moveaxis(pixels, 3, 1)  # colours came last
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    names = tuple(map(str, arrays.get("names", ())))
    if labels is None:
        return Images(pixels)
    if names and labels.size and labels.max() >= len(names):
        raise UnusableData(f"{file} has the label {labels.max()}, but {len(names)} names")
    return Images(pixels, labels.astype(np.int64), names)


def _read_folder(folder: Path, fitted: tuple[int, int] | None) -> Images:
    idx = {file.name.removesuffix(".gz"): file for file in folder.glob("*images*idx3*")}
    if len(idx) > 1:
        raise UnusableData(f"{folder} holds {' and '.join(sorted(idx))}; name one of these files")
    return _read_idx(*idx.values()) if idx else _read_pictures(folder, fitted)


def _read_pictures(folder: Path, fitted: tuple[int, int] | None) -> Images:
    """PNG and JPEG files, in the natural order of their names: 2 before 10."""
    loose = _pictures(folder)
    classes = {sub.name: _pictures(sub) for sub in sorted(folder.iterdir(), key=_natural)}
    empty = [name for name, group in classes.items() if not group and (folder / name).is_dir()]
    classes = {name: group for name, group in classes.items() if group}
    if classes and (bare := [name for name in empty if name[0] != "."]):
        raise EmptyCorpus(
            f"{folder / bare[0]} holds no images; expected PNG or JPEG files of this class, or no "
            f"such folder"
        )
    files = [file for group in classes.values() for file in group] or loose
    if not files:
        raise EmptyCorpus(
            f"{folder} holds no images; expected PNG or JPEG files, in it or in a sub-folder for "
            f"each class, or an IDX file such as train-images-idx3-ubyte.gz"
        )
    if classes and loose:
        raise UnusableData(
            f"{folder} holds both {loose[0].name} and sub-folders with images, such as "
            f"{next(iter(classes))}; expected the one or the other"
        )
    if fitted:
        pixels = [np.moveaxis(read_picture(file, *fitted).pixels, 2, 0) for file in files]
    else:
        pixels = [_picture(file) for file in files]
    for file, image in zip(files, pixels, strict=True):
        if image.shape != pixels[0].shape:
            raise UnusableData(
                f"expected images of one size: {files[0]} has {_size(pixels[0])}, "
                f"{file} has {_size(image)}; say [data] side and colours to make them so"
            )
    counts = [len(group) for group in classes.values()]
    labels = np.repeat(np.arange(len(classes)), counts) if classes else None
    places = tuple(file.relative_to(folder).as_posix() for file in files)
    return Images(np.stack(pixels), labels, tuple(classes), places)


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    files = (f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and f.name[0] != ".")
    return sorted(files, key=_natural)


def _natural(path: Path) -> tuple[list[int | str], str]:
    parts = re.split(r"(\d+)", path.name)
    return [int(part) if part.isdecimal() else part.lower() for part in parts], path.name


def _picture(file: Path) -> UInt8[Array, "C H W"]:
    from PIL import Image

    try:
        with (
            warnings.catch_warnings(action="ignore"),  # of damage that does not matter
            Image.open(file, formats=["PNG", "JPEG"]) as image,
        ):
            png = image.format == "PNG"
            if png and image.width * image.height > MOST_SHRUNK * file.stat().st_size:
                raise ValueError(f"{image.width} x {image.height} pixels cannot be in so few bytes")
            kind = image.mode + ", partly transparent" * image.has_transparency_data
            target = {"1": "L", "L": "L", "P": "RGB", "RGB": "RGB"}.get(kind)
            pixels = np.asarray(image.convert(target)) if target else None
    except AssertionError as error:  # as Pillow has it of a palette that is not there
        raise BrokenFile(f"{file} cannot be read as PNG: it lacks its palette") from error
    except Exception as error:  # a damaged file makes Pillow raise anything
        raise BrokenFile(f"{file} cannot be read as PNG or JPEG: {error}") from error
    if pixels is None:
        raise UnusableData(
            f"{file} is a picture of Pillow's kind {kind}; "
            f"expected 8 bits of grey, or of red, green and blue"
        )
    return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)


def _size(image: UInt8[Array, "C H W"]) -> str:
    channels, height, width = image.shape
    return f"{width} x {height} pixels in {channels} {'colour' if channels == 1 else 'colours'}"


def shrunk(images: Images, side: int) -> Images:
    """Square images at side x side: every pixel is the mean of the area that it now covers."""
    height, width = images.pixels.shape[2:]
    if height != width:
        raise WrongLength(f"expected square images, got {height} x {width}")
    if not 1 <= side <= width:
        raise ImpossibleSetting(f"images of {width} x {width} cannot shrink to a side of {side}")
    # In units of 1 / side, old pixels are side wide and new ones width, so that all is exact.
    new, old = np.arange(side)[:, None] * width, np.arange(width) * side
    covered = np.minimum(new + width, old + side) - np.maximum(new, old)
    weights = np.maximum(covered, 0).astype(np.float64)
    pixels = np.empty((*images.pixels.shape[:2], side, side), np.uint8)
    for start in range(0, len(pixels), PORTION):
        sums = weights @ images.pixels[start : start + PORTION] @ weights.T
        pixels[start : start + PORTION] = np.floor(sums / width**2 + 0.5)
    return replace(images, pixels=pixels)


def colours(images: Images, levels: int) -> UInt8[Array, "N n"]:
    """The grey of every pixel as one of equal levels, from 0; row by row."""
    if images.pixels.shape[1] != 1:
        raise UnusableData(f"expected grey images, got {images.pixels.shape[1]} colours")
    if not 2 <= levels <= 256:
        raise ImpossibleSetting(f"expected 2 to 256 levels, got {levels}")
    level = (np.arange(256) * levels // 256).astype(np.uint8)
    return np.take(level, images.pixels).reshape(len(images), -1)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageParts(TwoParts[Images]):
    """Images of one size, scaled as the training part or as it is said."""

    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        first, second = self.training.pixels[0], self.validation.pixels[0]
        if first.shape != second.shape:
            raise UnusableData(
                f"images to train on have {_size(first)}, those to validate on {_size(second)}"
            )

    @cached_property
    def scale(self) -> Scaling:
        """Mean and deviation of every colour over the training part, unless they are said."""
        if self.scaling is not None:
            return self.scaling
        counts = np.zeros((self.training.pixels.shape[1], 256))
        for start in range(0, len(self.training), PORTION):
            for channel, count in enumerate(counts):
                values = self.training.pixels[start : start + PORTION, channel]
                count += np.bincount(values.ravel(), minlength=256)
        shares = counts / counts.sum(axis=1, keepdims=True)
        mean = shares @ np.arange(256)
        std = np.sqrt((shares * (np.arange(256) - mean[:, None]) ** 2).sum(axis=1))
        std = np.where((counts > 0).sum(axis=1) > 1, std, 1)
        return Scaling(mean[:, None, None], std[:, None, None])

    def scaled(self, part: Images, rows: Int[Array, " batch"]) -> Float[Array, "batch C H W"]:
        return self.scale.apply(part.pixels[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledImages(ImageParts):
    """Images with their classes: ``pixels`` and ``labels``; in training moved, mirrored or not."""

    shift: int = 0
    """Pixels that an image moves either way at most."""
    mirror: bool = False

    def train(self, step: int) -> Batch:
        batch = super().train(step)
        random = generator(self.seed, step, MOVING)
        if self.shift:
            background = self.scale.apply(np.zeros((1, 1, 1)))
            batch["pixels"] = shifted(random, batch["pixels"], self.shift, background)
        if self.mirror:
            batch["pixels"] = mirrored(random, batch["pixels"])
        return batch

    def examples(self, part: Images, rows: Int[Array, " batch"], random: Generator) -> Batch:
        assert part.labels is not None
        return {"pixels": self.scaled(part, rows), "labels": part.labels[rows]}


def shifted(
    random: Generator,
    pixels: Float[Array, "batch C H W"],
    most: int,
    background: Float[Array, "C 1 1"],
) -> Float[Array, "batch C H W"]:
    """Each image moved either way, by a few pixels at most, on a plain background."""
    batch, channels, height, width = pixels.shape
    padded = np.empty((batch, channels, height + 2 * most, width + 2 * most), pixels.dtype)
    padded[:] = background
    padded[:, :, most:-most, most:-most] = pixels
    down, right = random.integers(2 * most + 1, size=(2, batch))
    views = sliding_window_view(padded, (height, width), axis=(2, 3))
    return views[np.arange(batch), :, down, right]


def mirrored(random: Generator, pixels: Float[Array, "batch C H W"]) -> Float[Array, "batch C H W"]:
    """Each image flipped from left to right, or not, by chance."""
    flipped = random.random(len(pixels)) < 0.5
    return np.where(flipped[:, None, None, None], pixels[..., ::-1], pixels)


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedPatches(ImageParts):
    """Images of which patches are to be restored: ``pixels``, and which patches are ``masked``."""

    patch: int
    ratio: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        masked_count(self.patches, self.ratio)

    @property
    def patches(self) -> int:
        """How many patches an image has."""
        return int(self.training.pixels[0, 0].size) // self.patch**2

    def examples(self, part: Images, rows: Int[Array, " batch"], random: Generator) -> Batch:
        masked = even_masks(random, len(rows), self.patches, self.ratio)
        return {"pixels": self.scaled(part, rows), "masked": masked}


@dataclass(frozen=True, eq=False, kw_only=True)
class PixelSequences(ImageParts):
    """Images as sequences: ``targets`` are colours, ``ids`` those before them.

    The first has none before it, and gets the token to start from, which is ``levels``.
    """

    levels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.colours(self.training, np.arange(1))  # refuses what cannot be levels

    def colours(self, part: Images, rows: Int[Array, " batch"]) -> Int[Array, "batch n"]:
        return colours(Images(part.pixels[rows]), self.levels).astype(np.int64)

    def examples(self, part: Images, rows: Int[Array, " batch"], random: Generator) -> Batch:
        colour = self.colours(part, rows)
        return {"ids": np.insert(colour[:, :-1], 0, self.levels, axis=1), "targets": colour}


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedPixels(PixelSequences):
    """Images whose masked pixels are to be restored.

    ``ids`` are colours, and ``levels`` where a pixel is masked; ``targets`` are its true colours.
    """

    ratio: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        masked_count(self.training.pixels[0].size, self.ratio)

    def examples(self, part: Images, rows: Int[Array, " batch"], random: Generator) -> Batch:
        colour = self.colours(part, rows)
        masked = even_masks(random, len(rows), colour.shape[1], self.ratio)
        ids, targets = np.where(masked, self.levels, colour), np.where(masked, colour, IGNORED)
        return {"ids": ids, "targets": targets}

"""Pictures of numbers as PNG inside a page: an image in patches, a head's scores."""

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

Array = np.ndarray
SIDE = 168
"""Pixels of an image's side at least, if that is a whole number for each of its own."""
SCORES = 92
"""Cells of a side of scores at most; of more, the largest of several is drawn."""


def png(pixels: Array) -> str:
    """Bytes, height x width x 2 (grey and alpha) or 4 (colour and alpha), as an address."""
    height, width, channels = pixels.shape
    kind = {2: 4, 4: 6}[channels]
    rows = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # each begins with its filter
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def image(values: Array, patch: int, line: Sequence[int]) -> str:
    """An image, height x width x channels, from its least to its largest value, in patches."""
    found = np.asarray(values, dtype=np.float64)
    low, high = found.min(), found.max()
    found = np.round(255 * (found - low) / ((high - low) or 1.0)).astype(np.uint8)
    colour = found if found.shape[2] == 3 else np.repeat(found[..., :1], 3, axis=2)
    each = max(1, -(-SIDE // len(found)))
    pixels = np.full((*np.multiply(found.shape[:2], each), 4), 255, dtype=np.uint8)
    pixels[..., :3] = colour.repeat(each, axis=0).repeat(each, axis=1)
    for k in range(patch * each, len(pixels), patch * each):
        pixels[k, :, :3] = line
    for k in range(patch * each, pixels.shape[1], patch * each):
        pixels[:, k, :3] = line
    return png(pixels)


def scores(values: Array, pixels: int) -> str:
    """A head's scores as how much of a colour is let through, on a square-root scale."""
    found = np.sqrt(np.clip(np.nan_to_num(np.asarray(values, dtype=np.float64)), 0, 1))
    for axis in (0, 1):
        many = -(-found.shape[axis] // SCORES)
        starts = np.arange(0, found.shape[axis], many)
        found = np.maximum.reduceat(found, starts, axis=axis)
        found = found.repeat(max(1, -(-pixels // found.shape[axis])), axis=axis)
    alpha = np.round(255 * found).astype(np.uint8)
    return png(np.stack([np.zeros_like(alpha), alpha], axis=2))

"""Models in files of other programs that are not read here, known by their first bytes."""

import os
import re
import struct
from pathlib import Path

from vesalius.errors import NotACheckpoint

HEAD = 1 << 16
"""Bytes that are looked at: a GGUF file says its architecture first."""
ARCHITECTURE = rb"general\.architecture\x08\0\0\0(.)\0{7}([\w.-]+)"
"""A key of GGUF with its text: type 8, eight bytes of length, the letters."""
TABLE = bytes.fromhex("57fb808b247547db")
"""How the tables of TensorFlow end: a checkpoint's index, and a whole checkpoint until 2017."""
CHECKPOINT = "of a TensorFlow checkpoint"
SHARD = r"\.data-\d{5}-of-\d{5}"
TENSORFLOW = (
    "{file} is of a TensorFlow checkpoint, which only TensorFlow reads. With it, write the "
    "variables to a .npz, and convert that:\n"
    "  reader = tf.train.load_checkpoint({name!r})\n"
    "  np.savez('weights.npz', **{{n: reader.get_tensor(n) for n in "
    "reader.get_variable_to_shape_map()}})"
)
EXPORTED = b"24ka"
"""How later versions of llama2.c begin; the first has seven sizes alone."""


def program_of(file: Path) -> str | None:
    """What a file is that another program reads, or None."""
    with file.open("rb") as stream:
        head = stream.read(HEAD)
        stream.seek(-min(len(TABLE), file.stat().st_size), os.SEEK_END)
        tail = stream.read()
    if head.startswith(b"GGUF"):
        entry = re.search(ARCHITECTURE, head, re.DOTALL)
        architecture = entry[2][: entry[1][0]].decode() if entry else "unknown"
        return f"GGUF, the format of llama.cpp; its architecture is {architecture}"
    if tail == TABLE or re.fullmatch(SHARD, file.suffix):
        return CHECKPOINT
    if head.startswith(EXPORTED) or _is_llama2c(head, file.stat().st_size):
        return "in the format of llama2.c; its architecture is llama"
    return None


def _is_llama2c(head: bytes, size: int) -> bool:
    """Seven whole numbers that are the sizes of a Llama, and as many bytes as they ask for."""
    if len(head) < 28:
        return False
    width, inner, layers, heads, shared, words, context = struct.unpack("<7i", head[:28])
    if min(width, inner, layers, heads, shared, abs(words), context) < 1 or width % heads:
        return False
    of_layer = 2 * width * (1 + width + shared * (width // heads)) + 3 * width * inner
    matrices = 1 if words > 0 else 2  # the output's own, where it is not the embedding
    numbers = matrices * abs(words) * width + layers * of_layer + width
    return bool(size == 28 + 4 * (numbers + context * (width // heads)))


def require_known(file: Path) -> None:
    """Refuse a model of another program, by name."""
    program = program_of(file)
    if program == CHECKPOINT:
        prefix = re.sub(rf"(\.index|{SHARD})$", "", str(file))
        raise NotACheckpoint(TENSORFLOW.format(file=file, name=prefix))
    if program is not None:
        raise NotACheckpoint(
            f"{file} is {program}. It is not read; expected a model in the layout of Hugging Face "
            f"or Vesalius, which is config.json and model.safetensors"
        )


def require_none(folder: Path) -> None:
    """Refuse a folder that holds a model of another program in the place of weights."""
    for file in sorted(folder.iterdir()):
        known = file.suffix in (".gguf", ".bin", ".safetensors", ".index")
        if known and file.is_file():
            require_known(file)

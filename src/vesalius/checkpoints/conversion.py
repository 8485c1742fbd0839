"""Models from files of any kind that ``vesalius convert`` reads, other libraries' among them.

nanoGPT pickles its settings beside its weights, timm names an architecture and Keras stores a
configuration; of weights alone, the names of tensors tell the layout (``checkpoints.bare``). Names
and shapes are left to ``checkpoints.libraries``.
"""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vesalius.checkpoints import (
    bare,
    files,
    folders,
    foreign,
    keras_files,
    libraries,
    pickled,
    plain,
    preprocessor,
)
from vesalius.checkpoints.files import Tensors
from vesalius.checkpoints.huggingface import OWN_WEIGHTS
from vesalius.checkpoints.tables import unwrapped
from vesalius.data.arrays import read_arrays
from vesalius.equations.parameters import Array
from vesalius.errors import NotACheckpoint, UnknownConfiguration, UnknownSetting, VesaliusError
from vesalius.families import configuration
from vesalius.families.config import Config
from vesalius.model import Model, folder_of, load_folder
from vesalius.preparation import Preparation
from vesalius.tokenizers import Tokenizer, read_texts, read_tokenizer, train_characters
from vesalius.views.shown import counted

TIMM_HEADS = {"tiny": 3, "small": 6, "base": 12, "large": 16, "huge": 16, "giant": 16}
"""Attention heads of timm's sizes, which its files do not say."""


SAYS_ITSELF = ("vesalius", "model_type", "architectures", "architecture")
"""Keys of config.json of which each says what the weights are."""


def read_model(
    source: str | Path,
    ignore_extra: bool = False,
    tokenizer: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Model:
    """The model of a folder, of a file, or of a specimen; with the ``tokenizer`` of elsewhere.

    ``settings`` state what files of weights alone do not say, as in ``{"heads": 8}``.

    A tokenizer is a file or folder that holds one, or a model's name. A .txt file other than
    vocab.txt is a text: its characters in the order of their code points, as nanoGPT numbers them.
    """
    model = _read(source, ignore_extra, settings or {})
    if tokenizer is not None:
        model.tokenizer = _tokenizer(tokenizer, model)
    return model


def _tokenizer(source: str | Path, model: Model) -> Tokenizer:
    path, words = Path(source), model.config.vocabulary
    if path.suffix in (".pkl", ".pickle"):
        raise NotACheckpoint(
            f"{path} is pickled and could run code, so it is not read; nanoGPT's meta.pkl numbers "
            f"the characters of a text: give that text, its input.txt"
        )
    if path.is_file() and path.suffix == ".txt" and path.name != "vocab.txt":
        found = train_characters(read_texts([path]))
        if found.size != words:
            raise NotACheckpoint(
                f"{path} has {counted(found.size, 'character')}, the model {words:,} tokens; "
                f"expected the text that its characters were numbered from"
            )
        return found
    read = read_tokenizer(path if path.is_file() else folder_of(source))
    if read is None:
        raise NotACheckpoint(f"{source} holds no tokenizer; expected tokenizer.json or vocab files")
    if read.rows > words:
        raise NotACheckpoint(
            f"the tokenizer's ids go up to {read.rows - 1:,}, those of the model to {words - 1:,}; "
            f"expected the tokenizer that the model was trained with"
        )
    return read


def _read(source: str | Path, ignore_extra: bool, settings: Mapping[str, Any]) -> Model:
    if not os.path.exists(source) and os.path.isfile(index := f"{source}.index"):
        foreign.require_known(Path(index))  # a TensorFlow checkpoint, by the name that it has there
    path = Path(source) if os.path.isfile(source) else folder_of(source)
    folder = path if path.is_dir() else path.parent
    found = None if keras_files.find(path) else _weights(path)
    described = folder / "config.json"
    says = plain.read_json(described) if described.exists() else {}
    if isinstance(found, Tensors) and not any(key in says for key in SAYS_ITSELF):
        layout = bare.recognise({name: a.shape for name, a in found.arrays.items()})
        if layout is not None:
            return _bare(found, layout, bare.stated(layout, says, settings), ignore_extra)
    if settings:
        raise UnknownSetting(
            f"{', '.join(settings)}: settings are stated of weights alone whose layout is known by "
            f"the names of tensors, and {source} is not of that kind"
        )
    if keras := keras_files.find(path):
        family, measured, tensors = keras_files.read(keras, ignore_extra)
        converted = _configured(family, measured)
        state = libraries.read_state("Keras", converted, tensors.arrays, ignore_extra)
        return Model(converted, state, dtype=tensors.dtype)
    if isinstance(found, Model):
        return found
    if found is not None and "architecture" in says:
        return _timm(says, found, ignore_extra)
    own = path.is_dir() and bool(files.weight_files(path))
    if found is not None and not described.exists() and not own:
        raise NotACheckpoint(
            f"{path} holds weights, but no config.json beside it says of what; expected Hugging "
            f'Face\'s, or timm\'s, as in {{"architecture": "vit_base_patch16_224"}}; {OWN_WEIGHTS}'
        )
    return load_folder(folder, tensors=None if own else found, ignore_extra=ignore_extra)


def _weights(path: Path) -> Tensors | Model | None:
    """The tensors of a file or folder; the whole model where a pickled file has it."""
    if path.suffix == ".npz":
        return _numpy(path)
    if path.suffix == ".safetensors":
        return files.read(path)
    if not path.is_dir():
        return _pickled(path)
    if files.weight_files(path):
        return files.read_folder(path)
    archives = sorted(path.glob("*.npz"))
    if len(archives) == 1 and not files.pickled_files(path):
        return _numpy(archives[0])
    return _pickled(pickled.find(path))


def _numpy(file: Path) -> Tensors:
    """The arrays of a .npz; half precision is widened to single, which loses nothing."""
    arrays = read_arrays(file)
    dtype = files.widest([str(a.dtype) for a in arrays.values()])
    wide = {n: a.astype(np.float32) if a.dtype == np.float16 else a for n, a in arrays.items()}
    return Tensors(wide, dtype)


def _bare(
    tensors: Tensors, layout: bare.Layout, said: Mapping[str, Any], ignore_extra: bool
) -> Model:
    """A model of weights alone, with what was stated of it."""
    read = layout.read(_unwrapped(tensors), said)
    config, arrays = _configured(read.family, read.settings), read.arrays
    if tensors.dtype == "float64":
        arrays = {
            n: a.astype("float64", copy=False) if a.dtype.kind == "f" else a
            for n, a in arrays.items()
        }
    state = libraries.read_by(read.dialect, config, arrays, ignore_extra, layout.title)
    folders.require_finite(arrays, state)
    return Model(config, state, dtype=tensors.dtype)


def _pickled(file: Path) -> Tensors | Model:
    """The weights of a pickled file, or the whole model where nanoGPT wrote it."""
    if file.name == pickled.INDEX:
        return pickled.read(file)
    held = pickled.unpickled(file)
    if isinstance(held, dict) and isinstance(held.get("model_args"), dict):
        return _nanogpt(file, held)
    return pickled.tensors(file, pickled.state_in(held))


def _configured(family: str, settings: Mapping[str, Any]) -> Config:
    try:
        return configuration(family, **settings)
    except VesaliusError as error:
        raise UnknownConfiguration(f"the model's settings cannot be used: {error}") from error


# ----------------------------------------------------------------------------------------- nanoGPT

NANOGPT = {
    "vocabulary": "vocab_size",
    "context": "block_size",
    "layers": "n_layer",
    "embedding": "n_embd",
    "heads": "n_head",
}


def _nanogpt(file: Path, held: Mapping[str, Any]) -> Model:
    said = held["model_args"]
    if missing := [name for name in NANOGPT.values() if name not in said]:
        raise UnknownConfiguration(f"{file}: its model_args lack {', '.join(missing)}")
    sizes = {ours: said[theirs] for ours, theirs in NANOGPT.items()}
    config = _configured(
        "gpt2", {**sizes, "activation": "gelu", "dropout": said.get("dropout", 0.0)}
    )
    tensors = pickled.tensors(file, pickled.state_in(held))
    arrays = _unwrapped(tensors)
    if said.get("bias") is False:
        arrays = _no_biases(arrays) | arrays
    return Model(config, libraries.read_state("nanoGPT", config, arrays), dtype=tensors.dtype)


def _unwrapped(tensors: Tensors) -> dict[str, Array]:
    """The arrays by their names alone."""
    return {plain: tensors.arrays[name] for name, plain in unwrapped(tensors.arrays).items()}


def _no_biases(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Zeros for the biases of every layer: a model without them is one whose biases are zero."""
    layers = [n for n in arrays if re.search(r"(attn\.c_\w+|mlp\.c_\w+|ln_\w+)\.weight$", n)]
    return {
        name.removesuffix("weight") + "bias": np.zeros(arrays[name].shape[:1], arrays[name].dtype)
        for name in layers
    }


# -------------------------------------------------------------------------------------------- timm


def _timm(described: Mapping[str, Any], tensors: Tensors, ignore_extra: bool) -> Model:
    """A vision transformer of timm; whatever has a size is measured."""
    name, said = str(described["architecture"]), _object(described, "model_args")
    arrays = _unwrapped(tensors)
    measured = {n: arrays[n].shape for n in ("patch_embed.proj.weight", "pos_embed") if n in arrays}
    size = re.match(r"(?:vit|deit)_([a-z]+)", name)
    if not size or [len(shape) for shape in measured.values()] != [4, 3]:
        raise UnknownConfiguration(
            f"config.json says architecture {name!r}; of timm's models vit and deit can be read"
        )
    heads = said.get("num_heads", TIMM_HEADS.get(size.group(1)))
    if heads is None:
        raise UnknownConfiguration(
            f"how many heads {name!r} has is not known; "
            f'add "model_args": {{"num_heads": …}} to config.json'
        )
    if (pool := described.get("global_pool", "token")) != "token":
        raise UnknownConfiguration(
            f"config.json says global_pool = {pool!r}; only 'token' can be read"
        )
    embedding, channels, patch, _ = measured["patch_embed.proj.weight"]
    inner, head = (
        next(iter(arrays[name].shape), 0) if name in arrays else 0
        for name in ("blocks.0.mlp.fc1.weight", "head.weight")
    )
    settings = {
        "image": patch * math.isqrt(max(1, measured["pos_embed"][1] - 1)),
        "patch": patch,
        "channels": channels,
        "embedding": embedding,
        "layers": len({n.split(".")[1] for n in arrays if n.startswith("blocks.")}),
        "heads": heads,
        "feedforward": inner,
        "classes": head,
        "epsilon": 1e-6,
        "activation": "quick_gelu" if "quickgelu" in name else "gelu",
        "qkv_bias": "blocks.0.attn.qkv.bias" in arrays,
    }
    config = _configured("vit", settings)
    state = libraries.read_state("timm", config, arrays, ignore_extra)
    kept = _timm_scaling(described, channels)
    return Model(config, state, dtype=tensors.dtype, preprocessing=kept)


def _timm_scaling(described: Mapping[str, Any], channels: int) -> Preparation:
    """How timm scales pixels, where it says so; they are 0 to 1 there, and 0 to 255 here."""
    said, names = _object(described, "pretrained_cfg"), described.get("label_names")
    found = {n: preprocessor.numbers(said.get(n), channels) for n in ("mean", "std")}
    if not all(found.values()):
        return Preparation()
    mean, std = ([255 * v for v in values] for values in found.values())
    return Preparation(
        mean=mean, std=std, names=list(map(str, names)) if isinstance(names, list) else []
    )


def _object(described: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object within a JSON object, empty where there is none."""
    value = described.get(key)
    return value if isinstance(value, dict) else {}

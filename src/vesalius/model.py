"""A loaded model: configuration, tokenizer, parameters in the paper's letters, and a network.

``load`` takes a specimen of the package, a local folder or a Hugging Face name, in this order.
Parameters are views of the file; PyTorch is imported when the network is first asked for.
"""

import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vesalius import specimens
from vesalius.checkpoints import files, huggingface, layout, plain, tables
from vesalius.equations.parameters import Array
from vesalius.errors import (
    CheckpointMismatch,
    NotACheckpoint,
    NotFinite,
    UnknownConfiguration,
    UnknownModel,
    Unreachable,
    WrongKind,
    nearest,
)
from vesalius.families import FAMILIES, family_of, names
from vesalius.families.configs import Config
from vesalius.families.sizes import HUB_NAMES
from vesalius.tokenizers import Tokenizer, read_tokenizer

PREPROCESSING = "preprocessing.json"
HUB_NAME = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")


class Model:
    """One model. ``state`` holds its arrays in our layout; all else is made of it."""

    def __init__(
        self,
        config: Config,
        state: Mapping[str, Array],
        tokenizer: Tokenizer | None = None,
        dtype: str = "float32",
        origin: Mapping[str, Any] | None = None,
        preprocessing: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.state, self.tokenizer, self.dtype = config, dict(state), tokenizer, dtype
        self.origin = dict(origin or {})
        """The config.json that it came with, for what our configuration has no word for."""
        self.preprocessing = dict(preprocessing or {})
        """What training did to images or series before the model saw them."""
        self.engines: dict[Any, Any] = {}
        """What generation has made of the state; it does not see later changes of that."""

    @property
    def family(self) -> str:
        return family_of(self.config).name

    @cached_property
    def parameters(self) -> Any:
        """The paper's parameter set, as views of the state."""
        return layout.letters(self.config, self.state)

    @cached_property
    def network(self) -> Any:
        """The PyTorch network, sharing its memory with the state; ready for inference."""
        build = family_of(self.config).network  # which says so where PyTorch is missing
        import torch

        with torch.device("meta"):
            network = build(self.config)
        tensors = {name: torch.from_numpy(array) for name, array in self.state.items()}
        network.load_state_dict(tensors, strict=True, assign=True)
        return network.eval()

    def save(self, folder: str | Path, layout: str = "vesalius") -> None:
        """Write the model to a folder, in our layout or in Hugging Face's.

        A folder that is not there yet appears with all its files in one step, or not at all. In
        one that is there, all files are written before the first is replaced, so that a failure
        leaves the older model as it was; each is then replaced whole, one after the other.
        """
        folder = Path(folder)
        if layout not in ("vesalius", "huggingface"):
            raise WrongKind(f"layout must be vesalius or huggingface, got {layout!r}")
        if layout == "huggingface":
            config = huggingface.write_config(self.config, self.origin) | {"dtype": self.dtype}
            tensors = huggingface.write_state(self.config, self.state)
        else:
            config = {"vesalius": self.family, "dtype": self.dtype, **self.config.to_json()}
            tensors = self.state
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        with (files.staged if folder.is_dir() else files.new_folder)(folder) as stage:
            files.write(stage / files.WEIGHTS, tensors, self.dtype)
            (stage / "config.json").write_text(text, encoding="utf-8")
            if self.preprocessing:
                kept = json.dumps(self.preprocessing, indent=2, ensure_ascii=False) + "\n"
                (stage / PREPROCESSING).write_text(kept, encoding="utf-8")
            if self.tokenizer is not None:
                self.tokenizer.save(stage)


def create(family: str, seed: int = 0, **settings: Any) -> Model:
    """A new model of a family or a named size.

    Transformers for text are initialised as GPT-2 and BERT are, vit by Glorot and Bengio, others as
    PyTorch does. Its generator draws the numbers, so that it has to be installed.
    """
    from vesalius.families import configuration

    config = configuration(family, **settings)
    build = family_of(config).network
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build(config)
    state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    return Model(config, state)


def load(
    name: str | Path,
    *,
    revision: str | None = None,
    local_files_only: bool = False,
    allow_non_finite: bool = False,
) -> Model:
    """Load a specimen, a folder, or a Hugging Face model, whichever the name is first."""
    if (folder := local_folder(name)) is not None:
        return load_folder(folder, allow_non_finite)
    if str(name).endswith((".safetensors", ".bin", ".pt", ".json")):
        raise NotACheckpoint(f"{str(name)!r} names a file; expected its folder")
    if not HUB_NAME.fullmatch(str(name)):
        raise UnknownModel(
            f"there is no folder {str(name)!r}, and it cannot be a Hugging Face name; "
            f"expected a folder with config.json, or a name such as gpt2"
        )
    return load_folder(_from_hub(str(name), revision, local_files_only), allow_non_finite)


def local_folder(name: str | Path) -> Path | None:
    """The folder of a specimen, or the one that is named; None where there is neither."""
    if str(name) in specimens.specimens():
        return specimens.FOLDER / name
    return Path(name) if is_folder(name) else None


def is_folder(name: str | Path) -> bool:
    """Whether there is a folder of this name; the empty name is none."""
    try:
        return bool(str(name)) and Path(name).is_dir()
    except (OSError, ValueError):  # too long, or with a character that no name can have
        return False


def _from_hub(name: str, revision: str | None, local_files_only: bool) -> Path:
    """The folder of a Hugging Face model; a named size is asked for under its name there.

    The hub redirects old names such as gpt2, so that caches may hold a model under either.
    """
    if name not in HUB_NAMES and name in names():
        raise UnknownModel(
            f"there is no folder {name!r}, and no weights are published under this name; "
            f"make a new model with vesalius.create({name!r})"
        )
    try:
        return _fetch(HUB_NAMES.get(name, name), revision, local_files_only)
    except Unreachable as error:
        if name not in HUB_NAMES:
            raise
        with suppress(Unreachable):
            return _fetch(name, revision, local_files_only=True)
        raise Unreachable(f"{name}: {error}") from error


def _fetch(name: str, revision: str | None, local_files_only: bool) -> Path:
    """The folder of a Hugging Face model in its cache, downloaded if need be."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    wanted = ["config.json", files.WEIGHTS, files.INDEX, "model-*.safetensors"]
    wanted += ["tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json"]
    try:
        return Path(
            snapshot_download(
                name, revision=revision, allow_patterns=wanted, local_files_only=local_files_only
            )
        )
    except RevisionNotFoundError as error:
        raise UnknownModel(f"{name} has no revision {revision!r}") from error
    except GatedRepoError as error:
        raise Unreachable(f"{name} is gated; ask for access and log in to Hugging Face") from error
    except RepositoryNotFoundError as error:
        raise UnknownModel(
            f"there is no folder and no Hugging Face model {name!r}; {nearest(name, names())}"
        ) from error
    except HFValidationError as error:
        raise UnknownModel(f"{name!r} cannot be a Hugging Face name: {error}") from error
    except Exception as error:  # of the library, its transport, or the disk
        offline = local_files_only or os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")
        reason = "the network is not to be used" if offline else "the network does not answer"
        raise Unreachable(
            f"{name!r} is no folder here and not in Hugging Face's cache, and {reason}"
        ) from error


def load_folder(
    folder: Path, allow_non_finite: bool = False, tensors: files.Tensors | None = None
) -> Model:
    """Load a folder in our layout or in Hugging Face's; ``tensors`` stand in for its weights."""
    described = _description(folder)
    tensors = files.read_folder(folder) if tensors is None else tensors
    config = _config(described, {name: a.shape for name, a in tensors.arrays.items()})
    tensors = _of_one_precision(tensors)
    own = "vesalius" in described
    state = (_own_state if own else huggingface.read_state)(config, tensors.arrays)
    if not allow_non_finite:
        _require_finite(tensors.arrays, state)
    tokenizer = read_tokenizer(folder)
    vocabulary = getattr(config, "vocabulary", None)
    if tokenizer is not None and vocabulary is not None and tokenizer.rows > vocabulary:
        raise CheckpointMismatch(
            f"the tokenizer's ids go up to {tokenizer.rows - 1}, the embedding's rows to "
            f"{vocabulary - 1}; they do not belong together"
        )
    kept = folder / PREPROCESSING
    preprocessing = plain.read_json(kept) if kept.exists() else None
    return Model(config, state, tokenizer, tensors.dtype, described, preprocessing)


def _of_one_precision(tensors: files.Tensors) -> files.Tensors:
    """Double precision for all where some have it: a network runs in one."""
    if tensors.dtype != "float64":
        return tensors
    wide = {k: a.astype("float64", copy=False) for k, a in tensors.arrays.items()}
    return files.Tensors(wide, tensors.dtype)


def read_config(folder: Path) -> Config:
    """The configuration of a folder, without its weights."""
    return _config(_description(folder), files.read_shapes(folder))


def _description(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").exists():
        raise NotACheckpoint(f"{folder} holds no config.json; expected a model's folder")
    return plain.read_json(folder / "config.json")


def _config(described: dict[str, Any], shapes: Mapping[str, layout.Shape]) -> Config:
    if "vesalius" in described:
        return _own_config(described)
    return huggingface.read_config(described, shapes)


def _own_config(described: dict[str, Any]) -> Config:
    settings = {k: v for k, v in described.items() if k not in ("vesalius", "dtype")}
    family = described["vesalius"]
    if not isinstance(family, str) or family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UnknownConfiguration(f"config.json says family {family!r}; known are {known}")
    try:
        return FAMILIES[family].config().change(**settings)
    except ValueError as error:
        raise UnknownConfiguration(f"config.json cannot be used: {error}") from error


def _own_state(config: Config, tensors: Mapping[str, Array]) -> dict[str, Array]:
    rows = [tables.Row(name, name) for name in layout.shapes(config)]
    return tables.read_state(config, rows, tensors, tied={})


def _require_finite(tensors: Mapping[str, Array], state: Mapping[str, Array]) -> None:
    """Refuse NaN and infinity in the state, naming every tensor of the file that holds one.

    As in the equations, a sum tells at the speed of memory whether to look closer; all cores look.
    """

    def suspect(array: Array) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            return not np.isfinite(array.sum())

    with ThreadPoolExecutor() as pool:
        suspects = pool.map(suspect, tensors.values())
        bad = [n for n, s in zip(tensors, suspects, strict=True) if s]
    bad = [name for name in bad if not np.isfinite(tensors[name]).all()]
    # What is not part of the state, such as the mask that old files carry, may hold what it likes.
    if bad and not all(np.isfinite(array).all() for array in state.values()):
        raise NotFinite(
            f"NaN or infinity in {', '.join(bad)}; to load it nevertheless say allow_non_finite"
        )

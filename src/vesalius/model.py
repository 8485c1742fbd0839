"""A loaded model: configuration, tokenizer, parameters in the paper's letters, and a network.

``load`` takes a specimen of the package, a local folder or a Hugging Face name.
Parameters are views of the file; PyTorch is imported when the network is first asked for.
"""

import json
import os
import re
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius import arguments
from vesalius.checkpoints import (
    exchanging,
    files,
    folders,
    hub,
    huggingface,
    layout,
    naming,
    preprocessor,
)
from vesalius.checkpoints.locations import Location, Locations
from vesalius.checkpoints.plain import read_json
from vesalius.equations.parameters import Array, ParameterSet
from vesalius.errors import (
    BrokenFile,
    CheckpointMismatch,
    UnknownConfiguration,
    UnknownModel,
    VesaliusError,
    WrongKind,
    nearest,
)
from vesalius.families import HUB_NAMES, configuration, family_of
from vesalius.families.config import Config, Setting
from vesalius.families.costs import leaves
from vesalius.machine import parallel_map, warn_once
from vesalius.machine.properties import cached_property
from vesalius.preparation import Preparation
from vesalius.tokenizers import Tokenizer, read_tokenizer
from vesalius.tokenizers.kinds import END_OF_TEXT
from vesalius.tokenizers.reading import SETTINGS
from vesalius.views import notebooks
from vesalius.views.shown import Part, Shown, Table, shown_value

if TYPE_CHECKING:
    from torch import nn

PREPROCESSING, GENERATION = "preprocessing.json", "generation_config.json"
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""What older config.json say that belongs to generation."""


ATTEMPTS = 10
"""How often a folder is read while others write to it."""
PIECE, HALF = 2**22, 4
"""Bytes of the weights that a fingerprint reads at once, which caches hold; and of half a word."""


class State(UserDict[str, Array]):
    """Arrays by name. Each may be replaced by one of its shape; ``replaced`` is called then."""

    def __init__(self, arrays: Mapping[str, Array], replaced: Callable[[], None]) -> None:
        super().__init__()
        self.data = dict(arrays)
        self.replaced = replaced

    def __setitem__(self, name: str, array: Array) -> None:
        if name not in self.data:
            raise CheckpointMismatch(f"the model has no {name!r}; {nearest(name, self.data)}")
        before = self.data[name]
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise CheckpointMismatch(f"{name} is an array of floating point, got {kind}")
        if array.shape != before.shape:
            raise CheckpointMismatch(f"{name} is {before.shape}, got {array.shape}")
        if before is not array:
            self.data[name] = array
            self.replaced()

    def __delitem__(self, name: str) -> None:
        raise CheckpointMismatch(f"a model has all of its arrays; fill {name} with zeros instead")

    def copy(self) -> dict[str, Array]:  # type: ignore[override]
        return dict(self.data)


class Model(Shown):
    """One model. ``state`` holds its arrays in our layout; all else is made of it."""

    def __init__(
        self,
        config: Config,
        state: Mapping[str, Array],
        tokenizer: Tokenizer | None = None,
        dtype: str = "float32",
        origin: Mapping[str, Any] | None = None,
        preprocessing: Preparation | Mapping[str, Any] | None = None,
        generation_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.tokenizer, self._dtype, self._rounds = config, tokenizer, dtype, False
        self.state = state
        self.origin = dict(origin or {})
        """The config.json that it came with, for what our configuration has no word for."""
        self.preprocessing = preprocessing or {}
        self.generation_config = dict(generation_config or {})
        """What generation_config.json said, or an older config.json in its place."""
        self.folder: Path | None = None
        """Where its files are, if it was read from some."""
        self.engines: dict[str, tuple[int, Any]] = {}
        """By dtype: the fingerprint of the state, and the engine that was packed from it."""

    @property
    def preprocessing(self) -> Preparation:
        """What training did to the input, and what it was trained on. A mapping sets it, too."""
        return self._preparation

    @preprocessing.setter
    def preprocessing(self, known: Preparation | Mapping[str, Any]) -> None:
        if not isinstance(known, Preparation):
            known = Preparation.from_json(known)
        self._preparation = known

    @property
    def dtype(self) -> str:
        """The precision of its file. Set it to save in another one.

        Numbers that the file's precision cannot hold, as after an edit, are saved in a wider one;
        those that do not fit a precision that was set are rounded to it.
        """
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: str) -> None:
        self._dtype, self._rounds = dtype, True

    @property
    def state(self) -> "State":
        """The arrays by name. They may be changed in place, or replaced: all else follows."""
        return self._state

    @state.setter
    def state(self, arrays: Mapping[str, Array]) -> None:
        self._state = State(arrays, self._forget)
        self._forget()

    def _forget(self) -> None:
        """Make what shares memory with replaced arrays anew, when it is next asked for."""
        for name in ("parameters", "network"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: not what is made of the state and shares its memory."""
        made = ("parameters", "network", "_locations")
        own = {name: value for name, value in self.__dict__.items() if name not in made}
        return {**own, "engines": {}}

    def fingerprint(self) -> int:
        """A number that changes when the weights do, in whichever way; as fast as memory."""
        require_shared(self)
        arrays = self.state.items()
        about = [(name, array.shape, str(array.dtype)) for name, array in arrays]
        pieces = (piece for _, array in arrays for piece in _pieces(array))
        return hash((*about, *parallel_map(_digest, pieces)))

    @property
    def family(self) -> str:
        return family_of(self.config).name

    def __repr__(self) -> str:
        """The family, its sizes, the parameters and the tokenizer."""
        settings = self.config.to_json().items()
        sizes = ", ".join(f"{name} {v:,}" for name, v in settings if type(v) is int and v)
        return "\n  ".join([f"Model: {self._headline()}", sizes, self._words()])

    def to_json(self) -> dict[str, Any]:
        """The family, its settings, how many parameters there are, and what reads text."""
        return {
            "family": self.family,
            "parameters": self._parameters(),
            "dtype": self.dtype,
            "config": self.config.to_json(),
            "tokenizer": None if self.tokenizer is None else self.tokenizer.size,
        }

    def view(self) -> Iterator[Part]:
        family = family_of(self.config)
        rows = [
            (s["name"], s["symbol"], shown_value(s["value"]), s["meaning"])
            for s in self.config.described()
            if s["value"] is not None
        ]
        title = f"{family.described(self.config)} (Section {family.sections})"
        heads = ("setting", "symbol", "value", "meaning")
        yield self._headline()
        yield Table(heads, rows, right=(2,), prose=(3,), title=title)
        yield self._words()

    def _repr_html_(self) -> str:
        family, _, rest = self._headline().partition(", ")
        parts = family_of(self.config).components(self.config)
        sets = [notebooks.Set(*one) for one in leaves(parts, self.config.symbols())]
        return notebooks.of_model((family, rest), sets, list(self.view())[1:])

    def _headline(self) -> str:
        return f"{self.family}, {self._parameters():,} parameters, {self.dtype}"

    def _parameters(self) -> int:
        return sum(array.size for name, array in self.state.items() if ".running_" not in name)

    def _words(self) -> str:
        return "no tokenizer" if self.tokenizer is None else repr(self.tokenizer)

    @cached_property
    def parameters(self) -> ParameterSet:
        """The paper's parameter set, as views of the state."""
        return layout.letters(self.config, self.state)

    @cached_property
    def network(self) -> "nn.Module":
        """The PyTorch network, sharing its memory with the state; ready for inference."""
        build = family_of(self.config).network.get()  # which says so where PyTorch is missing
        import torch

        with torch.device("meta"):
            network: nn.Module = build(self.config)
        tensors = {name: torch.from_numpy(array) for name, array in self.state.items()}
        network.load_state_dict(tensors, strict=True, assign=True)
        return network.eval()

    @cached_property
    def _locations(self) -> Locations | None:
        if self.folder is None:
            return None
        return Locations(self.folder, self.config, partial(folders.read_state, self.origin))

    def locate(self, symbol: str, at: tuple[int, ...]) -> Location | None:
        """Where a number of the parameters stands in the file that they came from, if any.

        ``symbol`` is an array in the paper's letters, as in ``Phi[3].Gamma.Psi[2].W_Q``.
        """
        return None if self._locations is None else self._locations.find(symbol, at)

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text: ``eos_token_id``, one or several, or else <|endoftext|>."""
        ids = self.generation_config.get("eos_token_id")
        if ids is None:
            special = {} if self.tokenizer is None else self.tokenizer.special
            return frozenset(i for name, i in special.items() if name == END_OF_TEXT)
        listed = ids if isinstance(ids, list) else [ids]
        if not all(type(i) is int for i in listed):
            raise UnknownConfiguration(
                f"{GENERATION} or config.json says eos_token_id {ids!r}; "
                f"expected the id of a token, or a list of ids"
            )
        rows = self.config.vocabulary
        if beyond := [i for i in listed if not 0 <= i < rows]:
            warn_once(
                f"{GENERATION} or config.json says eos_token_id {', '.join(map(str, beyond))}, but "
                f"tokens are 0 to {rows - 1}: no text ends there"
            )
        return frozenset(listed) - frozenset(beyond)

    @property
    def start(self) -> int | None:
        """The token that a text from nothing begins with: ``bos_token_id``; None where none is."""
        found = self.generation_config.get("bos_token_id")
        rows = self.config.vocabulary
        if found is None or (type(found) is int and 0 <= found < rows):
            return found
        raise UnknownConfiguration(
            f"{GENERATION} or config.json says bos_token_id {found!r}; "
            f"expected the id of a token, 0 to {rows - 1}"
        )

    def save(self, folder: str | Path, layout: str = "vesalius") -> None:
        """Write the model to a folder, in our layout or in Hugging Face's.

        A folder that is not there yet appears with all its files in one step, or not at all. One
        that is there changes in one step too, where the system can (see ``exchanging``): a process
        killed at any moment leaves the older model or the new one. Other files in it stay.

        Weights are written in ``dtype``; if an edit made numbers that it cannot hold, all are
        written in float32 or float64. Set ``dtype`` to round them.
        """
        folder = Path(folder)
        if layout not in ("vesalius", "huggingface"):
            raise WrongKind(f"layout must be vesalius or huggingface, got {layout!r}")
        dtype = self.dtype if self._rounds else files.lossless(self.state, self.dtype)
        if layout == "huggingface":
            names = self.preprocessing.names or ()
            problem = preprocessor.LABELS.get(self.preprocessing.labels or "")
            config = huggingface.write_config(self.config, self.origin, names, problem)
            if problem is not None and self.ends and config.get("pad_token_id") is None:
                config["pad_token_id"] = min(self.ends)  # without one, theirs reads one text a time
            if "eos_token_id" in config and config["eos_token_id"] is None and self.ends:
                ends = sorted(self.ends)
                config["eos_token_id"] = ends if len(ends) > 1 else ends[0]
            config["dtype"] = dtype
            tensors = huggingface.write_state(self.config, self.state)
        else:
            config = {"vesalius": self.family, "dtype": dtype, **self.config.to_json()}
            tensors = dict(self.state)
        written = {"config.json": config, PREPROCESSING: self.preprocessing.to_json()}
        written[GENERATION] = self.generation_config
        if layout == "huggingface" and family_of(self.config).reads == "images":
            side = self.config.symbols()["H"]
            written[preprocessor.FILE] = preprocessor.write(self.preprocessing, side)
        replaces = self._replaces(folder)
        if layout == "huggingface" and (replaces(SETTINGS) or not (folder / SETTINGS).exists()):
            written[SETTINGS] = self._tokenizer_settings(config)
        with exchanging.written(folder, replaces) as stage:
            files.write(stage / files.WEIGHTS, tensors, dtype)
            for name, said in written.items():
                if said:
                    text = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
                    (stage / name).write_text(text, encoding="utf-8")
            if self.tokenizer is not None:
                self.tokenizer.save(stage)

    def _tokenizer_settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """How much Transformers may give the model at once, and what it fills batches with."""
        if self.tokenizer is None:
            return {}
        special = {i: name for name, i in self.tokenizer.special.items()}
        filled = special.get(config.get("pad_token_id", -1))
        said = {"model_max_length": self.config.symbols()["n"], "pad_token": filled}
        return {name: value for name, value in said.items() if value is not None}

    def _replaces(self, folder: Path) -> Callable[[str], bool]:
        """Which files of a folder do not outlive the model in it that this one replaces.

        Settings of a tokenizer, which Transformers reads, stay where the tokenizer stays the same.
        """
        with suppress(VesaliusError, OSError):
            before = read_tokenizer(folder)
            if before and self.tokenizer and before.digest() == self.tokenizer.digest():
                return lambda name: _is_model(name) and name not in TOKENIZER_SETTINGS
        return _is_model


TOKENIZER_SETTINGS = (SETTINGS, "special_tokens_map.json", "added_tokens.json")
FILES = (
    *("config.json", files.WEIGHTS, files.INDEX, PREPROCESSING, preprocessor.FILE, GENERATION),
    *("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "encoder.json", "vocab.bpe"),
    *TOKENIZER_SETTINGS,
)
"""What a model's folder may hold that is the model's: another model does not keep it."""


def _is_model(name: str) -> bool:
    return name in FILES or re.fullmatch(r"model-\d+-of-\d+\.safetensors", name) is not None


ModelLike = Model | str | os.PathLike[str]
"""A model, its name, or its folder: what every function takes that works with one."""


def require_shared(model: Model) -> None:
    """Refuse a network whose weights are no longer the state's: which of the two is meant?"""
    network = model.__dict__.get("network")
    for name, tensor in network.state_dict().items() if network is not None else ():
        array = model.state[name]
        same = tensor.device.type == "cpu" and tensor.data_ptr() == array.ctypes.data
        if not same and not np.array_equal(tensor.to("cpu").numpy(), array):
            raise CheckpointMismatch(
                f"the network's {name} was replaced, and the model's state holds another; change "
                f"it in place, or say model.state[{name!r}] = tensor.numpy()"
            )


def _pieces(array: Array) -> Iterator[Array]:
    """The bytes of an array, a piece at a time; each also has the first bytes of the next."""
    flat = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    for start in range(0, len(flat), PIECE):
        yield flat[start : start + PIECE + HALF]


def _digest(piece: Array) -> int:
    """A hash of bytes, as fast as memory: sums of words times odd random numbers of their own.

    Contents that differ in the low half of some word have the same sum, modulo 2⁶⁴, with a chance
    below 2⁻³². For high halves, which ones and zeros differ in, the words are taken half a word
    later once more.
    """
    weights = _weights()
    whole = max(len(piece) - HALF, 0) // weights.nbytes * weights.nbytes
    sums = (
        np.einsum("ij,j->i", words.view(np.uint64).reshape(-1, len(weights)), weights).tobytes()
        for words in (piece[:whole], piece[HALF : whole + HALF])
    )
    return hash((*sums, piece[whole:].tobytes()))


@cache
def _weights() -> Array:
    random = np.random.default_rng(0).integers(2**64, size=1024, dtype=np.uint64)
    return random | np.uint64(1)


def create(family: str, seed: int = 0, **settings: Setting) -> Model:
    """A new model of a family or a named size.

    Transformers for text are initialised as GPT-2 and BERT are, vit by Glorot and Bengio, others as
    PyTorch does. Its generator draws the numbers, so that it has to be installed.
    """
    config = configuration(family, **settings)
    seed = arguments.whole("seed", seed, least=0, below=2**63)
    build = family_of(config).network.get()
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build(config)
    state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    return Model(config, state)


def load(
    name: ModelLike,
    *,
    revision: str | None = None,
    local_files_only: bool = False,
    allow_non_finite: bool = False,
    ignore_extra: bool = False,
) -> Model:
    """Load a specimen, a folder, or a Hugging Face model, as ``naming`` understands the name.

    A model that is loaded already is given back as it is.
    """
    if isinstance(name, Model):
        return name
    folder = folder_of(name, revision, local_files_only)
    return load_folder(folder, allow_non_finite, ignore_extra=ignore_extra)


def loaded(model: ModelLike) -> Model:
    """The model itself, or the one of this name or folder: wherever a model is wanted."""
    return load(model)


def folder_of(
    name: str | os.PathLike[str], revision: str | None = None, local_files_only: bool = False
) -> Path:
    """The folder of a model by its name; one at the hub is fetched into its cache."""
    found = naming.find(name)
    if found.folder is not None:
        return found.folder
    if found.kind != "hub" and found.name not in HUB_NAMES:
        raise UnknownModel(
            f"there is no folder {name!r}, and no weights are published under this name; "
            f"make a new model with vesalius.create({found.name!r})"
        )
    return hub.fetch(found.name, revision, local_files_only)


def load_folder(
    folder: Path,
    allow_non_finite: bool = False,
    tensors: files.Tensors | None = None,
    ignore_extra: bool = False,
) -> Model:
    """Load a folder in our layout or in Hugging Face's; ``tensors`` stand in for its weights.

    Tensors that have no place in the model are an error, or passed over with ``ignore_extra``.
    While another process saves to the folder, loading begins again, so that no files of two models
    are mixed.
    """
    for _ in range(ATTEMPTS):
        before = _versions(folder)
        try:
            return _load_once(folder, allow_non_finite, tensors, ignore_extra)
        except (VesaliusError, OSError):
            if _versions(folder) == before:
                raise
    raise BrokenFile(f"{folder} was written to whenever it was read; wait, and load it again")


def _load_once(
    folder: Path, allow_non_finite: bool, tensors: files.Tensors | None, ignore_extra: bool
) -> Model:
    before, described = _versions(folder), folders.description(folder)
    folders.require_known(described)
    from_files = tensors is None
    tensors = files.read_folder(folder) if tensors is None else tensors
    arrays = tensors.arrays
    config = folders.config_of(described, {name: array.shape for name, array in arrays.items()})
    if tensors.dtype == "float64":  # for all where some have it: a network runs in one precision
        arrays = {
            name: array.astype("float64", copy=False) if array.dtype.kind == "f" else array
            for name, array in arrays.items()
        }
    state = folders.read_state(described, config, arrays, ignore_extra)
    if not allow_non_finite:
        folders.require_finite(arrays, state)
    tokenizer = read_tokenizer(folder)
    if tokenizer is not None and config.vocabulary and tokenizer.rows > config.vocabulary:
        raise CheckpointMismatch(
            f"the tokenizer's ids go up to {tokenizer.rows - 1}, the embedding's rows to "
            f"{config.vocabulary - 1}; they do not belong together"
        )
    preprocessing, generation = (
        read_json(folder / name) if (folder / name).exists() else {}
        for name in (PREPROCESSING, GENERATION)
    )
    images = family_of(config).reads == "images"
    known = Preparation.from_json(preprocessing)
    if not known and images and (folder / preprocessor.FILE).exists():
        theirs = read_json(folder / preprocessor.FILE)
        known = preprocessor.read(theirs, described, config.symbols()["C"])
    ids = {key: described[key] for key in SPECIAL_IDS if described.get(key) is not None}
    generation = ids | generation
    model = Model(config, state, tokenizer, tensors.dtype, described, known, generation)
    model.folder = folder if from_files else None
    if from_files and _versions(folder) != before:
        raise BrokenFile(f"{folder} was written to while it was read; load it again")
    return model


def _versions(folder: Path) -> dict[str, tuple[int, ...]]:
    """Which files of a model stand in a folder: others of the same names differ."""
    versions: dict[str, tuple[int, ...]] = {}
    with suppress(OSError):
        for name in filter(_is_model, os.listdir(folder)):
            stat = (folder / name).stat()
            versions[name] = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
    return versions

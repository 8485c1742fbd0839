"""What a model's folder says: its configuration and its arrays, in our layout or Hugging Face's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vesalius.checkpoints import files, foreign, huggingface, layout, tables
from vesalius.checkpoints.huggingface import OWN_WEIGHTS
from vesalius.checkpoints.plain import read_json
from vesalius.equations.parameters import Array
from vesalius.errors import BrokenFile, NotACheckpoint, NotFinite, UnknownConfiguration
from vesalius.families import FAMILIES
from vesalius.families.config import Config
from vesalius.machine import parallel_map


def read_config(folder: Path) -> Config:
    """The configuration of a folder, with what the headers of its weights say of heads.

    Where those cannot be read, config.json alone has to do; loading would say why.
    """
    described = description(folder)
    try:
        shapes = {tensor.name: tensor.shape for tensor in files.headers(folder)}
    except (BrokenFile, NotACheckpoint):
        shapes = {}
    return config_of(described, shapes)


def description(folder: Path) -> dict[str, Any]:
    """What config.json says."""
    if not (folder / "config.json").exists():
        foreign.require_none(folder)
        raise NotACheckpoint(
            f"{folder} holds no config.json; expected a model's folder; {OWN_WEIGHTS}"
        )
    return read_json(folder / "config.json")


def require_known(described: Mapping[str, Any]) -> None:
    """Refuse a config.json of a model that is not known here, whatever its weights are."""
    if "vesalius" not in described:
        huggingface.require_known(described)


def config_of(described: dict[str, Any], shapes: Mapping[str, layout.Shape]) -> Config:
    """The configuration that config.json describes, with the shapes of the file's tensors."""
    if "vesalius" not in described:
        return huggingface.read_config(described, shapes)
    settings = {k: v for k, v in described.items() if k not in ("vesalius", "dtype")}
    family = described["vesalius"]
    if not isinstance(family, str) or family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UnknownConfiguration(f"config.json says family {family!r}; known are {known}")
    try:
        return FAMILIES[family].config().change(**settings)
    except ValueError as error:
        raise UnknownConfiguration(f"config.json cannot be used: {error}") from error


def read_state(
    described: Mapping[str, Any], config: Config, arrays: Mapping[str, Array], ignore_extra: bool
) -> dict[str, Array]:
    """Our state from a file's tensors, in whichever layout they are."""
    if "vesalius" not in described:
        return huggingface.read_state(config, arrays, ignore_extra)
    rows = tables.own_rows(config)
    return tables.read_state(config, rows, arrays, tied={}, ignore_extra=ignore_extra)


def require_finite(tensors: Mapping[str, Array], state: Mapping[str, Array]) -> None:
    """Refuse NaN and infinity in the state, naming every tensor of the file that holds one.

    As in the equations, a sum tells at the speed of memory whether to look closer; all cores look.
    """

    def suspect(array: Array) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            return not np.isfinite(array.sum())

    suspects = parallel_map(suspect, tensors.values())
    bad = [n for n, s in zip(tensors, suspects, strict=True) if s]
    bad = [name for name in bad if not np.isfinite(tensors[name]).all()]
    # Tensors outside the state, as the mask in old files, may hold infinity.
    if bad and not all(np.isfinite(array).all() for array in state.values()):
        raise NotFinite(
            f"NaN or infinity in {', '.join(bad)}; vesalius inspect counts them, and "
            f"vs.load(..., allow_non_finite=True) in Python loads it nevertheless"
        )

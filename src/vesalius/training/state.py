"""Weights and the optimiser's moments by name, out of a network and back, however it is sharded.

PyTorch's ``torch.distributed.checkpoint`` does both: whole tensors in rank zero, for a checkpoint
that ``load`` reads; or a shard of each from every rank, written and read by all at once. Both are
safetensors, so nothing is unpickled, and any number of processes can read them.
"""

import warnings
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import hf_storage, state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

SHARDS = "shards"
WHOLE = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)


def full_weights(network: nn.Module) -> dict[str, Tensor]:
    """The weights, whole and in the processor's memory; of several processes, in rank zero."""
    found: Any = state_dict.get_model_state_dict(network, options=WHOLE)
    return dict(found)


def full_moments(network: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's moments, likewise."""
    if not optimiser.state:  # plain SGD has none, and PyTorch would take a step to make some
        return {}
    found: Any = state_dict.get_optimizer_state_dict(network, optimiser, options=WHOLE)
    return {
        f"{name}.{kind}": value
        for name, kinds in found.get("state", {}).items()
        for kind, value in kinds.items()
        if torch.is_tensor(value)
    }


def restore(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    weights: Mapping[str, np.ndarray],
    moments: Mapping[str, np.ndarray],
) -> None:
    """Put whole weights and moments back; each rank takes its shards.

    PyTorch takes a step of no length to make room for the moments, so the weights come last.
    """
    options = state_dict.StateDictOptions(full_state_dict=True)
    if moments:
        fresh: Any = state_dict.get_optimizer_state_dict(network, optimiser)
        state: Any = {
            name: {kind: _moment(moments, f"{name}.{kind}", like) for kind, like in kinds.items()}
            for name, kinds in fresh["state"].items()
        }
        state_dict.set_optimizer_state_dict(
            network, optimiser, {**fresh, "state": state}, options=options
        )
        _forget(network, optimiser, moments)
    whole: Any = {name: _tensor(array) for name, array in weights.items()}
    state_dict.set_model_state_dict(network, whole, options=options)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(array))


def _moment(moments: Mapping[str, np.ndarray], key: str, like: Tensor) -> Tensor:
    """A saved moment in the shape that PyTorch keeps it in; files keep a number as a row of one."""
    return _tensor(moments[key]).reshape(like.shape) if key in moments else torch.zeros(like.shape)


def _forget(network: nn.Module, optimiser: torch.optim.Optimizer, saved: Container[str]) -> None:
    """Drop the moments of parameters that had none when they were saved: no loss reaches them."""
    for name, parameter in getattr(network, "module", network).named_parameters():
        kinds = optimiser.state.get(parameter, {})
        if kinds and not any(f"{name}.{kind}" in saved for kind in kinds):
            del optimiser.state[parameter]


def write_shards(folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Every rank writes its shards of weights and moments."""
    writer = hf_storage.HuggingFaceStorageWriter(str(folder / SHARDS), save_distributed=True)
    save(_shards(network, optimiser), storage_writer=writer)


def read_shards(folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Put weights and moments back, however many processes wrote them."""
    reader = hf_storage.HuggingFaceStorageReader(str(folder / SHARDS))
    with warnings.catch_warnings():  # a process alone is told that it is
        warnings.filterwarnings("ignore", "torch.distributed is .*uninitialized", UserWarning)
        saved = reader.read_metadata().state_dict_metadata
        wanted = _shards(network, optimiser)
        load({key: v for key, v in wanted.items() if key in saved}, storage_reader=reader)
    moments = {key.removeprefix("moments.") for key in saved if key.startswith("moments.")}
    _forget(network, optimiser, moments)


def _shards(network: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """The tensors themselves by name, so that loading fills them.

    Weights come first: asking for them makes FSDP shard again what validation left whole.
    """
    weights = {f"weights.{name}": v for name, v in state_dict.get_model_state_dict(network).items()}
    state: Any = state_dict.get_optimizer_state_dict(network, optimiser)["state"]
    moments = {
        f"moments.{name}.{kind}": value
        for name, kinds in state.items()
        for kind, value in kinds.items()
    }
    return {**weights, **moments}

"""Checkpoints that each process writes its own part of, by ``torch.distributed.checkpoint``.

They are safetensors as well, so nothing is unpickled, and are read by any number of processes.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from vesalius.training.processes import bare

FOLDER = "shards"


def write_shards(folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Every process writes what it holds of the weights and the optimiser's moments."""
    writer = HuggingFaceStorageWriter(str(folder / FOLDER), save_distributed=True)
    save(_everything(network, optimiser), storage_writer=writer)


def read_shards(folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Put weights and moments back, however many processes wrote them."""
    reader = HuggingFaceStorageReader(str(folder / FOLDER))
    saved = reader.read_metadata().state_dict_metadata
    for name, parameter in bare(network).named_parameters():
        prefix = f"moments.{name}."
        kinds = [key.removeprefix(prefix) for key in saved if key.startswith(prefix)]
        optimiser.state[parameter] = {
            kind: torch.zeros(()) if kind == "step" else torch.zeros_like(parameter.detach())
            for kind in kinds
        }
    with warnings.catch_warnings():  # a process alone is told that it is
        warnings.filterwarnings("ignore", "torch.distributed is .*uninitialized", UserWarning)
        load(_everything(network, optimiser), storage_reader=reader)


def _everything(network: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights and moments by name; those tensors themselves, so that loading fills them."""
    found: dict[str, Tensor] = {
        f"weights.{name}": tensor.detach() for name, tensor in bare(network).state_dict().items()
    }
    for name, parameter in bare(network).named_parameters():
        for kind, value in optimiser.state.get(parameter, {}).items():
            found[f"moments.{name}.{kind}"] = value
    return found

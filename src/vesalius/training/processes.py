"""One process or many: who works on which rows, and how their work comes together.

Under ``torchrun`` each process goes through its rows of every batch; PyTorch's own DDP adds the
gradients up, or FSDP2 spreads parameters and optimiser over the processes. Alone, all of this does
nothing.
"""

import gc
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from vesalius.errors import ImpossibleSetting
from vesalius.training.objectives.objective import State


class Processes:
    """The processes of a run, seen from one of them."""

    def __init__(self, parallel: str) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.parallel = parallel if self.count > 1 else "none"
        place = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        self.device = torch.device(place if torch.cuda.is_available() else "cpu")

    def __enter__(self) -> Self:
        if self.count > 1:
            torch.distributed.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.count > 1:
            gc.collect()  # what DDP and FSDP hold of the group goes before the group does
            if error is None:  # one that leaves early would make the others abort
                self.wait()
            torch.distributed.destroy_process_group()

    @property
    def first(self) -> bool:
        return self.rank == 0

    def rows(self, count: int) -> slice:
        """This process's rows of so many."""
        if count < self.count:
            raise ImpossibleSetting(
                f"a batch of {count} cannot be shared by {self.count} processes; "
                f"set training.batch to {self.count} at least"
            )
        edges = [count * rank // self.count for rank in (self.rank, self.rank + 1)]
        return slice(*edges)

    def share(self, network: nn.Module) -> nn.Module:
        """The network as all processes train it."""
        if self.parallel == "fsdp":
            from torch.distributed.fsdp import fully_shard

            # Logits are views of products; it warns of changing them in place, which nothing does.
            warnings.filterwarnings("ignore", ".*returned a view tensor", UserWarning)
            for block in getattr(network, "blocks", ()):
                fully_shard(block)
            fully_shard(network)
        elif self.parallel == "ddp":
            from torch.nn.parallel import DistributedDataParallel

            return DistributedDataParallel(network)
        return network

    def gradient_sync(self, network: Any, last: bool) -> AbstractContextManager[Any]:
        """Gradients are added up over the processes after the last part of a batch."""
        if self.parallel == "ddp" and not last:
            return network.no_sync()  # type: ignore[no-any-return]
        if self.parallel == "fsdp":
            network.set_requires_gradient_sync(last)
        return nullcontext()

    def all_reduce(self, numbers: dict[str, float]) -> dict[str, float]:
        """Each number, added up over the processes."""
        if self.count == 1:
            return numbers
        values = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(values)
        return dict(zip(numbers, values.tolist(), strict=True))

    def any(self, here: bool) -> bool:
        """Whether it is so in any process."""
        return self.all_reduce({"here": float(here)})["here"] > 0

    def broadcast(self, path: Path | None) -> Path:
        """What the first process says, heard by all."""
        heard = [path]
        torch.distributed.broadcast_object_list(heard)
        assert heard[0] is not None
        return heard[0]

    def wait(self) -> None:
        if self.count > 1:
            torch.distributed.barrier()

    @contextmanager
    def rank_zero_first(self) -> Iterator[None]:
        """The first process goes before all others."""
        if not self.first:
            self.wait()
        try:
            yield
        finally:
            if self.first:
                self.wait()


def bare(network: Any) -> nn.Module:
    """The network itself, without what wraps it."""
    inner: nn.Module = getattr(network, "module", network)
    return inner


def gathered(
    network: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and the optimiser's moments by name, whole and in the processor's memory."""
    weights = {name: _whole(tensor) for name, tensor in bare(network).state_dict().items()}
    moments = {
        f"{name}.{kind}": _whole(value)
        for name, parameter in bare(network).named_parameters()
        for kind, value in optimiser.state.get(parameter, {}).items()
        if torch.is_tensor(value)
    }
    return weights, moments


def scattered(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    weights: Mapping[str, np.ndarray],
    moments: Mapping[str, np.ndarray],
) -> None:
    """Put weights and moments back where they were."""
    with torch.no_grad():
        for name, tensor in bare(network).state_dict().items():
            tensor.copy_(_spread(weights[name], tensor))
    for name, parameter in bare(network).named_parameters():
        kinds = [key.rpartition(".")[2] for key in moments if key.rpartition(".")[0] == name]
        optimiser.state[parameter] = {
            kind: _spread(moments[f"{name}.{kind}"], parameter) for kind in kinds
        }


def carried(state: State, processes: Processes) -> list[Tensor]:
    """The recurrent state of all rows, from all processes."""
    if state is None:
        return []
    if processes.count == 1:
        return [part.cpu() for part in state]
    whole = []
    for part in state:
        pieces: list[Any] = [None] * processes.count
        torch.distributed.all_gather_object(pieces, part.cpu())
        whole.append(torch.cat(pieces, dim=1))
    return whole


def resumed(state: Sequence[np.ndarray], processes: Processes) -> State:
    """This process's rows of a recurrent state."""
    if not state:
        return None
    rows = processes.rows(state[0].shape[1])
    return tuple(torch.from_numpy(np.array(part))[:, rows].to(processes.device) for part in state)


def _whole(tensor: Any) -> Tensor:
    full = getattr(tensor, "full_tensor", None)
    found: Tensor = full() if full else tensor
    return found.detach().cpu()


def _spread(array: np.ndarray, like: Any) -> Tensor:
    """An array as a tensor that lies as another does: on its device, over its processes."""
    tensor = torch.from_numpy(np.array(array))
    if tensor.dim() and hasattr(like, "placements"):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
    return tensor.to(like.device)

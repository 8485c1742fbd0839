"""One process or many: each one's rows of a batch, and the collectives that join their work.

Under ``torchrun`` each process, called a rank, goes through its rows of every batch. PyTorch's DDP
adds the gradients up by all-reduce; FSDP2 keeps a shard of parameters and optimiser in each rank.
In a process that is alone, all of this does nothing.
"""

import gc
import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from vesalius.errors import ImpossibleSetting
from vesalius.tasks.objective import State

RUNS = itertools.count()
"""Of one process, each with a group of its own; all ranks have the same."""


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
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            # torchrun's store outlives a group: another group would find the addresses of the last.
            store, rank, count = next(rendezvous("env://"))
            store = torch.distributed.PrefixStore(f"run {next(RUNS)}", store)  # type: ignore[attr-defined]
            torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=count)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.count > 1:
            gc.collect()  # DDP and FSDP hold on to the group, and must go before it
            if error is None:  # a rank that left early would make the others abort
                self.wait()
            torch.distributed.destroy_process_group()

    @property
    def first(self) -> bool:
        return self.rank == 0

    def rows(self, count: int) -> slice:
        """This rank's share of ``count`` rows."""
        if count < self.count:
            raise ImpossibleSetting(
                f"a batch of {count} cannot be shared by {self.count} processes; "
                f"set training.batch to {self.count} at least"
            )
        return slice(*(count * rank // self.count for rank in (self.rank, self.rank + 1)))

    def share(self, network: nn.Module) -> nn.Module:
        """The network as all processes train it."""
        if self.parallel == "fsdp":
            from torch.distributed.fsdp import fully_shard

            # FSDP warns that logits are views, which must not be changed in place. Nothing does.
            warnings.filterwarnings("ignore", ".*returned a view tensor", UserWarning)
            for block in getattr(network, "blocks", ()):
                fully_shard(block)
            fully_shard(network)
        elif self.parallel == "ddp":
            from torch.nn.parallel import DistributedDataParallel

            return DistributedDataParallel(network)
        return network

    def gradient_sync(self, network: Any, last: bool) -> AbstractContextManager[Any]:
        """Gradient synchronisation: gradients are added up after the last part of a batch."""
        if self.parallel == "ddp" and not last:
            return network.no_sync()  # type: ignore[no-any-return]
        if self.parallel == "fsdp":
            network.set_requires_gradient_sync(last)
        return nullcontext()

    def all_reduce(self, numbers: dict[str, float]) -> dict[str, float]:
        """All-reduce: each number, added up over the ranks and known to all."""
        if self.count == 1:
            return numbers
        values = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(values)
        return dict(zip(numbers, values.tolist(), strict=True))

    def any(self, here: bool) -> bool:
        """Whether it is so in any rank."""
        return self.all_reduce({"here": float(here)})["here"] > 0

    def broadcast(self, path: Path | None) -> Path:
        """Broadcast: the path that rank zero gives, known to all."""
        sent = [path]
        torch.distributed.broadcast_object_list(sent)
        assert sent[0] is not None
        return sent[0]

    def wait(self) -> None:
        """A barrier: no rank goes on before all are here."""
        if self.count > 1:
            torch.distributed.barrier()

    @contextmanager
    def rank_zero_first(self) -> Iterator[None]:
        """Rank zero goes first; the others wait for it."""
        if not self.first:
            self.wait()
        try:
            yield
        finally:
            if self.first:
                self.wait()


def gather_state(state: State, processes: Processes) -> list[Tensor]:
    """The recurrent state of all rows, gathered from all ranks."""
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


def local_state(state: Sequence[np.ndarray], processes: Processes) -> State:
    """This rank's rows of a recurrent state."""
    if not state:
        return None
    rows = processes.rows(state[0].shape[1])
    return tuple(torch.from_numpy(np.array(part))[:, rows].to(processes.device) for part in state)

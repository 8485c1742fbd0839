"""Low-rank adaptation (L.1) of a network's matrices: wrapped around them, and merged into them."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vesalius.models.linear import linear

PLAIN = "plain"
"""What an adapted map is called inside of its adapter."""


class LowRank(nn.Module):
    """A frozen affine map W x + b with a trained update: W x + b + (α / r) B A x.

    Whoever reads its ``weight``, as recurrent kernels do, is given W + (α / r) B A. Outside of
    training it computes with that sum as ``merged`` has it, so that both agree to the last bit.
    """

    def __init__(self, plain: nn.Linear, rank: int, alpha: float, seed: torch.Generator) -> None:
        super().__init__()
        self.plain, self.scale = plain.requires_grad_(False), alpha / rank
        (width_out, width), like = plain.weight.shape, plain.weight
        # As nn.Linear draws its weights.
        drawn = (torch.rand(rank, width, generator=seed) * 2 - 1) / width**0.5
        self.A = nn.Parameter(drawn.to(like))
        self.B = nn.Parameter(torch.zeros(width_out, rank).to(like))

    @property
    def weight(self) -> Tensor:
        if not self.training:
            return updated(self.plain.weight, self.A, self.B, self.scale)
        return self.plain.weight + self.scale * (self.B @ self.A)

    @property
    def bias(self) -> Tensor | None:
        return self.plain.bias

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return linear(x, self.weight, self.bias)
        found: Tensor = self.plain(x)
        return found + self.scale * F.linear(F.linear(x, self.A), self.B)


def adapt(network: nn.Module, names: list[str], rank: int, alpha: float, seed: int) -> None:
    """Wrap some affine maps of a network; what is drawn follows from the seed."""
    random = torch.Generator().manual_seed(seed)
    for name in names:
        above, _, last = name.rpartition(".")
        plain = network.get_submodule(name)
        assert isinstance(plain, nn.Linear)
        setattr(network.get_submodule(above), last, LowRank(plain, rank, alpha, random))


def plain_name(name: str) -> str:
    """A tensor's name in the network without adapters."""
    above, dot, last = name.rpartition(".")
    return f"{above.removesuffix(f'.{PLAIN}')}{dot}{last}"


def adapters(weights: Mapping[str, Tensor]) -> list[str]:
    """The adapted maps among the weights of a network."""
    return [name.removesuffix(f".{PLAIN}.weight") for name in weights if _adapted(name)]


def _adapted(name: str) -> bool:
    return name.endswith(f".{PLAIN}.weight")


def updated(W: Tensor, A: Tensor, B: Tensor, scale: float) -> Tensor:
    """W + (α / r) B A, rounded once, to the precision that W has."""
    return (W.double() + scale * (B.double() @ A.double())).to(W.dtype)


def merged(weights: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """The weights of the network without adapters, which computes the same."""
    found = {}
    for name, weight in weights.items():
        above = name.removesuffix(f".{PLAIN}.weight")
        if _adapted(name):
            A, B = (weights[f"{above}.{letter}"] for letter in "AB")
            found[plain_name(name)] = updated(weight, A, B, scale)
        elif name.rpartition(".")[0] + f".{PLAIN}.weight" not in weights:
            found[plain_name(name)] = weight
    return found

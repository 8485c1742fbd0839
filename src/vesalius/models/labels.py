"""A head for labels of one's own on a language model: it reads the last token's state (6.1)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vesalius.errors import WrongKind


@dataclass(frozen=True)
class LabelOutput:
    """What a language model with a label head gives."""

    words: Tensor | None
    """Logits of the next token, batch x n x vocabulary; None where they were not asked for."""
    labels: Tensor
    """Logits of the texts' labels, batch x labels."""


class LabelsOfLast(nn.Module):
    """A language model that may have a label head."""

    label_head: nn.Module | None

    def labels(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        """The labels' logits of texts, batch x labels; ``real`` marks what is no padding."""
        found: LabelOutput = self(ids, real=torch.ones_like(ids).bool() if real is None else real)
        return found.labels

    def whole(self, ids: Tensor) -> LabelOutput:
        """Words and labels in one pass, of texts without padding."""
        raise AssertionError("every kind says its own")

    def label(self, states: Tensor) -> Tensor:
        if self.label_head is None:
            raise WrongKind("this model has no label head; fine-tune it, or set labels")
        found: Tensor = self.label_head(states)
        return found


def last_of(hidden: Tensor, real: Tensor) -> Tensor:
    """The states of the last tokens that are no padding (batch x width)."""
    places = torch.arange(real.shape[1], device=real.device)
    last = (places * real).argmax(dim=1)
    return hidden[torch.arange(len(hidden), device=hidden.device), last]


def results(network: nn.Module, *given: Tensor) -> Any:
    """All that a network gives: the call of a language model leaves labels out."""
    if isinstance(network, LabelsOfLast) and network.label_head is not None:
        return network.whole(*given)
    return network(*given)

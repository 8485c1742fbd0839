"""A head for labels of one's own on a language model: it reads one state for a text (6.1)."""

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


class TextLabels(nn.Module):
    """A language model that may have a label head, on the last token's state or on the mean."""

    label_head: nn.Module | None
    mean: bool

    def labels(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        """The labels' logits of texts, batch x labels; ``real`` marks what is no padding."""
        found: LabelOutput = self(ids, real=torch.ones_like(ids).bool() if real is None else real)
        return found.labels

    def whole(self, ids: Tensor) -> LabelOutput:
        """Words and labels in one pass, of texts without padding."""
        raise AssertionError("every kind says its own")

    def label(self, hidden: Tensor, real: Tensor | None = None) -> Tensor:
        """The labels' logits from the states of all tokens (batch x n x width)."""
        if self.label_head is None:
            raise WrongKind("this model has no label head; fine-tune it, or set labels")
        known = hidden.new_ones(hidden.shape[:2], dtype=torch.bool) if real is None else real
        found: Tensor = self.label_head((mean_of if self.mean else last_of)(hidden, known))
        return found


def last_of(hidden: Tensor, real: Tensor) -> Tensor:
    """The states of the last tokens that are no padding (batch x width)."""
    places = torch.arange(real.shape[1], device=real.device)
    last = (places * real).argmax(dim=1)
    return hidden[torch.arange(len(hidden), device=hidden.device), last]


def mean_of(hidden: Tensor, real: Tensor) -> Tensor:
    """The means of the states of all tokens that are no padding (batch x width)."""
    return (hidden * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True)


def results(network: nn.Module, *given: Tensor) -> Any:
    """All that a network gives: the call of a language model leaves labels out."""
    if isinstance(network, TextLabels) and network.label_head is not None:
        return network.whole(*given)
    return network(*given)

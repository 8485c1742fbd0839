"""What networks are trained towards: for each objective its losses, as sums over a batch.

A sum and the number of its terms are kept apart, because a batch may be gone through in parts and
by several processes; the mean is over all of it. The losses are those of (19) to (21) and (67).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius.data.batches import Batch
from vesalius.data.masking import IGNORED
from vesalius.errors import UnknownSetting, nearest
from vesalius.families import FAMILIES
from vesalius.families.config import Config
from vesalius.training.recipe import ImageData, SeriesData, TextData

if TYPE_CHECKING:  # the table is asked without training, too
    import torch
    from torch import Tensor, nn

    State = tuple[Tensor, ...] | None
    Sums = dict[str, Tensor]
else:
    State = Sums = Any


@dataclass(frozen=True)
class Objective:
    """One row of the table below."""

    name: str
    title: str
    data: type[Config]
    sums: Callable[[Any, dict[str, Tensor], State], tuple[Sums, State]]
    """Network, batch and carried state to sums over the batch and the state to go on with."""
    terms: Callable[[Batch], dict[str, int]]
    """How many terms each sum has in a batch."""
    losses: tuple[str, ...]
    """The sums whose means add up to the loss; the others are for looking at."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the model must have for it."""
    heads: tuple[str, ...] = ()
    """The heads that the losses read; whatever others a network has, they stay as they are."""

    @property
    def families(self) -> tuple[str, ...]:
        """The families that can be trained towards it."""
        rows = FAMILIES.values()
        return tuple(family.name for family in rows if self.name in family.objectives)


def tokens(network: Any, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
    """(19) to (21): −Σ log p(target), of the next tokens or of masked ones."""
    if "fresh" in batch:
        before = _begun(network, batch["fresh"], state)
        logits, after = network(batch["ids"], before)
        # In the precision that it came in, whatever products were computed in.
        pairs = zip(after, before, strict=True)
        state = tuple(part.detach().to(like.dtype) for part, like in pairs)
    else:
        logits = network(batch["ids"])
    return _classified("token", logits, batch["targets"], network.training), state


def masked_text(network: Any, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
    """(67), and the cross entropy of (59) where the batch has sentence pairs."""
    chosen = batch["targets"] != IGNORED
    out = network(batch["ids"], batch["segments"], batch["real"], chosen)
    sums: Sums = {}
    if out.mlm is not None:
        sums |= _classified("mlm", out.mlm, batch["targets"][chosen], network.training)
    if "next" in batch and out.nsp is not None:
        sums |= _classified("nsp", out.nsp, batch["next"], network.training)
    return sums, state


def masked_patches(network: Any, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
    """Σ (ŷ − y)² over the values of masked patches."""
    from vesalius.models.vision import patches

    masked, pixels = batch["masked"], batch["pixels"]
    restored = network(pixels, masked).patches
    side = round((pixels.shape[-1] * pixels.shape[-2] / masked.shape[1]) ** 0.5)
    wanted = patches(pixels, side)
    return {"patches": (restored - wanted)[masked].square().sum()}, state


def masked_series(network: Any, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
    """Σ (ŷ − y)² over the masked values."""
    restored = network(batch["series"], batch["real"])
    return {"series": (restored - batch["target"])[batch["masked"]].square().sum()}, state


def image_classes(network: Any, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
    logits = network(batch["pixels"]).logits
    return _classified("classes", logits, batch["labels"], network.training), state


def series_classes(network: Any, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
    logits = network(batch["series"], batch["real"])
    return _classified("classes", logits, batch["labels"], network.training), state


def series_values(network: Any, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
    """Σ (ŷ − y)² over z-scored targets."""
    found = network(batch["series"], batch["real"])
    return {"values": (found - batch["targets"]).square().sum()}, state


def _classified(name: str, logits: Tensor, targets: Tensor, training: bool) -> Sums:
    """Cross entropy (17), and when not training the number of right answers."""
    from torch.nn import functional as F

    logits, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    loss = F.cross_entropy(logits.float(), targets, reduction="sum", ignore_index=IGNORED)
    if training:
        return {name: loss}
    return {name: loss, f"{name} accuracy": (logits.argmax(-1) == targets).sum()}


def _begun(network: Any, fresh: Tensor, state: State) -> tuple[Tensor, ...]:
    """The carried state, with zeros where a row begins anew."""
    if state is None:
        bare = getattr(network, "module", network)
        return tuple(bare.initial_state(len(fresh)))
    return tuple(part * ~fresh[None, :, None] for part in state)


def _counted(name: str, of: Callable[[Batch], int]) -> Callable[[Batch], dict[str, int]]:
    return lambda batch: dict.fromkeys((name, f"{name} accuracy"), of(batch))


def _masked_text_terms(batch: Batch) -> dict[str, int]:
    chosen = _targets(batch)
    pairs = len(batch["ids"])
    return {"mlm": chosen, "mlm accuracy": chosen, "nsp": pairs, "nsp accuracy": pairs}


def _targets(batch: Batch) -> int:
    return int((batch["targets"] != IGNORED).sum())


def _rows(batch: Batch) -> int:
    return len(batch["labels"])


HEADS = ("pooler", "mlm_head", "nsp_head", "label_head", "class_head", "mask_token", "patch_head")
OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective(
            "next-token",
            "the next token (19 to 21)",
            TextData,
            tokens,
            _counted("token", of=_targets),
            ("token",),
        ),
        Objective(
            "mlm",
            "masked tokens (67)",
            TextData,
            masked_text,
            _masked_text_terms,
            ("mlm",),
            {"mlm_head": True},
            ("mlm_head",),
        ),
        Objective(
            "nsp",
            "whether a sentence follows (59)",
            TextData,
            masked_text,
            _masked_text_terms,
            ("nsp",),
            {"nsp_head": True},
            ("pooler", "nsp_head"),
        ),
        Objective(
            "mlm+nsp",
            "masked tokens, and whether a sentence follows",
            TextData,
            masked_text,
            _masked_text_terms,
            ("mlm", "nsp"),
            {"mlm_head": True, "nsp_head": True},
            ("mlm_head", "pooler", "nsp_head"),
        ),
        Objective(
            "next-pixel",
            "the next pixel",
            ImageData,
            tokens,
            _counted("token", of=_targets),
            ("token",),
            {"causal": True},
        ),
        Objective(
            "masked-pixels",
            "masked pixels",
            ImageData,
            tokens,
            _counted("token", of=_targets),
            ("token",),
            {"causal": False},
        ),
        Objective(
            "masked-patches",
            "masked patches, by squared error",
            ImageData,
            masked_patches,
            lambda batch: {
                "patches": int(batch["masked"].sum())
                * (batch["pixels"][0].size // batch["masked"].shape[1])
            },
            ("patches",),
            {"masked_patch_head": True},
            ("mask_token", "patch_head"),
        ),
        Objective(
            "image-classes",
            "the class of an image",
            ImageData,
            image_classes,
            _counted("classes", of=_rows),
            ("classes",),
            heads=("class_head",),
        ),
        Objective(
            "masked-series",
            "masked values of a series, by squared error",
            SeriesData,
            masked_series,
            lambda batch: {"series": int(batch["masked"].sum())},
            ("series",),
            {"head": "series"},
        ),
        Objective(
            "series-classes",
            "the class of a series",
            SeriesData,
            series_classes,
            _counted("classes", of=_rows),
            ("classes",),
            {"head": "classes"},
        ),
        Objective(
            "series-values",
            "a number for a series, by squared error",
            SeriesData,
            series_values,
            lambda batch: {"values": len(batch["targets"])},
            ("values",),
            {"head": "regression"},
        ),
    )
}


def objective_named(name: Any) -> Objective:
    if name not in OBJECTIVES:
        asked = "a recipe says its objective" if name is None else f"unknown objective {name!r}"
        raise UnknownSetting(f"{asked}; {nearest(str(name), OBJECTIVES)}")
    return OBJECTIVES[name]


def freeze(network: nn.Module, objective: Objective) -> None:
    """Mark what an objective does not reach; DDP waits for gradients of all that is not marked."""
    for name, parameter in network.named_parameters():
        head = name.partition(".")[0]
        if head in HEADS and head not in objective.heads:
            parameter.requires_grad_(False)


def tensors(batch: Batch, rows: slice, device: torch.device) -> dict[str, Tensor]:
    """Some rows of a batch, where the network is."""
    import torch

    return {
        name: torch.from_numpy(np.ascontiguousarray(array[rows])).to(device)
        for name, array in batch.items()
    }

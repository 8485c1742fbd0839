"""What a recipe says: its ``[training]`` settings, and the whole of it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vesalius.families.config import Config, setting


@dataclass(frozen=True, kw_only=True)
class Training(Config):
    """How to train."""

    steps: int = setting(1000, "", "updates of the parameters")
    batch: int = setting(32, "", "examples of a step, over all processes")
    accumulate: int = setting(1, "", "parts of a batch, for gradient accumulation")
    optimiser: str = setting(
        "adamw", "", "how (22) is done", choices=("adamw", "adam", "sgd", "muon")
    )
    learning_rate: float = setting(1e-3, "μ_lr", "learning rate", least=0)
    final_rate: float = setting(
        0.1, "", "share of the learning rate that is left at the end of cosine decay", least=0
    )
    schedule: str = setting(
        "cosine", "", "how the learning rate falls", choices=("cosine", "constant", "step")
    )
    step_every: int = setting(1000, "", "updates between falls, for step")
    step_factor: float = setting(0.1, "", "what the learning rate falls to, for step", least=0)
    warmup: int = setting(100, "", "updates of warm-up, over which the rate rises", least=0)
    beta1: float = setting(0.9, "", "decay of the mean gradient", least=0, below=1)
    beta2: float = setting(0.99, "", "decay of the mean square", least=0, below=1)
    momentum: float = setting(0.0, "", "of sgd", least=0, below=1)
    weight_decay: float = setting(0.1, "", "decay of matrices", least=0)
    clip: float = setting(1.0, "", "gradient clipping: the largest norm; 0 for any", least=0)
    layer_decay: float = setting(
        1.0, "", "what the learning rate falls to from each layer to the one below it", least=0
    )
    frozen_layers: int = setting(
        0, "", "layers to freeze from below, for partial; embeddings are too", least=0
    )
    lora_rank: int = setting(8, "r", "rank of the updates (L.1), for lora")
    lora_alpha: float = setting(16.0, "α", "size of the updates (L.1), for lora", least=0)
    lora_matrices: str = setting(
        "query-value", "", "which matrices have updates, for lora", choices=("query-value", "all")
    )
    evaluate_every: int = setting(250, "", "steps between validations")
    validate_on: int = setting(2048, "", "examples to validate on at most while training")
    patience: int = setting(
        0, "", "early stopping: validations without gain to stop after; 0 for never", least=0
    )
    save_every: int = setting(250, "", "steps between checkpoints")
    keep: int = setting(2, "", "checkpoints to keep")
    snapshots: int = setting(
        0,
        "",
        "number of models to keep for looking at: of step 0, the last step, and steps between "
        "them on a logarithmic scale; 0 for none",
        least=0,
    )
    sample_every: int = setting(0, "", "steps between samples of text; 0 for none", least=0)
    prompt: str = setting("", "", "what samples of text begin with")
    log_every: int = setting(10, "", "steps between lines of metrics")
    precision: str = setting(
        "float32",
        "",
        "of products; fastest is bfloat16 where hardware does it, else float32",
        choices=("float32", "bfloat16", "fastest"),
    )
    compile: bool = setting(False, "", "whether PyTorch compiles the network")
    tensorboard: bool = setting(False, "", "whether metrics go to TensorBoard too")
    parallel: str = setting("ddp", "", "how processes share the work", choices=("ddp", "fsdp"))


@dataclass(frozen=True)
class Recipe:
    """All that a run is told."""

    family: str | None
    """A family or a named size."""
    init: str | None
    """A model to go on from, in place of random weights."""
    objective: str
    data: Config
    training: Training
    model: Mapping[str, Any]
    """Settings of the family; the data imply some of the others."""
    seed: int = 0
    title: str = ""
    strategy: str | None = None
    """How the model that it goes on from is trained; None is all weights."""

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "model": dict(self.model)}

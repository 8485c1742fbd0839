"""The executable anatomy of neural language models.

Every numbered equation of the paper "Anatomy of Neural Language Models" is a function in
``vesalius.equations``. ``count`` and ``cost`` say what a model is made of and what it computes;
``load`` and ``create`` give one, ``dissect`` takes it apart and ``verify`` holds it against others.
Importing this imports nothing: parts are loaded when they are first used.
"""

TYPE_CHECKING = False  # as in typing, whose import would take longer than all else here
if TYPE_CHECKING:
    from typing import Any

    from vesalius import equations as equations
    from vesalius import errors as errors
    from vesalius import families as families
    from vesalius.analyses.differences import diff as diff
    from vesalius.analyses.gradients import gradient as gradient
    from vesalius.analyses.unfolding import unfold as unfold
    from vesalius.classification import classify as classify
    from vesalius.counting import cost as cost
    from vesalius.counting import count as count
    from vesalius.dissection import dissect as dissect
    from vesalius.dissection import read_trace as read_trace
    from vesalius.embedding import embed as embed
    from vesalius.embedding import similar as similar
    from vesalius.equations.tracing import tracing as tracing
    from vesalius.evaluation import evaluate as evaluate
    from vesalius.families import configuration as configuration
    from vesalius.families import random_parameters as random_parameters
    from vesalius.filling import fill as fill
    from vesalius.filling import next_sentence as next_sentence
    from vesalius.generation.decoding import generate as generate
    from vesalius.inspection import inspect as inspect
    from vesalius.model import Model as Model
    from vesalius.model import create as create
    from vesalius.model import load as load
    from vesalius.training import train as train
    from vesalius.verification import verify as verify

__version__ = "0.1.0"

_PUBLIC = {
    "equations": "vesalius.equations",
    "errors": "vesalius.errors",
    "families": "vesalius.families",
    "classify": "vesalius.classification:classify",
    "configuration": "vesalius.families:configuration",
    "cost": "vesalius.counting:cost",
    "count": "vesalius.counting:count",
    "create": "vesalius.model:create",
    "diff": "vesalius.analyses.differences:diff",
    "dissect": "vesalius.dissection:dissect",
    "embed": "vesalius.embedding:embed",
    "evaluate": "vesalius.evaluation:evaluate",
    "fill": "vesalius.filling:fill",
    "generate": "vesalius.generation.decoding:generate",
    "gradient": "vesalius.analyses.gradients:gradient",
    "inspect": "vesalius.inspection:inspect",
    "load": "vesalius.model:load",
    "Model": "vesalius.model:Model",
    "next_sentence": "vesalius.filling:next_sentence",
    "random_parameters": "vesalius.families:random_parameters",
    "read_trace": "vesalius.dissection:read_trace",
    "similar": "vesalius.embedding:similar",
    "tracing": "vesalius.equations.tracing:tracing",
    "train": "vesalius.training:train",
    "unfold": "vesalius.analyses.unfolding:unfold",
    "verify": "vesalius.verification:verify",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> "Any":
    if name not in _PUBLIC:
        raise AttributeError(f"module 'vesalius' has no attribute {name!r}")
    import importlib

    module, _, attribute = _PUBLIC[name].partition(":")
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])

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
    from vesalius.analyses.ablation import ablate as ablate
    from vesalius.analyses.attribution import attribute as attribute
    from vesalius.analyses.differences import diff as diff
    from vesalius.analyses.gates import gates as gates
    from vesalius.analyses.gradients import gradient as gradient
    from vesalius.analyses.heads import heads as heads
    from vesalius.analyses.lens import lens as lens
    from vesalius.analyses.patching import patch as patch
    from vesalius.analyses.surprisal import surprisal as surprisal
    from vesalius.analyses.unfolding import unfold as unfold
    from vesalius.analyses.words import contexts as contexts
    from vesalius.analyses.words import neighbours as neighbours
    from vesalius.analyses.words import project as project
    from vesalius.checkpoints.inspection import inspect as inspect
    from vesalius.counting import cost as cost
    from vesalius.counting import count as count
    from vesalius.data.examples import example as example
    from vesalius.equations.tracing import tracing as tracing
    from vesalius.evaluation import evaluate as evaluate
    from vesalius.explorer.inline import explore as explore
    from vesalius.families import configuration as configuration
    from vesalius.families import random_parameters as random_parameters
    from vesalius.figures import figure as figure
    from vesalius.finetuning import finetune as finetune
    from vesalius.generation.decoding import generate as generate
    from vesalius.model import Model as Model
    from vesalius.model import create as create
    from vesalius.model import load as load
    from vesalius.tasks.answering.use import answer as answer
    from vesalius.tasks.classification import classify as classify
    from vesalius.tasks.embedding import embed as embed
    from vesalius.tasks.embedding import similar as similar
    from vesalius.tasks.forecasting.use import forecast as forecast
    from vesalius.tasks.language.filling import fill as fill
    from vesalius.tasks.language.filling import next_sentence as next_sentence
    from vesalius.tasks.tagging.use import tag as tag
    from vesalius.traces.dissection import dissect as dissect
    from vesalius.traces.edits.values import from_trace as from_trace
    from vesalius.traces.edits.values import mean as mean
    from vesalius.traces.edits.values import noise as noise
    from vesalius.traces.edits.values import scale as scale
    from vesalius.traces.edits.values import zero as zero
    from vesalius.traces.trace import read_trace as read_trace
    from vesalius.training import train as train
    from vesalius.verification.agreement import verify as verify

__version__ = "0.1.0"

_MODULES = ("equations", "errors", "families")
_NAMES = {
    "analyses.ablation": ("ablate",),
    "analyses.attribution": ("attribute",),
    "analyses.differences": ("diff",),
    "analyses.gates": ("gates",),
    "analyses.gradients": ("gradient",),
    "analyses.heads": ("heads",),
    "analyses.lens": ("lens",),
    "analyses.patching": ("patch",),
    "analyses.surprisal": ("surprisal",),
    "analyses.unfolding": ("unfold",),
    "analyses.words": ("contexts", "neighbours", "project"),
    "checkpoints.inspection": ("inspect",),
    "counting": ("cost", "count"),
    "data.examples": ("example",),
    "equations.tracing": ("tracing",),
    "evaluation": ("evaluate",),
    "explorer.inline": ("explore",),
    "families": ("configuration", "random_parameters"),
    "figures": ("figure",),
    "finetuning": ("finetune",),
    "generation.decoding": ("generate",),
    "model": ("Model", "create", "load"),
    "tasks.answering.use": ("answer",),
    "tasks.classification": ("classify",),
    "tasks.embedding": ("embed", "similar"),
    "tasks.forecasting.use": ("forecast",),
    "tasks.language.filling": ("fill", "next_sentence"),
    "tasks.tagging.use": ("tag",),
    "traces.dissection": ("dissect",),
    "traces.edits.values": ("from_trace", "mean", "noise", "scale", "zero"),
    "traces.trace": ("read_trace",),
    "training": ("train",),
    "verification.agreement": ("verify",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_MODULES, *sorted(_HOMES, key=str.lower)]


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'vesalius' has no attribute {name!r}")
    import importlib

    home = importlib.import_module(f"vesalius.{_HOMES.get(name, name)}")
    globals()[name] = value = getattr(home, name) if name in _HOMES else home
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

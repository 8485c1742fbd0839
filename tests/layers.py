"""The layers of the package, top down: each imports only what lies below it.

A module that stands higher than the rest of its package has a name with a dot.
"""

LAYERS = [
    {"__main__"},
    {"cli"},
    {"explorer"},
    {"analyses"},
    {"figures", "evaluation", "checkpoints.conversion", "checkpoints.inspection"},
    {"verification", "finetuning"},
    {"training"},
    {"tasks"},
    {"traces"},
    {"generation"},
    {"metrics"},
    {"data", "training.settings", "capabilities", "counting", "views.pictures"},
    {"model"},
    {"tokenizers"},
    {"checkpoints"},
    {"models", "checkpoints.naming"},
    {"families"},
    {"equations", "specimens"},
    {"views", "arguments", "machine", "preparation", "families.plugins"},
    {"errors"},
]


def layer_of(module: str) -> str | None:
    """The name in ``LAYERS`` that a module, such as ``data.series``, belongs to."""
    names = {name for layer in LAYERS for name in layer}
    parts = module.split(".")
    starts = (".".join(parts[:k]) for k in range(len(parts), 0, -1))
    return next((start for start in starts if start in names), None)

"""What the plain installation leaves out, and how to come by it.

Whoever is about to import such a package asks here first, so that its absence is one line.
"""

import sys
from importlib.util import find_spec

from vesalius.errors import MissingExtra

EXTRAS = {
    "torch": ("torch", "PyTorch"),
    "tensorboard": ("tensorboard", "TensorBoard"),
    "transformers": ("transformers", "Transformers"),
    "keras_hub": ("keras", "KerasHub"),
    "h5py": ("hdf5", "h5py"),
    "sklearn": ("transfer", "scikit-learn"),
}
"""By the package that is imported: the extra that brings it, and what it is called."""


def require(package: str) -> None:
    """Raise unless a package that only some verbs need is installed."""
    there = sys.modules[package] if package in sys.modules else find_spec(package)
    if there is None:
        raise missing(package)


def missing(package: str) -> MissingExtra:
    """What to say where a package could not be imported."""
    extra, name = EXTRAS[package]
    return MissingExtra(
        f"this needs {name}, which is not installed; get it with: pip install 'vesalius[{extra}]'"
    )

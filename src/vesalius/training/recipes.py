"""The recipes that come with the package, by name: what each trains, and where its file is.

Nothing is read into a run here; that is ``training.recipe``, which needs PyTorch.
"""

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vesalius.errors import BrokenFile, UnknownRecipe, nearest

SHIPPED = Path(__file__).parents[1] / "recipes"
FOLDER = SHIPPED if SHIPPED.is_dir() else Path(__file__).parents[3] / "recipes"
"""Wheels hold the recipes inside the package; in a checkout they stand at the top."""
SUFFIX = ".toml"


@dataclass(frozen=True)
class Shipped:
    """One of them, in short."""

    name: str
    title: str
    family: str
    corpus: str
    steps: int
    file: Path

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "file": str(self.file)}


@cache
def recipes() -> dict[str, Shipped]:
    """All of them by name."""
    return {file.stem: _read(file) for file in sorted(FOLDER.glob(f"*{SUFFIX}"))}


def _read(file: Path) -> Shipped:
    said = tomllib.loads(file.read_text(encoding="utf-8"))
    corpus, steps = said["data"]["corpus"], said["training"]["steps"]
    return Shipped(file.stem, said["title"], said["family"], corpus, steps, file)


def recipe_file(name: str | Path) -> Path:
    """The file of a recipe: by its path, or by its name where the package has it."""
    path = Path(name)
    if str(name) in recipes():
        return recipes()[str(name)].file
    if str(name) and os.path.isdir(path):  # Path's own raises for names that no file can have
        raise BrokenFile(f"{path} is a folder; expected a recipe's TOML file")
    if str(name) and os.path.exists(path):
        return path
    raise UnknownRecipe(
        f"there is no file {str(name)!r}, and no recipe of this name; "
        f"{nearest(path.stem, recipes())}"
    )

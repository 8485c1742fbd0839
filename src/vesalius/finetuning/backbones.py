"""What fine-tuning starts from: a model in files, or a family or size without weights."""

from dataclasses import dataclass

from vesalius.checkpoints import naming
from vesalius.errors import WrongKind
from vesalius.families import configuration, family_of
from vesalius.families.config import Config
from vesalius.families.family import Family
from vesalius.model import Model, ModelLike, loaded
from vesalius.specimens import FOLDER as SPECIMENS
from vesalius.specimens import card
from vesalius.tokenizers import Tokenizer


@dataclass(frozen=True, eq=False)
class Backbone:
    """A model, or the settings of one that is to be made."""

    name: str
    """What a recipe calls it: a name, or a folder from its root."""
    config: Config
    model: Model | None

    @classmethod
    def of(cls, given: ModelLike) -> "Backbone":
        found = naming.find(given) if isinstance(given, str) else None
        if found is not None and found.kind in ("family", "size"):
            return cls(found.name, configuration(found.name), None)
        model = loaded(given)
        if isinstance(given, str) and found is not None and found.kind != "folder":
            return cls(given, model.config, model)
        if model.folder is None:
            raise WrongKind(
                "a recipe starts from a model in files; save this one, and give its folder"
            )
        return cls(str(model.folder.absolute()), model.config, model)

    @property
    def family(self) -> Family:
        return family_of(self.config)

    @property
    def optimiser(self) -> str:
        """The one that a specimen was trained by, since it takes best to that; else AdamW."""
        folder = None if self.model is None else self.model.folder
        if folder is None or folder.parent != SPECIMENS:
            return "adamw"
        return str(card(folder.name).recipe["training"]["optimiser"])

    @property
    def tokenizer(self) -> Tokenizer | None:
        return None if self.model is None else self.model.tokenizer

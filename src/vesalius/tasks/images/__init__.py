"""Images: their classes, masked patches, and pixels as tokens."""

from typing import TYPE_CHECKING, Any

from vesalius.families.config import Config
from vesalius.families.family import Lazy
from vesalius.tasks.task import Sections, Task

if TYPE_CHECKING:
    from vesalius.tokenizers import Tokenizer


def _as_read(config: Config, tokenizer: "Tokenizer | None") -> Sections:
    """Pictures are made as large, and of as many colours, as the model reads them."""
    return {"data": {"side": getattr(config, "image"), "colours": getattr(config, "channels")}}  # noqa: B009


_IMAGES: dict[str, Any] = {"kinds": {"images": {}}, "examples": "images", "suits": _as_read}
_PLACE = "vesalius.tasks.images.objective"
TASKS = (
    Task(name="next-pixel", objective=Lazy(f"{_PLACE}:NEXT_PIXEL")),
    Task(name="masked-pixels", objective=Lazy(f"{_PLACE}:MASKED_PIXELS")),
    Task(
        name="masked-patches",
        option="masked",
        objective=Lazy(f"{_PLACE}:MASKED_PATCHES"),
        then=("evaluate {folder} OTHER-IMAGES", "finetune {folder} LABELLED-IMAGES --out NEXT"),
        **_IMAGES,
    ),
    Task(
        name="image-classes",
        option="classes",
        objective=Lazy(f"{_PLACE}:CLASSES"),
        labelled=True,
        then=("classify {folder} FILE.png", "evaluate {folder} OTHER-IMAGES"),
        **_IMAGES,
    ),
)

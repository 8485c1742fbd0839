"""A tag for every word of a text; of IOB2, entities."""

from typing import TYPE_CHECKING

from vesalius.families.config import Config
from vesalius.families.family import Lazy
from vesalius.tasks.task import Sections, Task, with_dropout

if TYPE_CHECKING:
    from vesalius.tokenizers import Tokenizer


def _with_capitals(config: Config, tokenizer: "Tokenizer | None") -> Sections:
    """Where the tokenizer lowers letters, segments tell which words begin with a capital."""
    if tokenizer is None:
        return with_dropout(config, tokenizer)
    lowers = tokenizer.encode("Bath Ely") == tokenizer.encode("bath ely")
    case = lowers and config.symbols().get("segments", 0) > 1
    return {**with_dropout(config, tokenizer), "data": {"case": case}}


TASKS = (
    Task(
        name="tags",
        option="tags",
        objective=Lazy("vesalius.tasks.tagging.objective:TAGS"),
        kinds={"words": {"text": "word", "label": "column"}},
        labelled=True,
        examples="sentences",
        then=('tag {folder} "Some words of yours."', "evaluate {folder} other{suffix}"),
        suits=_with_capitals,
        epochs=5,
        by_example=True,
    ),
)

"""The page with a run inside a notebook: ``vs.explore(trace)``.

It is the single file of ``dissect --html`` in a frame, which holds all that the page shows; nothing
is served, and nothing is asked of the network.
"""

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from vesalius import arguments
from vesalius.arguments import Progress, silent
from vesalius.checkpoints import plain
from vesalius.errors import WrongKind, WrongLength
from vesalius.explorer import single_file
from vesalius.explorer.snapshot import Given
from vesalius.model import Model, ModelLike
from vesalius.specimens import FOLDER
from vesalius.traces.dissection import dissect, read
from vesalius.traces.trace import Trace
from vesalius.views.shown import bytes_of

if TYPE_CHECKING:
    from vesalius.traces.dissection import Given as Read

HEIGHT = 800
"""Pixels of the frame."""


@dataclass(frozen=True)
class Exploration:
    """A run as a page of its own: a notebook shows it, ``save`` writes it as a file."""

    name: str
    page: str = field(repr=False)
    """The whole of it as HTML."""
    left: tuple[str, ...]
    """What there was no room for, in words."""
    height: int = HEIGHT

    def save(self, file: str | Path) -> None:
        """Write it as a file that any browser opens, without a server."""
        with plain.replacing(Path(file)) as place:
            place.write_text(self.page, encoding="utf-8", newline="\n")

    def _repr_html_(self) -> str:
        # ASCII, since a notebook that is kept as a page may say another encoding than this one
        inside = escape(self.page).encode("ascii", "xmlcharrefreplace").decode()
        style = f"width: 100%; height: {self.height}px; border: 0; border-radius: 8px"
        title = escape(f"Vesalius: {self.name}")
        return f'<iframe title="{title}" style="{style}" srcdoc="{inside}"></iframe>'

    def __repr__(self) -> str:
        size = bytes_of(len(self.page.encode()))
        return (
            f"Exploration of {self.name}, {size}: a notebook shows it; outside of one, "
            f"save('run.html') writes it for a browser, and 'vesalius explore' serves it all"
        )


def explore(
    model: "ModelLike | Trace",
    text: "Read | None" = None,
    *,
    height: int = HEIGHT,
    limit: int = single_file.LIMIT,
    progress: Progress = silent,
) -> Exploration:
    """The explorer's page with one run of a text, which a notebook shows in place.

    ``model`` is a trace, or a model that reads ``text``. The page holds the first screen, every cut
    of one head or network, and the values of the steps, in ``limit`` bytes; what there is no room
    for is left out and named in ``left``. It asks no server and no network for anything.
    ``height`` is that of the frame in pixels.
    """
    if not isinstance(model, Trace):
        if text is None:
            raise WrongKind("explore shows a run: give it a trace, or a model and a text")
        model = dissect(model, text)
    elif text is not None:
        raise WrongKind("a trace has read its text already; give explore a trace or a text")
    height = arguments.whole("height", height, least=1)
    limit = arguments.whole("limit", limit, least=1)
    if model.model is None:
        raise WrongKind("this trace has no model; say which made it: read_trace(file, model=…)")
    if model.edits:
        raise WrongKind(
            "explore shows a run without edits, which the page makes; give it the trace that was "
            "edited"
        )
    name = name_of(model.model)
    page, left = single_file.page_of(name, _given(model), model.model, limit, progress=progress)
    return Exploration(name.partition(":")[2] or name, page, tuple(left), height)


def name_of(model: Model) -> str:
    """What the page calls a model: a specimen's name, a folder, or the family of a new one."""
    if model.folder is None:
        return f"family:{model.family}"
    folder = model.folder.resolve()
    return f"specimen:{folder.name}" if folder.parent == FOLDER.resolve() else str(folder)


def _given(trace: Trace) -> Given:
    """What was read, as a text where the same tokens come of it."""
    model, ids, segments = trace.model, trace.ids, list(trace.graph.segments or ())
    assert model is not None
    if not ids:
        raise WrongKind(
            f"a page in a notebook shows a run of a text so far, and {trace.family} reads none; "
            f"'vesalius explore' shows it"
        )
    if model.tokenizer is None:
        return ids
    decode = model.tokenizer.decode
    texts: list[str | tuple[str, str]] = [decode(ids), decode(ids[1:-1])]  # without [CLS], [SEP]
    if 1 in segments:
        second = segments.index(1)
        texts = [(decode(ids[1 : second - 1]), decode(ids[second:-1]))]
    for text in texts:
        if _same(model, text, ids):
            return text
    if 1 in segments:
        raise WrongKind(
            "the texts of this pair cannot be told from their tokens; give explore both"
        )
    return ids


def _same(model: Model, text: str | tuple[str, str], ids: list[int]) -> bool:
    try:
        return read(model, text).ids == ids
    except (WrongKind, WrongLength):
        return False

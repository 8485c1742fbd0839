"""Files that hold weights alone: the names of their tensors tell the layout, the shapes the sizes.

What changes a model's output and leaves no trace in the arrays, such as the number of heads, has to
be stated: nothing is guessed. There is a module for each library.
"""

from collections.abc import Mapping

from vesalius.checkpoints.bare import mingpt, tensorflow, torch_recurrent, vit_pytorch
from vesalius.checkpoints.bare.reading import Layout as Layout
from vesalius.checkpoints.bare.reading import stated as stated
from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.tables import unwrapped

LAYOUTS = (
    vit_pytorch.LAYOUT,
    mingpt.LAYOUT,
    mingpt.FIRST_LAYOUT,
    torch_recurrent.LAYOUT,
    tensorflow.LAYOUT,
)


def recognise(shapes: Mapping[str, Shape]) -> Layout | None:
    """The layout that tensors of these names and shapes are in, or None."""
    plain = {inner: shapes[name] for name, inner in unwrapped(shapes).items()}
    return next((layout for layout in LAYOUTS if layout.fits(plain)), None)

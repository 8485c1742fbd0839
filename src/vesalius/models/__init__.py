"""The same models in PyTorch: batch first, fused, words for names.

Networks take tokens, images or series, and know nothing of files, terminals or tracing. Their
state is laid out as ``vesalius.checkpoints.layout`` says.
"""

from vesalius.machine import require

require("torch")  # before the first import of it

from vesalius.models.bert import BertNetwork  # noqa: E402
from vesalius.models.feedforward import FeedforwardNetwork  # noqa: E402
from vesalius.models.recurrent import ElmanNetwork, LSTMNetwork  # noqa: E402
from vesalius.models.series import TSTNetwork  # noqa: E402
from vesalius.models.transformer import TransformerNetwork  # noqa: E402
from vesalius.models.vision import ViTNetwork  # noqa: E402

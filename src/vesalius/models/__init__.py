"""The same models in PyTorch: batch first, fused, words for names.

Networks take tokens, images or series, and know nothing of files, terminals or tracing. Their
state is laid out as ``vesalius.checkpoints.layout`` says.
"""

from vesalius.models.bert import BertNetwork
from vesalius.models.feedforward import FeedforwardNetwork
from vesalius.models.recurrent import ElmanNetwork, LSTMNetwork
from vesalius.models.series import TSTNetwork
from vesalius.models.transformer import TransformerNetwork
from vesalius.models.vision import ViTNetwork

"""The feedforward language model (6)."""

from torch import Tensor, nn

from vesalius.errors import WrongLength
from vesalius.families.ffnn import FeedforwardConfig
from vesalius.models.activations import ACTIVATIONS
from vesalius.models.blocks import Embedding
from vesalius.models.linear import Linear


class FeedforwardNetwork(nn.Module):
    """Windows of token ids (batch x n) to the logits of the next token (batch x vocabulary)."""

    def __init__(self, config: FeedforwardConfig) -> None:
        super().__init__()
        widths = [config.context * config.embedding] + [config.hidden] * config.layers
        self.window = config.context
        self.embedding = Embedding(config.vocabulary, config.embedding)
        self.layers = nn.ModuleList(Linear(width, config.hidden) for width in widths[:-1])
        self.output = Linear(config.hidden, config.vocabulary, bias=config.output_bias)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        if ids.shape[1] != self.window:
            raise WrongLength(f"the window has {self.window} tokens, got {ids.shape[1]}")
        h = self.embedding(ids).flatten(1)
        for layer in self.layers:
            h = self.dropout(self.activation(layer(h)))
        return self.output(h)

"""Transformer blocks (24 to 38), which six families are made of."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vesalius.errors import SequenceTooLong, TokenOutOfRange
from vesalius.families.blocks import BlocksConfig
from vesalius.models.activations import ACTIVATIONS
from vesalius.models.linear import Linear


class Embedding(nn.Embedding):
    """Columns of E by token id."""

    def forward(self, ids: Tensor) -> Tensor:
        try:
            return super().forward(ids)
        except IndexError as error:  # a processor says so; a GPU asserts by itself
            raise TokenOutOfRange(
                f"token ids go from 0 to {self.num_embeddings - 1}, "
                f"got {int(ids.min())} to {int(ids.max())}"
            ) from error


class Attention(nn.Module):
    """Multi-head attention (31), all heads at once."""

    def __init__(self, config: BlocksConfig) -> None:
        super().__init__()
        s, block = config.symbols(), config.block
        self.heads, self.dropout = config.heads, config.dropout
        embedding, bias = config.embedding, block.qkv_bias
        self.query = Linear(embedding, s["M"] * s["d_k"], bias=bias)
        self.key = Linear(embedding, s["M"] * s["d_k"], bias=bias)
        self.value = Linear(embedding, s["M"] * s["d_v"], bias=bias)
        self.output = Linear(s["M"] * s["d_v"], embedding, bias=block.output_bias)

    def forward(self, x: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        batch, n, _ = x.shape
        q, k, v = (
            project(x).view(batch, n, self.heads, -1).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return self.output(attended.transpose(1, 2).reshape(batch, n, -1))


class Feedforward(nn.Module):
    """The feedforward network of a block (37)."""

    def __init__(self, config: BlocksConfig) -> None:
        super().__init__()
        width = config.symbols()["d_f"]
        self.inner = Linear(config.embedding, width)
        self.outer = Linear(width, config.embedding)
        self.activation = ACTIVATIONS[config.block.activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.inner(x)))


class BatchNorm(nn.Module):
    """Batch normalisation of every component over all tokens of a batch."""

    def __init__(self, embedding: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(embedding))
        self.bias = nn.Parameter(torch.zeros(embedding))
        self.register_buffer("running_mean", torch.zeros(embedding))
        self.register_buffer("running_var", torch.ones(embedding))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        statistics = (self.get_buffer("running_mean"), self.get_buffer("running_var"))
        normalised = F.batch_norm(
            x.transpose(1, 2), *statistics, self.weight, self.bias, self.training, eps=self.eps
        )
        return normalised.transpose(1, 2)


NORMALISATIONS = {"layer": nn.LayerNorm, "batch": BatchNorm, "rms": nn.RMSNorm}


def normalisation(config: BlocksConfig) -> nn.Module:
    return NORMALISATIONS[config.block.normalisation](config.embedding, eps=config.block.epsilon)


class Block(nn.Module):
    """One transformer block (32), in either order of Figure 14."""

    def __init__(self, config: BlocksConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = normalisation(config)
        self.feedforward = Feedforward(config)
        self.feedforward_norm = normalisation(config)
        self.dropout = nn.Dropout(config.dropout)
        self.norm_first = config.block.order == "pre"

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(self.attention(self.attention_norm(x), mask, causal))
            return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, mask, causal)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))


def padding_mask(real: Tensor | None) -> Tensor | None:
    """The mask that keeps padding from being attended to, for all heads and queries."""
    return None if real is None else real[:, None, None, :]


class SinusoidalPositions(nn.Module):
    """The fixed positional encodings of [58], made for the length that comes."""

    def __init__(self, embedding: int) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, like: Tensor) -> Tensor:
        d, n, device = self.embedding, like.shape[1], like.device
        even = torch.arange(0, d, 2, dtype=torch.float64, device=device)
        p = torch.arange(n, dtype=torch.float64, device=device)
        angles = torch.outer(p, 10000 ** (-even / d))
        both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return both[:, : self.embedding].to(like)


class LearnedPositions(nn.Module):
    """One vector for each position."""

    def __init__(self, context: int, embedding: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(context, embedding))

    def forward(self, like: Tensor) -> Tensor:
        n, longest = like.shape[1], len(self.weight)
        if n > longest:
            raise SequenceTooLong(
                f"the sequence has {n} positions, the model {longest}; shorten it"
            )
        return self.weight[:n]


def positions(config: BlocksConfig) -> LearnedPositions | SinusoidalPositions:
    if config.block.positions == "learned":
        return LearnedPositions(config.symbols()["n_max"], config.embedding)
    return SinusoidalPositions(config.embedding)


def initialise(module: nn.Module, std: float = 0.02, layers: int | None = None) -> None:
    """Normal weights, zero biases, unit gains; with ``layers``, GPT-2's residual scaling.

    GPT-2 draws what is added to the residual stream with std / sqrt(2 L), because 2 L sublayers add
    to it.
    """
    for name, parameter in module.named_parameters():
        if parameter.is_meta:  # to be replaced by a checkpoint's
            return
        if name.endswith("norm.weight"):
            nn.init.ones_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif layers and name.endswith(("attention.output.weight", "feedforward.outer.weight")):
            nn.init.normal_(parameter, std=std / math.sqrt(2 * layers))
        else:
            nn.init.normal_(parameter, std=std)

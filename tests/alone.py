"""Models as other programs save them, without a word on what they are: PyTorch's modules under the
names that vit-pytorch, minGPT and PyTorch's examples have, and TensorFlow's LSTM in NumPy.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def drawn(network, seed=0):
    """The network in double precision with parameters far from their beginnings."""
    generator = torch.Generator().manual_seed(seed)
    network = network.double().eval()
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).double() / 2
    return network


def attention(q, k, v, heads, mask=None):
    """Softmax attention of all heads, which lie side by side."""
    joined = []
    for q_m, k_m, v_m in zip(*(a.chunk(heads, -1) for a in (q, k, v)), strict=True):
        scores = q_m @ k_m.mT / math.sqrt(q_m.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        joined.append(scores.softmax(-1) @ v_m)
    return torch.cat(joined, -1)


# ------------------------------------------------------------------------------------ vit-pytorch


class Normed(nn.Module):
    """x to fn(norm(x))."""

    def __init__(self, width, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(width), fn

    def forward(self, x):
        return self.fn(self.norm(x))


class Adding(nn.Module):
    """x to x + fn(x); until 0.9.3 it was a module, and part of the names."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return x + self.fn(x)


class VitAttention(nn.Module):
    def __init__(self, width, heads, head_width):
        super().__init__()
        inner, self.heads = heads * head_width, heads
        self.to_qkv = nn.Linear(width, 3 * inner, bias=False)
        alone = heads == 1 and head_width == width
        self.to_out = nn.Identity() if alone else nn.Sequential(nn.Linear(inner, width))

    def forward(self, x):
        return self.to_out(attention(*self.to_qkv(x).chunk(3, -1), self.heads))


class VitNeurons(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        layers = [nn.Linear(width, inner), nn.GELU(), nn.Dropout(0.0), nn.Linear(inner, width)]
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


class VitPytorch(nn.Module):
    """``normed_patches`` is as from 1.0.0 on."""

    def __init__(
        self,
        side=12,
        patch=4,
        channels=3,
        width=16,
        heads=2,
        head_width=8,
        depth=2,
        inner=20,
        classes=5,
        pool="cls",
        modules_add=False,
        normed_patches=False,
    ):
        super().__init__()
        numbers = channels * patch**2
        project = [nn.Identity(), nn.Linear(numbers, width)]
        if normed_patches:
            project = [nn.Identity(), nn.LayerNorm(numbers), project[1], nn.LayerNorm(width)]
        self.to_patch_embedding = nn.Sequential(*project)
        self.pos_embedding = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        wrap = Adding if modules_add else (lambda fn: fn)
        self.transformer = nn.Module()
        self.transformer.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    wrap(Normed(width, VitAttention(width, heads, head_width))),
                    wrap(Normed(width, VitNeurons(width, inner))),
                ]
            )
            for _ in range(depth)
        )
        self.mlp_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))
        self.patch, self.pool, self.modules_add = patch, pool, modules_add

    def forward(self, pixels):
        P = self.patch
        rows = [
            pixels[:, :, i : i + P, j : j + P].permute(0, 2, 3, 1).flatten(1)
            for i in range(0, pixels.shape[2], P)
            for j in range(0, pixels.shape[3], P)
        ]
        x = self.to_patch_embedding(torch.stack(rows, 1))
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embedding
        for sublayer in (part for layer in self.transformer.layers for part in layer):
            x = sublayer(x) if self.modules_add else x + sublayer(x)
        return self.mlp_head(x.mean(1) if self.pool == "mean" else x[:, 0])


# ----------------------------------------------------------------------------------------- minGPT


class MinBlock(nn.Module):
    """Of 2022, as in GPT-2; of 2020 with ``first``."""

    def __init__(self, width, heads, context, first):
        super().__init__()
        self.heads, self.first = heads, first
        self.attn, mask = nn.Module(), torch.ones(context, context).tril()[None, None]
        names = ("key", "query", "value", "proj") if first else ("c_proj",)
        for name in names:
            setattr(self.attn, name, nn.Linear(width, width))
        if first:
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            inner, outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.mlp = nn.Sequential(inner, nn.GELU(), outer)
            self.attn.register_buffer("mask", mask)
        else:
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn.c_attn = nn.Linear(width, 3 * width)
            self.attn.register_buffer("bias", mask)
            self.mlp = nn.ModuleDict(
                {"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)}
            )

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if self.first:
            a, normed = self.attn, self.ln1(x)
            qkv = a.query(normed), a.key(normed), a.value(normed)
            x = x + a.proj(attention(*qkv, self.heads, mask))
            return x + self.mlp(self.ln2(x))
        qkv = self.attn.c_attn(self.ln_1(x)).chunk(3, -1)
        x = x + self.attn.c_proj(attention(*qkv, self.heads, mask))
        inner = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](inner)


class MinGPT(nn.Module):
    def __init__(self, words=29, context=9, width=12, heads=3, depth=2):
        super().__init__()
        parts = {"wte": nn.Embedding(words, width), "wpe": nn.Embedding(context, width)}
        blocks = nn.ModuleList(MinBlock(width, heads, context, False) for _ in range(depth))
        self.transformer = nn.ModuleDict({**parts, "h": blocks, "ln_f": nn.LayerNorm(width)})
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1]))
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x))


class FirstMinGPT(nn.Module):
    def __init__(self, words=29, context=9, width=12, heads=3, depth=2):
        super().__init__()
        self.tok_emb = nn.Embedding(words, width)
        self.pos_emb = nn.Parameter(torch.zeros(1, context, width))
        self.blocks = nn.Sequential(*(MinBlock(width, heads, context, True) for _ in range(depth)))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb[:, : ids.shape[1]]
        return self.head(self.ln_f(self.blocks(x)))


# ------------------------------------------------------------------------------ PyTorch's nn.LSTM


class WordModel(nn.Module):
    """An embedding, layers and an output under names that their author chose."""

    def __init__(
        self,
        kind=nn.LSTM,
        names=("encoder", "rnn", "decoder"),
        words=29,
        width=6,
        hidden=10,
        depth=2,
        tied=False,
        output_bias=True,
        **settings,
    ):
        super().__init__()
        self.names = names
        for name, module in zip(
            names,
            (
                nn.Embedding(words, width),
                kind(width, hidden, depth, batch_first=True, **settings),
                nn.Linear(hidden, words, bias=output_bias),
            ),
            strict=True,
        ):
            self.add_module(name, module)
        if tied:
            getattr(self, names[2]).weight = getattr(self, names[0]).weight

    def forward(self, ids):
        embedding, layers, output = (getattr(self, name) for name in self.names)
        return output(layers(embedding(ids))[0])


# ------------------------------------------------------------------------------------- TensorFlow


PTB = "Model/RNN/multi_rnn_cell/cell_{l}/basic_lstm_cell"


def tensorflow_variables(
    cell=PTB, scope="Model/", words=29, width=6, hidden=10, depth=2, tied=False, seed=0
):
    """The variables of a Zaremba-style model, by name."""
    rng = np.random.default_rng(seed)
    shapes = {f"{scope}embedding": (words, width), f"{scope}softmax_b": (words,)}
    if not tied:
        shapes[f"{scope}softmax_w"] = (hidden, words)
    for l in range(depth):
        name = cell.format(l=l)
        shapes[f"{name}/kernel"] = ((hidden if l else width) + hidden, 4 * hidden)
        shapes[f"{name}/bias"] = (4 * hidden,)
    return {name: rng.normal(0, 0.5, shape) for name, shape in shapes.items()}


def tensorflow_logits(variables, ids, forget_bias, cell=PTB, scope="Model/", depth=2):
    """One cell after the other, as BasicLSTMCell has it: gates i, j, f, o of [x, h]."""

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    x = variables[f"{scope}embedding"][ids]
    for l in range(depth):
        kernel, bias = (variables[f"{cell.format(l=l)}/{kind}"] for kind in ("kernel", "bias"))
        h = c = np.zeros((len(ids), len(bias) // 4))
        states = []
        for t in range(ids.shape[1]):
            joined = np.concatenate([x[:, t], h], axis=1) @ kernel + bias
            i, j, f, o = np.split(joined, 4, axis=1)
            c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
            h = np.tanh(c) * sigmoid(o)
            states.append(h)
        x = np.stack(states, axis=1)
    weight = variables.get(f"{scope}softmax_w", variables[f"{scope}embedding"].T)
    return x @ weight + variables[f"{scope}softmax_b"]

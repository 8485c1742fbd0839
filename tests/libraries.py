"""nanoGPT and timm restated: a state with their names and shapes, and what they compute with it."""

import numpy as np
import torch
from torch.nn import functional as F

from vesalius.families import configuration

SMALL = {"layers": 2, "embedding": 12, "heads": 3, "feedforward": 20}
GPT2 = configuration("gpt2", vocabulary=29, context=9, activation="gelu", **SMALL)
VIT = configuration("vit", image=12, patch=4, channels=3, classes=5, epsilon=1e-6, **SMALL)


def random_state(shapes):
    rng = np.random.default_rng(7)
    return {
        name: rng.normal("norm" in name and "weight" in name, 0.5, shape)
        for name, shape in shapes.items()
    }


def linear(name, rows, columns):
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def nanogpt_state(config):
    """What nanoGPT saves: the tied head twice, and the causal mask as a buffer."""
    d, d_f = config.embedding, config.feedforward
    shapes = {"transformer.wte.weight": (config.vocabulary, d)}
    shapes["transformer.wpe.weight"] = (config.context, d)
    for l in range(config.layers):
        layer = f"transformer.h.{l}"
        shapes |= norm(f"{layer}.ln_1", d) | norm(f"{layer}.ln_2", d)
        shapes |= linear(f"{layer}.attn.c_attn", 3 * d, d) | linear(f"{layer}.attn.c_proj", d, d)
        shapes |= linear(f"{layer}.mlp.c_fc", d_f, d) | linear(f"{layer}.mlp.c_proj", d, d_f)
    state = random_state(shapes | norm("transformer.ln_f", d))
    mask = np.tril(np.ones((1, 1, config.context, config.context)))
    state |= {f"transformer.h.{l}.attn.bias": mask for l in range(config.layers)}
    return state | {"lm_head.weight": state["transformer.wte.weight"].copy()}


def timm_state(config):
    d, P, C = config.embedding, config.patch, config.channels
    shapes = {"cls_token": (1, 1, d), "pos_embed": (1, (config.image // P) ** 2 + 1, d)}
    shapes |= {"patch_embed.proj.weight": (d, C, P, P), "patch_embed.proj.bias": (d,)}
    for l in range(config.layers):
        layer = f"blocks.{l}"
        shapes |= norm(f"{layer}.norm1", d) | norm(f"{layer}.norm2", d)
        shapes |= linear(f"{layer}.attn.qkv", 3 * d, d) | linear(f"{layer}.attn.proj", d, d)
        shapes |= linear(f"{layer}.mlp.fc1", config.feedforward, d)
        shapes |= linear(f"{layer}.mlp.fc2", d, config.feedforward)
    return random_state(shapes | norm("norm", d) | linear("head", config.classes, d))


class Plain:
    """Layers by name, straight from a state."""

    def __init__(self, state, heads, epsilon):
        self.state = {name: torch.tensor(array) for name, array in state.items()}
        self.heads, self.epsilon = heads, epsilon

    def linear(self, name, x):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, name, x):
        weight, bias = self.state[f"{name}.weight"], self.state[f"{name}.bias"]
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return centred / (variance + self.epsilon).sqrt() * weight + bias

    def attend(self, fused, output, x, mask):
        joined = []
        q, k, v = self.linear(fused, x).chunk(3, dim=-1)
        for q_m, k_m, v_m in zip(*(a.chunk(self.heads, dim=-1) for a in (q, k, v)), strict=True):
            scores = q_m @ k_m.transpose(-1, -2) / q_m.shape[-1] ** 0.5
            joined.append(scores.masked_fill(mask == 0, -torch.inf).softmax(-1) @ v_m)
        return self.linear(output, torch.cat(joined, dim=-1))


def nanogpt_logits(state, ids, heads):
    of = Plain(state, heads, 1e-5)
    x = of.state["transformer.wte.weight"][ids]
    x = x + of.state["transformer.wpe.weight"][: ids.shape[1]]
    mask = torch.ones(ids.shape[1], ids.shape[1]).tril()
    for l in range(GPT2.layers):
        h = f"transformer.h.{l}"
        normed = of.norm(f"{h}.ln_1", x)
        x = x + of.attend(f"{h}.attn.c_attn", f"{h}.attn.c_proj", normed, mask)
        inner = F.gelu(of.linear(f"{h}.mlp.c_fc", of.norm(f"{h}.ln_2", x)))
        x = x + of.linear(f"{h}.mlp.c_proj", inner)
    return of.norm("transformer.ln_f", x) @ of.state["lm_head.weight"].T


def timm_logits(state, pixels, config):
    of = Plain(state, config.heads, config.epsilon)
    kernel, bias = of.state["patch_embed.proj.weight"], of.state["patch_embed.proj.bias"]
    x = F.conv2d(pixels, kernel, bias, stride=config.patch).flatten(2).transpose(1, 2)
    x = torch.cat([of.state["cls_token"].expand(len(x), -1, -1), x], 1) + of.state["pos_embed"]
    for l in range(config.layers):
        b = f"blocks.{l}"
        normed = of.norm(f"{b}.norm1", x)
        x = x + of.attend(f"{b}.attn.qkv", f"{b}.attn.proj", normed, torch.ones(1))
        inner = F.gelu(of.linear(f"{b}.mlp.fc1", of.norm(f"{b}.norm2", x)))
        x = x + of.linear(f"{b}.mlp.fc2", inner)
    return of.linear("head", of.norm("norm", x)[:, 0])

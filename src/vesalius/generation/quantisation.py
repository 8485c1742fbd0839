"""Int8 quantisation: weights in 8 bits, with one scale for each row of a matrix (one output)."""

import numpy as np
from jaxtyping import Float, Int8
from numpy import ndarray as Array

from vesalius.families.family import OwnConfig
from vesalius.model import Model

LARGEST = 127


def quantise(
    matrix: Float[Array, "rows columns"],
) -> tuple[Int8[Array, "rows columns"], Float[Array, " rows"]]:
    """Int8 weights and scales: their product is the matrix, rounded to 255 levels a row."""
    scale = np.abs(matrix).max(axis=1, initial=0) / np.float32(LARGEST)
    scale[scale == 0] = 1
    with np.errstate(invalid="ignore"):  # of NaN and infinity, which the scale keeps
        levels = np.rint(matrix / scale[:, None]).astype(np.int8)
    return levels, scale.astype(np.float32)


def rounded(model: Model) -> Model:
    """The model with the weights that int8 stands for, to evaluate what quantisation costs.

    Embeddings that are looked up are not rounded: a tied matrix becomes two.
    """
    config: OwnConfig = model.config
    state = dict(model.state)
    if config.tied:
        config, state["output.weight"] = config.change(tied=False), state["embedding.weight"]
    done = {"embedding.weight", "positions.weight", "segments.weight"}
    for name in [name for name in state if name.endswith("recurrent.weight")]:
        # They share a scale a row: the kernel multiplies [W | U] in one product.
        below = name.replace("recurrent", "input")
        width = state[below].shape[1]
        whole, scale = quantise(np.concatenate([state[below], state[name]], axis=1))
        state[below], state[name] = np.split(whole * scale[:, None], [width], axis=1)
        done |= {below, name}
    for name, array in state.items():
        if array.ndim == 2 and name not in done:
            whole, scale = quantise(array)
            state[name] = whole * scale[:, None]
    kept = (model.origin, model.preprocessing, model.generation_config)
    return Model(config, state, model.tokenizer, "float32", *kept)

"""The forward pass over whole texts: hidden states, and what the heads read from them.

PyTorch is not needed. Short texts run on the reference engine, in NumPy, which starts at once; long
texts of transformers on a compiled engine, which is faster once it is loaded. Both give the same to
the last digits.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from vesalius.arguments import Progress
from vesalius.equations.activations import ACTIVATIONS
from vesalius.families import family_of
from vesalius.families.family import OwnConfig
from vesalius.generation.engines import engine
from vesalius.generation.engines.reference import ReferenceEngine, normalise, output
from vesalius.generation.engines.sessions import Engine, Ids, Logits, States
from vesalius.model import Model, require_shared

LONG = 2**35
"""Multiplications from which on a compiled engine is worth the time it takes to load."""
BATCH, TOKENS = 32, 256
"""The most texts of a batch, and their tokens with padding; a single text may have more."""


def running(model: Model, tokens: int) -> Engine:
    """The faster engine for this many tokens: its sessions give hidden states."""
    require_shared(model)
    matrices = sum(array.size for name, array in model.state.items() if array.ndim == 2)
    single = next(iter(model.state.values())).dtype == np.float32
    # Windows and carried states are a few products, at which NumPy is faster than our kernels.
    family = family_of(model.config)
    attends = not (family.window or family.carries_state)
    if single and attends and tokens * matrices > LONG:
        return engine(model)
    return ReferenceEngine(model)


def hidden_states(
    model: Model,
    rows: Sequence[Ids],
    layer: int | None = None,
    segments: Sequence[Ids] | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
    made: Engine | None = None,
) -> list[States]:
    """The hidden states of every token of some texts, after a layer or as the heads read them.

    Texts of similar length make a batch; the result has the order of ``rows``. ``made`` is the
    engine to run on, for callers who give many texts in several calls.
    """
    made = made or running(model, sum(map(len, rows)))
    found: dict[int, States] = {}
    for some in _batches([len(row) for row in rows], batch):
        session = made.session(len(some), max(len(rows[i]) for i in some), layer)
        kinds = None if segments is None else [segments[i] for i in some]
        states = session.extend(range(len(some)), [rows[i] for i in some], kinds)
        found |= dict(zip(some, states, strict=True))
        if progress is not None:
            progress("states", len(found), len(rows))
    return [found[i] for i in range(len(rows))]


def _batches(lengths: list[int], batch: int) -> Iterator[list[int]]:
    """The indices of texts in each batch, longest first."""
    some: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if some and (len(some) == batch or (len(some) + 1) * lengths[some[0]] > TOKENS):
            yield some
            some = []
        some.append(i)
    yield some


def logits(model: Model, states: States) -> Logits:
    """The logits of the next token (4, 9)."""
    return output(model.config, model.state, states)


def mlm_logits(model: Model, states: States) -> Logits:
    """The logits of masked tokens: (53) to (55)."""
    config: OwnConfig = model.config
    state, head = model.state, "mlm_head"
    dense = _linear(model, f"{head}.dense", states)
    normed = normalise(
        ACTIVATIONS[config.activation](dense),
        state[f"{head}.norm.weight"],
        state[f"{head}.norm.bias"],
        config.epsilon,
    )
    return normed @ state["embedding.weight"].T + state[f"{head}.bias"]


def nsp_logits(model: Model, first: States) -> Float[Array, "n 2"]:
    """The logits of sentence pairs from the states of their first tokens: (57), and in (58)."""
    return _linear(model, "nsp_head", np.tanh(_linear(model, "pooler", first)))


def text_labels(model: Model, states: Sequence[States]) -> Float[Array, "texts labels"]:
    """The labels' logits of texts, by their first token and (57), their last token or the mean."""
    pooling = model.config.symbols()["pooling"]
    pooled = {"first": lambda rows: rows[0], "last": lambda rows: rows[-1]}
    read = np.stack([pooled.get(pooling, lambda rows: rows.mean(axis=0))(rows) for rows in states])
    read = np.tanh(_linear(model, "pooler", read)) if pooling == "first" else read
    return _linear(model, "label_head", read)


def token_logits(model: Model, states: States) -> Logits:
    """The logits of the labels of tokens, by a head that was fine-tuned (6.1)."""
    return _linear(model, "label_head", states)


def _linear(model: Model, name: str, x: Array) -> Array:
    product: Array = x @ model.state[f"{name}.weight"].T
    bias = model.state.get(f"{name}.bias")
    return product if bias is None else product + bias


def ranked(
    logits: Float[Array, "n V"], targets: Int[Array, " n"]
) -> tuple[Float[Array, " n"], Int[Array, " n"]]:
    """−log p(target) by (17), and the rank of each target: 1 where it was the likeliest."""
    wanted = logits[np.arange(len(targets)), targets][:, None].astype(np.float64)
    sums = np.exp(logits.astype(np.float64) - wanted).sum(axis=1)
    return np.log(sums), 1 + (logits > wanted).sum(axis=1)


def score(logits: Float[Array, "n V"], targets: Int[Array, " n"]) -> tuple[float, int]:
    """−Σ log p(target) by (17), and how many targets were the likeliest."""
    rows = np.arange(len(targets))
    right = int((logits.argmax(axis=1) == targets).sum())
    wanted = logits[rows, targets].astype(np.float64)
    largest = logits.max(axis=1, keepdims=True)
    shifted = logits - largest
    sums = np.exp(shifted, out=shifted).sum(axis=1, dtype=np.float64)
    return float((np.log(sums) + largest[:, 0] - wanted).sum()), right

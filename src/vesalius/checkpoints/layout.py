"""The layout of our networks' state, and how the paper's letters are views of it.

Each row is (paper symbol, our name, how the one is seen in the other). All of them are views:
nothing is copied between a network and its equations.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from vesalius.equations.parameters import Array, ParameterSet
from vesalius.families import assemble, family_of
from vesalius.families import shapes as paper_shapes
from vesalius.families.config import Config
from vesalius.families.family import OwnConfig

Shape = tuple[int, ...]


@dataclass(frozen=True)
class View:
    """How an array of the paper is seen in one of ours.

    ``to_paper(array, m, shape)`` gives the paper's array of that shape (for head or gate m, counted
    from zero) from ours; ``our_shape(shape, count)`` gives our shape from the paper's.
    """

    name: str
    to_paper: Callable[[Array, int, Shape], Array]
    our_shape: Callable[[Shape, int], Shape]


SAME = View("the same", lambda a, m, s: a, lambda s, n: s)
TRANSPOSED = View("transposed", lambda a, m, s: a.T, lambda s, n: s[::-1])


def _head(name: str) -> View:
    return View(
        name,
        lambda a, m, s: a[m * s[-1] : (m + 1) * s[-1]].T,
        lambda s, n: (n * s[-1], *s[:-1]),
    )


HEAD = _head("rows of head m, transposed")
HEAD_BIAS = _head("entries of head m")


def gate(k: int, of: int = 4) -> View:
    """The k-th of several gates, in PyTorch's order: add R, forget P, candidate Q, output S."""
    return View(
        f"rows of gate {k + 1} of {of}",
        lambda a, m, s: a[k * s[0] : (k + 1) * s[0]],
        lambda s, n: (of * s[0], *s[1:]),
    )


@dataclass(frozen=True)
class Row:
    """One row of the table; l counts layers and m heads."""

    symbol: str
    name: str
    view: View


def _norm(symbol: str, name: str) -> list[Row]:
    letters = {"alpha": "weight", "beta": "bias", "mean": "running_mean", "variance": "running_var"}
    return [Row(f"{symbol}.{ours}", f"{name}.{theirs}", SAME) for ours, theirs in letters.items()]


def _dense(symbol: str, name: str) -> list[Row]:
    return [Row(f"{symbol}.W", f"{name}.weight", SAME), Row(f"{symbol}.b", f"{name}.bias", SAME)]


def _blocks() -> list[Row]:
    attention, feedforward = "blocks.{l}.attention", "blocks.{l}.feedforward"
    rows = []
    for letter, name in {"Q": "query", "K": "key", "V": "value"}.items():
        rows.append(Row(f"Phi[l].Gamma.Psi[m].W_{letter}", f"{attention}.{name}.weight", HEAD))
        rows.append(Row(f"Phi[l].Gamma.Psi[m].b_{letter}", f"{attention}.{name}.bias", HEAD_BIAS))
    return [
        *rows,
        Row("Phi[l].Gamma.W_O", f"{attention}.output.weight", TRANSPOSED),
        Row("Phi[l].Gamma.b_O", f"{attention}.output.bias", SAME),
        *_norm("Phi[l].Xi_1", "blocks.{l}.attention_norm"),
        Row("Phi[l].Pi.W_1", f"{feedforward}.inner.weight", SAME),
        Row("Phi[l].Pi.b_1", f"{feedforward}.inner.bias", SAME),
        Row("Phi[l].Pi.W_2", f"{feedforward}.outer.weight", SAME),
        Row("Phi[l].Pi.b_2", f"{feedforward}.outer.bias", SAME),
        *_norm("Phi[l].Xi_2", "blocks.{l}.feedforward_norm"),
    ]


EMBEDDING = Row("E", "embedding.weight", TRANSPOSED)
POSITIONS = Row("Lambda", "positions.weight", TRANSPOSED)
OUTPUT = Row("U", "output.weight", SAME)
PROJECTION = [Row("E", "projection.weight", SAME), Row("b_e", "projection.bias", SAME)]

LABEL_HEAD = Row("W_Y", "label_head.weight", SAME)
TRANSFORMER = [EMBEDDING, POSITIONS, *_norm("Xi_e", "norm"), *_blocks(), OUTPUT, LABEL_HEAD]
BERT = [
    EMBEDDING,
    Row("Lambda_s", "segments.weight", TRANSPOSED),
    Row("Lambda_p", "positions.weight", TRANSPOSED),
    *_norm("Xi_e", "norm"),
    *_blocks(),
    *_dense("Pi_C", "pooler"),
    *_dense("Pi_M", "mlm_head.dense"),
    *_norm("Xi_m", "mlm_head.norm"),
    Row("b_E", "mlm_head.bias", SAME),
    *_dense("Pi_N", "nsp_head"),
    *_dense("Pi_Y", "label_head"),
]
VIT = [
    *PROJECTION,
    Row("x_class", "class_token", SAME),
    POSITIONS,
    *_blocks(),
    *_norm("Xi_e", "norm"),
    *_dense("Pi_C", "pooler"),
    *_dense("Pi_Y", "class_head"),
    Row("x_mask", "mask_token", SAME),
    *_dense("Pi_R", "patch_head"),
]
TST = [*PROJECTION, POSITIONS, *_blocks(), *_dense("Pi_Y", "output")]
PATCHTST = [
    Row("Xi_r.alpha", "instance_norm.weight", SAME),
    Row("Xi_r.beta", "instance_norm.bias", SAME),
    *TST,
]
FFNN = [EMBEDDING, *_dense("Phi[l]", "layers.{l}"), OUTPUT, Row("b_U", "output.bias", SAME)]
_RECURRENT_OUTPUT = [OUTPUT, Row("b_U", "output_bias", SAME), LABEL_HEAD]
ELMAN = [
    EMBEDDING,
    Row("Phi[l].W", "layers.{l}.input.weight", SAME),
    Row("Phi[l].U", "layers.{l}.recurrent.weight", SAME),
    Row("Phi[l].b", "layers.{l}.input.bias", SAME),
    *_RECURRENT_OUTPUT,
]
LSTM = [
    EMBEDDING,
    *(
        Row(f"Phi[l].{kind}_{letter}", f"layers.{{l}}.{name}", gate(k))
        for k, letter in enumerate("RPQS")
        for kind, name in {"W": "input.weight", "U": "recurrent.weight", "b": "input.bias"}.items()
    ),
    *_RECURRENT_OUTPUT,
]


def _find(rows: Mapping[str, Row], symbol: str) -> tuple[str, View, int]:
    """Our name, the view, and which head, of a symbol such as ``Phi[3].Gamma.Psi[2].W_Q``."""
    l, m = (re.search(rf"{set_}\[(\d+)\]", symbol) for set_ in ("Phi", "Psi"))
    pattern = re.sub(r"Psi\[\d+\]", "Psi[m]", re.sub(r"Phi\[\d+\]", "Phi[l]", symbol))
    row = rows[pattern]
    layer = int(l.group(1)) - 1 if l else 0
    return row.name.format(l=layer), row.view, int(m.group(1)) - 1 if m else 0


def _rows(config: Config) -> dict[str, Row]:
    return {row.symbol: row for row in family_of(config).layout.get()}


@cache
def _shapes(config: OwnConfig) -> dict[str, Shape]:
    """Our name and shape of every array of a configuration."""
    rows, symbols, found = _rows(config), config.symbols(), {}
    # Layers are alike from the second on, and heads all are: few letters tell all shapes.
    for symbol, shape in paper_shapes(config, L=min(symbols["L"], 2), M=1).items():
        name, view, _ = _find(rows, symbol)
        found[name] = view.our_shape(shape, symbols.get("M", 1))
    second = {name: shape for name, shape in found.items() if re.search(r"\.1\.", name)}
    for l in range(2, symbols["L"]):
        found |= {name.replace(".1.", f".{l}.", 1): shape for name, shape in second.items()}
    return found


def shapes(config: Config) -> dict[str, Shape]:
    """Our name and shape of every array of a configuration."""
    return dict(_shapes(config))


def name_of(config: Config, symbol: str) -> str:
    """Our name of the array that a symbol of the paper is a view of."""
    return _find(_rows(config), symbol)[0]


def letters(config: Config, state: Mapping[str, Array]) -> ParameterSet:
    """The paper's parameter set as views of a state in our layout."""
    rows = _rows(config)

    def fetch(symbol: str, shape: Shape) -> Array:
        name, view, m = _find(rows, symbol)
        return view.to_paper(state[name], m, shape)

    return assemble(config, fetch)

"""Language models of TensorFlow's BasicLSTMCell, LSTMBlockCell and LSTMCell, as variables by name.

A cell's one kernel has the rows of its input above those of its state, and columns for the gates
i, j, f, o: add, candidate, forget, output. ``forget_bias`` is a constant of the program that is
added to the forget gate: TensorFlow's default is 1, its PTB tutorial, after Zaremba et al., has 0.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vesalius.checkpoints.bare.reading import (
    Layout,
    Reading,
    Setting,
    Shapes,
    layers,
    literal,
    sizes,
)
from vesalius.checkpoints.libraries import Dialect
from vesalius.checkpoints.tables import TRANSPOSED, Row, Transform
from vesalius.equations.parameters import Array
from vesalius.errors import CheckpointMismatch, UnknownConfiguration, listed

CELL = r"(?:(?P<before>.*/)?cell_(?P<l>\d+)/|(?P<outer>.*/)?)(?P<cell>\w*lstm_cell)"
VARIABLES = {"kernel": "bias", "weights": "biases"}
"""A cell's weights, and its biases; the latter pair until TensorFlow 1.2."""
COMPATIBLE = "cudnn_compatible_lstm_cell"
"""It adds no forget bias, whatever its program says."""
UNKNOWN = {
    r"/w_[fio]_diag$": "peepholes, weights from the cell to its gates",
    r"lstm_cell/projection/": "a projection of its state",
}
TRAINING = (
    r"(.*/)?(global_step|beta[12]_power|learning_rate|lr|Variable(_\d+)?)|"
    r".*/(Adam|Adam_1|Momentum|Adagrad|Adadelta|Adadelta_1|RMSProp|RMSProp_1)"
)
"""What training leaves beside a model's variables."""
OUTPUTS = {"softmax_w": "softmax_b", "dense/kernel": "dense/bias"}


def _reordered(a: Array) -> Array:
    """Columns i, j, f, o as i, f, j, o, and the other way: two of them change places."""
    i, second, third, o = np.split(a, 4, axis=-1)
    return np.concatenate([i, third, second, o], axis=-1)


GATES = "gates i, j, f, o as i, f, j, o"
INPUT = Transform(
    f"rows of the input, {GATES}, transposed",
    lambda a: _reordered(a[: -(a.shape[1] // 4)]).T,
    lambda a: _reordered(a.T),
    part=0,
    axis=0,
)
STATE = Transform(
    f"rows of the state, {GATES}, transposed",
    lambda a: _reordered(a[-(a.shape[1] // 4) :]).T,
    lambda a: _reordered(a.T),
    part=1,
    axis=0,
)
BIAS = Transform(f"{GATES}, plus `forget_bias` at f", _reordered, _reordered)


def _rows(embedding: str, kernel: str, bias: str, output: str, output_bias: str) -> list[Row]:
    return [
        Row("embedding.weight", embedding),
        Row("layers.{l}.input.weight", kernel, INPUT),
        Row("layers.{l}.recurrent.weight", kernel, STATE),
        Row("layers.{l}.input.bias", bias, BIAS),
        Row("output.weight", output, TRANSPOSED),
        Row("output_bias", output_bias),
    ]


_CELLS = "Model/RNN/multi_rnn_cell/cell_{l}/basic_lstm_cell"
DIALECT = Dialect(
    lambda config: _rows(
        "Model/embedding",
        f"{_CELLS}/kernel",
        f"{_CELLS}/bias",
        "Model/softmax_w",
        "Model/softmax_b",
    )
)
"""The names of TensorFlow's PTB tutorial."""


def _plain(name: str) -> str:
    """A variable's name without the number of its output, which var.name has."""
    return name.removesuffix(":0")


def _kernels(names: Mapping[str, Any]) -> list[re.Match[str]]:
    kinds = "|".join(VARIABLES)
    found = (re.fullmatch(rf"{CELL}/(?P<kind>{kinds})", _plain(name)) for name in names)
    return [match for match in found if match]


def _fits(shapes: Shapes) -> bool:
    return bool(_kernels(shapes))


def _ending(names: Mapping[str, Any], ends: str) -> str | None:
    """The one variable whose path ends so."""
    found = [name for name in names if name == ends or name.endswith(f"/{ends}")]
    if len(found) > 1:
        raise UnknownConfiguration(
            f"{listed(found, 'and')} could each be the {ends}; expected one model in a file"
        )
    return found[0] if found else None


def _read(arrays: dict[str, Array], said: Mapping[str, Any]) -> Reading:
    arrays = {_plain(name): a for name, a in arrays.items()}
    arrays = {name: a for name, a in arrays.items() if not re.fullmatch(TRAINING, name)}
    for pattern, what in UNKNOWN.items():
        if found := [name for name in arrays if re.search(pattern, name)]:
            raise UnknownConfiguration(f"{found[0]}: the cell has {what}; the lstm here has none")
    cells = _kernels(arrays)
    patterns = {re.sub(r"cell_\d+/", "cell_{l}/", literal(match.group())) for match in cells}
    if len(patterns) > 1:
        raise UnknownConfiguration(
            f"there are several stacks of cells, {listed(sorted(patterns), 'and')}; expected one"
        )
    (kernel,), kind = patterns, cells[0]["kind"]
    bias = kernel.removesuffix(kind) + VARIABLES[kind]
    compatible = cells[0]["cell"] == COMPATIBLE
    if not compatible:
        LAYOUT.require(said, "forget_bias")
    forget = said.get("forget_bias", 0)
    if type(forget) not in (int, float) or not math.isfinite(forget) or (compatible and forget):
        raise UnknownConfiguration(
            f"forget_bias must be {'0 with ' + COMPATIBLE if compatible else 'a number'}; "
            f"got {forget!r}"
        )
    count = layers(arrays, r".*cell_(\d+)/\w*lstm_cell/") or 1
    embedding = _ending(arrays, "embedding") or _ending(arrays, "embeddings")
    if embedding is None:
        raise CheckpointMismatch("missing: a variable called embedding, words x embedding")
    words, width = sizes(arrays, embedding, 2)
    hidden = sizes(arrays, kernel.format(l=0), 2)[1] // 4
    output, output_bias = _output(arrays)
    for name in (bias.format(l=l) for l in range(count)):
        if name in arrays and arrays[name].shape == (4 * hidden,):
            added = np.zeros(4 * hidden, arrays[name].dtype)
            added[2 * hidden : 3 * hidden] = forget
            arrays[name] = arrays[name] + added
    settings = {
        "vocabulary": words,
        "embedding": width,
        "hidden": hidden,
        "layers": count,
        "tied": output not in arrays,
        "output_bias": output_bias in arrays,
    }
    names = map(literal, (output, output_bias))
    rows = _rows(literal(embedding), kernel, bias, *names)
    return Reading("lstm", settings, arrays, Dialect(lambda config: rows))


def _output(arrays: Mapping[str, Array]) -> tuple[str, str]:
    """The names of the output's weights and biases; tied, it has biases alone."""
    for weight, bias in OUTPUTS.items():
        found = _ending(arrays, weight) or _ending(arrays, bias)
        if found:
            scope = found.removesuffix(weight).removesuffix(bias)
            return scope + weight, scope + bias
    raise CheckpointMismatch("missing: softmax_w, hidden x words, or softmax_b of a tied output")


LAYOUT = Layout(
    "a language model of TensorFlow's LSTM cells",
    _fits,
    {
        "forget_bias": Setting(
            "what the program adds to the forget gate: TensorFlow's default is 1.0, "
            "ptb_word_lm.py has 0.0",
            1.0,
        )
    },
    _read,
)

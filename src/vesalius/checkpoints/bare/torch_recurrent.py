"""Language models of ``torch.nn.LSTM`` and ``torch.nn.RNN``: an embedding, layers, an output.

The names of the three are the author's: PyTorch's word_language_model says encoder, rnn, decoder.
PyTorch has two biases that are only ever added; here they are one.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from vesalius.checkpoints.bare.reading import (
    Layout,
    Reading,
    Setting,
    Shapes,
    choice,
    layers,
    literal,
)
from vesalius.checkpoints.bare.reading import sizes as sizes_of
from vesalius.checkpoints.libraries import Dialect
from vesalius.checkpoints.tables import Row, Transform
from vesalius.equations.parameters import Array
from vesalius.errors import CheckpointMismatch, UnknownConfiguration, listed

FIRST = "weight_ih_l0"
KINDS = {4: "lstm", 3: "nn.GRU", 1: "rnn"}
"""What a layer is, by how many times its width the rows of a weight are."""
EMBEDDINGS = r"(word_|token_|tok_)?(encoder|emb|embed|embeds|embedding|embeddings)|wte"
OUTPUTS = r"(lm_)?(decoder|fc\d*|linear\d*|out|output|head|proj|projection|hidden2\w+)"


def _rows(names: Mapping[str, str]) -> list[Row]:
    embedding, rnn, output = (literal(names[part]) for part in ("embedding", "rnn", "output"))
    summed = f"plus `{rnn}bias_hh_l{{l}}`"
    return [
        Row("embedding.weight", f"{embedding}.weight"),
        Row("layers.{l}.input.weight", f"{rnn}weight_ih_l{{l}}"),
        Row("layers.{l}.recurrent.weight", f"{rnn}weight_hh_l{{l}}"),
        Row(
            "layers.{l}.input.bias",
            f"{rnn}bias_ih_l{{l}}",
            Transform(summed, lambda a: a, lambda a: a),
        ),
        Row("output.weight", f"{output}.weight"),
        Row("output_bias", f"{output}.bias"),
    ]


EXAMPLE = {"embedding": "encoder", "rnn": "rnn.", "output": "decoder"}
DIALECT = Dialect(lambda config: _rows(EXAMPLE))
"""The names of PyTorch's word_language_model."""


def _fits(shapes: Shapes) -> bool:
    """Layers, and something beside them: layers alone are no language model."""
    inner = (re.fullmatch(r"(.*\.)?(weight|bias)_(ih|hh|hr)_l\d+(_reverse)?", n) for n in shapes)
    return any(name.rpartition(".")[2] == FIRST for name in shapes) and not all(inner)


def _read(arrays: dict[str, Array], said: Mapping[str, Any]) -> Reading:
    prefix, family, hidden = _layers(arrays)
    inner = rf"{re.escape(prefix)}(weight|bias)_(ih|hh)_l\d+"
    outer = [name for name in arrays if not re.fullmatch(inner, name)]
    embedding = _named(outer, EMBEDDINGS, "embedding", "embedding or encoder")
    words, width = sizes_of(arrays, f"{embedding}.weight", 2)
    output = _named(outer, OUTPUTS, "output", "decoder, fc, linear, output or head", need=False)
    if not output and not choice({"tied": False, **said}, "tied", (True, False)):
        raise UnknownConfiguration(
            "there is no output layer: expected decoder.weight (or fc, linear, output, head). If "
            "the output is the embedding, say so: --set tied=true (settings in Python)"
        )
    weight, bias = f"{output}.weight", f"{output}.bias"
    tied = weight not in arrays or np.array_equal(arrays[weight], arrays[f"{embedding}.weight"])
    count = layers(arrays, rf"{re.escape(prefix)}(?:weight|bias)_[ih]h_l(\d+)")
    settings: dict[str, Any] = {
        "vocabulary": words,
        "embedding": width,
        "hidden": hidden,
        "layers": count,
        "tied": tied,
        "output_bias": bias in arrays,
    }
    if family == "rnn":
        LAYOUT.require(said, "activation")
        settings["activation"] = choice(said, "activation", ("tanh", "relu"))
    elif said.get("activation", "tanh") != "tanh":
        raise UnknownConfiguration(
            f"activation = {said['activation']!r}, but the weights are of an nn.LSTM, which has "
            f"tanh and nothing else"
        )
    _add_biases(arrays, prefix, count)
    rows = _rows({"embedding": embedding, "rnn": prefix, "output": output or "output"})
    return Reading(
        family,
        settings,
        arrays,
        Dialect(lambda config: rows, {weight: f"{embedding}.weight"} if tied else {}),
    )


def _layers(arrays: Mapping[str, Array]) -> tuple[str, str, int]:
    """The prefix of the recurrent layers, their family, and how wide they are."""
    prefixes = [name.removesuffix(FIRST) for name in arrays if name.rpartition(".")[2] == FIRST]
    if len(prefixes) > 1:
        raise UnknownConfiguration(
            f"there are {len(prefixes)} recurrent networks, {listed(map(repr, prefixes), 'and')}; "
            f"expected one"
        )
    prefix = prefixes[0]
    own = [name for name in arrays if name.startswith(prefix)]
    if found := [name for name in own if name.endswith("_reverse")]:
        raise UnknownConfiguration(
            f"{found[0]}: the network is bidirectional; a language model here reads forwards only"
        )
    if found := [name for name in own if name.startswith(f"{prefix}weight_hr_l")]:
        raise UnknownConfiguration(
            f"{found[0]}: the network has proj_size, a projection of its state; the lstm here "
            f"would need a matrix for it"
        )
    rows, (_, hidden) = (
        sizes_of(arrays, f"{prefix}{FIRST}", 2)[0],
        sizes_of(arrays, f"{prefix}weight_hh_l0", 2),
    )
    kind = KINDS.get(rows // hidden) if rows % hidden == 0 else None
    if kind is None:
        raise CheckpointMismatch(
            f"misshapen: {prefix}{FIRST} has {rows} rows, {prefix}weight_hh_l0 {hidden} columns; "
            f"expected 4 times as many of an nn.LSTM, as many of an nn.RNN"
        )
    if kind == "nn.GRU":
        raise UnknownConfiguration(
            f"{prefix}{FIRST} has three gates: the network is an nn.GRU, which is no family here; "
            f"examples/gru shows how to add it"
        )
    return prefix, kind, hidden


def _named(
    names: Collection[str], pattern: str, what: str, expected: str, need: bool = True
) -> str:
    """The one module whose name says what it is."""
    modules = {name.rpartition(".")[0] for name in names}
    found = sorted(m for m in modules if re.fullmatch(rf"(.*\.)?({pattern})", m))
    if len(found) > 1:
        raise UnknownConfiguration(
            f"{listed(found, 'and')} could each be the {what}; expected one of such a name"
        )
    if need and not found:
        there = ", ".join(sorted(modules - {""})) or "none"
        raise UnknownConfiguration(
            f"there is no {what}: expected a layer called {expected}; there are {there}"
        )
    return found[0] if found else ""


def _add_biases(arrays: dict[str, Array], prefix: str, count: int) -> None:
    """One bias for every layer: the sum of both, or zeros where the network has none."""
    pairs = {l: tuple(f"{prefix}bias_{kind}_l{l}" for kind in ("ih", "hh")) for l in range(count)}
    some = any(name in arrays for pair in pairs.values() for name in pair)
    for l, (first, second) in pairs.items():
        if not some:
            weight = arrays.get(f"{prefix}weight_ih_l{l}", np.empty(0))
            arrays[first] = np.zeros(weight.shape[:1], weight.dtype)
            continue
        if missing := [name for name in (first, second) if name not in arrays]:
            raise CheckpointMismatch(f"missing: {', '.join(missing)}; the others have biases")
        if arrays[first].shape != arrays[second].shape:
            raise CheckpointMismatch(
                f"misshapen: {first} is {arrays[first].shape}, {second} {arrays[second].shape}; "
                f"expected the same shape"
            )
        with np.errstate(over="ignore", invalid="ignore"):  # whoever reads them says what is wrong
            arrays[first] = arrays[first] + arrays.pop(second)


LAYOUT = Layout(
    "a language model of torch.nn.LSTM or torch.nn.RNN",
    _fits,
    {
        "activation": Setting("tanh or relu, the nonlinearity of an nn.RNN", "tanh"),
        "tied": Setting("whether the output is the embedding, where no weight says so", True),
    },
    _read,
    {"nonlinearity": "activation"},
)

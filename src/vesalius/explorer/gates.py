"""The room of gates: the units of a recurrent layer as ribbons over time, and one of them closely.

All numbers are those of ``analyses.gates``, ``unfold`` and runs with cuts.
"""

from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from fastapi import FastAPI, Request

from vesalius import equations as eq
from vesalius.analyses.gates import SHARES, Gates, gates
from vesalius.analyses.unfolding import unfold
from vesalius.equations.parameters import Array
from vesalius.errors import WrongLength
from vesalius.explorer import results
from vesalius.explorer.answers import as_bytes, as_json, at_work, once
from vesalius.explorer.runs import Run, Runs

EQUATIONS = {"p": 45, "k": 45, "q": 44, "r": 46, "d": 46, "c": 47, "s": 48, "h": 48}
"""The equations of an LSTM's symbols; those of an Elman layer are all of (41)."""
SUMMANDS = {"Uh": "from the token before", "Wh": "from below, with the bias"}
"""What the parts of an Elman layer's state are, which are no symbols of (41)."""
QUANTILE = 0.995
"""Of the sizes, which has the deepest colour."""
TOGETHER = 32
"""Units whose effects are asked for at once."""
Order = Literal["index", "hold", "similarity"]


def routes(app: FastAPI, runs: Runs) -> None:
    @app.get("/api/runs/{key}/gates")
    def layer(key: str, layer: int) -> Any:
        run = runs[key]
        return as_json(once(run, ("gates", layer, "told"), lambda: told(run, layer)))

    @app.get("/api/runs/{key}/gates.ribbons")
    def ribbons(
        request: Request,
        key: str,
        layer: int,
        order: Order = "index",
        rows: int = 64,
        symbol: str | None = None,
    ) -> Any:
        def made() -> tuple[bytes, dict[str, str]]:
            found = gates_of(runs[key], layer)
            symbols = list(found.values) if symbol is None else [symbol]
            values, units = drawn(found, symbols, order, min(max(rows, 1), 1024))
            about = {"x-shape": ",".join(map(str, values.shape)), "x-dtype": "float32,int32"}
            return values.astype("<f4").tobytes() + units.astype("<i4").tobytes(), about

        return as_bytes(request, f"{key}/gates/{layer}/{order}/{rows}/{symbol}", made)

    @app.get("/api/runs/{key}/gates/on")
    def on(key: str, layer: int, symbol: str, first: int, last: int) -> Any:
        found = gates_of(runs[key], layer).on(symbol, first, last)
        return as_json([{"unit": unit, "least": least} for unit, least in found])

    @app.get("/api/runs/{key}/gates/unit")
    def unit(key: str, layer: int, unit: int, position: int) -> Any:
        return as_json(one(runs[key], layer, unit, position))

    @app.get("/api/runs/{key}/gates/effects")
    def effects(
        key: str, layer: int, first: int, word: int | None = None, position: int | None = None
    ) -> Any:
        run, found = runs[key], gates_of(runs[key], layer)
        names = [held(found, unit) for unit in range(first, min(first + TOGETHER, found.units))]
        return as_json([_effect(run, name, word, position) for name in names])


def gates_of(run: Run, layer: int) -> Gates:
    found: Gates = once(run, ("gates", layer), lambda: gates(run.trace, layer))
    return found


def held(found: Gates, unit: int) -> str:
    """The cut that holds a unit at zero, at all tokens."""
    return f"{found.memory}[{found.layer},*]({unit})"


def _effect(run: Run, name: str, word: int | None, position: int | None) -> float:
    """What the target's probability would be with the unit held at zero as well."""
    make = partial(results.effect, name=name, word=word, position=position)
    found = at_work(run, ("cut", name, word, position), make)  # others may ask in between
    return float(found["probability"])


def told(run: Run, layer: int) -> dict[str, Any]:
    """The symbols with their scales, and the units in each order."""
    found = gates_of(run, layer)
    symbols = []
    for symbol, values in found.values.items():
        number = EQUATIONS[symbol] if found.memory == "c" else 41
        share = symbol in SHARES
        sizes = np.abs(values)
        limit = 1.0 if share else float(np.quantile(sizes, QUANTILE)) or 1.0
        about = {"what": _what(symbol, number), "equation": str(number)}
        scale = {"share": share, "limit": limit, "most": float(sizes.max())}
        symbols.append({"symbol": symbol, **about, **scale})
    return {**found.to_json(), "layers": run.trace.graph.layers, "symbols": symbols}


def _what(symbol: str, number: int) -> str:
    """What a symbol is, as other works call it where they do."""
    if symbol in SUMMANDS:
        return SUMMANDS[symbol]
    known = next(one for one in eq.find(number).symbols if one.name == symbol)
    return known.known_as or known.meaning


def drawn(found: Gates, symbols: list[str], order: Order, most: int) -> tuple[Array, Array]:
    """Symbols x rows x tokens: a row a unit, or of several the value with the largest size.

    And of each the unit that it is of.
    """
    units = np.array(found.order(order))
    rows = min(most, len(units))
    starts = [k * len(units) // rows for k in range(rows + 1)]
    values = np.array([found[symbol][units] for symbol in symbols], dtype=np.float32)
    largest = [np.abs(values[:, a:b]).argmax(axis=1) + a for a, b in pairwise(starts)]
    at = np.stack(largest, axis=1)
    return np.take_along_axis(values, at, axis=1), units[at]


def one(run: Run, layer: int, unit: int, position: int) -> dict[str, Any]:
    """One unit: its course over time, the numbers of its equation, and where they were written."""
    found = gates_of(run, layer)
    if not 0 <= unit < found.units or not 0 <= position < len(found.tokens):
        raise WrongLength(
            f"expected a unit below {found.units} and a token below {len(found.tokens)}; "
            f"got {unit} and {position}"
        )
    lines = {symbol: values[unit].tolist() for symbol, values in found.values.items()}
    made = {"c": ("k", "d", "c", "h"), "h": ("h",)}[found.memory]
    steps = [f"{symbol}[{layer},{position + 1}]" for symbol in made]
    written = found.written(unit, position) if found.memory == "c" else None
    return {
        "layer": layer,
        "unit": unit,
        "position": position,
        "lines": lines,
        "unfolded": [unfold(run.trace, step, unit).to_json() for step in steps],
        "written": None if written is None else {**written.to_json(), "ranked": written.ranked()},
        "held": held(found, unit),
    }

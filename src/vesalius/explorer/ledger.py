"""The ledger: what a configuration counts and costs, told as a tree, with settings to change.

The numbers are those of ``vs.count`` and ``vs.cost``; here they get formulas in LaTeX, the arrays
of every part, and the rungs that a slider climbs.
"""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse

from vesalius.counting import Cost, Count, Row, cost, count
from vesalius.errors import ImpossibleSetting
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.results import told
from vesalius.families import family_of, shapes
from vesalius.families.config import Config, Setting
from vesalius.families.typesetting import symbol, total, typeset

LARGEST = 10**9
"""Of a setting: beyond it no browser's numbers are whole."""
FASTER = 16
"""How many times its own value a slider goes to."""
LEFT_OUT = ("epsilon", "dropout")
"""Settings that change no count and no cost."""
PATHS = {"Γ": "Gamma", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Φ": "Phi"}
MARKS = {"₁": "_1", "₂": "_2", "ₑ": "_e", "ₘ": "_m", "ᵖ": "_p", "ˢ": "_s", "ᶜ": "_C", "ᴹ": "_M"}
MARKS |= {"ᴺ": "_N", "ʸ": "_Y", "ᴿ": "_R", "ᴱ": "_E"}
BUFFERS = ("mean", "variance")
"""What a batch normalisation keeps and does not train."""


def ledger(config: Config, changes: Mapping[str, Setting], length: int | None, batch: int) -> Any:
    """Counts, costs and settings of a configuration with some of its settings changed."""
    changed = config.change(**changes)
    for name, value in changed.to_json().items():
        if isinstance(value, int) and value >= LARGEST:
            raise ImpossibleSetting(f"{name} must be below {LARGEST:,} here, got {value:,}")
    counted, costs = count(changed), cost(changed, length, batch)
    family = family_of(changed)
    return {
        "family": family.name,
        "title": family.title,
        "sections": family.sections,
        "settings": [_setting(config, changed, one) for one in changed.described()],
        "sizes": [
            {"name": name, "source": size.source, "settings": _size(config, size.settings)}
            for name, size in family.sizes.items()
        ],
        "total": counted.total,
        "formula": total(counted.formula),
        "bytes": counted.bytes,
        "also": counted.also,
        "parts": _tree(counted, changed),
        "cost": _cost(costs, changed),
    }


def _size(config: Config, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """All settings of a published size that differ from this model's."""
    own, theirs = config.to_json(), type(config)().change(**settings).to_json()
    return {name: value for name, value in theirs.items() if value != own[name]}


def _setting(config: Config, changed: Config, about: dict[str, Any]) -> dict[str, Any]:
    """A setting, how it is changed, and what it was."""
    name, rule = about["name"], config.settings()[about["name"]]
    own, value = getattr(config, name), getattr(changed, name)
    symbols = {"key": "d_k", "value": "d_v", "feedforward": "d_f", "hidden": "d_o"}
    follows = changed.symbols().get(symbols.get(name, "")) if value is None else None
    kind = "left out" if name in LEFT_OUT else _kind(about["choices"], value, follows)
    return {
        **about,
        "own": own,
        "kind": kind,
        "follows": follows,
        "optional": value is None or own is None,
        "least": rule["least"],
        "rungs": _rungs(int(rule["least"]), own or follows or 1) if kind == "number" else [],
    }


def _kind(choices: Any, value: Setting, follows: int | None) -> str:
    if choices is not None:
        return "choice"
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, int) or follows is not None else "left out"


def _rungs(least: int, own: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, … up to some times the model's own value, which is among them."""
    ladder = sorted({2**k for k in range(30)} | {3 * 2**k for k in range(29)})
    most = max(64, FASTER * own)
    return sorted({own, *(rung for rung in ladder if least <= rung <= most)})


# The tree --------------------------------------------------------------------


def _tree(counted: Count, config: Config) -> list[dict[str, Any]]:
    """The rows of a count, each with those below it."""
    symbols = config.symbols()
    arrays = _arrays(config)
    found: list[dict[str, Any]] = []
    above: list[dict[str, Any]] = []  # the part of each depth that the next row may belong to
    for row in counted.rows:
        del above[row.depth :]
        parent = above[-1] if above else None
        part = _part(row, parent, symbols)
        (found if parent is None else parent["parts"]).append(part)
        above.append(part)
    for part in _leaves(found):
        part["arrays"] = _own_arrays(part, arrays, symbols)
    return found


def _part(row: Row, parent: dict[str, Any] | None, symbols: Mapping[str, Any]) -> dict[str, Any]:
    sum_of_parts = not row.numbers
    name = row.symbol or row.name
    return {
        "path": f"{parent['path']}/{name}" if parent else name,
        "symbol": row.symbol,
        "latex": symbol(row.symbol) if row.symbol else "",
        "name": row.name,
        "kind": _kind_of(row.symbol, row.name),
        "formula": total(row.formula) if sum_of_parts else typeset(row.formula),
        "numbers": "" if sum_of_parts else typeset(row.formula, symbols),
        "count": row.count,
        "times": row.times,
        "each": row.times // (parent["times"] if parent else 1),
        "share": row.share,
        "arrays": [],
        "parts": [],
    }


def _kind_of(symbol: str, name: str) -> str:
    """What a part does, which is its colour."""
    kinds = {"Λ": "position", "Γ": "attention", "Ξ": "normalisation", "Φ": "layer"}
    if symbol[:1] in kinds:
        return kinds[symbol[:1]]
    if symbol.startswith(("Π[", "Φ[")):
        return "layer"
    inward = symbol in ("E", "bₑ", "x_class", "x_mask")
    return "embedding" if inward else "output" if symbol or "head" in name else "layer"


def _leaves(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        leaf for part in parts for leaf in (_leaves(part["parts"]) if part["parts"] else [part])
    ]


def _arrays(config: Config) -> dict[str, tuple[int, ...]]:
    """Every array of the first two layers; the others are like the second."""
    layers = getattr(config, "layers", None)
    return shapes(config if layers is None else config.change(layers=min(2, layers)))


def _own_arrays(
    part: dict[str, Any], arrays: Mapping[str, tuple[int, ...]], symbols: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The arrays that a part is made of: those of its first head stand for all heads."""
    place = _place(part["symbol"], min(2, int(symbols.get("L", 1))))
    found = []
    for name, shape in arrays.items():
        if name != place and not name.startswith(f"{place}."):
            continue
        letter = name.rpartition(".")[2]
        head = re.search(r"\bPsi\[(\d+)\]", name)
        if letter in BUFFERS or (head and head[1] != "1"):
            continue
        found.append(
            {
                "name": letter,
                "latex": _letter(letter),
                "shape": list(shape),
                "times": symbols["M"] if head else 1,
                "count": prod(shape),
                "kind": "bias" if letter.startswith("b") else "parameter",
            }
        )
    return found


def _place(symbol: str, layer: int) -> str:
    """Where the arrays of ``Ξ₁[l]`` are: ``Phi[2].Xi_1``."""
    base, bracket, index = symbol.rstrip("]").partition("[")
    name = "".join(PATHS.get(c) or MARKS.get(c) or c for c in base)
    if not bracket:
        return name
    within = f"Phi[{index if index.isdecimal() else layer}]"
    return within if name == "Phi" else f"{within}.{name}"


def _letter(name: str) -> str:
    """``W_Q`` as the paper writes it: indices of matrices stand above, numbers below."""
    base, _, index = name.partition("_")
    greek = {"alpha": r"\alpha", "beta": r"\beta", "Lambda": r"\Lambda"}
    letter = greek.get(base, base)
    if not index:
        return letter
    word = rf"\mathrm{{{index}}}" if len(index) > 1 else index
    return f"{letter}^{{{word}}}" if index.isupper() else f"{letter}_{{{word}}}"


# Costs -----------------------------------------------------------------------


def _cost(found: Cost, config: Config) -> dict[str, Any]:
    """Operations and memory; the KV cache of all tokens and sequences too."""
    family = family_of(config)
    told_of = found.to_json()
    for row, entry in zip(found.rows, told_of["equations"], strict=True):
        entry["latex"] = "" if row.formula == "0" else typeset(row.formula)
    longest = config.symbols().get("n")
    state = None
    if found.decode_state is not None:
        name, size = found.decode_state
        tokens = 1 if family.carries_state else found.length
        state = {"name": name, "one": size, "all": size * tokens * found.batch}
    return {
        **told_of,
        "longest": longest,
        "fixed": family.fixed_length(config),
        "lengths": _rungs(1, max(1024, found.length) if config.unlimited else int(longest or 1)),
        "unlimited": config.unlimited,
        "decode_state": state,
    }


def routes(app: FastAPI, catalogue: Catalogue) -> None:
    """``GET /api/models/ID/ledger``, with settings as ``vesalius count --set`` takes them."""

    @app.get("/api/models/{key}/ledger")
    def told_ledger(
        key: str,
        changes: Annotated[list[str] | None, Query(alias="set", max_length=64)] = None,
        length: int | None = None,
        batch: int = 1,
    ) -> Any:
        with catalogue[key].at_work() as model:
            config = model.config
        for change in changes or ():
            if "=" not in change:
                raise ImpossibleSetting(f"a change is NAME=VALUE, as in heads=8; got {change!r}")
        pairs = (change.split("=", 1) for change in changes or ())
        read = {name: config.read(name, value[:100]) for name, value in pairs}
        if batch >= LARGEST or (length or 0) >= LARGEST:
            raise ImpossibleSetting(f"length and batch must be below {LARGEST:,}")
        return JSONResponse(told(ledger(config, read, length, batch)))

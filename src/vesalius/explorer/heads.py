"""The room of heads: what each does, and the scores of all of them in one small picture.

Measures are those of ``analyses.heads``; what cutting a head gives is told by the run's ``cuts``.
"""

from math import isqrt
from typing import Any, Literal

import numpy as np
from fastapi import FastAPI, Request

from vesalius.analyses.alignment import Alignment
from vesalius.analyses.heads import MEANINGS, SHARES, heads_of
from vesalius.equations import Step
from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind
from vesalius.explorer.answers import as_bytes, as_json, once
from vesalius.explorer.runs import Run, Runs

BYTES = 600_000
"""Of the picture of all heads."""
SIDE = 64
"""Pixels of a head at most."""
By = Literal["maximum", "mean"]


def routes(app: FastAPI, runs: Runs) -> None:
    @app.get("/api/runs/{key}/heads")
    def measures(key: str) -> Any:
        run = runs[key]
        return as_json(once(run, ("heads",), lambda: told(run)))

    @app.get("/api/runs/{key}/heads.sprite")
    def sprite(request: Request, key: str, by: By = "maximum") -> Any:
        run = runs[key]

        def made() -> tuple[bytes, dict[str, str]]:
            found, bin_ = once(run, ("sprite", by), lambda: picture(run, by))
            shape = ",".join(map(str, found.shape))
            about = {"x-shape": shape, "x-bin": str(bin_), "x-dtype": "uint8", "x-scale": "sqrt"}
            return found.tobytes(), about

        return as_bytes(request, f"{key}/heads/{by}", made)


def told(run: Run) -> dict[str, Any]:
    """Every head with its measures, in the order of layers."""
    found = heads_of(run.trace)
    layers, heads = found.table["entropy"].shape
    return {
        "layers": layers,
        "heads": heads,
        "measures": [
            {"name": name, "title": MEANINGS[name][0], "meaning": MEANINGS[name][1]}
            | {"share": name in SHARES, "queries": found.queries.get(name)}
            for name in found.table
        ],
        "table": sorted(
            ({**head.to_json(), "name": head.name} for head in found.sorted_by("entropy")),
            key=lambda head: (head["layer"], head["head"]),
        ),
    }


def picture(run: Run, by: By) -> tuple[Array, int]:
    """The scores of all heads in bytes, layers x heads x queries x keys, and the tokens of a pixel.

    A byte is 255 times the root of a score. In long texts a pixel stands for some queries and
    keys: their largest score, or their mean, which alone would hide a few high ones.
    """
    scores = [step for step in run.trace.steps if step.symbol == "mu"]
    if not scores:
        raise WrongKind(f"{run.trace.family} has no attention heads to draw")
    n = len(scores[0].value)
    side = min(SIDE, max(1, isqrt(BYTES // len(scores))))
    bin_ = -(-n // side)
    found = [shrunk(np.asarray(step.value), bin_, by) for step in scores]
    drawn = np.rint(255 * np.sqrt(np.clip(found, 0, 1))).astype(np.uint8)
    layers = max(step.place["layer"] for step in scores)
    return drawn.reshape(layers, -1, *drawn.shape[1:]), bin_


def signed_picture(a: Run, b: Run, by: By) -> tuple[Array, int]:
    """b minus a of the scores of all heads in bytes, and the tokens of a pixel.

    128 is none, one more or less 127 times the root of the difference. Queries and keys without a
    counterpart are 0. A pixel of several is the largest difference by size, or the mean.
    """
    both = Alignment(a.trace, b.trace)
    scores = [step for step in a.trace.steps if step.symbol == "mu"]
    if not scores:
        raise WrongKind(f"{a.trace.family} has no attention heads to draw")
    side = min(SIDE, max(1, isqrt(BYTES // len(scores))))
    bin_ = -(-len(scores[0].value) // side)
    drawn = np.array([_signed(both, step, bin_, by) for step in scores])
    layers = max(step.place["layer"] for step in scores)
    return drawn.reshape(layers, -1, *drawn.shape[1:]), bin_


def _signed(both: Alignment, step: Step, bin_: int, by: By) -> Array:
    found = both.difference(step)
    change = np.full(step.shape, np.nan) if found is None else np.asarray(found)
    known = np.isfinite(change)
    least, most = (shrunk(np.where(known, sign * change, 0), bin_, by) for sign in (-1, 1))
    far = np.where(most >= least, most, -least) if by == "maximum" else most
    far = np.sign(far) * np.sqrt(np.clip(np.abs(far), 0, 1))
    told = shrunk(known.astype(np.float64), bin_, "maximum") > 0
    return np.where(told, np.rint(128 + 127 * far), 0).astype(np.uint8)


def shrunk(values: Array, bin_: int, by: By) -> Array:
    """Squares of values as one number each; those at the end may be smaller."""
    if bin_ == 1:
        return values
    starts = np.arange(0, len(values), bin_)
    if by == "maximum":
        return np.maximum.reduceat(np.maximum.reduceat(values, starts, axis=0), starts, axis=1)
    sums = np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1)
    wide = np.diff([*starts, len(values)])
    return np.asarray(sums / np.outer(wide, wide))

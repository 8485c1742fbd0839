"""What the page is told of the input beside its tokens: segments, masks, pictures, series."""

from typing import Any

import numpy as np

from vesalius.equations import cut_patches, softmax
from vesalius.explorer.reading import maskable
from vesalius.explorer.runs import Run
from vesalius.families import family_of
from vesalius.model import Model


def told(run: Run, here: int) -> dict[str, Any]:
    """The input of a run; ``here`` is the token that the page stands at."""
    trace, read = run.trace, run.what
    assert trace.model is not None
    return {
        "python": read.python,
        "command": read.command,
        "second": read.second,
        "segments": list(trace.graph.segments or []),
        "within": _within(run),
        "masks": list(read.masks),
        "behind": {place: _name(run, token) for place, token in read.hidden.items()},
        "hidden": _hidden(run, here),
        "follows": _follows(run),
        "label": read.label,
        "source": read.source,
        "files": read.of,
        "prepared": read.prepared,
        "hint": read.hint,
        "input": _seen(run),
    }


def _within(run: Run) -> dict[int, str]:
    """The letters that tokens are only some of the bytes of, by place."""
    tokenizer = run.trace.model.tokenizer if run.trace.model else None
    if tokenizer is None or not tokenizer.byte_level:
        return {}
    found: dict[int, str] = {}
    begun, first = b"", 0
    for place, token in enumerate(run.trace.ids):
        first = first if begun else place
        begun += tokenizer.bytes_of(token)
        try:
            letters = begun.decode()
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                begun = b""  # bytes of no letter
            continue
        if place > first:
            found |= dict.fromkeys(range(first, place + 1), letters)
        begun = b""
    return found


def _hidden(run: Run, here: int) -> dict[str, Any] | None:
    """The token behind the mask that the page stands at, and how likely the model has it."""
    token = run.what.hidden.get(here)
    if token is None or "Y_hat" not in run.trace:
        return None
    odds = run.trace["Y_hat"][:, here].astype(np.float64)
    rank = 1 + int((odds > odds[token]).sum())
    likely = float(odds[token])
    return {"id": token, "token": _name(run, token), "probability": likely, "rank": rank}


def _name(run: Run, token: int) -> str:
    tokenizer = run.trace.model.tokenizer if run.trace.model else None
    return tokenizer.piece(token) if tokenizer else str(token)


def _follows(run: Run) -> float | None:
    """Of a pair: the probability that the second text follows the first, by (58)."""
    if run.trace.graph.segments is None or "z_C" not in run.trace:
        return None
    return float(softmax(run.trace["z_C"].astype(np.float64))[0])


def _seen(run: Run) -> dict[str, Any] | None:
    """How tokens lie in a picture or a series; None of a text."""
    model = run.trace.model
    assert model is not None
    reads, symbols = family_of(model.config).reads, model.config.symbols()
    if reads == "series":
        given = run.trace.graph.given
        assert given is not None
        sizes = {"kind": "series", "channels": len(given), "time": int(given.shape[1])}
        spans, overlap = _spans(model), symbols.get("P", 1) / symbols.get("s", 1)
        return {
            **sizes,
            "real": len(spans) or sizes["time"],
            "names": channels(model),
            "spans": spans,
            "overlap": max(1.0, overlap),
        }
    if reads == "images":
        across = round((symbols["n"] - 1) ** 0.5)
        return {"kind": "patches", "across": across, "first": 1, "restores": bool(run.what.masks)}
    if reads == "pixels" and run.what.whole:
        side = round(len(run.what.whole) ** 0.5)
        causal = not maskable(model)
        return {
            "kind": "pixels",
            "across": side,
            "first": int(causal),
            "levels": symbols["V"] - 1,
            "restores": causal or bool(run.what.masks),
        }
    return None


def channels(model: Model) -> list[str]:
    """What channels are called that are each read for itself; none of other models."""
    if not family_of(model.config).by_channel:
        return []
    count = model.config.symbols()["C"]
    known = model.preprocessing.channels or []
    return [str(name) for name in known] or [f"channel {c}" for c in range(1, count + 1)]


def _spans(model: Model) -> list[tuple[int, int, int, int, str]]:
    """Of each patch its channel, first time step, how many, number in its channel, and name."""
    names, s = channels(model), model.config.symbols()
    if not names:
        return []
    cut = cut_patches(np.arange(float(s["tau"]))[None], s["P"], s["s"], s["pad"]).astype(int)
    found = []
    for c, name in enumerate(names):
        for number, (first, last) in enumerate(zip(cut[0], cut[-1], strict=True), 1):
            first, last = int(first), int(last)
            times = last - first + 1
            said = f"patch {number} of {name}, times {first + 1} to {last + 1}"
            said += ", the last repeated" if times < s["P"] else ""
            found.append((c, first, times, number, said))
    return found

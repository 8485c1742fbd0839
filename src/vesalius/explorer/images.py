"""Pictures for the page, as PNG: what a model read, and what it restores of it."""

import io
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind
from vesalius.explorer.runs import Run
from vesalius.families import family_of
from vesalius.generation.decoding import generate
from vesalius.model import Model

DRAWING = Lock()
"""Pictures are drawn one at a time, apart from other work: no number of a page waits for one."""


def png(pixels: Array) -> bytes:
    """Bytes, height x width, or height x width x 2, 3 or 4 channels, as a file."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(written, "PNG")
    return written.getvalue()


def read(run: Run) -> bytes:
    """The picture as the model read it; what it was not given is transparent."""
    model = _model(run)
    if family_of(model.config).reads == "images":
        assert run.trace.graph.given is not None
        return png(_unscaled(model, run.trace.graph.given))
    _require_pixels(run)
    causal = model.config.causal
    known = len(run.trace.ids) - 1 if causal else len(run.what.whole)
    shown = [place < known and place not in run.what.masks for place in _places(run)]
    return png(_greys(run, run.what.whole, shown))


def restored(run: Run, seed: int, temperature: float) -> bytes:
    """The picture with what the model puts where it was given nothing."""
    model = _model(run)
    if family_of(model.config).reads == "images":
        return png(_patches(run, model))
    _require_pixels(run)
    if model.config.causal:
        with DRAWING:
            made = generate(model, run.trace.ids, seed=seed, temperature=temperature).ids
        pixels = [*run.trace.ids[1:], *made]
    else:
        best = run.trace["Y_hat"].argmax(axis=0)
        pixels = [int(best[i]) if i in run.what.masks else p for i, p in enumerate(run.trace.ids)]
    return png(_greys(run, pixels, [True] * len(pixels)))


def _model(run: Run) -> Model:
    assert run.trace.model is not None
    return run.trace.model


def _require_pixels(run: Run) -> None:
    if not run.what.whole:
        raise WrongKind(f"this run of {run.trace.family} is of no picture")


def _places(run: Run) -> range:
    return range(len(run.what.whole))


def _greys(run: Run, pixels: Sequence[int], shown: Sequence[bool]) -> Array:
    """Colours of a model of pixels as grey and opacity, in a square."""
    levels = _model(run).config.symbols()["V"] - 1
    side = round(len(run.what.whole) ** 0.5)
    shares = np.clip(np.array(pixels, np.float64) / max(1, levels - 1), 0, 1)
    found = np.zeros((side * side, 2), np.uint8)
    found[: len(shares), 0] = np.round(255 * shares)
    found[: len(shown), 1] = 255 * np.array(shown)
    return found.reshape(side, side, 2)


def _unscaled(model: Model, values: Array) -> Array:
    """Pixels of 0 to 255 from what the model reads; as given, spread over that range."""
    values = np.asarray(values, np.float64)
    if model.preprocessing:
        scale: Any = model.preprocessing.scaling(values.shape[2])
        values = values * scale.std + scale.mean
    else:
        least, most = values.min(), values.max()
        values = 255 * (values - least) / ((most - least) or 1)
    pixels = np.clip(np.round(values), 0, 255).astype(np.uint8)
    return pixels[:, :, 0] if pixels.shape[2] == 1 else pixels[:, :, :3]


def _patches(run: Run, model: Model) -> Array:
    """The image with its masked patches restored."""
    given = run.trace.graph.given
    if given is None or "Omega_hat" not in run.trace:
        raise WrongKind(f"this {run.trace.family} has no head that restores patches")
    P = model.config.symbols()["P"]
    values, across = given.copy(), given.shape[1] // P
    for place in run.what.masks:
        row, column = divmod(place - 1, across)
        patch = run.trace["Omega_hat"][:, place - 1].reshape(P, P, -1)
        values[row * P : (row + 1) * P, column * P : (column + 1) * P] = patch
    return _unscaled(model, values)

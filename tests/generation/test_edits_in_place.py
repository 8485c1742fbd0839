"""Engines follow whatever is edited in place: a model of copies of the arrays gives the same."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch
from lively import MODELS, lively

from vesalius.generation.engines import engine
from vesalius.model import Model

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ("gpt2", "other widths", "igpt, as published", "lstm, wider", "rnn", "ffnn, deep")
WIDE = {"vocabulary": 128, "embedding": 128, "context": 8}
BLOCK = {"layers": 1, "heads": 4, "feedforward": 128}
KINDS = {
    **{name: (*MODELS[name], None) for name in FAMILIES},
    "identities, gpt2": (*MODELS["gpt2"], np.eye),
    "identities, lstm": (*MODELS["lstm"], np.eye),
    "identities of 128, rnn": ("rnn", {"vocabulary": 128, "embedding": 128}, np.eye),
    "identities of 128, transformer": ("transformer", {**WIDE, **BLOCK}, np.eye),
    "ones, lstm": (*MODELS["lstm, wider"], lambda rows, columns: np.ones((rows, columns))),
}


def arrays_in(parameters):
    """The arrays of a model's parameters, in the paper's letters."""
    if isinstance(parameters, np.ndarray):
        yield parameters
    elif isinstance(parameters, tuple):
        for part in parameters:
            yield from arrays_in(part)
    elif is_dataclass(parameters):
        for field in fields(parameters):
            yield from arrays_in(getattr(parameters, field.name))


def places(model):
    """All arrays through which the weights can be reached, by where they were taken from."""
    state = list(model.state.values())
    letters = [
        array
        for array in arrays_in(model.parameters)
        if array.size and any(np.may_share_memory(array, owner) for owner in state)
    ]
    return [
        ("the state", state),
        ("the paper's letters", letters),
        ("torch", [parameter.data for parameter in model.network.parameters()]),
    ]


def edit(array, rng):
    """Something that changes an array in place, and what that was."""
    if isinstance(array, torch.Tensor):
        return edit_by_torch(array, rng)
    views = [array, array.T, array[::-1]]
    if array.flags.c_contiguous:
        views += [array.reshape(-1), array.view(np.uint32)]
    view = views[rng.integers(len(views))]
    cell = tuple(int(rng.integers(length)) for length in view.shape)
    other = int(rng.integers(len(view)))
    if view.dtype == np.uint32:
        bit = int(rng.choice([0, 7, 22, 31]))  # none of the exponent, so that all stays finite
        view[cell] ^= np.uint32(1 << bit)
        return "a bit"
    match int(rng.integers(4)):
        case 0:
            view[[cell[0], other]] = view[[other, cell[0]]]
            return "rows exchanged"
        case 1:
            view[cell] *= -1
            return "a sign"
        case 2:
            view[cell] = rng.normal()
            return "a number"
    view[cell[0]] = view[other]
    return "a row copied"


def edit_by_torch(tensor, rng):
    row, other = (int(rng.integers(len(tensor))) for _ in range(2))
    match int(rng.integers(3)):
        case 0:
            tensor[[row, other]] = tensor[[other, row]]
            return "rows exchanged"
        case 1:
            tensor[row].neg_()
            return "signs of a row"
    tensor.view(-1)[int(rng.integers(tensor.numel()))] = rng.normal()
    return "a number"


def logits_of(model, dtype):
    session = engine(model, dtype, threads=1).session(1, 8)
    prompt = [3, 1, 4, 1, 5]
    return np.stack([*session.prefill([0], [prompt]), *session.step([0], [9])]).copy()


@pytest.mark.parametrize("edits", [25, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KINDS)
def test_the_engine_follows_every_edit_in_place(name, edits):
    family, settings, matrix = KINDS[name]
    model = lively(family, settings)
    if matrix is not None:
        for array in model.state.values():
            if array.ndim == 2:
                array[:] = matrix(*array.shape)
    rng, reach, moved = np.random.default_rng(5), places(model), 0
    dtypes = ("float32", "int8") if name in ("gpt2", "lstm, wider") else ("float32",)
    before = {dtype: logits_of(model, dtype) for dtype in dtypes}
    for k in range(edits):
        where, arrays = reach[k % len(reach)]
        what = edit(arrays[rng.integers(len(arrays))], rng)
        anew = Model(model.config, {key: array.copy() for key, array in model.state.items()})
        for dtype in dtypes:
            after = logits_of(model, dtype)
            message = f"edit {k}, {what} through {where}, {dtype}"
            np.testing.assert_array_equal(after, logits_of(anew, dtype), message)
            moved += not np.array_equal(after, before[dtype])
            before[dtype] = after
    assert moved >= edits / 10

"""The paper's letters are views of the network's state, and together they are all of it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import configurations, filled, small

from vesalius.checkpoints import layout
from vesalius.equations import arrays
from vesalius.families import FAMILIES, family_of


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=8)
@given(data=st.data())
def test_the_layout_is_the_state_of_the_network(family, data):
    config = data.draw(configurations(family))
    with torch.device("meta"):
        network = family_of(config).network(config)
    state = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert layout.shapes(config) == state


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=8)
@given(data=st.data())
def test_every_number_of_the_state_is_in_one_letter_and_only_there(family, data):
    config = data.draw(configurations(family))
    state, start = {}, 0
    for name, array in filled(config).state.items():
        state[name] = np.arange(start, start + array.size, dtype=float).reshape(array.shape)
        start += array.size
    letters = dict(arrays(layout.letters(config, state)))
    numbers = np.concatenate([array.ravel() for array in letters.values()])
    assert sorted(numbers) == list(range(start))
    for letter, array in letters.items():
        assert any(np.shares_memory(array, ours) for ours in state.values()), letter


@pytest.mark.parametrize("family", FAMILIES)
def test_network_equations_and_state_share_one_memory(family):
    model = filled(small(family))
    letters = dict(arrays(model.parameters))
    before = {name: array.copy() for name, array in letters.items()}
    with torch.no_grad():
        for tensor in model.network.state_dict().values():
            tensor.add_(1)
    for name, array in letters.items():
        np.testing.assert_array_equal(array, before[name] + 1)
    for name, tensor in model.network.state_dict().items():
        np.testing.assert_array_equal(model.state[name], tensor.numpy())


def test_every_family_has_a_layout_without_rows_that_mean_nothing():
    for family in FAMILIES.values():
        symbols = [row.symbol for row in family.layout.get()]
        assert len(symbols) == len(set(symbols))


def test_gates_are_in_pytorchs_order():
    """PyTorch stacks input, forget, cell and output: the paper's R, P, Q and S."""
    model = filled(small("lstm"))
    W = torch.nn.LSTM(8, 8).weight_ih_l0
    assert model.state["layers.0.input.weight"].shape == tuple(W.shape)
    layer = model.parameters.Phi[0]
    stacked = np.concatenate([layer.W_R, layer.W_P, layer.W_Q, layer.W_S])
    np.testing.assert_array_equal(model.state["layers.0.input.weight"], stacked)


def test_heads_lie_side_by_side():
    model = filled(small("gpt2", key=5, value=2))
    Gamma = model.parameters.Phi[1].Gamma
    for letter, name in {"Q": "query", "K": "key", "V": "value"}.items():
        rows = np.concatenate([getattr(Psi, f"W_{letter}").T for Psi in Gamma.Psi])
        np.testing.assert_array_equal(model.state[f"blocks.1.attention.{name}.weight"], rows)
    np.testing.assert_array_equal(model.state["blocks.1.attention.output.weight"], Gamma.W_O.T)


def test_batch_normalisation_has_its_statistics_and_layer_normalisation_none():
    batch, layer = (
        layout.shapes(small("tst", normalisation=kind)).keys() for kind in ("batch", "layer")
    )
    extra = {name.rpartition(".")[2] for name in batch - layer}
    assert extra == {"running_mean", "running_var"}
    assert layer < batch

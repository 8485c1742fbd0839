"""One table of activations: whoever computes one computes all of them, and as Transformers does."""

import numpy as np
import pytest
import torch
from agreement import agree
from transformers.activations import ACT2CLS, ACT2FN

from vesalius.equations import activations as equations
from vesalius.families import configuration
from vesalius.families.activations import ACTIVATIONS, BY_THEIR_NAME, TRAINED
from vesalius.generation.kernels import activations as kernels
from vesalius.models import activations as networks

AXIS = np.concatenate([np.linspace(-12, 12, 4801), [-80, -30, 30, 80]])
CONSTANTS = 1e-11  # gelu_fast writes the root of 2/π with ten digits


def test_equations_networks_and_kernels_have_the_same_activations():
    assert set(ACTIVATIONS) == set(equations.ACTIVATIONS)
    assert set(ACTIVATIONS) == set(networks.ACTIVATIONS)
    assert set(ACTIVATIONS) == set(kernels.ACTIVATIONS)
    assert len(set(kernels.ACTIVATIONS.values())) == len(ACTIVATIONS)


def test_every_activation_of_transformers_is_known_by_its_name():
    assert {*BY_THEIR_NAME, *TRAINED} == set(ACT2CLS)
    assert all(any(True for _ in ACT2FN[name].parameters()) for name in TRAINED)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_networks_compute_the_equation(name):
    agree(networks.ACTIVATIONS[name](torch.tensor(AXIS)).numpy(), equations.ACTIVATIONS[name](AXIS))


@pytest.mark.parametrize("theirs", BY_THEIR_NAME)
def test_equations_and_networks_are_transformers_own(theirs):
    x = torch.tensor(AXIS)
    expected = ACT2FN[theirs](x).numpy()
    name = BY_THEIR_NAME[theirs]
    agree(equations.ACTIVATIONS[name](AXIS), expected, CONSTANTS)
    agree(networks.ACTIVATIONS[name](x).numpy(), expected, CONSTANTS)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_kernels_compute_the_equation_in_single_precision(name):
    y = AXIS.astype(np.float32)
    expected = equations.ACTIVATIONS[name](y.astype(np.float64))
    kernels.activate(kernels.ACTIVATIONS[name], y)
    # Of gelu, half of x is multiplied by an error function that is within 2e-7.
    bound = 2e-6 * abs(expected) + 2e-7 * np.maximum(1, abs(AXIS) / 2)
    assert (abs(y - expected) <= bound).all()


@pytest.mark.parametrize("name", sorted(set(BY_THEIR_NAME.values())))
def test_gradients_of_networks_are_those_of_transformers(name):
    found = []
    for function in (networks.ACTIVATIONS[name], ACT2FN[ACTIVATIONS[name].theirs[0]]):
        x = torch.tensor(AXIS, requires_grad=True)
        function(x).sum().backward()
        found.append(x.grad.numpy())
    agree(*found)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_any_transformer_may_have_any_of_them(name):
    for family in ("gpt2", "bert", "vit", "tst", "transformer"):
        assert configuration(family, activation=name).activation == name


class Counted:
    """A number that counts the operations it takes part in."""

    def __init__(self, total):
        self.total = total

    def _step(self, *_others):
        self.total[0] += 1
        return self

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _step
    __neg__ = _step


# The formulas of the table, operation by operation; f is any function of one argument or two.
WRITTEN = {
    "gelu": lambda x, f: 0.5 * x * (1 + f(x / 2)),
    "gelu_tanh": lambda x, f: 0.5 * x * (1 + f(0.8 * (x + 0.044715 * (x * x * x)))),
    "relu": lambda x, f: f(x),
    "gelu_10": lambda x, f: f(0.5 * x * (1 + f(x / 2))),
    "quick_gelu": lambda x, f: x * (1 / (1 + f(-(1.702 * x)))),
    "silu": lambda x, f: x * (1 / (1 + f(-x))),
    "mish": lambda x, f: x * f(f(1 + f(x))),
    "hardswish": lambda x, f: x * f(f(x + 3)) / 6,
    "leaky_relu": lambda x, f: f(0.01 * x),
    "relu2": lambda x, f: f(x) * x,
    "relu6": lambda x, f: f(f(x)),
    "laplace": lambda x, f: 0.5 * (1 + f((x - 0.7) / 0.4)),
    "sqrtsoftplus": lambda x, f: f(f(1 + f(x))),
    "sigmoid": lambda x, f: 1 / (1 + f(-x)),
    "tanh": lambda x, f: f(x),
    "linear": lambda x, f: x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_cost_is_the_operations_of_the_formula(name):
    assert name in WRITTEN, f"write the formula of {name} into WRITTEN, for its cost"
    total = [0]
    WRITTEN[name](Counted(total), Counted._step)
    assert ACTIVATIONS[name].cost == total[0]

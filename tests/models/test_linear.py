"""The networks' affine map is PyTorch's, whichever library multiplies."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from vesalius.models.linear import FASTER, Linear, linear

SHAPES = [((5,), 3), ((4, 7), 9), ((2, 3, 64), 128), ((1, 1), 1), ((0, 4), 3)]
# Sums of at most 128 products of normal numbers, in two orders.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(autouse=True, params=["small", "large"])
def _either_side_of_the_limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Every test runs with products counted among the small ones and among the large."""
    if request.param == "large":
        monkeypatch.setattr("vesalius.models.linear.SMALL", 0)


def made(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("shape", "width"), SHAPES)
def test_values_and_gradients_are_those_of_pytorch(
    shape: tuple[int, ...], width: int, biased: bool
) -> None:
    torch.manual_seed(0)
    tensors = [made(*shape), made(width, shape[-1])] + ([made(width)] if biased else [])
    ours, theirs = linear(*tensors), F.linear(*tensors)
    torch.testing.assert_close(ours, theirs, **TOLERANCE)
    towards = torch.randn_like(theirs)
    gradients = (torch.autograd.grad(y, tensors, towards) for y in (ours, theirs))
    torch.testing.assert_close(*gradients, **TOLERANCE)


@pytest.mark.parametrize("cut", [slice(None), slice(3, 9)])
def test_weights_may_be_transposed_or_parts_of_others(cut: slice) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(16, 12)[:, cut].t(), torch.randn(2, 5, 32)[..., ::2]
    for inference in (True, False):
        with torch.inference_mode(inference):
            torch.testing.assert_close(linear(x, weight), F.linear(x, weight), **TOLERANCE)


def test_the_compiled_map_is_the_same() -> None:
    torch.manual_seed(0)
    layer, x = Linear(24, 40), made(3, 24)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")  # needs no compiler for C
    for y in (layer(x), compiled(x)):
        layer.zero_grad()
        x.grad = None
        y.square().sum().backward()
        expected = F.linear(x, layer.weight, layer.bias)
        torch.testing.assert_close(y, expected, **TOLERANCE)
        grad = torch.autograd.grad(expected.square().sum(), [x, *layer.parameters()])
        torch.testing.assert_close([x.grad, layer.weight.grad, layer.bias.grad], list(grad))


def test_its_operations_are_counted() -> None:
    x, weight = made(6, 10), made(4, 10)
    with FlopCounterMode(display=False) as counter:
        linear(x, weight).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 6 * 10 * 4


def test_other_precisions_are_left_to_pytorch() -> None:
    x, weight = torch.randn(3, 8), torch.randn(5, 8)
    for dtype in (torch.float64, torch.bfloat16):
        assert torch.equal(
            linear(x.to(dtype), weight.to(dtype)), F.linear(x.to(dtype), weight.to(dtype))
        )
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16


@pytest.mark.skipif(not FASTER, reason="oneDNN is used on x86 alone")
def test_the_faster_product_is_used() -> None:
    from torch.profiler import profile

    from vesalius.models.linear import SMALL

    for gradients in (False, True):
        with profile() as seen, torch.set_grad_enabled(gradients):
            linear(torch.randn(3, 8), torch.randn(5, 8))
        used = any("mkldnn" in event.key for event in seen.key_averages())
        assert used == (not gradients or SMALL == 0)

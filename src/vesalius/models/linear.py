"""The affine map of the networks: ``nn.Linear`` on the faster of two products.

PyTorch gives single-precision products on a processor to MKL. Its other library, oneDNN, was
measured 5 to 30 % faster on x86, forward and for the gradient of the input, so those two go there.
"""

import math
import platform
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import register_flop_formula

X86 = platform.machine().lower() in ("x86_64", "amd64")
FASTER = X86 and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
SMALL = 2**26
"""With fewer multiplications, what oneDNN gains is lost on calling it from Python for gradients."""


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b."""
    plain = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32
    # A part of a larger matrix, as GPT-2's checkpoints have it for q, k and v, is slow in oneDNN.
    whole = weight.is_contiguous() or weight.t().is_contiguous()
    if not (FASTER and plain and whole) or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    if torch.compiler.is_compiling():
        return _compiled(x, weight, bias)
    if torch.is_grad_enabled():
        if x.numel() * weight.shape[0] < SMALL:
            return F.linear(x, weight, bias)
        return _Differentiable.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return _product(x, weight, bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    wants_x, wants_weight, wants_bias = ctx.needs_input_grad
    flat = grad.reshape(-1, grad.shape[-1])
    return (
        linear(grad, weight.t()) if wants_x else None,
        flat.t() @ x.reshape(-1, x.shape[-1]) if wants_weight else None,
        flat.sum(0) if wants_bias else None,
    )


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    backward = staticmethod(_gradients)


# The compiler takes oneDNN's operator for constant weights only, so it sees one of ours. Called
# without the compiler that one costs 50 µs, hence the class above.
_compiled = torch.library.custom_op(
    "vesalius::linear",
    _product,
    mutates_args=(),
    # Without a default: the compiler leaves out what is one, and gradients are then two, not three.
    schema="(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
)
_compiled.register_fake(lambda x, w, b=None: x.new_empty((*x.shape[:-1], w.shape[0])))
_compiled.register_autograd(
    _gradients, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:2])
)


@register_flop_formula([torch.ops.mkldnn._linear_pointwise, torch.ops.vesalius.linear])
def _operations(x: Any, weight: Any, *others: Any, **options: Any) -> int:
    return 2 * math.prod(x) * int(weight[0])

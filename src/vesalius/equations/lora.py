"""Low-rank adaptation (LoRA) of a matrix, which fine-tunes a model (3.5) by few parameters.

Hu et al. (2021), arXiv:2106.09685. The paper has no such equations; theirs are L.1 and L.2 here.
"""

from jaxtyping import Float

from vesalius.equations.parameters import Array
from vesalius.equations.registry import formula


@formula("L.1", r"\tilde{W} = W + \frac{\alpha}{r} B A", gives="W_tilde")
def low_rank_update(
    W: Float[Array, "d_out d_in"],
    A: Float[Array, "r d_in"],
    B: Float[Array, "d_out r"],
    alpha: float,
) -> Float[Array, "d_out d_in"]:
    """A frozen matrix and its low-rank update.

    W̃ = W + (α / r) B A

    Only A and B are trained. B begins as zero, so that the model begins as it was.
    """
    return W + alpha / len(A) * (B @ A)


@formula("L.2", r"\eta_{\mathrm{LoRA}} = r (d_{in} + d_{out})", gives="eta")
def low_rank_parameters(r: int, d_in: int, d_out: int) -> int:
    """The number of parameters of a low-rank update.

    η = r (dᵢₙ + dₒᵤₜ)
    """
    return r * (d_in + d_out)

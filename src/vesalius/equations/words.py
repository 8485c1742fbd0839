"""Words as vectors (Section 2): one-hot vectors, embeddings, positions.

Tokens are counted from zero here and from one in the paper.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from vesalius.equations.parameters import Array
from vesalius.equations.registry import equation, formula
from vesalius.equations.rules import Given, Lookup
from vesalius.errors import EmptySequence, SequenceTooLong, TokenOutOfRange


class OneHot:
    """Ω, the matrix of one-hot columns, held as the indices of its ones.

    ``E @ Omega`` selects columns, which Section 2.2 shows to be the same as multiplying;
    ``np.asarray(Omega)`` writes the zeros out.
    """

    __array_ufunc__ = None  # so that E @ Omega comes here
    dim_str = "V n"  # its shape, as jaxtyping writes shapes

    def __init__(self, ids: Any, size: int) -> None:
        self.ids = np.asarray(ids)
        self.size = size
        if self.ids.size == 0:
            raise EmptySequence("expected at least one token, got an empty sequence")
        if self.ids.ndim != 1 or not np.issubdtype(self.ids.dtype, np.integer):
            raise TokenOutOfRange(
                f"expected a sequence of whole token ids, got {self.ids.dtype} "
                f"of shape {self.ids.shape}"
            )
        outside = np.flatnonzero((self.ids < 0) | (self.ids >= size))
        if outside.size:
            raise TokenOutOfRange(
                f"token id {self.ids[outside[0]]} at position {outside[0]} is outside the "
                f"vocabulary; expected 0 to {size - 1}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, len(self.ids)

    def __rmatmul__(self, E: Array) -> Array:
        return E[:, self.ids]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        written = np.zeros(self.shape, dtype=dtype or np.float64)
        written[self.ids, np.arange(len(self.ids))] = 1
        return written


@formula("2.1", r"\omega^{(j)} = 1 \text{ if } j = i \text{ else } 0", gives="omega")
def one_hot(i: int, V: int) -> Float[Array, " V"]:
    """The one-hot vector of word i.

    ω⁽ʲ⁾ = 1 if j = i, otherwise 0
    """
    return np.asarray(OneHot([i], V))[:, 0]


@equation(
    2, "4.2", r"x_i = E\omega_i \quad \forall i \in \{1, \ldots, n\}", gives="X", rule=Lookup("E")
)
def embed(E: Float[Array, "d_e V"], omega: OneHot | Float[Array, "V *n"]) -> Float[Array, "d_e *n"]:
    """Embeddings: the columns of E that the one-hot vectors select.

    xᵢ = E ωᵢ  for i = 1 … n

    Takes one vector or the whole matrix Ω = [ω₁ … ωₙ].
    """
    if omega.shape[0] != E.shape[1]:
        raise TokenOutOfRange(
            f"the one-hot vectors are of {omega.shape[0]} words, the embedding of {E.shape[1]}"
        )
    return E @ omega


@formula(
    "4.3",
    r"\lambda_p^{(2i)} = \sin\left(p / 10000^{2i/d_e}\right),\quad"
    r"\lambda_p^{(2i+1)} = \cos\left(p / 10000^{2i/d_e}\right)",
    gives="Lambda",
    rule=Given(),
)
def sinusoidal_positions(d_e: int, n: int) -> Float[Array, "d_e n"]:
    """The fixed positional encodings of Vaswani et al. [58].

    λₚ⁽²ⁱ⁾ = sin(p / 10000^(2i/dₑ)),  λₚ⁽²ⁱ⁺¹⁾ = cos(p / 10000^(2i/dₑ))

    Positions p and components are counted from zero, as in [58].
    """
    p = np.arange(n)
    i = np.arange(0, d_e, 2)[:, None]
    Lambda = np.empty((d_e, n))
    Lambda[0::2] = np.sin(p / 10000 ** (i / d_e))
    Lambda[1::2] = np.cos(p / 10000 ** (i / d_e))[: d_e // 2]
    return Lambda


def positions(Lambda: Float[Array, "d_e n_max"] | None, X: Float[Array, "d_e n"]) -> Array:
    """The first n columns of the learned Λ, or the sinusoidal ones where none were learned."""
    d_e, n = X.shape
    if Lambda is None:
        return sinusoidal_positions(d_e, n).astype(X.dtype)
    if n > Lambda.shape[1]:
        raise SequenceTooLong(
            f"the sequence has {n} positions, the model {Lambda.shape[1]}; shorten the input"
        )
    return Lambda[:, :n]

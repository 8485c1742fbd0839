"""What the models are trained on (3.3, 4.6, 6.2): equations 1, 14 to 22 and 61 to 67.

Tokens v and classes c are counted from zero; positions i from one, as in the paper.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Integer

from vesalius.equations.activations import log_softmax
from vesalius.equations.parameters import Array, map_arrays
from vesalius.equations.registry import equation, formula
from vesalius.equations.words import OneHot, one_hot
from vesalius.errors import EmptySequence, WrongLength

Set = TypeVar("Set")
Tokens = Sequence[int] | Integer[Array, " T"]


def _classes(c: Array, V: int) -> Array:
    """The classes, refused where NumPy would count them from the end."""
    return OneHot(c, V).ids


def _require_position(i: int, first: int, last: int) -> None:
    if not first <= i <= last:
        raise WrongLength(f"expected a position from {first} to {last}, got {i}")


@equation(
    1,
    "3.3",
    r"\mathcal{J}_{AR}(\mathcal{C}) = -\sum_{i=0}^{T-1} \log p_\theta(c_{i+1} | c_{i-n+1:i})",
    gives="J",
)
def corpus_loss(p: Callable[[Tokens], Float[Array, " V"]], C: Tokens, n: int) -> float:
    """The negative log-likelihood of a corpus, every token given the n before it.

    J(C) = −Σᵢ₌₀ᵀ⁻¹ log p_θ(cᵢ₊₁ | cᵢ₋ₙ₊₁:ᵢ)

    ``p`` gives the distribution of the next token after a context; the first context is empty.
    """
    if len(C) == 0:
        raise EmptySequence("expected a corpus of at least one token, got an empty one")
    return sum(cross_entropy_of_class(int(C[i]), p(C[max(0, i - n) : i])) for i in range(len(C)))


@equation(
    14,
    "4.6",
    r"\hat{y}_i = \left[\hat{y}_i^{(1)}, \ldots, \hat{y}_i^{(|\mathcal{V}|)}\right]^\top, \quad "
    r"\hat{y}_i^{(j)} = p_\theta(v_j | w_{1:i})",
    gives="y_hat",
)
def estimated_next(
    p: Callable[[int, Tokens], float], w: Tokens, i: int, V: int
) -> Float[Array, " V"]:
    """The estimated distribution of the token after w₁:ᵢ, word by word.

    ŷᵢ⁽ʲ⁾ = p_θ(vⱼ | w₁:ᵢ)
    """
    return np.array([p(j, w[:i]) for j in range(V)], dtype=float)


@equation(
    15,
    "4.6",
    r"y_i^{(j)} = p(v_j | w_{1:i}) = "
    r"\begin{cases} 1, & v_j = w_{i+1} \\ 0, & \text{otherwise} \end{cases}",
    gives="y",
)
def true_next(w: Tokens, i: int, V: int) -> Float[Array, " V"]:
    """The true distribution of the token after w₁:ᵢ: all on the one that came.

    yᵢ⁽ʲ⁾ = 1 if vⱼ = wᵢ₊₁, otherwise 0
    """
    _require_position(i, 0, len(w) - 1)
    return np.array([1.0 if j == w[i] else 0.0 for j in range(V)])


@equation(
    16,
    "4.6",
    r"L_{CE}(y_i, \hat{y}_i) = -\sum_{j=1}^{|\mathcal{V}|} y_i^{(j)} \log \hat{y}_i^{(j)}",
    gives="L_CE",
)
def cross_entropy(y: Float[Array, " V"], y_hat: Float[Array, " V"]) -> float:
    """The cross entropy of an estimated distribution with the true one.

    L_CE(y, ŷ) = −Σⱼ y⁽ʲ⁾ log ŷ⁽ʲ⁾,  where 0 log 0 = 0
    """
    return -float(sum(y[y > 0] * np.log(y_hat[y > 0])))


@equation(
    17,
    "4.6",
    r"L_{CE}(y_i, \hat{y}_i) = -\log p_\theta(v_{c_i} | w_{1:i}) = -\log \hat{y}_i^{(c_i)}",
    gives="L_CE",
)
def cross_entropy_of_class(c: int, y_hat: Float[Array, " V"]) -> float:
    """The cross entropy where one word is certain.

    L_CE(y, ŷ) = −log ŷ⁽ᶜ⁾

    The paper prints y for ŷ.
    """
    return -float(np.log(y_hat[_classes(np.array([c]), len(y_hat))[0]]))


@equation(
    18,
    "4.6",
    r"y_i^{(j)} = \begin{cases} 1, & j = c_i \\ 0, & \text{otherwise} \end{cases}",
    gives="y",
)
def true_class(c: int, V: int) -> Float[Array, " V"]:
    """The true distribution by the index of the correct token.

    yᵢ⁽ʲ⁾ = 1 if j = cᵢ, otherwise 0
    """
    return one_hot(c, V)


@equation(
    19,
    "4.6",
    r"\mathcal{J}_{AR}(y_n, \hat{y}_n) = L_{CE}(y_n, \hat{y}_n) = -\log \hat{y}_n^{(c_n)}",
    gives="J",
)
def feedforward_loss(c_n: int, y_hat: Float[Array, " V"]) -> float:
    """The loss of the feedforward language model: the one token after the window.

    J(yₙ, ŷₙ) = −log ŷₙ⁽ᶜⁿ⁾

    The paper prints y for ŷ.
    """
    return cross_entropy_of_class(c_n, y_hat)


@equation(
    20,
    "4.6",
    r"\mathcal{J}_{AR}(Y, \hat{Y}) = \sum_{i=1}^{n} L_{CE}(y_i, \hat{y}_i) = "
    r"-\sum_{i=1}^{n} \log \hat{y}_i^{(c_i)}",
    gives="J",
)
def transformer_loss(c: Integer[Array, " n"], Y_hat: Float[Array, "V n"]) -> float:
    """The loss of the transformer language model: all tokens of a sequence at once.

    J(Y, Ŷ) = −Σᵢ log ŷᵢ⁽ᶜⁱ⁾

    The paper prints L_CE(ŷ, y) here, with the arguments of (16) the other way round.
    """
    return sum(
        cross_entropy_of_class(int(c_i), y_hat) for c_i, y_hat in zip(c, Y_hat.T, strict=True)
    )


@equation(
    21,
    "4.6",
    r"\mathcal{J}_{AR}(y_i, \hat{y}_i) = L_{CE}(y_i, \hat{y}_i) = -\log \hat{y}_i^{(c_i)}",
    gives="J",
)
def recurrent_loss(c_i: int, y_hat: Float[Array, " V"]) -> float:
    """The loss of the recurrent language model at one time step.

    J(yᵢ, ŷᵢ) = −log ŷᵢ⁽ᶜⁱ⁾

    The paper prints y for ŷ.
    """
    return cross_entropy_of_class(c_i, y_hat)


@equation(
    22,
    "4.6",
    r"\theta \leftarrow \theta - \mu_{lr} \nabla_\theta \mathcal{J}_{AR}",
    gives="theta",
    recorded=False,
)
def gradient_step(theta: Set, gradient: Set, mu_lr: float) -> Set:
    """One step of gradient descent on a whole parameter set.

    θ ← θ − μ_lr ∇_θ J
    """
    return map_arrays(lambda array, slope: array - mu_lr * slope, theta, gradient)


@equation(
    61,
    "6.2",
    r"\mathcal{J}_{AR}(\hat{Y}, Y) = \sum_{i=1}^{n} L_{CE}(\hat{y}_i, y_i) = "
    r"-\sum_{i=1}^{n} \log \hat{y}_i^{(c_i)}",
    gives="J",
    recorded=False,
)
def autoregressive_loss(Y_hat: Float[Array, "V n"], c: Integer[Array, " n"]) -> float:
    """The autoregressive loss: (20), with its arguments the other way round.

    J(Ŷ, Y) = −Σᵢ log ŷᵢ⁽ᶜⁱ⁾
    """
    return transformer_loss(c, Y_hat)


@equation(
    62,
    "6.2",
    r"\mathcal{J}_{AR}(\hat{Y}, Y) = "
    r"-\sum_{i=1}^{n} \log \frac{\exp(z_i^{(c_i)})}{\sum_j \exp(z_i^{(j)})}"
    r" = -\sum_{i=1}^{n} \log \frac{\exp(x_{i+1}^\top h_i^{[L]})}{\sum_j \exp(e_j^\top h_i^{[L]})}",
    gives="J",
)
def autoregressive_loss_of_states(
    E: Float[Array, "d_e V"], H: Float[Array, "d_e n"], c: Integer[Array, " n"]
) -> float:
    """The autoregressive loss from the transformer's output, through the tied embeddings.

    J = −Σᵢ log (exp(xᵢ₊₁ᵀ hᵢ[L]) / Σⱼ exp(eⱼᵀ hᵢ[L])),  xᵢ₊₁ = e_cᵢ

    In variant 2 the states are those after the final normalisation.
    """
    return -float(log_softmax(E.T @ H)[_classes(c, E.shape[1]), np.arange(len(c))].sum())


@equation(63, "6.2", r"\hat{y}_i^{(j)} = p_\theta(v_j | \mathcal{S}_c)", gives="y_hat")
def estimated_masked(
    p: Callable[[int, int, Tokens], float], S_c: Tokens, i: int, V: int
) -> Float[Array, " V"]:
    """The estimated distribution of the token at position i of a corrupted sequence.

    ŷᵢ⁽ʲ⁾ = p_θ(vⱼ | S_c)

    ``p`` is asked for position i too, which the paper leaves to the index of ŷ.
    """
    return np.array([p(j, i, S_c) for j in range(V)], dtype=float)


@equation(
    64,
    "6.2",
    r"y_i^{(j)} = p(v_j | \mathcal{S}_c) = "
    r"\begin{cases} 1, & v_j = w_i \\ 0, & \text{otherwise} \end{cases}",
    gives="y",
)
def true_masked(w: Tokens, i: int, V: int) -> Float[Array, " V"]:
    """The true distribution of the token at position i: all on the one that was masked.

    yᵢ⁽ʲ⁾ = 1 if vⱼ = wᵢ, otherwise 0
    """
    _require_position(i, 1, len(w))
    return np.array([1.0 if j == w[i - 1] else 0.0 for j in range(V)])


@equation(
    65,
    "6.2",
    r"L_{CE}(\hat{y}_i, y_i) = "
    r"-\sum_{j=1}^{|\mathcal{V}|} p(v_j | \mathcal{S}_c) \log p_\theta(v_j | \mathcal{S}_c)"
    r" = -\sum_{j=1}^{|\mathcal{V}|} y_i^{(j)} \log \hat{y}_i^{(j)}",
    gives="L_CE",
    recorded=False,
)
def masked_cross_entropy(y_hat: Float[Array, " V"], y: Float[Array, " V"]) -> float:
    """The cross entropy at a masked position: (16), with its arguments the other way round.

    L_CE(ŷ, y) = −Σⱼ y⁽ʲ⁾ log ŷ⁽ʲ⁾
    """
    return cross_entropy(y, y_hat)


@equation(
    66, "6.2", r"L_{CE}(\hat{y}_i, y_i) = -\log \hat{y}_i^{(c_i)}", gives="L_CE", recorded=False
)
def masked_cross_entropy_of_class(y_hat: Float[Array, " V"], c: int) -> float:
    """The cross entropy at a masked position whose word is known: (17).

    L_CE(ŷ, y) = −log ŷ⁽ᶜ⁾,  wᵢ = v_c
    """
    return cross_entropy_of_class(c, y_hat)


@equation(
    67,
    "6.2",
    r"\mathcal{J}_{AE}(\hat{Y}, Y) \approx -\sum_{i=1}^{n} m_i \log \hat{y}_i^{(c_i)} = "
    r"-\sum_{i=1}^{n} m_i \log \frac{\exp(z_i^{(c_i)})}{\sum_j \exp(z_i^{(j)})}",
    gives="J",
)
def masked_loss(Z: Float[Array, "V n"], c: Integer[Array, " n"], m: Bool[Array, " n"]) -> float:
    """The masked language model's loss: the masked positions only.

    J(Ŷ, Y) ≈ −Σᵢ mᵢ log (exp(zᵢ⁽ᶜⁱ⁾) / Σⱼ exp(zᵢ⁽ʲ⁾))

    Takes the logits: the paper's last form, with eⱼᵀ hᵢ[L], leaves the MLM head (53 to 55) out.
    """
    return -float(log_softmax(Z)[_classes(c, len(Z)), np.arange(len(c))][m].sum())


@formula(
    "3.4", r"\mathcal{S}_c: w_i \leftarrow \mathrm{[MASK]} \text{ where } m_i = 1", gives="S_c"
)
def corrupt(w: Integer[Array, " n"], m: Bool[Array, " n"], mask: int) -> Integer[Array, " n"]:
    """A corrupted sequence: the chosen tokens replaced by [MASK].

    S_c: wᵢ ← [MASK] where mᵢ = 1
    """
    return np.where(m, mask, w)


def corrupt_as_bert(
    w: Integer[Array, " n"], m: Bool[Array, " n"], mask: int, V: int, rng: np.random.Generator
) -> Integer[Array, " n"]:
    """A corrupted sequence as BERT was trained on.

    Of the chosen tokens 80 % become [MASK], 10 % a random word, and 10 % stay.
    """
    fate = rng.random(len(w))
    random_words = rng.integers(V, size=len(w))
    return np.where(m & (fate < 0.8), mask, np.where(m & (fate >= 0.9), random_words, w))

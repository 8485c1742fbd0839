"""The paper's parameter sets: theta, Phi, Gamma, Psi, Xi, Pi.

Each set is a frozen dataclass with the paper's letters; an annotation is a shape, so that sets can
be built, measured and checked from the values of the dimensions alone. Constants that belong to a
set without being trained (epsilon, the activation g, the order of a block) stand in it too.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from vesalius.equations.tracing import tracer
from vesalius.errors import NotFinite

Array = np.ndarray
Activation = Callable[[Any], Any]
Symbols = dict[str, Any]
"""Values of the paper's dimensions (``d_e``, ``V``) and of a set's constants (``epsilon``)."""

Set = TypeVar("Set")


def part(
    when: str | None = None,
    times: str | None = None,
    given: Callable[[Symbols, int], Symbols] | None = None,
    trained: bool = True,
) -> Any:
    """A field of a set that is there only ``when`` a symbol is true, or stands ``times`` over.

    ``given`` adapts the symbols for the part: how wide a dense layer is, which activation it has.
    """
    default: Any = dataclasses.MISSING if when is None else None
    metadata = {"when": when, "times": times, "given": given, "trained": trained}
    return dataclasses.field(default=default, metadata=metadata)


def _dense(rows: str, columns: str) -> Callable[..., Symbols]:
    return lambda s, _: {"d_out": s[rows], "d_in": s[columns], "g": None}


@dataclass(frozen=True, kw_only=True)
class Norm:
    """Ξ: the gain and bias of a normalisation (35).

    Of the kinds, layer has both; batch has the running mean and variance of its training batches,
    too; rms subtracts no mean and has no bias.
    """

    alpha: Float[Array, " d_e"]
    beta: Float[Array, " d_e"] | None = part(when="centred")
    mean: Float[Array, " d_e"] | None = part(when="batch_norm", trained=False)
    variance: Float[Array, " d_e"] | None = part(when="batch_norm", trained=False)
    epsilon: float
    normalisation: str = "layer"


@dataclass(frozen=True, kw_only=True)
class Head:
    """Ψₘ: the three matrices of an attention head (28), with their optional biases."""

    W_Q: Float[Array, "d_e d_k"]
    W_K: Float[Array, "d_e d_k"]
    W_V: Float[Array, "d_e d_v"]
    b_Q: Float[Array, " d_k"] | None = part(when="zeta_qkv")
    b_K: Float[Array, " d_k"] | None = part(when="zeta_qkv")
    b_V: Float[Array, " d_v"] | None = part(when="zeta_qkv")


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Γ: all heads and the matrix that brings them together (31)."""

    Psi: tuple[Head, ...] = part(times="M")
    W_O: Float[Array, "Md_v d_e"]
    b_O: Float[Array, " d_e"] | None = part(when="zeta")


@dataclass(frozen=True, kw_only=True)
class Feedforward:
    """Π: the two layers of a block's feedforward network (37)."""

    W_1: Float[Array, "d_f d_e"]
    b_1: Float[Array, " d_f"]
    W_2: Float[Array, "d_e d_f"]
    b_2: Float[Array, " d_e"]
    g: Activation


@dataclass(frozen=True, kw_only=True)
class Block:
    """Φ[l]: one transformer block (32), in either order of Figure 14."""

    Gamma: Attention
    Xi_1: Norm
    Pi: Feedforward
    Xi_2: Norm
    order: str


@dataclass(frozen=True, kw_only=True)
class Dense:
    """One dense layer: Φ[l] of the feedforward network (23), Πᴹ (53), Πᶜ (57), Πᴺ (58)."""

    W: Float[Array, "d_out d_in"]
    b: Float[Array, " d_out"]
    g: Activation | None = None


@dataclass(frozen=True, kw_only=True)
class Elman:
    """Φ[l]: one layer of an Elman network (41)."""

    W: Float[Array, "d_o d_i"]
    U: Float[Array, "d_o d_o"]
    b: Float[Array, " d_o"]
    g: Activation


@dataclass(frozen=True, kw_only=True)
class LSTM:
    """Φ[l]: an LSTM layer: candidate Q (44), forget gate P (45), add gate R (46), output S (48)."""

    W_Q: Float[Array, "d_o d_i"]
    U_Q: Float[Array, "d_o d_o"]
    b_Q: Float[Array, " d_o"]
    W_P: Float[Array, "d_o d_i"]
    U_P: Float[Array, "d_o d_o"]
    b_P: Float[Array, " d_o"]
    W_R: Float[Array, "d_o d_i"]
    U_R: Float[Array, "d_o d_o"]
    b_R: Float[Array, " d_o"]
    W_S: Float[Array, "d_o d_i"]
    U_S: Float[Array, "d_o d_o"]
    b_S: Float[Array, " d_o"]


@dataclass(frozen=True, kw_only=True)
class FeedforwardLM:
    """θ = {Φ, E, U} of the feedforward language model (6)."""

    E: Float[Array, "d_e V"]
    Phi: tuple[Dense, ...] = part(
        times="L",
        given=lambda s, l: {"d_out": s["d_h"], "d_in": s["n"] * s["d_e"] if l == 1 else s["d_h"]},
    )
    U: Float[Array, "V d_h"]
    b_U: Float[Array, " V"] | None = part(when="output_bias")


@dataclass(frozen=True, kw_only=True)
class TransformerLM:
    """θ = {E, Λ, Ξₑ, Φ} of the transformer language model (11); U where it is not tied to E.

    Wʸ is a head for labels of one's own, as it is in recurrent models.
    """

    E: Float[Array, "d_e V"]
    Lambda: Float[Array, "d_e n_max"] | None = part(when="learned_positions")
    Xi_e: Norm
    Phi: tuple[Block, ...] = part(times="L")
    U: Float[Array, "V_U d_e"] | None = part(when="untied")
    W_Y: Float[Array, "labels d_e"] | None = part(when="labels")
    causal: bool
    order: str


def _layer_input(s: Symbols, l: int) -> Symbols:
    return {"d_i": s["d_e"] if l == 1 else s["d_o"]}


@dataclass(frozen=True, kw_only=True)
class ElmanLM:
    """θ = {E, U, Φ} of the Elman language model (13)."""

    E: Float[Array, "d_e V"]
    Phi: tuple[Elman, ...] = part(times="L", given=_layer_input)
    U: Float[Array, "V d_o"] | None = part(when="untied")
    b_U: Float[Array, " V"] | None = part(when="output_bias")
    W_Y: Float[Array, "labels d_o"] | None = part(when="labels")


@dataclass(frozen=True, kw_only=True)
class LSTMLM:
    """θ = {E, U, Φ} of the LSTM language model (13)."""

    E: Float[Array, "d_e V"]
    Phi: tuple[LSTM, ...] = part(times="L", given=_layer_input)
    U: Float[Array, "V d_o"] | None = part(when="untied")
    b_U: Float[Array, " V"] | None = part(when="output_bias")
    W_Y: Float[Array, "labels d_o"] | None = part(when="labels")


@dataclass(frozen=True, kw_only=True)
class Bert:
    """The backbone {E, Λˢ, Λᵖ, Ξₑ, Φ, Πᶜ} of BERT, and its heads.

    The MLM head is {Πᴹ, Ξₘ, bᴱ}, the NSP head Πᴺ, and a head for labels of one's own Πʸ.
    """

    E: Float[Array, "d_e V"]
    Lambda_s: Float[Array, "d_e segments"]
    Lambda_p: Float[Array, "d_e n_max"]
    Xi_e: Norm
    Phi: tuple[Block, ...] = part(times="L")
    Pi_C: Dense | None = part(when="pooler", given=_dense("d_e", "d_e"))
    Pi_M: Dense | None = part(
        when="mlm_head", given=lambda s, _: {"d_out": s["d_e"], "d_in": s["d_e"]}
    )
    Xi_m: Norm | None = part(when="mlm_head")
    b_E: Float[Array, " V"] | None = part(when="mlm_head")
    Pi_N: Dense | None = part(when="nsp_head", given=_dense("two", "d_e"))
    Pi_Y: Dense | None = part(when="labels", given=_dense("labels", "d_e"))


@dataclass(frozen=True, kw_only=True)
class ViT:
    """The vision transformer (7.1): patch projection E, class token, positions, blocks, heads."""

    E: Float[Array, "d_e P2C"]
    b_e: Float[Array, " d_e"]
    x_class: Float[Array, " d_e"]
    Lambda: Float[Array, "d_e n_max"]
    Phi: tuple[Block, ...] = part(times="L")
    Xi_e: Norm
    Pi_C: Dense | None = part(when="pooler", given=_dense("d_e", "d_e"))
    Pi_Y: Dense | None = part(when="classes", given=_dense("classes", "d_e"))
    x_mask: Float[Array, " d_e"] | None = part(when="masked_patch_head")
    Pi_R: Dense | None = part(when="masked_patch_head", given=_dense("P2C", "d_e"))


@dataclass(frozen=True, kw_only=True)
class TST:
    """The time series transformer (7.2): projection E, positions, blocks, output layer.

    The output layer reads every time step by itself (masked series) or all of them in one vector
    (classes, regression).
    """

    E: Float[Array, "d_e C"]
    b_e: Float[Array, " d_e"]
    Lambda: Float[Array, "d_e n_max"] | None = part(when="learned_positions")
    Phi: tuple[Block, ...] = part(times="L")
    Pi_Y: Dense = part(given=_dense("outputs", "read"))
    g: Activation


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Ξᵣ: the gain and bias of every channel after instance normalisation (P.4)."""

    alpha: Float[Array, " C"]
    beta: Float[Array, " C"]


@dataclass(frozen=True, kw_only=True)
class PatchTST:
    """PatchTST (P.1 to P.12): projection E of patches, positions, blocks, output layer.

    All channels share them; only the gain Ξᵣ, where there is one, is a channel's own.
    """

    Xi_r: Gain | None = part(when="affine")
    E: Float[Array, "d_e P"]
    b_e: Float[Array, " d_e"]
    Lambda: Float[Array, "d_e n_max"] | None = part(when="learned_positions")
    Phi: tuple[Block, ...] = part(times="L")
    Pi_Y: Dense = part(given=_dense("T", "nd_e"))
    epsilon_r: float
    s: int
    pad: int


ParameterSet = FeedforwardLM | ElmanLM | LSTMLM | TransformerLM | Bert | ViT | TST | PatchTST
"""θ of a model. A family of another package has a dataclass of its own in its place."""


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _without_none(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        return next(h for h in typing.get_args(hint) if h is not types.NoneType)
    return hint


def assemble(
    kind: type[Set],
    symbols: Symbols,
    fetch: Callable[[str, tuple[int, ...]], Array],
    path: str = "",
) -> Set:
    """Build a set by asking ``fetch(name, shape)`` for each of its arrays.

    Names are paths of the paper's letters, counted from one: ``Phi[1].Gamma.Psi[2].W_Q``.
    """
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        hint, rule = _without_none(_hints(kind)[field.name]), field.metadata  # type: ignore[arg-type]
        if rule.get("when") and not symbols[rule["when"]]:
            continue

        def inner(l: int = 0, rule: Any = rule) -> Symbols:
            return {**symbols, **rule["given"](symbols, l)} if rule.get("given") else symbols

        where = path + field.name
        if rule.get("times"):
            item = typing.get_args(hint)[0]
            values[field.name] = tuple(
                assemble(item, inner(l), fetch, f"{where}[{l}].")
                for l in range(1, symbols[rule["times"]] + 1)
            )
        elif hasattr(hint, "dim_str"):
            values[field.name] = fetch(where, tuple(symbols[axis] for axis in hint.dim_str.split()))
        elif dataclasses.is_dataclass(hint):
            values[field.name] = assemble(hint, inner(), fetch, f"{where}.")  # type: ignore[arg-type]
        else:
            values[field.name] = symbols[field.name]
    return kind(**values)


def arrays(theta: Any, path: str = "", trained_only: bool = False) -> Iterator[tuple[str, Array]]:
    """Every array of a set with its name, in the order of the fields."""
    for field in dataclasses.fields(theta):
        value, where = getattr(theta, field.name), path + field.name
        if trained_only and not field.metadata.get("trained", True):
            continue
        if isinstance(value, np.ndarray):
            yield where, value
        elif isinstance(value, tuple):
            for l, item in enumerate(value, 1):
                yield from arrays(item, f"{where}[{l}].", trained_only)
        elif dataclasses.is_dataclass(value):
            yield from arrays(value, f"{where}.", trained_only)


def size(theta: Any) -> int:
    """How many numbers of a set are trained."""
    return sum(array.size for _, array in arrays(theta, trained_only=True))


def map_arrays(function: Callable[..., Array], theta: Set, *others: Set) -> Set:
    """The same set with ``function`` applied to each trained array and its companions.

    What is not trained, such as the running statistics of batch normalisation, stays.
    """
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(theta):  # type: ignore[arg-type]
        if not field.metadata.get("trained", True):
            continue
        value, *rest = (getattr(s, field.name) for s in (theta, *others))
        if isinstance(value, np.ndarray):
            changes[field.name] = function(value, *rest)
        elif isinstance(value, tuple):
            changes[field.name] = tuple(
                map_arrays(function, *items) for items in zip(value, *rest, strict=True)
            )
        elif dataclasses.is_dataclass(value):
            changes[field.name] = map_arrays(function, value, *rest)
    return dataclasses.replace(theta, **changes)  # type: ignore[type-var]


def require_finite(theta: Any) -> None:
    """Refuse NaN and infinity, naming every array that holds one.

    A sum is finite only if its terms are, and runs at the speed of memory; only an array whose sum
    is not finite is looked at entry by entry. Where a trace takes steps of another, that one has
    looked.
    """
    if (running := tracer()) is not None and running.known:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        bad = [
            name
            for name, array in arrays(theta)
            if not math.isfinite(array.sum()) and not np.isfinite(array).all()
        ]
    if bad:
        raise NotFinite(
            f"NaN or infinity in the parameters {', '.join(bad)}; expected finite values"
        )

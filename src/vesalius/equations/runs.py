"""Whole forward passes, one for each kind of model: the backbone once, then every head there is.

A run takes the parameter set, the input and the configuration in the paper's letters; a trace
records what it computes. The functions that begin with ``read`` take states of any layer through
what follows the last, to logits or values, which is known as the logit lens.
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Bool, Float

from vesalius import equations as eq
from vesalius.equations.forecasting import read_forecast
from vesalius.equations.parameters import (
    LSTMLM,
    TST,
    Array,
    Bert,
    ElmanLM,
    FeedforwardLM,
    PatchTST,
    TransformerLM,
    ViT,
)
from vesalius.equations.words import OneHot
from vesalius.errors import WrongKind, WrongLength

Symbols = dict[str, Any]
Real = Bool[Array, " n"] | None
"""Which columns are no padding; all, if left out."""


def feedforward(theta: FeedforwardLM, Omega: OneHot, symbols: Symbols) -> None:
    eq.feedforward_lm(theta, Omega)


def recurrent(theta: ElmanLM | LSTMLM, Omega: OneHot, symbols: Symbols) -> None:
    H = eq.recurrent_hidden(theta, Omega)
    eq.distributions(eq.recurrent_words(theta, H))
    if theta.W_Y is not None:
        eq.text_label_logits(theta.W_Y, text_state(H, symbols))


def transformer(theta: TransformerLM, Omega: OneHot, symbols: Symbols) -> None:
    H = eq.transformer_states(theta, Omega)
    eq.distributions(eq.transformer_words(theta, H))
    if theta.W_Y is not None:
        eq.text_label_logits(theta.W_Y, text_state(H, symbols))


def text_state(H: Float[Array, "d_L n"], symbols: Symbols) -> Float[Array, " d_L"]:
    """What stands for the whole text: the mean of all states, or the last one."""
    return eq.mean_state(H) if symbols["pooling"] == "mean" else H[:, -1]


def bert(
    theta: Bert, Omega: OneHot, symbols: Symbols, segments: Sequence[int] | None = None
) -> None:
    """``segments`` are 1 where a token is of a second text; 0 everywhere, if left out."""
    H = eq.bert_states(theta, Omega, segments)
    if theta.Pi_M is not None:
        eq.distributions(eq.bert_mlm_logits(theta, H))
    pooled = None if theta.Pi_C is None else eq.bert_pooled(theta, H)
    if theta.Pi_N is not None and pooled is not None:
        eq.nsp_distribution(theta.Pi_N, pooled)
    if theta.Pi_Y is None:
        return
    if symbols["labelled"] != "sequence":
        eq.label_logits(theta.Pi_Y, H)
    elif symbols["pooling"] == "mean":
        eq.label_logits(theta.Pi_Y, eq.mean_state(H))
    elif pooled is not None:
        eq.label_logits(theta.Pi_Y, pooled)


def vit(theta: ViT, image: Float[Array, "height width C"], symbols: Symbols) -> None:
    """No patch is masked."""
    H = eq.vit_states(theta, eq.patches(image, symbols["P"]))
    if theta.Pi_C is not None:
        eq.pool(theta.Pi_C, H[:, 0])
    if theta.Pi_Y is not None:
        eq.class_logits(theta.Pi_Y, H[:, 0])
    if theta.Pi_R is not None:
        eq.reconstruct_patches(theta.Pi_R, H[:, 1:])


def tst(
    theta: TST,
    series: Float[Array, "C n"],
    symbols: Symbols,
    real: Real = None,
) -> None:
    """``real`` are the time steps at which anything is known; all, if left out."""
    head = eq.tst_series if symbols["series"] else eq.tst_outputs
    head(theta, series, real)


def patchtst(
    theta: PatchTST, series: Float[Array, "C tau"], symbols: Symbols, real: Real = None
) -> None:
    """A series without gaps."""
    if real is not None and not real.all():
        raise WrongKind("a forecast is made from a series without gaps; fill them first")
    eq.patchtst_forecast(theta, series)


def read_next_words(
    theta: TransformerLM, H: Float[Array, "d_e n"], symbols: Symbols, real: Real = None
) -> Float[Array, "V n"] | Float[Array, " labels"]:
    """Through the final normalisation of variant 2 and the output embedding, or the label head."""
    H = H if theta.order == "post" else eq.normalise_output(theta.Xi_e, H)
    if theta.W_Y is not None:
        return eq.text_label_logits(theta.W_Y, text_state(H, symbols))
    return eq.transformer_words(theta, H)


def read_masked_words(
    theta: Bert, H: Float[Array, "d_e n"], symbols: Symbols, real: Real = None
) -> Float[Array, "V n"] | Float[Array, " labels"]:
    """Through BERT's MLM head, or the head that labels the sequence, by its pooler, or tokens."""
    if theta.Pi_Y is not None and symbols["labelled"] == "sequence":
        mean = symbols["pooling"] == "mean"
        return eq.label_logits(theta.Pi_Y, eq.mean_state(H) if mean else eq.bert_pooled(theta, H))
    if theta.Pi_Y is not None and theta.Pi_M is None:
        return eq.label_logits(theta.Pi_Y, H)
    return eq.bert_mlm_logits(theta, H)


def read_recurrent_words(
    theta: ElmanLM | LSTMLM, H: Float[Array, "d_o n"], symbols: Symbols, real: Real = None
) -> Float[Array, "V n"] | Float[Array, " labels"]:
    """Through the output embedding or the label head, which states of other widths do not fit."""
    U = theta.E.T if theta.U is None else theta.U
    if H.shape[0] != U.shape[1]:
        raise WrongLength(
            f"the output embedding reads {U.shape[1]} numbers, these states have {H.shape[0]}; "
            f"layers 1 to {symbols['L']} can be read"
        )
    if theta.W_Y is not None:
        return eq.text_label_logits(theta.W_Y, text_state(H, symbols))
    return eq.logits(U, H, theta.b_U)


def read_window_words(
    theta: FeedforwardLM, h: Float[Array, " d_h"], symbols: Symbols, real: Real = None
) -> Float[Array, " V"]:
    """Through the output embedding."""
    return eq.logits_of_vector(theta.U, h, theta.b_U)


def read_image(
    theta: ViT, H: Float[Array, "d_e n"], symbols: Symbols, real: Real = None
) -> Float[Array, " classes"] | Float[Array, "P2C patches"]:
    """Through the final normalisation: classes by the class token, or else restored patches."""
    H = eq.normalise_output(theta.Xi_e, H)
    if theta.Pi_Y is not None:
        return eq.class_logits(theta.Pi_Y, H[:, 0])
    if theta.Pi_R is not None:
        return eq.reconstruct_patches(theta.Pi_R, H[:, 1:])
    raise WrongKind("this model has neither a class head nor a masked-patch head to read through")


def read_series(
    theta: TST, H: Float[Array, "d_e n"], symbols: Symbols, real: Real = None
) -> Float[Array, " outputs"] | Float[Array, "C n"]:
    """Through the activation and the output layer; padding counts for nothing."""
    H = eq.activate_output(theta.g, H)
    if symbols["series"]:
        return eq.series_output(theta.Pi_Y, H)
    return eq.flat_output(theta.Pi_Y, eq.concatenate(H if real is None else H * real))


def read_patches(
    theta: PatchTST, H: Float[Array, "d_e Cn"], symbols: Symbols, level: tuple[Array, Array]
) -> Float[Array, "C T"]:
    """Through the flattening head, with the mean and deviation that every channel had."""
    return read_forecast(theta, H, *level)

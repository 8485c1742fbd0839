"""Whole forward passes, one for each kind of model: the backbone once, then every head there is.

A run takes the parameter set, the input and the configuration in the paper's letters; a trace
records what it computes. ``read_next_words`` and ``read_masked_words`` give the words that the
states of any layer stand for, which is known as the logit lens.
"""

from typing import Any

from jaxtyping import Bool, Float

from vesalius import equations as eq
from vesalius.equations.parameters import (
    LSTMLM,
    TST,
    Array,
    Bert,
    ElmanLM,
    FeedforwardLM,
    TransformerLM,
    ViT,
)
from vesalius.equations.words import OneHot

Symbols = dict[str, Any]


def feedforward(theta: FeedforwardLM, Omega: OneHot, symbols: Symbols) -> None:
    eq.feedforward_lm(theta, Omega)


def recurrent(theta: ElmanLM | LSTMLM, Omega: OneHot, symbols: Symbols) -> None:
    eq.recurrent_lm(theta, Omega)


def transformer(theta: TransformerLM, Omega: OneHot, symbols: Symbols) -> None:
    eq.transformer_lm(theta, Omega)


def bert(theta: Bert, Omega: OneHot, symbols: Symbols) -> None:
    H = eq.bert_states(theta, Omega)
    if theta.Pi_M is not None:
        eq.distributions(eq.bert_mlm_logits(theta, H))
    read = H
    if theta.Pi_C is not None:
        pooled = eq.bert_pooled(theta, H)
        read = pooled if symbols["labelled"] == "sequence" else H
        if theta.Pi_N is not None:
            eq.nsp_distribution(theta.Pi_N, pooled)
    if theta.Pi_Y is not None:
        eq.label_logits(theta.Pi_Y, read)


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
    real: Bool[Array, " n"] | None = None,
) -> None:
    """``real`` are the time steps at which anything is known; all, if left out."""
    head = eq.tst_series if symbols["series"] else eq.tst_outputs
    head(theta, series, real)


def read_next_words(theta: TransformerLM, H: Float[Array, "d_e n"]) -> Float[Array, "V n"]:
    """Through the final normalisation of variant 2 and the output embedding."""
    H = H if theta.variant == 1 else eq.normalise_output(theta.Xi_e, H)
    return eq.softmax(eq.logits(theta.E.T if theta.U is None else theta.U, H))


def read_masked_words(theta: Bert, H: Float[Array, "d_e n"]) -> Float[Array, "V n"]:
    """Through BERT's MLM head."""
    return eq.softmax(eq.bert_mlm_logits(theta, H))

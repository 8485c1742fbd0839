"""What every family must keep: for the backward pass of training, and from token to token.

Numbers are counted, not bytes. Kept is each value that the backward pass reads, once, with
attention unfused and no dropout; formulas are for one sequence of n tokens.
"""

from dataclasses import dataclass

from vesalius.families import components, configs
from vesalius.families.activations import ACTIVATIONS
from vesalius.families.formulas import Formula


@dataclass(frozen=True)
class Kept:
    """Numbers kept by one part of a model."""

    name: str
    formula: Formula
    times: Formula


def kept(name: str, formula: str, times: str = "1") -> Kept:
    return Kept(name, Formula(formula), Formula(times))


def neurons(config: configs.Blocks, width: str, more: int = 0) -> str:
    """What a layer of so many neurons keeps, and so many numbers more for each."""
    count = ACTIVATIONS[config.activation].kept + more
    return width if count == 1 else f"{count} {width}"


def blocks(config: configs.Blocks, batch_norm: bool = False) -> Kept:
    """Inputs of both sublayers before and after normalisation, q, k, v, scores, neurons."""
    statistics = "4 d_e" if batch_norm else "4 n" if config.symbols()["centred"] else "2 n"
    inputs = f"n (4 d_e + 2 M (d_k + d_v) + {neurons(config, 'd_f')})"
    return kept("transformer blocks", f"{inputs} + n² M + {statistics}", times="L")


def transformer(config: configs.Transformer) -> list[Kept]:
    statistics = 2 if config.symbols()["centred"] else 1
    return [
        kept("embeddings and their normalisation", f"n (2 d_e + {statistics})"),
        blocks(config),
        kept("log-probabilities", f"n {components.words(config)}"),
    ]


def bert(config: configs.Bert) -> list[Kept]:
    rows = [kept("embeddings and their normalisation", "n (2 d_e + 2)"), blocks(config)]
    if config.pooler:
        rows.append(kept("pooler", "d_e"))
    if config.mlm_head:
        rows.append(kept("MLM head", f"n ({neurons(config, 'd_e', more=1)} + 2 + |V|)"))
    if config.nsp_head:
        rows.append(kept("NSP head", "2"))
    if config.labels:
        rows.append(kept("labels", "n |Y|" if config.labelled != "sequence" else "|Y|"))
    return rows


def vit(config: configs.ViT) -> list[Kept]:
    rows = [
        kept("patches", "(n − 1) P² C"),
        blocks(config),
        kept("final normalisation", "n (2 d_e + 2)"),
    ]
    if config.pooler:
        rows.append(kept("pooler", "d_e"))
    if config.classes:
        rows.append(kept("log-probabilities", "|Y|"))
    if config.masked_patch_head:
        rows.append(kept("restored patches", "(n − 1) P² C"))
    return rows


def tst(config: configs.TST) -> list[Kept]:
    outputs = "n C" if config.head == "series" else "|Y|"
    return [
        kept("series", "n C"),
        blocks(config, batch_norm=config.normalisation == "batch"),
        kept("activation", neurons(config, "n d_e")),
        kept("outputs", outputs),
    ]


def ffnn(config: configs.Feedforward) -> list[Kept]:
    return [
        kept("embeddings", "n d_e"),
        kept("dense layers", "d_h", times="L"),
        kept("log-probabilities", "|V|"),
    ]


def elman(config: configs.Elman) -> list[Kept]:
    return [
        kept("embeddings", "n d_e"),
        kept("states", "n d_o", times="L"),
        kept("log-probabilities", "n |V|"),
    ]


def lstm(config: configs.LSTM) -> list[Kept]:
    return [
        kept("embeddings", "n d_e"),
        kept("candidate, gates, context, its tanh, state", "7 n d_o", times="L"),
        kept("log-probabilities", "n |V|"),
    ]


def carried(config: configs.Config) -> Kept | None:
    """What generation keeps from token to token: keys and values, or a state."""
    match config:
        case configs.Transformer(causal=True):
            return kept("keys and values, for every token", "L M (d_k + d_v)")
        case configs.Elman():
            return kept("state, in all", "L d_o")
        case configs.LSTM():
            return kept("state and context, in all", "2 L d_o")
    return None

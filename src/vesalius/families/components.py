"""What every family is made of, and how many parameters each part has: Tables 4, 5 and 6.

The paper gives GPT-2 and BERT; the other families' tables are derived in the same way.
"""

from dataclasses import dataclass

from vesalius.families import configs
from vesalius.families.formulas import Formula


@dataclass(frozen=True)
class Component:
    """One row of a table: a formula, or the sum of its parts; there may be several like it."""

    symbol: str
    name: str
    formula: Formula | None = None
    parts: tuple["Component", ...] = ()
    times: Formula = Formula("1")


def sum_of(parts: tuple[Component, ...]) -> str:
    """``E + L Φ[l]``: how parts add up."""
    factors = ("" if part.times.text == "1" else f"({part.times.text}) " for part in parts)
    terms = (
        factor + (part.symbol or part.name) for factor, part in zip(factors, parts, strict=True)
    )
    return " + ".join(term.replace("(L) ", "L ") for term in terms)


def row(symbol: str, name: str, formula: str, times: str = "1") -> Component:
    return Component(symbol, name, Formula(formula), times=Formula(times))


def embedding() -> Component:
    return row("E", "embedding", "d_e |V|")


def positions(kind: str) -> Component:
    if kind == "learned":
        return row("Λ", "positional encoding", "d_e n")
    return row("Λ", "positional encoding, fixed", "0")


def norm(symbol: str, centred: bool = True) -> Component:
    return row(symbol, "normalisation", "2 d_e" if centred else "d_e")


def blocks(qkv_bias: bool = True, centred: bool = True) -> Component:
    biases = "ζ (M (2 d_k + d_v) + d_e)" if qkv_bias else "ζ d_e"
    block = (
        row("Γ[l]", "multi-head attention", f"2 M d_e (d_k + d_v) + {biases}"),
        row("Π[l]", "feedforward network", "2 d_e d_f + d_e + d_f"),
        norm("Ξ₁[l]", centred),
        norm("Ξ₂[l]", centred),
    )
    one = Component("Φ[l]", "transformer block", parts=block, times=Formula("L"))
    return Component("Φ", "transformer", parts=(one,))


def output(tied: bool, width: str, bias: bool = False, words: str = "|V|") -> tuple[Component, ...]:
    rows = () if tied else (row("U", "output embedding", f"{words} {width}"),)
    return (*rows, row("b_U", "output bias", "|V|")) if bias else rows


def words(config: configs.Transformer) -> str:
    """How many words there are logits for."""
    s = config.symbols()
    return "|V|" if s["V_U"] == s["V"] else "(|V| − 1)"


def transformer(config: configs.Transformer) -> tuple[Component, ...]:
    s = config.symbols()
    return (
        embedding(),
        positions(config.positions),
        norm("Ξₑ", s["centred"]),
        blocks(centred=s["centred"]),
        *output(config.tied, "d_e", words=words(config)),
    )


def bert(config: configs.Bert) -> tuple[Component, ...]:
    backbone = (
        embedding(),
        row("Λᵖ", "positional encoding", "d_e n"),
        row("Λˢ", "segment encoding", "segments d_e"),
        norm("Ξₑ"),
        blocks(),
        *((row("Πᶜ", "pooler", "d_e (d_e + 1)"),) if config.pooler else ()),
    )
    mlm = (
        row("Πᴹ", "dense layer", "d_e (d_e + 1)"),
        norm("Ξₘ"),
        row("bᴱ", "embedding bias", "|V|"),
    )
    heads = (
        *((Component("", "MLM head", parts=mlm),) if config.mlm_head else ()),
        *((row("Πᴺ", "NSP head", "2 (d_e + 1)"),) if config.nsp_head else ()),
        *((row("Πʸ", "label head", "|Y| (d_e + 1)"),) if config.labels else ()),
    )
    return (Component("", "backbone", parts=backbone), *heads) if heads else backbone


def vit(config: configs.ViT) -> tuple[Component, ...]:
    rows = [
        row("E", "patch projection", "d_e P² C"),
        row("bₑ", "its bias", "d_e"),
        row("x_class", "class token", "d_e"),
        row("Λ", "positional encoding", "d_e n"),
        blocks(config.qkv_bias),
        norm("Ξₑ"),
    ]
    if config.pooler:
        rows.append(row("Πᶜ", "pooler", "d_e (d_e + 1)"))
    if config.classes:
        rows.append(row("Πʸ", "class head", "|Y| (d_e + 1)"))
    if config.masked_patch_head:
        rows.append(row("x_mask", "mask token", "d_e"))
        rows.append(row("Πᴿ", "masked-patch head", "P² C (d_e + 1)"))
    return tuple(rows)


def tst(config: configs.TST) -> tuple[Component, ...]:
    read_out = "C (d_e + 1)" if config.head == "series" else "|Y| (n d_e + 1)"
    return (
        row("E", "projection of the channels", "d_e C"),
        row("bₑ", "its bias", "d_e"),
        positions(config.positions),
        blocks(),
        row("Πʸ", "output layer", read_out),
    )


def ffnn(config: configs.Feedforward) -> tuple[Component, ...]:
    layers = [row("Φ[1]", "first dense layer", "d_h (n d_e + 1)")]
    if config.layers > 1:
        layers.append(row("Φ[l]", "further dense layers", "d_h (d_h + 1)", times="L − 1"))
    return (embedding(), *layers, *output(False, "d_h", config.output_bias))


def _recurrent(
    config: configs.Recurrent, name: str, square: str, first: str, further: str
) -> tuple[Component, ...]:
    if config.hidden in (None, config.embedding):
        layers = [row("Φ[l]", f"{name} layers", square, times="L")]
    else:
        layers = [row("Φ[1]", f"first {name} layer", first)]
        if config.layers > 1:
            layers.append(row("Φ[l]", f"further {name} layers", further, times="L − 1"))
    return (embedding(), *layers, *output(config.tied, "d_o", config.output_bias))


def elman(config: configs.Elman) -> tuple[Component, ...]:
    return _recurrent(config, "Elman", "2 d_e² + d_e", "d_o (d_o + d_e + 1)", "2 d_o² + d_o")


def lstm(config: configs.LSTM) -> tuple[Component, ...]:
    return _recurrent(
        config, "LSTM", "4 d_e (2 d_e + 1)", "4 d_o (d_o + d_e + 1)", "4 d_o (2 d_o + 1)"
    )

"""What every family computes, equation by equation, and what each step costs.

A multiply-add is two operations. Matrix products stand apart from everything else ("pointwise"),
where each addition, multiplication, division, comparison, root, exponential, logarithm, tanh and
erf is one: an entry of a softmax is 5, a normalised vector 7 d + 2.
"""

from dataclasses import dataclass

from vesalius.families import components, configs
from vesalius.families.formulas import Formula


@dataclass(frozen=True)
class Operation:
    """The cost of one equation on a sequence of n tokens."""

    equation: str
    name: str
    products: Formula
    pointwise: Formula
    times: Formula
    backward: Formula
    """Matrix products of the backward pass: as many for the weights, and again for the input."""


def step(
    equation: str,
    name: str,
    products: str = "0",
    pointwise: str = "0",
    times: str = "1",
    backward: str | None = None,
) -> Operation:
    backward = f"2 ({products})" if backward is None else backward
    return Operation(
        equation, name, Formula(products), Formula(pointwise), Formula(times), Formula(backward)
    )


NORM = "n (7 d_e + 2)"
RMS_NORM = "n (4 d_e + 2)"


def blocks(
    variant: int, batch_norm: bool = False, qkv_bias: bool = True, layer_norm: str = NORM
) -> list[Operation]:
    biases = "ζ n M (2 d_k + d_v)" if qkv_bias else "0"
    norm = "4 n d_e + 2 d_e" if batch_norm else layer_norm
    first, second = ("34", "38") if variant == 1 else ("14b", "14b")
    return [
        step("24", "queries, keys, values", "2 n M d_e (2 d_k + d_v)", biases, "L"),
        step("25", "attention scores", "2 n² M d_k", "7 n² M", "L"),
        step("26", "weighted values", "2 n² M d_v", times="L"),
        step("30", "heads brought together", "2 n M d_v d_e", "ζ n d_e", "L"),
        step(first, "residual and normalisation", pointwise=f"n d_e + {norm}", times="L"),
        step("37", "feedforward network", "4 n d_e d_f", "n ((a + 1) d_f + d_e)", "L"),
        step(second, "residual and normalisation", pointwise=f"n d_e + {norm}", times="L"),
    ]


def word_output(words: str) -> list[Operation]:
    return [
        step("9", "logits", f"2 n d_e {words}"),
        step("10", "softmax", pointwise=f"5 n {words}"),
    ]


def transformer(config: configs.Transformer) -> list[Operation]:
    norm = NORM if config.symbols()["centred"] else RMS_NORM
    if config.variant == 1:
        before, after = [step("39", "positions, normalised", pointwise=f"n d_e + {norm}")], []
    else:
        before = [step("7", "positions", pointwise="n d_e")]
        after = [step("35", "final normalisation", pointwise=norm)]
    between = blocks(config.variant, layer_norm=norm)
    return [*before, *between, *after, *word_output(components.words(config))]


def bert(config: configs.Bert) -> list[Operation]:
    rows = [step("51", "positions and segments, normalised", pointwise=f"2 n d_e + {NORM}")]
    rows += blocks(1)
    if config.pooler:
        rows.append(step("57", "pooler", "2 d_e²", "2 d_e"))
    if config.mlm_head:
        rows += [
            step("53", "dense layer of the MLM head", "2 n d_e²", "n (a + 1) d_e"),
            step("54", "its normalisation", pointwise=NORM),
            step("55", "logits", "2 n d_e |V|", "n |V|"),
            step("56", "softmax", pointwise="5 n |V|"),
        ]
    if config.nsp_head:
        rows.append(step("58", "NSP head", "4 d_e", "12"))
    if config.labels:
        many = "n " if config.labelled != "sequence" else ""
        rows.append(step("6.1", "label head", f"2 {many}d_e |Y|", f"6 {many}|Y|"))
    return rows


def vit(config: configs.ViT) -> list[Operation]:
    patches = "(n − 1)"
    projection = f"2 {patches} P² C d_e"
    rows = [
        # The image needs no gradient, so the backward pass has the weights' products only.
        step("7.1", "patch projection", projection, f"{patches} d_e", backward=projection),
        step("7", "positions", pointwise="n d_e"),
        *blocks(2, qkv_bias=config.qkv_bias),
        step("35", "final normalisation", pointwise=NORM),
    ]
    if config.pooler:
        rows.append(step("57", "pooler", "2 d_e²", "2 d_e"))
    if config.classes:
        rows.append(step("7.1", "class head", "2 d_e |Y|", "6 |Y|"))
    if config.masked_patch_head:
        rows.append(step("7.1", "masked-patch head", f"2 {patches} d_e P² C", f"{patches} P² C"))
    return rows


def tst(config: configs.TST) -> list[Operation]:
    flat = step("7.2", "padding and output layer", "2 n d_e |Y|", "n d_e + |Y|")
    series = step("7.2", "output layer", "2 n d_e C", "n C")
    return [
        step("7.2", "projection", "2 n C d_e", "2 n d_e", backward="2 n C d_e"),
        step("7", "positions", pointwise="n d_e"),
        *blocks(1, batch_norm=config.normalisation == "batch"),
        step("7.2", "activation", pointwise="n a d_e"),
        series if config.head == "series" else flat,
    ]


def ffnn(config: configs.Feedforward) -> list[Operation]:
    rows = [step("23", "first dense layer", "2 n d_e d_h", "(a + 1) d_h")]
    if config.layers > 1:
        rows.append(step("23", "further dense layers", "2 d_h²", "(a + 1) d_h", "L − 1"))
    bias = "|V|" if config.output_bias else "0"
    return [
        *rows,
        step("4", "logits", "2 d_h |V|", bias),
        step("5", "softmax", pointwise="5 |V|"),
    ]


def _recurrent(config: configs.Recurrent, gates: list[tuple[str, str, str]]) -> list[Operation]:
    rows = []
    for equation, name, pointwise in gates:
        below = [("d_e", "first layer", "1"), ("d_o", "further layers", "L − 1")]
        for width, which, times in below[: 1 if config.layers == 1 else 2]:
            what = f"{name}, {which}" if config.layers > 1 else name
            products = f"2 n d_o ({width} + d_o)" if name != "context" else "0"
            # The state before the first step is constant: no gradient flows into it.
            backward = "0" if name == "context" else f"2 ({products}) − 2 d_o²"
            rows.append(step(equation, what, products, pointwise, times, backward))
    bias = "n |V|" if config.output_bias else "0"
    return [
        *rows,
        step("9", "logits", "2 n d_o |V|", bias),
        step("10", "softmax", pointwise="5 n |V|"),
    ]


def elman(config: configs.Elman) -> list[Operation]:
    return _recurrent(config, [("41", "state", "n (a + 2) d_o")])


def lstm(config: configs.LSTM) -> list[Operation]:
    return _recurrent(
        config,
        [
            ("44", "candidate", "3 n d_o"),
            ("45", "forget gate", "7 n d_o"),
            ("46", "add gate", "7 n d_o"),
            ("47", "context", "n d_o"),
            ("48", "output gate", "8 n d_o"),
        ],
    )

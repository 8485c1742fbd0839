"""How many parameters a model has (5.2, 5.3, 6.1): equations 40, 42, 49, 50 and 60."""

from vesalius.equations.registry import equation, formula

_BLOCK = r"2 M d_e (d_k + d_v) + \zeta (M (2 d_k + d_v) + d_e) + 2 d_e d_f + 5 d_e + d_f"
_BLOCKS = rf"L\left({_BLOCK}\right)"


@formula("5.2", r"\eta_8 = " + _BLOCK, gives="eta")
def block_parameters(d_e: int, M: int, d_k: int, d_v: int, d_f: int, zeta: int) -> int:
    """The number of parameters of a transformer block, η₈ of Table 4.

    η₈ = 2 M dₑ (d_k + d_v) + ζ (M (2 d_k + d_v) + dₑ) + 2 dₑ d_f + 5 dₑ + d_f
    """
    attention = 2 * M * d_e * (d_k + d_v) + zeta * (M * (2 * d_k + d_v) + d_e)
    return attention + 2 * d_e * d_f + 5 * d_e + d_f


@equation(
    40,
    "5.2",
    r"\eta_{\mathrm{GPT2}} = d_e(|\mathcal{V}| + n + 2) + " + _BLOCKS,
    gives="eta",
)
def gpt2_parameters(
    d_e: int, V: int, n: int, L: int, M: int, d_k: int, d_v: int, d_f: int, zeta: int
) -> int:
    """The number of parameters of GPT-2.

    η = dₑ (|V| + n + 2) + L (2 M dₑ (d_k + d_v) + ζ (M (2 d_k + d_v) + dₑ) + 2 dₑ d_f + 5 dₑ + d_f)
    """
    return d_e * (V + n + 2) + L * block_parameters(d_e, M, d_k, d_v, d_f, zeta)


@equation(42, "5.3", r"\eta_{RNN} = 2 d_e^2 + d_e", gives="eta")
def elman_parameters(d_e: int) -> int:
    """The number of parameters of an Elman layer.

    η = 2 dₑ² + dₑ
    """
    return 2 * d_e**2 + d_e


@equation(49, "5.3", r"\eta_{LSTM} = 4 d_o (d_o + d_i + 1)", gives="eta")
def lstm_parameters(d_i: int, d_o: int) -> int:
    """The number of parameters of an LSTM layer.

    η = 4 dₒ (dₒ + dᵢ + 1)
    """
    return 4 * d_o * (d_o + d_i + 1)


@equation(50, "5.3", r"\eta_{LSTM} = 4 d_e (2 d_e + 1)", gives="eta")
def square_lstm_parameters(d_e: int) -> int:
    """The number of parameters of an LSTM layer as wide as its input.

    η = 4 dₑ (2 dₑ + 1)
    """
    return 4 * d_e * (2 * d_e + 1)


@equation(
    60,
    "6.1",
    r"\eta_{\mathrm{BERT}} = d_e(|\mathcal{V}| + n + 2 d_e + 8) + " + _BLOCKS + r" + |\mathcal{V}|",
    gives="eta",
)
def bert_parameters(
    d_e: int, V: int, n: int, L: int, M: int, d_k: int, d_v: int, d_f: int, zeta: int
) -> int:
    """The number of parameters of BERT with its MLM head.

    η = dₑ (|V| + n + 2 dₑ + 8) + |V|
      + L (2 M dₑ (d_k + d_v) + ζ (M (2 d_k + d_v) + dₑ) + 2 dₑ d_f + 5 dₑ + d_f)
    """
    return d_e * (V + n + 2 * d_e + 8) + L * block_parameters(d_e, M, d_k, d_v, d_f, zeta) + V

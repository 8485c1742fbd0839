"""How many parameters a model has: equations 40, 42, 49, 50 and 60, against modules that exist."""

import peers
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vesalius.equations import (
    bert_parameters,
    block_parameters,
    elman_parameters,
    gpt2_parameters,
    lstm_parameters,
    square_lstm_parameters,
)
from vesalius.families import configuration

width = st.integers(1, 30)


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.proves(40)
@pytest.mark.parametrize("name", ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"])
def test_gpt2_has_as_many_parameters_as_transformers_builds(name):
    config = configuration(name)
    with torch.device("meta"):
        expected = size(peers.empty_gpt2(config))
    s = config.symbols()
    letters = {letter: s[letter] for letter in ("d_e", "V", "n", "L", "M", "d_k", "d_v", "d_f")}
    assert gpt2_parameters(**letters, zeta=1) == expected


@pytest.mark.proves(60)
@pytest.mark.parametrize("name", ["bert-tiny", "bert-base-uncased", "bert-large-cased"])
def test_bert_has_as_many_parameters_as_transformers_builds_less_the_nsp_head(name):
    config = configuration(name)
    with torch.device("meta"):
        model = peers.empty_bert(config)
        expected = size(model) - size(model.cls.seq_relationship)
    s = config.symbols()
    letters = {letter: s[letter] for letter in ("d_e", "V", "n", "L", "M", "d_k", "d_v", "d_f")}
    assert bert_parameters(**letters, zeta=1) == expected


@given(width, width, width)
def test_a_block_is_as_large_as_pytorchs_encoder_layer(d, M, d_f):
    with torch.device("meta"):
        layer = torch.nn.TransformerEncoderLayer(M * d, M, d_f)
    assert block_parameters(M * d, M, d, d, d_f, zeta=1) == size(layer)


@pytest.mark.proves(42)
@given(width)
def test_an_elman_layer_is_as_large_as_pytorchs_with_one_bias(d_e):
    with torch.device("meta"):
        layer = torch.nn.RNN(d_e, d_e)
    assert elman_parameters(d_e) == size(layer) - d_e


@pytest.mark.proves(49, 50)
@given(width, width)
def test_an_lstm_layer_is_as_large_as_pytorchs_with_one_bias(d_i, d_o):
    with torch.device("meta"):
        layer = torch.nn.LSTM(d_i, d_o)
    assert lstm_parameters(d_i, d_o) == size(layer) - 4 * d_o
    assert square_lstm_parameters(d_o) == lstm_parameters(d_o, d_o)

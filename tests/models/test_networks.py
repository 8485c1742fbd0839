"""Every network computes what its equations say, and has as many parameters as its formula."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from agreement import agree
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import configurations, filled, logits, small

import vesalius as vs
from vesalius import count
from vesalius.equations import (
    OneHot,
    bert_mlm_logits,
    bert_pooled,
    bert_states,
    label_logits,
    nsp_logits,
    patches,
    patchtst_forecast,
    pool,
    tracing,
    tst_outputs,
    tst_series,
    vit_class_logits,
    vit_patches,
    vit_states,
)
from vesalius.errors import (
    ImpossibleSetting,
    SequenceTooLong,
    TokenOutOfRange,
    WrongKind,
    WrongLength,
)
from vesalius.families import configuration, family_of, names
from vesalius.families.ffnn import FeedforwardConfig

WITHIN = 1e-10  # of the largest number; double precision rounds at 1e-16, a wrong GELU is 4.7e-4
batches = st.integers(2, 3)
seeds = st.integers(0, 2**32 - 1)


def run(network, *arrays):
    """What the network gives for a batch: an array, or one for each of its outputs."""
    with torch.no_grad():
        result = network(*(None if a is None else torch.tensor(a) for a in arrays))
    if torch.is_tensor(result):
        return result.numpy()
    outputs = {k: None if v is None else v.numpy() for k, v in vars(result).items()}
    return SimpleNamespace(**outputs)


def draw_length(data, config):
    """As long as the positions reach; what has none, or makes them, reads any length."""
    if isinstance(config, FeedforwardConfig):
        return config.context
    limited = getattr(config, "positions", None) == "learned"
    return data.draw(st.integers(1, config.context if limited else 15))


def draw_real(rng, batch, n):
    """Padding anywhere, but never nothing else."""
    real = rng.random((batch, n)) < 0.7
    real[np.arange(batch), rng.integers(n, size=batch)] = True
    return real


@pytest.mark.parametrize("family", ["ffnn", "rnn", "lstm", "transformer", "gpt2", "igpt"])
@settings(max_examples=20)
@given(data=st.data())
def test_a_language_model_of_any_shape_computes_its_equations(family, data):
    config = data.draw(configurations(family))
    batch, seed = data.draw(batches), data.draw(seeds)
    n = draw_length(data, config)
    model = filled(config, seed)
    ids = np.random.default_rng(seed).integers(config.vocabulary, size=(batch, n))
    ours = run(model.network, ids)
    for sequence, found in zip(ids, ours, strict=True):
        Omega = OneHot(sequence, config.vocabulary)
        agree(found.T, logits(config, model.parameters, Omega), WITHIN)


@pytest.mark.parametrize("family", ["rnn", "lstm", "transformer", "gpt2"])
@settings(max_examples=10)
@given(data=st.data())
def test_a_label_head_reads_the_last_token_or_the_mean_and_no_padding(family, data):
    config = data.draw(configurations(family)).change(labels=3)
    seed = data.draw(seeds)
    n = draw_length(data, config)
    model, rng = filled(config, seed), np.random.default_rng(seed)
    ids = rng.integers(config.vocabulary, size=(3, n))
    lengths = rng.integers(1, n + 1, size=3)
    real = np.arange(n) < lengths[:, None]
    with torch.no_grad():
        padded = model.network.labels(torch.tensor(ids), torch.tensor(real)).numpy()
        whole = model.network.labels(torch.tensor(ids)).numpy()
    for b, length in enumerate(lengths):
        for found, read in ((padded[b], ids[b, :length]), (whole[b], ids[b])):
            with tracing("z") as steps:
                family_of(config).run(
                    model.parameters, OneHot(read, config.vocabulary), config.symbols()
                )
            agree(found, steps["z"], WITHIN)
    assert (
        count(config).total - count(config.change(labels=0)).total
        == model.state["label_head.weight"].size
    )


def test_labels_are_refused_where_there_is_no_head():
    with pytest.raises(WrongKind, match="no label head"):
        filled(small("gpt2")).network.labels(torch.tensor([[1, 2]]))
    with pytest.raises(ImpossibleSetting, match="labels must be below 1"):
        small("igpt", labels=2)


@settings(max_examples=25)
@given(data=st.data())
def test_bert_with_any_heads_computes_its_equations(data):
    config = data.draw(configurations("bert"))
    batch, seed = data.draw(batches), data.draw(seeds)
    n = data.draw(st.integers(1, config.context))
    model, rng = filled(config, seed), np.random.default_rng(seed)
    theta = model.parameters
    ids = rng.integers(config.vocabulary, size=(batch, n))
    segments = data.draw(st.sampled_from([None, rng.integers(config.segments, size=ids.shape)]))
    real = data.draw(st.sampled_from([None, draw_real(rng, batch, n)]))
    ours = run(model.network, ids, segments, real)
    for b in range(batch):
        companions = (None if x is None else x[b] for x in (segments, real))
        H = bert_states(theta, OneHot(ids[b], config.vocabulary), *companions)
        agree(ours.hidden[b].T, H, WITHIN)
        pooled = bert_pooled(theta, H) if config.pooler else None
        if config.pooler:
            agree(ours.pooled[b], pooled, WITHIN)
        if config.mlm_head:
            agree(ours.mlm[b].T, bert_mlm_logits(theta, H), WITHIN)
        if config.nsp_head:
            agree(ours.nsp[b], nsp_logits(theta.Pi_N, pooled), WITHIN)
        if config.labels:
            known = slice(None) if real is None else real[b]
            of_all = H[:, known].mean(axis=1) if config.pooling == "mean" else pooled
            read = of_all if config.labelled == "sequence" else H
            agree(ours.labels[b].T, label_logits(theta.Pi_Y, read), WITHIN)
    heads = {"pooled": "pooler", "mlm": "mlm_head", "nsp": "nsp_head", "labels": "labels"}
    for output, head in heads.items():
        assert (getattr(ours, output) is not None) == bool(getattr(config, head))


@settings(max_examples=20)
@given(data=st.data())
def test_a_vision_transformer_with_any_heads_computes_its_equations(data):
    config = data.draw(configurations("vit"))
    batch, seed = data.draw(batches), data.draw(seeds)
    model, rng = filled(config, seed), np.random.default_rng(seed)
    theta = model.parameters
    images = rng.normal(size=(batch, config.image, config.image, config.channels))
    masked = rng.random((batch, (config.image // config.patch) ** 2)) < 0.4
    masked = data.draw(st.sampled_from([None, masked])) if config.masked_patch_head else None
    ours = run(model.network, images.transpose(0, 3, 1, 2), masked)
    for b in range(batch):
        Omega = patches(images[b], config.patch)
        H = vit_states(theta, Omega, None if masked is None else masked[b])
        agree(ours.hidden[b].T, H, WITHIN)
        if config.pooler:
            agree(ours.pooled[b], pool(theta.Pi_C, H[:, 0]), WITHIN)
        if config.classes and masked is None:
            agree(ours.logits[b], vit_class_logits(theta, Omega), WITHIN)
        if masked is not None:
            agree(ours.patches[b].T, vit_patches(theta, Omega, masked[b]), WITHIN)
    heads = {"pooled": "pooler", "logits": "classes", "patches": "masked_patch_head"}
    for output, head in heads.items():
        assert (getattr(ours, output) is not None) == bool(getattr(config, head))


@settings(max_examples=25)
@given(data=st.data())
def test_a_time_series_transformer_of_any_shape_computes_its_equations(data):
    config = data.draw(configurations("tst"))
    batch, seed = data.draw(batches), data.draw(seeds)
    model, rng = filled(config, seed), np.random.default_rng(seed)
    theta = model.parameters
    if config.head == "series":
        n = draw_length(data, config)
        series = rng.normal(size=(batch, n, config.channels))
        real = data.draw(st.sampled_from([None, draw_real(rng, batch, n)]))
        ours = run(model.network, series, real)
        for b in range(batch):
            expected = tst_series(theta, series[b].T, None if real is None else real[b])
            agree(ours[b].T, expected, WITHIN)
        return
    # What stands where there is padding must not matter: here it is noise.
    series = rng.normal(size=(batch, config.context, config.channels))
    lengths = rng.integers(1, config.context + 1, size=batch)
    ours = run(model.network, series, np.arange(config.context) < lengths[:, None])
    for b, length in enumerate(lengths):
        agree(ours[b], tst_outputs(theta, series[b, :length].T), WITHIN)


@pytest.mark.parametrize("family", ["rnn", "lstm"])
@settings(max_examples=25)
@given(data=st.data())
def test_a_recurrent_network_goes_on_from_where_it_stopped(family, data):
    config = data.draw(configurations(family))
    batch, seed = data.draw(batches), data.draw(seeds)
    cuts = sorted(data.draw(st.sets(st.integers(1, 9), max_size=4)))
    network = filled(config, seed).network
    ids = np.random.default_rng(seed).integers(config.vocabulary, size=(batch, 10))
    state, pieces = network.initial_state(batch), []
    with torch.no_grad():
        for piece in np.split(ids, cuts, axis=1):
            logits, state = network(torch.tensor(piece), state)
            pieces.append(logits.numpy())
        whole, final = network(torch.tensor(ids), network.initial_state(batch))
        agree(whole, network(torch.tensor(ids)))
    agree(np.concatenate(pieces, axis=1), whole)
    for carried, at_once in zip(state, final, strict=True):
        agree(carried, at_once)


@settings(max_examples=15)
@given(data=st.data())
def test_patchtst_of_any_shape_computes_its_equations(data):
    config = data.draw(configurations("patchtst"))
    model = filled(config)
    series = np.random.default_rng(1).normal(3, 2, size=(2, config.context, config.channels))
    ours = run(model.network, series)
    for b in range(2):
        agree(ours[b].T, patchtst_forecast(model.parameters, series[b].T), WITHIN)


@pytest.mark.parametrize("family", ["transformer", "gpt2", "igpt", "bert", "vit", "tst"])
def test_no_sequence_of_a_batch_sees_another(family):
    config = small(family)
    model, rng = filled(config), np.random.default_rng(0)
    if family == "vit":
        given = rng.normal(size=(3, config.channels, config.image, config.image))
    elif family == "tst":
        given = rng.normal(size=(3, config.context, config.channels))
    else:
        given = rng.integers(config.vocabulary, size=(3, config.context))
    whole = first_output(run(model.network, given))
    for b in range(3):
        agree(whole[b], first_output(run(model.network, given[b : b + 1]))[0])


def test_masking_patches_needs_the_head_that_restores_them():
    model = filled(small("vit"))
    images, masked = np.zeros((1, 6, 6, 3)), np.ones((1, 9), dtype=bool)
    with pytest.raises(ValueError, match="no masked-patch head"):
        vit_states(model.parameters, patches(images[0], 2), masked[0])
    with pytest.raises(ValueError, match="no masked-patch head"):
        run(model.network, images.transpose(0, 3, 1, 2), masked)


def first_output(result):
    return getattr(result, "hidden", result)


def test_a_causal_network_does_not_look_ahead():
    network = filled(small("gpt2")).network
    before, after = (run(network, np.array([[3, 1, 4, tail]])) for tail in (1, 5))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert not np.allclose(before[:, 3], after[:, 3])


@pytest.mark.parametrize("name", names())
def test_every_named_network_has_as_many_parameters_as_its_formula_says(name):
    config = configuration(name)
    with torch.device("meta"):
        network = family_of(config).network(config)
    assert all(parameter.is_meta for parameter in network.parameters())
    assert sum(parameter.numel() for parameter in network.parameters()) == count(name).total


def test_a_short_series_is_padded_for_the_output_layer_as_the_equations_do():
    model = vs.create("tst", context=9, channels=2, embedding=8, heads=2, layers=1)
    series = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    with torch.no_grad():
        ours = model.network(torch.tensor(series)[None])[0].numpy()
    agree(ours, tst_outputs(model.parameters, series.T), 1e-6)  # single precision


@pytest.mark.parametrize(
    ("family", "settings", "given", "error", "says"),
    [
        (
            "ffnn",
            {"context": 4},
            torch.zeros(2, 3, dtype=torch.long),
            WrongLength,
            "4 tokens, got 3",
        ),
        ("gpt2", {"heads": 2}, torch.tensor([[0, 99]]), TokenOutOfRange, "0 to 19, got 0 to 99"),
        ("lstm", {}, torch.tensor([[-1]]), TokenOutOfRange, "got -1 to -1"),
        (
            "tst",
            {"context": 4, "positions": "sinusoidal"},
            torch.zeros(1, 5, 12),
            SequenceTooLong,
            "5 time steps, the model 4",
        ),
    ],
)
def test_input_that_does_not_fit_is_named(family, settings, given, error, says):
    words = {} if family == "tst" else {"vocabulary": 20}
    network = vs.create(family, embedding=16, **words, **settings).network
    with pytest.raises(error, match=says):
        network(given)


def test_only_the_words_of_chosen_places_are_predicted():
    network = vs.create("bert", layers=1, embedding=12, vocabulary=30, mlm_head=True).network
    ids, chosen = (
        torch.arange(10).view(2, 5),
        torch.rand(2, 5, generator=torch.manual_seed(0)) < 0.4,
    )
    with torch.no_grad():
        torch.testing.assert_close(network(ids, predict=chosen).mlm, network(ids).mlm[chosen])

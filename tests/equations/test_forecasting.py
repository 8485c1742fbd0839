"""PatchTST's equations, against PyTorch's own padding and unfolding, and taken apart again."""

import numpy as np
import pytest
import torch
from agreement import agree
from strategies import filled, small

import vesalius as vs
from vesalius.equations import channel_mask, cut_patches, patchtst_forecast
from vesalius.errors import NotFinite, WrongLength

WAYS = [{"affine": True}, {"end_padding": False, "context": 9}, {"positions": "sinusoidal"}]


@pytest.mark.parametrize(("tau", "P", "s"), [(336, 16, 8), (104, 24, 2), (10, 4, 3), (5, 5, 2)])
def test_patches_are_those_of_the_published_code_and_of_transformers(rng, tau, P, s):
    series = rng.normal(size=(3, tau))
    padded = torch.nn.ReplicationPad1d((0, s))(torch.tensor(series)).unfold(-1, P, s)
    agree(cut_patches(series, P, s, s), padded.reshape(-1, P).T.numpy())
    assert (
        padded.shape[1]
        == vs.configuration("patchtst", context=tau, patch=P, stride=s).symbols()["n"]
    )
    start = (tau - P) % s  # Transformers leaves out the oldest values
    agree(
        cut_patches(series, P, s, 0),
        torch.tensor(series)[:, start:].unfold(-1, P, s).reshape(-1, P).T.numpy(),
    )


@pytest.mark.parametrize("way", WAYS)
def test_every_number_of_a_forecast_can_be_unfolded_and_attributed(way):
    config = small("patchtst", **way)
    series = np.random.default_rng(0).normal(3, 2, size=(config.channels, config.context))
    trace = vs.dissect(filled(config), series)
    for step in trace.steps:
        for share in (0.0, 0.4, 0.999):
            cell = tuple(int(share * n) for n in step.value.shape)
            if np.isfinite(step.value[cell]):
                assert abs(vs.unfold(trace, step.name, *cell).difference) < 1e-11, step.name
    found = vs.attribute(trace, ("Omega_hat", 1, 2))
    assert abs(found.difference) < 1e-10
    assert trace.tokens()[config.symbols()["n"]] == "c2 patch 1"


def test_channels_do_not_see_each_other():
    config = small("patchtst")
    model = filled(config)
    series = np.random.default_rng(0).normal(size=(2, 8))
    other = np.stack([series[0], series[1] ** 3])
    before, after = (vs.dissect(model, given)["Omega_hat"] for given in (series, other))
    agree(before[0], after[0])
    assert np.abs(before[1] - after[1]).max() > 1e-3
    assert np.isneginf(channel_mask(2, 3)).sum() == 18


def test_the_level_of_a_series_comes_back(rng):
    """Shifted and scaled, a series has a forecast that is shifted and scaled; ε aside."""
    theta, series = filled(small("patchtst")).parameters, rng.normal(size=(2, 8))
    agree(
        patchtst_forecast(theta, 1000 + 1e4 * series),
        1000 + 1e4 * patchtst_forecast(theta, series),
        1e-4,
    )
    with pytest.raises(NotFinite, match="fill the gaps"):
        patchtst_forecast(theta, np.full((1, 8), np.nan))
    for length in (2, 6):
        with pytest.raises(WrongLength, match=f"the series has {length} time steps"):
            patchtst_forecast(theta, np.zeros((1, length)))

"""The time series transformer (7.2), against PyTorch's layers and by hand."""

import numpy as np
import peers
import pytest
import torch
from agreement import agree
from scipy.stats import zscore

from vesalius.equations import (
    mask_series,
    masked_square_error,
    series_mask,
    tst_outputs,
    tst_series,
    tst_states,
    z_score,
)
from vesalius.errors import EmptySequence, NotFinite, SequenceTooLong, VesaliusError, WrongLength
from vesalius.families import configuration, random_parameters

SMALL = {"channels": 4, "context": 7, "layers": 2, "embedding": 12, "heads": 3, "feedforward": 20}


@pytest.mark.parametrize("normalisation", ["batch", "layer"])
def test_states_and_classes_are_those_of_the_published_model(rng, normalisation):
    config = configuration("tst", **SMALL, normalisation=normalisation, outputs=3)
    theta = random_parameters(config, 0)
    Omega, real = rng.normal(size=(4, 7)), np.arange(7) < 5
    Omega[:, 5:] = 0
    published = peers.tst(theta, config)
    states, z = published(torch.tensor(Omega.T)[None], torch.tensor(real)[None])
    agree(tst_states(theta, Omega, real) * real, states[0].detach().numpy().T)
    agree(tst_outputs(theta, Omega[:, :5]), z[0].detach().numpy())


def test_the_masked_series_head_reads_every_time_step_by_itself(rng):
    theta = random_parameters(configuration("tst", **SMALL, head="series"), 0)
    Omega = rng.normal(size=(4, 6))
    restored = tst_series(theta, Omega)
    assert restored.shape == (4, 6)
    H = tst_states(theta, Omega)
    for i in range(6):
        expected = theta.Pi_Y.W @ H[:, i] + theta.Pi_Y.b
        agree(restored[:, i], expected)


def test_z_scores_are_scipys_and_a_constant_channel_is_zero(rng):
    Omega = rng.normal(3, 5, size=(4, 9))
    agree(z_score(Omega), zscore(Omega, axis=1))
    assert z_score(np.full((1, 3), 7.0)).tolist() == [[0, 0, 0]]
    training = z_score(Omega, np.full(4, 3.0), np.full(4, 5.0))
    agree(training, (Omega - 3) / 5)


def test_masked_values_are_zero_and_the_others_stay():
    M = np.array([[True, False], [False, True]])
    assert mask_series(M, np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[1, 0], [0, 4]]


def test_masks_have_the_ratio_and_the_segment_length_asked_for(rng):
    kept = series_mask(200, 2000, ratio=0.15, mean_length=3, rng=rng)
    assert (~kept).mean() == pytest.approx(0.15, abs=0.005)
    flat = np.pad(~kept, ((0, 0), (1, 1))).astype(int)
    starts = (np.diff(flat, axis=1) == 1).sum()
    assert (~kept).sum() / starts == pytest.approx(3, abs=0.05)
    assert len({tuple(row) for row in kept}) == 200  # every channel has a mask of its own


def test_the_error_is_that_of_masked_values_alone():
    Omega, restored = np.array([[1.0, 2.0, 3.0]]), np.array([[99.0, 4.0, 6.0]])
    M = np.array([[True, False, False]])
    assert masked_square_error(restored, Omega, M) == (4 + 9) / 2


def test_single_precision_stays_single(rng):
    theta = random_parameters(configuration("tst", **SMALL), 0, np.float32)
    assert tst_states(theta, rng.normal(size=(4, 7)).astype(np.float32)).dtype == np.float32


def test_series_the_model_cannot_read_are_refused(rng):
    theta = random_parameters(configuration("tst", **SMALL), 0)
    gap = rng.normal(size=(4, 7))
    gap[1, 2] = np.nan
    for series, error, message in (
        (gap, NotFinite, "fill the gaps"),
        (np.empty((4, 0)), EmptySequence, "at least one time step"),
        (rng.normal(size=(4, 8)), SequenceTooLong, "8"),
    ):
        with pytest.raises(error, match=message):
            tst_states(theta, series)
    with pytest.raises(SequenceTooLong, match="8 time steps, the model 7"):
        tst_outputs(theta, rng.normal(size=(4, 8)))
    with pytest.raises(WrongLength, match="expected 7 real"):
        tst_states(theta, rng.normal(size=(4, 7)), np.array([True]))
    with pytest.raises(EmptySequence, match="keeps everything"):
        masked_square_error(gap, gap, np.ones((4, 7), dtype=bool))
    with pytest.raises(VesaliusError, match="ratio between 0 and 1"):
        series_mask(1, 1, ratio=0, mean_length=3, rng=rng)

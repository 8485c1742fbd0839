"""How close two results must be."""

import numpy as np


def agree(ours, theirs, within=1e-12):
    """Assert agreement relative to the largest number, which rounding is proportional to.

    Double precision carries 1.1e-16 a rounding; 1e-12 leaves room for the sums of small models and
    is far below any mistake in a formula.
    """
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, f"{ours.shape} against {theirs.shape}"
    largest = max(1.0, np.abs(theirs).max(initial=0))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=within * largest)

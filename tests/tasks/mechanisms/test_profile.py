"""Profiles: a public guess of how teachers agree, as rows of shares."""

import numpy as np
import pytest

from tests.world import PROFILE_ROWS, profile


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("mean", [0.6, 0.9, 1.0])
def test_a_figure_becomes_rows_of_shares_with_that_mean(mean: float, classes: int) -> None:
    shares = profile(mean, classes)
    assert shares.shape == (PROFILE_ROWS, classes)
    assert shares.sum(axis=1) == pytest.approx(np.ones(PROFILE_ROWS))
    assert (np.diff(shares, axis=1) <= 1e-12).all()
    assert shares[:, 0].mean() == pytest.approx(mean, abs=2e-3)


def test_what_the_winner_lacks_goes_to_as_few_rivals_as_can_hold_it() -> None:
    torn = profile(0.6, 4)[0]
    assert torn[0] < 0.4
    assert torn[1] == torn[0]

"""Profiles: a public guess of how teachers agree, as rows of shares."""

import math

import numpy as np
import pytest

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.odds import PROFILE_ROWS, profile


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("mean", [0.6, 0.9, 1.0])
def test_a_figure_becomes_rows_of_shares_with_that_mean(mean: float, classes: int) -> None:
    shares = profile(mean, classes)
    assert shares.shape == (PROFILE_ROWS, classes)
    assert shares.sum(axis=1) == pytest.approx(np.ones(PROFILE_ROWS))
    assert (np.diff(shares, axis=1) <= 1e-12).all()
    assert shares[:, 0].mean() == pytest.approx(mean, abs=2e-3)


def test_counts_become_shares_whatever_the_order_of_classes() -> None:
    assert profile([[1, 3], [4, 0], [2, 2]], 2).tolist() == [[0.75, 0.25], [1, 0], [0.5, 0.5]]
    assert profile([0.75, 1.0], 2).tolist() == [[0.75, 0.25], [1, 0]]
    assert profile([0.4], 4)[0] == pytest.approx([0.4, 0.4, 0.2, 0])


def test_a_long_sample_is_thinned_evenly() -> None:
    winner = np.linspace(0.5, 1, 100_000)
    thin = profile(np.random.default_rng(20240229).permutation(winner), 2)
    assert len(thin) == PROFILE_ROWS
    assert thin[:, 0] == pytest.approx(0.5 + 0.5 * (np.arange(PROFILE_ROWS) + 0.5) / PROFILE_ROWS, abs=1e-4)


@pytest.mark.parametrize(
    "wrong", [0.5, 0.3, 1.01, math.nan, [], [0.2], [1.2], [[1, 2, 3]], [[0, 0]], [[-1, 2]], [math.inf]]
)
def test_what_is_no_guess_is_refused(wrong: object) -> None:
    with pytest.raises(WrongInput, match=r"agreement must|a winner's share must"):
        profile(np.asarray(wrong), 2)

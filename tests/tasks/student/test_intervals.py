"""Intervals of figures on public test rows: exact coverage of shares and their means, and simulated of the rest."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, norm, t
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.world import (
    LEVEL,
    CalibrationBin,
    ClassMeasured,
    Estimate,
    PublicTest,
    auc,
    average_precision,
    explained,
    mean_of_shares,
    root_mean_square,
    share,
)

RNG = np.random.default_rng(20)
TRIALS = 1000
LEAST = LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / TRIALS)
"""What an interval that is right in the limit covers in TRIALS, but for one time in 30,000."""


def covers(estimate: Estimate, true: float) -> bool:
    return estimate.low <= true <= estimate.high


@pytest.mark.parametrize("rows", [1, 2, 7, 40, 300])
def test_a_share_has_the_interval_of_clopper_and_pearson(rows: int) -> None:
    for hits in {0, 1, rows // 3, rows - 1, rows}:
        exact = binomtest(hits, rows).proportion_ci(LEVEL, method="exact")
        found = share(hits, rows)
        assert (found.value, found.low, found.high) == pytest.approx((hits / rows, exact.low, exact.high))


@pytest.mark.parametrize("rows", [1, 3, 12, 50])
def test_a_share_is_covered_exactly_whatever_it_is(rows: int) -> None:
    ends = [share(hits, rows) for hits in range(rows + 1)]
    for true in np.linspace(0, 1, 201):
        law = np.asarray(binom.pmf(range(rows + 1), rows, true))
        assert law @ [covers(end, float(true)) for end in ends] >= LEVEL - 1e-12


@pytest.mark.parametrize("sizes", [(2, 3), (5, 40), (20, 20), (3, 120)])
def test_a_mean_of_shares_is_nearly_covered_whatever_they_are(sizes: tuple[int, int]) -> None:
    shares = [[share(hits, rows) for hits in range(rows + 1)] for rows in sizes]
    means = {pair: mean_of_shares(pair) for pair in itertools.product(*shares)}
    covered = []
    for true in itertools.product((0.01, 0.03, 0.06, 0.1, 0.3, 0.5, 0.8, 0.97), repeat=2):
        laws = [np.asarray(binom.pmf(range(rows + 1), rows, each)) for rows, each in zip(sizes, true, strict=True)]
        held = [covers(mean, float(np.mean(true))) for mean in means.values()]
        covered.append(float(np.outer(*laws).ravel() @ held))
    assert min(covered) >= 0.925
    assert np.mean(covered) >= LEVEL


Scores = tuple[NDArray[np.float64], NDArray[np.bool_]]


def normal_scores(many: int, others: int, apart: float, spread: float = 1.0) -> Callable[[], Scores]:
    """Scores of rows of a class, which lie `apart` from others on average and have that `spread`."""
    own = np.arange(many + others) < many
    return lambda: (np.where(own, apart, 0) + RNG.normal(size=many + others) * np.where(own, spread, 1), own)


SAMPLES = {
    "as many": (normal_scores(60, 60, 1.0), norm.cdf(1 / math.sqrt(2))),
    "a rare class": (normal_scores(15, 1000, 1.0), norm.cdf(1 / math.sqrt(2))),
    "a wide rare class": (normal_scores(20, 1000, 1.5, 3.0), norm.cdf(1.5 / math.sqrt(10))),
    "a narrow rare class": (normal_scores(20, 1000, 1.0, 0.3), norm.cdf(1 / math.sqrt(1.09))),
    "hardly any": (normal_scores(4, 50, 1.5), norm.cdf(1.5 / math.sqrt(2))),
    "nearly apart": (normal_scores(40, 200, 3.5), norm.cdf(3.5 / math.sqrt(2))),
    "nothing": (normal_scores(30, 100, 0.0), 0.5),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_an_auc_is_covered(sample: str) -> None:
    draw, true = SAMPLES[sample]
    least = 0.87 if sample in ("hardly any", "nearly apart") else LEAST
    assert np.mean([covers(auc(*draw()), true) for _ in range(TRIALS)]) >= least


def test_an_auc_is_that_of_the_ranks_and_its_variance_that_of_delong() -> None:
    scores, own = normal_scores(30, 70, 0.7)()
    scores = scores.round(1)  # with ties
    found = auc(scores, own)
    assert found.value == pytest.approx(roc_auc_score(own, scores))
    above = np.array([[np.sign(a - b) / 2 + 0.5 for b in scores[~own]] for a in scores[own]])  # DeLong's, by hand
    parts = [above.mean(axis=1).var(ddof=1) / 30, above.mean(axis=0).var(ddof=1) / 70]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 29 + parts[1] ** 2 / 69)
    sample = found.value * (1 - found.value) / sum(parts) * (norm.ppf(0.975) / t.ppf(0.975, freedom)) ** 2
    due = share(found.value * sample, sample)
    assert (found.low, found.high) == pytest.approx((due.low, due.high))
    assert auc(-scores, own).low == pytest.approx(1 - found.high)


def test_an_auc_of_rows_that_are_all_apart_is_one_of_as_many_pairs_without_a_common_row() -> None:
    own = np.arange(100) < 8
    assert auc(own.astype(float), own) == share(8, 8)
    assert auc(np.zeros(100), own) == share(4, 8)
    for none in (np.zeros(3, bool), np.ones(3, bool)):
        with pytest.raises(ValueError, match="rows of the class and others"):
            auc(np.arange(3.0), none)


def test_an_average_precision_is_covered() -> None:
    draw = normal_scores(60, 600, 1.5)
    true = float(np.mean([_precision(*normal_scores(6000, 60000, 1.5)()) for _ in range(5)]))
    assert np.mean([covers(average_precision(_precision(*draw()), 60), true) for _ in range(TRIALS // 4)]) >= 0.92
    assert average_precision(1.0, 5) == share(5, 5)


def _precision(scores: NDArray[np.float64], own: NDArray[np.bool_]) -> float:
    return float(average_precision_score(own, scores))


def test_errors_of_numbers_are_covered() -> None:
    held = []
    for _ in range(TRIALS):
        truth = RNG.normal(size=400)
        errors, deviations = RNG.laplace(scale=0.4, size=400), truth - truth.mean()
        held.append([covers(root_mean_square(errors), math.sqrt(0.32)), covers(explained(errors, deviations), 0.68)])
    assert np.mean(held, axis=0).min() >= 0.93
    assert root_mean_square(np.zeros(4)) == Estimate(value=0, low=0, high=0)
    assert explained(np.ones(4), np.zeros(4)) == Estimate(value=0, low=0, high=0)


def public(**given: object) -> PublicTest:
    whole = share(1, 2)
    item = ClassMeasured(name="a", rows=1, predicted=1, recall=whole, precision=whole)
    fields = {"table": "", "label": "", "rows": 2, "accuracy": whole, "balanced_accuracy": whole, "majority": 0.5}
    return PublicTest(**{**fields, "classes": (item,), "matrix": None, "calibration": None, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("sharp", [0.0, 1.0, 6.0])
def test_a_calibration_error_is_covered(sharp: float) -> None:
    """Rows of one sureness a bin, which are right more often, or less, than it is sure."""
    sure = np.linspace(0.55, 0.95, 5)
    chance = np.clip(sure + sharp * np.array([0.02, -0.01, 0.005, -0.02, 0.0]), 0, 1)
    sizes = np.array([3, 20, 50, 100, 200])
    true, held = float(sizes @ abs(chance - sure) / sizes.sum()), 0
    for _ in range(TRIALS):
        hits = RNG.binomial(sizes, chance)
        bins = zip(sizes.tolist(), sure.tolist(), hits.tolist(), strict=True)
        made = tuple(CalibrationBin(rows=rows, confidence=of, accuracy=share(right, rows)) for rows, of, right in bins)
        error = public(rows=int(sizes.sum()), calibration=made).calibration_error
        assert error is not None
        held += covers(error, true)
    assert held / TRIALS >= LEVEL


def test_a_mean_of_auc_lies_in_the_mean_of_the_ends() -> None:
    areas = [auc(*normal_scores(20, 80, apart)()) for apart in (0.5, 1.5)]
    items = [public().classes[0].model_copy(update={"auc": area}) for area in areas]
    found = public(classes=tuple(items)).auc
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx(
        tuple(np.mean([getattr(area, end) for area in areas]) for end in ("value", "low", "high"))
    )


def test_a_figure_lies_in_its_interval_or_is_none() -> None:
    for low, high in ((0.6, 0.9), (0.1, 0.4), (math.nan, 0.9)):
        with pytest.raises(ValueError, match=r"must be within its interval|a finite number"):
            Estimate(value=0.5, low=low, high=high)
    for hits, rows in ((-1, 3), (4, 3), (0, 0)):
        with pytest.raises(ValueError, match="a share needs"):
            share(hits, rows)


def test_a_figure_is_written_with_its_interval() -> None:
    new = Estimate(value=0.75, low=0.5, high=0.875)
    assert Estimate.model_validate_json(new.model_dump_json()) == new
    assert new.in_words == "75.0% (50.0% to 87.5%)"

"""Intervals of figures on public test rows: exact coverage of shares and their means, and simulated of the rest."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, norm, t
from sklearn.metrics import average_precision_score, roc_auc_score

from tests import world

RNG = np.random.default_rng(20)
TRIALS = 1000
LEAST = world.LEVEL - 4 * math.sqrt(world.LEVEL * (1 - world.LEVEL) / TRIALS)
"""What an interval that is right in the limit covers in TRIALS, but for one time in 30,000."""


def covers(estimate: world.Estimate, true: float) -> bool:
    return estimate.low <= true <= estimate.high


# Exact ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3, 12, 50])
def test_a_share_has_the_interval_of_clopper_and_pearson_and_is_covered_whatever_it_is(rows: int) -> None:
    shares = [world.share(hits, rows) for hits in range(rows + 1)]
    for hits, found in enumerate(shares):
        exact = binomtest(hits, rows).proportion_ci(world.LEVEL, method="exact")
        assert (found.value, found.low, found.high) == pytest.approx((hits / rows, exact.low, exact.high))
    for true in np.linspace(0, 1, 201):
        law = np.asarray(binom.pmf(range(rows + 1), rows, true))
        assert law @ [covers(each, float(true)) for each in shares] >= world.LEVEL - 1e-12


@pytest.mark.parametrize("sizes", [(2, 3), (5, 40), (20, 20), (3, 120)])
def test_a_mean_of_shares_is_nearly_covered_whatever_they_are(sizes: tuple[int, int]) -> None:
    shares = [[world.share(hits, rows) for hits in range(rows + 1)] for rows in sizes]
    means = {pair: world.mean_of_shares(pair) for pair in itertools.product(*shares)}
    covered = []
    for true in itertools.product((0.01, 0.03, 0.06, 0.1, 0.3, 0.5, 0.8, 0.97), repeat=2):
        laws = [np.asarray(binom.pmf(range(rows + 1), rows, each)) for rows, each in zip(sizes, true, strict=True)]
        held = [covers(mean, float(np.mean(true))) for mean in means.values()]
        covered.append(float(np.outer(*laws).ravel() @ held))
    assert min(covered) >= 0.925
    assert np.mean(covered) >= world.LEVEL


def test_an_auc_is_that_of_the_ranks_and_its_variance_that_of_delong() -> None:
    scores, own = normal_scores(30, 70, 0.7)
    scores = scores.round(1)  # with ties
    found = world.auc(scores, own)
    assert found.value == pytest.approx(roc_auc_score(own, scores))
    above = np.array([[np.sign(a - b) / 2 + 0.5 for b in scores[~own]] for a in scores[own]])  # DeLong's, by hand
    parts = [above.mean(axis=1).var(ddof=1) / 30, above.mean(axis=0).var(ddof=1) / 70]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 29 + parts[1] ** 2 / 69)
    sample = found.value * (1 - found.value) / sum(parts) * (norm.ppf(0.975) / t.ppf(0.975, freedom)) ** 2
    due = world.share(found.value * sample, sample)
    assert (found.low, found.high) == pytest.approx((due.low, due.high))
    assert world.auc(-scores, own).low == pytest.approx(1 - found.high)


def test_figures_of_rows_that_are_all_apart_or_all_alike() -> None:
    """An AUC is then that of as many pairs as have no row in common."""
    own = np.arange(100) < 8
    assert world.auc(own.astype(float), own) == world.share(8, 8)
    assert world.auc(np.zeros(100), own) == world.share(4, 8)
    assert world.root_mean_square(np.zeros(4)) == world.Estimate(value=0, low=0, high=0)
    assert world.explained(np.ones(4), np.zeros(4)) == world.Estimate(value=0, low=0, high=0)
    for none in (np.zeros(3, bool), np.ones(3, bool)):
        with pytest.raises(ValueError, match="rows of the class and others"):
            world.auc(np.arange(3.0), none)


# Simulated ------------------------------------------------------------------------------------------------------------


def normal_scores(
    many: int, others: int, apart: float, spread: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores of rows of a class, which lie `apart` from others on average and have that `spread`."""
    own = np.arange(many + others) < many
    return np.where(own, apart, 0) + RNG.normal(size=many + others) * np.where(own, spread, 1), own


def an_auc(many: int, others: int, apart: float, spread: float = 1.0) -> tuple[Callable[[], world.Estimate], float]:
    """An AUC of such rows, and the true one."""
    return lambda: world.auc(*normal_scores(many, others, apart, spread)), float(
        norm.cdf(apart / math.hypot(1, spread))
    )


def a_precision(many: int, others: int, apart: float) -> tuple[Callable[[], world.Estimate], float]:
    """An average precision of such rows, and the true one: the mean precision above the score of a row of the class."""
    at = np.linspace(-9, 9 + apart, 100_001)
    own, other = many * norm.sf(at - apart), others * norm.sf(at)
    true = float(np.trapezoid(norm.pdf(at - apart) * own / (own + other), at))

    def draw() -> world.Estimate:
        scores, of_class = normal_scores(many, others, apart)
        return world.share(float(average_precision_score(of_class, scores)) * many, many)

    return draw, true


def an_error() -> world.Estimate:
    return world.root_mean_square(RNG.laplace(scale=0.4, size=400))


def an_r2() -> world.Estimate:
    truth = RNG.normal(size=400)
    return world.explained(RNG.laplace(scale=0.4, size=400), truth - truth.mean())


def a_calibration_error(sharp: float) -> tuple[Callable[[], world.Estimate | None], float]:
    """Of rows of one confidence a bin, which are right more often, or less, than it is."""
    sure, sizes = np.linspace(0.55, 0.95, 5), np.array([3, 20, 50, 100, 200])
    chance = np.clip(sure + sharp * np.array([0.02, -0.01, 0.005, -0.02, 0.0]), 0, 1)

    def draw() -> world.Estimate | None:
        bins = zip(sizes.tolist(), sure.tolist(), RNG.binomial(sizes, chance).tolist(), strict=True)
        made = tuple(
            world.CalibrationBin(rows=rows, confidence=of, accuracy=world.share(right, rows))
            for rows, of, right in bins
        )
        return public(rows=int(sizes.sum()), calibration=made).calibration_error

    return draw, float(sizes @ abs(chance - sure) / sizes.sum())


def public(**given: object) -> world.PublicTest:
    whole = world.share(1, 2)
    item = world.ClassMeasured(name="a", rows=1, predicted=1, recall=whole, precision=whole)
    fields = {"table": "", "label": "", "rows": 2, "accuracy": whole, "balanced_accuracy": whole, "majority": 0.5}
    return world.PublicTest(**{**fields, "classes": (item,), "matrix": None, "calibration": None, **given})  # type: ignore[arg-type]


COVERED: dict[str, tuple[tuple[Callable[[], world.Estimate | None], float], float, int]] = {
    "an AUC of as many": (an_auc(60, 60, 1.0), LEAST, TRIALS),
    "an AUC of a rare class": (an_auc(15, 1000, 1.0), LEAST, TRIALS),
    "an AUC of a wide rare class": (an_auc(20, 1000, 1.5, 3.0), LEAST, TRIALS),
    "an AUC of a narrow rare class": (an_auc(20, 1000, 1.0, 0.3), LEAST, TRIALS),
    "an AUC of hardly any": (an_auc(4, 50, 1.5), 0.87, TRIALS),
    "an AUC nearly apart": (an_auc(40, 200, 3.5), 0.87, TRIALS),
    "an AUC of nothing": (an_auc(30, 100, 0.0), LEAST, TRIALS),
    "an average precision": (a_precision(60, 600, 1.5), 0.92, TRIALS // 4),
    "an error": ((an_error, math.sqrt(0.32)), 0.93, TRIALS),
    "a share that is explained": ((an_r2, 0.68), 0.93, TRIALS),
    **{f"a calibration error at {each}": (a_calibration_error(each), world.LEVEL, TRIALS) for each in (0.0, 1.0, 6.0)},
}
"""How a figure is drawn and what it truly is, the share of draws whose interval must cover that, and of how many."""


@pytest.mark.parametrize("what", COVERED)
def test_a_figure_is_covered(what: str) -> None:
    (draw, true), least, trials = COVERED[what]
    found = [draw() for _ in range(trials)]
    assert np.mean([each is not None and covers(each, true) for each in found]) >= least


def test_a_mean_of_auc_lies_in_the_mean_of_the_ends() -> None:
    areas = [world.auc(*normal_scores(20, 80, apart)) for apart in (0.5, 1.5)]
    items = [public().classes[0].model_copy(update={"auc": area}) for area in areas]
    found = public(classes=tuple(items)).auc
    assert found is not None
    ends = [np.mean([getattr(area, end) for area in areas]) for end in ("value", "low", "high")]
    assert [found.value, found.low, found.high] == pytest.approx(ends)

"""The private test: exact δ on every pair of neighbours, exact coverage of its intervals, and planted bugs."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import ORDERS
from concord.tasks.mechanisms import private_test
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.private_test import Measures, PrivateTest, measured_share, quantile
from concord.tasks.verify import recompute
from tests.privacy.exact import LEFT_OUT, Silent, gaussian_law, hockey_stick

EPSILON, DELTA = 1.5, 0.02
CLASSES = 2
SECRETS = ("rows", "labels")


def calibrated(secret: str) -> PrivateTest:
    return PrivateTest.calibrate(epsilon=EPSILON, delta=DELTA, classes=CLASSES, secret=secret)


def neighbours(secret: str) -> Iterator[tuple[Ints, Ints]]:
    """Matrices that differ in one unit: added anywhere; or, where labels are secret, of another class and said another
    thing of, for which row of a unit is looked at may change with its labels."""
    empty = np.ones((CLASSES, CLASSES), np.int64)
    cells = list(product(range(CLASSES), repeat=2))
    for cell in cells:
        here = empty.copy()
        here[cell] += 1
        if secret == "rows":
            yield empty, here
        for other in cells if secret == "labels" else ():
            there = empty.copy()
            there[other] += 1
            yield here, there


def moved(mechanism: PrivateTest, here: Ints, there: Ints) -> list[tuple[int, float]]:
    """By how much each released number differs, and the scale of its noise, as the real code has them."""
    sources = Silent(), Silent()
    shifts = mechanism.release(here, sources[0]) - mechanism.release(there, sources[1])
    assert sources[0].asked == sources[1].asked
    scales = [scale for _, scale, size in sources[0].asked for _ in range(size)]
    return [(int(shift), scale) for shift, scale in zip(shifts, scales, strict=True) if shift]


def exact_delta(mechanism: PrivateTest, secret: str) -> float:
    """The largest δ at EPSILON over all neighbours."""
    return max(_exact(tuple(sorted(moved(mechanism, *pair)))) for pair in neighbours(secret))


@cache
def _exact(shifts: tuple[tuple[int, float], ...]) -> float:
    p, q = np.ones(1), np.ones(1)
    for shift, scale in shifts:
        values, masses = gaussian_law(scale)
        there = np.interp(values - shift, values, masses, left=0, right=0)
        p, q = np.outer(p, masses).ravel(), np.outer(q, there).ravel()
    return hockey_stick((p, q), EPSILON)


@pytest.mark.parametrize("secret", SECRETS)
def test_the_claim_holds_exactly_and_little_is_wasted(secret: str) -> None:
    mechanism = calibrated(secret)
    assert mechanism.cost.epsilon(DELTA) <= EPSILON
    exact = exact_delta(mechanism, secret)
    assert 0.3 * DELTA < exact <= DELTA + LEFT_OUT
    assert exact <= recompute.least_delta(mechanism.settings(), EPSILON) + LEFT_OUT <= DELTA


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"scale": 0.6}, id="a matrix for nothing"),
        pytest.param({"pair_scale": 0.6}, id="right and wrong for nothing"),
    ],
)
def test_too_little_noise_is_rejected(secret: str, changes: dict[str, float]) -> None:
    mechanism = calibrated(secret)
    planted = replace(mechanism, **{name: getattr(mechanism, name) * part for name, part in changes.items()})
    assert exact_delta(planted, secret) > DELTA


def test_labels_cost_more_than_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_test, "COUNTS_MOVED", {"rows": 1, "labels": 1})
    assert exact_delta(calibrated("labels"), "labels") > DELTA


def test_noise_is_added_to_every_number() -> None:
    class Counting(Silent):
        def gaussian(self, scale: float, size: int) -> Ints:
            return np.arange(size) + round(100 * scale)

    mechanism, matrix = calibrated("rows"), np.array([[5, 1], [2, 3]])
    far, near = round(100 * mechanism.pair_scale), round(100 * mechanism.scale)
    noisy = mechanism.release(matrix, Counting())
    assert noisy.tolist() == [8 + far, 3 + far + 1, *(count + near + at for at, count in enumerate([5, 1, 2, 3]))]


@pytest.mark.parametrize("secret", SECRETS)
def test_it_costs_no_more_than_learning(secret: str) -> None:
    for nats in (1e-4, 0.05, 40.0):
        order = 5.75
        mechanism = PrivateTest.calibrate(epsilon=1.0, delta=1e-5, classes=3, secret=secret, most=(order, nats))
        assert mechanism.cost.renyi[ORDERS.index(order)] <= nats
        assert mechanism.cost.epsilon(1e-5) <= 1.0
        due, additive = recompute.charge(mechanism.settings(), order)
        assert due == pytest.approx(mechanism.cost.renyi[ORDERS.index(order)], rel=1e-12)
        assert additive == 0
        assert PrivateTest.from_settings(mechanism.settings()) == mechanism


def test_what_is_no_test_is_refused() -> None:
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"classes": 1}, {"secret": "rests"}):
        with pytest.raises(WrongInput, match="a private test needs"):
            PrivateTest.calibrate(**{"epsilon": 1.0, "delta": 1e-5, "classes": 2, "secret": "rows"} | wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("scale", "count"), [(0.4, 1), (1.0, 1), (3.0, 2), (2.0, 9), (700.0, 1)])
def test_a_quantile_of_noise_is_the_least(scale: float, count: int) -> None:
    _, masses = gaussian_law(scale)
    law = np.ones(1)
    for _ in range(count):
        law = np.convolve(law, masses)
    sums = np.arange(len(law)) - (len(law) - 1) // 2
    for tail in (0.2, 0.05 / 8, 1e-5):
        least = quantile(scale, count, tail)
        assert law[sums > least].sum() <= tail * (1 + 1e-9)
        assert least == 0 or law[sums > least - 1].sum() > tail


def test_a_law_too_wide_to_be_summed_has_a_bound_on_its_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = quantile(50.0, 9, 0.00625)
    quantile.cache_clear()
    monkeypatch.setattr(private_test, "LARGEST_LAW", 0)
    assert exact < quantile(50.0, 9, 0.00625) < 1.5 * exact
    quantile.cache_clear()


def coverage(units: int, chance: float, scale: float, level: float, others: int = 1) -> float:
    """How likely the interval covers: every count, and every noise of both."""
    values, masses = gaussian_law(scale)
    far_law = np.ones(1)
    for _ in range(others):
        far_law = np.convolve(far_law, masses)
    far_values = np.arange(len(far_law)) - (len(far_law) - 1) // 2

    @cache
    def covers(right: int, wrong: int) -> bool:
        found = measured_share(right, wrong, scale, 1 - level, others)
        return found.low <= chance <= found.high

    total = 0.0
    for right in range(units + 1):
        odds = binom.pmf(right, units, chance)
        hit = [[covers(right + z, units - right + far) for far in far_values.tolist()] for z in values.tolist()]
        total += float(odds * (masses @ np.array(hit) @ far_law))
    return total


CASES = [(12, 0.5, 1.2, 1), (12, 0.93, 1.2, 1), (30, 0.8, 0.6, 1), (30, 0.04, 0.6, 1), (20, 0.7, 0.5, 3)]


@pytest.mark.parametrize(("units", "chance", "scale", "others"), CASES)
def test_intervals_cover_as_often_as_they_say(units: int, chance: float, scale: float, others: int) -> None:
    for level in (0.95, 0.7):
        assert coverage(units, chance, scale, level, others) >= level


def test_intervals_that_leave_the_noise_out_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_test, "quantile", lambda *_: 0)
    assert coverage(30, 0.8, 4.0, 0.95) < 0.95


def test_measures_are_shares_of_the_matrix() -> None:
    mechanism = replace(calibrated("rows"), classes=3, scale=1e-3, pair_scale=1e-3)
    matrix = np.array([[50, 10, 0], [5, 100, 20], [0, 0, 200]])
    found = Measures.of(mechanism, [350, 35, *matrix.ravel().tolist()])
    assert found.rows == 385
    assert found.accuracy.value == pytest.approx(350 / 385)
    assert [item.value for item in found.recall] == pytest.approx([50 / 60, 100 / 125, 1.0])
    assert [item.value for item in found.precision] == pytest.approx([50 / 55, 100 / 110, 200 / 220])
    assert found.balanced_accuracy.value == pytest.approx((50 / 60 + 100 / 125 + 1) / 3)
    for item in (found.accuracy, found.balanced_accuracy, *found.recall, *found.precision):
        assert 0 <= item.low <= item.value <= item.high <= 1
    assert found.balanced_accuracy.high - found.balanced_accuracy.low > found.accuracy.high - found.accuracy.low


def test_counts_below_zero_say_nothing() -> None:
    found = Measures.of(calibrated("rows"), [-3, -2, -1, -4, -5, 0])
    assert found.rows == 0
    assert (found.accuracy.low, found.accuracy.high) == (0, 1)
    assert not math.isnan(found.balanced_accuracy.value)

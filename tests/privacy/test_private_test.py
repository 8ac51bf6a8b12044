"""The private test: exact δ on every pair of neighbours, exact coverage of its intervals, and planted bugs."""

import json
import math
from collections.abc import Iterator
from functools import cache, reduce
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, multinomial

from tests import world
from tests.privacy.exact import LEFT_OUT, Silent, gaussian_exactly, gaussian_law

EPSILON, DELTA = 1.5, 0.02
CLASSES = 2
SECRETS = ("rows", "labels")
NUMBER = {"classes": 0}
THREE = (0.0, 0.5, 1.0)
"""Places that are few enough for every count to be tried."""
KINDS = pytest.mark.parametrize("label", [{}, NUMBER], ids=["classes", "number"])


def calibrated(secret: str, **given: Any) -> world.PrivateTest:
    return world.calibrated_test(epsilon=EPSILON, delta=DELTA, **{"classes": CLASSES, "secret": secret, **given})


def neighbours(mechanism: world.PrivateTest) -> Iterator[tuple[world.Ints, world.Ints]]:
    """Counts that differ in one unit: added anywhere; or, where labels are secret, of another class and said another
    thing of, for which row of a unit is looked at may change with its labels."""
    shape: tuple[int, ...] = (CLASSES, CLASSES)
    cells: list[Any] = list(product(*map(range, shape)))
    if not mechanism.classes:  # an error of the student, and one of the constant
        shape, cells = (2, len(world.PLACES)), [([0, 1], [error, of]) for error in (0, 1, 7) for of in (0, 1, 7)]
    empty = np.ones(shape, np.int64)
    for cell in cells:
        here = empty.copy()
        here[cell] += 1
        if mechanism.secret == "rows":
            yield empty, here
        for other in cells if mechanism.secret == "labels" else ():
            there = empty.copy()
            there[other] += 1
            yield here, there


def moved(mechanism: world.PrivateTest, here: world.Ints, there: world.Ints) -> Iterator[tuple[tuple[int, ...], float]]:
    """By how much the released numbers of each scale of noise differ, as the real code has them."""
    sources = Silent(), Silent()
    shifts = mechanism.release(here, sources[0]) - mechanism.release(there, sources[1])
    assert sources[0].asked == sources[1].asked
    scales = np.repeat([scale for _, scale, _ in sources[0].asked], [size for *_, size in sources[0].asked])
    for scale in np.unique(scales).tolist():
        yield tuple(sorted(np.abs(shifts[scales == scale]).tolist())), scale


def exact_delta(mechanism: world.PrivateTest) -> float:
    """The largest δ at EPSILON over all neighbours."""
    every = {tuple(moved(mechanism, *pair)) for pair in neighbours(mechanism)}
    return max(gaussian_exactly(EPSILON, *moves) for moves in every)


@KINDS
@pytest.mark.parametrize("secret", SECRETS)
def test_the_claim_holds_exactly_and_little_is_wasted(secret: str, label: dict[str, Any]) -> None:
    mechanism = calibrated(secret, **label)
    assert mechanism.cost.epsilon(DELTA) <= EPSILON
    exact = exact_delta(mechanism)
    assert 0.3 * DELTA < exact <= DELTA + LEFT_OUT
    assert (
        exact
        <= world.verify_recompute.least_delta(world.read_settings(mechanism.model_dump(mode="json")), EPSILON)
        + LEFT_OUT
        <= DELTA
    )


@KINDS
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"scale": 0.6}, id="a matrix for nothing"),
        pytest.param({"pair_scale": 0.6}, id="right and wrong for nothing"),
    ],
)
def test_too_little_noise_is_rejected(secret: str, label: dict[str, Any], changes: dict[str, float]) -> None:
    mechanism = calibrated(secret, **label)
    planted = mechanism.with_(**{name: getattr(mechanism, name) * part for name, part in changes.items()})
    assert exact_delta(planted) > DELTA


def test_labels_cost_more_than_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.mechanisms_private_test, "COUNTS_MOVED", {"rows": 1, "labels": 1})
    assert exact_delta(calibrated("labels")) > DELTA


def test_noise_is_added_to_every_number() -> None:
    class Counting(Silent):
        def gaussian(self, scale: float, size: int) -> world.Ints:
            return np.arange(size) + round(100 * scale)

    mechanism, matrix = calibrated("rows"), np.array([[5, 1], [2, 3]])
    far, near = round(100 * mechanism.pair_scale), round(100 * mechanism.scale)
    noisy = mechanism.release(matrix, Counting())
    assert noisy.tolist() == [8 + far, 3 + far + 1, *(count + near + at for at, count in enumerate([5, 1, 2, 3]))]


@KINDS
@pytest.mark.parametrize("secret", SECRETS)
def test_it_costs_no_more_than_learning(secret: str, label: dict[str, Any]) -> None:
    for nats in (1e-4, 0.05, 40.0):
        order = 5.75
        given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "secret": secret, "classes": 3, **label}
        mechanism = world.calibrated_test(**given, most=(order, nats))
        assert mechanism.cost.renyi[world.ORDERS.index(order)] <= nats
        assert mechanism.cost.epsilon(1e-5) <= 1.0
        due, additive = world.verify_recompute.charge(world.read_settings(mechanism.model_dump(mode="json")), order)
        assert due == pytest.approx(mechanism.cost.renyi[world.ORDERS.index(order)], rel=1e-12)
        assert additive == 0
        assert world.recorded(json.loads(mechanism.model_dump_json())) == mechanism


@pytest.mark.parametrize(("scale", "count"), [(0.4, 1), (1.0, 1), (3.0, 2), (2.0, 9), (700.0, 1)])
def test_a_quantile_of_noise_is_the_least(scale: float, count: int) -> None:
    _, masses = gaussian_law(scale)
    law = np.ones(1)
    for _ in range(count):
        law = np.convolve(law, masses)
    sums = np.arange(len(law)) - (len(law) - 1) // 2
    for tail in (0.2, 0.05 / 8, 1e-5):
        least = world.quantile(scale, count, tail)
        assert law[sums > least].sum() <= tail * (1 + 1e-9)
        assert least == 0 or law[sums > least - 1].sum() > tail


def test_a_tail_that_nothing_is_within_is_refused() -> None:
    """Before, the quantile was 0, as if there were no noise."""
    with pytest.raises(ValueError, match="tail must be at least"):
        world.quantile(3.0, 1, -1.0)


def test_a_law_too_wide_to_be_summed_has_a_bound_on_its_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = world.quantile(50.0, 9, 0.00625)
    world.quantile.cache_clear()
    monkeypatch.setattr(world.private_figures, "LARGEST_LAW", 0)
    assert exact < world.quantile(50.0, 9, 0.00625) < 1.5 * exact
    world.quantile.cache_clear()


def coverage(units: int, chance: float, scale: float, level: float, others: int = 1, ones: int = 1) -> float:
    """How likely the interval covers: every count, and every noise of both."""
    _, masses = gaussian_law(scale)
    near_law, far_law = (reduce(np.convolve, [masses] * many) for many in (ones, others))
    values, far_values = (np.arange(len(law)) - (len(law) - 1) // 2 for law in (near_law, far_law))
    values, near_law = values[near_law > LEFT_OUT], near_law[near_law > LEFT_OUT]
    far_values, far_law = far_values[far_law > LEFT_OUT], far_law[far_law > LEFT_OUT]

    @cache
    def covers(right: int, wrong: int) -> bool:
        found = world.measured_share((right, ones), (wrong, others), scale, 1 - level)
        return found.low <= chance <= found.high

    total = 0.0
    for right in range(units + 1):
        odds = binom.pmf(right, units, chance)
        hit = [[covers(right + z, units - right + far) for far in far_values.tolist()] for z in values.tolist()]
        total += float(odds * (near_law @ np.array(hit) @ far_law))
    return total


CASES = [
    *[(12, 0.5, 1.2, 1, 1), (12, 0.93, 1.2, 1, 1), (30, 0.8, 0.6, 1, 1), (30, 0.04, 0.6, 1, 1), (20, 0.7, 0.5, 3, 1)],
    *[(20, 0.8, 0.5, 3, 3), (15, 0.6, 0.5, 2, 4)],  # of a number: sums over several places
]


@pytest.mark.parametrize(("units", "chance", "scale", "others", "ones"), CASES)
def test_intervals_cover_as_often_as_they_say(units: int, chance: float, scale: float, others: int, ones: int) -> None:
    for level in (0.95, 0.7):
        assert coverage(units, chance, scale, level, others, ones) >= level


def test_intervals_that_leave_the_noise_out_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.private_figures, "quantile", lambda *_: 0)
    assert coverage(30, 0.8, 4.0, 0.95) < 0.95


def test_the_noise_of_every_cell_of_a_sum_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    scale, cells, misses, right, wrong = 4.0, 12, 0.05, 90, 30
    quantile = world.quantile
    reach = quantile(scale, cells, misses / 8)
    low, high = beta.ppf(misses / 4, right, wrong + 1), beta.ppf(1 - misses / 4, right + 1, wrong)

    def holds() -> bool:
        """Whether the interval holds the one of exact counts, wherever the noise of both sums is within reach."""
        noisy = [
            world.measured_share((right + near, cells), (wrong + far, cells), scale, misses)
            for near, far in product((-reach, reach), repeat=2)
        ]
        return all(found.low <= low and high <= found.high for found in noisy)

    assert holds()
    monkeypatch.setattr(world.private_figures, "quantile", lambda scale, _, tail: quantile(scale, 1, tail))
    assert not holds()


def figures_of(mechanism: world.PrivateTest, right: int, wrong: int, matrix: world.Ints) -> Any:
    """The figures of released counts."""
    about = mechanism.with_(share=0.1, clean=True)
    names = [str(of) for of in range(len(matrix))]
    return world.test_figures(about, {"right": right, "wrong": wrong, "matrix": matrix.tolist(), "classes": names}, 0)


def test_measures_are_shares_of_the_matrix() -> None:
    mechanism = calibrated("rows").with_(classes=3, scale=1e-3, pair_scale=1e-3)
    matrix = np.array([[50, 10, 0], [5, 100, 20], [0, 0, 200]])
    found = figures_of(mechanism, 350, 35, matrix)
    recall, precision = ([getattr(of, which) for of in found.classes] for which in ("recall", "precision"))
    assert found.rows == 385
    assert found.accuracy.value == pytest.approx(350 / 385)
    assert [item.value for item in recall] == pytest.approx([50 / 60, 100 / 125, 1.0])
    assert [item.value for item in precision] == pytest.approx([50 / 55, 100 / 110, 200 / 220])
    assert found.balanced_accuracy.value == pytest.approx((50 / 60 + 100 / 125 + 1) / 3)
    for item in (found.accuracy, found.balanced_accuracy, *recall, *precision):
        assert 0 <= item.low <= item.value <= item.high <= 1
    assert found.balanced_accuracy.high - found.balanced_accuracy.low > found.accuracy.high - found.accuracy.low


def test_counts_below_zero_say_nothing() -> None:
    found = figures_of(calibrated("rows"), -3, -2, np.array([[-1, -4], [-5, 0]]))
    assert found.rows == 0
    assert (found.accuracy.low, found.accuracy.high) == (0, 1)
    assert not math.isnan(found.balanced_accuracy.value)


def number_coverage(chances: list[float], units: int, scale: float, level: float) -> float:
    """How likely the interval covers the root of the mean square of the places, of units at each with these chances:
    every count, and every noise of each."""
    places, counts = np.array(THREE), range(units + 1)
    law = np.zeros((units + 1,) * 3)
    for near, far in product(counts, counts):
        if near + far <= units:
            law[near, far, units - near - far] = multinomial.pmf([near, far, units - near - far], units, chances)
    _, noise = gaussian_law(scale)
    noise = noise[noise > LEFT_OUT]
    for axis in range(3):
        law = np.apply_along_axis(np.convolve, axis, law, noise)
    true, covered, reach = math.sqrt(np.square(places) @ chances), 0.0, (len(noise) - 1) // 2
    for cell in np.argwhere(law > 1e-7):
        rmse = world.measured_error((cell - reach).tolist(), scale, level)
        covered += law[tuple(cell)] * (rmse.low <= true <= rmse.high)
    return covered


@pytest.mark.parametrize("chances", [[0.6, 0.3, 0.1], [0.93, 0.07, 0.0], [0.05, 0.15, 0.8]])
def test_the_interval_of_an_error_covers_as_often_as_it_says(
    chances: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.private_figures, "PLACES", THREE)
    for level in (0.95, 0.7):
        assert number_coverage(chances, 8, 0.6, level) >= level


def test_an_interval_of_an_error_that_leaves_the_noise_out_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.private_figures, "PLACES", THREE)
    monkeypatch.setattr(world.private_figures, "quantile", lambda *_: 0)
    assert number_coverage([1.0, 0.0, 0.0], 8, 2.5, 0.7) < 0.7


def test_the_square_of_an_error_is_right_on_average() -> None:
    """Over all chances; rounding to the nearest place would not be."""
    errors = np.array([0.0, 1e-9, 0.003, 0.0156, 1 / 64, 0.02, 0.3, 0.5, 0.77, 1.0])
    chances, squares = (np.arange(4000) + 0.5) / 4000, np.square(world.PLACES)
    found = [squares[world.placed(np.full(4000, sign * error), chances)].mean() for error in errors for sign in (1, -1)]
    assert found == pytest.approx(np.repeat(errors**2, 2), abs=1e-4)
    nearest = [squares[world.placed(np.full(4000, error), np.full(4000, 0.5))].mean() for error in errors]
    assert nearest != pytest.approx(errors**2, abs=1e-2)
    beyond = np.array([1.5, -np.inf, np.nan, 1e308])
    assert world.placed(beyond, np.full(4, 0.999)).tolist() == [len(world.PLACES) - 1] * 4


def test_an_error_follows_from_counts() -> None:
    found = world.measured_error([0, 0, 0, 0, 900, 100, 0, 0], 1e-3)
    assert found.value == pytest.approx(math.sqrt(0.9 / 64 + 0.1 / 16))
    assert found.low < found.value < found.high
    nothing = world.measured_error([-3] * len(world.PLACES), 9.0)
    assert (nothing.low, nothing.high) == (0, 1)

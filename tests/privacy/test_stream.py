"""A stream: the exact law of all releases of a season, against planted bugs; what is paid for, and what is read."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.privacy.exact import LEFT_OUT, Silent, gaussian_exactly, gaussian_law, hockey_stick
from tests.privacy.small import EPSILON, stream

DELTA, T = 0.06, 4


# The law, enumerated ------------------------------------------------------------------------------------------------


class Enumerated:
    """Every noise of all releases at once: release t's in each case is that of its axis."""

    def __init__(self, scale: float) -> None:
        values, odds = gaussian_law(scale)
        inside = np.abs(values) <= 4.5 * scale
        self.values, odds = values[inside], odds[inside]
        grid = np.indices((len(odds),) * T).reshape(T, -1)
        self.noise, self.odds = self.values[grid], np.prod(odds[grid], axis=0)
        self.left_out = 1 - float(self.odds.sum())
        self.drawn = 0

    def gaussian(self, scale: float, size: int) -> world.Ints:  # noqa: ARG002
        self.drawn += 1
        return np.asarray(self.noise[self.drawn - 1])


Choice = Callable[[int, Sequence[world.Ints]], Any]
"""The contribution that arrives in a period, or 0, after what was released so far."""


def in_period(period: int, sign: int = 1) -> Choice:
    return lambda now, released: sign if now == period else 0  # noqa: ARG005


def if_it_looks_small(now: int, released: Sequence[world.Ints]) -> Any:
    """It arrives in the period after the first small release, or in the last, and its sign follows from the first."""
    if now == 0:
        return 0
    waited = np.all([each > 0 for each in released[:-1]], axis=0)
    due = waited if now == T - 1 else waited & (released[-1] <= 0)
    return np.where(due, np.where(released[0] > 0, 1, -1), 0)


def release_all(mechanism: world.Stream, source: Any, choose: Choice) -> world.Floats:
    """The law of all releases, each a number, of a season in which that unit arrives."""
    arrived, released = list[world.Ints](), list[world.Ints]()
    for now in range(T):
        arrived.append(np.zeros(len(source.odds), np.int64) + choose(now, released))
        released.append(mechanism.release(now, mechanism.mixed(arrived), source))
    reach = int(source.values[-1]) + 2 * T  # no unit moves a release further
    sizes = (2 * reach + 1,) * T
    keys = np.ravel_multi_index([each + reach for each in released], sizes)
    return np.bincount(keys, source.odds, np.prod(sizes)).astype(np.float64)


def game(mechanism: world.Stream, choose: Choice) -> float:
    """Exact δ between a season with the unit and one without, the unit chosen by what was released."""
    wide = mechanism.with_(rounds=(mechanism.rounds[0].with_(cells=10**8),))
    source, other = (Enumerated(mechanism.rounds[0].scale) for _ in range(2))
    pair = release_all(wide, source, choose), release_all(wide, other, lambda *_: 0)
    return hockey_stick(pair, EPSILON) + source.left_out


STRATEGIES = [in_period(0), in_period(2, -1), if_it_looks_small]


@pytest.mark.parametrize("choose", STRATEGIES)
def test_the_claim_holds_whichever_period_the_adversary_chooses_for_the_unit(choose: Choice) -> None:
    assert game(stream(), choose) <= DELTA


class AnotherMatrix(world.Stream):
    """Planted bug 1: running sums themselves, q_0 for every period."""

    def mixed(self, arrived: Sequence[world.Ints]) -> world.Ints:
        return np.asarray(sum(2 * each for each in arrived))


class Reused(world.Stream):
    """Planted bug 2: the noise of the first release in all of them."""

    def release(self, number: int, sums: world.Ints, source: Any) -> world.Ints:
        source.drawn = 0
        return super().release(number, sums, source)


class Following(world.Stream):
    """Planted bug 3: a question that follows what was released, so that all units so far are asked anew."""

    def mixed(self, arrived: Sequence[world.Ints]) -> world.Ints:
        turned = 1 if len(arrived) % 2 else -1
        return np.asarray(sum(2 * turned * each for each in arrived))


def priced_once() -> world.Stream:
    """Planted bug 4: the charge of one release, for four."""
    return stream().with_(rounds=stream(season=1).rounds)


@pytest.mark.parametrize(
    "bug",
    [
        lambda: AnotherMatrix(**dict(stream())),
        lambda: Reused(**dict(stream())),
        lambda: Following(**dict(stream())),
        priced_once,
    ],
)
def test_planted_bugs_are_rejected(bug: Callable[[], world.Stream]) -> None:
    assert game(bug(), in_period(0)) > DELTA


def test_a_unit_that_comes_back_is_not_covered() -> None:
    """Planted bug 5: its rows of a second period are counted as well."""
    assert game(stream(), lambda now, _: int(now in (0, 1))) > DELTA


# Wider noise: the loss of all releases, by convolution --------------------------------------------------------------

LABELS = world.Round(fields=2, cells=5, least=1, count=1, share=1.0)


def moved(mechanism: world.Stream, period: int, row: Sequence[int], label: int) -> tuple[int, ...]:
    """By how much a unit moves each number of all releases, by the code that runs."""
    question = mechanism.question(0, range(2), [(0, 2), (2, 4)])
    own = world.tally(question, np.array([row], np.int32), np.array([label]))
    arrived = [own if back == period else np.zeros_like(own) for back in range(T)]
    return tuple(int(part) for now in range(T) for part in mechanism.mixed(arrived[: now + 1]))


def test_the_claim_holds_exactly_for_every_unit_and_period_and_little_is_wasted() -> None:
    mechanism = stream(delta=0.01, rounds=(LABELS,), bits=4, many=True)
    assert mechanism.cost.claims == ((EPSILON, 0.01),)
    found = {
        (period, label): gaussian_exactly(EPSILON, (moved(mechanism, period, row, label), mechanism.rounds[0].scale))
        for period, row, label in product((0, 3), [(0, 2), (1, 3)], (0, 1))
    }
    assert max(found.values()) + LEFT_OUT <= 0.01
    assert min(found[0, 0], found[0, 1]) > 0.9 * 0.01
    assert max(found[3, 0], found[3, 1]) < found[0, 0]


# What is paid for ---------------------------------------------------------------------------------------------------

QUESTIONS = world.planned_rounds(classes=2, fields=14, codes=450, rounds=1)


def season(epsilon: float = 1.0, releases: int = 52, **changed: Any) -> world.Stream:
    return world.calibrated_sums(
        world.Stream,
        epsilon=epsilon,
        delta=1e-5,
        classes=2,
        rounds=QUESTIONS,
        season=releases,
        **({"many": True} | changed),
    )


# What is read -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_running_totals_are_exact_without_noise(bits: int) -> None:
    mechanism = season(releases=12).with_(bits=bits)
    rng = np.random.default_rng(3)
    arrived = [rng.integers(-(2**40), 2**40, 5) for _ in range(12)]
    released = [mechanism.mixed(arrived[: now + 1]) for now in range(12)]
    for now in range(12):
        assert world.totals(mechanism, released[: now + 1]).tolist() == np.sum(arrived[: now + 1], axis=0).tolist()


def test_totals_hold_the_noise_that_is_said() -> None:
    mechanism, rng = season(releases=8), np.random.default_rng(4)
    noise = np.rint(rng.normal(size=(8, 20_000)) * 2**20).astype(np.int64)
    assert np.std(world.totals(mechanism, list(noise))) / 2**20 == pytest.approx(world.spread(mechanism, 8), rel=0.02)


def test_sums_that_wrap_are_read_as_they_would_be_without() -> None:
    """A unit beyond what was stated wraps a sum at 2^64: nothing fails, and nothing tells of it."""
    mechanism = season(releases=2)
    assert mechanism.mixed([np.array([2**62])]).tolist() == [0]
    few, impulses = season(releases=12).with_(bits=1), np.eye(12, dtype=np.int64) * 2**40
    weights = world.totals(few, list(impulses))
    largest = [np.array([int(np.sign(weight)) * (2**63 - 1)]) for weight in weights]
    assert sum(int(weight) * int(of[0]) for weight, of in zip(weights, largest, strict=True)) > 2 ** (63 + 40)
    assert world.totals(few, largest).dtype == np.int64


def test_coefficients_are_those_of_the_square_root() -> None:
    assert world.coefficients(5, 8) == (256, 128, 96, 80, 70)
    product_of = np.convolve(world.coefficients(64, 8), world.coefficients(64, 8))[:64] / 256**2
    assert np.abs(product_of - 1).max() < 0.02


@pytest.mark.parametrize(("units", "bits"), [(1_000, 8), (10**9, 8), (10**12, 2)])
def test_bits_follow_the_stated_units(units: int, bits: int) -> None:
    assert world.bits_for(units, 52) == bits


# What is refused ----------------------------------------------------------------------------------------------------


def test_what_was_not_paid_for_is_refused() -> None:
    mechanism = season(releases=3)
    with pytest.raises(ValueError, match="the season has 3 releases"):
        mechanism.release(6, np.zeros(1, np.int64), Silent())
    model = world.IntegerModel(np.zeros((4, 1), np.int64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="stays the same for the season"):
        stream().question(0, [0], [(0, 1)], replace(model, weights=np.zeros((1, 1), np.int64)))

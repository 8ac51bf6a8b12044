"""Accounting of Gaussian counts: the bound on δ against exact convolution, 120 digits, dp_accounting."""

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from tests import world
from tests.privacy.exact import gaussian_exactly


def exact_delta(epsilon: float, *groups: tuple[int, float]) -> float:
    """δ of groups (how many, scale) of discrete Gaussians, each shifted by one."""
    return gaussian_exactly(epsilon, *(((1,) * shifts, scale) for shifts, scale in groups))


EPSILONS = pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])


@pytest.mark.parametrize(
    ("shifts", "scale"), [(1, 0.7), (1, 4.0), (2, 0.5), (5, 1.0), (40, 12.0), (40, 20.0), (64, 24.0)]
)
@EPSILONS
def test_the_bound_is_never_below_the_exact_sum_and_groups_of_one_scale_are_one_group(
    shifts: int, scale: float, epsilon: float
) -> None:
    exact = exact_delta(epsilon, (shifts, scale))
    for bound in (world.gaussian_delta(epsilon, shifts, scale), world.gaussians_delta(epsilon, [(shifts, scale)])):
        assert exact - 1e-13 <= bound
        assert bound <= 1.02 * exact or scale < 20 or epsilon > 1
    coarser = world.gaussians_delta(epsilon, [(shifts, scale), (shifts, scale)])
    assert coarser >= world.gaussians_delta(epsilon, [(2 * shifts, scale)]) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 0.7), (1, 0.5)), ((2, 0.6), (3, 4.0)), ((8, 9.0), (1, 3.0)), ((16, 10.0), (8, 9.0))],
)
@EPSILONS
def test_the_bound_of_several_scales_is_never_below_the_exact_sum(
    first: tuple[int, float], second: tuple[int, float], epsilon: float
) -> None:
    exact = exact_delta(epsilon, first, second)
    assert world.gaussians_delta(epsilon, (first, second)) >= exact - 1e-13
    if min(first[1], second[1]) >= 9 and epsilon <= 1:
        assert world.gaussians_delta(epsilon, (first, second)) <= 1.1 * exact
        forgotten = [((first[0] - 3, first[1]), second), (first, (second[0], 1.1 * second[1])), (first,), (second,)]
        assert all(world.gaussians_delta(epsilon, draws) < exact for draws in forgotten)


def moves(*rounds: tuple[tuple[int, ...], float]) -> list[tuple[float, int, float]]:
    return [(float(np.dot(shift, shift)), len(shift), scale) for shift, scale in rounds]


VECTORS = [(1,), (9,), (3, 4), (1, 1, 2, 5)]


@pytest.mark.parametrize("shift", VECTORS)
@pytest.mark.parametrize("scale", [3.0, 4.5, 20.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_the_bound_of_a_vector_is_never_below_the_exact_one(
    shift: tuple[int, ...], scale: float, epsilon: float
) -> None:
    exact = gaussian_exactly(epsilon, (shift, scale))
    assert world.moved_delta(epsilon, moves((shift, scale))) >= exact - 1e-13
    if scale == 20 and exact > 1e-6:
        assert world.moved_delta(epsilon, moves((shift, scale))) <= 1.15 * exact
        shorter = float(np.dot(shift, shift)) * 0.9
        assert world.moved_delta(epsilon, [(shorter, len(shift), scale)]) < exact


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_the_bound_of_rounds_is_never_below_the_exact_one_and_rejects_a_round_forgotten(epsilon: float) -> None:
    rounds = ((3, 4), 9.0), ((7,), 12.0)
    exact = gaussian_exactly(epsilon, *rounds)
    assert exact - 1e-13 <= world.moved_delta(epsilon, moves(*rounds))
    assert max(world.moved_delta(epsilon, moves(each)) for each in rounds) < exact


def test_the_analytic_curve_of_continuous_noise_is_no_bound() -> None:
    """What the vectors' proof adds is needed: without it δ is understated."""
    for epsilon in (0.1, 0.7):
        continuous = world.moved_delta(
            epsilon, [(1e12, 1, 3e6)]
        )  # the same μ on a lattice so fine that it is continuous
        assert continuous < 0.996 * gaussian_exactly(epsilon, ((1,), 3.0))
    assert world.moved_delta(0.5, [(1.0, 1, 2.9)]) == 1.0


def in_120_digits(epsilon: float, square: mp.mpf) -> mp.mpf:
    """δ of a continuous Gaussian, μ² = `square` (Balle & Wang 2018)."""
    with mp.workdps(120):
        mu, e = mp.sqrt(square), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 1.0), (1.0, 0.0), (2.0, 30.0), (20.0, 3.0)])
def test_the_delta_that_decides_is_above_the_exact_one_by_less_than_doubles_can_tell(mu: float, epsilon: float) -> None:
    with mp.workdps(120):
        found, exact = mp.mpf(str(world.delta_above(mu, epsilon))), in_120_digits(epsilon, mp.mpf(mu) ** 2)
        assert exact <= found <= exact * (1 + mp.mpf("1e-25"))


def of_moves(epsilon: float, *moved: tuple[float, int, float]) -> mp.mpf:
    """δ of moves, before what their lattice adds."""
    with mp.workdps(120):
        return in_120_digits(epsilon, mp.fsum(mp.mpf(square) / (mp.mpf(scale) ** 2 - 4) for square, _, scale in moved))


TIGHT = 1 + 4e-9
"""What rounding up adds at most, where the lattice adds nothing."""


def test_a_tiny_move_is_not_rounded_down() -> None:
    """In doubles, two nearly equal tails cancelled, and δ was below the exact one by up to 3e-6 of itself."""
    assert world.ROUNDED**2 == 4
    rng = np.random.default_rng(21)
    for _ in range(500):
        epsilon, mu = 10 ** rng.uniform(-9, 1), 10 ** rng.uniform(-9, 1)
        moved = (1.0, int(rng.integers(1, 1000)), float(np.hypot(1 / mu, 3.0)))
        exact = of_moves(epsilon, moved)
        assert exact <= world.moved_delta(epsilon, [moved])
        if exact > 1e-290:
            assert world.moved_delta(epsilon, [moved]) <= min(1.0, float(exact) * TIGHT)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-9, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("shifts", [10**9, 10**12])
def test_many_counts_under_wide_noise_are_not_rounded_down(epsilon: float, shifts: int) -> None:
    for scale in (1e4 * shifts**0.5, 1e7 * shifts**0.5, 1e8 * shifts**0.5):
        exact = in_120_digits(epsilon, mp.mpf(shifts) / mp.mpf(scale) ** 2)
        assert world.gaussian_delta(epsilon, shifts, scale) >= exact
        assert world.gaussians_delta(epsilon, [(shifts, scale)]) >= exact


@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 1e-3, 0.1, 1.0])
def test_a_plan_of_tallies_stays_within_its_delta_at_any_epsilon(epsilon: float) -> None:
    """At ε = 1e-6 and 1e-5, some were calibrated to a δ above their own."""
    rounds = world.planned_rounds(classes=2, fields=3, codes=12, steps=64)
    for delta in np.geomspace(1e-12, 1e-7, 30).tolist():
        found = world.calibrated_sums(world.Tallies, epsilon=epsilon, delta=delta, classes=2, rounds=rounds, steps=64)
        moved = [(float(square), each.cells, each.scale) for square, each in found.squares_by_round]
        assert of_moves(epsilon, *moved) <= delta


@pytest.mark.parametrize(("shifts", "scale", "epsilon"), [(1, 3.73, 1.0), (100, 40.0, 0.5), (100, 30.0, 1.0)])
def test_it_agrees_with_the_privacy_loss_distribution_of_dp_accounting(
    shifts: int, scale: float, epsilon: float
) -> None:
    losses = privacy_loss_distribution.from_discrete_gaussian_mechanism(scale, value_discretization_interval=1e-5)
    oracle = losses.self_compose(shifts).get_delta_for_epsilon(epsilon)  # rounded up by its own grid
    assert world.gaussian_delta(epsilon, shifts, scale) == pytest.approx(oracle, rel=0.5 if shifts == 1 else 0.05)

"""The papers' theorems: against each other, by substitution, and where a printed step does not hold."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.error_estimate import exact_cutoff
from concord.tasks.mechanisms.published import teachers_required
from tests.privacy import bounds

TEACHERS, QUERIES, BETA = 1001, 2000, 0.05

# Cutoffs --------------------------------------------------------------------------------------------------------------


def chance_of_more(cutoff: int, error: float, teachers: int = TEACHERS) -> float:
    """Union bound on some teacher being wrong on more than a third of `cutoff` rows."""
    return teachers * float(binom.sf(cutoff // 3, QUERIES, error))


@pytest.mark.parametrize("error", [0.001, 0.01, 0.1, 0.4])
def test_the_exact_cutoff_is_the_least_that_fails_with_probability_beta(error: float) -> None:
    cutoff = exact_cutoff(error=error, queries=QUERIES, beta=BETA, teachers=TEACHERS)
    assert chance_of_more(cutoff, error) <= BETA < chance_of_more(cutoff - 3, error)


@pytest.mark.parametrize("error", [0.01, 0.1])
def test_the_printed_cutoff_fails_more_often_than_it_says(error: float) -> None:
    cutoff = bounds.printed_cutoff(error=error, queries=QUERIES, beta=BETA, teachers=TEACHERS)
    assert 1 - (1 - float(binom.sf(cutoff / 3, QUERIES, error))) ** TEACHERS > 2 * BETA


def test_the_printed_cutoff_is_the_printed_formula() -> None:
    mistakes = 0.1 * 1000 + math.sqrt(0.1 * 1000 * math.log(1000 / 0.05) / 2)
    assert bounds.printed_cutoff(error=0.1, queries=1000, beta=0.05, teachers=1) == math.ceil(3 * mistakes) == 367


def test_fewer_rows_than_the_exact_cutoff_have_a_third_of_the_votes_wrong() -> None:
    """Lemma 3.3, with every teacher wrong on B rows placed as badly as possible: together, on the fewest rows."""
    cutoff = exact_cutoff(error=0.05, queries=QUERIES, beta=BETA, teachers=TEACHERS)
    each, needed = cutoff // 3, TEACHERS // 3 + 1
    assert each * TEACHERS // needed < cutoff


# The circle -----------------------------------------------------------------------------------------------------------

PRINTED = partial(teachers_required, epsilon=1.0, delta=1e-5, queries=QUERIES, beta=BETA)


def printed_teachers(cutoff: int) -> int:
    return PRINTED(cutoff=cutoff)


def tens_of_refusals(cutoff: int) -> int:
    """A mechanism that asks for k in the hundreds, growing as the root of T."""
    return math.ceil(300 * math.sqrt(cutoff))


CIRCLES = [
    (10**11, 0.0, bounds.realizable_accuracy(dimension=10, constant=1.0), printed_teachers),
    (10**11, 0.0005, bounds.agnostic_accuracy(dimension=2, constant=0.01), printed_teachers),
    (10**6, 0.0, bounds.realizable_accuracy(dimension=3, constant=1.0), tens_of_refusals),
    (10**7, 0.01, bounds.agnostic_accuracy(dimension=3, constant=0.05), tens_of_refusals),
]


@pytest.mark.parametrize("rule", [exact_cutoff, bounds.printed_cutoff])
@pytest.mark.parametrize(("rows", "gamma", "accuracy", "teachers"), CIRCLES)
def test_a_solution_satisfies_every_relation_and_no_smaller_cutoff_does(
    rows: int,
    gamma: float,
    accuracy: bounds.Accuracy,
    teachers: Callable[[int], int],
    rule: bounds.CutoffRule,
) -> None:
    found = bounds.consistent_setting(
        rows=rows, queries=QUERIES, gamma=gamma, beta=BETA, accuracy=accuracy, teachers=teachers, cutoff=rule
    )

    def needed(cutoff: int) -> int:
        k = teachers(cutoff)
        error = gamma + accuracy(rows / k, BETA / k)
        return rule(error=error, queries=QUERIES, beta=BETA, teachers=k) if error < 1 else QUERIES

    assert found.teachers == teachers(found.cutoff)
    assert found.alpha == accuracy(rows / found.teachers, BETA / found.teachers)
    assert needed(found.cutoff) <= found.cutoff
    assert all(needed(smaller) > smaller for smaller in range(1, found.cutoff))


def test_too_few_rows_close_no_circle() -> None:
    accuracy = bounds.realizable_accuracy(dimension=10, constant=1.0)
    with pytest.raises(WrongInput, match="rows = 1,000,000 are too few"):
        bounds.consistent_setting(
            rows=10**6, queries=QUERIES, gamma=0.0, beta=BETA, accuracy=accuracy, teachers=printed_teachers
        )


# Rates ----------------------------------------------------------------------------------------------------------------


def realizable(queries: float, rows: float = 1e8, epsilon: float = 0.5) -> bounds.ErrorRate:
    return bounds.realizable_rate(rows=rows, queries=queries, dimension=20, epsilon=epsilon, free=0.3, refusals=7.0)


def agnostic(queries: float, gamma: float, rows: float = 1e8, epsilon: float = 0.5) -> bounds.ErrorRate:
    return bounds.agnostic_rate(
        rows=rows,
        queries=queries,
        dimension=20,
        epsilon=epsilon,
        gamma=gamma,
        free=0.3,
        unavoidable=3.0,
        refusals=7.0,
    )


def test_theorem_3_4_is_v_over_epsilon_n_up_to_m_and_grows_with_m_beyond() -> None:
    unit = 20 / (0.5 * 1e8)
    free = realizable(1).free_queries
    assert free == pytest.approx(0.3 / unit)
    assert realizable(1).rate == realizable(free).rate == pytest.approx(0.3 * 7 * unit)
    assert realizable(10 * free).rate == pytest.approx(7 * 10 * free * unit**2)
    assert realizable(10 * free).refusals == pytest.approx(7 * (10 * free * unit) ** 2)


def test_theorem_3_5_has_both_its_cases() -> None:
    unit = 20 / (0.5 * 1e8)
    assert agnostic(1, gamma=0).free_queries == pytest.approx(0.3 / math.sqrt(unit))
    assert agnostic(1, gamma=0.1).free_queries == pytest.approx(3.0)
    at_most = 3.0 * 0.1 + 7.0 * 0.3 ** (1 / 3) * math.sqrt(unit)
    assert agnostic(1, gamma=0.1).rate <= at_most
    assert agnostic(1, gamma=0).rate == pytest.approx(7.0 * 0.3 ** (1 / 3) * math.sqrt(unit))
    assert agnostic(1e6, gamma=0.1).rate == pytest.approx(0.3 + 7.0 * 1e6 ** (1 / 3) * unit ** (2 / 3))


@pytest.mark.parametrize("queries", [1, 1e4, 1e9])
def test_a_rate_is_refusals_over_queries_and_falls_with_rows_and_epsilon(queries: float) -> None:
    for at in (realizable, partial(agnostic, gamma=0.0), partial(agnostic, gamma=0.05)):
        here = at(queries)
        assert here.rate == pytest.approx(here.refusals / max(queries, here.free_queries))
        assert at(queries, rows=2e8).rate <= here.rate
        assert at(queries, rows=2e8).rate == pytest.approx(at(queries, epsilon=1.0).rate)


# Claim 4.1 ------------------------------------------------------------------------------------------------------------

SMALL = [0.3, 0.1, 0.03, 1e-3, 1e-6]


@pytest.mark.parametrize(("alpha", "share"), list(product(SMALL, [1.0, 0.1, 1e-6])))
def test_claim_4_1_follows_from_its_proof_where_gamma_is_at_most_alpha(alpha: float, share: float) -> None:
    beta = alpha * share
    queries = bounds.claimed_queries(alpha=alpha, beta=beta)
    for gamma in (0.0, alpha):
        shown = bounds.labelling_error(queries=queries, alpha=alpha, beta=beta, gamma=gamma)
        assert shown <= 3 * gamma + 7 * alpha


def test_claim_4_1_does_not_follow_for_any_gamma_but_its_order_does() -> None:
    alpha, beta = 1e-3, 1e-4
    queries = bounds.claimed_queries(alpha=alpha, beta=beta)
    shown = bounds.labelling_error(queries=queries, alpha=alpha, beta=beta, gamma=0.1)
    assert 3 * 0.1 + 7 * alpha < shown < 4 * (0.1 + alpha)


def test_the_display_of_claim_4_1_as_printed_does_not_prove_it() -> None:
    alpha = beta = 0.01
    queries = bounds.claimed_queries(alpha=alpha, beta=beta)
    printed = beta + 3 * (alpha + math.sqrt(math.log(queries / beta) / (2 * queries * alpha)))
    assert printed > 7 * alpha


# Sizes ----------------------------------------------------------------------------------------------------------------

ONES = {"public": 1.0, "private": 1.0}


def slope(size: Callable[..., bounds.Sizes], alpha: float = 1e-3) -> float:
    """The power of 1/α with which private rows grow."""
    return math.log(size(alpha=alpha).private / size(alpha=2 * alpha).private, 2)


def test_sizes_grow_as_the_theorems_say() -> None:
    common = {"dimension": 9.0, "epsilon": 0.5, **ONES}
    assert slope(partial(bounds.realizable_sizes, beta=0.01, **common)) == pytest.approx(1.5)
    assert slope(partial(bounds.erm_sizes, **common)) == pytest.approx(1)
    assert slope(partial(bounds.efficient_sizes, **common)) == pytest.approx(1)
    assert slope(partial(bounds.agnostic_sizes, beta=0.01, **common)) == pytest.approx(2.5)


def test_sizes_at_unit_constants_are_the_printed_expressions() -> None:
    common = {"dimension": 9.0, "alpha": 0.01, "epsilon": 0.5, **ONES}
    many = (9 + math.log(20)) / 0.01**2

    def agrees(sizes: bounds.Sizes, public: float, private: float) -> bool:
        return (sizes.public, sizes.private) == pytest.approx((public, private))

    assert agrees(bounds.realizable_sizes(beta=0.05, **common), many, 54_000)
    assert agrees(bounds.erm_sizes(**common), 900, 5_400)
    assert agrees(bounds.efficient_sizes(**common), 900, 16_200)
    assert agrees(bounds.agnostic_sizes(beta=0.05, **common), many, 5_400_000)


def test_theorem_4_2_closes_the_loop_of_theorem_3_4() -> None:
    """At m = V/α² and n = V^(3/2)/(ε·α^(3/2)), Theorem 3.4 gives a rate of order α for every α and V."""
    for alpha, dimension in product([0.1, 1e-2, 1e-3], [5.0, 50.0]):
        sizes = bounds.realizable_sizes(dimension=dimension, alpha=alpha, beta=0.99, epsilon=0.5, **ONES)
        rate = bounds.realizable_rate(
            rows=sizes.private, queries=sizes.public, dimension=dimension, epsilon=0.5, free=1.0, refusals=1.0
        )
        assert rate.rate == pytest.approx(alpha, rel=0.01)


def test_relabelling_is_free_up_to_the_cube_of_one_over_alpha() -> None:
    at = partial(bounds.relabelled_rows, dimension=10.0, alpha=0.01, epsilon=1.0, private=1.0)
    assert at(queries=1) == at(queries=0.999e6) == pytest.approx(10 / 0.01**2)
    assert at(queries=4e6) == pytest.approx(2 * at(queries=1))


def test_the_universal_size_does_not_depend_on_queries_and_is_free_at_high_accuracy() -> None:
    at = partial(bounds.universal_rows, dimension=100.0, epsilon=1.0, private=1.0)
    assert at(alpha=0.05) == pytest.approx(100 / 0.05**2)
    assert at(alpha=0.4) == pytest.approx(100 / 0.4**2 * math.sqrt(100) * 0.4)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -1.0, math.nan])
def test_what_is_no_fraction_is_refused(wrong: float) -> None:
    with pytest.raises(WrongInput, match="error must be between 0 and 1"):
        exact_cutoff(error=wrong, queries=10, beta=0.1, teachers=5)
    with pytest.raises(WrongInput, match="beta must be between 0 and 1"):
        bounds.agnostic_sizes(dimension=3, alpha=0.1, beta=wrong, epsilon=1, **ONES)


def test_mistakes_of_teachers_are_counted_as_the_theorem_counts_them() -> None:
    """A simulation of Theorem 3.2 (i): in 400 runs no more than β of them have T rows with a third of votes wrong."""
    teachers, queries, error, beta = 21, 60, 0.1, 0.2
    cutoff = exact_cutoff(error=error, queries=queries, beta=beta, teachers=teachers)
    generator = np.random.default_rng(7)
    hard = generator.random((400, 1, queries)) < 0.25  # mistakes fall together, as far as the rate allows
    wrong = hard & (generator.random((400, teachers, queries)) < error / 0.25)
    torn = (wrong.sum(axis=1) > teachers / 3).sum(axis=1)
    assert (torn >= cutoff).mean() <= beta
    assert torn.max() > 0

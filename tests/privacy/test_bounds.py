"""The cutoff of an estimate by BTT18, Theorem 3.2: what it counts, simulated, and why not the printed one."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from tests.world import exact_cutoff

TEACHERS, QUERIES, BETA = 1001, 2000, 0.05


def chance_of_more(cutoff: int, error: float) -> float:
    """Union bound on some teacher being wrong on more than a third of `cutoff` rows."""
    return TEACHERS * float(binom.sf(cutoff // 3, QUERIES, error))


@pytest.mark.parametrize("error", [0.001, 0.01, 0.1, 0.4])
def test_the_exact_cutoff_is_the_least_that_fails_with_probability_beta(error: float) -> None:
    cutoff = exact_cutoff(error=error, queries=QUERIES, beta=BETA, teachers=TEACHERS)
    assert chance_of_more(cutoff, error) <= BETA < chance_of_more(cutoff - 3, error)


@pytest.mark.parametrize("error", [0.01, 0.1])
def test_the_printed_cutoff_fails_more_often_than_it_says(error: float) -> None:
    """BTT18, Theorem 3.2: ⌈3·(pm + √(pm·ln(m/β)/2))⌉. The root is half of what Bernstein's inequality gives, and the
    union is over m where it should be over the k teachers."""
    mistakes = error * QUERIES
    cutoff = math.ceil(3 * (mistakes + math.sqrt(mistakes * math.log(QUERIES / BETA) / 2)))
    assert 1 - (1 - float(binom.sf(cutoff / 3, QUERIES, error))) ** TEACHERS > 2 * BETA


def test_fewer_rows_than_the_exact_cutoff_have_a_third_of_the_votes_wrong() -> None:
    """Lemma 3.3, with every teacher wrong on B rows placed as badly as possible: together, on the fewest rows."""
    cutoff = exact_cutoff(error=0.05, queries=QUERIES, beta=BETA, teachers=TEACHERS)
    each, needed = cutoff // 3, TEACHERS // 3 + 1
    assert each * TEACHERS // needed < cutoff


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

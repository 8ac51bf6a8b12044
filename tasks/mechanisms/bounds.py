"""Cutoffs and rates of answering queries: BTT18, Section 3 and Claim 4.1, as functions.

BTT18 is Bassily, Thakkar & Thakurta 2018. A constant or logarithm that a theorem hides in O or Õ is a named argument
without a default: with 1 in its place a bound is a shape, not a number.

Letters      n private rows, m queries, k teachers, T refusals, V the VC dimension, γ the least error in the class, α
             what a teacher errs above γ, β the probability of failure. Errors and rates are fractions of rows
Assumes      private rows and queries are drawn independently from one distribution; two classes
Guarantees   accuracy, with probability 1 − O(β). No privacy hangs on anything here
Ends         not applicable: nothing is drawn
Not covered  what is hidden in O and Õ; BTT18's full version, which we have not read; sample_sizes.py has the rest

Two printed steps do not hold as they stand, and what replaces them is beside them: the cutoff of Theorem 3.2
(`exact_cutoff`) and the last inequality of Claim 4.1 (`labelling_error`).
Checked by tests/privacy/test_bounds.py.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scipy.stats import binom

from artifacts.errors import WrongInput

Accuracy = Callable[[float, float], float]
"""α of a learner, from the rows it is given and the probability with which it may fail."""


class CutoffRule(Protocol):
    """T, from the error rate of a teacher."""

    def __call__(self, *, error: float, queries: int, beta: float, teachers: int) -> int: ...


@dataclass(frozen=True)
class Rate:
    """Misclassification `rate` of m queries at cutoff `refusals`; it is the same for all m up to `free_queries`."""

    free_queries: float
    refusals: float
    rate: float


@dataclass(frozen=True)
class Setting:
    """A solution of the circle T → α → k → T: `teachers` of n/k rows err γ + `alpha`, for which `cutoff` is enough."""

    cutoff: int
    teachers: int
    alpha: float


# Cutoffs --------------------------------------------------------------------------------------------------------------


def printed_cutoff(*, error: float, queries: int, beta: float, teachers: int) -> int:  # noqa: ARG001
    """T of BTT18, Theorem 3.2: ⌈3·(pm + √(pm·ln(m/β)/2))⌉ for teachers that err at rate p = γ + α.

    The root is half of what Bernstein's inequality gives, and the union is over m where it should be over the k
    teachers: T may be passed more often than printed. `exact_cutoff` has the theorem's guarantee.
    """
    check(fractions={"error": error, "beta": beta}, positive={"queries": queries})
    expected = error * queries
    return max(1, math.ceil(3 * (expected + math.sqrt(expected * math.log(queries / beta) / 2))))


def exact_cutoff(*, error: float, queries: int, beta: float, teachers: int) -> int:
    """T for which Theorem 3.2 holds when a session halts at its T-th refusal: three times a binomial quantile.

    With probability 1 − β none of k teachers, each wrong on Binomial(m, p) rows at most, is wrong on more than B rows;
    then fewer than 3B rows have over k/3 wrong votes (Lemma 3.3), so that the T-th refusal does not come.
    """
    check(fractions={"error": error, "beta": beta}, positive={"queries": queries, "teachers": teachers})
    return max(1, 3 * int(binom.isf(beta / teachers, queries, error)))


# The circle T → α → k → T ---------------------------------------------------------------------------------------------


def realizable_accuracy(*, dimension: float, constant: float) -> Accuracy:
    """α = c·(V + ln(1/β)) / rows: uniform convergence where γ = 0, as BTT18 uses it for Theorem 3.4."""
    return lambda rows, failure: constant * (dimension - math.log(failure)) / rows


def agnostic_accuracy(*, dimension: float, constant: float) -> Accuracy:
    """α = √(c·(V + ln(1/β)) / rows): uniform convergence for any γ, as BTT18 uses it for Theorem 3.5."""
    return lambda rows, failure: math.sqrt(constant * (dimension - math.log(failure)) / rows)


def consistent_setting(
    *,
    rows: int,
    queries: int,
    gamma: float,
    beta: float,
    accuracy: Accuracy,
    teachers: Callable[[int], int],
    cutoff: CutoffRule = exact_cutoff,
) -> Setting:
    """The least T that is enough for the teachers it asks for; BTT18 after Theorem 3.2, "circular dependency".

    accuracy   the teachers' learning curve
    teachers   k for a cutoff, for example published.teachers_required at a budget; must not fall as T grows

    Each map rises with its argument, so iterating from T = 1 reaches the least solution and passes none. Raises
    WrongInput where the circle does not close below `queries` refusals: n is too small.
    """
    check(fractions={"beta": beta}, positive={"rows": rows, "queries": queries})
    needed, found = 1, 0
    while needed > found:
        found, k = needed, teachers(needed)
        alpha = accuracy(rows / k, beta / k)
        error = gamma + alpha
        needed = cutoff(error=error, queries=queries, beta=beta, teachers=k) if error < 1 else queries + 1
        if needed > queries:
            raise WrongInput(
                f"rows = {rows:,} are too few to answer {queries:,} queries: no cutoff is enough for itself"
            )
    return Setting(cutoff=found, teachers=k, alpha=alpha)


# Rates of answering queries -------------------------------------------------------------------------------------------


def realizable_rate(
    *, rows: float, queries: float, dimension: float, epsilon: float, free: float, refusals: float
) -> Rate:
    """BTT18, Theorem 3.4 (γ = 0): with r = V/(εn), M = free/r queries at rate free·refusals·r, then refusals·m·r².

    T = refusals·m̄²·r² with m̄ = max(M, m); the rate is T/m̄, by Theorem 3.2. `free` and `refusals` are hidden in Ω̃, Õ.
    """
    unit = _unit(rows, queries, dimension, epsilon)
    most_free = free / unit
    spread = max(most_free, queries)
    return Rate(free_queries=most_free, refusals=refusals * (spread * unit) ** 2, rate=refusals * spread * unit**2)


def agnostic_rate(
    *,
    rows: float,
    queries: float,
    dimension: float,
    epsilon: float,
    gamma: float,
    free: float,
    unavoidable: float,
    refusals: float,
) -> Rate:
    """BTT18, Theorem 3.5: with r = V/(εn), M = free·min(1/γ, r^(−1/2)) queries, then O(γ) + Õ(m^(1/3)·r^(2/3)).

    T = unavoidable·m̄γ + refusals·m̄^(4/3)·r^(2/3) with m̄ = max(M, m); the rate is T/m̄, by Theorem 3.2. `free`,
    `unavoidable` and `refusals` are hidden in Ω̃, O and Õ.
    """
    unit = _unit(rows, queries, dimension, epsilon)
    most_free = free * min(1 / gamma if gamma > 0 else math.inf, unit**-0.5)
    spread = max(most_free, queries)
    rate = unavoidable * gamma + refusals * (spread * unit**2) ** (1 / 3)
    return Rate(free_queries=most_free, refusals=rate * spread, rate=rate)


def claimed_queries(*, alpha: float, beta: float) -> float:
    """m of BTT18, Claim 4.1: 4·ln(1/(αβ))/α queries, for which labels are said to err 3γ + 7α at most."""
    check(fractions={"alpha": alpha, "beta": beta}, positive={})
    return -4 * math.log(alpha * beta) / alpha


def labelling_error(*, queries: float, alpha: float, beta: float, gamma: float) -> float:
    """What the proof of Claim 4.1 shows err(h_priv) to be at most: β + 3·(p + √(p·ln(m/β)/(2m))), p = γ + α.

    The printed display divides by p where it should multiply. At `claimed_queries` this is at most 3γ + 7α for γ = 0,
    and passes it once γ is many times α; it stays O(γ + α). It inherits the deviation of `printed_cutoff`.
    """
    check(fractions={"alpha": alpha, "beta": beta}, positive={"queries": queries})
    error = gamma + alpha
    return beta + 3 * (error + math.sqrt(error * math.log(queries / beta) / (2 * queries)))


def _unit(rows: float, queries: float, dimension: float, epsilon: float) -> float:
    """V/(εn): the rate at which the papers' bounds count."""
    check(fractions={}, positive={"rows": rows, "queries": queries, "dimension": dimension, "epsilon": epsilon})
    return dimension / (epsilon * rows)


def check(*, fractions: dict[str, float], positive: dict[str, float]) -> None:
    """Raises WrongInput naming the first argument that is out of its range."""
    for name, value in fractions.items():
        if not 0 < value < 1:
            raise WrongInput(f"{name} must be between 0 and 1, got {value!r}")
    for name, value in positive.items():
        if not 0 < value < math.inf:
            raise WrongInput(f"{name} must be positive and finite, got {value!r}")

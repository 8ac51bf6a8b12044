"""The papers' theorems on accuracy, as functions: BTT18, Sections 3 and 4, BN19 and ABM19. No privacy hangs on them.

BTT18 is Bassily, Thakkar & Thakurta 2018, BN19 Nandi & Bassily 2020, ABM19 Alon, Bassily & Moran 2019. A constant or
logarithm that a theorem hides in O or Õ is a named argument without a default: with 1 in its place a bound is a shape,
not a number.

Letters      n private rows, m queries or unlabelled public rows, k teachers, T refusals, V the VC dimension, γ the
             least error in the class, α what is erred above γ, β the probability of failure. Errors and rates are
             fractions of rows
Assumes      all rows are drawn independently from one distribution; two classes
Guarantees   accuracy as stated, with probability 1 − O(β)
Not covered  what is hidden in O and Õ; BTT18's full version, which we have not read

Two printed steps do not hold as they stand, and what replaces them is here: the cutoff of Theorem 3.2 (`exact_cutoff`,
which the program uses) and the last inequality of Claim 4.1 (`labelling_error`).
Checked by tests/privacy/test_bounds.py.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.error_estimate import check_parameters, exact_cutoff

Accuracy = Callable[[float, float], float]
"""α of a learner, from the rows it is given and the probability with which it may fail."""


class CutoffRule(Protocol):
    """T, from the error rate of a teacher."""

    def __call__(self, *, error: float, queries: int, beta: float, teachers: int) -> int: ...


@dataclass(frozen=True)
class ErrorRate:
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
    check_parameters(fractions={"error": error, "beta": beta}, positive={"queries": queries})
    expected = error * queries
    return max(1, math.ceil(3 * (expected + math.sqrt(expected * math.log(queries / beta) / 2))))


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
    WrongInput if the circle does not close below `queries` refusals: n is too small.
    """
    check_parameters(fractions={"beta": beta}, positive={"rows": rows, "queries": queries})
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
) -> ErrorRate:
    """BTT18, Theorem 3.4 (γ = 0): with r = V/(εn), M = free/r queries at rate free·refusals·r, then refusals·m·r².

    T = refusals·m̄²·r² with m̄ = max(M, m); the rate is T/m̄, by Theorem 3.2. `free` and `refusals` are hidden in Ω̃,
    Õ.
    """
    unit = _unit(rows, queries, dimension, epsilon)
    most_free = free / unit
    spread = max(most_free, queries)
    return ErrorRate(free_queries=most_free, refusals=refusals * (spread * unit) ** 2, rate=refusals * spread * unit**2)


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
) -> ErrorRate:
    """BTT18, Theorem 3.5: with r = V/(εn), M = free·min(1/γ, r^(−1/2)) queries, then O(γ) + Õ(m^(1/3)·r^(2/3)).

    T = unavoidable·m̄γ + refusals·m̄^(4/3)·r^(2/3) with m̄ = max(M, m); the rate is T/m̄, by Theorem 3.2. `free`,
    `unavoidable` and `refusals` are hidden in Ω̃, O and Õ.
    """
    unit = _unit(rows, queries, dimension, epsilon)
    most_free = free * min(1 / gamma if gamma > 0 else math.inf, unit**-0.5)
    spread = max(most_free, queries)
    rate = unavoidable * gamma + refusals * (spread * unit**2) ** (1 / 3)
    return ErrorRate(free_queries=most_free, refusals=rate * spread, rate=rate)


def claimed_queries(*, alpha: float, beta: float) -> float:
    """m of BTT18, Claim 4.1: 4·ln(1/(αβ))/α queries, for which labels are said to err 3γ + 7α at most."""
    check_parameters(fractions={"alpha": alpha, "beta": beta}, positive={})
    return -4 * math.log(alpha * beta) / alpha


def labelling_error(*, queries: float, alpha: float, beta: float, gamma: float) -> float:
    """What the proof of Claim 4.1 shows err(h_priv) to be at most: β + 3·(p + √(p·ln(m/β)/(2m))), p = γ + α.

    The printed display divides by p where it should multiply. At `claimed_queries` this is at most 3γ + 7α for γ = 0,
    and passes it once γ is many times α; it stays O(γ + α). It inherits the deviation of `printed_cutoff`.
    """
    check_parameters(fractions={"alpha": alpha, "beta": beta}, positive={"queries": queries})
    error = gamma + alpha
    return beta + 3 * (error + math.sqrt(error * math.log(queries / beta) / (2 * queries)))


def _unit(rows: float, queries: float, dimension: float, epsilon: float) -> float:
    """V/(εn): the rate at which the papers' bounds count."""
    check_parameters(
        fractions={}, positive={"rows": rows, "queries": queries, "dimension": dimension, "epsilon": epsilon}
    )
    return dimension / (epsilon * rows)


# Sizes ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Rows a private learner needs: unlabelled `public` ones, which are its queries, and `private` ones."""

    public: float
    private: float


def realizable_sizes(
    *, dimension: float, alpha: float, beta: float, epsilon: float, public: float, private: float
) -> Sizes:
    """BTT18, Theorem 4.2 (γ = 0, err = O(α)): m = public·(V + ln(1/β))/α², n = private·V^(3/2)/(ε·α^(3/2))."""
    check_parameters(fractions={"alpha": alpha, "beta": beta}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * (dimension - math.log(beta)) / alpha**2, private * dimension**1.5 / (epsilon * alpha**1.5))


def erm_sizes(*, dimension: float, alpha: float, epsilon: float, public: float, private: float) -> Sizes:
    """BTT18, Remark 2 (γ = 0, a student that minimises empirical risk): m = public·V/α, n = private·V^(3/2)/(εα)."""
    check_parameters(fractions={"alpha": alpha}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * dimension / alpha, private * dimension**1.5 / (epsilon * alpha))


def efficient_sizes(*, dimension: float, alpha: float, epsilon: float, public: float, private: float) -> Sizes:
    """BTT18, Remark 3 (γ = 0, no agnostic learner, teachers of accuracy 1/m): m = public·V/α, n = private·V²/(εα)."""
    check_parameters(fractions={"alpha": alpha}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * dimension / alpha, private * dimension**2 / (epsilon * alpha))


def agnostic_sizes(
    *, dimension: float, alpha: float, beta: float, epsilon: float, public: float, private: float
) -> Sizes:
    """BTT18, Theorem 4.3 (err = O(α + γ)): m = public·(V + ln(1/β))/α², n = private·V^(3/2)/(ε·α^(5/2))."""
    check_parameters(fractions={"alpha": alpha, "beta": beta}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * (dimension - math.log(beta)) / alpha**2, private * dimension**1.5 / (epsilon * alpha**2.5))


def relabelled_rows(*, dimension: float, alpha: float, epsilon: float, queries: float, private: float) -> float:
    """n of BN19, Theorem 3.3, for an average excess error of α on m queries: private·V/(εα²)·max(1, √m·α^(3/2)).

    Up to m = α⁻³ that is the size learning takes without privacy. The abstract gives the shape at constant ε; the 1/ε
    is derived, from a subset of about εn rows being relabelled. The theorem's own condition on m is not known to us.
    """
    check_parameters(
        fractions={"alpha": alpha}, positive={"dimension": dimension, "epsilon": epsilon, "queries": queries}
    )
    growth = max(1.0, math.sqrt(queries) * alpha * math.sqrt(alpha))
    return private * dimension / (epsilon * alpha * alpha) * growth


def universal_rows(*, dimension: float, alpha: float, epsilon: float, private: float) -> float:
    """n of BN19 for any number of queries, private·V/(εα²)·max(1, √V·α): relabelling, for the first V/α of them."""
    return relabelled_rows(
        dimension=dimension, alpha=alpha, epsilon=epsilon, queries=dimension / alpha, private=private
    )


# The universal learner, with constants (Alon, Bassily & Moran 2019; constants derived) --------------------------------


def cover_rows(*, dimension: int, alpha: float, beta: float) -> int:
    """Public rows n for which hypotheses that agree on them disagree on at most α of all rows; fails with odds β.

    Least n >= 8/α with 2·(2en/V)^(2V)·2^(−αn/2) <= β: double sampling (Blumer et al. 1989) over the differences of two
    hypotheses, of which there are (2en/V)^(2V) on 2n rows by Sauer's lemma.
    """
    check_parameters(fractions={"alpha": alpha, "beta": beta}, positive={"dimension": dimension})

    def log_odds(rows: float) -> float:
        return math.log(2) * (1 - alpha * rows / 2) + 2 * dimension * math.log(2 * math.e * rows / dimension)

    # From its greatest value on, at 4V/(α·ln 2), the bound only falls.
    low, high = 0, max(math.ceil(8 / alpha), math.ceil(4 * dimension / (alpha * math.log(2))))
    while log_odds(high) > math.log(beta):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_odds(middle) <= math.log(beta) else (middle, high)
    return high


def selection_rows(*, candidates: int, alpha: float, beta: float, rate: float) -> int:
    """Private rows n for which the exponential mechanism errs α more than the best candidate; fails with odds β.

    rate   fall of the logarithm of a weight with each error: ε if rows are secret, ε/2 if labels are
    Least n with 2·√(ln(4c/β)/(2n)) + ln(2c/β)/(rate·n) <= α for c candidates: Hoeffding's inequality for all, both
    ways, and the mechanism's own utility (McSherry & Talwar 2007).
    """
    check_parameters(fractions={"alpha": alpha, "beta": beta}, positive={"candidates": candidates, "rate": rate})
    spread, choice = math.sqrt(2 * math.log(4 * candidates / beta)), math.log(2 * candidates / beta) / rate
    root = (spread + math.sqrt(spread**2 + 4 * alpha * choice)) / (2 * alpha)
    return math.ceil(root**2)


def universal_sizes(*, dimension: int, alpha: float, beta: float, epsilon: float) -> Sizes:
    """Rows for which the universal learner errs at most γ + α, with probability 1 − β: half of α and β each for the
    cover and for the choice among its at most (en/V)^V candidates. Rows are secret, so that ε is the choice's rate."""
    public = cover_rows(dimension=dimension, alpha=alpha / 2, beta=beta / 2)
    candidates = math.ceil((math.e * public / dimension) ** dimension)
    private = selection_rows(candidates=candidates, alpha=alpha / 2, beta=beta / 2, rate=epsilon)
    return Sizes(public, private)

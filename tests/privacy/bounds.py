"""The papers' theorems on accuracy that a test or a benchmark compares the program with. No privacy hangs on them.

BTT18 is Bassily, Thakkar & Thakurta 2018, BN19 Nandi & Bassily 2020, ABM19 Alon, Bassily & Moran 2019. A constant or
logarithm that a theorem hides in O or Õ is a named argument without a default: with 1 in its place a bound is a shape,
not a number.

Letters      n private rows, m queries or unlabelled public rows, V the VC dimension, γ the least error in the class, α
             what is erred above γ, β the probability of failure. Errors are fractions of rows
Assumes      all rows are drawn independently from one distribution; two classes
Guarantees   accuracy as stated, with probability 1 − O(β)
Not covered  what is hidden in O and Õ; BTT18's full version, which we have not read

The cutoff of BTT18's Theorem 3.2 does not hold as printed: the program uses `exact_cutoff`.
Checked by tests/privacy/test_bounds.py and tests/privacy/test_universal.py.
"""

import math
from dataclasses import dataclass

from concord.tasks.mechanisms.error_estimate import check_parameters


def printed_cutoff(*, error: float, queries: int, beta: float, teachers: int) -> int:  # noqa: ARG001
    """T of BTT18, Theorem 3.2: ⌈3·(pm + √(pm·ln(m/β)/2))⌉ for teachers that err at rate p = γ + α.

    The root is half of what Bernstein's inequality gives, and the union is over m where it should be over the k
    teachers: T may be passed more often than printed. `exact_cutoff` has the theorem's guarantee.
    """
    check_parameters(fractions={"error": error, "beta": beta}, positive={"queries": queries})
    expected = error * queries
    return max(1, math.ceil(3 * (expected + math.sqrt(expected * math.log(queries / beta) / 2))))


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


@dataclass(frozen=True)
class Sizes:
    """Rows a private learner needs: unlabelled `public` ones, which are its queries, and `private` ones."""

    public: float
    private: float


def universal_sizes(*, dimension: int, alpha: float, beta: float, epsilon: float) -> Sizes:
    """Rows for which the universal learner errs at most γ + α, with probability 1 − β: half of α and β each for the
    cover and for the choice among its at most (en/V)^V candidates. Rows are secret, so that ε is the choice's rate."""
    public = cover_rows(dimension=dimension, alpha=alpha / 2, beta=beta / 2)
    candidates = math.ceil((math.e * public / dimension) ** dimension)
    private = selection_rows(candidates=candidates, alpha=alpha / 2, beta=beta / 2, rate=epsilon)
    return Sizes(public, private)

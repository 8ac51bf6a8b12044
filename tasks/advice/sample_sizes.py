"""Rows that private learning takes: BTT18, Section 4, and BN19, as functions.

BTT18 is Bassily, Thakkar & Thakurta 2018, BN19 Nandi & Bassily 2020. What a theorem hides in O or Õ is a named argument
without a default (`public`, `private`): with 1 in its place a bound is a shape, not a number.

Letters      n private rows, m unlabelled public rows, V the VC dimension, γ the least error in the class, α the error
             above γ, β the probability of failure
Assumes      all rows are drawn independently from one distribution; two classes
Guarantees   there is a setting at these sizes whose student errs as stated, with probability 1 − O(β)
Ends         not applicable: nothing is drawn
Not covered  what is hidden in O and Õ; the setting itself (bounds.consistent_setting)

Checked by tests/privacy/test_bounds.py.
"""

import math
from dataclasses import dataclass

from concord.tasks.mechanisms.error_estimate import check


@dataclass(frozen=True)
class Sizes:
    """Rows a private learner needs: unlabelled `public` ones, which are its queries, and `private` ones."""

    public: float
    private: float


def realizable_sizes(
    *, dimension: float, alpha: float, beta: float, epsilon: float, public: float, private: float
) -> Sizes:
    """BTT18, Theorem 4.2 (γ = 0, err = O(α)): m = public·(V + ln(1/β))/α², n = private·V^(3/2)/(ε·α^(3/2))."""
    check(fractions={"alpha": alpha, "beta": beta}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * (dimension - math.log(beta)) / alpha**2, private * dimension**1.5 / (epsilon * alpha**1.5))


def erm_sizes(*, dimension: float, alpha: float, epsilon: float, public: float, private: float) -> Sizes:
    """BTT18, Remark 2 (γ = 0, a student that minimises empirical risk): m = public·V/α, n = private·V^(3/2)/(εα)."""
    check(fractions={"alpha": alpha}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * dimension / alpha, private * dimension**1.5 / (epsilon * alpha))


def efficient_sizes(*, dimension: float, alpha: float, epsilon: float, public: float, private: float) -> Sizes:
    """BTT18, Remark 3 (γ = 0, no agnostic learner, teachers of accuracy 1/m): m = public·V/α, n = private·V²/(εα)."""
    check(fractions={"alpha": alpha}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * dimension / alpha, private * dimension**2 / (epsilon * alpha))


def agnostic_sizes(
    *, dimension: float, alpha: float, beta: float, epsilon: float, public: float, private: float
) -> Sizes:
    """BTT18, Theorem 4.3 (err = O(α + γ)): m = public·(V + ln(1/β))/α², n = private·V^(3/2)/(ε·α^(5/2))."""
    check(fractions={"alpha": alpha, "beta": beta}, positive={"dimension": dimension, "epsilon": epsilon})
    return Sizes(public * (dimension - math.log(beta)) / alpha**2, private * dimension**1.5 / (epsilon * alpha**2.5))


def relabelled_rows(*, dimension: float, alpha: float, epsilon: float, queries: float, private: float) -> float:
    """n of BN19, Theorem 3.3, for an average excess error of α on m queries: private·V/(εα²)·max(1, √m·α^(3/2)).

    Up to m = α⁻³ that is the size learning takes without privacy. The abstract gives the shape at constant ε; the 1/ε
    is derived, from a subset of about εn rows being relabelled. The theorem's own condition on m is not known to us.
    """
    check(fractions={"alpha": alpha}, positive={"dimension": dimension, "epsilon": epsilon, "queries": queries})
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
    check(fractions={"alpha": alpha, "beta": beta}, positive={"dimension": dimension})

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


def cover_error(*, dimension: int, rows: int, beta: float) -> float:
    """α of `cover_rows` for that many public rows: the least for which the same bound holds; at most 1."""
    check(fractions={"beta": beta}, positive={"dimension": dimension, "rows": rows})
    if 2 * rows < dimension:
        return 1.0  # Sauer's lemma begins there
    spread = 2 * dimension * math.log(2 * math.e * rows / dimension) - math.log(beta)
    return min(1.0, max(8 / rows, 2 / rows * (1 + spread / math.log(2))))


def selection_rows(*, candidates: int, alpha: float, beta: float, rate: float) -> int:
    """Private rows for which the exponential mechanism errs at most α more than the best candidate; fails with odds β.

    rate   by how much the logarithm of a weight falls with each error: ε where rows are secret, ε/2 where labels are
    Least n with 2·√(ln(4c/β)/(2n)) + ln(2c/β)/(rate·n) <= α for c candidates: Hoeffding's inequality for all, both
    ways, and the mechanism's own utility (McSherry & Talwar 2007).
    """
    check(fractions={"alpha": alpha, "beta": beta}, positive={"candidates": candidates, "rate": rate})
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

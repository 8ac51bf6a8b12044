"""Optimal composition of pure-DP parts (Kairouz, Oh & Viswanath 2015), rounded towards safety.

Assumes      the parts, how often each runs and δ are fixed in advance
Guarantees   the ε returned is at least the least ε at which everything together satisfies (ε, δ)
Ends         nothing is kept between calls
Not covered  δ at or below FFT_ERROR for parts that differ: only the plain sum is left

Every ε-DP mechanism is dominated by ε-randomised response, so n equal parts lose (n − 2J)·ε with J binomial: the exact
sum below. Parts that differ are convolved by dp_accounting, whose Fourier transform is off by up to about 1e-12 either
way (it has been seen to under-report), so that much of δ and more is kept back.
Checked by tests/privacy/test_cost.py.
"""

import math
from collections import Counter
from collections.abc import Iterable
from functools import reduce

import numpy as np
from dp_accounting.pld import common, privacy_loss_distribution

UP = 1 + 1e-9
"""Head-room for double arithmetic in ε."""
SUM_ERROR = 1e-6
"""Part of δ kept back for double arithmetic: `lgamma` of MOST is right to about 1e-7."""
MOST = 10**7
"""Equal parts beyond which only their plain sum is taken: Rényi curves lose little there, and no time."""
FFT_ERROR = 1e-10
"""δ kept back from a convolution by Fourier transform."""
BISECTIONS = 60


def optimal_composition(pure: Iterable[tuple[float, int]], delta: float) -> float:
    """Least ε of (ε_i, 0) mechanisms run n_i times each, at δ; rounded up."""
    parts: Counter[float] = Counter()
    for epsilon, times in pure:
        parts[epsilon] += times if epsilon > 0 else 0
    parts = +parts
    whole = math.fsum(epsilon * times for epsilon, times in parts.items()) * UP
    if delta <= 0 or not parts:
        return whole
    if len(parts) == 1:
        ((each, times),) = parts.items()
        return min(whole, _of_equals(each, times, delta * (1 - SUM_ERROR)) if times <= MOST else whole)
    return min(whole, _of_others(parts, delta - FFT_ERROR))


def _of_equals(epsilon: float, times: int, delta: float) -> float:
    low, high = 0.0, epsilon * times
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if hockey_stick(epsilon, times, middle) <= delta else (middle, high)
    return high * UP


def hockey_stick(epsilon: float, times: int, total: float) -> float:
    """δ at `total` of ε-randomised response run `times` times: Σ_j Pr[J = j]·(1 − exp(total − (times − 2j)·ε))⁺.

    J counts flipped answers, each with probability 1/(1 + e^ε). Summed downwards from the largest j that counts; the
    logarithm of Pr[J = j] curves by at least 4/times, so 7·√times terms hold all but 1e-40 of either side.
    """
    reach = math.ceil(7 * math.sqrt(times))
    centre = math.ceil(times / (1 + math.exp(min(epsilon, 700.0))))
    first = min(math.ceil((times - total / epsilon) / 2) - 1, centre + reach, times)
    if first < 0:
        return 0.0
    flipped = np.arange(first, max(-1, first - 2 * reach - 1), -1, dtype=np.float64)
    falls = np.log(flipped[:-1] / (times - flipped[:-1] + 1)) + epsilon
    logs = _log_binomial(first, times, epsilon) + np.concatenate([[0.0], np.cumsum(falls)])
    return float(np.sum(np.exp(logs) * -np.expm1(np.minimum(total - (times - 2 * flipped) * epsilon, 0.0))))


def _log_binomial(flipped: int, times: int, epsilon: float) -> float:
    choices = math.lgamma(times + 1) - math.lgamma(flipped + 1) - math.lgamma(times - flipped + 1)
    return choices - flipped * epsilon - times * math.log1p(math.exp(-epsilon))


def _of_others(parts: Counter[float], delta: float) -> float:
    grid = max(min(1e-4, min(parts) / 8), max(parts) / 1e6)  # losses are rounded up to it, on one grid for all
    losses = [
        privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=grid
        ).self_compose(times)
        for epsilon, times in parts.items()
    ]
    total = reduce(lambda left, right: left.compose(right), losses)
    return float(total.get_epsilon_for_delta(delta)) * UP if delta > 0 else math.inf

"""Calibration shared by mechanisms: the least noise within a budget, and the exact δ of Gaussian counts.

Privacy statement
    Assumes      scales and how often they are drawn at are fixed in advance
    Guarantees   `gaussian_delta` is at least the δ of that many discrete Gaussians, each shifted by one, at ε
    Ends         nothing is drawn here
    Not covered  releases whose number or scale depends on earlier answers: those add Rényi curves

Proof. Let Y_i be discrete Gaussians of scale σ and S the sum of n of them. The privacy loss of n shifts by one is
(n − 2S) / 2σ², a function of S alone, as it is of one continuous Gaussian of scale σ√n shifted by n. S is hardly
anything else: by Poisson summation a sum of e^(−(y − c)²/2v) over integers y is at most √(2πv)·(1 + θ) for every c,
with θ = 2·Σ_j e^(−2π²vj²), and of e^(−y²/2σ²) at least √(2π)σ. Adding one term at a time, v ≥ σ²/2, hence
Pr[S = s] ≤ (1 + θ)^(n−1)·g(s), with g the density of N(0, nσ²) and θ ≤ 2 / (e^(π²σ²) − 1). The hockey-stick sum of a
log-concave function exceeds its integral, the closed form of Balle & Wang (2018), by at most its peak. ∎
Adaptive askers are covered: one shift by one dominates a row, and dominating pairs compose (Zhu, Dong & Wang 2022).
Checked by tests/privacy/test_accounting.py, against exact convolution and dp_accounting.
"""

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

from scipy.special import log_ndtr

from artifacts.errors import WrongInput
from artifacts.privacy import UP, Cost
from tasks.mechanisms.noise import MOST

PRECISION = 1e-9
"""How near to the least scale calibration comes, relatively."""


class Priced(Protocol):
    """A mechanism that states its budget and its cost."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def cost(self) -> Cost: ...


M = TypeVar("M", bound=Priced)


def least_noise(build: Callable[[float], M]) -> M:
    """The mechanism of the least scale whose own cost is within its budget; `build` makes the one of a scale.

    More noise must never cost more. Raises WrongInput where even the largest scale costs too much.
    """
    low, high = 0.0, 1.0
    while not within_budget(build(high)):
        low, high = high, 2 * high
        if high > MOST:
            raise WrongInput(f"the budget is too small for noise of any scale up to {MOST:g}")
    while high > low * (1 + PRECISION):
        middle = (low + high) / 2
        low, high = (low, middle) if within_budget(build(middle)) else (middle, high)
    return build(high)


def within_budget(mechanism: Priced) -> bool:
    """Whether what the mechanism costs is at most the budget it states."""
    return mechanism.cost.epsilon(mechanism.delta) <= mechanism.epsilon


def check_budget(*, epsilon: float, delta: float, queries: int, classes: int) -> None:
    """Raises WrongInput unless the budget and the stream are ones that can be calibrated for."""
    if not 0 < epsilon < math.inf or not 0 < delta < 1:
        raise WrongInput(f"epsilon must be positive and finite and delta between 0 and 1, got {epsilon!r}, {delta!r}")
    if queries < 1 or classes < 2:
        raise WrongInput(f"queries must be at least 1 and classes at least 2, got {queries!r}, {classes!r}")


def gaussian_delta(epsilon: float, shifts: int, scale: float) -> float:
    """δ at `epsilon` of `shifts` exact discrete Gaussians of `scale`, each shifted by one; rounded up, at most 1."""
    mu = math.sqrt(shifts) / scale
    start = epsilon / mu - mu / 2  # in standard deviations: where the loss exceeds ε
    outside = float(log_ndtr(-start))
    smooth = math.exp(outside) * -math.expm1(min(0.0, epsilon + float(log_ndtr(-start - mu)) - outside))
    ripple = 2 * (shifts - 1) / math.expm1(min(700.0, (math.pi * scale) ** 2))
    return min(1.0, (smooth + _peak(start, mu, scale)) * math.exp(min(700.0, ripple)) * UP)


def _peak(start: float, mu: float, scale: float) -> float:
    """Bound on g(s)·(1 − e^−x), x = loss(s) − ε: the bracket is at most x while g falls by e^(−start·x/mu)."""
    highest = math.exp(-(max(start, 0.0) ** 2) / 2) / math.sqrt(2 * math.pi) / (mu * scale**2)
    return highest if start <= 0 else highest * min(1.0, mu / (math.e * start))

"""Randomness: exact noise and selection from OpenDP, keyed draws, and the least noise within a budget.

Statement of draws: discrete noise and private selection from OpenDP, and the keyed stream of 64-bit draws
    Assumes      OpenDP's samplers are exact and its generator is the operating system's; AES-256 is a pseudo-random
                 function; a key is secret and an index under it serves one row for ever
    Guarantees   `laplace` and `gaussian` draw from the distributions that costs are computed for, with no
                 floating-point rounding (Canonne, Kamath & Steinke 2020, Alg. 1 and 3); `sample_by_weight` is
                 epsilon-DP (McSherry & Talwar 2007); `keyed_draws` gives a row the same uniform draw at every call
    Ends         nothing is kept between calls
    Not covered  running time, which depends on the noise; noise cannot be keyed, so the caller must store it
Checked by tests/privacy/test_noise.py: samplers against their exact probabilities, the stream against AES by hand; the
choices by test_universal.py.

Statement of calibration: the least noise within a budget, and the exact δ of Gaussian counts
    Assumes      scales and how often they are drawn at are fixed in advance
    Guarantees   `gaussian_delta` is at least the δ of that many discrete Gaussians, each shifted by one, at ε;
                 `gaussians_delta` is of several scales together; `moved_delta` of vectors under any whole shifts. None
                 is rounded down, however small ε and the shifts are
    Ends         nothing is drawn here
    Not covered  releases whose number at a scale is not bounded in advance; in what order they come does not matter

Proof. Let Y_i be discrete Gaussians of scale σ and S the sum of n of them. The privacy loss of n shifts by one is
(n − 2S) / 2σ², a function of S alone, as it is of one continuous Gaussian of scale σ√n shifted by n. S is hardly
anything else: by Poisson summation a sum of e^(−(y − c)²/2v) over integers y is at most √(2πv)·(1 + θ) for every c,
with θ = 2·Σ_j e^(−2π²vj²), and of e^(−y²/2σ²) at least √(2π)σ. Adding one term at a time, v ≥ σ²/2, hence
Pr[S = s] ≤ (1 + θ)^(n−1)·g(s), with g the density of N(0, nσ²) and θ ≤ 2 / (e^(π²σ²) − 1). The hockey-stick sum of a
log-concave function exceeds its integral, the closed form of Balle & Wang (2018), by at most its peak. ∎
Several scales: the loss is that of independent sums S_i of n_i draws of scale σ_i, and Σ F(s) over all lattice points s
is taken one coordinate at a time, F = Π g_i(s_i) · (1 − e^(ε − loss))⁺ being log-concave, its integrals and its maxima
over some coordinates too (Prékopa 1973). So it is at most the sum, over all ways to integrate or maximise each
coordinate, of what comes out. Integrating all is the closed form at μ² = Σ n_i/σ_i². In the others the bracket is at
most e^(λ(loss − ε))·λ^λ/(1 + λ)^(1+λ) for any λ > 0: integrated, coordinate i gives e^(λ(1+λ)n_i/2σ_i²), and maximised
1/(√(2πn_i)·σ_i) times that. ∎
Adaptive askers are covered. Let H(x) = E_P (1 − x·L)⁺ with L = Q/P of all that may still be drawn: convex, and no less
the more may be drawn, since E_P L = 1. With x = e^ε·Q/P of all answers so far, what an asker can still gain is at most
H(x): stopping gains (1 − x)⁺, and an answer is a function of one shift by one (or by nothing), which at most spreads x
by that draw's own ratio, whatever draw it is: its order among the others does not enter H. ∎ (Dominating pairs: Zhu,
Dong & Wang 2022; interleaved mechanisms: Vadhan & Wang 2021.)

Vectors, shifted by any whole v: σ² = s² + t², θ_t = 2·Σ_j e^(−2π²t²j²). Draw x from N(v, s²I), and round each
coordinate to an integer z with odds ∝ e^(−(z − x)²/2t²). By Poisson summation Σ_z of those is √(2π)t·(1 ± θ_t) for
every x; completing the square in x, z has e^(−(z − v)²/2σ²)/(√(2π)σ) over 1 ± θ_t. The discrete Gaussian has that over
1 + θ_σ, so its ratio to the rounded law lies in [(1 − θ_t)/(1 + θ_σ), 1 + θ_t] for each coordinate; those that do not
move are the same on both sides. Rounding x does not look at v, so rounded laws are post-processing of continuous
Gaussians, μ = ‖v‖/s. Hence with m moved coordinates δ(ε) ≤ e^a·δ_μ(ε − a − b), a = m·ln(1 + θ_t) and
b = m·ln((1 + θ_σ)/(1 − θ_t)). Of rounds asked one after another the ratios multiply along every path, so a and b add,
and so does μ², whatever each v is chosen by (Dong, Roth & Su 2022). ∎
Checked by tests/privacy/test_accounting.py, against exact convolution and dp_accounting.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Protocol, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms.distance import Draws, Ints
from concord.tasks.mechanisms.gaussian import delta_above
from concord.tasks.mechanisms.progress import report

DRAWS_AT_A_TIME = 65_536
"""Draws requested from OpenDP at a time: it returns Python lists, eight times as large as the array."""
LARGEST_SCALE = 2.0**40
"""Largest scale allowed: noise that cannot reach 2^63 never wraps when it is added to a count."""
AES_BLOCK = 16  # bytes of an AES block
DRAW = 8  # bytes of a 64-bit draw


def laplace(scale: float, size: int) -> Ints:
    """`size` draws of discrete Laplace noise, probability of z ∝ exp(−|z| / scale)."""
    return _noise("make_laplace", "l1_distance", scale, size)


def gaussian(scale: float, size: int) -> Ints:
    """`size` draws of discrete Gaussian noise, probability of z ∝ exp(−z² / (2·scale²))."""
    return _noise("make_gaussian", "l2_distance", scale, size)


@cache
def _opendp() -> Any:
    """OpenDP, loaded only where noise is drawn, because it is heavy."""
    from opendp import prelude

    prelude.enable_features("contrib")
    return prelude


def _noise(make: str, metric: str, scale: float, size: int) -> Ints:
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"scale must be positive and at most 2^40, got {scale!r}")
    dp = _opendp()
    add = getattr(dp.m, make)(_integers(), getattr(dp, metric)(T="i64"), scale=float(scale))
    noise = np.zeros(size, dtype=np.int64)
    for start in range(0, size, DRAWS_AT_A_TIME):
        report(start, size)
        noise[start : start + DRAWS_AT_A_TIME] = add(noise[start : start + DRAWS_AT_A_TIME])
    return noise


def sample_by_weight(scores: Ints, *, epsilon: float, sensitivity: int, monotone: bool = False) -> int:
    """An index drawn in proportion to exp(epsilon·score / (2·sensitivity)), or exp(epsilon·score / sensitivity) of
    monotone scores: the exponential mechanism, epsilon-DP.

    OpenDP also proves ρ = epsilon²/8 for it (Cesar & Rogers 2021).

    scores       (candidates,) whole numbers, each moving by at most `sensitivity` between neighbours
    epsilon      of the choice, pure
    monotone     between neighbours, no two scores move in opposite directions: weights may fall twice as fast
    """
    if not 0 < epsilon < float("inf") or sensitivity < 1:
        raise ValueError(f"epsilon must be positive and finite and sensitivity at least 1, got {epsilon, sensitivity}")
    # OpenDP rounds its cost upwards, so a scale of exactly range/ε may count as a little more than granted
    scale = (sensitivity if monotone else 2 * sensitivity) / epsilon * (1 + 1e-9)
    dp = _opendp()
    metric = dp.linf_distance(T="i64", monotonic=monotone)
    choose = dp.m.make_noisy_max(_integers(), metric, dp.zero_concentrated_divergence(), scale=scale)
    if not choose.check(sensitivity, epsilon**2 / 8):
        raise ArithmeticError(f"OpenDP does not grant epsilon = {epsilon!r} to a choice at scale {scale!r}")
    return int(choose(np.asarray(scores, dtype=np.int64)))


def _integers() -> Any:
    return _opendp().vector_domain(_opendp().atom_domain(T="i64"))


def keyed_draws(key: bytes, first: int, rows: int, buffer: Draws | None = None) -> Draws:
    """The uniform 64-bit draws of rows first … first + rows − 1 under a 32-byte key.

    Row i holds bytes 8i to 8i + 7, little-endian, of the AES-256-CTR key stream from counter zero (NIST SP 800-38A),
    so any stretch can be drawn alone. A `buffer` of at least rows + 1 draws is overwritten and returned as a view:
    memory that is already mapped takes a billion draws a second, fresh memory a tenth of that.
    """
    if first < 0 or rows < 0:
        raise ValueError(f"first and rows must be at least 0, got {first, rows}")
    block, skipped = divmod(first * DRAW, AES_BLOCK)
    before = skipped // DRAW
    stream = np.empty(before + rows, dtype="<u8") if buffer is None else buffer[: before + rows]
    if len(stream) < before + rows:
        raise ValueError(f"buffer must hold at least {rows + 1} draws, got {len(stream)}")
    stream[:] = 0
    octets = stream.view(np.uint8).data
    Cipher(AES256(key), CTR(block.to_bytes(AES_BLOCK, "big"))).encryptor().update_into(octets, octets)
    return stream[before:]


PRECISION = 1e-9
"""Relative precision to which calibration finds the least scale."""
EXPONENTS = np.geomspace(1e-4, 1e6, 4001)
"""Values of the proof's λ that are tried."""
BRACKETS = EXPONENTS * np.log(EXPONENTS) - (1 + EXPONENTS) * np.log1p(EXPONENTS)
"""ln λ^λ/(1 + λ)^(1+λ) of each λ: the largest ratio of (1 − e^(−x))⁺ to e^(λx)."""

ROUNDED = 2.0
"""t of the proof for vectors: θ_t is 1e-34."""
LEAST_ROUNDED = 3.0
"""Least scale for which that proof is used; below it, zero-concentrated DP loses less."""


class Priced(Protocol):
    """A mechanism with a budget and a cost."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def cost(self) -> Cost: ...


class Exact(Priced, Protocol):
    """A mechanism whose δ is known at any ε."""

    def delta_at(self, epsilon: float) -> float: ...


M = TypeVar("M", bound=Priced)


def least_noise(build: Callable[[float], M]) -> M:
    """The mechanism with the least noise scale whose cost is within its budget; `build` makes a mechanism from a scale.

    More noise must never cost more. Raises WrongInput if even the largest scale costs too much.
    """
    low, high = 0.0, 1.0
    while not within_budget(build(high)):
        low, high = high, 2 * high
        if high > LARGEST_SCALE:
            raise WrongInput(f"the budget is too small for noise of any scale up to {LARGEST_SCALE:g}")
    while high > low * (1 + PRECISION):
        middle = (low + high) / 2
        low, high = (low, middle) if within_budget(build(middle)) else (middle, high)
    return build(high)


def within_budget(mechanism: Priced) -> bool:
    """Whether the mechanism's cost is within its budget."""
    return mechanism.cost.epsilon(mechanism.delta) <= mechanism.epsilon


def exact_epsilon(mechanism: Exact) -> float:
    """The ε at which the mechanism's exact δ is the δ it claims; `cost` claims that only at the ε of calibration."""
    from scipy.optimize import brentq  # heavy, and rarely asked for

    def beyond(epsilon: float) -> float:
        return mechanism.delta_at(epsilon) - mechanism.delta

    held = beyond(mechanism.epsilon) <= 0 < beyond(0.0)
    return float(brentq(beyond, 0.0, mechanism.epsilon)) if held else mechanism.epsilon


def laplace_scale(epsilon: float, moved: int = 1) -> float:
    """The least scale at which a number that a unit moves by `moved` at most costs epsilon. Raises WrongInput."""
    if not 0 < epsilon < math.inf:
        raise WrongInput(f"epsilon must be positive and finite, got {epsilon!r}")
    if moved * UP**2 > epsilon * LARGEST_SCALE:
        raise WrongInput(f"epsilon must be larger, since no noise is as wide as it asks for, got {epsilon!r}")
    return moved / epsilon * UP**2


def laplace_reach(scale: float, tail: float) -> int:
    """The least whole t ≥ 0 that discrete Laplace noise reaches with probability at most `tail`."""
    # Pr[noise ≥ t] is p^t/(1 + p) for whole t > 0, p = e^(−1/scale)
    return math.ceil(max(0.0, -scale * (math.log(tail) + math.log1p(math.exp(-1 / scale)))))


def check_budget(*, epsilon: float, delta: float, queries: int, classes: int) -> None:
    """Raises WrongInput unless epsilon, delta, queries and classes are in their ranges."""
    if not 0 < epsilon < math.inf or not 0 < delta < 1:
        raise WrongInput(f"epsilon must be positive and finite and delta between 0 and 1, got {epsilon!r}, {delta!r}")
    if queries < 1 or classes < 2:
        raise WrongInput(f"queries must be at least 1 and classes at least 2, got {queries!r}, {classes!r}")


def gaussian_cost(mechanism: Exact, rho: float) -> Cost:
    """Zero-concentrated with ρ; also claims the mechanism's budget if its sharper δ is within it."""
    proved = mechanism.delta_at(mechanism.epsilon) <= mechanism.delta
    return replace(Cost.gaussian(rho), claims=((mechanism.epsilon, mechanism.delta),) if proved else ())


def gaussian_delta(epsilon: float, shifts: int, scale: float) -> float:
    """δ at `epsilon` of `shifts` exact discrete Gaussians of `scale`, each shifted by one; rounded up, at most 1."""
    mu = math.sqrt(shifts) / scale
    start = epsilon / mu - mu / 2  # in standard deviations: where the loss exceeds ε
    # a bound on g(s)·(1 − e^−x), x = loss(s) − ε: the bracket is at most x while g falls by e^(−start·x/mu)
    peak = math.exp(-(max(start, 0.0) ** 2) / 2) / math.sqrt(2 * math.pi) / (mu * scale**2)
    if start > 0:
        peak *= min(1.0, mu / (math.e * start))
    return min(1.0, (_smooth(epsilon, mu) + peak) * _ripple(shifts, scale) * UP)


def gaussians_delta(epsilon: float, draws: Sequence[tuple[int, float]]) -> float:
    """δ at `epsilon` of exact discrete Gaussians, each shifted by one, in groups (how many, scale); rounded up."""
    square = math.fsum(shifts / scale**2 for shifts, scale in draws)
    bound = (EXPONENTS * ((1 + EXPONENTS) * square / 2 - epsilon) + BRACKETS).min()
    lattice = math.prod(1 + 1 / (math.sqrt(2 * math.pi * shifts) * scale) for shifts, scale in draws) - 1
    ripple = math.prod(_ripple(shifts, scale) for shifts, scale in draws)
    return min(1.0, (_smooth(epsilon, math.sqrt(square)) + lattice * math.exp(min(0.0, bound))) * ripple * UP)


def moved_delta(epsilon: float, moves: Sequence[tuple[float, int, float]]) -> float:
    """δ at `epsilon` of vectors of exact discrete Gaussians, each shifted by whole numbers, one after another: (squared
    norm of the shift, coordinates it may move, scale). Rounded up, at most 1; 1 for a scale below LEAST_ROUNDED."""
    if min(scale for _, _, scale in moves) < LEAST_ROUNDED:
        return 1.0
    mu = math.sqrt(math.fsum(square / (scale**2 - ROUNDED**2) for square, _, scale in moves))
    theta = _theta(ROUNDED)  # and a and b of the proof, over all moves
    above = math.fsum(moved * math.log1p(theta) for _, moved, _ in moves)
    below = math.fsum(moved * (math.log1p(_theta(scale)) - math.log1p(-theta)) for _, moved, scale in moves)
    return min(1.0, math.exp(above) * _smooth(epsilon - above - below, mu) * UP)


def _theta(scale: float) -> float:
    """Bound on 2·Σ_j e^(−2π²·scale²·j²), with j for j²."""
    return 2 / math.expm1(min(700.0, 2 * (math.pi * scale) ** 2))


def _smooth(epsilon: float, mu: float) -> float:
    """δ of one continuous Gaussian of scale 1 shifted by mu; rounded up, in decimals: in doubles, the difference of two
    nearly equal tails would be too small for a tiny mu."""
    return math.nextafter(float(delta_above(mu, epsilon)), math.inf)


def _ripple(shifts: int, scale: float) -> float:
    """Bound on (1 + θ)^(shifts − 1)."""
    return math.exp(min(700.0, 2 * (shifts - 1) / math.expm1(min(700.0, (math.pi * scale) ** 2))))

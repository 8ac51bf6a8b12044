"""Recompute the cost of discrete Gaussians, of votes and of tallies, independently of the code that certified it.

`sums_delta`: δ of many draws, each shifted by one, from the laws of their sums: of two scales at most.

Let S be the sum of n draws of scale σ. Its privacy loss is (n − 2S)/2σ², the whole loss L adds over scales, and
δ(ε) = E (1 − e^(ε − L))⁺. If δ is tiny, so are the laws there; but a Fourier transform is right only to a part of a
law's largest value. So the laws are tilted until ε is where they are largest.

Assumes      draws are independent discrete Gaussians, of the recorded scales and no more than recorded
Guarantees   `sums_delta` is at least δ(ε): what rounding may take off is added, as FINE and SUMS_ROUNDING say
Not covered  a δ below LEAST_DELTA: NotVerified
             Checked by tests/tasks/verify/test_recompute_gaussian.py, against sums in 50 digits and planted bugs

Tilting. For t ≥ 0 let E_t weigh outcomes by e^(tL)/Z, Z = E e^(tL): a draw is then a lattice Gaussian about −t, and
δ(ε) = Z·e^(−tε)·E_t e^(−t(L − ε))·(1 − e^(ε − L))⁺. Let t be where E_t L = ε, or 0 if E L ≥ ε. The last factor is at
most 1 and falls as L grows, so nothing that counts is far from the middle, and Z·e^(−tε) is held as a logarithm. Beyond
HALF_LAW widths of the middle lies less than 1e-21 of a sum. That part is not lost: a transform wraps it around.
  A law of more places is taken for continuous. A sum over a lattice of a log-concave function is at most its integral
and its largest value; its integral is the closed form of Balle & Wang (2018). By Poisson summation the law of n draws
is at most (1 + θ)^(n − 1) times the normal density, θ = 2/(e^(π²σ²) − 1).
`tallies_delta`, `tallies_charge`: what tallies cost, from their recorded rounds alone. The largest residual is searched
for among all that a model may expect, if the mechanism has a formula; δ is an integral over the law of the privacy
loss, if it has a closed form, through lattices rounded from another split.

Assumes      the recorded rounds are those that ran; every unit adds what its rounds' settings allow
Guarantees   `tallies_delta` is a δ at which they are proved (ε, δ)-DP; `tallies_charge` is ρ·α nats
Not covered  whether what ran asked no more than was recorded: the door checks each question against its round
             Checked by tests/tasks/verify/test_recompute.py, with settings tampered with

Proof of the δ of tallies. σ² = s² + t². A Gaussian of scale s, rounded to the integers with odds ∝ e^(−(z − x)²/2t²),
is the discrete one of scale σ within a factor [(1 − θ_t)/(1 + θ_σ), 1 + θ_t] a number, θ_t = 2·Σ_j e^(−2π²t²j²)
(Poisson). So with m numbers δ(ε) ≤ e^a·E (1 − e^(ε − a − b − L))⁺, L normal of mean μ²/2 and variance μ², μ² = Σ N/s²,
and a and b the logarithms of both factors, m times, summed over rounds. ∎
Of a stream, `rounds` are the questions of each release: a unit moves release k, from its own on, by q_k times itself.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import log_ndtr

from concord.artifacts.errors import NotVerified
from concord.tasks.verify.kinds import Round, Stream, Tallies

Group = tuple[int, float]
"""A number of draws, and their scale."""

HALF_LAW = 10
"""Half of a law, in widths of at least a standard deviation."""
MOST_PLACES = 1 << 20
"""Largest size of a law that is computed; a wider one is treated as continuous."""
COARSE = 4.0
"""Scale from which a lattice Gaussian has the mean and the sum of a continuous one, to 1e-130."""
FINE = 1e-12
"""Relative amount by which ε is lowered before summing, since rounding may move a loss by this."""
SUMS_ROUNDING = 1e-9
"""Added to δ, relatively."""
LEAST_DELTA = 1e-290
MOST_EXPONENT = 700.0
NONE: Group = (0, 1.0)


def sums_delta(epsilon: float, *groups: Group) -> float:
    """An upper bound on the δ at `epsilon` of draws of one or two scales, each shifted by one. Raises NotVerified."""
    narrow, wide = sorted([NONE, *groups][-2:], key=_places)
    fine = epsilon * (1 - FINE)
    found = _on_lattices(fine, narrow, wide) if _places(wide) <= MOST_PLACES else _continuous(fine, narrow, wide)
    if not found > math.log(LEAST_DELTA):
        raise NotVerified(
            f"the δ of Gaussian counts at ε = {epsilon:g} is below {LEAST_DELTA:g}: too small to be recomputed"
        )
    return min(1.0, math.exp(found) * (1 + SUMS_ROUNDING))


def _on_lattices(epsilon: float, narrow: Group, wide: Group) -> float:
    """ln δ by both tilted laws: for each value of the narrower, the part of the wider above the rest of ε."""
    tilt = _tilt(epsilon, narrow, wide)
    (first, here, middle), (second, there, other) = _law(*narrow, tilt), _law(*wide, tilt)
    above, lowered = (np.append(0.0, np.cumsum(second * _exp(-power * there))) for power in (tilt, tilt + 1))
    least = epsilon - middle - other - here
    beyond = np.searchsorted(-there, -least)
    worth = _exp(tilt * least) * (above[beyond] - _exp(least) * lowered[beyond])
    return _log_moment(*narrow, tilt) + _log_moment(*wide, tilt) - tilt * epsilon + _log(np.sum(first * worth))


def _continuous(epsilon: float, narrow: Group, wide: Group) -> float:
    """ln δ if the wider law, or both, are treated as continuous: the integral plus the largest values."""
    if _places(narrow) > MOST_PLACES:
        integral, continuous = float(_log_smooth(_mu(narrow, wide), epsilon)), [narrow, wide]
    else:
        tilt, continuous = _tilt(epsilon, narrow, wide), [wide]
        law, loss, middle = _law(*narrow, tilt)
        parts = _log_smooth(_mu(wide), epsilon - middle - loss) - tilt * (middle + loss)
        most = float(parts.max())
        integral = _log_moment(*narrow, tilt) + most + _log(np.sum(law * np.exp(parts - most)))
    lattice = math.prod(1 + 1 / (math.sqrt(2 * math.pi * count) * scale) for count, scale in continuous) - 1
    ripple = sum(
        2 * (count - 1) / math.expm1(min(MOST_EXPONENT, (math.pi * scale) ** 2)) for count, scale in continuous
    )
    return float(np.logaddexp(integral, math.log(lattice) + _log_peak(epsilon, _mu(narrow, wide)))) + ripple


def _log_peak(epsilon: float, mu: float) -> float:
    """ln of a bound on a normal density times (1 − e^(ε − L))⁺, relative to the density's largest value: the least over
    t of E e^(t(L − ε)) times t^t/(1 + t)^(1 + t), the largest ratio of 1 − e^(−x) to e^(tx)."""
    from scipy.optimize import minimize_scalar  # heavy, and needed only for wide laws

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        return t * ((1 + t) * mu**2 / 2 - epsilon) + t * log_t - (1 + t) * math.log1p(t)

    return min(0.0, float(minimize_scalar(bound, bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-9}).fun))


def _mu(*groups: Group) -> float:
    return math.sqrt(math.fsum(count / scale**2 for count, scale in groups))


def _log_smooth(mu: float, epsilon: Any) -> Any:
    """ln δ of a continuous Gaussian of scale 1 shifted by mu, at ε or at each of an array (Balle & Wang 2018)."""
    outside = log_ndtr(mu / 2 - epsilon / mu)
    return outside + np.log(-np.expm1(np.minimum(epsilon + log_ndtr(-epsilon / mu - mu / 2) - outside, -1e-300)))


def _places(group: Group) -> int:
    """Size of the law of a sum: a lattice Gaussian has a variance of at most σ² + 1/4, wherever its centre is."""
    count, scale = group
    return 2 * math.ceil(HALF_LAW * math.sqrt(count * (scale**2 + 0.25))) + 1


def _tilt(epsilon: float, *groups: Group) -> float:
    """t at which the mean of the loss is ε, or 0."""

    def beyond(tilt: float) -> float:
        means = (count * (1 - 2 * _mean(scale, tilt)) / (2 * scale**2) for count, scale in groups)
        return math.fsum(means) - epsilon

    most = epsilon / _mu(*groups) ** 2 + 1
    return root(beyond, 0.0, most) if beyond(0.0) < 0 else 0.0


def root(rising: Callable[[float], float], low: float, high: float) -> float:
    """The root between two places, to the precision of a double."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high


def _single(scale: float, tilt: float) -> tuple[Any, Any, int]:
    """Places from a whole number near −t, and weights there, of a lattice Gaussian about −t; and that number."""
    base = -round(tilt)
    reach = math.ceil(HALF_LAW * scale) + 2
    places = np.arange(-reach, reach + 1)
    return places, np.exp(-((places + base + tilt) ** 2) / (2 * scale**2)), base


def _mean(scale: float, tilt: float) -> float:
    if scale >= COARSE:
        return -tilt
    places, weights, base = _single(scale, tilt)
    return base + float(np.sum(places * weights) / weights.sum())


def _log_moment(count: int, scale: float, tilt: float) -> float:
    """ln E e^(tL)."""
    ratio = 1.0 if scale >= COARSE else float(_single(scale, tilt)[1].sum() / _single(scale, 0.0)[1].sum())
    return count * (math.log(ratio) + tilt * (1 + tilt) / (2 * scale**2))


@lru_cache(maxsize=4)
def _law(count: int, scale: float, tilt: float) -> tuple[Any, Any, float]:
    """The tilted law of a sum, its losses from the middle one, falling, and the middle one."""
    size = next_fast_len(_places((count, scale)), real=True)
    places, weights, base = _single(scale, tilt)
    single = np.bincount(places % size, weights / weights.sum(), minlength=size)
    middle = round(count * (_mean(scale, tilt) - base))
    law = np.roll(np.fft.irfft(np.fft.rfft(single) ** count, size), size // 2 - middle)
    losses = (size // 2 - np.arange(size)) / scale**2
    return np.maximum(law, 0.0), losses, (count - 2 * (count * base + middle)) / (2 * scale**2)


def _exp(exponent: Any) -> Any:
    return np.exp(np.minimum(exponent, MOST_EXPONENT))


def _log(value: Any) -> float:
    return math.log(value) if value > 0 else -math.inf


LATTICE_SCALE = Decimal("1.5")
"""t."""
TALLIES_DIGITS = 60
MOST_STEPS = 2**20
"""Most steps of a vote."""
NODES = 256
WIDTHS = 14.0
"""Widths of the normal law summed beyond the point of loss ε: the rest is below 1e-40 of the sum."""
TALLIES_ROUNDING = 1e-11
"""Added to δ, relatively."""


def tallies_charge(kind: Tallies, order: float) -> tuple[float, float]:
    """Rényi nats at `order`: ρ·order (Bun & Steinke 2016), ρ = Σ N/2σ² (Canonne, Kamath & Steinke 2020)."""
    with localcontext(prec=TALLIES_DIGITS):
        return float(_rho(kind) * Decimal(order)), 0.0


def tallies_delta(kind: Tallies, epsilon: float) -> float:
    """δ of all rounds at ε, the smaller of two proofs."""
    with localcontext(prec=TALLIES_DIGITS):
        return min(_by_rounding(kind, epsilon), _by_curve(float(_rho(kind)), epsilon))


def moved_norm(kind: Tallies, of_round: Round) -> int:
    """N: the largest squared norm by which neighbours move a round's sums."""
    if not 0 <= of_round.least <= kind.steps:
        raise NotVerified("the least of a vote's steps must be from 0 to all of them")
    row = of_round.fields * max(_squares(kind.classes, kind.steps, of_round.what, of_round.least))
    if kind.secret == "rows":
        return row + of_round.count**2
    one_label = [kind.steps] if kind.classes <= 2 else [kind.steps, -kind.steps]
    changed = of_round.fields * sum(part**2 for part in one_label)
    if not kind.many:
        return changed
    with localcontext(prec=TALLIES_DIGITS):
        truncated = Decimal(changed).sqrt() + Decimal(of_round.cells).sqrt()
        return min(4 * row, math.ceil(truncated**2))


def _squares(classes: int, steps: int, what: str, least: int) -> list[int]:
    """Squared norms of one row's residual over expectations a model may have; the largest norm is among them."""
    if what == "codes":
        return [steps**2]
    if classes <= 2:  # none: a number, which is a share of one vote
        expected = np.arange(least, steps - least + 1)
        return [int(np.maximum(expected, steps - expected).max()) ** 2]
    rest = steps - classes * least
    corners = [[least] * classes, [least + rest, *[least] * (classes - 1)]]  # any other class expected is alike
    return [
        sum((steps * (at == label) - part) ** 2 for at, part in enumerate(corner))
        for corner in corners
        for label in (0, 1)
    ]


Move = tuple[int, int, Decimal]
"""N, number of numbers, and scale."""


def tallied_moves(kind: Tallies) -> list[Move]:
    """The change between neighbours of all steps together: rounds, or releases of a season."""
    weights = [part**2 for part in coefficients(kind)] if isinstance(kind, Stream) else [1]
    return [
        (moved_norm(kind, each) * sum(weights), each.cells * len(weights), Decimal(each.scale)) for each in kind.rounds
    ]


def steps(kind: Tallies) -> int:
    """Number of steps."""
    return kind.season if isinstance(kind, Stream) else len(kind.rounds)


def coefficients(kind: Stream) -> list[int]:
    """q_k by c_k = c_{k−1}·(2k − 1)/2k, c_0 = 1, in fractions; halves are rounded up. Raises NotVerified for a matrix
    that is not the square root."""
    if kind.matrix != "square root":
        raise NotVerified(f"what a stream by the matrix {kind.matrix!r} costs cannot be recomputed")
    exact, found = Fraction(1), list[int]()
    for k in range(1, kind.season + 1):
        found.append(math.floor(exact * 2**kind.bits + Fraction(1, 2)))
        exact *= Fraction(2 * k - 1, 2 * k)
    return found


def _rho(kind: Tallies) -> Decimal:
    return sum((square / (2 * scale**2) for square, _, scale in tallied_moves(kind)), Decimal(0))


def _by_curve(rho: float, epsilon: float) -> float:
    """Least over orders of the conversion of Canonne, Kamath & Steinke 2020, Prop. 12."""
    orders = 1 + np.geomspace(1e-3, 1e5, 20_000)
    logs = (orders - 1) * (orders * rho - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return math.exp(min(0.0, float(logs.min())))


def _by_rounding(kind: Tallies, epsilon: float) -> float:
    rounds = tallied_moves(kind)
    if min(scale for _, _, scale in rounds) <= 2 * LATTICE_SCALE:
        return 1.0
    above = sum((cells * (1 + theta(LATTICE_SCALE)).ln() for _, cells, _ in rounds), Decimal(0))
    coarse = 1 - theta(LATTICE_SCALE)
    below = sum((cells * ((1 + theta(scale)) / coarse).ln() for _, cells, scale in rounds), Decimal(0))
    mu = sum((square / (scale**2 - LATTICE_SCALE**2) for square, _, scale in rounds), Decimal(0)).sqrt()
    beyond = expected_beyond(float(mu), float(Decimal(epsilon) - above - below))
    return min(1.0, float(above.exp()) * beyond * (1 + TALLIES_ROUNDING))


def theta(scale: Decimal) -> Decimal:
    """2·Σ_j e^(−2π²·scale²·j²)."""
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    return 2 * sum(((-2 * (pi * scale * j) ** 2).exp() for j in range(1, 9)), Decimal(0))


@lru_cache(maxsize=1)
def _legendre() -> tuple[Any, Any]:
    return np.polynomial.legendre.leggauss(NODES)


def expected_beyond(mu: float, epsilon: float) -> float:
    """E (1 − e^(ε − L))⁺, L = μ²/2 + μ·x, by Gauss–Legendre quadrature from the point at which L = ε."""
    start = (epsilon - mu**2 / 2) / mu
    first = max(start, -WIDTHS)
    stretch = min(WIDTHS + max(0.0, -first), 60 / max(first, 1e-9))
    nodes, weights = _legendre()
    x = first + (nodes + 1) / 2 * stretch
    density = np.exp(-(x**2 - first**2) / 2)
    total = float(np.sum(weights * density * -np.expm1(-mu * (x - start)))) * stretch / 2
    return math.exp(-(first**2) / 2) * total / math.sqrt(2 * math.pi)

"""Recompute the cost of discrete Gaussians, of votes, tests and tallies, independently of the code that certified it.

    settings ─ what a unit moves: squared norm, numbers, scale ─ charge: ρ = Σ N/2σ², in decimals
                                                               ─ δ: the least of two proofs, by quadrature

The largest residual of a round is searched for among all that a model may expect, if the mechanism has a formula; δ is
an integral over the law of the privacy loss, if it has a closed form in decimals.

Assumes      recorded scales, rounds and numbers of draws are those that ran; every unit adds what its settings allow
Guarantees   `least_delta` is a δ at which they are proved (ε, δ)-DP, and at least LEAST_DELTA; `charge` is ρ·α nats
Not covered  whether what ran asked no more than was recorded: the door checks each question against its round
             Checked by tests/tasks/verify/test_recompute_gaussian.py, against sums in 50 digits and planted bugs, and
             by test_recompute.py, with settings tampered with

Proof of δ. Let L be normal of mean μ²/2 and variance μ², μ² = Σ N/σ², and δ_μ(ε) = E (1 − e^(ε − L))⁺.
  Numbers that move by one each, n of scale σ: their loss is that of the sum S of n draws. By Poisson summation the law
of S is at most (1 + θ)^(n − 1) times the normal density, θ = 2/(e^(π²σ²) − 1). A sum over a lattice of a log-concave
function is at most its integral and its largest value, which (1 − e^(ε − L))⁺ ≤ e^(t(L − ε))·t^t/(1 + t)^(1 + t) bounds
for any t > 0; of two scales, one sums over one after the other.
  Vectors moved by any whole numbers: let σ² = s² + t². A Gaussian of scale s, rounded to the integers with odds
∝ e^(−(z − x)²/2t²), is the discrete one of scale σ within a factor [(1 − θ_t)/(1 + θ_σ), 1 + θ_t] a number,
θ_t = 2·Σ_j e^(−2π²t²j²) (Poisson). So with m numbers δ(ε) ≤ e^a·δ_μ(ε − a − b), μ² = Σ N/s², and a and b the logarithms
of both factors, m times, summed over rounds.
  Either way δ is at most what ρ converts to (Canonne, Kamath & Steinke 2020, Prop. 12). ∎
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.errors import NotVerified
from concord.artifacts.schemas import Bounds
from concord.tasks.verify.kinds import Amount, Count, KindSettings, Proof, Releases, RoundSettings, Secret

MovedNumbers = tuple[int, int, Decimal]
"""Squared norm N of what a unit moves, how many numbers it may move, and the scale of their noise."""
LATTICE_SCALE = Decimal("1.75")
"""t: θ_t is 1e-26, so that a billion numbers add next to nothing to δ."""
LEAST_SCALE = 3
"""Least scale of noise in vectors for which that proof is used."""
DIGITS = 60
MOST_STEPS = 2**20
"""Most steps of a vote."""
NODES = 256
WIDTHS = 14.0
"""Widths of the normal law summed beyond the point of loss ε: the rest is below 1e-40 of the sum."""
ROUNDING = 1e-11
"""Added to δ, relatively."""
LEAST_DELTA = 1e-290
"""The least δ that is told from nothing: a smaller one counts as this."""
MOST_EXPONENT = 700.0
ORDERS = 1 + np.geomspace(1e-10, 1e5, 40_000)
"""Rényi orders at which ρ is converted: those next to 1 prove a δ next to 1."""


class GaussianProof(Proof):
    """What a session costs of which all is released under discrete Gaussian noise.

    by_ones  whether a unit moves each number by one at most, for which there is a sharper proof
    """

    by_ones: ClassVar[bool] = True

    @property
    @abstractmethod
    def moves(self) -> list[MovedNumbers]:
        """The change between neighbours of all that is released. Raises NotVerified if it cannot be recomputed."""

    def charge(self, order: float) -> tuple[float, float]:
        """Rényi nats at `order`: ρ·order (Bun & Steinke 2016), ρ = Σ N/2σ² (Canonne, Kamath & Steinke 2020)."""
        with localcontext(prec=DIGITS):
            return float(_rho(self.moves) * Decimal(order)), 0.0

    def least_delta(self, epsilon: float) -> float:
        """δ at ε of all that is released, the smaller of two proofs, and at least LEAST_DELTA."""
        with localcontext(prec=DIGITS):
            moved = self.moves
            sharper = by_ones(moved, epsilon) if self.by_ones else by_rounding(moved, epsilon)
            return max(LEAST_DELTA, min(sharper, converted(ORDERS * float(_rho(moved)), ORDERS, epsilon)))


class TalliesSettings(GaussianProof, KindSettings):
    """Rounds of noisy sums about the codes of that digest; `many` says whether a unit may have several rows."""

    releases: ClassVar[Releases] = "rounds"
    by_ones: ClassVar[bool] = False

    epsilon: Amount
    delta: Amount
    classes: Count
    bounds: Bounds | None = None
    steps: Count
    secret: Secret
    many: bool
    rounds: tuple[RoundSettings, ...]
    codes: str = ""

    @property
    def moves(self) -> list[MovedNumbers]:
        """The sums of each round."""
        return [(moved_norm(self, paid), paid.cells, Decimal(paid.scale)) for paid in self.rounds]


def moved_norm(kind: TalliesSettings, of_round: RoundSettings) -> int:
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
    with localcontext(prec=DIGITS):
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


def _rho(moved: Sequence[MovedNumbers]) -> Decimal:
    return sum((square / (2 * scale**2) for square, _, scale in moved), Decimal(0))


def converted(nats: Any, order: Any, epsilon: float) -> float:
    """δ at ε of so many nats at an order, or the least of several (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    logs = (order - 1) * (nats - epsilon + np.log1p(-1 / order)) - np.log(order)
    return math.exp(min(0.0, float(np.min(logs))))


def by_ones(moved: Sequence[MovedNumbers], epsilon: float) -> float:
    """δ at ε of numbers that move by one each."""
    mu = math.sqrt(2 * _rho(moved))
    groups = [(count, float(scale)) for _, count, scale in moved]
    lattice = math.prod(1 + 1 / (math.sqrt(2 * math.pi * count) * scale) for count, scale in groups) - 1
    thetas = (2 / math.expm1(min(MOST_EXPONENT, (math.pi * scale) ** 2)) for _, scale in groups)
    ripple = math.fsum((count - 1) * theta for (count, _), theta in zip(groups, thetas, strict=True))
    whole = expected_beyond(mu, epsilon) + lattice * math.exp(_log_peak(mu, epsilon))
    return min(1.0, whole * math.exp(min(MOST_EXPONENT, ripple)) * (1 + ROUNDING))


def _log_peak(mu: float, epsilon: float) -> float:
    """ln of the proof's bound on a normal density times (1 − e^(ε − L))⁺, relative to the density's largest value: the
    least over t of E e^(t(L − ε))·t^t/(1 + t)^(1 + t)."""
    from scipy.optimize import minimize_scalar  # heavy, and needed only for votes and tests

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        return t * ((1 + t) * mu**2 / 2 - epsilon) + t * log_t - (1 + t) * math.log1p(t)

    return min(0.0, float(minimize_scalar(bound, bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-9}).fun))


def by_rounding(moved: Sequence[MovedNumbers], epsilon: float) -> float:
    """δ at ε of vectors that move by any whole numbers; 1 if a scale is too small for the proof."""
    if min(scale for _, _, scale in moved) < LEAST_SCALE:
        return 1.0
    above = sum((cells * (1 + theta(LATTICE_SCALE)).ln() for _, cells, _ in moved), Decimal(0))
    coarse = 1 - theta(LATTICE_SCALE)
    below = sum((cells * ((1 + theta(scale)) / coarse).ln() for _, cells, scale in moved), Decimal(0))
    mu = sum((square / (scale**2 - LATTICE_SCALE**2) for square, _, scale in moved), Decimal(0)).sqrt()
    beyond = expected_beyond(float(mu), float(Decimal(epsilon) - above - below))
    return min(1.0, float(above.exp()) * beyond * (1 + ROUNDING))


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

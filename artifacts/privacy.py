"""Privacy cost as data, and the amounts that a ledger charges for it.

A `Cost` is what a mechanism will have spent at its end: a Rényi curve over the fixed public grid ORDERS, plus an
additive δ. A plain (ε, δ) cost has the curve of ε-randomised response, which dominates every ε-DP mechanism.
Amounts that are charged are exact decimals rounded up, so that a positive spend can never round to nothing.

`optimal_composition` composes pure-DP parts (Kairouz, Oh & Viswanath 2015), rounded towards safety:

Assumes      the parts, how often each runs and δ are fixed in advance
Guarantees   the ε returned is at least the least ε at which everything together satisfies (ε, δ)
Ends         nothing is kept between calls
Not covered  δ at or below FFT_ERROR for parts that differ: only the plain sum is left

Every ε-DP mechanism is dominated by ε-randomised response, so n equal parts lose (n − 2J)·ε with J binomial: the exact
sum below. Parts that differ are convolved by dp_accounting, whose Fourier transform is off by up to about 1e-12 either
way (it has been seen to under-report), so that much of δ and more is kept back.

Checked by tests/privacy/test_cost.py (laws). What a domain may still spend is decided by artifacts.domains.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache, reduce

UP = 1 + 1e-9
"""Head-room for double arithmetic on the way to a claim; every claimed ε is multiplied by it."""
SUM_ERROR = 1e-6
"""Part of δ kept back for double arithmetic: `lgamma` of MOST is right to about 1e-7."""
MOST_EQUAL_PARTS = 10**7
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
        ((part, times),) = parts.items()
        return min(whole, _of_equals(part, times, delta * (1 - SUM_ERROR)) if times <= MOST_EQUAL_PARTS else whole)
    return min(whole, _of_others(parts, delta - FFT_ERROR))


@lru_cache(maxsize=1024)  # a search for the mechanism that suits asks for the same ones many times
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
    import numpy as np  # heavy, and a home's budget is often shown without it

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
    from dp_accounting.pld import common, privacy_loss_distribution  # here: loading takes most of a second

    grid = max(min(1e-4, min(parts) / 8), max(parts) / 1e6)  # losses are rounded up to it, on one grid for all
    losses = [
        privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=grid
        ).self_compose(times)
        for epsilon, times in parts.items()
    ]
    total = reduce(lambda left, right: left.compose(right), losses)
    return float(total.get_epsilon_for_delta(delta)) * UP if delta > 0 else math.inf


ORDERS: tuple[float, ...] = (
    *(quarter / 4 for quarter in range(5, 25)),
    *(6.5, 7.0, 7.5, 8.0, 9.0, 10.0, 11.0, 12.0, 13.5, 15.0, 18.0, 22.0, 27.0, 33.0, 40.0, 50.0, 60.0, 80.0),
    *(100.0, 128.0, 160.0, 200.0, 256.0, 320.0, 400.0, 512.0, 640.0, 800.0, 1024.0),
)
"""Rényi orders every curve is stated on. Part of the meaning of stored costs: never changed, only replaced."""


RENYI_QUANTUM = Decimal("1e-18")
DELTA_QUANTUM = Decimal("1e-36")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The privacy cost of a mechanism at its end.

    renyi   Rényi divergence bound in nats at each of ORDERS; +inf if there is none
    delta   additive δ, outside the curve
    pure    (ε, times) of pure-DP parts, when the whole cost but `delta` consists of such parts; else None
    claims  (ε, δ) pairs proved for exactly this cost by a sharper route; composition forgets them
    """

    renyi: tuple[float, ...]
    delta: float = 0.0
    pure: tuple[tuple[float, int], ...] | None = None
    claims: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if len(self.renyi) != len(ORDERS) or any(math.isnan(r) or r < 0 for r in self.renyi):
            raise ValueError(f"renyi must hold {len(ORDERS)} values of at least 0, one an order")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta!r}")

    @classmethod
    def gaussian(cls, rho: float) -> "Cost":
        """ρ-zero-concentrated DP: Rényi α·ρ (Bun & Steinke 2016). Σ sensitivity²/(2σ²) for Gaussian releases."""
        return cls(renyi=tuple(order * rho for order in ORDERS))

    @classmethod
    def approximate(cls, epsilon: float, delta: float = 0.0, times: int = 1) -> "Cost":
        """`times` releases of (ε, 0) each, plus δ once: the curve of ε-randomised response, which dominates them."""
        curve = tuple(times * randomised_response(epsilon, order) for order in ORDERS)
        return cls(renyi=curve, delta=delta, pure=((epsilon, times),))

    @classmethod
    def bounded_range(cls, epsilon: float) -> "Cost":
        """One ε-DP release whose privacy losses lie within an interval of length ε, such as one choice by the
        exponential mechanism. Never more than `approximate`, whose losses lie within one of length 2ε."""
        curve = tuple(bounded_range(epsilon, order) for order in ORDERS)
        return cls(renyi=curve, pure=((epsilon, 1),))

    def epsilon(self, delta: float) -> float:
        """The least ε this cost is known to satisfy at `delta`; +inf if none is. Rounded up.

        Best order of the curve (Canonne, Kamath & Steinke 2020, Prop. 12), optimal composition of pure parts
        (Kairouz, Oh & Viswanath 2015) and the sharper claims. For one cost fixed in advance only: a domain's
        spends are counted by `Filter`.
        """
        claimed = [epsilon for epsilon, at in self.claims if at <= delta]
        room = delta - self.delta
        if room < 0 or (room == 0 and self.pure is None):
            return min(claimed, default=math.inf)
        pure = math.inf if self.pure is None else optimal_composition(self.pure, room)
        return min([from_curve(self.renyi, room), pure, *claimed])

    def delta_at(self, epsilon: float) -> float:
        """The least δ this cost is known to satisfy at an ε of at least 0: the other way round than `epsilon`, by the
        same theorems, exact for equal pure parts. Rounded up; at most 1."""
        from dp_accounting.rdp import rdp_privacy_accountant

        bounds = [1.0, *(delta for at, delta in self.claims if at <= epsilon)]
        if finite := [pair for pair in zip(ORDERS, self.renyi, strict=True) if math.isfinite(pair[1])]:
            bounds.append(
                self.delta + float(rdp_privacy_accountant.compute_delta(*zip(*finite, strict=True), epsilon)[0])
            )
        if self.pure is not None and len(self.pure) == 1 and self.pure[0][1] <= MOST_EQUAL_PARTS:
            bounds.append(self.delta + hockey_stick(*self.pure[0], epsilon) * (1 + SUM_ERROR))
        return min(1.0, min(bounds) * UP)


def compose(costs: Iterable[Cost]) -> Cost:
    """Total of costs fixed in advance: curves and δ add; order does not matter."""
    total = list(costs)
    if len(total) == 1:
        return total[0]
    return reduce(_add, total, Cost(renyi=(0.0,) * len(ORDERS), pure=()))


def _add(first: Cost, second: Cost) -> Cost:
    pure = None if first.pure is None or second.pure is None else first.pure + second.pure
    curve = tuple(a + b for a, b in zip(first.renyi, second.renyi, strict=True))
    return Cost(renyi=curve, delta=first.delta + second.delta, pure=pure)


def randomised_response(epsilon: float, order: float) -> float:
    """Rényi divergence of order α of ε-randomised response, the worst of all ε-DP mechanisms; rounded up.

    ln [cosh((α − ½)ε) / cosh(ε/2)] / (α − 1), with the ratio written as 1 + 2·sinh(αε/2)·sinh((α − 1)ε/2) / cosh(ε/2)
    if that does not overflow: for small ε the plain form loses every digit.
    """
    if order * epsilon > 60:
        gain = (order - 1) * epsilon + math.log1p(math.exp((1 - 2 * order) * epsilon)) - math.log1p(math.exp(-epsilon))
    else:
        half = epsilon / 2
        gain = math.log1p(2 * math.sinh(order * half) * math.sinh((order - 1) * half) / math.cosh(half))
    return gain / (order - 1) * UP


def bounded_range(epsilon: float, order: float) -> float:
    """Rényi divergence of order α of the worst ε-bounded-range mechanism (Dong, Durfee & Rogers 2020); rounded up.

    Proof. Under Q, the likelihood ratio L = P/Q of neighbours has mean 1 and lies in [e^(t−ε), e^t] for a t in [0, ε].
    x^α lies below its chord on that interval, so E_Q L^α is at most what it is where L takes the two ends alone, e^t
    with probability q = (e^(ε−t) − 1)/(e^ε − 1), which makes the mean 1:
        M(t) = q·e^(αt) + (1 − q)·e^(α(t−ε)) ∝ b·e^((α−1)t) − a·e^(αt),  a = 1 − e^(−(α−1)ε),  b = e^ε·(1 − e^(−αε))
    It rises up to e^t = b·(α − 1)/(a·α), which is within [1, e^ε], and falls from there: ln M(t)/(α − 1) is the bound,
    and it is reached. It is at most αε²/8 (Cesar & Rogers 2021): by Hoeffding's lemma for the loss ℓ = ln L, under P,
    ln E e^((α−1)ℓ) ≤ (α − 1)·E ℓ + (α − 1)²ε²/8, and 0 = ln E e^(−ℓ) ≤ −E ℓ + ε²/8. ∎
    Written so that nothing cancels; below αε = 1e-4, αε²/8 itself is above by less than one part in 10^8.
    """
    if order * epsilon < 1e-4:
        return order * epsilon**2 / 8 * UP
    log_odds, less = math.log1p(-math.exp(-order * epsilon)), math.log1p(-math.exp(-(order - 1) * epsilon))
    t = epsilon + math.log1p(-1 / order) + log_odds - less
    if order * epsilon > 60:
        return (t + (log_odds - math.log(order) - math.log1p(-math.exp(-epsilon))) / (order - 1)) * UP
    rest = epsilon - t
    above = math.expm1(rest) * math.expm1(order * t)
    below = math.exp(rest) * math.expm1(t) * -math.expm1(-order * rest)
    return math.log1p((above - below) / math.expm1(epsilon)) / (order - 1) * UP


def from_curve(renyi: Iterable[float], delta: float) -> float:
    """Least ε of a Rényi curve on ORDERS at δ > 0, by dp_accounting; rounded up."""
    finite = [(order, r) for order, r in zip(ORDERS, renyi, strict=True) if math.isfinite(r)]
    if not finite or not delta > 0:
        return 0.0 if finite and all(r == 0 for _, r in finite) else math.inf
    from dp_accounting.rdp import rdp_privacy_accountant

    orders, curve = zip(*finite, strict=True)
    epsilon, _ = rdp_privacy_accountant.compute_epsilon(orders, curve, delta)
    return float(epsilon) * UP


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A charge in the ledger, in exact decimals.

    renyi   Rényi nats at the domain's order
    delta   additive δ
    """

    renyi: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)

    def __add__(self, other: "Charge") -> "Charge":
        return self._with(other, lambda amount, more: amount + more)

    def __sub__(self, other: "Charge") -> "Charge":
        return self._with(other, lambda amount, less: amount - less)

    def __le__(self, other: "Charge") -> bool:
        return all(amount <= most for amount, most in zip(self.amounts, other.amounts, strict=True))

    def times(self, count: int) -> "Charge":
        """The charge of `count` refusals, each at this charge."""
        return self._with(self, lambda amount, _: amount * count)

    def most(self, other: "Charge") -> "Charge":
        """The larger of each amount."""
        return self._with(other, max)

    @property
    def amounts(self) -> tuple[Decimal, Decimal]:
        """Rényi nats and additive δ."""
        return self.renyi, self.delta

    def _with(self, other: "Charge", make: Callable[[Decimal, Decimal], Decimal]) -> "Charge":
        with localcontext(prec=80):
            renyi, delta = map(make, self.amounts, other.amounts)
        return Charge(renyi=renyi, delta=delta)


def rounded_up(amount: float, quantum: Decimal) -> Decimal:
    """The exact decimal of a float, rounded up to the quantum: a positive amount stays positive."""
    with localcontext(prec=80):
        return (Decimal(amount) * Decimal(UP)).quantize(quantum, rounding=ROUND_CEILING) if amount else Decimal(0)

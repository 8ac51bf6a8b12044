"""Recompute the cost of answers of which few are possible, independently of the code that certified it: randomised
responses, the choice of a hypothesis, and the entries of a table of refusals.

Assumes      what is read of settings is what ran; the theorems named below
Guarantees   δ and nats, in decimals or summed over all outcomes
Not covered  what follows for a session: tasks.verify.recompute. Checked by tests/tasks/verify/test_recompute.py
"""

import base64
import math
from abc import abstractmethod
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np

from concord.tasks.verify.kinds import Proof

DIGITS = 40
TWO_TO_64 = 2**64
OF_DOUBLES = 1e-15
"""Most relative error of a multiple of a logarithm in doubles: four roundings."""
WIDE = 18.5
"""Width of the sum over responses, in units of the root of their number; the rest, below 1e-297, is added."""
PureAnswers = tuple[float, int, float]
"""A session as answers that are pure but for one δ: ε of each, their number, and that δ."""


class PureProof(Proof):
    """What a session costs that comes to pure answers."""

    @property
    @abstractmethod
    def pure(self) -> PureAnswers:
        """The answers. Raises NotVerified if they cannot be recomputed."""

    def least_delta(self, epsilon: float) -> float:
        """δ at an ε, by optimal composition."""
        of_one, times, besides = self.pure
        return responses_delta(of_one, times, epsilon) + besides

    def charge(self, order: float) -> tuple[float, float]:
        """Nats of so many randomised responses, and that δ."""
        of_one, times, besides = self.pure
        return responses_nats(of_one, times, order), besides


def responses_delta(of_one: float, times: int, epsilon: float) -> float:
    """Optimal composition (Kairouz, Oh & Viswanath 2015): `times` randomised responses of ε = `each`, summed."""
    from scipy.stats import binom  # heavy, and rarely asked for

    flip = math.exp(-of_one) / (1 + math.exp(-of_one))
    wide = WIDE * math.sqrt(times)
    flipped = np.arange(max(0, math.floor(times * flip - wide)), min(times, math.ceil(times * flip + wide)) + 1)
    cut = math.exp(-2 * WIDE**2) if flipped[0] > 0 else 0.0  # Hoeffding 1963
    return _hockey_stick(binom.pmf(flipped, times, flip), (times - 2 * flipped) * of_one, epsilon) + cut


def responses_nats(of_one: float, times: int, order: float) -> float:
    with localcontext(prec=DIGITS):
        alpha, high = Decimal(order), 1 / (1 + Decimal(-of_one).exp())
        low = 1 / (1 + Decimal(of_one).exp())  # 1 − high would be 0 from ε = 92 on
        moment = high**alpha * low ** (1 - alpha) + low**alpha * high ** (1 - alpha)
        return float(times * moment.ln() / (alpha - 1))


def _hockey_stick(law: Any, loss: Any, epsilon: float) -> float:
    """Σ law·(1 − e^(ε − loss))⁺: the least δ at ε of a mechanism with that law of privacy loss."""
    return float(np.sum(law * -np.expm1(np.minimum(epsilon - loss, 0.0))))


def choice_nats(epsilon: float, order: float) -> float:
    """Nats of the worst two-valued loss of range ε (Dong, Durfee & Rogers 2020), found by search."""
    with localcontext(prec=DIGITS):
        alpha, spread = Decimal(order), Decimal(epsilon)
        low, high = Decimal(0), spread
        for _ in range(4 * DIGITS):  # ternary search: the moment rises, then falls
            third = (high - low) / 3
            nearer = _two_valued_nats(low + third, spread, alpha) < _two_valued_nats(high - third, spread, alpha)
            low, high = (low + third, high) if nearer else (low, high - third)
        return float(_two_valued_nats(low, spread, alpha))


def _two_valued_nats(top: Decimal, spread: Decimal, alpha: Decimal) -> Decimal:
    """Rényi divergence where the likelihood ratio is e^top or e^(top − spread), with the odds that make its mean 1."""
    above, below = top.exp(), (top - spread).exp()
    odds = (1 - below) / (above - below)
    return (odds * above**alpha + (1 - odds) * below**alpha).ln() / (alpha - 1)


@lru_cache(maxsize=64)
def kappa(refusal: str, order: float) -> Decimal:
    """The dearest step of a table: κ(α) over adjacent entries, either way round."""
    with localcontext(prec=DIGITS):
        costs = (_refusal_cost(Decimal(order), *step) for step in _dear_steps(entries(refusal), order).tolist())
        return max(costs, default=Decimal(0))


def _dear_steps(table: Any, order: float) -> Any:
    """The steps (steps, 2) of a table, either way round, that may be the dearest: all but those that cost less than
    another even if doubles err as far as they may. Decimals of every step of a long table would take minutes."""
    down = np.stack([table[:-1], table[1:]], axis=1)[table[:-1] != table[1:]]
    steps = np.concatenate([down, down[:, ::-1]])
    with np.errstate(all="ignore"):  # a cost that is no number is not less than another
        answered = np.where(steps > 0, -steps / TWO_TO_64, 1.0)
        shares = np.stack([steps / TWO_TO_64, answered])
        (p, q), (kept_p, kept_q) = np.where(shares < 1 / 2, np.log(shares), np.log1p(-shares[::-1])).swapaxes(1, 2)
        paid = -np.expm1(order * kept_p + (1 - order) * kept_q)
        cost = order * p + (1 - order) * q - np.log(paid)
        error = OF_DOUBLES * order * (np.abs(p) + np.abs(q) + (np.abs(kept_p) + np.abs(kept_q)) / paid)
        return steps[~(cost + error < np.fmax.reduce(cost - error, initial=0.0))]


def entries(refusal: str) -> Any:
    """A table of probabilities, each an integer over 2^64."""
    return np.frombuffer(base64.b64decode(refusal), "<u8")


def _refusal_cost(alpha: Decimal, p: int, q: int) -> Decimal:
    """ln [ p^α q^(1−α) / (1 − (1−p)^α (1−q)^(1−α)) ] of entries of a table."""
    refused = [(Decimal(entry) / TWO_TO_64).ln() for entry in (p, q)]
    answered = [(Decimal(TWO_TO_64 - entry) / TWO_TO_64).ln() for entry in (p, q)]
    paid = 1 - (alpha * answered[0] + (1 - alpha) * answered[1]).exp()
    return alpha * refused[0] + (1 - alpha) * refused[1] - paid.ln() if paid > 0 else Decimal("Infinity")

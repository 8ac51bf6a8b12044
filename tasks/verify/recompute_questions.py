"""Recompute a single question (A_stab) from its settings, in decimals and over every pair of neighbours.

The distances of two neighbours differ by one, either way round; or their answers differ, and both are at distance 0.
Checked by tests/tasks/verify/test_recompute.py
"""

import base64
import math
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np

from concord.artifacts.kinds import LaplaceRelease, OptimalRelease

DIGITS = 40
TWO_TO_64 = 2**64
QuestionKind = OptimalRelease | LaplaceRelease
Chances = tuple[Decimal, Decimal]
"""Probabilities of being answered and of being refused."""


def question_delta(kind: QuestionKind, epsilon: float) -> float:
    """The least δ at which the settings are (epsilon, δ)-DP: the largest excess of one side's probabilities over e^ε
    times the other's."""
    with localcontext(prec=DIGITS):
        odds, grows = _odds(kind), Decimal(epsilon).exp()
        sides = [pair[::way] for pair in pairwise(odds) for way in (1, -1)]
        return float(max([odds[0][0], *(_over(here, there, grows) for here, there in sides)]))


def question_slip(kind: QuestionKind) -> float:
    """The additive δ that one question is charged: the planned one, or in the papers' form the tail of its noise."""
    with localcontext(prec=DIGITS):
        return float(kind.delta if isinstance(kind, OptimalRelease) else _odds(kind)[0][0])


def _over(here: Chances, there: Chances, grows: Decimal) -> Decimal:
    return sum((max(p - grows * q, Decimal(0)) for p, q in zip(here, there, strict=True)), Decimal(0))


def _odds(kind: QuestionKind) -> list[Chances]:
    """Probabilities by distance; in the papers' form up to the distance at which they mirror those at 0."""
    if isinstance(kind, OptimalRelease):
        table = [int(entry) for entry in np.frombuffer(base64.b64decode(kind.refusal), "<u8")]
        return [(Decimal(TWO_TO_64 - entry) / TWO_TO_64, Decimal(entry) / TWO_TO_64) for entry in table]
    least = math.floor(kind.threshold) + 1
    return [_tail(Decimal(kind.scale), least - distance) for distance in range(2 * least + 1)]


def _tail(scale: Decimal, least: int) -> Chances:
    """Probabilities that discrete Laplace noise is at least `least`, and that it is below."""
    ratio = (-1 / scale).exp()
    small = ratio ** (least if least > 0 else 1 - least) / (1 + ratio)
    return (small, 1 - small) if least > 0 else (1 - small, small)

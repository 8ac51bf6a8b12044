"""Calibration of stable voting: the refusal table that answers most within (ε, δ) and a cutoff.

Assumes      nothing private: a table follows from the plan alone
Guarantees   the table's proved cost, recomputed from its integers, is within (epsilon, delta): by its Rényi curve, or
             by the adaptive game (game.py) where that was asked for and is affordable
Ends         not applicable: nothing is drawn here
Not covered  the best table: this is the greedy one, whose steps all cost the same at one Rényi order

Deterministic, and cached by its arguments.
Checked by tests/privacy/test_stable.py and tests/privacy/test_stable_game.py.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from artifacts.errors import WrongInput
from artifacts.privacy import ORDERS, UP
from artifacts.sections import GAME_CUTOFF
from tasks.mechanisms.game import played_delta
from tasks.mechanisms.refusal import WHOLE, Floats, Table, greedy_table, log_odds, steepest

Accountant = Literal["renyi", "game"]

LABEL_SHARE = 0.1
"""The part of δ spent on labels that differ; the rest converts the Rényi curve."""
LEAST_SLIP = 2.0**-50
"""Least π = 1 − P[0]/2^64: below it the integer complement is too coarse to be certified."""
LEAST_ORDER = 1.5
TARGET = 0.01
"""Calibration minimises the distance at which refusal falls to this."""
LARGEST = 500_000
"""No table is built whose refusals fall to TARGET at a larger distance only: no ensemble could use it."""
AIM = -0.002
"""Calibration to the game aims at this log of the proved δ over the wanted one."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A table, the Rényi order it was built at, and what proves that it is within the wanted (ε, δ)."""

    order: float
    refusal: Table
    accountant: Accountant

    @property
    def reach(self) -> int:
        """The least distance at which refusal is at most TARGET."""
        return int(np.count_nonzero(self.refusal > TARGET * WHOLE))


@cache
def fit(epsilon: float, delta: float, cutoff: int, least_order: float, accountant: Accountant) -> Fit:
    """The table for (epsilon, delta) at `cutoff` refusals. Raises WrongInput where there is none."""
    slip = _slip(epsilon, delta, cutoff)
    delta_renyi = delta - cutoff * slip / (1 - slip) * UP
    order, kappa = _best_order(slip, epsilon / UP**2, delta_renyi, cutoff, max(least_order, LEAST_ORDER))
    plain = _built(slip, order, kappa, "renyi")
    if accountant == "renyi":
        return plain
    if cutoff > GAME_CUTOFF:
        raise WrongInput(f"accountant = 'game' is for a cutoff of at most {GAME_CUTOFF}, got {cutoff}")
    return _sharpest(
        plain,
        lambda scale: _built(slip, order, kappa * scale, "game"),
        lambda made: math.log(played_delta(made.refusal, cutoff, epsilon, made.order) / delta),
    )


def _sharpest(plain: Fit, scaled: Callable[[float], Fit], over: Callable[[Fit], float]) -> Fit:
    """Of `plain` and three with κ scaled up, the one that answers most with a proved δ not `over` the wanted one."""
    # Secant steps: the log of the proved δ is nearly linear in κ.
    tried, overs, scales = [plain], [over(plain)], [1.0, 1.2]
    while len(tried) < 4 and overs[0] < 0 and scales[-1] > 1:
        tried.append(scaled(scales[-1]))
        overs.append(over(tried[-1]))
        rise = max(1e-3, (overs[-1] - overs[-2]) / (scales[-1] - scales[-2]))
        scales.append(min(2 * scales[-1], scales[-1] + (AIM - overs[-1]) / rise))
    proved = [made for made, excess in zip(tried, overs, strict=True) if made is plain or excess <= 0]
    return min(proved, key=lambda made: made.reach)


def _built(slip: float, order: float, kappa: float, accountant: Accountant) -> Fit:
    table = greedy_table(slip, order, kappa)
    table.setflags(write=False)
    return Fit(order=order, refusal=table, accountant=accountant)


def _slip(epsilon: float, delta: float, cutoff: int) -> float:
    """π such that T·π/(1−π) is LABEL_SHARE of δ."""
    if not 0 < epsilon < math.inf or not 0 < delta < 1 or cutoff < 1:
        raise WrongInput(
            f"stable voting needs 0 < epsilon < inf, 0 < delta < 1 and cutoff >= 1, got {epsilon}, {delta}, {cutoff}"
        )
    slip = LABEL_SHARE * delta / (cutoff + LABEL_SHARE * delta)
    if slip < LEAST_SLIP:
        least = LEAST_SLIP * cutoff / LABEL_SHARE
        raise WrongInput(f"delta must be at least {least:.2g} for stable voting with cutoff {cutoff}, got {delta:g}")
    return slip


def _best_order(slip: float, epsilon: float, delta: float, cutoff: int, least: float) -> tuple[float, float]:
    """The Rényi order of ORDERS, `least` or above, whose table answers most within (epsilon, delta), and its κ."""
    orders = np.array([order for order in ORDERS if order >= least])
    room = epsilon - _conversion(orders, delta)
    orders, room = orders[room > 0], room[room > 0]
    kappa = room * (orders - 1) / cutoff
    distance = _reach(slip, orders, kappa)
    if not len(distance) or distance.min() > LARGEST:
        raise WrongInput(f"stable voting with this epsilon, delta and cutoff {cutoff} needs over {LARGEST:,} teachers")
    best = int(distance.argmin())
    return float(orders[best]), float(kappa[best])


def _conversion(order: Floats, delta: float) -> Floats:
    """What turning Rényi nats of `order` into ε at `delta` adds (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    return np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)


def _reach(slip: float, order: Floats, kappa: Floats) -> Floats:
    """About the distance at which refusal has fallen to TARGET, for tables of each order (orders,): ∫ 1/fall."""
    grid = np.linspace(log_odds(WHOLE - math.floor(slip * WHOLE)), math.log(TARGET / (1 - TARGET)), 65)
    falls = steepest(np.broadcast_to(grid, (len(order), 65)), order[:, None], kappa[:, None])
    return np.asarray(np.trapezoid(1 / falls, -grid, axis=1))

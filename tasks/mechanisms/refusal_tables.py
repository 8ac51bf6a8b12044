"""Refusal tables for stable voting, fitted to a budget: the probability of refusing by distance (distance.py).

Of all tables within (epsilon, delta), the greedy one is taken, whose steps all cost the same at one Rényi order: it may
not be the best. No guarantee hangs on the fit: what is claimed is computed from the table's integers (stable.py), and a
session that they do not prove is not opened (tasks.door.admit).

Assumes      the budget is public
Guarantees   `greedy_table` keeps κ(order) ≤ kappa, checked on the integers
Ends         not applicable: nothing is drawn
Not covered  the best table of a budget. Checked by tests/privacy/test_stable.py, against 60-digit arithmetic
"""

import math
from functools import cache
from typing import Any

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import ORDERS, UP
from concord.tasks.mechanisms.distance import WHOLE, Floats, RefusalTable, both_ways, per_refusal

LABEL_SHARE = 0.1
"""The part of δ spent on labels that differ; the rest converts the Rényi curve."""
LEAST_SLIP = 2.0**-50
"""Least π = 1 − P[0]/2^64: below it the integer complement is too coarse to be certified."""
LEAST_ORDER = 1.5
TARGET = 0.01
"""Calibration minimises the distance at which refusal falls to this."""
LARGEST_TABLE = 500_000
"""Largest distance at which refusals of a table may fall to TARGET: no ensemble could use a larger one."""
FLOOR = 2**24
"""Entry at which a table stops falling: refusal with probability 2^−40 at every larger distance."""


@cache
def fitted_table(epsilon: float, delta: float, cutoff: int, least_order: float) -> tuple[float, RefusalTable]:
    """The Rényi order and the table for (epsilon, delta) at `cutoff` refusals. Raises WrongInput if none fits."""
    if not 0 < epsilon < math.inf or not 0 < delta < 1 or cutoff < 1:
        raise WrongInput(
            f"stable voting needs 0 < epsilon < inf, 0 < delta < 1 and cutoff >= 1, got {epsilon}, {delta}, {cutoff}"
        )
    slip = LABEL_SHARE * delta / (cutoff + LABEL_SHARE * delta)  # T·π/(1−π) is then LABEL_SHARE of δ
    if slip < LEAST_SLIP:
        least = LEAST_SLIP * cutoff / LABEL_SHARE
        raise WrongInput(f"delta must be at least {least:.2g} for stable voting with cutoff {cutoff}, got {delta:g}")
    delta_renyi = delta - cutoff * slip / (1 - slip) * UP
    orders = np.array([order for order in ORDERS if order >= max(least_order, LEAST_ORDER)])
    # ε added by converting Rényi nats of an order at δ (Canonne, Kamath & Steinke 2020, Prop. 12)
    conversion = np.log1p(-1 / orders) - (math.log(delta_renyi) + np.log(orders)) / (orders - 1)
    room = epsilon / UP**2 - conversion
    orders, room = orders[room > 0], room[room > 0]
    kappa = room * (orders - 1) / cutoff
    # approximately the distance at which refusal has fallen to TARGET, for a table of each order: ∫ 1/fall
    grid = np.linspace(entry_log_odds(WHOLE - math.floor(slip * WHOLE)), math.log(TARGET / (1 - TARGET)), 65)
    falls = steepest(np.broadcast_to(grid, (len(orders), 65)), orders[:, None], kappa[:, None])
    distance = np.asarray(np.trapezoid(1 / falls, -grid, axis=1))
    if not len(distance) or distance.min() > LARGEST_TABLE:
        raise WrongInput(
            f"stable voting with this epsilon, delta and cutoff {cutoff} needs over {LARGEST_TABLE:,} teachers"
        )
    best = int(distance.argmin())
    order = float(orders[best])
    table = greedy_table(slip, order, float(kappa[best]))
    table.setflags(write=False)
    return order, table


def steepest(logit: Floats, order: Any, kappa: Any) -> Floats:
    """Largest fall of the log-odds of refusal in one step from `logit` at cost kappa; by bisection, rounded down."""
    p, not_p = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))
    low, high = np.zeros(logit.shape), np.full(logit.shape, 64.0)
    for _ in range(48):
        fall = (low + high) / 2
        q, not_q = 1 / (1 + np.exp(fall - logit)), 1 / (1 + np.exp(logit - fall))
        within = both_ways(order, (p, q), (not_p, not_q), -p * not_q * np.expm1(-fall)) <= kappa
        low, high = np.where(within, fall, low), np.where(within, high, fall)
    return low


def greedy_table(slip: float, order: float, kappa: float) -> RefusalTable:
    """The table that starts at 1 − slip and falls as fast as κ(order) ≤ kappa allows, down to FLOOR."""
    start = WHOLE - math.floor(slip * WHOLE)
    grid = np.linspace(entry_log_odds(start), entry_log_odds(FLOOR), 2049)
    falls = steepest(grid, order, kappa)
    while True:
        table = _descend(start, grid, falls)
        cost = per_refusal(table, order)
        if cost <= kappa:
            return table
        # Between grid points the fall is interpolated, and may be too large by parts in a million.
        falls = falls * max(0.9, math.sqrt(kappa / cost)) * (1 - 1e-6)


def _descend(start: int, grid: Floats, falls: Floats) -> RefusalTable:
    """Follow `falls` (of log-odds, at the points of `grid`) in integers, each rounded towards the one before."""
    top, spacing = float(grid[0]), float(grid[0] - grid[1])
    fall, slope = falls.tolist(), np.diff(falls, append=falls[-1]).tolist()
    table = [start]
    while table[-1] > FLOOR:
        here = entry_log_odds(table[-1])
        place = (top - here) / spacing
        index = min(int(place), len(fall) - 1)
        logit = here - fall[index] - (place - index) * slope[index]
        table.append(max(FLOOR, _upwards(logit)))
    return np.array(table, np.uint64)


def entry_log_odds(refused: int) -> float:
    """ln p/(1 − p) of an entry over 2^64, to full precision at both ends."""
    return math.log(refused / (WHOLE - refused))


def _upwards(logit: float) -> int:
    """The least integer whose log-odds over 2^64 are at least `logit`, found by its complement if that is smaller."""
    if logit > 0:
        return WHOLE - math.floor(WHOLE / (1 + math.exp(logit)))
    return math.ceil(WHOLE / (1 + math.exp(-logit)))

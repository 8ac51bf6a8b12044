"""The adaptive adversary of stable voting: an upper bound of the most that any asker can gain.

The adversary sees every answer, knows both neighbours, and chooses each query: an adjacent pair of distances, either
way round, or a query whose labels differ. With x = e^ε·Q/P of the answers so far and r refusals left, its gain is

    V_0(x) = (1 − x)+          V_r(x) = max over queries of  p·V_{r−1}(x·q/p) + (1 − p)·V_r(x·(1−q)/(1−p)),
                               or π + (1 − π)·V_{r−1}(x) where the labels differ

and V_T(e^ε) is the least δ at which the mechanism is (ε, δ)-DP.

Assumes      the table is the one that runs; neighbours differ by at most one in distance (distance.py)
Guarantees   the δ of `adaptive_delta` is at least V_T(e^ε), label slips included
Not covered  composition with other sessions, which is by the Rényi curve

Proof. V_r is a supremum of maxima of affine functions of x: convex and decreasing. So on a grid
(1) between two points the chord is above V_r; (2) below the grid 1 is, above it the Rényi bound at the last point is;
(3) queries whose label moves x by less than a cell may be replaced by one that moves it a whole cell, with the most
telling refusal among them: x is a martingale under P, so this only spreads it, and V_{r−1} ≤ V_r are convex.
That leaves a finite game, solved by policy iteration (Howard 1960). What is still to be gained, rounding included, is
added: if no query gains more than c times its chance of refusal, V + c satisfies every inequality and is a bound. ∎
None of this hangs on how fine the grid is, so a table whose entries hardly differ is played on a coarse one.
Checked by tests/privacy/test_stable_game.py, against explicit strategies and every strategy in exact fractions.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from tests.world import UP, WHOLE, Floats, RefusalTable, per_refusal, table_probabilities

Indices = NDArray[np.int64]

TOLERANCE = 1e-13
"""Relative gain below which a query is no better: the rounding of one linear solve. It is added to the value."""
MOST_GRID_CELLS = 4096
"""Most cells of the grid from 1 to e^ε; more would only refine tables whose steps are tiny."""
MARGINS = (8.0, 4.0)
"""How far the grid of log x reaches below 0 and above ε, in units of 1/(order − 1), over which values fall e-fold."""


@dataclass(frozen=True)
class Landing:
    """Landing cell of one branch of each query, (K,): weight `near` at `offset` cells away and `far` at the next."""

    offset: Indices
    near: Floats
    far: Floats

    @classmethod
    def at(cls, cells: Floats, weight: Floats, width: float) -> "Landing":
        """`weight` at a shift of `cells` in log x, spread over the two nearest grid points so that x keeps its mean."""
        offset = np.floor(cells)
        far = np.expm1((cells - offset) * width) / np.expm1(width)
        return cls(offset.astype(np.int64), weight * (1 - far), weight * far)

    def worth(self, value: Floats) -> Floats:
        """This branch's part of the gain of each query at each grid point, (K, n)."""
        reach = int(np.abs(self.offset).max()) + 1
        padded = np.concatenate([np.ones(reach), value, np.full(reach, value[-1])])
        windows = sliding_window_view(padded, len(value))
        worth = windows[reach + self.offset] * self.near[:, None]
        worth += windows[reach + self.offset + 1] * self.far[:, None]
        return np.asarray(worth)


@dataclass(frozen=True)
class Queries:
    """The adversary's K queries on a grid of log x; the last is the one whose labels differ, escaping with `slip`."""

    refused: Landing
    labelled: Landing
    slip: float

    @classmethod
    def of(cls, table: RefusalTable, width: float) -> "Queries":
        """Every adjacent pair, both ways round; pairs whose label moves x by little are merged, one for each way."""
        p, answered = table_probabilities(table)
        gap = (table[:-1] - table[1:]) / WHOLE
        fall, rise = np.log1p(gap / p[1:]), np.log1p(gap / answered[:-1])
        small = rise <= width
        ways = []
        for sign, chance, other in ((1, p[:-1], answered[:-1]), (-1, p[1:], answered[1:])):
            falls, rises = sign * fall[~small] / width, sign * rise[~small] / width
            ways.append((-falls, chance[~small], rises, other[~small]))
            if small.any():
                ways.append(_drift(sign, float(fall[small].max()), width))
        slip = float(answered[0])
        ways.append((np.zeros(1), np.array([1 - slip]), np.zeros(1), np.zeros(1)))
        shift, chance, rises, other = (np.concatenate(parts) for parts in zip(*ways, strict=True))
        return cls(Landing.at(shift, chance, width), Landing.at(rises, other, width), slip)


def _drift(sign: int, fall: float, width: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Shifts and probabilities of a query that moves x by `fall` if refused and one cell the other way if labelled, so
    that the mean of x is kept."""
    up, down = np.expm1(sign * width), -np.expm1(-sign * fall)
    refused = up / (up + down)
    return np.array([-sign * fall / width]), np.array([refused]), np.array([float(sign)]), np.array([1 - refused])


def _solve(queries: Queries, choice: Indices, refused: Floats, last: float) -> Floats:
    """Value of always making `choice` (n,), from a sparse linear system: 1 below the grid and `last` at its end."""
    size = len(choice)
    label, here = queries.labelled, np.arange(1, size + 1)
    near, far = label.near[choice], label.far[choice]
    near[-1] = far[-1] = 0.0
    target = here + label.offset[choice]
    known = np.concatenate([[1.0], refused[choice, here - 1]])
    known[-1] = last
    rows = np.concatenate([np.arange(size + 1), here, here])
    columns = np.concatenate([np.arange(size + 1), target.clip(0, size), (target + 1).clip(0, size)])
    matrix = csc_array((np.concatenate([np.ones(size + 1), -near, -far]), (rows, columns)))
    return np.asarray(splu(matrix).solve(known)[1:])


def _level(queries: Queries, before: Floats, choice: Indices, last: float) -> tuple[Floats, Indices]:
    """V_r on the grid, from V_{r−1}, and the queries that attain it; `last` bounds V_r at the end of the grid."""
    refused = queries.refused.worth(before)
    refused[-1] += queries.slip
    chance = queries.refused.near + queries.refused.far
    while True:
        value = _solve(queries, choice, refused, last)
        gain = queries.labelled.worth(value)
        gain += refused
        gain -= value
        gain[:, -1] = 0.0
        best = gain.argmax(axis=0)
        better = gain[best, np.arange(len(value))] > TOLERANCE * value
        if not better.any():
            slack = (gain / chance[:, None]).max(initial=0.0)
            return np.minimum(value + slack, 1.0), choice
        choice = np.where(better, best, choice)


def adaptive_delta(table: RefusalTable, cutoff: int, epsilon: float, order: float, points: int = 20) -> float:
    """Upper bound of the δ that the best adversary reaches at `epsilon` and `cutoff` refusals.

    `order` is a Rényi order at which the table's cost is finite; `points` grid points make up a typical step of log x.
    Time and sharpness grow with `points`: about cutoff · (points · log-range / step) · queries.
    """
    p, answered = table_probabilities(table)
    step = float(np.log(p[:-1] / p[1:]).max(initial=0.0))
    width = epsilon / max(1, round(min(MOST_GRID_CELLS, epsilon * points / max(step, 1e-300))))
    start = round(epsilon / width)
    below, above = (math.ceil(room / (order - 1) / width) for room in MARGINS)
    logs = width * np.arange(-below, start + above + 1)
    queries = Queries.of(table, width)
    value, choice = np.maximum(0.0, -np.expm1(logs)), np.full(len(logs), len(queries.refused.offset) - 1)
    kappa, slip_odds = per_refusal(table, order), float(answered[0] / p[0])
    tail = (order - 1) * (math.log1p(-1 / order) - float(logs[-1])) - math.log(order)
    for used in range(1, cutoff + 1):
        last = min(1.0, used * slip_odds + math.exp(tail + used * kappa))
        value, choice = _level(queries, value, choice, last)
    return float(value[below + start]) * UP

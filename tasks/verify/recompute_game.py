"""The best adaptive attack on stable voting, bounded by a path of its own: a function on a grid that no query improves.

The asker knows both neighbours and sees every answer. Let x = e^ε·Q/P of the answers so far, P and Q the laws of all
answers on the two. With r refusals left, V_r(x) is the most of E_P (1 − x at the end)⁺ that he can still gain, where x
is 0 once a label has escaped. V_T(e^ε), of both orders of neighbours, is the least δ at which a session of T refusals
is (ε, δ)-DP. V_0(x) = (1 − x)⁺, and V_r(x) is the supremum over queries of

    p·V_{r−1}(x·q/p) + (1 − p)·V_r(x·(1 − q)/(1 − p))    labels agree: p and q are adjacent entries, either way round
    π + (1 − π)·V_{r−1}(x)                               labels differ: both distances are 0, π = 1 − first entry

Assumes      refusal probabilities are the table's integers over 2^64; neighbours differ by at most one in distance,
             and if their labels differ both distances are 0 (distance.py); the T-th refusal is the last answer
Guarantees   `game_delta` is at least V_T(e^ε)
Not covered  composition with other sessions: a domain is charged the table's Rényi curve
             Checked by tests/tasks/verify/test_recompute_game.py, against all strategies in exact fractions and planted
             bugs

Proof. Let W_n be the value V_r of askers who stop after n more queries: W_0 = (1 − x)⁺, and W_{n+1} is the supremum
above, or W_0, with W_n on the label's side. W_n rises to V_r. All are suprema of maxima of affine functions of x, and
of falling ones: convex, falling, and 1 at 0.
  Certificate. Let 0 = x_0 < … < x_m be grid points, U_{r−1} ≥ V_{r−1} and U_r ≥ U_{r−1} numbers at them, 1 at x_0; read
between points by chords and beyond x_m as the last number. If no query, with U for V, gives more than U_r at any point,
then U_r ≥ V_r: if U_r ≥ W_n at the points, then everywhere, since chords are above convex functions and a falling one
is below its value at x_m; so W_{n+1} is at most what a query gives with U, hence at most U_r at the points. ∎
  Small steps. Let the label lead to (1 − s)·x_i + s·x_j, less than a cell away, j = i ± 1. With the chord there, the
query gives no more than U_r(x_i) if and only if A·U_{r−1}(x_i·ρ) + (1 − A)·U_r(x_j) ≤ U_r(x_i), where ρ = q/p and
A = p/(p + (1 − p)·s) = 1/(1 + |1 − ρ|·x_i/|x_j − x_i|): p itself drops out. Of all such queries one way, the one whose
ρ is farthest from 1 does for all: x_i·ρ' of another lies between x_i·ρ and x_j, V_{r−1} is below its chord there, and
V_{r−1}(x_j) ≤ U_r(x_j); what that gives are the same three values, with the same mean of x.
  Slack. If each query gives at most U_r(x_i) + c·A, where A is its chance of refusal, as above where steps are small,
then U_r + c is a certificate: it adds c to one side, and c·(1 − A) at most to the other. So it does not matter how U_r
was found, here by policy iteration. Doubles round a query's worth by WORTH_ERROR at most, so that over the least A
is added to c. Nothing is ever above 1.
"""

import base64
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import spsolve

from concord.artifacts.errors import NotVerified

Doubles = NDArray[np.float64]
Points = NDArray[np.int64]
Steps = list[tuple[int, int]]
ALL_DRAWS = 2**64
CELLS = 32
"""Cells of the grid per largest step that a refusal takes in log x."""
BEYOND = 8.0
"""How far the grid reaches below 1 and above e^ε in log x, in units of 1/(order − 1), over which values fall e-fold."""
FINEST_GRID = 4096
"""Most cells of the grid from 1 to e^ε, however small the steps: any grid gives a bound."""
MOST_POINTS, MOST_MOVES = 1 << 17, 1 << 24
"""Most points of the grid, and most large steps at them: a stranger's table may ask for any number."""
WORTH_ERROR = 2e-15
"""Largest rounding error of a query's worth in double arithmetic."""
ROUNDS = 60


@dataclass(frozen=True)
class Moves:
    """Queries from every grid point but x_0, all (queries, points): a refusal, with `chance`, leads to `there`; a label
    leads to the points `near` and `far`, with odds that add up to 1 − chance."""

    there: Doubles
    chance: Doubles
    near: Points
    near_odds: Doubles
    far: Points
    far_odds: Doubles


def game_delta(settings: Mapping[str, Any], epsilon: float) -> float:
    """A δ at which stable voting with these settings is (epsilon, δ)-DP."""
    return _played(settings["refusal"], int(settings["cutoff"]), float(settings["order"]), float(epsilon))


@lru_cache(maxsize=8)
def _played(refusal: str, cutoff: int, order: float, epsilon: float) -> float:
    table = [int(entry) for entry in np.frombuffer(base64.b64decode(refusal), "<u8")]
    steps = [(high, low) for high, low in pairwise(table) if high != low] or [(table[0], table[0])]
    x = _grid(steps, cutoff, order, epsilon)
    moves, slip = _moves(steps, x), (ALL_DRAWS - table[0]) / ALL_DRAWS
    value = np.maximum(0.0, 1 - x)
    for _ in range(cutoff):
        value = _level(moves, x, value, slip)
    return float(np.interp(math.exp(epsilon), x, value))


def _grid(steps: Steps, cutoff: int, order: float, epsilon: float) -> Doubles:
    """Grid points: 0 and powers of one number, with e^ε among them and room above for all refusals at their largest
    step."""
    largest = max(math.log1p((high - low) / low) for high, low in steps)
    cells, margin = max(1, round(min(FINEST_GRID, epsilon * CELLS / max(largest, 1e-300)))), BEYOND / (order - 1)
    below, above = (math.ceil(room / epsilon * cells) for room in (margin, margin + cutoff * largest))
    if below + above > MOST_POINTS:
        raise NotVerified(f"to play out its game takes {below + above:,} points, and Concord plays with none so fine")
    return np.concatenate([[0.0], np.exp(epsilon / cells * np.arange(-below, cells + above + 1))])


def _moves(steps: Steps, x: Doubles) -> Moves:
    """Every adjacent pair, either way round; pairs of small steps are merged, one for each way."""
    ways = [*_one_way(steps, x, up=True), *_one_way([(low, high) for high, low in steps], x, up=False)]
    return Moves(*(np.concatenate([getattr(way, field.name) for way in ways]) for field in fields(Moves)))


def _one_way(steps: Steps, x: Doubles, *, up: bool) -> Iterator[Moves]:
    """Queries of integers (p, q), refused with probability p against q; a label moves x up if p is larger."""
    width = x[2] / x[1] - 1 if up else 1 - x[1] / x[2]
    small = [(p, q) for p, q in steps if abs(p - q) <= width * (1 - 1e-12) * (ALL_DRAWS - p)]
    large = [(p, q) for p, q in steps if abs(p - q) > width * (1 - 1e-12) * (ALL_DRAWS - p)]
    if small:
        yield _small(max((q / p for p, q in small), key=lambda rho: abs(1 - rho)), width, x, up=up)
    if len(large) * len(x) > MOST_MOVES:
        raise NotVerified(f"its table has {len(large):,} large steps, and Concord plays out the game of none so long")
    if large:
        yield _large(large, x)


def _small(rho: float, width: float, x: Doubles, *, up: bool) -> Moves:
    """One query whose label leads to the next point; below the first point to x_0, and from the last to itself."""
    points = np.arange(1, len(x))
    widths = np.full(len(points), width)
    widths[-1 if up else 0] = math.inf if up else 1.0
    chance = (1 / (1 + abs(1 - rho) / widths))[None]
    target = (np.minimum(points + 1, points[-1]) if up else points - 1)[None]
    return Moves(x[None, 1:] * rho, chance, target, 1 - chance, target, np.zeros_like(chance))


def _large(steps: Steps, x: Doubles) -> Moves:
    """Queries whose label leads beyond the next point, between two others."""
    p, q, label = (
        np.array(column)[:, None]
        for column in zip(*((p / ALL_DRAWS, q / ALL_DRAWS, _label(p, q)) for p, q in steps), strict=True)
    )
    there: Doubles = np.minimum(x[1:] * label, x[-1])
    near = (np.searchsorted(x, there, side="right") - 1).clip(0, len(x) - 2)
    odds = np.array([(ALL_DRAWS - p) / ALL_DRAWS for p, _ in steps])[:, None]
    far_odds = odds * (there - x[near]) / (x[near + 1] - x[near])
    return Moves(x[1:] * (q / p), np.broadcast_to(p, there.shape), near, odds - far_odds, near + 1, far_odds)


def _label(p: int, q: int) -> float:
    """The factor by which an answer multiplies x."""
    return (ALL_DRAWS - q) / (ALL_DRAWS - p)


def _level(moves: Moves, x: Doubles, before: Doubles, slip: float) -> Doubles:
    """A certificate for one more refusal than that of `before`."""
    refused = moves.chance * np.interp(moves.there, x, before)
    differing = slip + (1 - slip) * before[1:]
    value, points = np.concatenate([[1.0], differing]), np.arange(len(x) - 1)
    for _ in range(ROUNDS):
        worth = _worth(moves, refused, value)
        best = worth.argmax(axis=0)
        chosen = np.where(worth[best, points] > differing, best, -1)
        found = _solved(moves, refused, differing, chosen)
        if not (found > value[1:] + 1e-15).any():
            break
        value = np.concatenate([[1.0], np.maximum(found, value[1:])])
    gain = (_worth(moves, refused, value) - value[1:]) / moves.chance
    short = max(0.0, float(gain.max(initial=0.0)), float((differing - value[1:]).max()))
    rounded = WORTH_ERROR / float(moves.chance.min())
    return np.concatenate([[1.0], np.minimum(1.0, value[1:] + short + rounded)])


def _worth(moves: Moves, refused: Doubles, value: Doubles) -> Doubles:
    return np.asarray(refused + moves.near_odds * value[moves.near] + moves.far_odds * value[moves.far])


def _solved(moves: Moves, refused: Doubles, differing: Doubles, chosen: Points) -> Doubles:
    """The value at every point but x_0 if `chosen` is always asked there; −1 stands for labels that differ."""
    points, asks = np.arange(len(chosen)), chosen >= 0
    here = points[asks]
    at = chosen[asks], here
    known = differing.copy()
    known[asks] = refused[at]
    rows, columns, odds = [points], [points], [np.ones(len(points))]
    for target, weight in ((moves.near[at], moves.near_odds[at]), (moves.far[at], moves.far_odds[at])):
        known[here] += np.where(target == 0, weight, 0.0)
        rows.append(here[target > 0])
        columns.append(target[target > 0] - 1)
        odds.append(-weight[target > 0])
    matrix = csc_array((np.concatenate(odds), (np.concatenate(rows), np.concatenate(columns))))
    return np.asarray(spsolve(matrix, known))

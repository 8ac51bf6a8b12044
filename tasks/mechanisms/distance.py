"""Votes, answers and the distance to instability: the input and output of every mechanism that answers votes.

Offers       `Answers` and `RandomSource` (the answers to a batch, and the randomness they are drawn from),
             `plurality` and `distance_to_instability`, and refusal tables with their cost (`per_refusal`)

Distance to instability: how many teachers may change their vote before the plurality label can change.
    Assumes      votes are whole counts, at least 0, one row a query, one column a class; a neighbouring table changes
                 one teacher, whose vote may move in any way on every query
    Guarantees   (1) |d(D) − d(D')| ≤ 1;  (2) plurality(D) ≠ plurality(D') only if d(D) = d(D') = 0
    Ends         never: both are plain functions of the votes and release nothing
    Not covered  weighted votes and abstentions
Proof. Let M be the top count less the runner-up, d = max(0, ⌈M/2⌉ − 1). One vote moves M by at most 2, hence ⌈M/2⌉ by
at most 1: (1). If the label differs, the old winner is within reach of one vote, so M ≤ 2 on both sides: (2). Neither
uses the tie-break; it must only be fixed. (BTT18 prints max(0, M − 1), which one vote moves by 2.)
Checked by tests/privacy/test_distance.py, over every vote vector and every way to change it.

Refusal tables: the probability of refusing by distance, as integers over 2^64, and what one refusal costs. A table
holds P[0..L], non-increasing; a query at distance d is refused with probability P[min(d, L)] / 2^64.
    Assumes      neighbours differ by at most one in distance, so that only adjacent entries are ever compared
    Guarantees   `per_refusal` is at least the Rényi cost κ(α) of one refusal, for the integers that run
    Ends         not applicable: nothing is drawn here
    Not covered  labels that differ at distance 0: their additive δ is stable.py's
Source: F_α(p, q) is derived in stable.py. Near 1 everything is built from the integer complement 2^64 − P: as a float,
1 − π is 1 long before π is negligible.
Checked by tests/privacy/test_stable.py, against 60-digit arithmetic.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

Ints = NDArray[np.int64]
Draws = NDArray[np.uint64]
REFUSED = -1
"""The label of a refused row."""


@dataclass(frozen=True)
class Answers:
    """Released answers to a batch: labels (rows,), REFUSED if refused, shorter than the votes if the cutoff is reached;
    and noisy integer counts (rows, classes) from mechanisms that release them."""

    labels: Ints
    counts: Ints | None = None


class RandomSource(Protocol):
    """The randomness of one session, passed by the door to a mechanism."""

    def uniform(self, first: int, rows: int) -> Draws:
        """The keyed 64-bit draws of session-wide rows first … first + rows − 1; the same at every call."""

    def laplace(self, scale: float, size: int) -> Ints:
        """Fresh exact discrete Laplace noise."""

    def gaussian(self, scale: float, size: int) -> Ints:
        """Fresh exact discrete Gaussian noise."""

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:
        """The value that `draw` gave at its first call under this name in the session, kept in the vault."""


Votes = NDArray[np.integer[Any]]


def plurality(votes: Votes) -> Ints:
    """Labels (rows,) of votes (rows, classes): the class with most votes, ties to the lowest class number."""
    best = votes[:, 0]
    label = np.zeros(len(votes), np.int64)
    for index in range(1, votes.shape[1]):
        column = votes[:, index]
        np.copyto(label, index, where=column > best)
        best = np.maximum(best, column)
    return label


def margin(votes: Votes) -> Votes:
    """Votes of the winner minus those of the runner-up, (rows,), in the type of the counts."""
    # Column by column: a handful of vector operations, where sorting rows would cost tens of nanoseconds each.
    best = votes[:, 0]
    second = np.zeros_like(best)
    for index in range(1, votes.shape[1]):
        column = votes[:, index]
        second = np.maximum(second, np.minimum(best, column))
        best = np.maximum(best, column)
    return best - second


def distance_to_instability(votes: Votes) -> Ints:
    """max(0, ⌈margin/2⌉ − 1), (rows,): the number of votes that may change in any way without changing the winner."""
    distance = margin(votes)
    distance -= distance > 0
    distance >>= 1
    return distance.astype(np.int64)


Floats = NDArray[np.float64]


def _table(value: Any) -> NDArray[np.uint64]:
    """A read-only table, from its JSON or from an array. Raises ValueError if the text holds no table."""
    table = np.frombuffer(base64.b64decode(value, validate=True), "<u8") if isinstance(value, str) else value
    if not isinstance(table, np.ndarray) or table.dtype.newbyteorder("=") != np.uint64 or table.ndim != 1:
        raise ValueError("refusal must be a row of 64-bit integers")
    table = table.astype(np.uint64)
    table.setflags(write=False)
    return table


def _table_text(table: NDArray[np.uint64]) -> str:
    return base64.b64encode(table.astype("<u8").tobytes()).decode("ascii")


RefusalTable = Annotated[NDArray[np.uint64], PlainValidator(_table), PlainSerializer(_table_text)]
"""A refusal table; in JSON, base64 of little-endian 64-bit integers."""

WHOLE = 2**64
ROUNDING = 1e-12
"""Bound on the error of `renyi` in double arithmetic (a few units of 1e-16 per term, terms below 1e2)."""


def renyi(order: Any, p: Any, q: Any, not_q: Any, gap: Any) -> Any:
    """F_α(p, q) of one refusal in nats; +inf if its denominator is not positive. Broadcasts.

    ln [ p^α q^(1−α) / (1 − (1−p)^α (1−q)^(1−α)) ], with not_q = 1 − q and gap = p − q as arguments of their own, so
    that nothing cancels at either end.
    """
    log_not_q = np.where(q < 0.5, np.log1p(-np.minimum(q, 0.5)), np.log(not_q))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        paid = -np.expm1(log_not_q + order * np.log1p(-gap / not_q))
        cost = (order - 1) * np.log1p(gap / q) + np.log(p / paid)
    return np.where(paid > 0, cost, np.inf)


def both_ways(order: Any, refused: tuple[Any, Any], answered: tuple[Any, Any], gap: Any) -> Any:
    """The larger of F_α(p, q) and F_α(q, p): `refused` is (p, q), `answered` (1 − p, 1 − q), and gap = p − q."""
    (p, q), (not_p, not_q) = refused, answered
    return np.maximum(renyi(order, p, q, not_q, gap), renyi(order, q, p, not_p, -gap))


def table_probabilities(table: RefusalTable) -> tuple[Floats, Floats]:
    """Refusal and answer probabilities of a table, two arrays (L + 1,), each to full relative precision."""
    return table / WHOLE, (~table + np.uint64(1)) / WHOLE


def per_refusal(table: RefusalTable, order: float) -> float:
    """κ(α): the most one refusal costs between adjacent entries, in nats times (α − 1); rounded up."""
    p, not_p = table_probabilities(table)
    gap = (table[:-1] - table[1:]) / WHOLE
    cost = both_ways(order, (p[:-1], p[1:]), (not_p[:-1], not_p[1:]), gap)
    return float(cost.max(initial=0.0)) * (1 + ROUNDING) + ROUNDING

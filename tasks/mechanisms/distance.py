"""Distance to instability: how many teachers may change their vote before the plurality label can change.

Assumes      votes are whole counts, at least 0, one row a query, one column a class; a neighbouring table changes one
             teacher, whose vote may move in any way on every query
Guarantees   (1) |d(D) − d(D')| ≤ 1;  (2) plurality(D) ≠ plurality(D') only where d(D) = d(D') = 0
Ends         never: both are plain functions of the votes and release nothing
Not covered  weighted votes and abstentions

Proof. Let M be the top count less the runner-up, d = max(0, ⌈M/2⌉ − 1). One vote moves M by at most 2, hence ⌈M/2⌉ by
at most 1: (1). If the label differs, the old winner is within reach of one vote, so M ≤ 2 on both sides: (2). Neither
uses the tie-break; it must only be fixed. (BTT18 prints max(0, M − 1), which one vote moves by 2.)
Checked by tests/privacy/test_distance.py, over every vote vector and every way to change it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Votes = NDArray[np.integer[Any]]


def plurality(votes: Votes) -> Ints:
    """The class with most votes, ties to the lowest: votes (rows, classes), labels (rows,)."""
    best = votes[:, 0]
    label = np.zeros(len(votes), np.int64)
    for index in range(1, votes.shape[1]):
        column = votes[:, index]
        np.copyto(label, index, where=column > best)
        best = np.maximum(best, column)
    return label


def margin(votes: Votes) -> Votes:
    """Votes of the winner less those of the runner-up, in the counts' own type: (rows,)."""
    # Column by column: a handful of vector operations, where sorting rows would cost tens of nanoseconds each.
    best = votes[:, 0]
    second = np.zeros_like(best)
    for index in range(1, votes.shape[1]):
        column = votes[:, index]
        second = np.maximum(second, np.minimum(best, column))
        best = np.maximum(best, column)
    return best - second


def distance_to_instability(votes: Votes) -> Ints:
    """max(0, ⌈margin/2⌉ − 1): so many votes may change, in any way, and the winner stays. Shape (rows,)."""
    distance = margin(votes)
    distance -= distance > 0
    distance >>= 1
    return distance.astype(np.int64)

"""Pairs of columns: counted if single columns predict the label poorly, for example if it is whether two of them agree.

    a round of single columns ─ little is decoded ─ all pairs, in coarse cells ─ informative ones, in finer cells

Cells are groups of a column's fine codes: of numbers equally many public rows, of words the most frequent ones.

Assumes      sums are released, and public rows are those that they are decoded on: post-processing
Guarantees   which pairs are asked follows from released sums; a table whose single columns predict well pays nothing
Not covered  interactions of three columns that no two of them show. Checked by tests/tasks/student/test_pairs.py
"""

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np
from scipy.special import expit

from concord.tasks.data.codes import CodeMatrix, Codes, NumberField
from concord.tasks.mechanisms.contributions import expected
from concord.tasks.mechanisms.distance import Floats
from concord.tasks.student.decode import Decoded, NoisyRound, logits

LITTLE = 0.8
"""Deviation of a row's logit below which columns say little: at most 70 % of labels, if classes are even. If they say
nothing, noise makes it 0.08 (30,000 rows, ε = 1); of the tables of the benchmark it is 1 and more."""
FAR = 8.0
"""Standard deviations by which the χ² of a pair's sums must lie above its mean."""


def say_little(decoded: Decoded) -> bool:
    """Whether single columns say little of the label."""
    return math.sqrt(float((decoded.importance**2).sum())) < LITTLE


def with_pairs(codes: Codes, rows: CodeMatrix, groups: int, both: Iterable[tuple[int, int]] | None = None) -> Codes:
    """Codes with further fields for pairs of fine fields: for all pairs, or for those in `both`.

    rows  codes (m, F) of public rows, by which groups are formed
    """
    asked = [*(combinations(codes.fine, 2) if both is None else both)]
    fields = {at for pair in asked for at in pair}
    return codes.with_pairs({at: _groups(codes, rows, at, groups) for at in fields}, asked)


def _groups(codes: Codes, rows: CodeMatrix, field: int, most: int) -> tuple[int, ...]:
    """The group of each code of a field: `most` at most, and one of missing cells."""
    size = codes.fields[field].size - 1
    if isinstance(codes.fields[field], NumberField):
        counts = np.bincount(rows[:, field] - codes.fields[field].start, minlength=size + 1)[:size]
        twice_middle = 2 * np.cumsum(counts) - counts
        places = np.minimum(most - 1, most * twice_middle // max(1, 2 * counts.sum()))
    else:
        places = np.minimum(np.arange(size), most - 1)
    groups = np.unique(places, return_inverse=True)[1].tolist()
    return (*groups, max(groups) + 1)


def outstanding(
    heard: NoisyRound, rows: CodeMatrix, codes: Codes, decoded: Decoded, most: int
) -> tuple[tuple[int, int], ...]:
    """At most `most` pairs whose sums differ clearly from what the model predicts, the largest difference first.

    heard    the round that counted pairs, by `codes`
    decoded  the model decoded from the rounds before it
    """
    paired, share = codes.paired(rows), decoded.units / len(rows)
    p, guess = expit(logits(decoded, rows)), expected(heard.question, paired) / heard.question.steps
    mean, spread = share * (p - guess), share * p * (1 - p)
    far, top = dict[tuple[int, int], float](), 0
    for at in heard.question.fields:
        field, own = codes.pairs[at], paired[:, at] - codes.fields[at].start
        sums = heard.cells[top : top + field.size]
        variance = heard.noise**2 + _by_cell(own, spread, field.size)
        square = ((sums - _by_cell(own, mean, field.size)) ** 2 / variance).sum()
        far[field.both] = (float(square) - sums.size) / math.sqrt(2 * sums.size)
        top += field.size
    ordered = sorted(far, key=lambda both: -far[both])
    return tuple(both for both in ordered[:most] if far[both] > FAR)


def _by_cell(own: CodeMatrix, values: Floats, size: int) -> Floats:
    """Sums of values (rows, columns) by cell, (size, columns)."""
    return np.column_stack([np.bincount(own, column, size) for column in values.T])

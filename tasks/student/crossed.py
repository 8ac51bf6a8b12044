"""Crossed: public rows by their codes, and cross tables of them: the only pass over rows when tallies are decoded.

Rows are a sample of fixed size, so that decoding takes as long for a billion rows as for a hundred thousand. Which rows
it has follows from their codes alone, never from their order: rows are sorted by a digest of their codes, and every
n-th is taken, so that equal rows are in the sample as often as among all. Equal rows of it are one row with a weight.

Assumes      rows are public; the codes of a coarse view follow from those of the fine one
Guarantees   a function of the multiset of rows; memory for a chunk of rows and for the tables
Checked by tests/tasks/student/test_directions.py.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from concord.tasks.data.codes import CodeMatrix, Codes
from concord.tasks.mechanisms.distance import Floats

SAMPLE = 1 << 17
"""Most public rows that a model is decoded on."""
CHUNK = 1 << 14
"""Rows of a chunk: its weights and the table of two fields stay in the processor's cache."""

Digests = NDArray[np.uint64]


def digests(rows: CodeMatrix, codes: Codes) -> Digests:
    """A digest of each row's fine codes (rows,), the same for equal rows alone: a sum of random words, one a code."""
    words = np.frombuffer(hashlib.shake_256(codes.digest.encode()).digest(8 * codes.size), "<u8").astype(np.uint64)
    found = np.zeros(len(rows), np.uint64)
    for field in codes.fine:
        found += words[rows[:, field]]
    return found


def sampled(rows: CodeMatrix, codes: Codes, most: int = SAMPLE) -> CodeMatrix:
    """At most that many of the rows, in the order of their digests."""
    return np.asfortranarray(rows[_evenly(digests(rows, codes), most)])


def sampled_of(frames: Callable[[], Iterable[pl.DataFrame]], codes: Codes, most: int = SAMPLE) -> CodeMatrix:
    """`sampled` of the cast rows of all frames. Frames are read twice; memory holds eight bytes a row, and the
    sample."""
    found = np.concatenate([np.empty(0, np.uint64), *(digests(codes.of(rows), codes) for rows in frames())])
    kept = np.zeros(len(found), bool)
    kept[_evenly(found, most)] = True
    parts, first = [np.empty((0, codes.width), np.int32)], 0
    for rows in frames():
        parts.append(codes.of(rows.filter(kept[first : first + rows.height])))
        first += rows.height
    return sampled(np.concatenate(parts), codes, most)


def _evenly(found: Digests, most: int) -> NDArray[np.int64]:
    order = np.argsort(found, kind="stable")
    size = min(len(order), most)
    return order[np.arange(size) * len(order) // max(1, size)]


@dataclass(frozen=True, eq=False)
class CrossedRows:
    """Public rows by the codes that a model has weights for, in order, the intercept's last: d in all.

    fields  the code of each row (rows,), from 0, of each field; of the intercept it is 0
    starts  index of the first weight of each field, and d
    counts  (rows,) how many public rows are alike
    """

    fields: tuple[NDArray[np.int64], ...]
    starts: NDArray[np.int64]
    counts: Floats

    @classmethod
    def of(cls, rows: CodeMatrix, codes: Codes) -> tuple["CrossedRows", CodeMatrix]:
        """Distinct rows in the order of their digests, crossed and by their codes."""
        _, firsts, counts = np.unique(digests(rows, codes), return_index=True, return_counts=True)
        own = rows[firsts]
        fields = [own[:, at].astype(np.int64) - codes.fields[at].start for at in codes.weighed]
        starts = np.cumsum([0, *(codes.fields[at].size for at in codes.weighed), 1])
        return cls((*fields, np.zeros(len(own), np.int64)), starts, counts.astype(np.float64)), own

    @property
    def size(self) -> int:
        """d, the number of weights."""
        return int(self.starts[-1])

    def logits(self, weights: Floats) -> Floats:
        """The sum (rows,) of each row's weights (d,)."""
        found = np.full(len(self.counts), weights[-1])
        for own, start in zip(self.fields[:-1], self.starts, strict=False):
            found += weights[start:][own]
        return found

    def totals(self, values: Floats) -> Floats:
        """Σ values (rows,) of the rows with each code, (d,)."""
        weighed = values * self.counts
        sizes = np.diff(self.starts)
        return np.concatenate([np.bincount(own, weighed, size) for own, size in zip(self.fields, sizes, strict=True)])

    def tables(self, values: Sequence[Floats]) -> Floats:
        """Σ values (rows,) of the rows that have each pair of codes, (values, d, d): Zᵀ·diag(value)·Z, Z one-hot."""
        weighed = np.array(values) * self.counts
        found = np.zeros((len(values), self.size, self.size))
        spans = [slice(*edges) for edges in pairwise(self.starts.tolist())]
        for first in range(0, len(self.counts), CHUNK):
            rows = slice(first, first + CHUNK)
            for left, right in combinations(range(len(spans)), 2):
                tables = found[:, spans[left], spans[right]]
                _, high, wide = tables.shape
                pairs = self.fields[left][rows] * wide + self.fields[right][rows]
                for value, each in enumerate(weighed):
                    tables[value] += np.bincount(pairs, each[rows], high * wide).reshape(high, wide)
        found += found.transpose(0, 2, 1)
        at = np.arange(self.size)
        found[:, at, at] = found[:, :, -1]  # a field's codes exclude one another, and every row has the intercept
        found[:, -1, -1] = weighed.sum(axis=1)
        return found


@dataclass(frozen=True, eq=False)
class ReducedRows:
    """Public rows along directions: combinations of the codes that a model has weights for, r in all. They take the
    place of the codes of `CrossedRows`, but a row has a number along each of them.

    directions  A (d, r)
    """

    crossed: CrossedRows
    directions: csr_array

    @property
    def counts(self) -> Floats:
        """(rows,) how many public rows are alike."""
        return self.crossed.counts

    @property
    def size(self) -> int:
        """r, the number of directions."""
        return int(self.directions.shape[1])

    def logits(self, weights: Floats) -> Floats:
        """The sum (rows,) of each row's weights, by those along the directions (r,)."""
        return self.crossed.logits(np.asarray(self.directions @ weights))

    def totals(self, values: Floats) -> Floats:
        """Σ values (rows,) of the rows along each direction, (r,)."""
        return np.asarray(self.directions.T @ self.crossed.totals(values), np.float64)

    def tables(self, values: Sequence[Floats]) -> Floats:
        """Σ values (rows,) of the rows along each two directions, (values, r, r): Yᵀ·diag(value)·Y with Y = Z·A."""
        weighed = np.array(values) * self.counts
        found = np.zeros((len(values), self.size, self.size))
        for first in range(0, len(self.counts), CHUNK):
            rows = slice(first, first + CHUNK)
            own = np.column_stack([field[rows] for field in self.crossed.fields]) + self.crossed.starts[:-1]
            ends = np.arange(len(own) + 1) * own.shape[1]
            hot = csr_array((np.ones(own.size), own.ravel(), ends), shape=(len(own), self.crossed.size))
            along = np.asarray((hot @ self.directions).toarray(), np.float64)
            for at, value in enumerate(weighed):
                found[at] += along.T @ (value[rows, None] * along)
        return found

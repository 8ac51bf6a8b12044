"""Public rows as models are decoded on them: a sample, repaired to resemble the private rows, and in cross tables.

Sample: of fixed size, so that decoding takes as long for a billion rows as for a hundred thousand. Which rows it has
follows from their codes alone, never from their order: rows are sorted by a digest of their codes, and every n-th is
taken, so that equal rows are in the sample as often as among all. Equal rows of it are one row with a weight.

Repair: public rows represent private ones when tallies are decoded, so their codes must be as frequent. In each field
whose released totals clearly differ, rows with codes that are too frequent get codes that are too rare. A random order
decides which rows move: its first ones. With one order for all fields, the same rows change in every field and stay
consistent with each other: they represent people missing from the public table who differ in several fields at once.
With an order for each field, the dependence between fields stays as it is. The decoder takes the rows, repaired in one
of these ways or not at all, under which the released labels are likelier.

Cross tables: the only pass over rows when tallies are decoded.

Assumes      totals are released, rows are public; the codes of a coarse view follow from those of the fine one
Guarantees   a function of the multiset of rows and of the totals: rows that move are drawn from a fixed seed, which is
             no privacy noise; memory for a chunk of rows and for the tables
Not covered  dependence between fields among the rows that move, and between them and the fields that need no repair
             Checked by tests/tasks/student/test_directions.py and tests/tasks/student/test_repair.py
"""

import hashlib
import io
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from concord.artifacts.home.vault import Staged
from concord.artifacts.schemas import PublicBatch, Ref
from concord.artifacts.threads import Threads
from concord.tasks.data.codes import CodeMatrix, Codes, coarser
from concord.tasks.data.encode import read_frame
from concord.tasks.mechanisms.distance import Floats, Ints

SAMPLE = 1 << 17
"""Most public rows that a model is decoded on."""
CHUNK = 1 << 14
"""Rows of a chunk: its weights and the table of two fields stay in the processor's cache."""
CLEARLY = 4.0
"""Standard deviations by which the total of a field's only code would have to differ for the field to be repaired. With
more codes it is more, so that chance repairs no more fields."""
LEAST_MOVED = 0.02
"""Least share of the rows that must move for a field to be repaired."""
AT_ONCE = 4
"""Most parts of a table that are in memory at once."""
SEED = 20_261_122

Digests = NDArray[np.uint64]
Part = TypeVar("Part")


def digests(rows: CodeMatrix, codes: Codes) -> Digests:
    """A digest of each row's fine codes (rows,), the same for equal rows alone: a sum of random words, one a code."""
    words = np.frombuffer(hashlib.shake_256(codes.digest.encode()).digest(8 * codes.size), "<u8").astype(np.uint64)
    sums = np.zeros(len(rows), np.uint64)
    for field in codes.fine:
        sums += words[rows[:, field]]
    return sums


def sampled_rows(rows: CodeMatrix, codes: Codes, most: int = SAMPLE) -> CodeMatrix:
    """At most that many of the rows, in the order of their digests."""
    return _taken(rows, _evenly(digests(rows, codes), most))


def sampled_of(
    parts: Sequence[Part], read: Callable[[Part], pl.DataFrame], codes: Codes, most: int = SAMPLE
) -> CodeMatrix:
    """`sampled_rows` of the cast rows of all parts of a table. Each part is read twice, a few at once; memory holds
    those, eight bytes a row, and the sample."""
    with Threads(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        of_parts = [*pool.each(lambda part: digests(codes.of(read(part)), codes), parts)]
        of_rows = np.concatenate([np.empty(0, np.uint64), *of_parts])
        kept = np.zeros(len(of_rows), bool)
        kept[_evenly(of_rows, most)] = True
        kept_of = (kept[start:stop] for start, stop in pairwise(np.cumsum([0, *map(len, of_parts)])))
        wanted = zip(parts, kept_of, strict=True)
        sampled = [*pool.each(lambda both: codes.of(read(both[0]).filter(both[1])), wanted)]
    return sampled_rows(np.concatenate([np.empty((0, codes.width), np.int32), *sampled]), codes, most)


def write_sample(batches: Sequence[PublicBatch], codes: Codes, staged: Staged, path: str) -> Ref:
    """Write codes (rows, fields) of the sample of staged public rows that models are decoded on, as a NumPy file."""
    rows = sampled_of(batches, lambda batch: read_frame(batch.ref, staged), codes)
    with staged.create(path) as sink:
        np.save(sink, rows, allow_pickle=False)
    return sink.ref


def read_sample(sample: Ref, staged: Staged) -> CodeMatrix:
    """The codes that `write_sample` wrote. Raises NotVerified if the file is not what was written."""
    rows: CodeMatrix = np.load(io.BytesIO(staged.read(sample)), allow_pickle=False)
    return rows


def staged_rows(batches: Sequence[PublicBatch], staged: Staged) -> pl.DataFrame:
    """All staged public rows."""
    return pl.concat(read_frame(batch.ref, staged) for batch in batches)


def _evenly(of_rows: Digests, most: int) -> NDArray[np.int64]:
    order = np.argsort(of_rows, kind="stable")
    size = min(len(order), most)
    return order[np.arange(size) * len(order) // max(1, size)]


def _taken(rows: CodeMatrix, places: NDArray[np.int64]) -> CodeMatrix:
    """The rows at these places; no copy if these are all rows in their order, as those of a sample are."""
    return rows if np.array_equal(places, np.arange(len(rows))) else np.asfortranarray(rows[places])


@dataclass(frozen=True)
class Totals:
    """Released numbers of private units with each code, with noise of sd `noise`, and the number of units."""

    by_field: tuple[Floats, ...]
    noise: float
    units: float
    units_noise: float


def repaired(rows: CodeMatrix, codes: Codes, totals: Totals, *, together: bool) -> tuple[CodeMatrix, float]:
    """The rows (m, F) with codes as often as `totals` says, and the share of cells that changed.

    `totals.by_field` are of the coarse fields, in order. `together`: one order of rows for all fields.
    """
    moved_rows, moved, draw = rows, 0, np.random.default_rng(SEED)
    order = draw.permutation(len(rows))
    for coarse, fine, counted in zip(codes.coarse, codes.fine, totals.by_field, strict=True):
        held = _codes_of(rows, codes, coarse)
        wanted = _wanted(held, counted, totals)
        if wanted is None:
            continue
        moved_rows = rows.copy() if moved_rows is rows else moved_rows
        which, to = _moves(held, wanted, order if together else draw.permutation(len(rows)), draw)
        moved_rows[which, coarse] = codes.span(coarse).start + to
        if fine != coarse:
            view = coarser(codes.fields[fine], codes.fields[coarse])
            for code in np.unique(to):  # rows that get it have the fine codes of those that had it
                donors, receivers = rows[held == code, fine], which[to == code]
                first_within = codes.span(fine).start + int(np.argmax(view == code))
                held_there = donors if len(donors) else [first_within]
                moved_rows[receivers, fine] = draw.choice(held_there, size=len(receivers))
        moved += len(which)
    return moved_rows, moved / (len(rows) * len(codes.coarse))


def unlike(rows: CodeMatrix, codes: Codes, totals: Totals) -> tuple[int, ...]:
    """The coarse fields with codes that `repaired` fills mostly with rows of other codes, if these are LEAST_MOVED of
    all rows or more. Too few rows then show the fine codes within."""
    fields = []
    for coarse, counted in zip(codes.coarse, totals.by_field, strict=True):
        held = _codes_of(rows, codes, coarse)
        wanted = _wanted(held, counted, totals)
        if wanted is None:
            continue
        there = np.bincount(held, minlength=len(wanted))
        coming = np.maximum(0, wanted - there)
        if coming[coming > there].sum() / len(held) >= LEAST_MOVED:
            fields.append(coarse)
    return tuple(fields)


def _codes_of(rows: CodeMatrix, codes: Codes, field: int) -> Ints:
    """Codes of a field, from 0."""
    return np.asarray(rows[:, field].astype(np.int64) - codes.span(field).start)


def _wanted(held: Ints, counted: Floats, totals: Totals) -> Floats | None:
    """The number of rows that should have each code; None if no row needs to move."""
    share = np.bincount(held, minlength=len(counted)) / len(held)
    stated = counted / totals.units
    variance = (totals.noise**2 + (stated * totals.units_noise) ** 2) / totals.units**2
    variance += share * (1 - share) * (1 / len(held) + 1 / totals.units)  # both are drawn rows
    target = np.clip(stated, 0, None)
    target /= target.sum() or 1.0
    most = -ndtri(ndtr(-CLEARLY) / len(counted)) * np.sqrt(variance)
    if np.all(np.abs(stated - share) <= most) or np.abs(target - share).sum() / 2 < LEAST_MOVED:
        return None
    wanted: Floats = target * len(held)
    return wanted


def _moves(held: Ints, wanted: Floats, order: Ints, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Which rows move, the first in `order`, and the code each of them gets."""
    surplus = np.rint(np.bincount(held, minlength=len(wanted)) - wanted).astype(np.int64)
    leaving = [order[held[order] == code][: max(0, more)] for code, more in enumerate(surplus)]
    which = draw.permutation(np.concatenate(leaving))
    to = draw.permutation(np.repeat(np.arange(len(wanted)), np.maximum(0, -surplus)))
    size = min(len(which), len(to))
    return which[:size], to[:size]


@dataclass(frozen=True, eq=False)
class CrossedRows:
    """Public rows by the codes that a model has weights for, in order, the intercept's last: d in all.

    fields   the code of each row (rows,), from 0, of each field; of the intercept it is 0
    starts   index of the first weight of each field, and d
    counts   (rows,) how many public rows are alike
    threads  how many threads may work for one column of weights
    """

    fields: tuple[NDArray[np.int64], ...]
    starts: NDArray[np.int64]
    counts: Floats
    threads: int = 1

    @classmethod
    def of(cls, rows: CodeMatrix, codes: Codes, threads: int = 1) -> tuple["CrossedRows", CodeMatrix]:
        """Distinct rows in the order of their digests, crossed and by their codes."""
        _, firsts, counts = np.unique(digests(rows, codes), return_index=True, return_counts=True)
        distinct = _taken(rows, firsts)
        fields = [distinct[:, at].astype(np.int64) - codes.fields[at].start for at in codes.weighed]
        starts = np.cumsum([0, *(codes.fields[at].size for at in codes.weighed), 1])
        fields.append(np.zeros(len(distinct), np.int64))
        return cls(tuple(fields), starts, counts.astype(np.float64), threads), distinct

    @property
    def size(self) -> int:
        """d, the number of weights."""
        return int(self.starts[-1])

    def logits(self, weights: Floats) -> Floats:
        """The sum (rows,) of each row's weights (d,)."""
        sums = np.full(len(self.counts), weights[-1])
        for code, start in zip(self.fields[:-1], self.starts, strict=False):
            sums += weights[start:][code]
        return sums

    def totals(self, values: Floats) -> Floats:
        """Σ values (rows,) of the rows with each code, (d,)."""
        weighed = values * self.counts
        sizes = np.diff(self.starts)
        return np.concatenate([np.bincount(code, weighed, size) for code, size in zip(self.fields, sizes, strict=True)])

    def tables(self, values: Sequence[Floats]) -> Floats:
        """Σ values (rows,) of the rows that have each pair of codes, (values, d, d): Zᵀ·diag(value)·Z, Z one-hot."""
        weighed = np.array(values) * self.counts
        sums = np.zeros((len(values), self.size, self.size))
        spans = [slice(*edges) for edges in pairwise(self.starts.tolist())]
        chunks = [slice(first, first + CHUNK) for first in range(0, len(self.counts), CHUNK)]

        def add_pairs_of(left: int) -> None:
            for rows, right in product(chunks, range(left + 1, len(spans))):
                pairs_of = sums[:, spans[left], spans[right]]
                _, high, wide = pairs_of.shape
                pairs = self.fields[left][rows] * wide + self.fields[right][rows]
                for at, value in enumerate(weighed):
                    pairs_of[at] += np.bincount(pairs, value[rows], high * wide).reshape(high, wide)

        with Threads(self.threads) as pool:
            deque(pool.each(add_pairs_of, range(len(spans))), maxlen=0)
        sums += sums.transpose(0, 2, 1)
        diagonal = np.arange(self.size)
        # A field's codes exclude one another, and every row has the intercept.
        sums[:, diagonal, diagonal] = sums[:, :, -1]
        sums[:, -1, -1] = weighed.sum(axis=1)
        return sums


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
    def threads(self) -> int:
        """As of the rows by codes."""
        return self.crossed.threads

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
        sums = np.zeros((len(values), self.size, self.size))
        for first in range(0, len(self.counts), CHUNK):
            rows = slice(first, first + CHUNK)
            codes = np.column_stack([field[rows] for field in self.crossed.fields]) + self.crossed.starts[:-1]
            ends = np.arange(len(codes) + 1) * codes.shape[1]
            hot = csr_array((np.ones(codes.size), codes.ravel(), ends), shape=(len(codes), self.crossed.size))
            along = np.asarray((hot @ self.directions).toarray(), np.float64)
            for at, value in enumerate(weighed):
                sums[at] += along.T @ (value[rows, None] * along)
        return sums

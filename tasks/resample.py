"""Resample: the rows of a relabelled subset as teachers learn from them (Nandi & Bassily 2020, Algorithm 5, step 3).

    tight      each shard draws as many rows as it has, with replacement, from its own rows: a row reaches one teacher
    published  each row has Poisson(1) copies, those beyond the most dropped, and each copy goes to a shard of its own:
               a row reaches as many teachers as it has copies, which group privacy pays for
    none       the rows as they are

Assumes      the key is secret; rows lie by shard, and which shard that is follows from the row
Guarantees   draws are keyed, by shard and place or by row and copy number: a retry gives the same rows. One more row
             changes one shard (tight, none), or at most as many as it may have copies, and moves no other row
Not covered  the law of the copies: any would do, being independent of the rows
             Checked by tests/tasks/test_relabel.py and tests/tasks/test_orders.py

Why published moves no other row: identical rows are numbered 1 … n, and copy c of row number i is named by content, i
and c. One more row adds the names of number n + 1 and leaves the others. A name alone decides the shard, and the place
in it: where a row came from, which the number of rows before it decides, is forgotten.
"""

from bisect import bisect_right

import numpy as np
import polars as pl
from scipy.stats import poisson

from artifacts.encoding import Encoding
from tasks.mechanisms.noise import keyed_draws
from tasks.mechanisms.relabelled import Relabelling
from tasks.mechanisms.voting import Ints
from tasks.split import SHARD, row_digests
from tasks.units import UNIT, keyed_bits, shards_of

STREAM = 32
"""Bits of a shard's part of the keyed stream: draws of shard j start at j·2^32."""


def resampled(rows: pl.DataFrame, settings: Relabelling, shards: int, encoding: Encoding, key: bytes) -> pl.DataFrame:
    """Relabelled rows (SHARD, cast features, LABEL), in the order of shards, as the form of `settings` draws them."""
    if settings.form == "tight":
        return rows[_within_shards(rows[SHARD].to_numpy().astype(np.int64), key)]
    if settings.form == "published":
        return _over_shards(rows, settings.copies, shards, encoding, key)
    return rows


def _within_shards(shard: Ints, key: bytes) -> Ints:
    """Which row each place of each shard gets: shard (rows,) in rising order."""
    drawn = [np.zeros(0, dtype=np.int64)]
    for one, first, size in zip(*np.unique(shard, return_index=True, return_counts=True), strict=True):
        draws = keyed_draws(key, int(one) << STREAM, int(size))
        drawn.append(first + (draws % np.uint64(size)).astype(np.int64))
    return np.concatenate(drawn)


def _over_shards(rows: pl.DataFrame, most: int, shards: int, encoding: Encoding, key: bytes) -> pl.DataFrame:
    """Every copy of every row in a shard of its own. Identical rows are told apart by their number among them."""
    digests = pl.Series(UNIT, row_digests(rows, encoding, key), pl.Binary)
    numbers = digests.to_frame().select(pl.col(UNIT).cum_count().over(UNIT)).to_series()
    units = [digest + number.to_bytes(8, "little") for digest, number in zip(digests, numbers, strict=True)]
    below = [int(bound * 2**64) for bound in np.asarray(poisson.cdf(np.arange(most), 1))]
    copies = [bisect_right(below, keyed_bits(unit, key, b"copies")) for unit in units]
    named = [unit + bytes([copy]) for unit, count in zip(units, copies, strict=True) for copy in range(count)]
    spread = rows[np.repeat(np.arange(len(units)), np.array(copies, dtype=np.int64))]
    placed = shards_of(pl.Series(named, dtype=pl.Binary), key, shards).alias(SHARD)
    return spread.with_columns(placed, pl.Series(UNIT, named, pl.Binary)).sort(SHARD, UNIT).drop(UNIT)

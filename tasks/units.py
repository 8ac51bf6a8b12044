"""Units: whose row a row is, and what a keyed hash of that decides.

Assumes      the key is secret; units are erased by requests, whatever other rows hold
Guarantees   whatever is decided about a unit depends on its name and the key alone, never on other units. Erased ones
             are left out: a fixed set, so that two neighbouring tables are neighbouring without them as well, or equal
Not covered  rows of a unit that changes its name.
             Checked in tests/tasks by test_split.py, test_units.py, test_label_private.py and test_left_out.py

Hashes are BLAKE2b (RFC 7693) under the key, with a purpose of their own each.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import polars as pl

from artifacts.vault import Vault, derive, keyed_digest
from tasks.cells import NULL_WORDS, identity, text
from tasks.files import PRIVATE, find_files
from tasks.names import read_as_one
from tasks.rows import private_frames

UNIT = "concord.unit"


@dataclass(frozen=True)
class Erased:
    """The erased units of a domain, by keyed digests of their names; the key outlives them."""

    key: bytes = b""
    digests: frozenset[str] = frozenset()

    @classmethod
    def of(cls, vault: Vault, domain: str, digests: Iterable[str] = ()) -> Self:
        """Those of that domain of the vault."""
        return cls(derive(vault.secret(f"domains/{domain}"), "erasure"), frozenset(digests))

    def digest(self, name: bytes | str) -> str:
        """What is kept of a unit's name."""
        return keyed_digest(self.key, "unit", name)

    def spared(self, units: pl.Series) -> pl.Series:
        """Which rows are of no erased unit."""
        asked = units.unique().drop_nulls() if self.digests else ()
        gone = [unit for unit in asked if self.digest(unit) in self.digests]
        return ~units.is_in(pl.Series(gone, dtype=units.dtype).implode(), nulls_equal=False).fill_null(False)


NOBODY = Erased()
"""No unit was erased."""


def owned_frames(
    path: str, columns: Mapping[str, str], unit: str | None, erased: Erased
) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
    """`tasks.rows.private_frames` without rows of erased units, and of each frame whose every row is, as UNIT: what the
    column `unit` says, null where it names nobody; without such a column, the row's place in the table.

    Raises WrongInput where files store the ids in types that cannot be read as one.
    """
    asked = {**columns, **({unit: "data.unit"} if unit else {})}
    frames = private_frames(path, asked)
    rounded = unit is not None and _read_as_one(path, unit)
    first = 0
    for raw in frames:
        owner = unit_names(raw[unit], rounded=rounded) if unit else _places(first, raw.height)
        first += raw.height
        spared = erased.spared(owner)
        if unit and erased.digests:
            spared &= erased.spared(_former_names(raw[unit]))
        yield raw.filter(spared), owner.filter(spared)


def unit_names(ids: pl.Series, *, rounded: bool) -> pl.Series:
    """The names of units by their ids, as bytes: null where one says that there is nothing. See tasks.names."""
    name = identity("id", ids.dtype, rounded=rounded)
    return (
        ids.alias("id").to_frame().select(pl.when(~name.is_in(NULL_WORDS)).then(name).cast(pl.Binary).alias(UNIT))[UNIT]
    )


def shards_of(units: pl.Series, key: bytes, shards: int) -> pl.Series:
    """The shard of each unit: 64 keyed bits modulo the number of shards."""
    return pl.Series([keyed_bits(unit, key, b"shard") % shards for unit in units], dtype=pl.UInt32)


def sampled(units: pl.Series, key: bytes, share: float) -> pl.Series:
    """Whether each unit is in the sample: 64 keyed bits are below ⌊share·2^64⌋, for each unit by itself (Poisson)."""
    bound = int(share * 2**64)  # exact: a power of two changes no digit of a double
    return pl.Series([keyed_bits(unit, key, b"sample") < bound for unit in units], dtype=pl.Boolean)


def hashed(content: bytes, key: bytes, purpose: bytes, size: int) -> bytes:
    """`size` keyed bytes of a content, for one purpose."""
    return hashlib.blake2b(content, key=key, person=purpose, digest_size=size).digest()


def keyed_bits(unit: bytes, key: bytes, purpose: bytes) -> int:
    """64 keyed bits of a unit, for one purpose."""
    return int.from_bytes(hashed(unit, key, purpose, 8), "little")


def _read_as_one(path: str, unit: str) -> bool:
    files = find_files(path, PRIVATE)
    return read_as_one({str(file.path): file.stored_as(unit) for file in files if unit in file.names}, unit)


def _former_names(ids: pl.Series) -> pl.Series:
    """Names as version 0.1.0 gave them: digests of units that were erased then are of these."""
    word = text("id", ids.dtype).str.replace(r"^\+?(-?)0*(\d+)(?:\.0*)?$", "$1$2")
    return ids.alias("id").to_frame().select(word.cast(pl.Binary)).to_series()


def _places(first: int, rows: int) -> pl.Series:
    return pl.Series(UNIT, [place.to_bytes(8, "little") for place in range(first, first + rows)], pl.Binary)

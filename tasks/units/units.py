"""Units: the unit of each row of the private table, and decisions by a keyed hash of it.

Assumes      the key is secret; units are erased by requests, whatever other rows hold
             A line of a CSV file is a row, also within quotes: a cell with a line break adds a row, with the unit on
             that line
Guarantees   a decision about a unit depends on its name and the key alone, never on other units. Erased units are left
             out; they are a fixed set, so that neighbouring tables without them are neighbouring or equal. If only
             labels are secret, no label decides what is a row or where it is: CSV files and paths that name labels are
             refused
Not covered  rows of a unit that changes its name.
             Checked in tests/tasks by test_split.py, test_identifiers.py, test_label_private.py and
             test_left_out.py

Each hash (`artifacts.home.vault.hashed`) has a purpose of its own.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from concord.artifacts.domains import LABELS_OF
from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault, derive, hashed, keyed_digest
from concord.artifacts.parts import LEARNING
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import NO_NAMES, Encoding
from concord.tasks.data.cells import canonical_id
from concord.tasks.data.files import PRIVATE
from concord.tasks.data.tables import UNIT_FIELD, WHOLE, Slice, Table, open_private

UNIT = "concord.unit"


@dataclass(frozen=True)
class Erased:
    """The erased units of a domain, by keyed digests of their names; the key outlives them."""

    key: bytes = field(default=b"", repr=False)
    digests: frozenset[str] = frozenset()

    @classmethod
    def of(cls, vault: Vault, domain: str, digests: Iterable[str] = ()) -> Self:
        """The erased units of a domain in the vault."""
        return cls(derive(vault.secret(f"domains/{domain}"), "erasure"), frozenset(digests))

    def digest(self, name: bytes | str) -> str:
        """The keyed digest of a unit's name that is stored."""
        return keyed_digest(self.key, "unit", name)

    def spared(self, units: pl.Series) -> pl.Series:
        """Whether each row belongs to no erased unit."""
        names = units.unique().drop_nulls() if self.digests else ()
        gone = [unit for unit in names if self.digest(unit) in self.digests]
        return ~units.is_in(pl.Series(gone, dtype=units.dtype).implode(), nulls_equal=False).fill_null(False)


NOBODY = Erased()
"""No unit was erased."""


def rows_with_units(
    table: Table, columns: Mapping[str, str], erased: Erased = NOBODY, once: Collection[str] = (), share: Slice = WHOLE
) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
    """Frames of a private table without rows of erased units, each with the units of its rows as UNIT: the name in the
    table's column of units, null if it has none; without such a column, the row's position in the share that is read.

    Raises WrongInput if files store the ids otherwise than as text, or as whole numbers, in all of them.
    """
    unit, first = table.unit, 0
    for raw in table.frames({**columns, **({unit: UNIT_FIELD} if unit else {})}, once=once, share=share):
        places = np.arange(first, first + raw.height, dtype="<u8")
        owner, first = unit_names(raw[unit]) if unit else names_of(places), first + raw.height
        spared = erased.spared(owner)
        yield raw.filter(spared), owner.filter(spared)


@dataclass(frozen=True)
class PrivateRows:
    """A plan's private rows as stages read them: cast by the encoding, each with its unit.

    key     the domain's secret, by which units are named, divided and spread
    erased  units whose rows are left out
    part    part of the units, if they are divided (tasks.units.parts): the test part is read only under its name
    """

    plan: Plan
    encoding: Encoding
    vault: Vault
    key: bytes = field(repr=False)
    erased: Erased = NOBODY
    part: str = LEARNING

    @classmethod
    def of(cls, plan: Plan, encoding: Encoding, vault: Vault, erased: Iterable[str]) -> Self:
        """The private rows of a plan, by the secret of its domain; `erased` are keyed digests of units."""
        domain = plan.privacy.domain
        key, left_out = derive(vault.secret(f"domains/{domain}"), "split"), Erased.of(vault, domain, erased)
        return cls(plan, encoding, vault, key, left_out)

    @property
    def named_by_content(self) -> bool:
        """Whether a unit is a row, identified by its content and copy number."""
        return self.plan.data.unit is None and self.plan.privacy.secret == "rows"


def unit_of(plan: Plan) -> str:
    """The privacy unit of a plan, in the ledger's words."""
    unit = "one row" if plan.data.unit is None else f"all rows with one {plan.data.unit}"
    return unit if plan.privacy.secret == "rows" else f"{LABELS_OF}{unit}"


def private_table(plan: Plan, *, arriving: bool = False) -> Table:
    """The private table of a plan. Raises WrongInput if a file is missing or of a format that a label could break; a
    stream's, whose files are `arriving`, may have none yet; or if a link has a file read twice, since each row would
    count as two.

    If only labels are secret, neighbouring tables are equal otherwise, also in the positions of rows. In a CSV file, a
    label with a line break makes two rows of one, moves all later rows, and may name any unit. A label in a path
    decides the file of its row, and so the positions of all others.
    """
    table = open_private(plan.path("private"), plan.data.format, plan.data.unit, arriving=arriving)
    local = [file.path.stat() for file in table.files if isinstance(file.path, Path)]
    if len({(file.st_dev, file.st_ino) for file in local}) < len(local):
        rule = f"{PRIVATE} must hold each file once, but by a link {table.path} holds one under two names"
        raise WrongInput(f"{rule}, and each of its rows would count twice: leave the link out")
    if plan.privacy.secret == "labels" and table.files[0].format == "csv":
        rule = f"{PRIVATE} must be Parquet or Arrow IPC if privacy.secret = 'labels', got CSV"
        raise WrongInput(f"{rule}, in which a label can break its line and move other rows: write it as Parquet")
    if plan.privacy.secret == "labels" and any(f"/{plan.data.label}=" in str(file.path) for file in table.files):
        rule = f"{PRIVATE} must hold the label within its files if privacy.secret = 'labels', got it in their paths"
        raise WrongInput(f"{rule}, which lets a label move other rows: write the rows into one file")
    return table


def names_held(vault: Vault, files: Iterable[str]) -> tuple[str, ...]:
    """Keyed digests of the real paths and addresses of private files, by which the ledger records which domain holds
    them."""
    return tuple(vault.digest("private file", name) for name in files)


def unit_names(ids: pl.Series) -> pl.Series:
    """The names of units by their ids, as bytes; null if an id stands for a missing one (tasks.units.identifiers)."""
    name = canonical_id("id", ids.dtype)
    return (
        ids.alias("id").to_frame().select(pl.when(~name.is_in(NO_NAMES)).then(name).cast(pl.Binary).alias(UNIT))[UNIT]
    )


NAMES_BYTES = 1 << 24


def shards_of(units: pl.Series, key: bytes, shards: int) -> pl.Series:
    """The shard of each unit: 64 keyed bits modulo the number of shards."""
    return pl.Series((keyed_bits(units, key, b"shard") % shards).astype(np.uint32))


def sampled(units: pl.Series, key: bytes, share: float) -> pl.Series:
    """Whether each unit is in the sample, independently (Poisson): 64 keyed bits are below ⌊share·2^64⌋."""
    bound = int(share * 2**64)  # exact: a power of two changes no digit of a double
    return pl.Series(keyed_bits(units, key, b"sample") < bound)


def keyed_bits(units: pl.Series | Sequence[bytes], key: bytes, purpose: bytes) -> NDArray[np.uint64]:
    """64 keyed bits of each unit, for one purpose; a series is read NAMES_BYTES at a time, each name in it once."""
    if not isinstance(units, pl.Series):
        return np.frombuffer(b"".join(hashed(units, key, purpose, 8)), dtype="<u8")
    rows, bits = max(1, len(units) * NAMES_BYTES // max(NAMES_BYTES, int(units.estimated_size()))), []
    for first in range(0, max(1, len(units)), rows):
        once = units[first : first + rows].to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode()
        bits.append(keyed_bits(pl.Series(once.dictionary).to_list(), key, purpose)[once.indices.to_numpy()])
    return np.concatenate(bits)


def names_of(cells: NDArray[np.generic]) -> pl.Series:
    """The bytes of each row of numbers (rows,) or (rows, cells), as UNIT."""
    size = cells.itemsize * math.prod(cells.shape[1:])
    bytes_of = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(cells), [None, pa.py_buffer(cells)])
    return pl.Series(UNIT, pl.from_arrow(bytes_of), pl.Binary)

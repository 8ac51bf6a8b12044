"""Parts: the private units that are set aside for the domain's whole life, to test students on.

A unit is in the test part if 64 bits of its name, keyed by the part key, are below ⌊share·2^64⌋. Its name is its cell
in the column `data.unit`. If a unit is a row, its name is the row's raw cells in a fixed list of columns, each in the
spelling of tasks.units.identifiers. Cast cells would not do, since they change with the public vocabulary; nor would
the position in the table, which changes with any other row.

Assumes      the part key is fixed for the domain's life and independent of the data; columns do not hold the label
Guarantees   a unit's part depends on its name, the key and the share alone, whatever else is in the table, in whatever
             files, and however it is cast. Rows of one name are in one part
Not covered  units whose name changes. Doubles, UUIDs, single floats and moments with a zone have names of their own,
             and cells of CSV files read differently in another declared format. All this is part of the naming rule:
             the ledger refuses another rule, and nothing published reveals it (artifacts.ledger.excerpt).
             Checked by tests/tasks/units/test_set_aside.py

If only labels are secret, features of a further part of the units may be the public rows (tasks.units.split): no label
of theirs is read, neither to learn from nor to test a student on.
"""

import json
from collections.abc import Callable, Sequence

import polars as pl

from concord.artifacts.domains import Division
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.parts import EVERY, TEST
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.tasks.data.tables import CELLS_FIELD, CELLS_IN_SCHEMA, UNIT_FIELD, open_private
from concord.tasks.units.provenance import Provenance
from concord.tasks.units.units import PrivateRows, sampled, unit_names, unit_of

FORMAT_FIELD = "data.format"
"""The field of a plan for the format of CSV files, which also decides names."""
NULL_CELL = b"\xff"
"""Encoding of a null cell; other cells begin with their length, whose first byte is never this large."""


def division_of(plan: Plan, vault: Vault) -> Division | None:
    """The plan's division of its domain's units; None if it has none. Raises WrongInput if names are ambiguous."""
    if plan.test is None:
        return None
    naming, key = naming_rule(plan), part_key(derive(vault.secret(f"domains/{plan.privacy.domain}"), "split"))
    share = float(plan.test.share)
    return Division(commitment=keyed_digest(key, "parts", repr(share), naming), share=share, naming=naming)


def provenance_of(private: PrivateRows) -> Provenance:
    """That of a file that is made of these rows."""
    plan, division = private.plan, division_of(private.plan, private.vault)
    return Provenance(
        domain=plan.privacy.domain,
        unit=unit_of(plan),
        part=private.part,
        division="" if division is None else division.commitment,
        reading=keyed_digest(private.key, "reading", private.encoding.identity, plan.data.format.model_dump_json()),
    )


def part_key(key: bytes) -> bytes:
    """The key that decides a unit's part, given the one that assigns units to shards."""
    return derive(key, "parts")


def naming_rule(plan: Plan) -> str:
    """The naming rule of units, as the ledger records it: columns, what it records of their types, and the differences
    of the CSV format from the default, since cells read differently in another format."""
    table, unit = open_private(plan.path("private"), plan.data.format), plan.data.unit
    field, named_by = UNIT_FIELD if unit else CELLS_FIELD, []
    for column in (unit,) if unit else columns_of_names(plan):
        table.check_names(column, field)  # raises WrongInput if its types name nobody, or are several
        named_by.append((column, *table.recorded_types(column)))
    written = {FORMAT_FIELD: unusual} if (unusual := format_of_names(plan)) else {}
    return json.dumps({field: named_by, **written})


def format_of_names(plan: Plan) -> dict[str, str]:
    """The differences of the private table's format from the default; empty if its files are not CSV."""
    text = open_private(plan.path("private"), plan.data.format).files[0].format == "csv"
    return plan.data.format.model_dump(exclude_defaults=True) if text else {}


def columns_of_names(plan: Plan) -> dict[str, str]:
    """The columns that must be read to name a row by its cells, each with the field of the plan that asks for it."""
    return {} if plan.test is None else dict.fromkeys(plan.test.columns or (), CELLS_FIELD)


def columns_asked(plan: Plan, encoding: Encoding) -> dict[str, str]:
    """The columns of private rows that are read, each with the field of the plan that asks for it."""
    words = dict.fromkeys(encoding.words, CELLS_IN_SCHEMA)
    named = {name: words.get(name, field) for name, field in columns_of_names(plan).items()}
    return encoding.asked | named | {plan.data.label: "data.label"}


def of_part(plan: Plan, key: bytes, part: str) -> Callable[[pl.DataFrame, pl.Series], pl.Series]:
    """A function that marks the raw rows of units in a part, given the units' names, without those made public. All
    rows are marked if no units are set aside or made public.
    """
    secret, columns = part_key(key), tuple(columns_of_names(plan))

    def found(rows: pl.DataFrame, owners: pl.Series) -> pl.Series:
        mine = pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True)
        if plan.test is not None and part != EVERY:
            tested = _where(rows.height, row_names(rows, columns) if columns else owners, secret, plan.test.share)
            mine = tested if part == TEST else ~tested
        if plan.data.public_share is not None:
            mine &= ~_where(rows.height, owners, public_key(key), plan.data.public_share)
        return mine

    return found


def public_key(key: bytes) -> bytes:
    """The key that decides whether features of a unit are public rows, given the one that assigns units to shards."""
    return derive(key, "public")


def _where(rows: int, names: pl.Series, key: bytes, share: float) -> pl.Series:
    """Whether each row (rows,) has a name that is in the sample; a row without a name is not."""
    nowhere = pl.repeat(False, rows, dtype=pl.Boolean, eager=True)
    return nowhere.scatter(names.is_not_null().arg_true(), sampled(names.drop_nulls(), key, share))


def row_names(rows: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Names of rows by their raw cells in those columns: each row's depends on that row alone."""
    names = []
    for row in zip(*(unit_names(rows[column]) for column in columns), strict=True):
        cells = (NULL_CELL if cell is None else len(cell).to_bytes(7, "big") + cell for cell in row)
        names.append(b"".join(cells))
    return pl.Series(names, dtype=pl.Binary)

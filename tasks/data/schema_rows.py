"""Public rows of a plan that declares a schema: stand-ins drawn from it, and synthetic rows once they are released.

Either is kept as a table of the vault, which takes the place of `data.public` for a run, so that whatever reads public
rows reads these.

Assumes      the rows are public: drawn from the schema, or from released sums
Guarantees   a table is complete or absent, and is written again if it is not what was written
Not covered  how like private rows they are. Checked by tests/tasks/data/test_schema_rows.py
"""

from typing import IO, cast

import polars as pl

from concord.artifacts.home.atomic import locked
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import Plan
from concord.tasks.data.grid_values import stand_ins
from concord.tasks.data.snapshots import Sealing, Snapshot, SnapshotTable, is_whole, write_snapshot


def with_stand_ins(plan: Plan, vault: Vault) -> Plan:
    """The plan with rows drawn from its schema in place of public ones."""
    if plan.data.declared is None:
        raise AssertionError("rows are drawn from a schema that the plan declares")
    return with_rows(plan, vault, stand_ins(plan.data.declared), "rows drawn from the schema")


def with_rows(plan: Plan, vault: Vault, rows: pl.DataFrame, name: str) -> Plan:
    """The plan with these rows in place of public ones, kept under a key of their content."""
    sealed = rows.write_ipc(None, compat_level=pl.CompatLevel.oldest()).getvalue()
    key = vault.digest("schema rows", sealed)[:32]
    place = f"public/tables/{key}"
    with locked(vault.root / "locks" / f"table-{key}"):
        if not is_whole(vault, place):
            vault.destroy(place)
            sealing = Sealing(vault, f"{place}/00000")
            cast(IO[bytes], sealing).write(sealed)
            write_snapshot(vault, place, Snapshot(read="", files=(sealing.finish(name, "ipc"),)))
    return plan.model_copy(update={"data": plan.data.model_copy(update={"public": SnapshotTable.of(vault, place)})})

"""Tables whose labels alone are secret, and the public rows and teachers' rows made from them."""

from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from tests import world
from tests.support.made import frame_of
from tests.support.people import changed, people, tables_of_plan, write_tables

Rows = list[tuple[Any, ...]]


def tables(folder: Path, table: pl.DataFrame | None = None, **data: Any) -> dict[str, Any]:
    """A plan in which only labels are secret, and half of the units become public rows."""
    rows = people(6000, 1) if table is None else table
    found = tables_of_plan(write_tables(folder, rows))
    (folder / "private.csv").unlink()
    rows.write_parquet(folder / "private.parquet")
    del found["data"]["public"]
    found["data"] |= {
        "private": "private.parquet",
        "public_share": 0.5,
        "features": ["size", "shade", "visits"],
        **data,
    }
    found["privacy"]["secret"] = "labels"
    found["labeling"] = {"mechanism": "noisy_votes", "queries": 4000}
    return found


def flipped(table: pl.DataFrame, rows: pl.Expr) -> pl.DataFrame:
    other = pl.when(pl.col("outcome") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes"))
    return table.with_columns(outcome=pl.when(rows).then(other).otherwise("outcome"))


def vault_of(folder: Path) -> world.Vault:
    """The vault in a folder, which knows the domain of these tables."""
    vault = world.Vault(folder)
    vault.make_secret("domains/people")
    return vault


def parted(
    folder: Path, private: pl.DataFrame, *, suffix: str = ".parquet", unit: str | None = "person"
) -> tuple[Rows, Rows]:
    """The public rows made from a private table, and the teachers' rows: shard, features and label."""
    found = tables(folder, private, private=f"private{suffix}", unit=unit)
    if suffix == ".arrow":
        private.write_ipc(folder / "private.arrow")
    vault, plan = vault_of(folder / "vault"), changed(found)
    made = world.with_public(plan, vault, [vault.digest_file(Path(plan.path("private")))])
    public = public_rows(made)
    key = world.derive(vault.secret("domains/people"), "split")
    refs = world.split(world.PrivateRows(made, world.learn_encoding(made), vault, key), "shards")
    shards = pl.concat([frame_of(ref, vault) for ref in refs])
    return public.rows(), shards.select(world.SHARD, "size", "shade", "visits", world.LABEL).rows()


def public_rows(made: world.Plan) -> pl.DataFrame:
    """The rows that `with_public` made public, of a plan that it returned."""
    return pl.concat(
        [pl.read_ipc(BytesIO(file.path.read_bytes())) for file in world.find_files(made.path("public"), "public")]
    )

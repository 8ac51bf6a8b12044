"""Tables that are not files, for tests: an SQLite database, and the rows that a run would read from a source."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.raw import exact
from tests.world import Plan, Vault, open_private, parse_plan, rows_with_units, with_snapshots

VARIABLE = "TEST_WARD_DATABASE"
PASSWORD = "hunter2-secret"


def plan_over(private: Any, folder: Path, **more: Any) -> Plan:
    """A plan over a private table, and a public file that need not be there."""
    data = {"private": private, "public": "public.csv", "label": "label", "classes": ["no", "yes"], **more}
    return parse_plan(
        {
            "data": data,
            "privacy": {"domain": "ward", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 1, "delta": 1e-5}},
            "teachers": {"count": 5},
            "labeling": {"cutoff": 5},
            "folder": str(folder),
        }
    )


def database(file: Path, rows: Sequence[Sequence[Any]], columns: Sequence[str] = ("c", "label", "unit")) -> str:
    """Write a table `ward` of any cells. Returns the address of the database."""
    file.unlink(missing_ok=True)
    with sqlite3.connect(file) as connection:
        connection.execute(f"create table ward ({', '.join(columns)})")
        connection.executemany(f"insert into ward values ({', '.join('?' * len(columns))})", rows)
    connection.close()
    return f"sqlite:///{file}"


def asked_of(monkeypatch: pytest.MonkeyPatch, address: str, query: str = "select * from ward") -> dict[str, str]:
    """A query for a plan, with the database's address in the environment."""
    monkeypatch.setenv(VARIABLE, address)
    return {"query": query, "connection": VARIABLE}


def read(plan: Plan, vault: Vault, *columns: str) -> list[tuple[bytes | None, ...]]:
    """The bits of those cells and of the unit's name, for every private row of a plan whose tables were read."""
    found: list[tuple[bytes | None, ...]] = []
    table = open_private(with_snapshots(plan, vault).path("private"), unit=plan.data.unit)
    for frame, owner in rows_with_units(table, dict.fromkeys(columns, "data.features")):
        found += zip(*(exact(frame[name]) for name in columns), owner.to_list(), strict=True)
    return found


def file_of(plan: Plan, vault: Vault) -> bytes:
    """The bytes of the one file that a private table was read into."""
    from tests.world import PRIVATE, find_files

    (file,) = find_files(with_snapshots(plan, vault).path("private"), PRIVATE)
    with file.path.open("rb") as content:
        return bytes(content.read())


def ward(rows: int) -> pl.DataFrame:
    """A small private table."""
    return pl.DataFrame(
        {
            "c": [f"{number / 7}" for number in range(rows)],
            "label": [("no", "yes")[number % 2] for number in range(rows)],
            "unit": [f"u{number // 2}" for number in range(rows)],
        }
    )

"""Delta tables: one version of one, as its log says, with what is read of it on record."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.artifacts.home.vault import Vault
from concord.tasks.data.snapshots import reading_of
from concord.tasks.data.sources import with_snapshots
from concord.tasks.data.tables import open_public
from tests.support.sentences import facts
from tests.support.sources import plan_over, read, ward

deltalake = pytest.importorskip("deltalake")


def write(place: Path, rows: pl.DataFrame, mode: str = "append", **options: Any) -> None:
    deltalake.write_deltalake(str(place), rows.to_arrow(), mode=mode, **options)


def test_a_version_is_read_once_and_is_on_record(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    write(tmp_path / "delta", ward(10))
    write(tmp_path / "delta", ward(6), "overwrite")
    latest = plan_over({"delta": "delta"}, tmp_path, unit="unit")
    first = plan_over({"delta": "delta", "version": 0}, tmp_path, unit="unit")
    assert [len(read(plan, vault, "c")) for plan in (latest, first)] == [6, 10]
    write(tmp_path / "delta", ward(3))
    assert len(read(latest, vault, "c")) == 6  # as it was for this version of the data
    assert len(read(plan_over({"delta": "delta"}, tmp_path, unit="unit", version="2"), vault, "c")) == 9
    assert [reading_of(with_snapshots(plan, vault).data.private) for plan in (latest, first)] == [
        "delta version 1",
        "delta version 0",
    ]


def test_partitions_are_those_of_the_log(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    rows = ward(12).with_columns(town=pl.lit("New York/=é"), floor=pl.int_range(12) % 3)
    rows = rows.with_columns(pl.when(pl.col("floor") > 0).then("floor"))
    write(tmp_path / "delta", rows, partition_by=["town", "floor"])
    rows.write_parquet(tmp_path / "ward.parquet")
    columns = ("c", "town", "floor")
    found = read(plan_over({"delta": "delta"}, tmp_path, unit="unit"), vault, *columns)
    plain = read(plan_over("ward.parquet", tmp_path, unit="unit"), vault, *columns)
    assert sorted(found, key=repr) == sorted(plain, key=repr)


def test_a_file_has_its_own_partition_whatever_others_are_called(tmp_path: Path) -> None:
    """Its path is the end of another's, so it had the other's cells."""
    write(tmp_path / "b", ward(2).with_columns(town=pl.Series(["A", "B"])), partition_by=["town"])
    (log,) = (tmp_path / "b" / "_delta_log").glob("*.json")
    (tmp_path / "b" / "b").mkdir()
    for old in (tmp_path / "b").glob("town=*/*.parquet"):
        new = "x.parquet" if "town=A" in str(old) else "b/x.parquet"
        log.write_text(log.read_text().replace(f"{old.parent.name}/{old.name}", new))
        old.rename(tmp_path / "b" / new)
    found = read(plan_over({"delta": "b"}, tmp_path, unit="unit"), Vault(tmp_path / "vault"), "c", "town")
    assert {town for _, town, _ in found} == {b"A", b"B"}


def test_what_is_no_table_or_needs_more_than_its_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault(tmp_path / "vault")
    with pytest.raises(WrongInput, match="there is no Delta table at"):
        with_snapshots(plan_over({"delta": "absent"}, tmp_path), vault)
    write(tmp_path / "delta", ward(4))
    with pytest.raises(EnvironmentFailed, match="cannot be read at version 9"):
        with_snapshots(plan_over({"delta": "delta", "version": 9}, tmp_path), vault)

    class Protocol:
        min_reader_version = 3
        reader_features = ("timestampNtz", "deletionVectors")

    monkeypatch.setattr(deltalake.DeltaTable, "protocol", lambda _: Protocol())
    with pytest.raises(WrongInput, match=facts("deletionVectors")):
        with_snapshots(plan_over({"delta": "delta"}, tmp_path), vault)


def test_a_column_of_the_log_has_the_type_that_the_table_states(tmp_path: Path) -> None:
    """Each value was a word, so that a town of digits was a number."""
    rows = ward(12).with_columns(
        town=pl.lit("7"), floor=pl.int_range(12) % 3, day=pl.date(2020, 1, 1), deep=pl.struct("c"), cell=pl.lit(b"\xff")
    )
    write(tmp_path / "delta", rows, partition_by=["town", "floor", "day"])
    plan = plan_over({"delta": "delta"}, tmp_path)
    table = open_public(with_snapshots(plan, Vault(tmp_path / "vault")).path("private"))
    assert {*table.names} == {*rows.columns} - {"deep"}  # which no column can be read of
    kinds = {"c": "categorical", "town": "categorical", "floor": "numeric", "day": "date"}
    assert table.kinds([*kinds]) == kinds


def test_a_file_of_a_private_table_that_is_damaged_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path / "delta", ward(40).with_columns(town=pl.lit("CANARY")), partition_by=["town"])
    (file,) = (tmp_path / "delta").glob("town=*/*.parquet")
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(WrongInput, match=r"file 1 of .*delta cannot be read as parquet$") as refused:
        with_snapshots(plan_over({"delta": "delta"}, tmp_path), Vault(tmp_path / "vault"))
    assert "CANARY" not in str(refused.value)

"""Tables that are no files: read once, known again, and refused in one sentence that holds no password and no value."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import concord
from tests import world
from tests.support.sentences import facts
from tests.support.sources import PASSWORD, VARIABLE, asked_of, database, file_of, plan_over, read, ward


@pytest.fixture
def vault(tmp_path: Path) -> world.Vault:
    return world.Vault(tmp_path / "home" / "vault")


def test_a_query_is_asked_once_for_each_version_of_the_data_and_a_changed_one_is_another_table(
    tmp_path: Path, vault: world.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database(tmp_path / "ward.db", ward(40).rows())
    plan = plan_over(asked_of(monkeypatch, address), tmp_path, unit="unit")
    before = read(plan, vault, "c")
    for where, rows in (("label <> 'no%';", 40), ("label = 'no' -- %s", 20)):
        asked = asked_of(monkeypatch, address, f"select * from ward where {where}")
        assert len(read(plan_over(asked, tmp_path, unit="unit"), vault, "c")) == rows
    database(tmp_path / "ward.db", ward(41).rows())
    later = plan_over(asked_of(monkeypatch, address), tmp_path, unit="unit", version="2")
    assert (read(plan, vault, "c"), len(read(later, vault, "c"))) == (before, 41)


def killed_here(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_table_that_is_read_again_is_never_mixed_with_the_one_before(
    tmp_path: Path, vault: world.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = asked_of(monkeypatch, database(tmp_path / "ward.db", ward(40).rows()))
    plan = plan_over(source, tmp_path)

    def rows(at: Any) -> int:
        return sum(
            frame.height for file in world.find_files(at.path("private"), world.PRIVATE) for frame in file.frames(["c"])
        )

    first = world.with_snapshots(plan, vault)
    (opened,) = world.find_files(first.path("private"), world.PRIVATE)
    file = opened.path.open("rb")
    database(tmp_path / "ward.db", ward(41).rows())
    with monkeypatch.context() as killed:
        killed.setattr(world.Vault, "destroy", killed_here)
        with pytest.raises(KeyboardInterrupt):
            world.with_snapshots(plan, vault, again=True)
    assert [rows(first), rows(world.with_snapshots(plan, vault))] == [40, 41]  # of two whole ones the later
    assert rows(world.with_snapshots(plan, vault, again=True)) == 41
    assert len(pa.ipc.open_file(file).read_all()) == 40  # what is open stays as it was
    with pytest.raises(world.NotVerified):
        rows(first)
    with pytest.raises(world.NotVerified):
        list(opened.frames(["c"]))
    (tmp_path / "ward.db").unlink()
    with pytest.raises(world.EnvironmentFailed, match="cannot be opened"):
        world.with_snapshots(plan, vault, again=True)
    assert rows(world.with_snapshots(plan, vault)) == 41  # what could not be read again is there as it was
    assert len([*(vault.root / "tables" / "ward").rglob("files.json")]) == 1


def test_rows_in_any_order_are_the_same_bytes(
    tmp_path: Path, vault: world.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ward(300).rows()
    found = []
    for version, ordered in enumerate((rows, rows[::-1], [*rows[7:], *rows[:7]])):
        source = asked_of(monkeypatch, database(tmp_path / "ward.db", ordered))
        found.append(file_of(plan_over(source, tmp_path, version=str(version)), vault))
    assert found[0] == found[1] == found[2]

    def as_it_came(contents: Iterable[bytes], *_: Any) -> list[bytes]:
        return [b"\0" * 16 for _ in contents]

    monkeypatch.setattr(world.data_sources, "hashed", as_it_came)  # the planted fault: the order that rows came in
    source = asked_of(monkeypatch, database(tmp_path / "ward.db", rows[::-1]))
    assert file_of(plan_over(source, tmp_path, version="planted"), vault) != found[0]


ADDRESSES = {
    "": facts(VARIABLE, "address"),
    "ward": "must be sqlite:///…, or postgresql",
    f"mysql://root:{PASSWORD}@localhost/ward": "must be sqlite:///…, or postgresql",
    f"postgresql://u:{PASSWORD}@127.0.0.1:1/ward": "cannot be opened",
    f"postgresql://u:{PASSWORD}#more@127.0.0.1:1/ward": "cannot be opened",
    f"postgresql://u:1/{PASSWORD}@127.0.0.1:1/ward": "cannot be opened",
    f"postgresql://u@127.0.0.1:{PASSWORD}/ward": "must be sqlite:///…, or",
    "sqlite:////nowhere/ward.db": "cannot be opened",
}
QUERIES = {
    "select * from absent": facts("query", "no such table: absent"),
    "drop table ward": "does not understand the query",
}


@pytest.mark.parametrize("asked", [*ADDRESSES, *QUERIES])
def test_what_a_database_fails_with_is_one_sentence_without_a_password(
    tmp_path: Path, vault: world.Vault, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    ours = database(tmp_path / "ward.db", ward(4).rows())
    source = asked_of(monkeypatch, ours, asked) if asked in QUERIES else asked_of(monkeypatch, asked, "select 1")
    error = world.WrongInput if asked in QUERIES else world.EnvironmentFailed
    with pytest.raises(error, match=(ADDRESSES | QUERIES)[asked]) as failed:
        world.with_snapshots(plan_over(source, tmp_path), vault)
    assert PASSWORD not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None or failed.value.__suppress_context__


def test_a_query_that_fails_on_a_value_does_not_say_which(
    tmp_path: Path, vault: world.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = asked_of(
        monkeypatch,
        database(tmp_path / "ward.db", ward(4).rows()),
        "select json_extract('SECRET' || c, '$') as c from ward",
    )
    with pytest.raises(world.EnvironmentFailed, match="failed while the query was read") as failed:
        world.with_snapshots(plan_over(source, tmp_path), vault)
    assert "SECRET" not in str(failed.value)
    assert failed.value.__context__ is None


def test_a_snapshot_that_was_changed_is_not_read(
    tmp_path: Path, vault: world.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_over(asked_of(monkeypatch, database(tmp_path / "ward.db", ward(300).rows())), tmp_path, unit="unit")
    for name in ("00000", "files.json"):
        for change in (lambda content: content[:-1], lambda content: bytes(len(content)), lambda _: b""):
            files = world.find_files(world.with_snapshots(plan, vault).path("private"), world.PRIVATE)
            (stored,) = (vault.root / "tables" / "ward").rglob(name)
            stored.write_bytes(change(stored.read_bytes()))
            if name == "00000":
                with pytest.raises(world.NotVerified, match="the vault file"):
                    list(files[0].frames(["c"]))
            assert len(read(plan, vault, "c")) == 300  # it is read again


def frames(rows: pl.DataFrame) -> dict[str, Any]:
    return {"polars": rows, "Arrow": rows.to_arrow(), "pandas": rows.to_pandas()}


@pytest.mark.parametrize("kind", ["polars", "Arrow", "pandas"])
def test_a_frame_is_what_the_same_rows_in_a_file_are(tmp_path: Path, vault: world.Vault, kind: str) -> None:
    rows = ward(100).with_columns(
        number=pl.col("c").cast(pl.Float64),
        whole=pl.int_range(100),
        word=pl.col("unit").cast(pl.Categorical),
        day=pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 4, 9), eager=True).cast(pl.Datetime("us")),
        truth=pl.col("label") == "no",
    )
    rows.write_parquet(tmp_path / "rows.parquet")
    source = world.keep_frame(frames(rows)[kind], vault, "private", "ward")
    assert source == world.keep_frame(frames(rows)[kind], vault, "private", "ward")
    asked = ("c", "number", "whole", "word", "day", "truth", "label")
    stored = read(plan_over("rows.parquet", tmp_path, unit="unit"), vault, *asked)
    assert read(plan_over(source, tmp_path, unit="unit"), vault, *asked) == stored


def test_a_cell_of_a_derived_type_is_what_it_derives_from() -> None:
    pandas = pytest.importorskip("pandas")

    class Answer(str):
        def __str__(self) -> str:
            return "SECRET"

    class Loud(int):
        def __str__(self) -> str:
            raise ValueError("SECRET")

    column = pandas.DataFrame({"c": pandas.Series([Answer("no"), Loud(7)], dtype="object")})
    assert world.frame_table(column, "data.private").column("c").to_pylist() == ["no", "7"]


def test_words_of_several_dictionaries_are_kept(vault: world.Vault, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    chunks = pa.chunked_array([pa.array(words).dictionary_encode() for words in (["a", "b"], ["c"])])
    frame = pandas.DataFrame({"c": pandas.Series(pandas.arrays.ArrowExtensionArray(chunks)), "label": "no"})
    stored = pl.DataFrame({"c": ["a", "b", "c"], "label": "no"})
    stored.write_parquet(tmp_path / "rows.parquet")
    kept = plan_over(world.keep_frame(frame, vault, "private", "ward"), tmp_path)
    assert read(kept, vault, "c") == read(plan_over("rows.parquet", tmp_path), vault, "c")


UNREAD = {
    "Python objects": pl.DataFrame({"c": [1], "odd": [object()]}),
    "Int128": pl.DataFrame({"c": [1], "odd": pl.Series([1], dtype=pl.Int128)}),
    "intervals": pd.DataFrame({"c": [1], "odd": pd.cut([1], [0, 2])}),
    "complex numbers": pd.DataFrame({"c": [1], "odd": [1j]}),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_a_column_that_arrow_does_not_know_is_refused_by_name_unless_the_plan_leaves_it_out(kind: str) -> None:
    """Beside `features` without it, the frame was refused, and no column was named."""
    for named in (None, {"c", "odd"}):
        with pytest.raises(world.WrongInput, match=facts("data.private", "'odd'", "data.features")):
            world.frame_table(UNREAD[kind], "data.private", named)
    assert world.frame_table(UNREAD[kind], "data.private", {"c"}) == pa.table({"c": [1]})


@pytest.mark.parametrize("kind", ["parquet", "ipc"])
def test_a_file_with_a_type_that_arrow_lacks_is_read_or_refused_in_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    getattr(UNREAD["Int128"], f"write_{kind}")(path)
    (file,) = world.find_files(str(path), "data.private")
    if kind == "parquet":
        assert [frame["c"].to_list() for frame in file.frames(["c"])] == [[1]]
        assert file.type_of("odd") == pl.Binary  # which is no number
    else:
        with pytest.raises(world.WrongInput, match=facts("data.private", "rows.ipc", "Arrow lacks", "Int128")):
            list(file.frames(["c"]))


def test_ids_in_the_index_of_a_frame_are_named_with_the_remedy(tmp_path: Path) -> None:
    """Before, the sentence said that the columns lack it."""
    frame = pd.DataFrame({"c": [1, 2], "label": ["no", "yes"]}, index=pd.Index(["p1", "p2"], name="unit"))
    known: dict[str, Any] = {"label": "label", "classes": ["no", "yes"], "domain": "ward", "rows": 2, "unit": "unit"}
    schema = {"fields": [{"name": "c", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}}]}
    with pytest.raises(world.WrongInput, match=facts("data.private", "'unit'", "index", "frame.reset_index()")):
        concord.run(frame, **known, schema=schema, home=tmp_path)
    world.check_index(frame.reset_index(), "data.private", ["unit", None])
    world.check_index(frame, "data.private", ["c", None])


def test_a_frame_that_was_erased_is_asked_for_again(tmp_path: Path, vault: world.Vault) -> None:
    source = world.keep_frame(ward(10), vault, "private", "ward")
    vault.destroy("tables/ward")
    with pytest.raises(world.WrongInput, match=facts("vault", "concord.run")):
        world.with_snapshots(plan_over(source, tmp_path), vault)

"""Only labels are secret: features of a part of the private table are the public rows, and no label decides which."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests import world
from tests.support.made import frame_of
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.secret_labels import Rows, flipped, parted, public_rows, tables, vault_of
from tests.support.sentences import facts

KEY = bytes(range(32))


@pytest.fixture
def plan(tmp_path: Path) -> world.Plan:
    return changed(tables(tmp_path / "data"))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("unit", ["person", None])
def test_the_parts_are_the_whole_and_no_unit_is_in_both(tmp_path: Path, suffix: str, unit: str | None) -> None:
    private = people(900, 1)
    public, teachers = parted(tmp_path, private, suffix=suffix, unit=unit)
    assert 300 < len(public) < 600
    assert sorted([*public, *(row[1:4] for row in teachers)]) == sorted(
        private.select("size", "shade", "visits").rows()
    )
    owner = {row[1:4]: row[0] for row in private.rows()}
    if unit:
        assert not {owner[row] for row in public} & {owner[row[1:4]] for row in teachers}


BROKEN = "yes\n1.0,dark,1,no,eve"
"""A label that in a CSV file ends its line and begins another, of another person."""


def broken(table: pl.DataFrame, at: int) -> pl.DataFrame:
    return table.with_columns(outcome=pl.when(pl.int_range(pl.len()) == at).then(pl.lit(BROKEN)).otherwise("outcome"))


@pytest.mark.parametrize("unit", ["person", None])
def test_changing_the_labels_of_one_unit_changes_labels_of_one_shard_and_nothing_else(
    tmp_path: Path, unit: str | None
) -> None:
    """Also a label that would break its line; and those of the public part are never read."""
    private = pl.concat([people(300, 1), people(300, 1)])  # rows come twice: identical ones must be told apart
    public, teachers = parted(tmp_path, private, unit=unit)
    theirs = pl.Series([row in set(public) for row in private.select("size", "shade", "visits").rows()])
    changes = [(broken(private, 5), 1)]
    for at in range(0, 300, 60):
        rows = pl.col("person") == private["person"][at] if unit else pl.int_range(pl.len()) == at
        changes.append((flipped(private, rows), 1))
    if unit:  # else a public row may have an equal one that is not
        changes.append((flipped(private, pl.lit(theirs)), 0))
    for other, most in changes:
        same, after = parted(tmp_path, other, unit=unit)
        assert same == public
        assert sorted(row[:4] for row in after) == sorted(row[:4] for row in teachers)
        assert (
            len({row[0] for row in (Counter(after) - Counter(teachers)) + (Counter(teachers) - Counter(after))}) <= most
        )


def shards_of_csv(folder: Path, table: pl.DataFrame, unit: str | None) -> list[Rows]:
    """What ten teachers get of a CSV table whose labels alone are secret."""
    found = tables(folder, table, private="private.csv", unit=unit, public="public.parquet", public_share=None)
    table.select("size", "shade", "visits", "outcome", "person").write_csv(folder / "private.csv")
    plan, vault = changed(found, teachers__count=10), world.Vault(folder / "vault")
    refs = world.split(world.PrivateRows(plan, world.learn_encoding(plan), vault, KEY), "shards")
    rows = pl.concat([frame_of(ref, vault) for ref in refs])
    return [rows.filter(rows[world.SHARD] == shard).drop(world.SHARD).rows() for shard in range(10)]


@pytest.mark.parametrize(("unit", "changed_shards"), [("person", 2), (None, 10)])
def test_csv_is_refused_for_there_a_label_would_move_rows_of_others(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, unit: str | None, changed_shards: int
) -> None:
    private = people(300, 1)
    with pytest.raises(world.WrongInput, match=facts("CSV", "Parquet")):
        shards_of_csv(tmp_path, private, unit)
    for public in ({"public": "public.parquet", "public_share": None}, {}):
        found = tables(tmp_path, private, private="private.csv", unit=unit, **public)
        private.write_csv(tmp_path / "private.csv")
        with pytest.raises(world.WrongInput, match="write it as Parquet"):
            world.start(changed(found), home)
    assert world.Ledger.of(home).domains() == ()

    def believed(plan: world.Plan) -> world.RowTable:
        return world.open_private(plan.path("private"), unit=plan.data.unit)

    monkeypatch.setattr(world.units_split, "private_table", believed)
    before, after = (shards_of_csv(tmp_path, table, unit) for table in (private, broken(private, 5)))
    assert sum(shard != other for shard, other in zip(before, after, strict=True)) >= changed_shards


# Rows that are kept -------------------------------------------------------------------------------------------------


def edit(folder: Path) -> None:
    """One byte of the rows is another."""
    (part,) = folder.glob("*/00000")
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)


def put_elsewheres(folder: Path) -> None:
    """All of another private table, whole in its own place."""
    (other,) = (each for each in folder.parent.iterdir() if each != folder)
    shutil.rmtree(folder)
    other.rename(folder)


@pytest.mark.parametrize("change", [edit, put_elsewheres, lambda folder: next(folder.glob("*/files.json")).unlink()])
def test_public_rows_that_were_edited_are_made_again(tmp_path: Path, change: Callable[[Path], None]) -> None:
    plan, vault, said = changed(tables(tmp_path, people(300, 1))), vault_of(tmp_path / "vault"), list[str]()

    def made(private: str, seed: int = 1) -> world.Plan:
        write_tables(tmp_path, people(300, seed))
        return world.with_public(plan, vault, [private], say=said.append)

    before = made("digest")
    rows, place = public_rows(before), (vault.root / before.path("public").partition("#")[2]).parent
    assert made("digest").path("public") == before.path("public")  # used as they are
    made("of another table", seed=2)
    assert said == []
    change(place)
    assert public_rows(made("digest")).equals(rows)
    assert said == ["public rows are not what was written: made again"]


# What does not hold, or fit -------------------------------------------------------------------------------------------


def test_by_content_a_label_would_move_its_row(tmp_path: Path) -> None:
    """The planted fault: rows known by their content, as where rows are secret, change shards with their labels."""
    private = people(300, 1)
    moved = []
    for table in (private, flipped(private, pl.int_range(pl.len()) < 20)):
        plan = changed(tables_of_plan(write_tables(tmp_path, table)), data__unit=None)
        vault = world.Vault(tmp_path / "vault")
        refs = world.split(world.PrivateRows(plan, world.learn_encoding(plan), vault, KEY), "shards")
        moved.append(sorted(pl.concat([frame_of(ref, vault) for ref in refs]).drop(world.LABEL).rows()))
    assert moved[0] != moved[1]


def test_a_column_that_can_be_no_feature_is_named_by_its_type(tmp_path: Path) -> None:
    """Its cells are read as null whatever they hold: as public rows, they would be a column of nothing, in silence."""
    private = people(40, 1).with_columns(odd=pl.struct("size"))
    found = tables(tmp_path, private.drop("odd"), private="private.arrow", features=["size", "odd"])
    private.write_ipc(tmp_path / "private.arrow")
    with pytest.raises(world.WrongInput, match=facts("data.private", "numbers", "'odd'", "struct")):
        world.with_public(changed(found), vault_of(tmp_path / "vault"), ["digest"])

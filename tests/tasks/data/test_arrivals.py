"""Arrivals: a unit counts in its first period alone, whatever is beside it; each rule with the case that it is for."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.people import people, tables_of_plan, write_tables
from tests.support.sentences import facts
from tests.world import (
    NAME,
    Arriving,
    Coding,
    Ints,
    NotVerified,
    Period,
    Plan,
    PrivateRows,
    Ref,
    Stream,
    Vault,
    WrongInput,
    cast_rows,
    check_unchanged,
    columns_asked,
    contents_by_place,
    count,
    files_by_place,
    gather,
    learn_codes,
    learn_encoding,
    parse_plan,
    planned_rounds,
    table_of,
    take,
    total_of,
)

KEY = bytes(range(32))
ROWS = people(60, 7)


class Weeks:
    """A folder in which files arrive, and its periods taken and counted by the very code that a refresh runs."""

    def __init__(self, folder: Path, unit: str | None = "person") -> None:
        given = tables_of_plan(write_tables(folder)) | {"labeling": {"mechanism": "tallies", "rows": 600}}
        given["data"] |= {"private": "arriving", "unit": unit}
        given["stream"] = {"season": 9, **({} if unit else {"delivery": "each row once"})}
        self.plan: Plan = parse_plan({name: given[name] for name in given if name not in ("teachers", "student")})
        self.encoding = learn_encoding(self.plan)
        public = pl.read_parquet(self.plan.path("public"))
        cells = cast_rows(public.select(self.encoding.features), self.encoding)
        self.codes = learn_codes([cells], self.encoding.columns, coarse=8)
        self.vault, self.folder = Vault(folder / "vault"), folder / "arriving"
        self.folder.mkdir()
        self.periods, self.names = list[Period](), list[tuple[Ref, ...]]()
        rounds = planned_rounds(classes=2, fields=len(self.codes.coarse), codes=self.codes.size, rounds=1)
        stream = Stream.calibrate(epsilon=1.0, delta=1e-5, classes=2, rounds=rounds, season=9)
        spans = [(self.codes.span(field).start, self.codes.span(field).stop) for field in self.codes.coarse]
        self.question = stream.question(1, self.codes.coarse, spans)

    def arrive(self, name: str, rows: pl.DataFrame) -> Path:
        rows.write_parquet(self.folder / f"{name}.parquet")
        return self.folder / f"{name}.parquet"

    @property
    def private(self) -> PrivateRows:
        return PrivateRows(self.plan, self.encoding, self.vault, KEY)

    @property
    def contents(self) -> dict[str, str]:
        return contents_by_place(self.plan, self.vault, files_by_place(self.plan, self.vault))

    def taken(self) -> Period:
        return take(self.plan, self.vault, self.contents, self.periods, columns_asked(self.plan, self.encoding))

    def check(self) -> None:
        check_unchanged(self.plan, self.contents, self.periods)

    def next(self) -> Ints:
        """The sums of the next period's new units; the last is the constant's."""
        period = self.taken()
        self.periods.append(period)
        return self.count(len(self.periods) - 1)

    def count(self, number: int) -> Ints:
        """The sums of that period, counted once more."""
        before = self.names[number - 1] if number else ()
        arriving = Arriving(table_of(self.plan, self.vault, self.periods[number]), KEY, before, f"arrived/d/{number}")
        coding = Coding(self.private, self.codes, arriving)
        blocks = gather(coding, f"units/d/{number}")
        self.names[number:] = [tuple(arriving.names)]
        sums = [count(block, self.question, self.vault, f"sums/d/{at}") for at, block in enumerate(blocks)]
        return total_of(sums, self.vault)

    def units(self, sums: Ints) -> int:
        return int(sums[-1]) // self.question.count


@pytest.fixture
def weeks(tmp_path: Path) -> Weeks:
    return Weeks(tmp_path / "data")


def of(*persons: str) -> pl.DataFrame:
    return ROWS[: len(persons)].with_columns(pl.Series("person", persons))


def test_a_unit_counts_in_its_first_period_and_in_no_other(weeks: Weeks) -> None:
    weeks.arrive("1", of("a", "b", "a"))
    assert weeks.units(weeks.next()) == 2
    weeks.arrive("2", of("b", "c", "a"))
    second = weeks.next()
    assert weeks.units(second) == 1
    weeks.arrive("3", of("c", "b"))
    assert weeks.units(weeks.next()) == 0
    alone = Weeks(weeks.folder.parent / "alone")
    alone.arrive("2", of("b", "c", "a").filter(pl.col("person") == "c"))
    assert np.array_equal(alone.next(), second)  # to the bit, whatever is beside it


def test_names_are_all_units_so_far_and_counting_again_gives_the_same(weeks: Weeks) -> None:
    sizes = []
    for week in range(3):
        weeks.arrive(str(week), people(200, week).with_columns(pl.col("person").str.replace(r"p\d+", "p")))
        sums = weeks.next()
        names = weeks.names[week]
        assert np.array_equal(weeks.count(week), sums)
        assert weeks.names[week] == names
        sizes.append(sum(len(weeks.vault.read(ref)) for ref in names) // NAME.itemsize)
    seen = [
        pl.concat([pl.read_parquet(weeks.folder / f"{at}.parquet") for at in range(week + 1)])["person"].n_unique()
        for week in range(3)
    ]
    assert sizes == seen


def test_files_are_taken_by_place_and_never_by_content(weeks: Weeks) -> None:
    """With u in it the second file differs from the first, without u it is equal: a digest would skip it then, and
    with it nobody but u."""
    first = weeks.arrive("1", of("a", "b"))
    weeks.next()
    shutil.copy(first, weeks.folder / "2.parquet")
    assert len(weeks.taken().files) == 1


def test_a_file_that_changed_after_it_was_taken_stops(weeks: Weeks) -> None:
    file = weeks.arrive("1", of("a", "b"))
    weeks.next()
    weeks.check()
    weeks.arrive("1", of("a", "b", "c"))
    with pytest.raises(NotVerified, match=facts("changed", "period")):
        weeks.check()
    file.unlink()
    weeks.arrive("2", of("d"))
    weeks.check()  # one that is gone is no change
    assert len(weeks.taken().files) == 1


def test_a_file_that_goes_before_it_is_read_stops(weeks: Weeks) -> None:
    weeks.arrive("1", of("a"))
    weeks.next()
    weeks.arrive("2", of("b")).rename(weeks.folder / "3.parquet")
    weeks.periods.append(weeks.taken())
    (weeks.folder / "3.parquet").unlink()
    with pytest.raises(NotVerified, match="is gone before it was read"):
        weeks.count(1)


def numbered(kind: Any, *persons: int) -> pl.DataFrame:
    return ROWS[: len(persons)].with_columns(pl.Series("person", persons, dtype=kind))


def test_names_are_frozen_when_the_stream_begins(weeks: Weeks) -> None:
    """A later file of another type might name the same unit otherwise; 2^53 and 2^53 + 1 are one double."""
    weeks.arrive("1", numbered(pl.Int64, 2**53 + 1, 7))
    weeks.next()
    for other, rule in ((pl.Int32, r"\(int64\), but a new file .* as int32"), (pl.Float64, "text, whole numbers or")):
        weeks.arrive("2", numbered(other, 8))
        with pytest.raises(WrongInput, match=rf"the column 'person' .* {rule}|must name a column of {rule}"):
            weeks.taken()
    (weeks.folder / "2.parquet").unlink()
    weeks.arrive("3", numbered(pl.Int64, 2**53 + 1, 2**53))
    assert weeks.units(weeks.next()) == 1  # 2^53 is another unit


def test_a_period_may_take_nothing_and_names_are_frozen_by_the_first_that_takes_a_file(weeks: Weeks) -> None:
    weeks.periods.append(weeks.taken())
    weeks.names.append(())
    assert weeks.periods[0].files == {}
    weeks.arrive("1", numbered(pl.Int64, 2**53))
    assert weeks.units(weeks.next()) == 1
    (weeks.folder / "1.parquet").unlink()
    weeks.periods.append(weeks.taken())
    weeks.names.append(weeks.names[1])
    weeks.check()
    weeks.arrive("3", numbered(pl.Int64, 2**53, 7))
    assert weeks.units(weeks.next()) == 1
    assert weeks.periods[3].types == ("int64",)


def test_how_many_units_a_file_has_does_not_change_its_type(weeks: Weeks) -> None:
    """Writers number the words of a dictionary by 1 byte or 2, and give a column without a cell no type."""

    def words(units: int, numbers: pa.DataType) -> pa.Table:
        table = people(units, 3).to_arrow()
        coded = (
            table["person"]
            .cast(pa.string())
            .combine_chunks()
            .dictionary_encode()
            .cast(pa.dictionary(numbers, pa.string()))
        )
        return table.set_column(table.schema.get_field_index("person"), "person", coded)

    empty = of("a").to_arrow().slice(0, 0)
    empty = empty.set_column(empty.schema.get_field_index("person"), "person", pa.nulls(0))
    for at, table in enumerate([empty, words(20, pa.int8()), words(200, pa.int16()), empty]):
        pq.write_table(table, weeks.folder / f"{at}.parquet")
        weeks.next()
    assert weeks.periods[3].types == ("string",)


def test_another_table_is_refused_before_anything_is_taken(weeks: Weeks) -> None:
    weeks.arrive("1", of("a"))
    weeks.next()
    weeks.arrive("2", of("b").drop("outcome"))
    with pytest.raises(WrongInput, match=facts("'outcome'", "data.label")):
        weeks.taken()


def test_without_a_column_of_units_every_delivered_row_is_one(tmp_path: Path) -> None:
    weeks = Weeks(tmp_path / "data", unit=None)
    weeks.arrive("1", of("a", "b", "a"))
    assert weeks.units(weeks.next()) == 3
    weeks.arrive("2", of("a"))
    assert (weeks.units(weeks.next()), weeks.names[1]) == (1, ())
    weeks.check()
    (weeks.folder / "2.parquet").rename(weeks.folder / "2-done.parquet")  # its row would be asked again
    with pytest.raises(NotVerified, match=facts("gone", "period", "its path")):
        weeks.check()


def test_a_delivery_whose_path_names_a_column_is_refused(tmp_path: Path) -> None:
    weeks = Weeks(tmp_path / "data")
    weeks.arrive("1", of("a"))
    weeks.next()
    (weeks.folder / "person=7").mkdir()
    weeks.arrive("person=7/2", of("a"))
    with pytest.raises(WrongInput, match="NAME=VALUE"):
        weeks.taken()

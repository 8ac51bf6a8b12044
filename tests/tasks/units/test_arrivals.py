"""Arrivals: a unit counts in its first period alone, whatever is beside it; each rule with the case that it is for."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import world
from tests.support.made import content_of
from tests.support.people import people
from tests.support.sentences import facts
from tests.support.weeks import CountedWeeks, of


@pytest.fixture
def weeks(tmp_path: Path) -> CountedWeeks:
    return CountedWeeks(tmp_path / "data")


WEEKS: dict[str, tuple[str | None, list[tuple[pl.DataFrame | None, int]]]] = {
    "words": ("person", [(of("a", "b", "a"), 2), (of("b", "c", "a"), 1), (of("c", "b"), 0)]),
    "numbers that no double holds": (
        "person",
        [(of(2**53 + 1, 7, kind=pl.Int64), 2), (of(2**53 + 1, 2**53, kind=pl.Int64), 1)],
    ),
    "names are frozen by the first that takes a file": (
        "person",
        [(None, 0), (of(2**53, kind=pl.Int64), 1), (None, 0), (of(2**53, 7, kind=pl.Int64), 1)],
    ),
    "each delivered row": (None, [(of("a", "b", "a"), 3), (of("a"), 1)]),
}
"""By the column of units: what arrives in each week, and how many new units that is."""


@pytest.mark.parametrize("case", WEEKS)
def test_a_unit_counts_in_its_first_period_and_in_no_other_and_counting_again_gives_the_same(
    tmp_path: Path, case: str
) -> None:
    unit, arriving = WEEKS[case]
    weeks, seen = CountedWeeks(tmp_path / "data", unit), 0
    for number, (rows, new) in enumerate(arriving):
        if rows is not None:
            weeks.arrive(str(number), rows)
        sums = weeks.next()
        names = weeks.names[number]
        assert np.array_equal(weeks.count(number), sums)
        seen += new
        assert (weeks.units(sums), weeks.names[number]) == (new, names)
        assert sum(len(content_of(ref, weeks.vault)) for ref in names) == (seen * world.NAME.itemsize if unit else 0)
        weeks.check()


NAMES: dict[str, Callable[[Sequence[tuple[world.Ref, ...]]], tuple[world.Ref, ...]]] = {
    "nobody's": lambda _: (),
    "those up to an earlier period": lambda names: names[0],
    "some of them, twice": lambda names: (names[1][0], *names[1][:-1]),
    "those of some of them alone": lambda names: names[1][:-1],
}
"""By what a flow hands on: planted bugs, by which units would be asked again."""


@pytest.mark.parametrize("planted", NAMES)
def test_names_other_than_those_up_to_the_last_period_count_nothing(weeks: CountedWeeks, planted: str) -> None:
    for number, person in enumerate("abc"):
        weeks.arrive(str(number), of(person))
        weeks.next()
    weeks.names[1] = NAMES[planted](weeks.names)
    with pytest.raises(world.NotVerified, match="would ask units again"):
        weeks.count(2)


def test_a_new_unit_adds_what_it_adds_alone(weeks: CountedWeeks) -> None:
    weeks.arrive("1", of("a", "b", "a"))
    weeks.next()
    weeks.arrive("2", of("b", "c", "a"))
    alone = CountedWeeks(weeks.folder.parent / "alone")
    alone.arrive("2", of("b", "c", "a").filter(pl.col("person") == "c"))
    assert np.array_equal(alone.next(), weeks.next())  # to the bit


def test_files_are_taken_by_place_and_never_by_content(weeks: CountedWeeks) -> None:
    """With u in it the second file differs from the first, without u it is equal: a digest would skip it then, and
    with it nobody but u."""
    first = weeks.arrive("1", of("a", "b"))
    weeks.next()
    shutil.copy(first, weeks.folder / "2.parquet")
    assert len(weeks.taken().files) == 1


def test_how_many_units_a_file_has_does_not_change_its_type(weeks: CountedWeeks) -> None:
    """Writers number the words of a dictionary by 1 byte or 2, and give a column without a cell no type."""

    def stored(units: int, numbers: pa.DataType | None) -> pa.Table:
        table = people(units, 3).to_arrow()
        cells = table["person"].cast(pa.string()).combine_chunks().dictionary_encode()
        cells = pa.nulls(units) if numbers is None else cells.cast(pa.dictionary(numbers, pa.string()))
        return table.set_column(table.schema.get_field_index("person"), "person", cells)

    for at, table in enumerate([stored(0, None), stored(20, pa.int8()), stored(200, pa.int16()), stored(0, None)]):
        pq.write_table(table, weeks.folder / f"{at}.parquet")
        weeks.next()
    assert weeks.periods[3].types == ("string",)


def changed_file(weeks: CountedWeeks) -> None:
    weeks.arrive("1", of("a", "b", "c"))
    weeks.check()


def gone_before_it_is_read(weeks: CountedWeeks) -> None:
    weeks.arrive("2", of("b"))
    weeks.periods.append(weeks.taken())
    (weeks.folder / "2.parquet").unlink()
    weeks.count(1)


def next_file(rows: pl.DataFrame, name: str = "2") -> Callable[[CountedWeeks], object]:
    def arrives(weeks: CountedWeeks) -> None:
        (weeks.folder / name).parent.mkdir(exist_ok=True)
        weeks.arrive(name, rows)
        weeks.taken()

    return arrives


STOPS: dict[str, tuple[Callable[[CountedWeeks], object], type[Exception], str]] = {
    "a file that changed": (changed_file, world.NotVerified, facts("changed", "period")),
    "a file that is gone": (gone_before_it_is_read, world.NotVerified, "is gone before it was read"),
    "whole numbers": (next_file(of(8, kind=pl.Int32)), world.WrongInput, r"'person' .*, but a new file .* as int32"),
    "doubles": (next_file(of(8, kind=pl.Float64)), world.WrongInput, "must name a column of text, whole numbers or"),
    "another table": (next_file(of("b").drop("outcome")), world.WrongInput, facts("'outcome'", "data.label")),
    "a path that names a column": (next_file(of("a"), "person=7/2"), world.WrongInput, "NAME=VALUE"),
}
"""What stops after a first period: a later file of another type might name a unit otherwise."""


@pytest.mark.parametrize("what", STOPS)
def test_what_does_not_fit_the_periods_before_stops(weeks: CountedWeeks, what: str) -> None:
    weeks.arrive("1", of("a", "b"))
    weeks.next()
    happens, error, said = STOPS[what]
    with pytest.raises(error, match=said):
        happens(weeks)


def test_a_file_that_is_gone_later_is_no_change_unless_its_rows_would_be_asked_again(tmp_path: Path) -> None:
    for unit in ("person", None):
        weeks = CountedWeeks(tmp_path / str(unit), unit)
        file = weeks.arrive("1", of("a"))
        weeks.next()
        file.rename(weeks.folder / "1-done.parquet")
        if unit:
            weeks.check()
        else:
            with pytest.raises(world.NotVerified, match=facts("gone", "period", "its path")):
                weeks.check()

"""Arrivals: a unit counts in its first period alone, whatever is beside it; each rule with the case that it is for."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import world
from tests.support.made import content_of, sums_of
from tests.support.people import people, tallied, write_tables
from tests.support.sentences import facts

KEY = bytes(range(32))
ROWS = people(60, 7)


class Weeks:
    """A folder in which files arrive, and its periods taken and counted by the very code that a refresh runs."""

    def __init__(self, folder: Path, unit: str | None = "person") -> None:
        given = tallied(write_tables(folder), 600, private="arriving", unit=unit)
        given["stream"] = {"season": 9, **({} if unit else {"delivery": "each row once"})}
        self.plan: world.Plan = world.parse_plan(given)
        self.encoding = world.learn_encoding(self.plan)
        public = pl.read_parquet(self.plan.path("public"))
        cells = world.cast_rows(public.select(self.encoding.features), self.encoding)
        self.codes = world.learn_codes([cells], self.encoding.columns, coarse=8)
        self.vault, self.folder = world.Vault(folder / "vault"), folder / "arriving"
        self.vault.make_secret("streams/s")
        self.folder.mkdir()
        self.periods, self.names = list[world.Period](), list[tuple[world.Ref, ...]]()
        rounds = world.planned_rounds(classes=2, fields=len(self.codes.coarse), codes=self.codes.size, rounds=1)
        stream = world.calibrated_sums(world.Stream, epsilon=1.0, delta=1e-5, classes=2, rounds=rounds, season=9)
        spans = [(self.codes.span(field).start, self.codes.span(field).stop) for field in self.codes.coarse]
        self.question = stream.question(1, self.codes.coarse, spans)

    def arrive(self, name: str, rows: pl.DataFrame) -> Path:
        rows.write_parquet(self.folder / f"{name}.parquet")
        return self.folder / f"{name}.parquet"

    @property
    def private(self) -> world.PrivateRows:
        return world.PrivateRows(self.plan, self.encoding, self.vault, KEY)

    @property
    def contents(self) -> dict[str, str]:
        return world.contents_by_place(self.plan, self.vault, world.files_by_place(self.plan, self.vault))

    def taken(self) -> world.Period:
        return world.take(
            self.plan, self.vault, self.contents, self.periods, world.columns_asked(self.plan, self.encoding)
        )

    def check(self) -> None:
        world.check_unchanged(self.plan, self.contents, self.periods)

    def next(self) -> world.Ints:
        """The sums of the next period's new units; the last is the constant's."""
        period = self.taken()
        self.periods.append(period)
        return self.count(len(self.periods) - 1)

    def count(self, number: int) -> world.Ints:
        """The sums of that period, counted once more."""
        before = self.names[number - 1] if number else ()
        table = world.table_of(self.plan, self.vault, self.periods[number])
        arriving = world.Arriving(table, "s", number, before, f"arrived/d/{number}")
        coding = world.Coding(self.private, self.codes, arriving)
        blocks = world.gather(coding, f"units/d/{number}")
        self.names[number:] = [tuple(arriving.names)]
        sums = [world.count([block], self.question, self.vault, f"sums/d/{at}") for at, block in enumerate(blocks)]
        return sums_of(sums, self.vault)

    def units(self, sums: world.Ints) -> int:
        return int(sums[-1]) // self.question.count


@pytest.fixture
def weeks(tmp_path: Path) -> Weeks:
    return Weeks(tmp_path / "data")


def of(*persons: Any, kind: Any = None) -> pl.DataFrame:
    return ROWS[: len(persons)].with_columns(pl.Series("person", persons, dtype=kind))


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
    weeks, seen = Weeks(tmp_path / "data", unit), 0
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
def test_names_other_than_those_up_to_the_last_period_count_nothing(weeks: Weeks, planted: str) -> None:
    for number, person in enumerate("abc"):
        weeks.arrive(str(number), of(person))
        weeks.next()
    weeks.names[1] = NAMES[planted](weeks.names)
    with pytest.raises((world.NotVerified, world.EnvironmentFailed), match=r"ask units again|failed"):
        weeks.count(2)


def test_a_new_unit_adds_what_it_adds_alone(weeks: Weeks) -> None:
    weeks.arrive("1", of("a", "b", "a"))
    weeks.next()
    weeks.arrive("2", of("b", "c", "a"))
    alone = Weeks(weeks.folder.parent / "alone")
    alone.arrive("2", of("b", "c", "a").filter(pl.col("person") == "c"))
    assert np.array_equal(alone.next(), weeks.next())  # to the bit


def test_files_are_taken_by_place_and_never_by_content(weeks: Weeks) -> None:
    """With u in it the second file differs from the first, without u it is equal: a digest would skip it then, and
    with it nobody but u."""
    first = weeks.arrive("1", of("a", "b"))
    weeks.next()
    shutil.copy(first, weeks.folder / "2.parquet")
    assert len(weeks.taken().files) == 1


def test_how_many_units_a_file_has_does_not_change_its_type(weeks: Weeks) -> None:
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


def changed_file(weeks: Weeks) -> None:
    weeks.arrive("1", of("a", "b", "c"))
    weeks.check()


def gone_before_it_is_read(weeks: Weeks) -> None:
    weeks.arrive("2", of("b"))
    weeks.periods.append(weeks.taken())
    (weeks.folder / "2.parquet").unlink()
    weeks.count(1)


def next_file(rows: pl.DataFrame, name: str = "2") -> Callable[[Weeks], object]:
    def arrives(weeks: Weeks) -> None:
        (weeks.folder / name).parent.mkdir(exist_ok=True)
        weeks.arrive(name, rows)
        weeks.taken()

    return arrives


STOPS: dict[str, tuple[Callable[[Weeks], object], type[Exception], str]] = {
    "a file that changed": (changed_file, world.NotVerified, facts("changed", "period")),
    "a file that is gone": (gone_before_it_is_read, world.NotVerified, "is gone before it was read"),
    "whole numbers": (next_file(of(8, kind=pl.Int32)), world.WrongInput, r"'person' .*, but a new file .* as int32"),
    "doubles": (next_file(of(8, kind=pl.Float64)), world.WrongInput, "must name a column of text, whole numbers or"),
    "another table": (next_file(of("b").drop("outcome")), world.WrongInput, facts("'outcome'", "data.label")),
    "a path that names a column": (next_file(of("a"), "person=7/2"), world.WrongInput, "NAME=VALUE"),
}
"""What stops after a first period: a later file of another type might name a unit otherwise."""


@pytest.mark.parametrize("what", STOPS)
def test_what_does_not_fit_the_periods_before_stops(weeks: Weeks, what: str) -> None:
    weeks.arrive("1", of("a", "b"))
    weeks.next()
    happens, error, said = STOPS[what]
    with pytest.raises(error, match=said):
        happens(weeks)


def test_a_file_that_is_gone_later_is_no_change_unless_its_rows_would_be_asked_again(tmp_path: Path) -> None:
    for unit in ("person", None):
        weeks = Weeks(tmp_path / str(unit), unit)
        file = weeks.arrive("1", of("a"))
        weeks.next()
        file.rename(weeks.folder / "1-done.parquet")
        if unit:
            weeks.check()
        else:
            with pytest.raises(world.NotVerified, match=facts("gone", "period", "its path")):
                weeks.check()

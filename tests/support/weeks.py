"""A stream's periods, counted one after another: what arrives in each week, and the sums of its new units."""

from pathlib import Path
from typing import Any

import polars as pl

from tests import world
from tests.support.made import sums_of
from tests.support.people import people, tallied, write_tables

KEY = bytes(range(32))
ROWS = people(60, 7)


class CountedWeeks:
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


def of(*persons: Any, kind: Any = None) -> pl.DataFrame:
    return ROWS[: len(persons)].with_columns(pl.Series("person", persons, dtype=kind))

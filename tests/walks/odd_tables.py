"""Odd tables, as people have them: made up by seeded generators, each with what its owner would tell `concord init`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator

Change = Callable[[pl.DataFrame], pl.DataFrame]
Rows = Callable[[int, Generator], pl.DataFrame]
SIZES = {"private": 1500, "public": 300, "test": 300}
"""Rows: so few private ones that tallies take one round, which is quick."""


def parquet(frame: pl.DataFrame, path: Path) -> Path:
    """The frame as a Parquet file."""
    frame.write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def csv(frame: pl.DataFrame, path: Path, encoding: str = "utf-8", **form: Any) -> Path:
    """The frame as a CSV file."""
    path.with_suffix(".csv").write_bytes(frame.write_csv(**form).encode(encoding))
    return path.with_suffix(".csv")


def semicolons(frame: pl.DataFrame, path: Path) -> Path:
    """As a spreadsheet in Europe writes it."""
    return csv(frame, path, "latin-1", separator=";", decimal_comma=True)


def quoted(frame: pl.DataFrame, path: Path) -> Path:
    """With quotes around all words."""
    return csv(frame, path, quote_style="non_numeric")


@dataclass(frozen=True)
class Odd:
    """A table: how its rows are made, its label `y`, what the owner says of it, and how a frame is written.

    sizes     rows of a table, if other than SIZES
    changes   of a table, before it is written
    without   tables that there are not
    """

    rows: Rows
    classes: str
    options: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    write: Callable[[pl.DataFrame, Path], Path] = parquet
    changes: Mapping[str, Change] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def lay_out(self, folder: Path) -> tuple[str, ...]:
        """Write the tables; gives what `concord init` is told."""
        named: list[str] = []
        sizes = SIZES | dict(self.sizes)
        for seed, (name, rows) in enumerate(sizes.items()):
            if name not in self.without:
                made = self.rows(rows, np.random.default_rng(seed))
                made = made.drop("y") if name == "public" else made
                change = self.changes.get(name)
                path = self.write(change(made) if change else made, folder / name)
                named += [f"--{name}", str(path)]
        classes = ("--classes", self.classes) if self.classes else ()
        return (*named, "--label", "y", *classes, "--rows", str(sizes["private"]), *self.options)


def campaign(rows: int, rng: Generator) -> pl.DataFrame:
    """A bank's customers; eleven in a hundred of them say yes, mostly those of the highest risk."""
    calls, age = rng.poisson(3, rows), rng.normal(45, 12, rows).round()
    job = rng.choice(["clerk", "nurse", "rentière", "student"], rows)
    risk = calls / 3 + (job == "student") - (age - 45) / 20 + 0.4 * rng.normal(size=rows)
    said = np.where(risk > np.quantile(risk, 0.89), "yes", "no")
    return pl.DataFrame(
        {"age": age, "calls": calls, "job": job, "balance": rng.normal(900, 400, rows).round(2), "y": said}
    )


def mushrooms(rows: int, rng: Generator) -> pl.DataFrame:
    """Letters alone; the smell tells."""
    bad = rng.random(rows) < 0.48
    smell = np.where(bad, rng.choice(list("cfpy"), rows), rng.choice(list("aln"), rows))
    letters = {name: rng.choice(list("bcxfks"), rows) for name in ("cap", "gill", "ring", "veil")}
    return pl.DataFrame({**letters, "smell": smell, "y": np.where(bad, "p", "e")})


def with_column(name: str, made: Callable[[int, Generator], Any], rows: Rows = campaign) -> Rows:
    """Rows with one more column."""

    def more(many: int, rng: Generator) -> pl.DataFrame:
        return rows(many, rng).with_columns(pl.Series(name, made(many, rng)))

    return more


def sentences(rows: int, rng: Generator) -> list[str]:
    """Notes that nobody wrote twice."""
    words = ["called", "again", "not", "at", "home", "likes", "the", "offer", "asks", "about", "rates"]
    return [" ".join(rng.choice(words, 7)) + f" {at}" for at in range(rows)]


def measured(rows: int, rng: Generator) -> pl.DataFrame:
    """The label is a number."""
    return campaign(rows, rng).with_columns(y=pl.col("balance"))


def days(rows: int, rng: Generator) -> list[date]:
    """A day of three years."""
    return [date(2021, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 1000, rows)]


def codes(rows: int, rng: Generator) -> list[str]:
    """Thirty codes with zeros in front."""
    return [f"{at:05d}" for at in rng.integers(0, 30, rows)]


def numbers(below: int) -> Callable[[int, Generator], Any]:
    """Whole numbers."""
    return lambda rows, rng: rng.integers(0, below, rows)


def nothing(rows: int, _: Generator) -> pl.Series:
    """No cell that holds anything."""
    return pl.Series([None] * rows, dtype=pl.Float64)


def without(name: str) -> Change:
    """A table without that column."""
    return lambda frame: frame.drop(name)


def with_its_index(frame: pl.DataFrame, path: Path) -> Path:
    """As pandas on Windows writes it for a spreadsheet: rows are numbered in a column without a name, the file has a
    mark in front, and lines end in two characters."""
    file = path.with_suffix(".csv")
    frame.to_pandas().to_csv(file, encoding="utf-8-sig", lineterminator="\r\n")
    return file


def nested(rows: int, rng: Generator) -> pl.Series:
    """Cells of several parts."""
    return pl.Series([{"day": int(at), "ward": "a"} for at in rng.integers(0, 9, rows)])


def huge(rows: int, rng: Generator) -> pl.Series:
    """Whole numbers that no float can tell apart."""
    return pl.Series([2**53 + int(at) for at in rng.integers(0, 9, rows)])


def no_numbers(rows: int, rng: Generator) -> list[float]:
    """Infinities, and what is no number."""
    return list(rng.choice([1.0, 2.0, float("inf"), float("-inf"), float("nan")], rows))


WORDS = with_column("code", codes, with_column("note", sentences, with_column("ward", numbers(40))))
CONSTANT = with_column("same", lambda rows, _: [1] * rows, with_column("none", nothing, with_column("joined", days)))
ALONE = with_column("secret", numbers(9), with_column("extra", numbers(9)))
MIXED = with_column("parts", nested, with_column("huge", huge, with_column("none", no_numbers)))
TABLES: dict[str, Odd] = {
    "semicolons": Odd(campaign, "no,yes", write=semicolons),
    "codes, sentences, numbers": Odd(WORDS, "no,yes", write=quoted),
    "a measured label": Odd(measured, ""),
    "one value alone, dates": Odd(CONSTANT, "no,yes", write=csv),
    "misnamed": Odd(mushrooms, "E,P"),
    "misnamed, untested": Odd(mushrooms, "E,P", without=("test",)),
    "columns of one table": Odd(
        ALONE,
        "no,yes",
        options=("--unit", "row"),
        changes={"private": without("extra"), "public": without("secret"), "test": without("secret")},
    ),
    "an index without a name": Odd(campaign, "no,yes", write=with_its_index),
    "parts, huge numbers, none, one row to try": Odd(MIXED, "no,yes", sizes={"test": 1}),
    "nothing but names": Odd(campaign, "no,yes", write=csv, changes={"public": pl.DataFrame.clear}),
}

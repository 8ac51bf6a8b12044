"""Odd tables, as people have them: made up by seeded generators, each with what its owner would tell `concord init`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

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


def semicolons(frame: pl.DataFrame, path: Path) -> Path:
    """As a spreadsheet in Europe writes it."""
    path.with_suffix(".csv").write_bytes(frame.write_csv(separator=";", decimal_comma=True).encode("latin-1"))
    return path.with_suffix(".csv")


@dataclass(frozen=True)
class Odd:
    """A table: how its rows are made, its label `y`, what the owner says of it, and how a frame is written.

    changes   of a table, before it is written
    without   tables that there are not
    """

    rows: Rows
    classes: str
    options: tuple[str, ...] = ()
    write: Callable[[pl.DataFrame, Path], Path] = parquet
    changes: Mapping[str, Change] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def lay_out(self, folder: Path) -> tuple[str, ...]:
        """Write the tables; gives what `concord init` is told."""
        named: list[str] = []
        for seed, (name, rows) in enumerate(SIZES.items()):
            if name not in self.without:
                made = self.rows(rows, np.random.default_rng(seed))
                made = made.drop("y") if name == "public" else made
                change = self.changes.get(name)
                path = self.write(change(made) if change else made, folder / name)
                named += [f"--{name}", str(path)]
        classes = ("--classes", self.classes) if self.classes else ()
        return (*named, "--label", "y", *classes, "--rows", str(SIZES["private"]), *self.options)


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


def with_two_more(rows: int, rng: Generator) -> pl.DataFrame:
    """With two columns that not all tables have."""
    return campaign(rows, rng).with_columns(pl.Series(name, rng.integers(0, 9, rows)) for name in ("extra", "secret"))


def without(name: str) -> Change:
    """A table without that column."""
    return lambda frame: frame.drop(name)


def with_its_index(frame: pl.DataFrame, path: Path) -> Path:
    """As pandas on Windows writes it for a spreadsheet: rows are numbered in a column without a name, the file has a
    mark in front, and lines end in two characters."""
    file = path.with_suffix(".csv")
    frame.to_pandas().to_csv(file, encoding="utf-8-sig", lineterminator="\r\n")
    return file


TABLES: dict[str, Odd] = {
    "semicolons": Odd(campaign, "no,yes", write=semicolons),
    "misnamed, untested": Odd(mushrooms, "E,P", without=("test",)),
    "columns of one table": Odd(
        with_two_more,
        "no,yes",
        options=("--unit", "row"),
        changes={"private": without("extra"), "public": without("secret"), "test": without("secret")},
    ),
    "an index without a name": Odd(campaign, "no,yes", write=with_its_index),
}

"""The released tables of a sketch, as they are exported: each count is that of the rows that its cell describes."""

import json
import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.rounds import all_rounds, under_noise

ROWS = 400
FIELDS: list[dict[str, Any]] = [
    {"name": "wage", "type": "number", "constraints": {"minimum": 0, "maximum": 1e4}},
    {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
    {"name": "day", "type": "date", "constraints": {"minimum": "2020-01-01", "maximum": "2021-12-31"}},
    {
        "name": "seen",
        "type": "datetime",
        "constraints": {"minimum": "2020-01-01T00:00:00", "maximum": "2020-01-03T00:00:00"},
    },
    {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}},
    {"name": "member", "type": "boolean"},
]


def rows_of_all_kinds() -> pl.DataFrame:
    """Rows beyond each range, of words that are not declared, and with missing cells."""
    source = np.random.default_rng(0)

    def some(values: Any) -> list[Any]:
        return [value if source.random() > 0.1 else None for value in values]

    minutes = source.integers(0, 60 * 24 * 3, ROWS).tolist()
    return pl.DataFrame(
        {
            "wage": some((source.exponential(3_000, ROWS) - 100).tolist()),
            "age": some(source.integers(10, 99, ROWS).tolist()),
            "day": some([datetime(2019, 12, 1) + timedelta(days=at) for at in source.integers(0, 800, ROWS).tolist()]),
            "seen": some([datetime(2020, 1, 1) + timedelta(minutes=at) for at in minutes]),
            "sex": some(source.choice(["Female", "Male", "divers"], ROWS).tolist()),
            "member": some((source.random(ROWS) < 0.3).tolist()),
        }
    ).cast({"day": pl.Date})


@pytest.fixture(scope="module")
def planner() -> world.SketchPlanner:
    return planner_of(world.schema_of({"fields": FIELDS}))


def planner_of(schema: world.TableSchema) -> world.SketchPlanner:
    grid = world.grid_of(schema)
    narrow = [grid.fields[at].size for at in grid.fine]
    wide = [grid.fields[at].size for at, one in zip(grid.coarse, grid.fine, strict=True) if at != one]
    rounds = world.sketch_rounds(classes=2, narrow=narrow, wide=wide)
    return world.SketchPlanner(
        world.calibrated_sums(world.Sketch, epsilon=1, delta=1e-5, classes=2, rounds=rounds), schema
    )


def steps_of(planner: world.SketchPlanner, frame: pl.DataFrame, *, noise: bool) -> list[bytes]:
    """The files of the steps that count, with noise or without."""
    cells = planner.grid.of_raw(frame, world.reading_columns(planner.schema)).astype(np.int32)
    labels = np.zeros(frame.height, np.int64)

    def exact(asked: world.RoundQuestion, codes: world.Codes) -> world.Ints:
        return world.tally(asked, cells if codes is planner.grid else world.recoded(cells, planner.grid, codes), labels)

    noisy = under_noise(exact, 0)
    files = all_rounds(planner, lambda asked, codes, scale: noisy(asked, codes, scale if noise else 0.0))
    return [json.dumps(file).encode() for file in files[: planner.tables]]


def holds(rows: pl.DataFrame, name: str, cell: str, cells: list[str]) -> pl.Expr:
    """Whether a row is in a cell of a column, as the exported words describe it."""
    column, first, last = pl.col(name), cell == cells[0], cell == cells[-1]
    if cell == "missing":
        return column.is_null()
    if name == "sex":
        return ~column.is_in(["Female", "Male"]) if cell == "undeclared" else column == cell
    if name == "member":
        return column == (cell == "true")
    interval = re.fullmatch(r"\[(.*), (.*)[)\]]", cell)
    ends = interval.groups() if interval else (cell.split(" to ")[0], cell.split(" to ")[-1])
    low, high = (
        pl.lit(end).str.to_datetime() if rows.schema[name].is_temporal() else pl.lit(float(end)) for end in ends
    )
    return (first | (column >= low)) & (last | (column < high if interval else column <= high))


def test_each_count_is_that_of_the_rows_in_its_cell(planner: world.SketchPlanner) -> None:
    rows = rows_of_all_kinds()
    tables = world.released_tables(steps_of(planner, rows, noise=False))
    assert tables.filter(pl.col("table") == 0)["count"].to_list() == [ROWS]
    one = tables.filter(pl.col("column").is_not_null() & pl.col("other_column").is_null())
    assert {*one["column"]} == {*rows.columns}
    for _, table in one.group_by("table"):
        name, cells = table["column"][0], table["cell"].to_list()
        inside = rows.select(
            holds(rows, name, cell, cells[:-1]).fill_null(cell == "missing").sum().alias(str(at))
            for at, cell in enumerate(cells)
        )
        assert inside.row(0) == tuple(table["count"])
    two = tables.filter(pl.col("other_column").is_not_null())
    both = two.filter((pl.col("column") == "sex") & (pl.col("other_column") == "member"))
    named = rows.select(pl.when(pl.col("sex") != "divers").then("sex").fill_null("missing"), "member")
    for cell, other, count in both.select("cell", "other_cell", "count").iter_rows():
        member = pl.col("member").is_null() if other == "missing" else pl.col("member") == (other == "true")
        assert named.filter((pl.col("sex") == cell) & member).height == count, (cell, other)
    assert {*both["cell"]} == {"Female", "Male", "other category", "missing"}
    assert two["table"].n_unique() == len(rows.columns) * (len(rows.columns) - 1) // 2
    assert (two.group_by("table").agg(pl.col("count").sum())["count"] == ROWS).all()


def test_a_category_named_missing_is_told_from_missing_cells_where_it_is_too_rare_for_a_cell() -> None:
    """Of two columns `missing` was the cells without a word, and of one the declared category."""
    why = FIELDS[4] | {"constraints": {"enum": ["Female", "Male", "missing", "other category"]}}
    rare = planner_of(world.schema_of({"fields": [why, FIELDS[5]]}))
    words = ["Female", "Male"] * 490 + ["missing", "other category", None, None] * 5
    rows = pl.DataFrame({"sex": words, "member": [True] * len(words)})
    tables = world.released_tables(steps_of(rare, rows, noise=False)).filter(pl.col("column") == "sex")
    one, two = (tables.filter(pl.col("other_cell").is_null() == alone) for alone in (True, False))
    counts = [dict(part.group_by("cell").agg(pl.col("count").sum()).rows()) for part in (one, two)]
    both = {"Female": 490, "Male": 490, "missing*": 10}
    assert counts == [both | {"missing": 5, "other category": 5, "undeclared": 0}, both | {"other category*": 10}]


def test_intervals_hold_nineteen_of_twenty_exact_counts(planner: world.SketchPlanner) -> None:
    rows = rows_of_all_kinds()
    both = (world.released_tables(steps_of(planner, rows, noise=noise)) for noise in (False, True))
    exact, noisy = (tables.filter(pl.col("other_column").is_null()) for tables in both)  # others follow from the noise
    inside = (noisy["low"] <= exact["count"]) & (exact["count"] <= noisy["high"])
    assert inside.mean() == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / inside.len()) ** 0.5)
    spread = (noisy["high"] - noisy["low"]) / (2 * world.NORMAL_95)
    assert spread.to_list() == pytest.approx(noisy["deviation"].to_list())
    one = noisy.filter(pl.col("column").is_not_null())
    unit, first = planner.mechanism.steps, planner.mechanism.rounds[0]
    assert {*one["deviation"]} == {first.scale / unit}


def test_the_files_are_written_for_people() -> None:
    """A formula in a category stays a word; the guide says how many tables there are."""
    formula = FIELDS[4] | {"constraints": {"enum": ["=1+1", "Male", "missing"]}}
    schema = world.schema_of({"fields": [*FIELDS[:2], formula]})
    odd = planner_of(schema)
    rows = rows_of_all_kinds().with_columns(pl.col("sex").replace("Female", "=1+1"))
    files = world.tables_files(steps_of(odd, rows, noise=True))
    lines = files["tables.csv"].decode().splitlines()
    assert lines[0] == "table,column,cell,other_column,other_cell,count,deviation,low,high"
    assert any(",sex,'=1+1," in line for line in lines)
    assert sum(",sex,missing,,," in line for line in lines) == sum(",sex,missing*,,," in line for line in lines) == 1
    number = 1 + int(lines[-1].split(",")[0])
    assert f"{number} tables" in files["tables.md"].decode()
    assert f"{len(lines) - 1:,} cells" in files["tables.md"].decode()

"""The scorecard says what the student says: read as JSON, and asked as SQL in SQLite, DuckDB and PostgreSQL."""

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from functools import cache, partial
from typing import Any

import duckdb
import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from sklearn.dummy import DummyClassifier

from tests import world
from tests.support import postgresql
from tests.support.students import encoding_of, fitted, hashed, linear

ODD = 'it\'s a "word"'
"""A word, a class, and a name of a column, that SQL must quote."""
BROKEN = ('a"\nDROP TABLE "rows"; --', "a\rDROP TABLE x; --", "a\u2028b", "rows", "it's; --", "/* a", "a\\")
"""Names that could end a comment, a quotation or a statement."""
LEAST, MOST = -(2**63), 2**63 - 1
"""Whole numbers of 64 bits; the absolute value of the least is none."""
HEAD = "\nWITH concord_coded AS (\n"
Answer = Callable[[str, pl.DataFrame], list[Any]]


def table(seed: int, rows: int = 400, *, named: str = "visits") -> pl.DataFrame:
    """Numbers, whole numbers, dates, truth values and words, some of them missing or unknown."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            ODD: rng.normal(size=rows).round(3),
            named: rng.integers(0, 9, rows),
            "day": [date(2010 + int(at), 3, 4) for at in rng.integers(0, 20, rows)],
            "member": rng.choice([True, False], rows),
            "shade": rng.choice(["dark", "light", "grey", ODD, *(["never seen"] if seed else [])], rows),
        }
    )
    holes = [pl.when(pl.Series(rng.random(rows) < 0.1)).then(None).otherwise(pl.col(name)) for name in frame.columns]
    return frame.with_columns(each.alias(name) for each, name in zip(holes, frame.columns, strict=True))


@cache
def student(
    *classes: str, paired: bool = False, together: bool = False, named: str = "visits", far: float = 1.0
) -> Any:
    """A linear student of such a table, with a model that is drawn; of a number if there is no class.

    far   times its weights, by which there is no exponential of a score
    """
    rows = table(0, 500, named=named)
    encoding = encoding_of(rows, classes, None if classes else (-3.0, 7.0))
    made = linear(rows, encoding, paired=paired, together=together)
    return made.set_params(student__weights=far * made["student"].weights)


THREE = ("no", "yes", ODD)
STUDENTS: dict[str, Callable[[], Any]] = {
    "two classes": partial(student, "no", ODD),
    "three classes": partial(student, *THREE),
    "pairs of columns": partial(student, *THREE, paired=True),
    "a number": student,
}
CASES: dict[str, tuple[Callable[[], Any], pl.DataFrame]] = {
    **{kind: (made, table(3)) for kind, made in STUDENTS.items()},
    "scores far off, at the bounds": (partial(student, far=2000), table(3)),
    **{f"at {n}": (STUDENTS["three classes"], table(3).with_columns(visits=pl.lit(n))) for n in (LEAST, 0, MOST)},
    **{repr(name): (partial(student, "no", "yes", named=name), table(3, named=name)) for name in BROKEN},
}
"""A student, and rows that it never saw."""


# Databases ------------------------------------------------------------------------------------------------------------


def filled(database: Any, rows: pl.DataFrame, kinds: dict[Any, str], mark: str) -> None:
    """Create the table of rows, with these types of columns."""
    types = {name: kinds[stored.base_type()] for name, stored in rows.schema.items()}
    columns = ", ".join('"' + name.replace('"', '""') + f'" {kind}' for name, kind in types.items())
    cursor = database.cursor()
    cursor.execute(f'CREATE TABLE "rows" ({columns})')
    cursor.executemany(f'INSERT INTO "rows" VALUES ({", ".join([mark] * rows.width)})', rows.rows())


@contextmanager
def sqlite() -> Iterator[Answer]:
    """Dates are text there, and truth values 1 and 0."""

    def answer(statement: str, rows: pl.DataFrame) -> list[Any]:
        stored = rows.with_columns(pl.col(pl.Date).cast(pl.String), pl.col(pl.Boolean).cast(pl.Int64))
        with closing(sqlite3.connect(":memory:")) as database:
            filled(database, stored, {pl.Float64: "REAL", pl.Int64: "INTEGER", pl.String: "TEXT"}, "?")
            return database.execute(statement).fetchall()

    yield answer


@contextmanager
def duck() -> Iterator[Answer]:
    with duckdb.connect() as database:

        def answer(statement: str, rows: pl.DataFrame) -> list[Any]:
            database.register("rows", rows.to_arrow())
            return database.execute(statement).fetchall()

        yield answer


@contextmanager
def postgres() -> Iterator[Answer]:
    import psycopg

    kinds = {pl.Float64: "DOUBLE PRECISION", pl.Int64: "BIGINT", pl.String: "TEXT", pl.Date: "DATE"}

    def answer(statement: str, rows: pl.DataFrame) -> list[Any]:
        with psycopg.connect(f"postgresql://{address}") as database:
            filled(database, rows, {**kinds, pl.Boolean: "BOOLEAN"}, "%s")
            found = database.execute(statement.encode()).fetchall()
            database.rollback()
            return found

    with postgresql.server() as address:
        yield answer


@pytest.fixture(scope="module", params=[sqlite, duck, pytest.param(postgres, marks=pytest.mark.slow)])
def answer(request: pytest.FixtureRequest) -> Iterator[Answer]:
    """The last column of what a statement says of rows, in their order, which databases do not keep."""
    with request.param() as asked:

        def in_order(statement: str, rows: pl.DataFrame) -> list[Any]:
            numbered = rows.with_row_index("number").with_columns(cs.integer().cast(pl.Int64))
            return [row[-1] for row in sorted(asked(statement, numbered), key=lambda row: row[0])]

        yield in_order


# The statement --------------------------------------------------------------------------------------------------------


def check_agrees(student: Any, answer: Answer, rows: pl.DataFrame) -> None:
    """At every operating point that it has; and its head is a comment, whatever names stand in it."""
    for point in world.POINTS if hasattr(student, "classes_") else ("default",):
        if point != "default":
            student.set_params(student__point=point)
        expected, statement = student.predict(rows), world.scorecard_sql(student)
        found = answer(statement, rows)
        assert found == (pytest.approx(expected.tolist()) if expected.dtype.kind == "f" else expected.tolist())
        assert len(set(found)) > 1
        assert all(line.startswith("--") for line in statement.partition(HEAD)[0].splitlines())
    if hasattr(student, "classes_"):
        student.set_params(student__point="default")


@pytest.mark.parametrize("case", CASES)
def test_the_statement_scores_a_table_as_the_student_does(case: str, answer: Answer) -> None:
    made, rows = CASES[case]
    check_agrees(made(), answer, rows)


@pytest.mark.parametrize(
    ("resolution", "span"),
    [(1_000_000, 259_200), (10_000, 25_920_000), (10_000, 600)],
    ids=["of days, in s", "of days", "of s"],
)
@pytest.mark.parametrize("form", [None, "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.fZ"], ids=["plain", "T", "Z"])
def test_a_moment_at_an_end_of_an_interval_is_in_the_one_that_begins_there(
    answer: Answer, resolution: int, span: int, form: str | None
) -> None:
    """Ends were a microsecond late, and not in the order of text that databases and ISO write without zeros; a moment
    with `Z` was later than any fraction of its second."""
    ticks = np.random.default_rng(1).integers(0, span, 600) * resolution
    rows = pl.DataFrame({"at": [datetime(2024, 1, 1) + timedelta(microseconds=tick) for tick in ticks.tolist()]})
    made = linear(rows, encoding_of(rows, THREE))
    at = rows["at"].cast(pl.String) if form is None else rows["at"].dt.strftime(form)
    column = world.scorecard(made)["columns"][0]
    begun = [datetime.fromisoformat(interval["from"]) for interval in column["intervals"][1:]]
    codes = made[:-1].transform(rows)[:, 0]
    assert (codes - codes.min()).tolist() == [bisect_right(begun, moment) for moment in rows["at"]]
    assert answer(world.scorecard_sql(made), rows.with_columns(at=at)) == made.predict(rows).tolist()


def test_the_prediction_is_told_from_a_column_of_that_name(answer: Answer) -> None:
    """Both had that name, and a query for `prediction` returned the column of the table."""
    made, rows = student(*THREE, named="prediction"), table(3, named="prediction")
    statement = world.scorecard_sql(made).rstrip().removesuffix(";")
    asked = answer(f"SELECT number, concord_prediction FROM (\n{statement}\n) AS scored", rows)
    assert asked == made.predict(rows).tolist()


def test_a_table_that_lacks_a_column_is_not_scored(answer: Answer) -> None:
    """SQLite takes a name in double quotes for text if there is no such column."""
    statement = world.scorecard_sql(student(*THREE))
    for column in table(0, 1).columns:
        with pytest.raises(Exception, match=r"(?i)no such column|does not (have|exist)"):
            answer(statement, table(3).drop(column))


@pytest.mark.parametrize("classes", [("no", ODD), (ODD, "yes")], ids=["the second", "the first"])
def test_the_statement_predicts_at_a_threshold_as_well(answer: Answer, classes: tuple[str, ...]) -> None:
    """The class is named as `concord predict --threshold` does, and `prediction` is as it was. Whoever had only the
    export could score at no threshold that the certificate proposes."""
    made, rows = student(*classes), table(3)
    at = [*made.classes_].index(ODD)
    least = float(np.quantile(made.predict_proba(rows)[:, at], 0.3)) + 1e-6
    statement = world.scorecard_sql(made, {ODD: least, "no such class": 0.1})
    assert answer(statement, rows) == made.predict(rows).tolist()
    lower = f"SELECT number, concord_at_threshold_{at} FROM (\n{statement.rstrip().removesuffix(';')}\n) AS scored"
    assert (
        answer(lower, rows) == world.Thresholded(made, ODD, least).predict(rows).tolist() != made.predict(rows).tolist()
    )
    head, _, _ = statement.partition(HEAD)
    assert all(line.startswith("--") for line in head.splitlines())
    assert "concord_at_threshold_" in head
    assert "no such class" not in statement
    assert "concord_at_threshold_" not in world.scorecard_sql(made)


def test_of_hashed_text_there_are_points_by_bucket_and_no_statement() -> None:
    made, rows = hashed(table(0)), table(3).with_columns(shade=pl.lit("Rome"))
    (column,) = (each for each in world.scorecard(made)["columns"] if each["kind"] == "hashed")
    assert {*column["words"]} == {world.bucket(word, 4) for word in table(0)["shade"].drop_nulls()}
    known = rows.with_columns(shade=pl.lit(world.bucket("Rome", 4)))
    assert (made.predict_proba(rows) == made.predict_proba(known)).all()
    hides = linear(table(0), encoding_of(table(0), ("no", "\u202eyes")))  # which would hide a part of the statement
    nearest = student("no", "yes", together=True)
    assert [world.has_statement(each) for each in (student("no", "yes"), made, hides, nearest)] == [True, *[False] * 3]
    assert [world.has_scorecard(each) for each in (made, fitted(table(0), DummyClassifier()))] == [True, False]


# The JSON -------------------------------------------------------------------------------------------------------------


def score(card: dict[str, Any], row: dict[str, Any]) -> Any:
    """Of a row, as whoever reads the card adds it up."""
    places = {column["name"]: place(column, row[column["name"]]) for column in card["columns"]}
    found = np.array(card["intercept"])
    for column in card["columns"]:
        found = found + points(column)[places[column["name"]]]
    if together := card.get("numbers together"):
        names = zip(together["columns"], together["levels"], strict=True)
        levels = np.array([of_column[places[name]] for name, of_column in names])
        away = ((np.array(together["centres"]) - levels) ** 2).sum(axis=1)
        found = found + together["points"][int(away.argmin())]
    for pair in card["pairs"]:
        own = (cells[places[name]] for name, cells in zip(pair["columns"], pair["cells"], strict=True))
        found = found + pair["points"][sum(own)]
    return found


def points(column: dict[str, Any]) -> list[list[float]]:
    if "intervals" in column:
        return [*(each["points"] for each in column["intervals"]), column["missing"]]
    return [*column["words"].values(), column["other words"]["points"], column["missing"]]


def place(column: dict[str, Any], cell: Any) -> int:
    if "words" in column:
        words = [*column["words"]]
        other = len(words) + (cell not in column["other words"]["words"])
        return words.index(cell) if cell in words else other
    if cell is None:
        return len(column["intervals"])
    number = cell.isoformat() if isinstance(cell, date) else cell
    return sum(each["from"] <= number for each in column["intervals"][1:])


@pytest.mark.parametrize("kind", [*STUDENTS, "numbers together"])
def test_the_json_says_the_same_to_whoever_reads_it(kind: str) -> None:
    made, rows = STUDENTS.get(kind, partial(student, *THREE, paired=True, together=True))(), table(3)
    card = json.loads(world.scorecard_json(made))
    assert card["format"] == "concord scorecard 2"
    scores, predicts = np.array([score(card, row) for row in rows.iter_rows(named=True)]), card["predicts"]
    if "bounds" in predicts:
        low, high = predicts["bounds"]
        assert low + (high - low) / (1 + np.exp(-scores[:, 0])) == pytest.approx(made.predict(rows))
        return
    for point, thresholds in predicts["thresholds"].items():
        above = scores - thresholds
        best = (above[:, 0] > 0).astype(int) if len(thresholds) == 1 else above.argmax(axis=1)
        expected = made.set_params(student__point=point).predict(rows)
        assert [predicts["classes"][at] for at in best] == expected.tolist()
    made.set_params(student__point="default")
    at = json.loads(world.scorecard_json(made, {ODD: 0.2}))["predicts"]["at probabilities"]
    two = scores.shape[1] == 1
    assert (at["classes"], "1 / (1 + exp(-score))" in at["rule"]) == ({ODD: 0.2}, two)
    found = np.exp(np.column_stack([np.zeros(len(rows)), scores]) if two else scores)
    odds = found / found.sum(axis=1, keepdims=True)
    others = np.array(predicts["classes"])[odds[:, :-1].argmax(axis=1)]
    assert (
        np.where(odds[:, -1] >= 0.2, ODD, others).tolist() == world.Thresholded(made, ODD, 0.2).predict(rows).tolist()
    )
    assert "at probabilities" not in world.scorecard_json(made)

"""The scorecard says what the student says: read as JSON, and asked as SQL in SQLite, DuckDB and PostgreSQL."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from sklearn.dummy import DummyClassifier

from tests.support import postgresql
from tests.support.adult import CLASSES, LABEL, adult_tables
from tests.world import (
    FINER,
    POINTS,
    DeclaredText,
    Decoded,
    Encoding,
    Thresholded,
    bucket,
    cast_rows,
    has_statement,
    is_linear,
    learn_codes,
    learn_columns,
    linear_student,
    open_public,
    published_student,
    scorecard,
    scorecard_json,
    scorecard_sql,
    with_pairs,
)

ROWS = 400
ODD = 'it\'s a "word"'
"""A word, and a name of a column, that SQL must quote."""
Answer = Callable[[str, pl.DataFrame], list[Any]]


def table(seed: int, rows: int = ROWS) -> pl.DataFrame:
    """Numbers, whole numbers, dates, truth values and words, some of them missing or unknown."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=rows).round(3)
    frame = pl.DataFrame(
        {
            ODD: size,
            "visits": rng.integers(0, 9, rows),
            "day": [date(2010 + int(at), 3, 4) for at in rng.integers(0, 20, rows)],
            "member": rng.choice([True, False], rows),
            "shade": rng.choice(["dark", "light", "grey", ODD, *(["never seen"] if seed else [])], rows),
        }
    )
    holes = [pl.when(pl.Series(rng.random(rows) < 0.1)).then(None).otherwise(pl.col(name)) for name in frame.columns]
    return frame.with_columns(each.alias(name) for each, name in zip(holes, frame.columns, strict=True))


@pytest.fixture(params=[(2, False), (3, False), (3, True), (0, False)], ids=["two", "three", "pairs", "number"])
def student(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    classes, paired = request.param
    public = table(0, 500)
    public.write_parquet(tmp_path / "public.parquet")
    return made_of(tmp_path / "public.parquet", ("no", "yes", ODD)[:classes], paired=paired)


def made_of(
    path: Path, classes: tuple[str, ...], leave_out: str = "", *, paired: bool = False, hashed: str = ""
) -> Any:
    """A linear student of a public table's columns, with weights that are drawn; of a number if there is no class."""
    opened, rng = open_public(str(path)), np.random.default_rng(7)
    learned = learn_columns(opened, [name for name in opened.names if name != leave_out])
    learned = tuple(one.model_copy(update={"hashed": True}) if one.name == hashed else one for one in learned)
    bounds = None if classes else (-3.0, 7.0)
    encoding = Encoding(columns=learned, label="label", classes=classes, bounds=bounds)
    cells = cast_rows(pl.read_parquet(path), encoding)
    codes = learn_codes([cells], encoding.columns, coarse=8)
    if paired:
        codes = with_pairs(codes, codes.of(cells), FINER)
    columns = len(classes) if len(classes) > 2 else 1
    decoded = Decoded(
        weights=rng.normal(size=(codes.size, columns)),
        intercept=rng.normal(size=columns) / 4,
        units=500.0,
        prior=np.linspace(0.2, 0.6, columns),
        importance=np.zeros(len(codes.fields)),
        spread=np.zeros((len(codes.weighed) + 1, columns)),
        kappa=np.ones(columns),
        moved=0.0,
    )
    return linear_student(decoded, encoding, codes)


def in_order(found: list[tuple[Any, ...]]) -> list[Any]:
    """The predictions, in the order of the table's rows, which databases do not keep: it has their numbers first."""
    return [row[-1] for row in sorted(found, key=lambda row: row[0])]


def in_sqlite(statement: str, rows: pl.DataFrame) -> list[Any]:
    """Dates are text there, and truth values 1 and 0."""
    stored = rows.with_columns(pl.col(pl.Date).cast(pl.String), pl.col(pl.Boolean).cast(pl.Int64))
    kinds = {pl.Float64: "REAL", pl.Int64: "INTEGER", pl.String: "TEXT"}
    with sqlite3.connect(":memory:") as database:
        _filled(database, stored, {name: kinds[type_.base_type()] for name, type_ in stored.schema.items()}, "?")
        return in_order(database.execute(statement).fetchall())


DUCKDB = duckdb.connect()


def in_duckdb(statement: str, rows: pl.DataFrame) -> list[Any]:
    DUCKDB.register("rows", rows.to_arrow())
    return in_order(DUCKDB.execute(statement).fetchall())


def _filled(database: Any, rows: pl.DataFrame, kinds: dict[str, str], mark: str) -> None:
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())
    cursor = database.cursor()
    cursor.execute(f'CREATE TABLE "rows" ({columns})')
    cursor.executemany(f'INSERT INTO "rows" VALUES ({", ".join([mark] * rows.width)})', rows.rows())


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="module")
def postgres() -> Iterator[Answer]:
    import psycopg

    kinds = {pl.Float64: "DOUBLE PRECISION", pl.Int64: "BIGINT", pl.String: "TEXT", pl.Date: "DATE"}
    kinds |= {pl.Boolean: "BOOLEAN"}

    def answer(statement: str, rows: pl.DataFrame) -> list[Any]:
        with psycopg.connect(f"postgresql://{address}") as database:
            _filled(database, rows, {name: kinds[type_.base_type()] for name, type_ in rows.schema.items()}, "%s")
            found = database.execute(statement.encode()).fetchall()
            database.rollback()
            return in_order(found)

    with postgresql.server() as address:
        yield answer


def test_a_student_of_hashed_text_has_points_by_bucket_and_no_statement(tmp_path: Path) -> None:
    buckets = DeclaredText(kind="text", name="shade", buckets=4).words
    table(0).with_columns(shade=pl.Series(buckets)[np.arange(ROWS) % 4]).write_parquet(tmp_path / "public.parquet")
    plain = made_of(tmp_path / "public.parquet", ("no", "yes"))
    student = made_of(tmp_path / "public.parquet", ("no", "yes"), hashed="shade")
    assert [has_statement(each) for each in (plain, student)] == [True, False]
    plain[-1].classes = ("no", "\u202eyes")  # which would hide a part of the statement
    assert not has_statement(plain)
    (column,) = (each for each in scorecard(student)["columns"] if each["kind"] == "hashed")
    assert {*column["words"]} == {*buckets}
    rows = table(3).with_columns(shade=pl.lit("Rome"))
    known = rows.with_columns(shade=pl.lit(bucket("Rome", 4)))
    assert (student.predict_proba(rows) == student.predict_proba(known)).all()


def agrees(student: Any, answer: Answer, rows: pl.DataFrame | None = None) -> None:
    """On rows that it never saw, at every operating point that it has."""
    rows = (table(3) if rows is None else rows).with_columns(cs.integer().cast(pl.Int64))
    expected = student.predict(rows)
    statement = scorecard_sql(student)
    found = answer(statement, rows.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64)))
    if expected.dtype.kind == "f":
        assert found == pytest.approx(expected.tolist())
        return
    assert found == expected.tolist()
    assert len(set(found)) > 1
    assert is_linear(student)
    if student["student"].point == "default":
        agrees(student.set_params(student__point=POINTS[1]), answer, rows)


@pytest.mark.parametrize("answer", [in_sqlite, in_duckdb])
def test_the_statement_scores_a_table_as_the_student_does(student: Any, answer: Answer) -> None:
    agrees(student, answer)


def far_off(path: Path) -> Any:
    """A student of a number with scores of which there is no exponential."""
    table(0, 500).write_parquet(path)
    student = made_of(path, ())
    return student.set_params(student__weights=2000 * student["student"].weights)


@pytest.mark.parametrize("answer", [in_sqlite, in_duckdb])
def test_scores_that_are_far_off_are_at_the_bounds(tmp_path: Path, answer: Answer) -> None:
    agrees(far_off(tmp_path / "public.parquet"), answer)


@pytest.mark.slow
def test_so_it_does_in_postgresql(student: Any, postgres: Answer) -> None:
    agrees(student, postgres)


@pytest.mark.slow
def test_so_they_are_in_postgresql(tmp_path: Path, postgres: Answer) -> None:
    agrees(far_off(tmp_path / "public.parquet"), postgres)


@pytest.mark.slow
def test_adult_is_scored_to_the_class_in_all_three(postgres: Answer) -> None:
    folder = adult_tables()
    student = made_of(folder / "adult_public.parquet", CLASSES, LABEL)
    rows = pl.read_parquet(folder / "adult_private.parquet").drop(LABEL).head(5000)
    for answer in (in_sqlite, in_duckdb, postgres):
        agrees(student, answer, rows)
        student.set_params(student__point=POINTS[0])


BROKEN = ('a"\nDROP TABLE "rows"; --', "a\rDROP TABLE x; --", "a\u2028b", "rows", "it's; --", "/* a", "a\\")
"""Names that could end a comment, a quotation or a statement."""


@pytest.mark.parametrize("answer", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("name", BROKEN)
def test_no_name_ends_the_comment_or_the_statement(tmp_path: Path, answer: Answer, name: str) -> None:
    path = tmp_path / "public.parquet"
    table(0, 500).rename({"visits": name}).write_parquet(path)
    student = made_of(path, ("no", "yes"))
    agrees(student, answer, table(3).rename({"visits": name}))
    head, _, _ = scorecard_sql(student).partition("\nWITH concord_coded AS (\n")
    assert all(line.startswith("--") for line in head.splitlines())


@pytest.mark.parametrize("answer", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("column", table(0, 1).columns)
def test_a_table_that_lacks_a_column_is_not_scored(student: Any, answer: Answer, column: str) -> None:
    """SQLite takes a name in double quotes for text if there is no such column."""
    with pytest.raises((sqlite3.OperationalError, duckdb.BinderException)):
        answer(scorecard_sql(student), table(3).drop(column).with_columns(cs.integer().cast(pl.Int64)))


@pytest.mark.parametrize("answer", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("most", [2**63 - 1, -(2**63), 0])
def test_the_least_whole_number_is_a_number(student: Any, answer: Answer, most: int) -> None:
    """Its absolute value is none."""
    agrees(student, answer, table(3).with_columns(visits=pl.lit(most, pl.Int64)))


def test_the_json_says_the_same_to_whoever_reads_it(student: Any) -> None:
    card, rows = json.loads(scorecard_json(student)), table(3)
    assert card["format"] == "concord scorecard 2"
    scores = np.array([_score(card, row) for row in rows.iter_rows(named=True)])
    if "bounds" in card["predicts"]:
        low, high = card["predicts"]["bounds"]
        assert low + (high - low) / (1 + np.exp(-scores[:, 0])) == pytest.approx(student.predict(rows))
        return
    for point, thresholds in card["predicts"]["thresholds"].items():
        above = scores - thresholds
        best = (above[:, 0] > 0).astype(int) if len(thresholds) == 1 else above.argmax(axis=1)
        expected = student.set_params(student__point=point).predict(rows)
        assert [card["predicts"]["classes"][at] for at in best] == expected.tolist()


@pytest.mark.parametrize("answer", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("classes", [("no", ODD), (ODD, "yes")], ids=["the second", "the first"])
def test_the_statement_predicts_at_a_threshold_as_well(
    tmp_path: Path, answer: Answer, classes: tuple[str, ...]
) -> None:
    """Whoever had only the export could score at no threshold that the certificate proposes."""
    at_threshold(made_in(tmp_path, classes), answer)


@pytest.mark.slow
def test_so_it_does_at_a_threshold_in_postgresql(tmp_path: Path, postgres: Answer) -> None:
    at_threshold(made_in(tmp_path, ("no", ODD)), postgres)


def made_in(folder: Path, classes: tuple[str, ...]) -> Any:
    table(0, 500).write_parquet(folder / "public.parquet")
    return made_of(folder / "public.parquet", classes)


def at_threshold(student: Any, answer: Answer) -> None:
    """The class of the odd name is named as `concord predict --threshold` does, and `prediction` is as it was."""
    rows = table(3).with_columns(cs.integer().cast(pl.Int64))
    at = [*student.classes_].index(ODD)
    least = float(np.quantile(student.predict_proba(rows)[:, at], 0.3)) + 1e-6
    statement = scorecard_sql(student, {ODD: least, "no such class": 0.1})
    numbered = rows.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    assert answer(statement, numbered) == student.predict(rows).tolist()
    lower = f"SELECT number, concord_at_threshold_{at} FROM (\n{statement.rstrip().removesuffix(';')}\n) AS scored"
    expected = Thresholded(student, ODD, least).predict(rows)
    assert answer(lower, numbered) == expected.tolist() != student.predict(rows).tolist()
    assert "no such class" not in statement
    head, _, _ = statement.partition("\nWITH concord_coded AS (\n")
    assert all(line.startswith("--") for line in head.splitlines())
    assert "concord_at_threshold_" in head
    assert "concord_at_threshold_" not in scorecard_sql(student)


@pytest.mark.parametrize("classes", [("no", ODD), ("no", "yes", ODD)], ids=["two", "three"])
def test_the_json_says_how_to_name_a_class_at_a_threshold(tmp_path: Path, classes: tuple[str, ...]) -> None:
    student, rows, two = made_in(tmp_path, classes), table(3), len(classes) == 2
    predicts = json.loads(scorecard_json(student, {ODD: 0.2}))["predicts"]["at probabilities"]
    assert predicts["classes"] == {ODD: 0.2}
    assert ("1 / (1 + exp(-score))" in predicts["rule"]) == two
    scores = np.array([_score(json.loads(scorecard_json(student)), row) for row in rows.iter_rows(named=True)])
    found = np.exp(np.column_stack([np.zeros(len(rows)), scores]) if two else scores)
    odds = found / found.sum(axis=1, keepdims=True)
    others = np.array(classes)[odds[:, :-1].argmax(axis=1)]
    best = np.where(odds[:, -1] >= 0.2, ODD, others)
    assert best.tolist() == Thresholded(student, ODD, 0.2).predict(rows).tolist()
    assert "at probabilities" not in scorecard_json(student)


def _score(card: dict[str, Any], row: dict[str, Any]) -> Any:
    places = {column["name"]: _place(column, row[column["name"]]) for column in card["columns"]}
    found = np.array(card["intercept"])
    for column in card["columns"]:
        found = found + _points(column)[places[column["name"]]]
    for pair in card["pairs"]:
        own = (cells[places[name]] for name, cells in zip(pair["columns"], pair["cells"], strict=True))
        found = found + pair["points"][sum(own)]
    return found


def _points(column: dict[str, Any]) -> list[list[float]]:
    if "intervals" in column:
        return [*(each["points"] for each in column["intervals"]), column["missing"]]
    return [*column["words"].values(), column["other words"]["points"], column["missing"]]


def _place(column: dict[str, Any], cell: Any) -> int:
    if "words" in column:
        words = [*column["words"]]
        other = len(words) + (cell not in column["other words"]["words"])
        return words.index(cell) if cell in words else other
    if cell is None:
        return len(column["intervals"])
    number = cell.isoformat() if isinstance(cell, date) else cell
    return sum(each["from"] <= number for each in column["intervals"][1:])


def test_a_student_of_another_kind_has_none() -> None:
    constant = DummyClassifier(strategy="most_frequent").fit(np.zeros((2, 1)), ["no", "no"])
    encoding = Encoding(columns=(), label="label", classes=("no", "yes"))
    other = published_student(encoding, constant)
    assert not is_linear(other)

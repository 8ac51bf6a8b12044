"""Predicting: a published student gives classes and probabilities for rows as they come, and needs no vault."""

import csv
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from tests import world
from tests.support.console import concord
from tests.support.encodings import THREE
from tests.support.published import CLASSES, SESSION, World
from tests.support.sentences import facts
from tests.support.students import republish


def predict(home: Path, table: str, target: Path, *more: str) -> tuple[int, str, str]:
    return concord("predict", SESSION, table, "--out", str(target), "--home", str(home), *more)


@pytest.mark.parametrize("written", ["parquet", "csv"])
@pytest.mark.parametrize("read", ["parquet", "csv", "semicolons"])
def test_a_table_in_and_a_table_out(small: World, tmp_path: Path, read: str, written: str) -> None:
    rows, table = small.rows, tmp_path / f"rows.{'parquet' if read == 'parquet' else 'csv'}"
    if read == "parquet":
        rows.write_parquet(table)
    else:
        rows.write_csv(table, separator=";" if read == "semicolons" else ",", decimal_comma=read == "semicolons")
    target = tmp_path / f"classes.{written}"
    status, printed, error = predict(small.home, str(table), target, "--json")
    assert (status, json.loads(printed)) == (0, {"rows": 300, "file": str(target), "warnings": []}), error
    excel = read == "semicolons"
    found = (
        pl.read_parquet(target)
        if written == "parquet"
        else pl.read_csv(target, separator=";" if excel else ",", decimal_comma=excel)
    )
    student = world.load_student(SESSION, home=small.home)
    assert found.columns == ["class", *(f"probability {name}" for name in CLASSES)]
    assert found["class"].to_list() == student.predict(rows).tolist()
    assert np.allclose(
        found.drop("class").to_numpy(), student.predict_proba(rows), atol=1e-12 if written == "parquet" else 1e-6
    )
    assert [path.name for path in tmp_path.iterdir() if path not in (table, target)] == []


def test_a_link_that_another_user_planted_is_not_written_through(small: World, tmp_path: Path) -> None:
    """Before, the temporary name was made of the process's number, which others can foresee."""
    table, target, kept = tmp_path / "rows.parquet", tmp_path / "classes.csv", tmp_path / "kept"
    small.rows.write_parquet(table)
    kept.write_text("mine")
    target.with_name(f".{target.name}.{os.getpid()}").symlink_to(kept)
    assert predict(small.home, str(table), target)[0] == 0
    assert (kept.read_text(), target.is_symlink()) == ("mine", False)


PUBLIC, OUT = "public.parquet", "classes.csv"
WRONG: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "another kind of file": (PUBLIC, "classes.txt", (), "--out must be a new file named .parquet or .csv"),
    "a file that is there": (PUBLIC, "odd.parquet", (), "already exists"),
    "no such folder": (PUBLIC, "no/c.csv", (), "cannot be written"),
    "no such table": ("none.parquet", OUT, (), "ROWS must be a file"),
    "a column is missing": ("narrow.parquet", OUT, (), "ROWS must hold the column 'shade', which"),
    "no such class": (PUBLIC, OUT, ("--threshold", "maybe=0.5"), "one of 'no', 'yes', got 'maybe'"),
    "no probability": (PUBLIC, OUT, ("--threshold", "yes=half"), "such as yes=0.2, got 'half'"),
    "a probability of 0": (PUBLIC, OUT, ("--threshold", "yes=0"), "a probability above 0"),
    "no such point": (PUBLIC, OUT, ("--point", "prior odds"), "one of default and prior-odds"),
    "no shares": (PUBLIC, OUT, ("--point", "prior-odds"), "this one keeps no shares of classes"),
    "two points": (PUBLIC, OUT, ("--point", "prior-odds", "--threshold", "yes=0.2"), "without --threshold"),
    "no such column": (PUBLIC, OUT, ("--id", "nobody"), "ROWS must hold the column 'nobody'"),
    "letters that act": ("odd.parquet", OUT, ("--id", "acts"), "letters that are not printable"),
    "cells of bytes": ("odd.parquet", OUT, ("--id", "bytes"), "--id must name a column"),
    "cells of durations": ("odd.parquet", OUT, ("--id", "time"), "--id must name a column"),
    "two types": ("rows", "c.parquet", ("--id", "who"), "one type in all files"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_sentence_and_leaves_no_file(small: World, tmp_path: Path, what: str) -> None:
    rows = small.rows.head(2)
    small.rows.write_parquet(tmp_path / PUBLIC)
    rows.drop("shade").write_parquet(tmp_path / "narrow.parquet")
    odd: dict[str, Any] = {
        "acts": ["a", "b\x1b[2J"],
        "bytes": [b"=1+1", b"\x1b[2J"],
        "time": pl.Series([1, 2]).cast(pl.Duration),
    }
    rows.with_columns(**{name: pl.Series(cells) for name, cells in odd.items()}).write_parquet(tmp_path / "odd.parquet")
    (tmp_path / "rows").mkdir()
    for name, cells in (("a", [1, 2]), ("b", ["x", "y"])):
        rows.with_columns(who=pl.Series(cells)).write_parquet(tmp_path / "rows" / f"{name}.parquet")
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    table, target, more, sentence = WRONG[what]
    status, _, error = predict(small.home, str(tmp_path / table), tmp_path / target, *more)
    assert (status in (1, 2), sentence in error) == (True, True), error
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("least", [0.01, 0.3, 1.0])
def test_a_threshold_finds_more_or_fewer_rows_of_a_class(small: World, tmp_path: Path, least: float) -> None:
    target, student = tmp_path / "c.parquet", world.load_student(SESSION, home=small.home)
    assert predict(small.home, str(small.home / "public.parquet"), target, "--threshold", f"yes={least}")[0] == 0
    found, likely = pl.read_parquet(target), student.predict_proba(small.rows)[:, 1] >= least
    assert found["class"].to_list() == np.where(likely, "yes", "no").tolist()
    assert found["probability yes"].to_list() == student.predict_proba(small.rows)[:, 1].tolist()


def test_a_threshold_leaves_other_rows_to_the_likeliest_other_class() -> None:
    class Odds:
        classes_, feature_names_in_ = np.array(["a", "b", "c"]), np.array(["x"])

        def predict_proba(self, _: object) -> object:
            return np.array([[0.5, 0.2, 0.3], [0.6, 0.3, 0.1], [0.8, 0.1, 0.1]])

    assert world.at_point(Odds(), threshold="a=0.7").predict(None).tolist() == ["c", "b", "a"]
    assert world.at_point(Odds(), threshold="b=0.2").predict(None).tolist() == ["b", "b", "a"]


def test_a_column_of_the_table_goes_along_and_no_cell_of_it_is_a_formula(small: World, tmp_path: Path) -> None:
    rows, words = small.rows.head(4), ["=1+1", None, "person 3", "-4"]
    chosen = pl.Series(["=1+1", "b", "b", "b"], dtype=pl.Enum(["=1+1", "b"]))
    columns = {"who": pl.Series(words), "number": pl.Series([4, 3, 2, 1]), "chosen": chosen}
    rows.with_columns(**columns).write_parquet(tmp_path / "rows.parquet")
    german = small.rows.head(2).with_columns(who=pl.Series(["1.234", "5.678"]))
    german.write_csv(tmp_path / "german.csv", separator=";", decimal_comma=True)
    for number, (table, column, suffix, kept) in enumerate(
        (
            ("rows.parquet", "who", "parquet", words),
            ("rows.parquet", "who", "csv", ["'=1+1", None, *words[2:]]),
            ("rows.parquet", "number", "csv", [4, 3, 2, 1]),
            ("rows.parquet", "chosen", "csv", ["'=1+1", "b", "b", "b"]),
            ("german.csv", "who", "parquet", ["1.234", "5.678"]),  # read as names
        )
    ):
        target = tmp_path / f"{number}.{suffix}"
        status, _, error = predict(small.home, str(tmp_path / table), target, "--id", column)
        assert status == 0, error
        found = pl.read_parquet(target) if suffix == "parquet" else pl.read_csv(target)
        assert found.columns[:2] == [column, "class"]
        assert found[column].to_list() == kept


def test_a_student_of_a_number_has_no_other_point() -> None:
    for more in ({"point": "prior-odds"}, {"threshold": "yes=0.2"}):
        with pytest.raises(world.WrongInput, match="this one gives a number"):
            world.at_point(object(), **more)


def test_a_student_takes_rows_as_they_come(small: World) -> None:
    student, rows = world.load_student(SESSION, home=small.home), small.rows.head(20)
    expected = student.predict_proba(rows)
    dicts = rows.to_dicts()
    as_arrays = rows.select(student.feature_names_in_.tolist()).to_numpy()
    for given in (rows.to_pandas(), rows.to_arrow(), dicts, as_arrays):
        assert student.predict_proba(given).tobytes() == expected.tobytes()
        assert student.predict(given).tolist() == student.predict(rows).tolist()
    assert student.predict(dicts[3]).tolist() == student.predict(rows[3]).tolist()
    assert student.predict(as_arrays[3]).tolist() == student.predict(rows[3]).tolist()
    assert student.predict([{}]).shape == (1,)
    assert student.predict(pa.table(rows.to_arrow())).shape == (20,)


GERMAN = ["1.234,5", "12,25", "-3,5", "10,5"] * 5
UNREAD = "most cells of column 'size' are no numbers such as 1234.5: they count as missing"


def test_numbers_as_german_words_were_predicted_for_in_silence(small: World, tmp_path: Path) -> None:
    student, table = world.load_student(SESSION, home=small.home), tmp_path / "rows.parquet"
    rows = small.rows.head(20).with_columns(size=pl.Series(GERMAN))
    for given in (rows, rows.to_pandas(), rows.to_dicts(), rows.to_dicts()[0]):
        with pytest.warns(UserWarning, match=UNREAD):
            student.predict(given)
        with pytest.warns(UserWarning, match=UNREAD):
            student.predict_proba(given)
    rows.write_parquet(table)
    status, printed, error = predict(small.home, str(table), tmp_path / "said.csv")
    assert (status, f"warning: {UNREAD}" in printed) == (0, True), error
    assert json.loads(predict(small.home, str(table), tmp_path / "c.csv", "--json")[1])["warnings"] == [UNREAD]


@pytest.mark.parametrize("width", [1, 2, 4, 6])
def test_an_array_of_another_width_was_refused_by_zip(small: World, width: int) -> None:
    student = world.load_student(SESSION, home=small.home)
    with pytest.raises(world.WrongInput, match=facts("3 columns", "'size', 'shade', 'note'", f"(5, {width})")):
        student.predict(np.zeros((5, width)))


def test_a_misspelt_key_of_a_row_was_a_missing_cell_in_silence(small: World) -> None:
    student = world.load_student(SESSION, home=small.home)
    with pytest.warns(UserWarning, match=facts("'size'", "'Size'", "missing")):
        student.predict({"Size": 30.0, "shade": "dark", "note": 1})
    student.predict([{"shade": "dark"}, {"size": 1.0, "note": 3, "id": 7}])


def test_cross_validation_of_a_published_student_asked_the_same_student(small: World) -> None:
    student, rows = world.load_student(SESSION, home=small.home), small.rows.to_pandas()
    before = student.predict(rows).tolist()
    with pytest.raises(NotImplementedError, match="a published student is not fitted again"):
        student.fit(rows, before[::-1])
    assert student.predict(rows).tolist() == before
    with pytest.raises(ValueError, match="a published student is not fitted again"):
        cross_val_score(student, rows, before, cv=2)


def test_scores_become_the_nearest_probabilities() -> None:
    rng = np.random.default_rng(3)
    X, scores = rng.normal(size=(200, 3)), rng.normal(0.3, 1.0, size=(200, 4))
    student = world.ScoreClassifier(Ridge(alpha=0.1), ["a", "b", "c", "d"]).fit(X, scores)
    raw, odds = student.regressor_.predict(X), student.predict_proba(X)
    assert (odds >= 0).all()
    assert np.abs(odds.sum(axis=1) - 1).max() < 1e-12
    assert student.classes_[odds.argmax(axis=1)].tolist() == student.predict(X).tolist()
    others = rng.dirichlet(np.ones(4), size=2000)
    for own, score in zip(odds[:20], raw[:20], strict=True):
        assert ((others - score) ** 2).sum(axis=1).min() >= ((own - score) ** 2).sum() - 1e-12


FORMULAS = ("=cmd|' /C calc'!A0", "+1+cmd|'x'!A0", "-2+3", "@SUM(1)", "＝1+1", " =1", "'=1", "''-2+3", "-unknown-")
PLAIN_CLASSES = ("<=50K", ">50K", "-1", "+1", "-1.5e-3", "'s-Hertogenbosch", "a=b", 'é, "x"; y', "می\u200cخواهم", "")


def test_a_class_that_begins_like_a_formula_is_none_in_a_spreadsheet_and_is_read_back(
    small: World, tmp_path: Path
) -> None:
    """A class `=cmd|…` was written as it is, and a spreadsheet that opens the file runs it."""
    classes = np.array([*FORMULAS, *PLAIN_CLASSES])
    rng = np.random.default_rng(4)
    learned = KNeighborsClassifier(1).fit(rng.normal(size=(len(classes), THREE.width)), classes)
    folder = Path(shutil.copytree(small.released.root / SESSION, tmp_path / SESSION))
    republish(folder, world.published_student(THREE, learned))
    rows = pl.DataFrame({"size": rng.normal(size=400) * 9, "shade": ["dark", "light"] * 200})
    rows.with_columns(image=pl.Series(rng.integers(0, 999, (400, 4)).tolist())).write_parquet(tmp_path / "rows.parquet")
    for suffix in ("csv", "parquet"):
        out = str(tmp_path / f"c.{suffix}")
        assert concord("predict", str(folder), str(tmp_path / "rows.parquet"), "--out", out)[0] == 0
    exact = pl.read_parquet(tmp_path / "c.parquet")["class"].to_list()
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        head, *written = csv.reader(file)
    assert head == ["class", *(f"probability {name}" for name in sorted(classes.tolist()))]
    assert [world.as_named(cell) for cell, *_ in written] == exact
    assert len({*exact} & {*FORMULAS}) > 2
    assert not any(re.match(r"\s*[=+\-@＝]", cell) and not is_number(cell) for cell, *_ in written)


def is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def test_only_such_classes_are_written_otherwise_and_each_is_read_back() -> None:
    assert {name for name in (*FORMULAS, *PLAIN_CLASSES) if world.in_spreadsheet(name) != name} == {*FORMULAS}
    names = [f"{'@' * at}{name}{quotes}" for name in FORMULAS for at in range(2) for quotes in ("", "'", "''")]
    for name in (*names, *(f"'{name}" for name in names), *PLAIN_CLASSES):
        assert world.as_named(world.in_spreadsheet(name)) == name
    assert len({world.in_spreadsheet(name) for name in names}) == len({*names})


def test_no_name_and_no_word_of_a_table_is_a_formula_or_hides_letters() -> None:
    """Before, synthetic rows were written unescaped, although the author of a schema chooses their names and words."""
    for kind in (pl.String, pl.Categorical):
        rows = pl.DataFrame({"=name": pl.Series(["=1+1", "-5", None, "\u202eno\x1b[2J"], dtype=kind), "size": 0.1})
        assert [*csv.reader(world.csv_text(rows).splitlines())] == [
            ["'=name", "size"], ["'=1+1", "0.1"], ["-5", "0.1"], ["", "0.1"], ["�no�[2J", "0.1"]
        ]  # fmt: skip


def test_all_digits_before_the_point_are_written() -> None:
    """The ids of four rows were all 123456800.0, and of counts of 330 million 84 % of the 95 % intervals were right."""
    ids = [123456781.0, 123456782.0, -3.3e8 - 0.4, 1e30, 0.123456789, float("inf"), None]
    written = world.csv_text(pl.DataFrame({"id": ids})).splitlines()[1:]
    assert written == ["123456781.0", "123456782.0", "-330000000.0", "1e+30", "0.1234568", "inf", ""]


def test_a_student_that_answers_another_class_than_its_own_is_not_believed(small: World, tmp_path: Path) -> None:
    learned = KNeighborsClassifier(1).fit(np.ones((2, THREE.width)), np.array(["no", "yes"]))
    made = world.published_student(THREE, learned)
    made["student"].classes_, made["student"].outputs_2d_ = np.array(["=a", "=b", "=c"]), False
    made["student"]._y = np.array([7, 7])
    folder = Path(shutil.copytree(small.released.root / SESSION, tmp_path / SESSION))
    pl.DataFrame({"size": [1.0], "shade": ["dark"], "image": [[1, 2, 3, 4]]}).write_parquet(tmp_path / "rows.parquet")
    republish(folder, made)
    found = concord("predict", str(folder), str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "c.csv"))
    assert (found[0], "not one that Concord writes" in found[2], (tmp_path / "c.csv").exists()) == (4, True, False)


@pytest.mark.parametrize("form", [world.TextFormat(separator=";", decimal=",", encoding="cp1252"), world.TextFormat()])
def test_csv_is_written_as_the_rows_are_and_no_number_has_more_than_seven_digits(form: world.TextFormat) -> None:
    table = pa.table({"class": ["böse", "nein"], "probability böse": [2 / 3, 1e-9 / 3]})
    parts = [world.csv_part(table, form, header=header) for header in (True, False)]
    lines = b"".join(parts).decode(form.encoding).splitlines()
    half = "0.6666667".replace(".", form.decimal)
    assert lines[:2] == [form.separator.join(("class", "probability böse")), form.separator.join(("böse", half))]
    assert len(lines) == 5

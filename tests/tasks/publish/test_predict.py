"""Predicting: a published student gives classes and probabilities for rows as they come, and needs no vault."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

from concord.artifacts.errors import WrongInput
from concord.flows.api import load_student
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.student.concord_student import ScoreClassifier
from concord.tasks.student.model import read_published
from tests.support.console import concord
from tests.support.published import CLASSES, SESSION, World, certified, world

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = world(tmp_path_factory.mktemp("home") / "home")
    certified(made, STABLE, made.truth)
    return made


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
    assert (status, json.loads(printed)) == (0, {"rows": 300, "file": str(target)}), error
    found = pl.read_parquet(target) if written == "parquet" else pl.read_csv(target)
    student = load_student(SESSION, home=small.home)
    assert found.columns == ["class", *(f"probability {name}" for name in CLASSES)]
    assert found["class"].to_list() == student.predict(rows).tolist()
    assert np.allclose(found.drop("class").to_numpy(), student.predict_proba(rows), atol=1e-12)
    assert [path.name for path in tmp_path.iterdir() if path not in (table, target)] == []


def test_a_copy_of_what_was_published_is_enough(small: World, tmp_path: Path) -> None:
    shutil.copytree(small.home / "released" / SESSION, tmp_path / "copy")
    table = str(small.home / "public.parquet")
    arguments = (table, "--out", str(tmp_path / "c.csv"), "--home", str(tmp_path / "nowhere"))
    assert concord("predict", str(tmp_path / "copy"), *arguments)[0] == 0
    assert not (tmp_path / "nowhere").exists()


WRONG = {
    "another kind": ("rows.parquet", "classes.txt", r"--out must be a new file named .parquet or .csv"),
    "there already": ("rows.parquet", "rows.parquet", "is there already"),
    "no such table": ("none.parquet", "c.csv", "ROWS must be a file"),
    "a column is missing": ("narrow.parquet", "c.csv", "ROWS must hold the column 'shade', which"),
    "no such folder": ("rows.parquet", "no/c.csv", "cannot be written"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_sentence_and_leaves_no_file(small: World, tmp_path: Path, what: str) -> None:
    small.rows.write_parquet(tmp_path / "rows.parquet")
    small.rows.drop("shade").write_parquet(tmp_path / "narrow.parquet")
    before = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    table, target, sentence = WRONG[what]
    status, _, error = predict(small.home, str(tmp_path / table), tmp_path / target)
    assert (status in (1, 2), sentence in error) == (True, True), error
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == before


def test_a_domain_in_the_place_of_a_session_is_answered_with_its_sessions(small: World, tmp_path: Path) -> None:
    table, target = str(small.home / "public.parquet"), str(tmp_path / "c.csv")
    (small.home / "released" / "unfinished").mkdir()
    status, _, error = concord("predict", "people", table, "--out", target, "--home", str(small.home))
    assert (status, f"people is a domain, of which one session must be named: {SESSION}" in error) == (2, True), error
    assert not Path(target).exists()


@pytest.mark.parametrize("name", ["certificate.json", "student.skops"])
def test_a_pipe_in_the_place_of_a_published_file_is_not_waited_for(small: World, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(small.home / "released" / SESSION, tmp_path / "copy"))
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with pytest.raises(WrongInput, match="no certificate and student"):
        read_published(copy)


def test_a_student_takes_rows_as_they_come(small: World) -> None:
    student, rows = load_student(SESSION, home=small.home), small.rows.head(20)
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


def test_a_loaded_student_is_the_published_one(small: World) -> None:
    certificate, _ = read_published(small.home / "released" / SESSION)
    student = load_student(SESSION, home=small.home)
    assert tuple(student.classes_) == CLASSES
    assert certificate.session == SESSION
    with pytest.raises(WrongInput, match="no certificate and student"):
        load_student("other", home=small.home)


def test_scores_become_the_nearest_probabilities() -> None:
    rng = np.random.default_rng(3)
    X, scores = rng.normal(size=(200, 3)), rng.normal(0.3, 1.0, size=(200, 4))
    student = ScoreClassifier(Ridge(alpha=0.1), ["a", "b", "c", "d"]).fit(X, scores)
    raw, odds = student.regressor_.predict(X), student.predict_proba(X)
    assert (odds >= 0).all()
    assert np.abs(odds.sum(axis=1) - 1).max() < 1e-12
    assert student.classes_[odds.argmax(axis=1)].tolist() == student.predict(X).tolist()
    others = rng.dirichlet(np.ones(4), size=2000)
    for own, score in zip(odds[:20], raw[:20], strict=True):
        assert ((others - score) ** 2).sum(axis=1).min() >= ((own - score) ** 2).sum() - 1e-12

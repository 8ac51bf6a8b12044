"""What is special to a plan that declares a schema: it needs private rows alone, and strangers check each step of it;
its life: tests/promises/test_lifecycle.py."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from mlflow import MlflowClient

import concord
from tests import world
from tests.support.edited import found, rewritten
from tests.support.workers import FIELDS, plan_of, workers


def step_of(folder: Path, number: int) -> Path:
    return folder / "rounds" / f"round-{number:05d}.json"


@pytest.mark.slow
def test_private_rows_alone_give_a_student_synthetic_rows_and_a_certificate(tmp_path: Path, home: Path) -> None:
    plan = plan_of(tmp_path / "data")
    summary = world.start(plan, home)
    assert summary.mechanism["name"] == "sketch"
    assert summary.student["public_test"]["accuracy"] > 0.75
    folder = home / "released" / summary.session
    synthetic = pl.read_parquet(folder / "synthetic.parquet")
    assert synthetic.columns == ["wage", "age", "sex", "class", "probability of this class"]
    assert set(synthetic["class"].unique()) == {"low", "high"}
    assert pl.read_parquet_metadata(folder / "synthetic.parquet")["session"] == summary.session
    shares = synthetic["sex"].value_counts(normalize=True)
    assert dict(shares.rows())["undeclared"] == pytest.approx(1 / 3, abs=0.1)
    exported = concord.export(summary.session, tmp_path / "exported", home=home)
    assert {"synthetic.parquet", "synthetic.csv", "tables.csv", "tables.md"} <= {*exported}
    assert pl.read_csv(tmp_path / "exported" / "synthetic.csv").height == synthetic.height
    assert [check for check in world.verify_published(tmp_path / "exported") if not check.ok] == []
    again = concord.export(tmp_path / "exported", tmp_path / "again")  # an export has no rounds to make tables of
    assert {*exported} - {*again} == {"tables.csv", "tables.md"}
    alone = shutil.copytree(folder, tmp_path / "alone" / summary.session, ignore=shutil.ignore_patterns("rounds"))
    assert {*concord.export(alone, tmp_path / "without rounds")} == {*again}
    copied = shutil.copytree(folder, tmp_path / summary.session)
    step = json.loads(step_of(copied, 1).read_text())
    step_of(copied, 1).write_text(world.canonical_json({**step, "sums": step["sums"][::-1]}))
    with pytest.raises(world.NotVerified, match="round-00001"):
        concord.export(copied, tmp_path / "of an edit")

    report = Path(summary.report).read_text()
    assert "No public row was used" in report
    assert "public rows describe" not in report
    assert "10000 synthetic rows labelled" in world.outcome_in_words(summary)
    assert any("of 'sex' is no declared category" in warning for warning in summary.warnings)
    inputs = MlflowClient(f"sqlite:///{home}/mlflow.db").get_run(summary.run_id).inputs
    assert inputs is not None
    assert {item.dataset.name for item in inputs.dataset_inputs} >= {"synthetic rows", "released labels"}


@pytest.mark.slow
def test_text_whose_categories_nobody_lists_is_hashed_and_the_published_student_hashes_alike(
    tmp_path: Path, home: Path
) -> None:
    """Most of the class follows from the town, by 200 names that neither schema nor plan lists."""
    plan = plan_of(tmp_path / "data", data={"schema": {"fields": [*FIELDS, {"name": "town", "type": "string"}]}})
    for name in ("private", "test"):
        path = tmp_path / "data" / f"{name}.parquet"
        rows, source = pl.read_parquet(path), np.random.default_rng(4)
        own = (rows["class"] == "high").to_numpy() * 100 + source.integers(0, 100, rows.height)
        rows.with_columns(town=pl.Series([f"town {at}" for at in own])).write_parquet(path)
    summary = world.start(plan, home)
    assert [check for check in world.verify(home) if not check.ok] == []
    folder = home / "released" / summary.session
    assert [check for check in world.verify_published(folder) if not check.ok] == []
    towns = set(pl.read_parquet(folder / "synthetic.parquet")["town"].drop_nulls())
    assert towns <= {f"bucket {at} of 32" for at in range(1, 33)}
    test = pl.read_parquet(tmp_path / "data" / "test.parquet")
    student = concord.load_student(summary.session, home=home)
    right = np.mean(student.predict(test.drop("class")) == test["class"].to_numpy())
    assert right == pytest.approx(summary.student["public_test"]["accuracy"])
    others = student.predict(test.drop("class").with_columns(town=pl.lit("nowhere")))
    assert right > np.mean(others == test["class"].to_numpy())
    files = concord.export(summary.session, tmp_path / "exported", home=home)
    assert ("scorecard.json" in {*files}, "scorecard.sql" in {*files}) == (True, False)


@pytest.mark.slow
def test_the_student_of_a_number_is_tested_beside_what_the_last_step_says_on_average(
    tmp_path: Path, home: Path
) -> None:
    folder, rows = tmp_path / "data", workers(4_000, 1)
    folder.mkdir()
    rows = rows.select("wage", "age", "sex", score=pl.col("age") / 10 + (pl.col("sex") == "Male"))
    rows.write_parquet(folder / "private.parquet")
    data = {"private": "private.parquet", "schema": {"fields": FIELDS}, "features": ["age", "sex"]}
    privacy = {"domain": "workers", "epsilon": 2.0, "delta": 1e-5, "lifetime": {"epsilon": 9.0, "delta": 4e-5}}
    aside = {"share": 0.3, "columns": ["wage", "age", "sex"]}
    tables = {"data": {**data, "label": "score", "bounds": [0, 10]}, "privacy": privacy, "test": aside}
    plan = world.parse_plan({"folder": str(folder), "labeling": {"mechanism": "tallies", "rows": 4_000}, **tables})
    summary = world.start(plan, home)
    tested = summary.student["private_test"]
    assert tested["constant"] == pytest.approx(rows["score"].mean(), abs=1)
    assert tested["rmse"]["high"] < tested["constant_rmse"]["low"]
    assert [check for check in world.verify(home) if not check.ok] == []


@pytest.mark.parametrize("table", [{"height": 1.0}, {"age": None}], ids=["one more", "one less"])
def test_columns_that_schema_and_table_do_not_share_are_refused(
    tmp_path: Path, home: Path, table: dict[str, Any]
) -> None:
    plan, path = plan_of(tmp_path / "data"), tmp_path / "data" / "private.parquet"
    rows = pl.read_parquet(path)
    (name,) = table
    (rows.drop(name) if table[name] is None else rows.with_columns(pl.lit(1.0).alias(name))).write_parquet(path)
    sentence = "names the column 'age', which data.private lacks"
    with pytest.raises(
        world.WrongInput, match=sentence if table[name] is None else "has no field for 1 of the columns"
    ):
        world.start(plan, home)
    assert not world.Ledger.of(home).domains()


def test_a_stored_type_that_is_not_what_is_declared_is_refused(tmp_path: Path, home: Path) -> None:
    """Of every type: tests/tasks/data/test_readings.py."""
    folder = tmp_path / "data"
    plan = plan_of(folder, data={"schema": {"fields": [*FIELDS, {"name": "seen", "type": "string"}]}, "test": None})
    rows = pl.read_parquet(folder / "private.parquet")
    rows.with_columns(seen=pl.date(2020, 1, 2)).write_parquet(folder / "private.parquet")
    with pytest.raises(world.WrongInput, match=r"stores the column 'seen' .* declare a range of type 'date'"):
        world.start(plan, home)
    assert not world.Ledger.of(home).domains()


def test_a_session_is_known_by_what_is_declared_and_not_by_rows_that_stand_in(tmp_path: Path, home: Path) -> None:
    def identity(plan: world.Plan, encoding: world.Encoding) -> str:
        ask = world.SketchAsk.of(plan, world.grid_of(plan.data.sketched))
        return world.opening_of(stores, plan, ask, encoding).identity

    stores, learned = world.Stores.of(home), world.Encoding(columns=(), label="class", classes=("low", "high"))
    plan = plan_of(tmp_path / "data")
    known = identity(plan, learned)
    assert identity(plan, learned.model_copy(update={"label": "of other rows"})) == known
    fewer, other = ["wage", "age"], {"fields": [FIELDS[0], {**FIELDS[1], "type": "number"}, FIELDS[2]]}
    for changed in ({"features": fewer}, {"schema": other}, {"classes": ["high", "low"]}):
        assert identity(plan_of(tmp_path / "data", data=changed), learned) != known, changed


EDITS: dict[str, tuple[int, Callable[[dict[str, Any]], object]]] = {
    "other rows": (0, lambda step: step["synthetic"].update(cells=step["synthetic"]["cells"][::-1])),
    "no rows": (0, lambda step: step.pop("synthetic")),
    "rows drawn a second time": (1, lambda step: step.update(synthetic={"cells": ""})),
}
"""Edits of the step in which synthetic rows are drawn, or of a later one. Of others, every field is edited in
tests/tasks/verify/test_every_field.py."""


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "drawn_in"), [(["low", "high"], 1), (["low", "high", "highest"], 2)])
def test_a_stranger_finds_synthetic_rows_that_are_not_those_of_their_step(
    classes: list[str], drawn_in: int, tmp_path: Path, home: Path
) -> None:
    folder = home / "released" / world.start(plan_of(tmp_path / "data", data={"classes": classes}), home).session
    assert not found(folder)
    for what, (later, change) in EDITS.items():
        file = step_of(folder, drawn_in + later)
        whole, path = file.read_bytes(), str(file.relative_to(folder.parent))
        step = json.loads(whole)
        change(step)
        rewritten(folder, path, world.canonical_json(step).encode())
        assert found(folder), what
        rewritten(folder, path, whole)

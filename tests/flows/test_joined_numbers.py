"""All numbers together: asked about if public rows cluster, in rounds of their own, published and verified."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.clusters import clustered, permuted, tables_of_clusters
from tests.support.edited import LAST_MODEL, MODEL, missed
from tests.support.homes import certificate_of
from tests.support.people import changed
from tests.world import Run, Summary, parse_plan, scorecard_json, start, verify, verify_published


def rounds_of(summary: Summary, home: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((home / "released" / summary.session).glob("rounds/*"))]


def test_clusters_of_public_rows_are_asked_about_verified_and_predicted(tmp_path: Path, home: Path) -> None:
    plan = parse_plan(tables_of_clusters(tmp_path / "data"))
    summary = start(plan, home)
    assert summary.student["public_test"]["accuracy"] > 0.95
    rounds = rounds_of(summary, home)
    assert [file["question"]["what"] for file in rounds[:4]] == ["codes", "codes", "labels", "labels"]
    asked = [file["question"]["fields"] for file in rounds[:4]]
    assert [len(fields) for fields in asked] == [5, 1, 1, 5]
    assert [file["decoded"] is not None for file in rounds[:4]] == [False, False, False, True]
    assert [check for check in verify(home) if not check.ok] == []
    report = Path(summary.report).read_text()
    assert "since public rows cluster, one for all its numbers together" in report
    assert report.count(">all numbers together</td>") == 2
    views = certificate_of(summary).student.views or ""
    assert views.startswith("columns, and by cells of all numbers together: public rows cluster (R = 0.")
    assert f"Records were counted by {views}." in report
    again = start(plan, home)
    assert (again.session, again.spent_now["epsilon"]) == (summary.session, 0.0)
    run, public = Run(summary, home), pl.read_parquet(plan.path("public"))
    assert run.student.predict(public).tolist() == run.labels["label"].to_list()
    assert np.array_equal(run.student.predict_proba(public[:1]), run.student.predict_proba(public)[:1])
    assert json.loads(scorecard_json(run.student))["numbers together"]["columns"] == clustered(1, 0).columns[:4]


@pytest.mark.slow
def test_columns_alone_are_asked_if_a_plan_says_so_or_public_rows_do_not_cluster(tmp_path: Path, home: Path) -> None:
    given = tables_of_clusters(tmp_path / "data")
    off = start(changed(given, labeling__joined=False), home)
    assert [len(file["question"]["fields"]) for file in rounds_of(off, home)[:2]] == [5, 5]
    assert "all its numbers together" not in Path(off.report).read_text()
    assert certificate_of(off).student.views == "columns alone: labeling.joined is false"
    permuted(clustered(800, 2), 4).drop("outcome").write_parquet(tmp_path / "data" / "public.parquet")
    no_clusters = start(changed(given, data__version="2"), home, new_session=True)
    views = certificate_of(no_clusters).student.views or ""
    assert views.startswith("columns alone: public rows do not cluster (R = ")
    assert [len(file["question"]["fields"]) for file in rounds_of(no_clusters, home)[:2]] == [5, 5]
    assert [check for check in verify(home) if not check.ok] == []


@pytest.mark.slow
def test_another_student_learns_from_what_was_released(tmp_path: Path, home: Path) -> None:
    given = tables_of_clusters(tmp_path / "data")
    first = start(parse_plan(given), home)
    forest = {"estimator": "sklearn.ensemble.RandomForestClassifier", "params": {"n_estimators": 30}}
    other = start(parse_plan({**given, "student": forest}), home)
    assert (other.session, other.spent_now["epsilon"]) == (first.session, 0.0)
    assert other.student["public_test"]["accuracy"] > 0.95


@pytest.mark.slow
def test_an_edit_of_any_field_of_its_rounds_is_found(tmp_path: Path, home: Path) -> None:
    """Of the first round with a model, too: before it, no question follows from sums."""
    folder = home / "released" / start(parse_plan(tables_of_clusters(tmp_path / "data")), home).session
    drawn = {"sums.*"} | MODEL | LAST_MODEL
    places = {place for number in range(4) for place in missed(folder, f"{folder.name}/rounds/round-{number:05d}.json")}
    assert places - drawn == set()
    assert [check for check in verify_published(folder) if not check.ok] == []

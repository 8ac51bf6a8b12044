"""The command `plan`: what it expects of the plan's own mechanism, what it prints, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support import console
from tests.support.clusters import tables_of_clusters
from tests.support.people import tables_of_plan, write_plan, write_tables
from tests.support.sentences import says
from tests.world import Summary, show, span


def concord(*arguments: str) -> tuple[int, str, str]:
    return console.concord("plan", *arguments)


def planned(*arguments: str) -> Any:
    status, printed, _ = concord(*arguments, "--json")
    assert status == 0
    return json.loads(printed)


def test_json_holds_the_mechanism_of_the_plan_alone(tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path)))
    tables, found = tables_of_plan(tmp_path), planned(plan)
    (own,) = found["mechanisms"]
    assert (own["name"], own["cutoff"]) == ("stable", 12)
    assert own["feasible"] == found["votes"]["feasible"]
    rows = pl.read_parquet(tmp_path / tables["data"]["public"]).height
    assert 0 < own["expected_answered"] <= rows == found["queries"]
    assert (found["epsilon"], found["teachers"]) == (tables["privacy"]["epsilon"], tables["teachers"]["count"])
    assert says(" ".join(concord(plan)[1].split()), "stable, cutoff 12", f"{own['expected_answered']:,.0f} of {rows}")


def test_a_plan_that_relabels_is_planned_with_what_relabelling_leaves(tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path), relabel__share=0.3))
    found, printed = planned(plan), " ".join(concord(plan)[1].split())
    inner, whole = found["mechanism_at"], tables_of_plan(tmp_path)["privacy"]
    assert (found["epsilon"], found["delta"]) == (whole["epsilon"], whole["delta"])
    assert inner["epsilon"] != whole["epsilon"]
    assert found["relabel"]["share"] == 0.3
    assert f"ε = {inner['epsilon']:.4g}, δ = {inner['delta']:.4g}" in printed
    assert "Teachers learn from a secret subset alone: 30.0%" in printed


UNIVERSAL = {"student__learner": "universal", "student__hypotheses": "stumps"}


def test_a_student_that_is_chosen_without_labels_is_not_simulated(tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path), teachers=None, labeling=None, **UNIVERSAL))
    found, printed = planned(plan), " ".join(concord(plan)[1].split())
    assert (found["epsilon"], found["delta"]) == (4.0, 0.0)
    assert [own["name"] for own in found["mechanisms"]] == ["universal"]
    assert says(printed, "ε = 4", "universal", found["lifetime"]["reason"])


WAYS: dict[str, dict[str, Any]] = {
    "tallies": {"labeling__mechanism": "tallies", "labeling__cutoff": None, "teachers": None},
    "votes": {},
}


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("way", WAYS)
def test_recall_and_auc_of_each_class_are_stated_beside_accuracy(tmp_path: Path, way: str) -> None:
    """The rare class has 1 % of the public test rows, and so of what is simulated."""
    rows = pl.read_parquet(write_tables(tmp_path) / "test.parquet").drop("outcome").head(100)
    rows.with_columns(outcome=pl.Series(["yes"] + ["no"] * 99)).write_parquet(tmp_path / "test.parquet")
    plan = str(write_plan(tmp_path, labeling__rows=3000, **WAYS[way]))
    found, printed = planned(plan)[way], " ".join(concord(plan)[1].split())
    often, seldom = found["classes"]
    assert (often["name"], often["missed"]) == ("no", [])
    assert seldom["share"] == pytest.approx([1.5 / 101] * 2, abs=2e-3)
    assert seldom["recall"][0] < 0.05
    assert 0.4 < seldom["auc"][0] <= seldom["auc"][1]
    assert "weak" in seldom["missed"]
    assert "expect an accuracy of 9" in printed
    assert says(printed, "recall", "0", "'yes'", " or ".join(seldom["missed"]))
    for row in (f"│ yes │ 1.5% │ {span(seldom['recall'])} │ {span(seldom['auc'])} │", "share of rows ┃ recall ┃ AUC"):
        assert row in printed


def test_nothing_private_is_opened(tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path)))
    before = planned(plan)
    (tmp_path / tables_of_plan(tmp_path)["data"]["private"]).unlink()
    assert planned(plan) == before


def test_what_is_said_of_a_run_keeps_its_brackets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A key of the plan and a folder's name are no markup of the console."""
    words, home = "none can be labelled; more `queries` would pay for some", tmp_path / "[home]"
    summary = Summary.model_construct(
        session="people-1",
        guarantee={"in_words": "ε = 1, δ = 1e-06 for one row"},
        mechanism={"name": "noisy_votes"},
        teachers=1,
        asked=1,
        answered=1,
        refused=0,
        later_rows=words,
        student={"champion": True},
        warnings=[],
        lifetime={"now": 0.1, "used": 0.1, "more": 2},
        certificate=str(home / "certificate.json"),
        report=str(home / "report.html"),
    )
    show(summary, home)
    shown = capsys.readouterr().out
    assert words in shown
    assert shown.count("[home]") == 3


def test_a_plan_says_which_views_of_a_row_are_counted_and_why(tmp_path: Path) -> None:
    tables_of_clusters(tmp_path)
    plan = str(write_plan(tmp_path, data__unit=None, labeling__rows=4000, **WAYS["tallies"]))
    tallies, printed = planned(plan)["tallies"], " ".join(concord(plan)[1].split())
    assert tallies["views"].startswith("columns, and by cells of all numbers together: public rows cluster (R = 0.")
    assert f"Rows are counted by {tallies['views']}." in printed
    assert printed.count("│ all numbers │") == sum(ahead["together"] for ahead in tallies["rounds"]) == 2

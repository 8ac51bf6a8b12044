"""The command `plan`: figures from options, from a plan and from a guess; what it prints, draws and refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from concord.artifacts.schemas import TextFormat
from concord.flows.cli.show import show
from concord.flows.outcome import Summary
from concord.tasks.advice.expect import read_agreement
from concord.tasks.advice.rehearse import span
from tests.support import console
from tests.support.people import tables_of_plan, write_plan, write_tables
from tests.support.sentences import says

ASKED = ("--epsilon", "1", "--delta", "1e-5", "--teachers", "300", "--queries", "300", "--classes", "2")


def concord(*arguments: str) -> tuple[int, str, str]:
    return console.concord("plan", *arguments)


def planned(*arguments: str) -> Any:
    status, printed, _ = concord(*arguments, "--json")
    assert status == 0
    return json.loads(printed)


def test_json_holds_the_mechanisms_best_first_with_their_reasons() -> None:
    found = planned(*ASKED)
    keys = {"name", "feasible", "cutoff", "margin_needed", "expected_answered", "reason"}
    assert all(keys <= set(item) for item in found["mechanisms"])
    best = found["mechanisms"][0]
    assert found["recommended"]["name"] == best["name"]
    assert found["recommended"]["reason"].startswith(best["reason"])
    assert best["informative"] == max(item["informative"] for item in found["mechanisms"])


def test_the_table_names_every_mechanism_and_the_one_to_take() -> None:
    status, printed, _ = concord(*ASKED)
    assert status == 0
    best = planned(*ASKED)["recommended"]["name"]
    assert f"Recommended: {best}, " in printed
    assert "the largest class has 90.0% of the votes" in printed
    for name in ("stable", "sparse_vector", "published", "noisy_votes", "confident", "laplace_votes"):
        assert name in printed


def test_a_plan_says_its_figures_and_options_go_before_it(tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path)))
    tables = tables_of_plan(tmp_path)
    found = planned(plan)
    assert found["epsilon"] == tables["privacy"]["epsilon"]
    assert found["teachers"] == tables["teachers"]["count"]
    assert found["classes"] == len(tables["data"]["classes"])
    assert found["queries"] == pl.read_parquet(tmp_path / tables["data"]["public"]).height
    assert planned(plan, "--teachers", "999")["teachers"] == 999
    assert planned(plan, "--queries", "7")["queries"] == 7


def test_a_plan_that_relabels_is_planned_with_what_relabelling_leaves(tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path), relabel__share=0.3))
    found, printed = planned(plan), concord(plan)[1]
    inner, whole = found["mechanism_at"], tables_of_plan(tmp_path)["privacy"]
    assert (found["epsilon"], found["delta"]) == (whole["epsilon"], whole["delta"])
    assert inner["epsilon"] != whole["epsilon"]
    assert found["relabel"]["share"] == 0.3
    assert f"ε = {inner['epsilon']:.4g}, δ = {inner['delta']:.4g}, 150 teachers" in printed
    assert "Teachers learn from a secret subset alone: 30.0%" in " ".join(printed.split())


def test_the_planned_mechanism_is_stated_and_simulated(tmp_path: Path) -> None:
    own = planned(str(write_plan(write_tables(tmp_path))))
    assert (own["planned"]["name"], own["planned"]["cutoff"]) == ("stable", 12)
    assert (own["votes"]["mechanism"], own["votes"]["cutoff"]) == ("stable", 12)
    best = planned(*ASKED)
    assert (best["planned"], best["votes"]) == (None, None)


def test_auto_stands_for_votes_that_end_at_the_cutoff_of_the_plan(tmp_path: Path) -> None:
    changes = {"labeling__mechanism": "auto", "labeling__cutoff": 9}
    found = planned(str(write_plan(write_tables(tmp_path), **changes)))
    assert (found["planned"]["name"], found["planned"]["cutoff"]) == ("stable", 9)


UNIVERSAL = {"student__learner": "universal", "student__hypotheses": "stumps"}


def test_a_student_that_is_chosen_is_told_of_instead_of_mechanisms(tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path), teachers=None, labeling=None, **UNIVERSAL))
    found, printed = planned(plan), " ".join(concord(plan)[1].split())
    assert (found["mechanisms"], found["delta"], found["choice"]["epsilon"]) == ([], 0.0, 4.0)
    assert f"one of {found['choice']['candidates']:,} stumps" in printed
    assert "margin needed" not in printed
    units = found["choice"]["private_units"]
    assert all(f"{count:,}" in printed for count in units.values())
    dearer = planned(plan, "--epsilon", "2")["choice"]["private_units"]
    assert all(dearer[excess] > count for excess, count in units.items())
    assert concord(plan, "--teachers", "7")[::2] == (
        2,
        "concord: --teachers is not used for a plan whose student is chosen without teachers",
    )


def test_a_student_that_is_chosen_beside_labels_is_told_of_as_well(tmp_path: Path) -> None:
    found = planned(str(write_plan(write_tables(tmp_path), **UNIVERSAL, student__epsilon=1.5)))
    assert (found["choice"]["epsilon"], found["mechanism_at"]["epsilon"]) == (1.5, 2.5)
    assert found["mechanisms"]


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


def test_more_agreement_answers_more() -> None:
    torn, agreed = (
        next(item for item in planned(*ASKED, "--agreement", share)["mechanisms"] if item["name"] == "stable")
        for share in ("0.8", "0.98")
    )
    assert torn["expected_answered"] < agreed["expected_answered"]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_a_guess_may_be_a_table_of_votes_or_of_shares(tmp_path: Path, suffix: str) -> None:
    votes = pl.DataFrame({"yes": [8, 2, 4], "no": [0, 6, 4]})
    shares = votes.select((pl.max_horizontal("yes", "no") / 8).alias("share"))
    paths = [str(tmp_path / f"{name}.{suffix}") for name in ("votes", "shares")]
    for path, frame in zip(paths, (votes, shares), strict=True):
        writers: dict[str, Callable[[str], object]] = {
            "parquet": frame.write_parquet,
            "csv": frame.write_csv,
            "arrow": frame.write_ipc,
        }
        writers[suffix](path)
    assert np.array_equal(read_agreement(paths[0], 2), votes.to_numpy())
    assert np.array_equal(read_agreement(paths[1], 2), shares.to_numpy()[:, 0])
    assert planned(*ASKED, "--agreement", paths[0]) == planned(*ASKED, "--agreement", paths[1])


def test_a_guess_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("yes;no\n0,875;0,125\n0,5;0,5\n")
    for form in (None, TextFormat(separator=";", decimal=",")):
        assert np.array_equal(read_agreement(str(path), 2, form), [[0.875, 0.125], [0.5, 0.5]])


WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a figure is missing": (ASKED[:-2], 2, "--classes must be given"),
    "no such plan": (("nowhere.toml",), 2, "nowhere.toml does not exist"),
    "epsilon of zero": ((*ASKED, "--epsilon", "0"), 2, "epsilon must be positive"),
    "no teachers": ((*ASKED, "--teachers", "0"), 2, "teachers >= 1"),
    "one class": ((*ASKED, "--classes", "1"), 2, "classes at least 2"),
    "agreement below chance": ((*ASKED, "--agreement", "0.4"), 2, "agreement must be above 1/classes"),
    "agreement in no file": ((*ASKED, "--agreement", "nowhere.csv"), 2, "nowhere.csv does not exist"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_one_sentence(wrong: str) -> None:
    arguments, status, words = WRONG[wrong]
    found, printed, sentence = concord(*arguments)
    assert (found, printed) == (status, "")
    assert words in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b,c\n1,2,3\n", "or 2, of votes"), ("a,b\n1,x\n", "numbers alone"), ("a,b\n1,\n", "a number in every cell")],
)
def test_a_table_that_is_no_guess_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(text)
    status, _, sentence = concord(*ASKED, "--agreement", str(path))
    assert status == 2
    assert words in sentence


def test_where_nothing_works_it_says_so() -> None:
    arguments = (*ASKED, "--teachers", "3", "--epsilon", "0.1")
    found = planned(*arguments)
    assert found["recommended"] is None
    assert "within the budget" in found["reason"]
    assert "within the budget" in concord(*arguments)[1].replace("\n", " ")


def test_what_is_said_of_a_run_keeps_its_brackets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A key of the plan and a folder's name are no markup of the console."""
    words, home = "none can be labelled; more `queries` would pay for some", tmp_path / "[home]"
    summary = Summary.model_construct(
        session="people-1",
        guarantee={"epsilon": 1.0, "delta": 1e-6, "unit": "one row"},
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

"""The whole pipeline of labels, end to end: which stages run again, what asks for a new session, and what stops a run.
The life of sessions of every kind is in tests/promises/test_lifecycle.py."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.homes import cached, charged, labels_of
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.refusing import REFUSE
from tests.world import BudgetRefused, Ledger, NotVerified, Plan, WrongInput, parse_plan, stage_named, start

BEFORE_DOOR = ("encode", "split", "teach", "poll", "release")
"""The stages until a student learns, of a plan that has its rows voted on as they are."""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return changed(tables_of_plan(write_tables(tmp_path / "data")))


def test_a_run_publishes_a_student_better_than_guessing(plan: Plan, home: Path) -> None:
    ample = changed(plan, privacy__epsilon=8.0, labeling__cutoff=60)  # some 15 of 300 rows are refused
    summary = start(ample, home)
    assert summary.answered + summary.refused == summary.asked
    assert summary.answered > 200
    assert summary.student["accuracy"] > 0.8
    assert 0 < summary.spent_now["epsilon"] <= ample.privacy.lifetime.epsilon
    assert summary.guarantee["epsilon"] == ample.privacy.epsilon
    for path in (summary.certificate, summary.report):
        assert (home / path).is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server", "session")
def test_another_student_runs_study_and_certify_only(plan: Plan, home: Path) -> None:
    charge = charged(home)
    other = changed(plan, student__refused="drop")
    again = start(other, home)
    assert cached(again) == BEFORE_DOOR
    assert charged(home) == charge


@pytest.mark.slow
def test_other_teachers_or_another_door_need_a_new_session(session: str, plan: Plan, home: Path) -> None:
    charge = charged(home)
    changes: list[dict[str, Any]] = [
        {"teachers__count": 151},
        {"labeling__cutoff": 13},
        {"privacy__epsilon": 3.0},
        {"data__version": "2"},
        {"labeling__mechanism": "auto", "labeling__rows": 3000},
    ]
    for change in changes:
        other = changed(plan, **change)
        with pytest.raises(BudgetRefused, match=r"--new-session.*ε"):
            start(other, home)
        assert charged(home) == charge
    further = start(other, home, new_session=True)
    assert further.session != session
    assert further.spent_now["epsilon"] > 0
    assert start(plan, home).session == session


@pytest.mark.usefixtures("session")
def test_a_budget_that_is_gone_refuses_before_private_data_is_read(plan: Plan, home: Path) -> None:
    charge = charged(home)
    Path(plan.path("private")).write_text("none of the columns\n")  # whoever reads it now fails with another error
    dear = changed(plan, privacy__epsilon=8.9, labeling__mechanism="noisy_votes", labeling__cutoff=None)
    with pytest.raises(BudgetRefused, match=r"budget does not cover.*a session of up to ε = \d\S* still fits"):
        start(dear, home, new_session=True)
    assert charged(home) == charge


@pytest.mark.slow
def test_a_run_that_fails_before_the_door_freezes_no_cap(plan: Plan, home: Path) -> None:
    with pytest.raises(WrongInput, match=r"data\.private"):
        start(changed(plan, data__private="nowhere.csv"), home)
    assert Ledger.of(home).domains() == ()
    start(changed(plan, privacy__lifetime={"epsilon": 8.0, "delta": 4e-5}), home)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server", "session")
def test_a_vault_file_that_changed_is_refused(plan: Plan, home: Path) -> None:
    charge, stages = charged(home), {"shards": "teach", "teachers": "poll", "votes": "release", "public": "poll"}
    for folder, stage in stages.items():
        whole = {file: file.read_bytes() for file in (home / "vault" / folder).rglob("*") if file.is_file()}
        for file, content in whole.items():  # votes counted ahead are read by nobody
            file.write_bytes(content[:-40] + bytes(40))
        with pytest.raises(NotVerified, match="not what was written"):
            start(plan, home, start_from=stage_named(stage))
        for file, content in whole.items():
            file.write_bytes(content)
    assert charged(home) == charge


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_running_from_a_stage_runs_it_and_those_after(session: str, plan: Plan, home: Path) -> None:
    charge, labels = charged(home), labels_of(home, session)
    again = start(plan, home, start_from="poll")
    assert cached(again) == ("encode", "split", "teach", "release")
    assert labels_of(home, session) == labels
    assert charged(home) == charge


def odd_number(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(visits=pl.col("visits").cast(pl.String).replace("3", "3.5x"))


def nulls(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.lit(None, pl.String).alias(name) for name in ("size", "shade", "outcome"))


@pytest.mark.parametrize(
    "oddity",
    [
        pytest.param(lambda table: nulls(odd_number(table)), id="nulls and odd types"),
        pytest.param(lambda table: table.head(3), id="fewer units than shards"),
        pytest.param(lambda table: table.clear(), id="empty"),
    ],
)
@pytest.mark.slow
def test_private_content_never_stops_a_run(
    plan: Plan, home: Path, oddity: Callable[[pl.DataFrame], pl.DataFrame]
) -> None:
    oddity(people(6000, 1)).write_csv(plan.path("private"))
    assert start(plan, home).asked > 0


@pytest.mark.slow
def test_auto_is_the_mechanism_it_stands_for(plan: Plan, home: Path) -> None:
    """It is chosen from public figures, and asking for it by name goes on with the same session."""
    first = start(changed(plan, labeling__mechanism="auto", labeling__cutoff=None), home)
    chosen = {"labeling__mechanism": first.mechanism["name"], "labeling__cutoff": first.mechanism.get("cutoff")}
    assert start(changed(plan, **chosen), home).session == first.session


@pytest.mark.slow
def test_auto_may_stand_for_tallies(plan: Plan, home: Path) -> None:
    """What runs is the plan that names them: asking for it by name goes on with the same session."""
    asked = changed(plan, labeling__mechanism="auto", labeling__cutoff=None, labeling__rows=3000)
    first = start(asked, home)
    assert (first.mechanism["name"], first.teachers, first.inferred) == ("tallies", 0, 300)
    named = parse_plan(asked.naming("tallies").model_dump(exclude_unset=True))
    again = start(named, home)
    assert (again.session, again.asked_now, again.spent_now["epsilon"]) == (first.session, 0, 0.0)
    assert start(asked, home).asked_now == 0


@pytest.mark.usefixtures("session")
def test_the_plan_must_agree_with_its_domain(plan: Plan, home: Path) -> None:
    with pytest.raises(WrongInput, match="unit"):
        start(changed(plan, data__unit=None), home)
    with pytest.raises(WrongInput, match="lifetime"):
        start(changed(plan, privacy__lifetime={"epsilon": 10.0, "delta": 4e-5}), home)


@pytest.mark.slow
def test_words_of_free_text_decide_and_the_student_needs_scikit_learn_alone(
    home: Path, tmp_path: Path, concord: Callable[..., tuple[int, str, str]]
) -> None:
    """Nobody's note is twice the same: a vocabulary of them would teach nothing."""
    write_tables(tmp_path)
    for table, seed in (("private.csv", 1), ("public.parquet", 2), ("test.parquet", 3)):
        rows = people(6000 if seed == 1 else 300, seed)
        note = [
            f"on day {day}, {'a Cough.' if said == 'yes' else 'rested'}" for day, said in enumerate(rows["outcome"])
        ]
        rows = rows.select("person", "outcome", "shade", note=pl.Series(note))
        rows = rows.drop("outcome", "person") if seed == 2 else rows
        rows.write_csv(tmp_path / table) if seed == 1 else rows.write_parquet(tmp_path / table)
    plan = changed(tables_of_plan(tmp_path), data__text=["note"], labeling__cutoff=60, privacy__epsilon=8.0)
    summary = start(plan, home)
    assert summary.student["public_test"]["accuracy"] > 0.95
    status, printed, _ = concord("export", summary.session, "--to", str(tmp_path / "student"))
    assert status == 0
    assert "scorecard.json" not in printed  # it is not linear
    ask = "import pandas; print(*model.predict(pandas.DataFrame({'shade': 'dark', 'note': ['A cough!', 'rested']})))"
    program = f"{REFUSE}import runpy; model = runpy.run_path('example.py')['student']; {ask}"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, cwd=tmp_path / "student", capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["yes", "no"]

"""The whole pipeline of labels, end to end: what asks for a new session, alone and at once, and what stops a run.
The life of sessions of every kind is in tests/promises/test_lifecycle.py."""

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.homes import charged
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.refusing import REFUSE
from tests.world import Ledger, NotVerified, Plan, Summary, door_locks, flows_run, parse_plan, stage_named, start


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return changed(tables_of_plan(write_tables(tmp_path / "data")))


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
def test_auto_may_stand_for_tallies(plan: Plan, home: Path) -> None:
    """What runs is the plan that names them: asking for it by name goes on with the same session."""
    asked = changed(plan, labeling__mechanism="auto", labeling__cutoff=None, labeling__rows=3000)
    first = start(asked, home)
    assert (first.mechanism["name"], first.teachers, first.inferred) == ("tallies", 0, 300)
    named = parse_plan(asked.naming("tallies").model_dump(exclude_unset=True))
    again = start(named, home)
    assert (again.session, again.asked_now, again.spent_now["epsilon"]) == (first.session, 0, 0.0)
    assert start(asked, home).asked_now == 0


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


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_the_loser_takes_up_the_winners_session_and_spends_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were admitted when there was no session yet; at the door the second was refused: ask for --new-session."""
    small = {"teachers__count": 40, "teachers__block": 40, "labeling__cutoff": 4}
    plan = changed(tables_of_plan(write_tables(tmp_path / "data")), **small)
    admitted, losers = threading.Event(), ThreadPoolExecutor(1)
    second: list[Future[Summary]] = []
    private_of = flows_run.PrivateFiles.of

    def naming(*arguments: Any) -> flows_run.PrivateFiles:
        if second:
            admitted.set()  # the loser got past the winner, who has opened nothing yet
        else:
            second.append(losers.submit(start, plan, home))
            assert admitted.wait(300)
        return private_of(*arguments)

    opening = door_locks.opening
    monkeypatch.setattr(flows_run, "opening", lambda vault, identity, _: opening(vault, identity, admitted.set))
    monkeypatch.setattr(flows_run.PrivateFiles, "of", naming)
    winner = start(plan, home)
    loser = second[0].result()
    assert (loser.session, loser.run_id) == (winner.session, winner.run_id)
    assert loser.spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert winner.spent_now["epsilon"] > 0
    assert all(stage.cached for stage in loser.stages)
    assert len(Ledger.of(home).sessions("people")) == 1

"""What is special to the estimate of how much teachers err: it is no session that a run could mean; its life:
tests/promises/test_lifecycle.py."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from mlflow.tracking import MlflowClient

from tests import world
from tests.support.homes import certificate_of
from tests.support.made import content_of, frame_of
from tests.support.people import changed, tables_of_plan, write_plan, write_tables

ASKED: dict[str, Any] = {"epsilon": 0.5, "share": 0.3, "beta": 0.05}


@pytest.fixture
def plan(tmp_path: Path) -> world.Plan:
    return changed(tables_of_plan(write_tables(tmp_path / "data")), teachers__count=60, teachers__block=30)


def ask(plan: world.Plan, home: Path, *, again: bool = False, **other: Any) -> dict[str, Any]:
    result: dict[str, Any] = world.estimate(plan, home=home, **{**ASKED, **other}, again=again)
    return result


def test_it_says_how_much_teachers_err_and_what_that_asks_for_and_records_nothing_else(
    plan: world.Plan, home: Path
) -> None:
    result = ask(plan, home, epsilon=2.0)
    assert 0.0 < result["rate"] < result["upper_rate"] < 0.4
    assert (result["queries"], result["teachers"]) == (300, 60)
    assert 1 <= result["cutoff"] <= 300
    session = world.Ledger.of(home).session(result["session"])
    assert session.epsilon == 2.0
    assert session.delta == session.reserved.delta == 0
    released = json.loads(Path(result["estimate"]).read_bytes())
    assert set(released) == {"format", "session", "epsilon", "delta", "settings", "sum"}
    metrics = MlflowClient(f"sqlite:///{home / 'mlflow.db'}").get_run(result["run_id"]).data.metrics
    assert metrics["rate"] == result["rate"]
    assert set(metrics) == {
        *("epsilon", "delta", "rate", "upper_rate", "queries", "beta", "cutoff"),
        *("shards", "steps", "scale", "share"),
    }
    surer = ask(plan, home, epsilon=2.0, beta=0.01)  # follows from what was released
    assert (surer["session"], surer["run_id"]) == (session.id, result["run_id"])
    assert surer["cutoff"] >= result["cutoff"]
    assert ask(changed(plan, labeling__cutoff=7), home, epsilon=2.0)["session"] == session.id
    with pytest.raises(world.BudgetRefused, match="further session"):
        ask(plan, home, share=0.4)
    assert ask(plan, home, share=0.4, again=True)["session"] != session.id


@pytest.mark.slow
def test_a_run_needs_no_new_session_after_it_nor_it_after_a_run(plan: world.Plan, home: Path) -> None:
    """It answered no row, so a run cannot have meant it; and it is asked for by a command of its own."""
    first, run = ask(plan, home), world.start(plan, home)
    assert run.spent_now["epsilon"] > 0
    assert (first["conversion"] > 0, run.conversion) == (True, 0.0)  # the first session of a domain pays it for all
    assert ask(plan, home)["session"] == first["session"]
    charges = certificate_of(run).domain.charges
    assert (charges[0].session, charges[0].mechanism) == (first["session"], "error_estimate")
    assert charges[0].share > 0
    assert first["session"] in Path(run.report).read_text()
    (domain,) = world.budget_of(home)["domains"]
    assert [session["id"] for session in domain["sessions"]] == [first["session"], run.session]
    with pytest.raises(world.BudgetRefused, match="further session"):
        world.start(changed(plan, labeling__cutoff=5), home)


def test_the_command_says_the_next_step(concord: Callable[..., Any], home: Path, tmp_path: Path) -> None:
    changes = {"teachers__count": 60, "teachers__block": 30, "labeling__cutoff": None}  # which is what it is asked for
    path = write_plan(write_tables(tmp_path / "data"), **changes)
    status, out, _ = concord("estimate", str(path), "--epsilon", "0.5", "--home", str(home))
    assert status == 0
    assert re.search(r"budget +this session \d\.\d% of the lifetime budget; room for [\d,]+ more such", out)
    enough = r"set cutoff = \d+ in \[labeling\], .* except with probability 0.05, if teachers are so many that noise"
    assert re.search(enough, out) or "pays by row" in out


def test_errors_are_those_of_rows_set_aside(plan: world.Plan, tmp_path: Path) -> None:
    """A shard that has nothing set aside, or nothing else, measures without failing."""
    encoding, vault = world.learn_encoding(plan), world.Vault(tmp_path / "vault")
    teachers = world.TeachersPlan(count=60, estimator="sklearn.dummy.DummyClassifier")
    (first, _) = world.split(world.PrivateRows(plan, encoding, vault, bytes(32)), "shards", aside=0.3)
    rows = frame_of(first, vault)
    assert rows[world.ASIDE].mean() == pytest.approx(0.3, abs=0.05)
    counted = content_of(world.measure(first, teachers, encoding, vault, "m"), vault)
    wrong, tested = np.frombuffer(counted, np.int64).reshape(-1, 2).T
    for shard in range(30):
        mine = rows.filter(pl.col(world.SHARD) == shard)
        common = mine.filter(~pl.col(world.ASIDE))["concord.label"].mode().min()
        tried = mine.filter(world.ASIDE)
        assert tested[shard] == tried.height
        assert wrong[shard] == (tried["concord.label"] != common).sum()
    for share in (1e-12, 1 - 1e-12):
        (block, _) = world.split(world.PrivateRows(plan, encoding, vault, bytes(32)), f"shards-{share}", aside=share)
        measured = content_of(world.measure(block, teachers, encoding, vault, f"m-{share}"), vault)
        wrong, of = np.frombuffer(measured, np.int64).reshape(-1, 2).T
        assert np.all(wrong <= of)

"""The command line on a home: what it prints for programs and for people, and its exit statuses. Wrong plans and tables
are in tests/texts/wrong_inputs.py."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests import world
from tests.support.console import concord as without_home
from tests.support.console import heard
from tests.support.pages import blocks, page
from tests.support.people import people, write_plan, write_tables
from tests.support.published import SESSION, session, world_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tables(tmp_path / "data")


def plan_of(folder: Path, **changes: Any) -> str:
    """The plan of the fixture `session`, as a file: a run of it answers from what was copied."""
    return str(write_plan(folder, **{"privacy__epsilon": 8.0, "labeling__cutoff": 60, **changes}))


def test_the_home_may_be_named_before_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "environment"))
    before, after = ("--home", str(tmp_path / "before")), ("--home", str(tmp_path / "after"))
    for arguments, named in (((*before, "budget"), "before"), ((*before, "budget", *after), "after")):
        status, _, error = without_home(*arguments)
        assert (status, error.split(": name it")[0]) == (
            1,
            f"concord: there is no home folder of concord at {tmp_path / named}",
        )


def test_a_home_that_may_not_be_read_is_no_wrong_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read any
    for words in (("budget", "--home", str(tmp_path)), ("--home", str(tmp_path), "budget")):
        assert without_home(*words)[0] == world.EnvironmentFailed.exit_status


def test_a_table_that_does_not_fit_is_refused_in_a_sentence(concord: Callable[..., Any], folder: Path) -> None:
    for table in ("private", "public", "test"):
        status, _, error = concord("run", str(write_plan(folder, **{f"data__{table}": "nowhere.csv"})))
        assert (status, f"data.{table}" in error) == (2, True)
    status, _, error = concord("run", str(write_plan(folder, data__features=["size", "height"])))
    assert (status, "'height'" in error) == (2, True)


@pytest.mark.usefixtures("prefect_server", "session")
def test_a_misspelt_session_is_told_where_the_sessions_are_listed(concord: Callable[..., Any], folder: Path) -> None:
    for typed in ("verify people-1", "export people-1 --to x", f"predict people-1 {folder}/public.parquet --out y.csv"):
        status, _, error = concord(*typed.split())
        assert (status, "people-1" in error, "`concord budget` lists" in error) == (2, True, True)
    assert "people-1/certificate.json" not in error


@pytest.mark.usefixtures("prefect_server", "session")
def test_a_port_that_none_can_be_is_refused_in_a_sentence(concord: Callable[..., Any]) -> None:
    """It was a traceback of the socket's."""
    assert concord("ui", "--port", "80000")[0] == 2


@pytest.mark.usefixtures("prefect_server", "session")
def test_json_holds_what_the_contract_names(concord: Callable[..., Any], folder: Path) -> None:
    status, out, _ = concord("run", plan_of(folder), "--json")
    printed = json.loads(out)
    assert status == 0
    assert out.count("\n") == 1
    assert {"epsilon", "delta", "unit", "neighbours"} <= set(printed["guarantee"])
    assert {"name"} <= set(printed["mechanism"])
    assert {"accuracy", "model_uri"} <= set(printed["student"])
    assert set(printed["spent_now"]) == {"epsilon", "delta"}
    assert [set(stage) for stage in printed["stages"]] == [{"name", "cached", "seconds"}] * 7
    names = "run_id session certificate teachers asked answered refused"
    assert set(names.split()) <= set(printed)


def test_budget_says_what_was_spent_and_what_remains(concord: Callable[..., Any], folder: Path) -> None:
    session = json.loads(concord("run", str(write_plan(folder)), "--json")[1])
    (domain,) = json.loads(concord("budget", "--json")[1])["domains"]
    assert domain["cap"] == {"epsilon": 9.0, "delta": 4e-5}
    assert domain["spent"]["epsilon"] == pytest.approx(session["spent_now"]["epsilon"])
    assert domain["spent"]["epsilon"] + domain["remaining"]["epsilon"] == pytest.approx(9.0)
    (listed,) = domain["sessions"]
    assert (listed["id"], listed["refused"]) == (session["session"], session["refused"])
    assert domain["spent"]["epsilon"] > session["guarantee"]["epsilon"]
    assert 0 < domain["conversion"] == session["conversion"] < domain["spent"]["epsilon"]
    assert f"including ε = {domain['conversion']:.3g} to convert" in concord("budget")[1]
    charged, budget = (float(domain["renyi"][name]) for name in ("charged", "budget"))
    now, used, more = (session["lifetime"][name] for name in ("now", "used", "more"))
    assert (now, more) == (pytest.approx(charged / budget), int((budget - charged) / charged))
    assert used == now > 0
    again = concord("run", str(folder / "plan.toml"))[1]
    assert f"budget       nothing charged; {now:.1%} used in total\n" in again
    assert "conversion" not in again


def test_what_is_left_is_said_in_words_that_fit() -> None:
    for lifetime, words in {
        (0.3, 0.3, 2): "this session 30.0% of the lifetime budget; room for 2 more such sessions",
        (0.3, 0.6, 1): "this session 30.0% of the lifetime budget; 60.0% used in total; room for 1 more such session",
        (0.3, 0.9, 0): "this session 30.0% of the lifetime budget; 90.0% used in total; no further such session fits",
        (0.0, 0.9, None): "nothing charged; 90.0% used in total",
        (-0.1, 0.2, None): "10.0% of the lifetime budget returned; 20.0% used in total",
    }.items():
        assert world.spent_in_words(dict(zip(("now", "used", "more"), lifetime, strict=True))) == words


@pytest.mark.usefixtures("session")
def test_an_honest_home_verifies_and_what_does_not_ends_in_four(
    concord: Callable[..., Any], folder: Path, home: Path
) -> None:
    status, out, _ = concord("verify", "--json")
    assert status == 0, out
    assert all(check["ok"] for check in json.loads(out)["checks"])
    labels = min((home / "released").rglob("batch-*.arrow"))
    labels.write_bytes(labels.read_bytes()[:-1] + b"?")
    assert concord("run", plan_of(folder))[0] == 4
    status, out, _ = concord("verify", "--json")
    checks = json.loads(out)
    assert (status, checks["ok"]) == (4, False)
    assert any(not check["ok"] and labels.name in check["name"] + check["detail"] for check in checks["checks"])


def test_a_server_that_fails_is_no_evidence_of_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a check that fails, exit status 4."""
    home = world_in(tmp_path / "home").home
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9/")
    status, out, _ = without_home("verify", "--home", str(home))
    assert (status, "skip MLflow store: no session is checked without it: MLFLOW_TRACKING_URI" in out) == (1, True), out
    lost = home / "released" / SESSION / "certificate.json"
    lost.parent.mkdir(parents=True)
    lost.write_bytes(b"{}")  # of a session that the ledger does not know
    status, out, _ = without_home("verify", "--json", "--home", str(home))
    checks = {check["name"]: (check["ok"], check["made"]) for check in json.loads(out)["checks"]}
    assert (status, checks["the home's sessions"], checks["MLflow store"]) == (4, (False, True), (False, False)), out


@pytest.mark.slow
@pytest.mark.usefixtures("session")
def test_a_plan_follows_the_cap_on_record_and_says_so(concord: Callable[..., Any], home: Path, folder: Path) -> None:
    """Once `concord domain` had changed the cap, every plan was a wrong one."""
    status, _, error = concord("domain", "people", "--epsilon", "0.1", "--delta", "1e-9", "--reason", "less")
    assert (status, "people" in error) == (3, True)  # below what is spent
    higher = {"privacy__lifetime": {"epsilon": 12.0, "delta": 4e-5}}
    for name in ("plan", "run"):
        status, _, error = concord(name, plan_of(folder, **higher))
        assert status == 2
        assert "lifetime.epsilon of domain 'people' is 9.0 on the record, got 12.0: the plan that first named" in error
    assert concord("domain", "people", "--epsilon", "20", "--delta", "4e-5", "--reason", "a new study")[0] == 0
    note = (
        "the cap of domain 'people' is (ε 20, δ 4e-05), set by `concord domain`; privacy.lifetime in the "
        "plan, (ε {}, δ 4e-05), does not apply"
    )
    for changes, given in (({}, 9), (higher, 12)):
        plan = plan_of(folder, **changes)
        status, shown, error = heard("plan", plan)
        assert status == 0, error
        assert note.format(given) in " ".join(shown.split())
        status, _, error = heard("run", plan)
        assert status == 0, error
        assert note.format(given) in error
    assert len(world.Ledger.of(home).sessions("people")) == 1  # it went on with what was there
    status, _, error = heard("run", plan_of(folder, privacy__lifetime={"epsilon": 20.0, "delta": 4e-5}))
    assert (status, "has the cap" in error) == (0, False)


@pytest.mark.usefixtures("session")
def test_a_session_is_extended_closed_and_forgotten(concord: Callable[..., Any], folder: Path) -> None:
    plan = plan_of(folder)
    run = json.loads(concord("run", plan, "--json")[1])
    people(90, 5).drop("outcome", "person").write_parquet(folder / "more.parquet")
    more = (run["session"], "--public", str(folder / "more.parquet"))
    status, out, _ = concord("extend", *more, "--json")
    assert status == 0
    assert set(json.loads(out)) == set(run)
    assert json.loads(out)["asked"] == run["asked"] + 90
    assert "nothing new" in concord("extend", *more)[1]
    assert concord("extend", "nobody", *more[1:])[0] == 2
    assert concord("forget", run["session"])[0] == 2
    ended = json.loads(concord("close", run["session"], "--json")[1])
    assert (ended["status"], ended["asked"]) == ("closed", run["asked"] + 90)
    assert concord("extend", run["session"], "--public", str(folder / "test.parquet"))[0] == 3
    forgotten = json.loads(concord("forget", run["session"], "--json")[1])
    assert forgotten == {"session": run["session"], "forgotten_now": True}
    assert concord("run", plan)[0] == 3
    assert concord("verify")[0] == 0


STABLE = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)


def test_a_session_of_one_epsilon_was_said_to_be_charged_more(tmp_path: Path) -> None:
    """What it was charged is said without the part that all sessions of its domain share."""
    small = world_in(tmp_path / "home")
    session(small, STABLE, small.truth)
    status, printed, error = without_home("close", SESSION, "--home", str(small.home))
    shared = world.Ledger.of(small.home).domains()[0].filter.conversion
    assert (status, shared > 1) == (0, True), error
    assert f"(including {shared:.3g} that all sessions of its domain share)" in printed


GUIDE = page("deployments/guides/backup.md")


def test_a_home_goes_on_from_a_backup_at_the_whole_charge(tmp_path: Path) -> None:
    """As the guide copies it."""
    small = world_in(tmp_path / ".concord")
    session(small, STABLE, small.truth)
    (copied,) = (block for block in blocks("sh", page=GUIDE) if block.startswith("concord verify\n"))
    copied = copied.removeprefix("concord verify\n")
    subprocess.run(["bash", "-ec", copied.replace("../", "")], cwd=tmp_path, check=True)
    shutil.rmtree(small.home)
    (backup,) = tmp_path.glob("backup-*")
    (backup / "home").rename(small.home)
    ledger = world.Ledger.of(small.home)
    reserved, domain = ledger.session(SESSION).reserved, ledger.domains()[0]
    status, _, error = without_home("restore", "--reason", "the disk died", "--home", str(small.home))
    assert status == 0, error
    ended = ledger.session(SESSION)
    assert (ended.status, ended.charge) == ("closed", reserved)
    assert ledger.total(domain.name) == reserved
    assert world.RESTORED in world.caveats(domain, [ended], ledger)
    assert without_home("verify", SESSION, "--home", str(small.home))[0] == 0


def test_a_home_without_a_domain_has_nothing_to_restore(tmp_path: Path) -> None:
    status, _, error = without_home("restore", "--reason", "none", "--home", str(world_in(tmp_path / "home").home))
    assert (status, "nothing is to be restored" in error) == (2, True), error


def test_on_a_server_the_audit_view_is_a_link_to_the_domain_s_list_of_runs(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = store.create_experiment("people")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9/")
    monkeypatch.setattr(world.flows_home, "reopen", lambda given: given)
    monkeypatch.setattr(world.mlflow_read, "check_answers", lambda _: None)
    monkeypatch.setattr(world.mlflow_read, "client_of", lambda _: store)
    monkeypatch.setattr("sys.argv", ["concord", "ui", "people"])
    with pytest.raises(SystemExit):
        world.command()
    listed = f"http://127.0.0.1:9/#/experiments/{experiment}/runs?workflowType=machine_learning"
    assert listed in capsys.readouterr().out.replace("\n", "")


HEAPS = """
import ctypes, sys, threading
from concord.flows.cli import share_heap
if sys.argv[1] == "shared":
    share_heap()
together = threading.Barrier(4)
def work():
    held = bytearray(100_000)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such heaps")
@pytest.mark.parametrize(("heaps", "alone"), [("shared", True), ("apart", False)])
def test_threads_of_a_command_share_one_heap(heaps: str, alone: bool) -> None:
    done = subprocess.run([sys.executable, "-c", HEAPS, heaps], capture_output=True, text=True, check=True)
    assert (done.stderr.count("Arena ") == 1) is alone

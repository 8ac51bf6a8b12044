"""Concord leaves the process that it works in as it was: in a real one, with the user's own MLflow and Prefect."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.people import write_plan, write_tables
from tests.support.processes import own_environment

BEGIN = """
import json, logging, os, sys
import polars, sklearn.linear_model, sklearn.utils.parallel  # they set variables of their own
def state():
    import warnings
    return dict(os.environ), logging.raiseExceptions, os.getcwd(), [*warnings.filters]
before = state()
import concord
from concord.artifacts.errors import ConcordError
"""
COMMANDS = """
found = {}
def call(name, function, **named):
    try:
        function(**named)
    except ConcordError as error:
        found[name + " fails"] = str(error)
    found[name] = state()[:3] == before[:3]
call("missing plan", concord.run, plan="nowhere.toml", home="one")
call("run", concord.run, plan="plan.toml", home="one")
call("replay", concord.run, plan="plan.toml", home="one")
call("second home", concord.run, plan="plan.toml", home="two")
call("too much", concord.run, plan="plan.toml", home="two", new_session=True)
session = concord.run("plan.toml", home="one").session
rows = polars.read_parquet("public.parquet")
call("verify", concord.verify, home="one")
call("budget", concord.budget, home="one")
call("load", concord.load_student, subject=session, home="one")
call("registry", concord.load_student, subject="models:/people-student@champion", home="two")
call("predict", concord.predict, subject=session, rows=rows, home="one")
call("export", concord.export, subject=session, to="exported", home="one")
call("plan", concord.plan, path="plan.toml", home="one")
call("no such stream", concord.refresh, plan="plan.toml", home="one")
print(json.dumps(found))
"""
MLFLOW = """
import mlflow
from sklearn.linear_model import LogisticRegression
mlflow.set_tracking_uri("sqlite:///mine.db")
mlflow.sklearn.autolog(silent=True)
at, level = mlflow.get_tracking_uri(), logging.getLogger("mlflow").level
del os.environ["MLFLOW_TRACKING_URI"]  # as where it is set by mlflow.set_tracking_uri's caller for itself alone
concord.run("plan.toml", home="one")
mine = [(run.data.metrics, run.data.tags.get("session")) for run in mlflow.MlflowClient().search_runs(
    [each.experiment_id for each in mlflow.MlflowClient().search_experiments()])]
mlflow.set_experiment("private patients")
with mlflow.start_run(run_name="Erika Mustermann"):
    mlflow.log_metric("private", 0.9)
import subprocess
program = "import concord; print(concord.run('plan.toml', home='two').summary.run_id)"
done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
child = done.stdout.split()[-1]
found = {"logged by itself": mine, "address": mlflow.get_tracking_uri() == at,
    "level": logging.getLogger("mlflow").level == level,
    "experiments": {}}
for store in ("mine.db", "one/mlflow.db", "two/mlflow.db"):
    client = mlflow.MlflowClient(f"sqlite:///{os.path.abspath(store)}")
    found["experiments"][store] = sorted(each.name for each in client.search_experiments())
client = mlflow.MlflowClient(f"sqlite:///{os.path.abspath('two/mlflow.db')}")
found["child"] = client.get_run(child).data.tags["domain"]
found["verified"] = [each["ok"] for each in (concord.verify(home="one"), concord.verify(home="two"))]
print(json.dumps(found))
"""
PREFECT = """
from prefect import flow, get_client, tags, task
from prefect.logging import get_run_logger

@task
def in_task():
    return concord.run("plan.toml", home="one").session

@flow
def in_flow_and_task():
    with tags("mine"):
        here = concord.run("plan.toml", home="one").session
    get_run_logger().info("still mine")
    return here, in_task(), in_task.submit().result()

@flow
async def in_coroutine():
    return concord.run("plan.toml", home="one").session

import asyncio
sessions = {*in_flow_and_task(), asyncio.run(in_coroutine())}
with get_client(sync_client=True) as client:
    runs = client.read_flow_runs()
    flows = sorted(client.read_flow(run.flow_id).name for run in runs)
    states = {run.state.name for run in runs}
print(json.dumps({"sessions": len(sessions), "flows": flows, "states": [*states]}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan and its tables, where the program runs."""
    folder = tmp_path_factory.mktemp("user")
    write_tables(folder)
    write_plan(folder, privacy__epsilon=8.0, labeling__cutoff=60)
    return folder


def outcome(folder: Path, program: str, **settings: str) -> dict[str, Any]:
    """The JSON object that a program prints last, run by a user who has set nothing for Concord."""
    own = own_environment() | {"HOME": str(folder), "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300"}
    words = [sys.executable, "-c", BEGIN + program]
    done = subprocess.run(words, cwd=folder, env=own | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_the_process_is_as_before_after_every_call_also_if_it_fails_and_two_homes_work(folder: Path) -> None:
    found = outcome(folder, COMMANDS)
    fails = {name: found.pop(name) for name in [*found] if name.endswith(" fails")}
    assert set(fails) == {"missing plan fails", "too much fails", "no such stream fails"}, fails
    assert [name for name, same in found.items() if not same] == []
    assert (folder / "one" / "ledger.db").is_file()
    assert (folder / "two" / "ledger.db").is_file()


@pytest.mark.slow
def test_what_the_user_logs_in_mlflow_is_in_the_users_store_alone(folder: Path) -> None:
    found = outcome(folder, MLFLOW)
    assert found == {
        "logged by itself": [],
        "address": True,
        "level": True,
        "experiments": {
            "mine.db": ["Default", "private patients"],
            "one/mlflow.db": ["people"],
            "two/mlflow.db": ["people"],
        },
        "child": "people",
        "verified": [True, True],
    }


@pytest.mark.slow
def test_a_run_inside_the_users_own_flow_and_task_is_on_a_server_of_ours(folder: Path) -> None:
    found = outcome(folder, PREFECT)
    assert found == {"sessions": 1, "flows": ["in-coroutine", "in-flow-and-task"], "states": ["Completed"]}

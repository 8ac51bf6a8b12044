"""Schedules fire: a real Prefect server, MLflow server and worker, as compose.yaml starts them, and a worker killed."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import temporary_settings
from prefect.states import Crashed

from tests.deployments.services import Services, until
from tests.support.people import arrive, tables_of_plan, write_tables
from tests.world import Ledger, Released, Stores

pytestmark = pytest.mark.slow
EVERY = "20"
"""Seconds between runs of the test's schedule."""
LONG = 240
"""Seconds after which what is waited for is missing, on a machine that does much else."""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """All services up and healthy, and the deployments of prefect.yaml on the server."""
    with Services(tmp_path) as services:
        for service in ("prefect", "mlflow"):
            services.start(service)
        for service in ("prefect", "mlflow"):
            services.wait(service)
        services.start("worker")
        services.wait("worker")
        until(lambda: _has_pool(services), LONG, lambda: f"the worker makes no pool: {services.log('worker')}")
        deploy(services, "--name", "learn", "--name", "extend", "--name", "study")
        yield services
    assert services.processes("") == []


def _has_pool(services: Services) -> bool:
    """A worker is healthy a moment before its pool is made."""
    with temporary_settings(services.settings), get_client(sync_client=True) as client:
        return any(pool.name == "concord" for pool in client.read_work_pools())


@pytest.fixture
def server(services: Services) -> Iterator[SyncPrefectClient]:
    with temporary_settings(services.settings), get_client(sync_client=True) as client:
        yield client


def deploy(services: Services, *options: str) -> None:
    services.run("prefect", "--no-prompt", "deploy", "--prefect-file", "deployments/prefect.yaml", *options)


def asked_for(server: SyncPrefectClient, name: str, **parameters: Any) -> FlowRun:
    """A run of a deployment, asked for by hand, once it has ended."""
    deployment = server.read_deployment_by_name(f"{name}/{name}")
    run = server.create_flow_run_from_deployment(deployment.id, parameters=parameters)
    ended: FlowRun = until(lambda: _ended(server.read_flow_run(run.id)), LONG, lambda: f"{name} does not end")
    return ended


def scheduled(server: SyncPrefectClient, *states: str) -> list[FlowRun]:
    """Runs of `extend` that the schedule made and that stand in one of the states named."""
    name = server.read_deployment_by_name("extend/extend").id
    these = FlowRunFilter.model_validate({"deployment_id": {"any_": [name]}, "state": {"name": {"any_": list(states)}}})
    return [run for run in server.read_flow_runs(flow_run_filter=these) if run.auto_scheduled]


def test_schedules_fire_and_a_killed_worker_loses_nothing(
    services: Services, server: SyncPrefectClient, tmp_path: Path
) -> None:
    plan, arriving = tables_of_plan(write_tables(tmp_path / "data")), arrive(tmp_path / "arriving", 11, rows=100)
    plan["labeling"] = {"mechanism": "noisy_votes", "queries": 5000, "batch": 16}
    wrong = plan | {"privacy": plan["privacy"] | {"epsilon": -1.0}}
    with pytest.raises(PrefectHTTPStatusError, match=r"plan\.privacy\.epsilon"):
        asked_for(server, "learn", plan=wrong)
    learned = asked_for(server, "learn", plan=plan, new_session=True)
    assert (learned.state_name, Ledger.of(services.home).sessions("people")[0].asked) == ("Completed", 300)
    session = Ledger.of(services.home).sessions("people")[0].id

    deploy(
        services, "--name", "extend", "--param", "session=people", "--param", f"public={arriving}", "--interval", EVERY
    )
    first = until(lambda: scheduled(server, "Completed"), LONG, lambda: services.log("worker"))
    assert asked(services) == 400
    assert session in (first[0].state.message if first[0].state else "")
    until(lambda: scheduled(server, "NothingNew"), LONG, lambda: services.log("worker"))
    assert asked(services) == 400

    arrive(arriving, 12, rows=1600)  # a hundred batches: long enough to be killed at
    until(lambda: asked(services) > 400, LONG, lambda: services.log("worker"), pause=0.005)
    services.end("worker", signal.SIGKILL)
    assert 400 < asked(services) < 2000
    lost = scheduled(server, "Running")
    assert len(lost) == 1
    server.set_flow_run_state(lost[0].id, Crashed(message="its worker was killed"), force=True)  # else: in six minutes
    services.start("worker")
    until(lambda: len(scheduled(server, "Completed")) == 2, LONG, lambda: services.log("worker"))

    assert asked(services) == 2000
    services.run("concord", "close", session)
    arrive(arriving, 13)
    taught_again = asked_for(server, "study", session="people", student={"refused": "drop"})
    assert taught_again.state_name == "Completed", taught_again.state
    gone = until(lambda: scheduled(server, "BudgetRefused"), LONG, lambda: services.log("worker"))
    assert gone[0].state is not None
    assert gone[0].state.is_failed()
    services.end("worker", signal.SIGTERM)
    check_what_was_published(services, session)


def check_what_was_published(services: Services, session: str) -> None:
    """Every row answered once, the chain whole, a model a publication, and all of it verified."""
    door = Stores.of(services.home)
    door.ledger.verify()
    labels = Released(services.home).labels(
        [batch.outcome.released for batch in door.ledger.batches(session) if batch.outcome]
    )
    assert labels["row"].to_pylist() == list(range(2000))
    assert Counter(labels["outcome"].to_pylist()) == {"answered": 2000}
    versions = MlflowClient(services.mlflow).search_model_versions("name='people-student'")
    assert len(versions) == 4  # the plan's, two extensions', another student's; nothing new and no budget made none
    verified = json.loads(services.run("concord", "verify", "--json"))
    assert verified["ok"], verified


def asked(services: Services) -> int:
    return Ledger.of(services.home).sessions("people")[0].asked


def _ended(run: FlowRun) -> FlowRun | None:
    return run if run.state is not None and run.state.is_final() else None

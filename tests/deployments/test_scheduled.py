"""Runs that nobody watches: each ends in a state that says how it went, and none opens a session unasked."""

import logging
import shutil
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import FailedRun
from prefect.flows import Flow
from prefect.utilities.schema_tools.validation import ValidationError, validate

from tests import world
from tests.support.homes import charged, state_of
from tests.support.people import changed


def ended(flow: Flow[..., Any], **parameters: Any) -> tuple[StateType, str, str]:
    """Type, name and message of the state that a run of the flow ends in."""
    state = cast("State[Any]", flow(**parameters, return_state=True))
    return state.type, state.name or "", state.message or ""


def next_year(plan: world.Plan, home: Path) -> world.Plan:
    """The plan over newer private data, in a domain whose cap has room for a further session."""
    world.Ledger.of(home).recap("people", 30.0, 9e-5, "a second year")
    lifetime = {"epsilon": 30.0, "delta": 9e-5}
    return changed(changed(plan, data__version="2").model_dump(), privacy__lifetime=lifetime)


def runs_since(moment: datetime) -> list[FlowRun]:
    """The flow runs that began after a moment."""
    after = FlowRunFilter.model_validate({"start_time": {"after_": moment.isoformat()}})
    with get_client(sync_client=True) as client:
        return list(client.read_flow_runs(flow_run_filter=after))


@pytest.mark.slow
def test_all_that_a_deployment_s_run_does_is_on_its_own_page_and_the_next_run_finds_nothing_new(
    session: str, home: Path, arriving: Path
) -> None:
    """Before, its tasks and artifacts were those of a run inside it, which also stayed "Running" if it was killed; its
    own page had none, and a name such as impetuous-quail."""
    began, again = datetime.now(UTC), {"session": "people", "public": str(arriving), "home": home}
    kind, name, result = ended(world.start_extension, **again)
    assert (kind, name) == (StateType.COMPLETED, "Completed")
    assert result.startswith(f"session {session}: 150 rows queried now")
    (run,) = runs_since(began)
    assert run.name == f"extend {session}"
    assert {"domain:people", f"session:{session}"} <= {*run.tags}
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        )
        tasks = client.read_task_runs(flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run.id]}}))
    shown = {item.key: item.data for item in found}
    assert shown.keys() >= {"outcome", "stages"}
    assert f"concord verify {session}" in str(shown["outcome"])
    assert "| rows queried | 450 (150 by this command) |" in str(shown["outcome"])
    assert {"poll", "release", "study", "certify"} <= {task.name.split("-")[0] for task in tasks}
    state = state_of(home, session)
    assert ended(world.start_extension, **again)[:2] == (StateType.COMPLETED, "NothingNew")
    assert state_of(home, session) == state


def test_a_run_that_ends_early_is_named_for_what_it_was_to_do(home: Path, tmp_path: Path) -> None:
    began, plan = datetime.now(UTC), tmp_path / "plan.toml"
    kind, name, result = ended(world.start, plan=plan, home=home)
    assert (kind, name) == (StateType.FAILED, "WrongInput")
    assert result.startswith(f"the plan {plan} does not exist")
    ended(world.start_extension, session="nobody", public="nowhere", home=home)
    assert {run.name for run in runs_since(began)} == {f"learn {plan}", "extend nobody"}


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_caller_is_told_how_a_run_ended_though_the_server_s_answer_is_lost(
    session: str, plan: world.Plan, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect's client sends its request again, and gets the state that was recorded, which holds no result."""
    send = httpx.Client.send

    def send_twice(client: httpx.Client, request: httpx.Request, **named: Any) -> httpx.Response:
        if request.url.path.endswith("set_state"):
            send(client, request, **named)
        return send(client, request, **named)

    monkeypatch.setattr(httpx.Client, "send", send_twice)
    assert world.start(plan, home).session == session
    with pytest.raises(world.WrongInput, match="nowhere"):
        world.start(changed(plan, data__private="nowhere.csv"), home)


@pytest.mark.parametrize("runs", ["flow_runs", "task_runs"])
@pytest.mark.parametrize(
    "error", [world.BudgetRefused("the cutoff is reached"), FailedRun("the cutoff is reached"), ValueError("a fault")]
)
def test_an_error_that_is_expected_is_logged_as_one_sentence(runs: str, error: Exception) -> None:
    """Before, Prefect's page had a traceback of thirty lines of each, and the worker's log one of the state that a flow
    returned; of a fault they still have."""
    logger = logging.getLogger(f"prefect.{runs}")
    words, raised = "Encountered exception during execution: %r", (type(error), error, None)
    record = logger.makeRecord(logger.name, logging.ERROR, "engine", 1, words, (error,), raised)
    logger.filter(record)
    expected = logging.Formatter("%(message)s").format(record) == "the cutoff is reached"
    assert (expected, record.exc_info is None) == ((False, False) if isinstance(error, ValueError) else (True, True))


@pytest.mark.slow
def test_its_cache_lies_in_the_home_folder_wherever_the_worker_keeps_its_own(session: str, home: Path) -> None:
    assert cached(home) == {"encode", "split", "teach", "poll", "study", "certify"}
    shutil.rmtree(home / "results")
    assert ended(world.study_again, session=session, home=home)[1] == "Completed"  # taught again: nothing was kept
    assert cached(home) == {"study", "certify"}


def cached(home: Path) -> set[str]:
    """Stages whose results are kept; no memo is kept where the environment names a server."""
    return {file.name.split("-")[0] for file in (home / "results").iterdir()}


@pytest.mark.slow
def test_only_its_parameter_opens_a_further_session_and_a_retry_does_not(
    session: str, plan: world.Plan, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(world.start, plan=plan, home=home)[1] == "NothingNew"
    newer, charge = next_year(plan, home), charged(home)
    kind, name, result = ended(world.start, plan=newer, home=home)
    assert (kind, name, "--new-session" in result) == (StateType.FAILED, "BudgetRefused", True)
    retry = ("prefect.runtime.flow_run.run_count", 2)
    with monkeypatch.context() as patch:
        patch.setattr(*retry, raising=False)
        assert ended(world.start, plan=newer, home=home, new_session=True)[1] == "BudgetRefused"
    assert charged(home) == charge
    assert ended(world.start, plan=newer, home=home, new_session=True)[1] == "Completed"
    first, second = world.Ledger.of(home).sessions("people")
    assert (first.id, first.status, second.data_version) == (session, "open", "2")
    with monkeypatch.context() as patch:
        patch.setattr(*retry, raising=False)
        assert ended(world.start, plan=newer, home=home, new_session=True)[1] == "NothingNew"
    assert len(world.Ledger.of(home).sessions("people")) == 2


@pytest.mark.slow
def test_a_further_session_that_was_not_published_is_finished_first_by_the_page_s_retry(
    session: str, plan: world.Plan, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = next_year(plan, home)
    with monkeypatch.context() as patch:
        patch.setattr(world.flows_learn, "publish", fails)
        assert ended(world.start, plan=newer, home=home, new_session=True)[1] == "EnvironmentFailed"
    first, second = world.Ledger.of(home).sessions("people")
    charge = charged(home)
    with monkeypatch.context() as patch:
        patch.setattr("prefect.runtime.flow_run.run_count", 2, raising=False)
        ended(world.start, plan=newer, home=home, new_session=True)
    assert ([each.id for each in world.Ledger.of(home).sessions("people")], first.id) == ([session, second.id], session)
    assert charged(home) == charge
    assert (home / "released" / second.id / "certificate.json").exists()


def fails(*_: object, **__: object) -> None:
    raise world.EnvironmentFailed("the disk is full")


WRONG: tuple[tuple[str, object], ...] = (
    *(("privacy.epsilon", odd) for odd in (-1.0, "much")),
    *(("privacy.delta", 1.0), ("privacy.domain", ""), ("privacy.lifetime", 4.0), ("privacy.lifetime.epsilon", "much")),
    *(("labeling.mechanism", odd) for odd in ({"name": "stable"}, 5)),
    *(("data.format.decimal", 0), ("test.share", "half"), ("relabel.hypotheses", 2)),
)


def test_a_server_that_refuses_a_key_names_it_however_deep_it_is(plan: world.Plan) -> None:
    """It said that the whole plan was wrong, and printed it, if two rules spoke of one key."""
    schema = world.start.parameters.model_dump()
    aside = {"test": {"share": 0.1}, "relabel": {"hypotheses": "stumps", "features": ["size"]}}
    for right in ({**plan.model_dump(mode="json"), **aside}, "plan.toml"):
        validate({"plan": right}, schema, raise_on_error=True)
    for key, value in WRONG:
        tables = {**plan.model_dump(mode="json"), **deepcopy(aside)}
        *sections, last = key.split(".")
        part = tables
        for section in sections:
            part = part[section]
        part[last] = value
        with pytest.raises(ValidationError, match=rf"^Validation failed for field 'plan\.{key}'") as refused:
            validate({"plan": tables}, schema, raise_on_error=True)
        assert tables["data"]["label"] not in str(refused.value)
    schema = world.study_again.parameters.model_dump()
    for student in (None, {"refused": "drop"}):
        validate({"session": "people-1", "student": student}, schema, raise_on_error=True)
    with pytest.raises(ValidationError, match=r"^Validation failed for field 'student\.refused'"):
        validate({"session": "people-1", "student": {"refused": ["drop"]}}, schema, raise_on_error=True)


RUNNERS = {"threads": "ThreadPoolTaskRunner", "dask": "DaskTaskRunner"}


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_deployment_s_run_has_the_plan_s_own_task_runner(
    plan: world.Plan, home: Path, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its work is done in a run whose own runner was chosen before the plan was read."""
    used, task_runner = list[str](), world.task_runner

    def noted(teachers: world.TeachersPlan, folder: Path) -> Any:
        made = task_runner(teachers, folder)
        used.append(type(made).__name__)
        return made

    monkeypatch.setattr(world.flows_cluster, "task_runner", noted)
    few = changed(plan, teachers__runner=runner, teachers__count=40, teachers__block=20)
    assert ended(world.start, plan=few, home=home)[0] == StateType.COMPLETED
    assert used == [RUNNERS[runner]]

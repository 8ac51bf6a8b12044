"""MLflow mirrors what the ledger and the released files say: whatever becomes of it, nothing is lost or spent again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from tests.support.homes import charged, labels_of
from tests.support.people import changed
from tests.support.sentences import facts
from tests.world import EnvironmentFailed, Ledger, Plan, Tracking, start, verify


def client_of(home: Path) -> MlflowClient:
    return MlflowClient(f"sqlite:///{home / 'mlflow.db'}")


def people_in(home: Path) -> Any:
    """The experiment of the domain."""
    return client_of(home).get_experiment_by_name("people")


def without_its_logged_model(home: Path) -> None:
    for model in client_of(home).search_logged_models([people_in(home).experiment_id]):
        client_of(home).delete_logged_model(model.model_id)


def without_files(home: Path) -> None:
    for file in (home / "mlartifacts").rglob("report.html"):
        file.unlink()


def without_its_run(home: Path) -> None:
    for run_id in Tracking.of(home).runs(Ledger.of(home).sessions("people")[-1].id):
        client_of(home).delete_run(run_id)


LOST: dict[str, Callable[[Path], object]] = {
    "the store": lambda home: (home / "mlflow.db").unlink(),
    "the store's content": lambda home: (home / "mlflow.db").write_bytes(b"no database " * 1000),
    "its model": lambda home: client_of(home).delete_registered_model("people-student"),
    "its logged model": without_its_logged_model,
    "its files": without_files,
    "its run": without_its_run,
    "its experiment": lambda home: client_of(home).delete_experiment(people_in(home).experiment_id),
}


def shown(home: Path) -> list[str]:
    """The status of all runs that MLflow shows of the domain."""
    experiments = [experiment.experiment_id for experiment in client_of(home).search_experiments()]
    return [run.info.status for run in client_of(home).search_runs(experiments, "tags.session != ''")]


@pytest.mark.slow
@pytest.mark.parametrize("lose", LOST)
@pytest.mark.usefixtures("prefect_server")
def test_running_a_cached_plan_again_records_what_mlflow_lost(session: str, plan: Plan, home: Path, lose: str) -> None:
    before, labels = charged(home), labels_of(home, session)
    LOST[lose](home)
    again = start(plan, home)
    assert (again.session, again.asked_now, again.spent_now) == (session, 0, {"epsilon": 0.0, "delta": 0.0})
    assert [stage.name for stage in again.stages if not stage.cached] == (
        [] if lose == "its experiment" else ["certify"]
    )
    assert Tracking.of(home).runs(session) == [again.run_id]
    assert shown(home) == ["FINISHED"]
    assert [check.detail for check in verify(home) if not check.ok] == []
    assert (charged(home), labels_of(home, session)) == (before, labels)
    once_more = start(plan, home)
    assert once_more.run_id == again.run_id
    assert all(stage.cached for stage in once_more.stages)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["create_model_version", "log_artifact", "set_registered_model_alias"])
def test_a_store_that_dies_in_the_middle_is_told_and_the_next_run_records_the_session_once(
    session: str, plan: Plan, home: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "mlflow.db").unlink()
    before = charged(home)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, step, _dies)
        with pytest.raises(EnvironmentFailed, match=facts(session, "the store died", "spends nothing")):
            start(plan, home)
    assert start(plan, home).spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert shown(home) == ["FINISHED"]
    assert len(Tracking.of(home).models(session)) == 1
    assert [check.detail for check in verify(home) if not check.ok] == []
    assert charged(home) == before


def _dies(*_: object, **__: object) -> None:
    raise MlflowException("the store died")


def test_nothing_is_spent_on_what_mlflow_could_not_show(
    plan: Plan, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database " * 1000)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'broken.db'}")
    with pytest.raises(EnvironmentFailed, match="not a database"):
        start(plan, home)
    assert Ledger.of(home).domains() == ()


@pytest.mark.slow
def test_a_session_is_recorded_again_when_a_command_uses_it_and_no_other_is(
    session: str, plan: Plan, home: Path
) -> None:
    (home / "mlflow.db").unlink()
    before = charged(home)
    further = start(changed(plan, privacy__epsilon=0.5, labeling__cutoff=2), home, new_session=True)
    assert Tracking.of(home).sessions() == {further.session}
    (missing,) = {check.detail for check in verify(home, session) if not check.ok}
    assert missing.startswith(f"MLflow has no finished run of session {session}: a run of its plan records it again")
    spent = charged(home)
    start(plan, home)
    assert charged(home) == spent != before
    assert Tracking.of(home).sessions() == {session, further.session}
    assert [check.detail for check in verify(home) if not check.ok] == []


@pytest.mark.slow
def test_a_student_that_comes_back_is_the_one_released_and_recorded_last(session: str, plan: Plan, home: Path) -> None:
    """Its certificate answered from the cache, and the files of the student between stayed in the released folder."""
    start(changed(plan, student__refused="drop"), home)
    back = start(plan, home)
    assert Tracking.of(home).runs(session)[0] == back.run_id
    assert [check.detail for check in verify(home) if not check.ok] == []
    student = json.loads(Path(back.certificate).read_text())["student"]
    assert student["refused"] == plan.student.refused

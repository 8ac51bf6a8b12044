"""Verify finds a change in each thing of MLflow that an auditor relies on, and names it."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests import world
from tests.support.published import SESSION, World
from tests.tasks.verify.signed_folder import failing


@pytest.fixture(scope="module")
def run(home: World) -> world.Recorded:
    records = world.Records.of(home.home)
    found = records.recorded(records.runs(SESSION)[0])
    assert found is not None
    return found


def faults(home: World, run: world.Recorded | None) -> list[str]:
    """What is wrong with what MLflow has of the session, if it is that."""
    ledger, wrong = world.Ledger.of(home.home), []
    subject = world.CheckedSession(ledger.session(SESSION), ledger, home.released, run, latest=True)
    for check in world.IN_MLFLOW.values():
        try:
            check(subject)
        except world.NotVerified as item:
            wrong.append(str(item))
    return wrong


def relied_on(run: world.Recorded) -> dict[str, set[str]]:
    """What an auditor reads of a run and its model, by field and name, listed from the certificate."""
    certificate = world.Certificate.model_validate_json(run.certificate)
    content, guarantee = world.content_of(certificate), set(world.tags(certificate))
    return {
        "tags": guarantee | {world.NOTE, world.DIGESTS},
        "params": set(content.params),
        "metrics": set(content.metrics),
        "files": set(run.files),
        "model_tags": guarantee | {"digest.model"},
        "model_files": set(run.model_files),
    }


def with_field(run: world.Recorded, field: str, value: Any) -> world.Recorded:
    fields: dict[str, Any] = {field: value}
    return replace(run, **fields)


def other(value: Any) -> Any:
    return value + 0.125 if isinstance(value, float) else f"{value}x"


def test_every_change_of_what_is_relied_on_is_found_and_named(home: World, run: world.Recorded) -> None:
    """Each tag, parameter, figure and digest: changed, and gone; and one that was added."""
    relied = relied_on(run)
    assert faults(home, run) == []
    assert {"epsilon", "delta", world.DIGESTS, "digest.student"} <= relied["tags"]
    assert world.MODEL_FILE in relied["model_files"]
    assert {"epsilon", "delta", "domain_epsilon_spent", "rows_answered"} <= relied["metrics"]
    for field, names in relied.items():
        values: dict[str, Any] = getattr(run, field)
        for name in names:
            folder = name == "digest.model" or (field == "model_files" and name != world.MODEL_FILE)
            word = "folder" if folder else "never logged" if name == world.DIGESTS else name.removeprefix("digest.")
            gone = {key: value for key, value in values.items() if key != name}
            for planted in (gone, {**values, name: other(values[name])}):
                wrong = faults(home, with_field(run, field, planted))
                assert any(word in item for item in wrong), (field, name)
        if field not in ("tags", "model_tags"):
            assert faults(home, with_field(run, field, {**values, "added": 0.5})), field


def test_a_description_a_curve_above_the_guarantee_and_a_missing_run_are_found(
    home: World, run: world.Recorded
) -> None:
    assert faults(home, replace(run, model_description="ε = 0.1"))
    for name in world.SERIES[:2]:
        wrong = faults(home, replace(run, metrics={**run.metrics, name: 2.6}))
        assert wrong == [f"MLflow's series {name} passes the guarantee"]
    wrong = faults(home, replace(run, metrics={**run.metrics, "accuracy_by_release": 0.999}))
    assert "accuracy_by_release is 0.999" in str(wrong)
    assert len(faults(home, None)) == len(world.IN_MLFLOW)


Change = Callable[[MlflowClient, str, str], object]
CHANGES: dict[str, Change] = {
    "tag epsilon": lambda client, run, _: client.set_tag(run, "epsilon", "0.1"),
    "metric, epsilon": lambda client, run, _: client.log_metric(run, "epsilon", 0.1, step=1),
    "parameter, mechanism.more": lambda client, run, _: client.log_param(run, "mechanism.more", "1"),
    "model tag epsilon": lambda client, _, name: client.set_model_version_tag(name, "1", "epsilon", "0.1"),
    "model's description": lambda client, _, name: client.update_model_version(name, "1", "ε = 0.1"),
    "registered model": lambda client, _, name: client.delete_model_version(name, "1"),
    "no finished run": lambda client, run, _: client.delete_run(run),
}
"""What a check says, and a change that MLflow's own client makes."""


def test_a_change_that_mlflow_itself_makes_is_read_and_named(own: Path, tmp_path: Path) -> None:
    store, (run,) = own / "mlflow.db", world.Records.of(own).runs(SESSION)
    kept = copy(store, tmp_path / "kept")
    client = MlflowClient(world.sqlite_address(store), world.sqlite_address(store))
    for named, change in CHANGES.items():
        change(client, run, "people-student")
        wrong = failing(world.verify(own, SESSION)).values()
        assert any(named in item for item in wrong), (named, wrong)
        store.write_bytes(Path(kept).read_bytes())


def test_runs_that_no_session_made_are_named_also_if_they_were_deleted(own: Path) -> None:
    """Readers are told that all of the store is published, and a deleted run is still in it."""

    def named() -> str:
        return next((check.detail for check in world.verify(own) if check.name == "MLflow's runs"), "")

    store = MlflowClient(world.sqlite_address(own / "mlflow.db"))
    (people,) = (each.experiment_id for each in store.search_experiments() if each.name == "people")
    assert named() == ""
    private = store.create_run(store.create_experiment("patients"), run_name="Erika Mustermann").info.run_id
    store.log_metric(private, "accuracy on private rows", 0.9)
    among_ours = store.create_run(people).info.run_id
    nested = store.create_run(people, tags={"mlflow.parentRunId": private}).info.run_id
    for _ in range(2):
        assert {private, among_ours, nested} == set(re.findall("[0-9a-f]{32}", named()))
        assert "Erika" not in named()
        store.delete_run(private)

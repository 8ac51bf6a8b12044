"""Verify finds a change in each thing of MLflow that an auditor relies on, and names it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests.support.copies import copied
from tests.support.published import SESSION, World, world
from tests.support.tracked import tracked
from tests.world import (
    DIGESTS,
    IN_MLFLOW,
    MODEL_FILE,
    NOTE,
    SERIES,
    Certificate,
    CheckedSession,
    Ledger,
    NotVerified,
    Recorded,
    Records,
    StableVoting,
    content_of,
    sqlite_address,
    tags,
    verify,
)

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
DOOR = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def small(mlflow_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A home with one small run in MLflow."""
    home = tmp_path_factory.mktemp("home")
    copy(mlflow_database, home / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        made = world(home, rows=12, batch=6)
        labels = made.truth.copy()
        labels[5] = -1
        tracked(made, STABLE, labels, DOOR)
        yield made


@pytest.fixture(scope="module")
def subject(small: World) -> CheckedSession:
    records = Records.of(small.home)
    ledger = Ledger.of(small.home)
    run = records.recorded(records.runs(SESSION)[0])
    return CheckedSession(ledger.session(SESSION), ledger, small.released, run, latest=True)


def found(subject: CheckedSession) -> list[str]:
    wrong = []
    for check in IN_MLFLOW.values():
        try:
            check(subject)
        except NotVerified as item:
            wrong.append(str(item))
    return wrong


def relied_on(run: Recorded) -> dict[str, set[str]]:
    """What an auditor reads of a run and its model, by field and name, listed from the certificate."""
    certificate = Certificate.model_validate_json(run.certificate)
    content, guarantee = content_of(certificate), set(tags(certificate))
    return {
        "tags": guarantee | {NOTE, DIGESTS},
        "params": set(content.params),
        "metrics": set(content.metrics),
        "files": set(run.files),
        "model_tags": guarantee | {"digest.model"},
        "model_files": set(run.model_files),
    }


LISTED = {"params": "parameters", "metrics": "metrics"}
"""Fields whose names are compared before their values."""


def with_field(run: Recorded, field: str, value: Any) -> Recorded:
    fields: dict[str, Any] = {field: value}
    return replace(run, **fields)


def other(value: Any) -> Any:
    return value + 0.125 if isinstance(value, float) else f"{value}x"


def test_what_was_published_is_found_whole(subject: CheckedSession) -> None:
    assert subject.run is not None
    relied = relied_on(subject.run)
    assert found(subject) == []
    assert {"epsilon", "delta", DIGESTS, "digest.student"} <= relied["tags"]
    assert MODEL_FILE in relied["model_files"]
    assert {"epsilon", "delta", "domain_epsilon_spent", "rows_answered"} <= relied["metrics"]


def test_every_change_of_what_is_relied_on_is_found_and_named(subject: CheckedSession) -> None:
    """Each tag, parameter, figure and digest: changed, and gone."""
    run = subject.run
    assert run is not None
    for field, names in relied_on(run).items():
        values: dict[str, Any] = getattr(run, field)
        for name in names:
            folder = name == "digest.model" or (field == "model_files" and name != MODEL_FILE)
            word = "folder" if folder else "never logged" if name == DIGESTS else name.removeprefix("digest.")
            gone = {key: value for key, value in values.items() if key != name}
            for planted in (gone, {**values, name: other(values[name])}):
                wrong = found(replace(subject, run=with_field(run, field, planted)))
                assert any(word in item or f"list of {LISTED.get(field)}" in item for item in wrong), (field, name)


@pytest.mark.parametrize("field", ["params", "metrics", "files", "model_files"])
def test_what_was_added_is_found(subject: CheckedSession, field: str) -> None:
    assert subject.run is not None
    planted = {**getattr(subject.run, field), "added": 0.5}
    assert found(replace(subject, run=with_field(subject.run, field, planted)))


def test_a_description_a_curve_above_the_guarantee_and_a_missing_run_are_found(subject: CheckedSession) -> None:
    run = subject.run
    assert run is not None
    assert found(replace(subject, run=replace(run, model_description="ε = 0.1")))
    for name in SERIES[:2]:
        wrong = found(replace(subject, run=replace(run, metrics={**run.metrics, name: 1.5})))
        assert wrong == [f"MLflow's series {name} passes the guarantee"]
    assert len(found(replace(subject, run=None))) == len(IN_MLFLOW)


Change = Callable[[MlflowClient, str, str], object]
CHANGES: dict[str, Change] = {
    "tag epsilon": lambda client, run, _: client.set_tag(run, "epsilon", "0.1"),
    "metric epsilon": lambda client, run, _: client.log_metric(run, "epsilon", 0.1, step=1),
    "list of parameters": lambda client, run, _: client.log_param(run, "mechanism.more", "1"),
    "model tag epsilon": lambda client, _, name: client.set_model_version_tag(name, "1", "epsilon", "0.1"),
    "model's description": lambda client, _, name: client.update_model_version(name, "1", "ε = 0.1"),
    "registered model": lambda client, _, name: client.delete_model_version(name, "1"),
    "no finished run": lambda client, run, _: client.delete_run(run),
}
"""What a check says, and a change that MLflow's own client makes."""


@pytest.mark.parametrize("named", CHANGES)
def test_a_change_that_mlflow_itself_makes_is_read_and_named(small: World, tmp_path: Path, named: str) -> None:
    database = small.home / "mlflow.db"
    kept = copy(database, tmp_path / "kept")
    try:
        client = MlflowClient(sqlite_address(database), registry_uri=sqlite_address(database))
        CHANGES[named](client, Records.of(small.home).runs(SESSION)[0], "people-student")
        wrong = [check.detail for check in verify(small.home, SESSION) if not check.ok]
        assert any(named in item for item in wrong), wrong
    finally:
        database.write_bytes(Path(kept).read_bytes())


def test_runs_that_no_session_made_are_named_also_if_they_were_deleted(small: World, tmp_path: Path) -> None:
    """Readers are told that all of the store is published, and a deleted run is still in it."""
    home = copied(small.home, tmp_path / "home")
    store = MlflowClient(sqlite_address(home / "mlflow.db"))
    (own,) = (each.experiment_id for each in store.search_experiments() if each.name == "people")
    assert named(home) is None
    private = store.create_run(store.create_experiment("patients"), run_name="Erika Mustermann").info.run_id
    store.log_metric(private, "accuracy on private rows", 0.9)
    among_ours = store.create_run(own).info.run_id
    nested = store.create_run(own, tags={"mlflow.parentRunId": private}).info.run_id
    for _ in range(2):
        detail = named(home)
        assert detail is not None
        assert {private, among_ours, nested} == set(re.findall("[0-9a-f]{32}", detail))
        assert "Erika" not in detail
        store.delete_run(private)


def named(home: Path) -> str | None:
    """What verification says of runs that no session made."""
    return next((check.detail for check in verify(home) if check.name == "MLflow's runs"), None)

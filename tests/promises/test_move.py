"""A home copied to another place answers from its cache, spends nothing, verifies, and leaves its old place alone."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mlflow.tracking import MlflowClient

from concord.artifacts.home.released import Released, sha256
from concord.artifacts.home.vault import Vault
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.mlflow.read import Records
from concord.artifacts.mlflow.write import Tracking
from concord.artifacts.settings import sqlite_address
from concord.tasks.mechanisms.stable import StableVoting
from tests.support.console import concord
from tests.support.homes import charged
from tests.support.people import write_plan, write_tables
from tests.support.published import SESSION, World, world
from tests.support.tracked import tracked

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
DOOR = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.slow
def test_a_moved_home_goes_on_as_it_was(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"teachers__count": 40, "teachers__block": 20, "labeling__cutoff": 4}
    plan = write_plan(write_tables(tmp_path / "data"), **small)
    assert concord("run", str(plan), "--home", str(home))[0] == 0
    before = charged(home)
    moved = tmp_path / "another machine" / "home"
    shutil.copytree(home, moved)
    shutil.rmtree(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{moved / 'mlflow.db'}")

    status, result, wrong = concord("run", str(plan), "--home", str(moved), "--json")
    assert status == 0, wrong
    summary = json.loads(result)
    assert (summary["asked_now"], charged(moved)) == (0, before)
    again = [stage["name"] for stage in summary["stages"] if not stage["cached"]]
    assert again == ["certify"]  # recorded again, so that MLflow's pages find its files
    assert Path(summary["certificate"]).is_relative_to(moved)
    assert concord("verify", "--home", str(moved))[0] == 0

    assert concord("run", str(plan), "--from", "certify", "--home", str(moved))[0] == 0  # a further run in MLflow
    assert concord("verify", "--home", str(moved))[0] == 0
    assert not home.exists()


@pytest.fixture
def copied(tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[World, Tracked]:
    """A home that was copied to another place, and its session in the original's MLflow."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home, moved = tmp_path / "home", tmp_path / "another machine" / "home"
    home.mkdir()
    shutil.copy(mlflow_database, home / "mlflow.db")
    small = world(home)
    where = tracked(small, STABLE, small.truth.copy(), DOOR)
    shutil.copytree(home, moved)
    return replace(small, home=moved, vault=Vault(moved / "vault"), released=Released(moved)), where


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.slow
def test_what_mlflow_holds_of_a_copied_home_is_read_where_it_lies_now(copied: tuple[World, Tracked]) -> None:
    there, where = copied
    before = Records.of(there.home.parents[1] / "home").recorded(where.run_id)
    shutil.rmtree(there.home.parents[1] / "home" / "mlartifacts")
    assert before is not None
    assert before.model_files
    assert Records.of(there.home).recorded(where.run_id) == before
    (report,) = (there.home / "mlartifacts").rglob("report.html")
    report.write_bytes(b"changed here")
    changed = Records.of(there.home).recorded(where.run_id)
    assert changed is not None
    assert changed.files["report.html"] == sha256(b"changed here")


@pytest.mark.slow
def test_a_session_of_a_copied_home_is_recorded_again_so_that_mlflow_finds_its_files(
    copied: tuple[World, Tracked],
) -> None:
    """MLflow's pages, and loading the champion, use the addresses that MLflow has stored."""
    there, where = copied
    home = there.home.parents[1] / "home"
    untouched = contents(home)
    assert Tracking.of(there.home).sessions() == {SESSION}
    again = tracked(there, STABLE, None, DOOR)
    assert again.run_id != where.run_id
    client = MlflowClient(f"sqlite:///{there.home / 'mlflow.db'}", registry_uri=f"sqlite:///{there.home / 'mlflow.db'}")
    (run,) = client.search_runs(
        [experiment.experiment_id for experiment in client.search_experiments()], "tags.session != ''"
    )
    champion = client.get_model_version_by_alias("people-student", "champion")
    for address in (run.info.artifact_uri, client.get_model_version_download_uri("people-student", champion.version)):
        assert address.startswith((there.home / "mlartifacts").as_uri() + "/")
        assert list(Path(unquote(urlsplit(address).path)).iterdir()) != []
    assert contents(home) == untouched


def test_addresses_in_other_places_are_left_alone(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    client = MlflowClient(sqlite_address(tmp_path / "mlflow.db"))
    kept = ["s3://bucket/mlartifacts/people", "file:///old/mlartifacts-of-others/people", "file:///mlartifacts-people"]
    for name, location in zip("abc", kept, strict=True):
        client.create_experiment(name, artifact_location=location)
    client.create_experiment("moved", artifact_location="file:///old/mlartifacts/moved")
    records, ours = Records.of(tmp_path), (tmp_path / "mlartifacts").as_uri()
    assert [records._here(location) for location in kept] == kept
    assert records._here("file:///old/mlartifacts/a%20b/c") == f"{ours}/a%20b/c"
    others = Records(sqlite_address(tmp_path / "mlflow.db"), tmp_path / "mlartifacts")
    assert others._here("file:///old/mlartifacts/people") == "file:///old/mlartifacts/people"

"""`concord ui` on a tracking server."""

import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tests.world import command, flows_home, mlflow_read


def test_on_a_server_the_audit_view_is_a_link_to_the_domain_s_list_of_runs(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = store.create_experiment("people")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9/")
    monkeypatch.setattr(flows_home, "reopen", lambda given: given)
    monkeypatch.setattr(mlflow_read, "check_answers", lambda _: None)
    monkeypatch.setattr(mlflow_read, "client_of", lambda _: store)
    monkeypatch.setattr("sys.argv", ["concord", "ui", "people"])
    with pytest.raises(SystemExit):
        command()
    listed = f"http://127.0.0.1:9/#/experiments/{experiment}/runs?workflowType=machine_learning"
    assert listed in capsys.readouterr().out.replace("\n", "")

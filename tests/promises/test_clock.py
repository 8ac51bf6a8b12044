"""A clock that goes backwards changes nothing: the latest run stays the latest, and no run ends before it begins."""

import datetime
import itertools
import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tests.support.published import SESSION, world
from tests.support.tracked import tracked
from tests.tasks.verify.signed_folder import STABLE
from tests.world import Records, mlflow_write, verify

LATE = datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC)


class Backwards(datetime.datetime):
    """A clock that goes back an hour at each reading."""

    looks = itertools.count()

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "Backwards":
        return cls(2035, 1, 1, tzinfo=tz) - datetime.timedelta(hours=next(cls.looks))


@pytest.mark.slow
def test_runs_keep_their_order_and_end_after_they_begin(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setattr(mlflow_write, "datetime", Backwards)
    small = world(tmp_path)
    first = tracked(small, STABLE, small.truth, LATE)
    second = tracked(small, STABLE, None, LATE - datetime.timedelta(days=400))
    third = tracked(small, STABLE, None, LATE - datetime.timedelta(days=800))

    assert Records.of(tmp_path).runs(SESSION) == [third.run_id, second.run_id, first.run_id]
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    assert len(runs) == 3
    assert all(run.info.start_time <= run.info.end_time for run in runs)
    assert all(check.ok for check in verify(tmp_path))

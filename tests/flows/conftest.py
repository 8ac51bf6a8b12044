"""What tests of several homes begin with."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.several import plainly


@pytest.fixture
def tracking(mlflow_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    with plainly():
        yield

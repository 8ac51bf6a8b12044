"""What tests of flows begin with."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.commands import plainly


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Path:
    """A fresh home folder. Flows run by Prefect in tests that ask for `prefect_server`, which look at what is cached or
    on its record; in all others as plain functions, which takes half of the time."""
    by_prefect = "prefect_server" in request.fixturenames
    found: Path = request.getfixturevalue("home" if by_prefect else "plain_home")
    return found


@pytest.fixture
def tracking(mlflow_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    with plainly():
        yield

"""A home that published a session, its record in MLflow, and copies of both for those who verify or change them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.copies import copied
from tests.support.published import SESSION, World, world_in
from tests.support.tracked import tracked
from tests.tasks.verify.signed_folder import DOOR, STABLE


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Iterator[World]:
    """It is many tests': what is changed is a copy. Its session is spent, and its MLflow store lies in it."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copy(mlflow_database, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        made = world_in(folder)
        labels = made.truth.copy()
        labels[::15] = -1
        tracked(made, STABLE, labels[:286], DOOR)
        yield made


@pytest.fixture
def own(home: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the home."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return copied(home.home, tmp_path / "home")


@pytest.fixture(scope="session")
def original(home: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it published, copied to another place."""
    return Path(shutil.copytree(home.released.root / SESSION, tmp_path_factory.mktemp("alone") / SESSION))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / SESSION))

"""A home that published a session, and copies of what it published, for those who verify it far from there."""

import shutil
from pathlib import Path

import pytest

from tests.support.published import SESSION, World, certified, world
from tests.tasks.verify.signed_folder import STABLE


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = world(tmp_path_factory.mktemp("home") / "made")
    labels = made.truth.copy()
    labels[::15] = -1
    certified(made, STABLE, labels[:286])
    return made


@pytest.fixture(scope="session")
def original(home: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it published, copied to another place."""
    return Path(shutil.copytree(home.released.root / SESSION, tmp_path_factory.mktemp("alone") / SESSION))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / SESSION))

"""A home that published a session, and copies of what it published, for those who verify it far from there."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest

from concord.tasks.verify import published
from concord.tasks.verify.recompute import least_delta
from tests.support.published import SESSION, World, certified, world
from tests.tasks.verify.signed_folder import STABLE


@cache
def recomputed(settings: str, epsilon: float) -> float:
    return least_delta(json.loads(settings), epsilon)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the same settings prove is recomputed once for all tests that ask for it."""
    monkeypatch.setattr(
        published, "least_delta", lambda settings, epsilon: recomputed(json.dumps(settings, sort_keys=True), epsilon)
    )


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

"""A small published session, for those who read what was published."""

import shutil
from pathlib import Path

import pytest

from tests.support.homes import undrawn
from tests.support.published import SESSION, World, certified, world_in
from tests.world import calibrated_stable, publish_figures


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take half of the time of a certificate. What they show: tests/tasks/publish/test_figures.py"""
    monkeypatch.setattr(publish_figures, "_svg", undrawn)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world whose session answered all rows and is published. It is many tests': what is changed is a copy."""
    made = world_in(tmp_path_factory.mktemp("home") / "home")
    certified(made, calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20), made.truth)
    return made


@pytest.fixture
def folder(small: World, tmp_path: Path) -> Path:
    """A copy of what it published."""
    return Path(shutil.copytree(small.released.root / SESSION, tmp_path / SESSION))

"""A world of several homes, in which a first question was answered and a second is asked."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from concord.flows.run import PrivateFiles
from tests.support.hostile import Watched
from tests.support.several import NAMES, Several, plainly


@pytest.fixture(autouse=True)
def few_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are spilled to three files, not 64: of tables this small, each would hold a few rows."""
    monkeypatch.setattr("concord.tasks.data.split.SPILLS", 3)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world in which all have answered the first question, and the second is asked."""
    several = Several(tmp_path_factory.mktemp("base") / "world")
    with plainly():
        assert several.lead()["missing"] == list(NAMES)
        for name in NAMES:
            several.contribute(name)
        assert several.lead()["round"] == 1
    return several.folder


@pytest.fixture
def world(base: Path, tmp_path: Path) -> Iterator[Watched]:
    shutil.copytree(base, tmp_path / "world")
    watched, true = Watched(tmp_path / "world"), PrivateFiles.of

    def read(*args: Any) -> PrivateFiles:
        watched.read += 1
        return true(*args)

    with plainly() as patch:
        patch.setattr(PrivateFiles, "of", read)
        yield watched

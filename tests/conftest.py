"""One Prefect server for the whole session of tests, and a home folder of its own for each that runs the flow."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A Prefect server on a database of its own; about eight seconds, so one for all."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=90):
        yield


@pytest.fixture
def home(prefect_server: None, tmp_path: Path) -> Iterator[Path]:
    """A fresh home folder, with Prefect keeping results there."""
    from prefect.settings import (
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_RESULTS_LOCAL_STORAGE_PATH,
        temporary_settings,
    )

    folder = tmp_path / "home"
    settings = {
        PREFECT_RESULTS_LOCAL_STORAGE_PATH: str(folder / "results"),
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # its thread outlives the flow by a second
    }
    with temporary_settings(settings):
        yield folder

"""What tests of flows begin with."""

from pathlib import Path

import pytest


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Path:
    """A fresh home folder. Flows run by Prefect in tests that ask for `prefect_server`, which look at what is cached or
    on its record; in all others as plain functions, which takes half of the time."""
    by_prefect = "prefect_server" in request.fixturenames
    found: Path = request.getfixturevalue("home" if by_prefect else "plain_home")
    return found

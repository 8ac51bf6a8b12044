"""Tables of tests are small."""

import pytest

from tests.world import units_split


@pytest.fixture(autouse=True)
def few_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are spilled to three files, not 64: of tables this small, each would hold a few rows."""
    monkeypatch.setattr(units_split, "SPILLS", 3)

"""Commands simulate little, where a test does not say otherwise."""

import pytest

from concord.tasks.advice import rehearse_tallies, rehearse_votes
from concord.tasks.advice.rehearse_tallies import DRAWS
from concord.tasks.advice.synthetic_labels import SIGNALS


@pytest.fixture(autouse=True)
def simulated_little(simulated_once: None) -> None:
    """Before `simulated`."""


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """By more teachers, and by three draws of each strength of signal."""
    monkeypatch.setattr(rehearse_votes, "MOST_TRAINED", 60)
    monkeypatch.setattr(rehearse_tallies, "SIGNALS", SIGNALS)
    monkeypatch.setattr(rehearse_tallies, "DRAWS", DRAWS)

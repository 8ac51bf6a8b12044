"""Commands simulate little, where a test does not say otherwise."""

import pytest

from tests.world import DRAWS, SIGNALS, advice_rehearse_tallies, advice_rehearse_votes


@pytest.fixture(autouse=True)
def simulated_little(simulated_once: None) -> None:
    """Before `simulated`."""


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """By more teachers, and by three draws of each strength of signal."""
    monkeypatch.setattr(advice_rehearse_votes, "MOST_TRAINED", 60)
    monkeypatch.setattr(advice_rehearse_tallies, "SIGNALS", SIGNALS)
    monkeypatch.setattr(advice_rehearse_tallies, "DRAWS", DRAWS)

"""Rounds of tallies at the door: released with their noise, charged whole, drawn for as they were paid for alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.sums import LABELS, ROWS, TALLIES, Rounds, question
from tests.world import NotVerified, Randomness, tally


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds.in_home(tmp_path)


def test_rounds_are_released_with_their_noise_and_charged_whole(rounds: Rounds) -> None:
    reserved = rounds.session.reserved
    published = rounds.all()
    exact = tally(question(0, None), ROWS, LABELS)
    noise = np.array(published[0]["sums"]) - exact
    assert 0 < np.abs(noise).max() < 9 * TALLIES.rounds[0].scale
    after = rounds.session
    assert (after.status, after.asked, after.answered, after.refused) == ("spent", 3, 3, 0)
    assert after.settled == reserved
    assert [each["round"] for each in published] == [0, 1, 2]
    assert published[1]["question"]["model"] == published[0]["next"]["model"]


@pytest.mark.parametrize("changed", [{"least": 0}, {"count": 1 << 20}, {"fields": (0,), "spans": ((0, 3),)}])
def test_a_question_its_round_did_not_pay_for_is_never_drawn_for(
    rounds: Rounds, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last pays for less than its round did, but its sums are of another question."""
    other = replace(question(0, None), **changed)
    monkeypatch.setattr("tests.support.sums.question", lambda *_: other)
    if "fields" in changed:
        monkeypatch.setattr("tests.support.sums.tally", lambda _, *rows: tally(question(0, None), *rows))
    with pytest.raises(NotVerified, match="nothing was drawn"):
        rounds.release(0, None)
    assert rounds.session.batches == 0


def test_sums_without_noise_would_be_seen(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what is released is exact, as the first test would find."""
    monkeypatch.setattr(Randomness, "gaussian", lambda *_: 0)
    (first, *_) = rounds.all()
    assert first["sums"] == tally(question(0, None), ROWS, LABELS).tolist()

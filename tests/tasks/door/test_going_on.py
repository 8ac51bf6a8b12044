"""A session goes on with the very mechanism it is certified for; one of another accounting says what to do instead."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.at_door import PLAN, labels_by, opening_of
from tests.support.sentences import says
from tests.support.sums import Season

TODAY = world.calibrated_confident(epsilon=2.0, delta=1e-5, queries=100, classes=2, teachers=150)
EARLIER = TODAY.with_(scale=1.08 * TODAY.scale, test_scale=1.08 * TODAY.test_scale)
"""As a version calibrated whose accounting asked for more noise."""


def opened_with(home: Path, mechanism: world.ConfidentGNMax) -> tuple[world.Stores, world.Session]:
    """A session of the domain d that another version opened with a mechanism, without a row."""
    home.mkdir()
    door = world.Stores.of(home)
    door.ledger.name_domain("d", unit="one row", neighbours="add or remove one unit", epsilon=20.0, delta=1e-3)
    door.vault.make_secret("sessions/d-1")
    opening = replace(opening_of(mechanism), commitment=world.commitment(door.vault, "d-1"), version="0.9.0")
    return door, door.ledger.open_session(opening)


@pytest.fixture(autouse=True)
def one_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sessions are of one plan."""
    monkeypatch.setattr(world.door_admit, "_identity", lambda *_: opening_of(TODAY).identity)


def found(door: world.Stores, ask: world.Ask[Any], *, new_session: bool) -> world.Session | None:
    return world.door_admit.find_session(
        door, PLAN, ask, world.Encoding(columns=(), label="", classes=()), new_session=new_session
    )[0]


def test_a_session_of_an_earlier_accounting_says_what_to_do(tmp_path: Path) -> None:
    door, session = opened_with(tmp_path / "home", EARLIER)
    with pytest.raises(world.NotVerified) as refused:
        found(door, labels_by(TODAY), new_session=False)
    assert says(
        refused.value, "0.9.0", "d-1", "another table", "--new-session", "costs again", f"`concord close {session.id}`"
    )


def test_what_the_sentence_says_to_do_can_be_done(tmp_path: Path) -> None:
    """Even where nothing was asked in it yet, when a further session would otherwise be the same one."""
    door, _ = opened_with(tmp_path / "home", EARLIER)
    assert found(door, labels_by(TODAY), new_session=True) is None


def test_a_session_of_the_same_mechanism_goes_on_whichever_version_opened_it(tmp_path: Path) -> None:
    door, session = opened_with(tmp_path / "home", TODAY)
    assert found(door, labels_by(TODAY), new_session=False) == session
    assert found(door, labels_by(TODAY), new_session=True) == session


def test_a_session_that_was_closed_before_its_first_row_is_not_gone_on_with(tmp_path: Path) -> None:
    """What returned of it is there to be reserved again: a further session is asked for, and is another one."""
    door, session = opened_with(tmp_path / "home", TODAY)
    world.close(door, session.id, give_back=True)
    assert found(door, labels_by(TODAY), new_session=True) is None


def test_another_stream_is_not_asked_in_the_session_of_one_before(tmp_path: Path) -> None:
    """It knows nobody whom that one asked, and would ask them again within one charge."""
    season = Season.in_home(tmp_path / "home")
    for again in (False, True):
        assert found(season.door, season.ask, new_session=again) == season.session
        assert found(season.door, replace(season.ask, seasons_of="d-another"), new_session=again) is None

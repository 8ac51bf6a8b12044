"""The door: each row is drawn for once, whatever happens between, and only after it was paid for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.at_door import (
    MECHANISMS,
    ROWS,
    Case,
    files_of,
    labels_by,
    make_case,
    opening_of,
)


@pytest.fixture(params=MECHANISMS, ids=lambda mechanism: mechanism.name)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return make_case(tmp_path / "home", request.param)


def test_a_key_that_served_another_session_opens_none(case: Case) -> None:
    key = case.door.vault.make_secret("sessions/d-1")
    file = case.door.vault.root / "secrets" / "sessions" / "d-2"
    file.write_bytes(key + bytes.fromhex(world.keyed_digest(key, "check", "sessions/d-2")))
    again = replace(opening_of(case.mechanism), id="d-2", commitment=world.commitment(case.door.vault, "d-2"))
    with pytest.raises(world.NotVerified, match="keys are never reused"):
        case.door.ledger.open_session(again, further=True)


def test_a_session_may_be_closed_while_its_votes_are_counted(case: Case) -> None:
    def closed(batch: world.PublicBatch) -> world.Ref:
        if batch is case.batches[1]:
            with world.locked(case.door.vault.root / "sessions" / "d-1" / "lock", wait=False) as free:
                assert free
            world.close(case.door, "d-1", give_back=False)
        return case.votes_on(batch)

    refs = files_of(case.door, case.session, labels_by(case.mechanism), case.batches, closed)
    session = case.door.ledger.session("d-1")
    assert (session.status, session.batches, session.asked) == ("closed", 1, ROWS)
    assert case.door.released.labels(refs)["outcome"].to_pylist()[ROWS:] == ["not asked"] * (2 * ROWS)


def test_a_batch_begun_before_the_session_was_closed_is_not_asked_and_the_labels_before_it_stay(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = type(case.door.ledger).commit_batch

    def killed(ledger: Any, session: str, outcome: world.BatchOutcome) -> Any:
        if outcome.index == 1:
            raise KeyboardInterrupt
        return commit(ledger, session, outcome)

    with monkeypatch.context() as dying:
        dying.setattr(type(case.door.ledger), "commit_batch", killed)
        with pytest.raises(KeyboardInterrupt):
            case.run()
    world.close(case.door, "d-1", give_back=False)
    labels = case.run()
    assert labels["outcome"].to_pylist()[ROWS:] == ["not asked"] * (2 * ROWS)
    assert labels["row"].to_pylist() == [
        *range(ROWS),
        *range(2 * ROWS, 4 * ROWS),
    ]
    again = files_of(case.door, case.session, labels_by(case.mechanism), case.batches, None)
    assert case.door.released.labels(again).equals(labels)
    written = case.door.released.labels([case.door.released.find(world.labels_path("d-1", 1)) or again[0]])
    assert written["row"].to_pylist() == list(range(ROWS, 2 * ROWS))  # what left the door stays as it left

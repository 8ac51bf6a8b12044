"""Rounds of tallies at the door: drawn once each, paid once begun, asked by no other model than was published."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.privacy import Charge
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.door.admit import planned_domain
from concord.tasks.door.checkpoint import Randomness
from concord.tasks.door.erase import close
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.contributions import tally
from concord.tasks.verify.reckoning import reckon
from tests.support.people import changed, tables_of_plan
from tests.support.tallied import LABELS, NAME, ROWS, TALLIES, Rounds, question


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds.in_home(tmp_path)


@pytest.fixture
def gaussian(tmp_path: Path) -> Rounds:
    return Rounds.in_home(tmp_path, "gaussian")


def killed(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


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
    monkeypatch.setattr("tests.support.tallied.question", lambda *_: other)
    if "fields" in changed:
        monkeypatch.setattr("tests.support.tallied.tally", lambda _, *rows: tally(question(0, None), *rows))
    with pytest.raises(NotVerified, match="nothing was drawn"):
        rounds.release(0, None)
    assert rounds.session.batches == 0


def test_a_session_that_is_closed_early_gets_nothing_back(rounds: Rounds) -> None:
    rounds.release(0, None)
    closed = rounds.door.ledger.settle("d-1", give_back=True)
    assert closed.settled == closed.reserved
    with pytest.raises(BudgetRefused, match="has ended"):
        rounds.release(1, {"model": question(0, None).record()["model"] or _model()})


def test_rounds_never_begun_return_in_a_gaussian_domain(gaussian: Rounds) -> None:
    door, each = gaussian.door, gaussian.session.rounds
    gaussian.release(0, None)
    closed = close(door, NAME, give_back=True)
    assert closed.settled == each[0]
    assert door.ledger.total("d") == each[0]
    assert each[0].mu_squared < closed.reserved.mu_squared / 2
    with pytest.raises(BudgetRefused, match="has ended"):
        gaussian.release(1, {"model": _model()})
    assert list(reckon(door.ledger.records())) == []


def test_a_round_that_was_begun_is_paid_whether_or_not_it_was_drawn(
    gaussian: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Vault, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            gaussian.release(0, None)
    each = gaussian.session.rounds
    assert close(gaussian.door, NAME, give_back=True).settled == each[0]


@pytest.mark.parametrize(("done", "back"), [(0, True), (3, False)])
def test_all_or_nothing_returns_of_rounds(gaussian: Rounds, done: int, back: bool) -> None:
    if done:
        gaussian.all()
    closed = close(gaussian.door, NAME, give_back=True)
    assert closed.settled == (Charge() if back else closed.reserved)


def test_nothing_returns_if_that_is_asked_for(gaussian: Rounds) -> None:
    assert close(gaussian.door, NAME, give_back=False).settled == gaussian.session.reserved


def test_nothing_returns_by_an_older_ledger_of_a_round_that_was_drawn(gaussian: Rounds) -> None:
    home = gaussian.door.vault.root.parent
    older = (home / "ledger.db").read_bytes()
    gaussian.release(0, None)
    (home / "ledger.db").write_bytes(older)
    door = Stores.of(home)
    with pytest.raises(NotVerified, match="round 0 of session d-1 was drawn, and the ledger does not know of it"):
        close(door, NAME, give_back=True)
    assert door.ledger.session(NAME).status == "open"
    assert close(door, NAME, give_back=False).settled == door.ledger.session(NAME).reserved


def test_nothing_is_opened_by_a_ledger_that_gave_back_what_another_copy_drew(gaussian: Rounds, tmp_path: Path) -> None:
    """An older copy, in which the session is open, was in use for a while."""
    home = gaussian.door.vault.root.parent
    first = json.loads(gaussian.door.released.read(gaussian.release(0, None)))
    older = (home / "ledger.db").read_bytes()
    close(gaussian.door, NAME, give_back=True)
    newer = (home / "ledger.db").read_bytes()
    plan = changed(tables_of_plan(tmp_path), privacy__domain="another")
    assert planned_domain(Stores.of(home), plan).name == "another"
    (home / "ledger.db").write_bytes(older)
    Rounds.in_home(home).release(1, first["next"])
    (home / "ledger.db").write_bytes(newer)
    with pytest.raises(NotVerified, match="round 1 of session d-1 was drawn, and the ledger has given it back"):
        planned_domain(Stores.of(home), plan)


def test_no_round_is_charged_by_itself_that_only_the_whole_is_proved_for() -> None:
    narrow = replace(TALLIES, rounds=(*TALLIES.rounds[:2], replace(TALLIES.rounds[2], scale=2.0)))
    assert len(TalliesAsk(TALLIES, "codes", ()).rounds) == 3
    assert TalliesAsk(narrow, "codes", ()).rounds == ()


def _model() -> dict[str, Any]:
    from tests.support.tallied import follow

    record: dict[str, Any] = follow(0, np.arange(6))["next"]["model"]
    return record


def test_sums_without_noise_would_be_seen(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what is released is exact, as the first test would find."""
    monkeypatch.setattr(Randomness, "gaussian", lambda *_: 0)
    (first, *_) = rounds.all()
    assert first["sums"] == tally(question(0, None), ROWS, LABELS).tolist()


def test_another_model_stops(rounds: Rounds) -> None:
    rounds.all()
    with pytest.raises(NotVerified, match="question of batch 1"):
        rounds.release(1, {"model": _model()})


def test_blocks_add_up_the_same_however_rows_lie_in_them(rounds: Rounds) -> None:
    published = rounds.all()
    whole = tally(question(1, published[0]["next"]), ROWS, LABELS)
    parts = [
        tally(question(1, published[0]["next"]), ROWS[own], LABELS[own])
        for own in np.array_split(np.random.default_rng(0).permutation(200), 7)
    ]
    assert sum(parts[1:], parts[0]).tobytes() == whole.tobytes()

"""The door: each row is drawn for once, whatever happens between, and only after it was paid for."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import Released, labels_path
from concord.artifacts.home.vault import KEY_BYTES, derive, keyed_digest
from concord.artifacts.schemas import Ref
from concord.tasks.asking.teachers import votes_schema
from concord.tasks.data.encode import PublicBatch
from concord.tasks.door.checkpoint import Randomness, check_key, commitment
from concord.tasks.door.erase import close
from concord.tasks.door.release import Stores, alone_if_free, release, replay
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.noisy_votes import NoisyVotes
from concord.tasks.mechanisms.stable import StableVoting
from tests.support.at_door import (
    CLASSES,
    MECHANISMS,
    NOISY,
    ROWS,
    STABLE,
    Case,
    counts_of,
    make_case,
    opening_of,
    write,
)


@pytest.fixture(params=MECHANISMS, ids=lambda mechanism: mechanism.name)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return make_case(tmp_path / "home", request.param)


def test_stable_labels_are_the_mechanism_s_own_answers(tmp_path: Path) -> None:
    case = make_case(tmp_path / "home", STABLE)
    labels = case.run()
    draws = Randomness(case.door.vault, "d-1").uniform(0, 3 * ROWS)
    votes = np.concatenate([counts_of(at) for at in range(3)])
    expected = [None if label < 0 else CLASSES[label] for label in STABLE.answer(votes, draws)]
    assert labels["label"].to_pylist()[: len(expected)] == expected
    assert labels["row"].to_pylist() == list(range(3 * ROWS))


def test_released_tables_carry_the_guarantee(case: Case) -> None:
    metadata = case.run().schema.metadata
    assert metadata[b"epsilon"] == b"2.0"
    assert metadata[b"unit"] == b"one row"


def test_running_again_replays_and_spends_nothing(case: Case) -> None:
    first = case.run()
    spent, state = case.door.ledger.total("d"), case.door.ledger.session("d-1")
    assert case.run().equals(first)
    assert case.door.ledger.total("d") == spent
    assert case.door.ledger.session("d-1") == state


def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Callable[[], None]:
    """The second call of a method of the door dies before it does anything; returns the cure."""
    true, calls = getattr(owner, name), []

    def dying(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return true(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, dying)
    return lambda: monkeypatch.setattr(owner, name, true)


def interrupted_and_resumed(case: Case, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> pa.Table:
    cure = killed_at(monkeypatch, owner, name)
    with pytest.raises(KeyboardInterrupt):
        case.run()
    cure()
    return case.run()


def drawn_before_the_kill(case: Case) -> dict[str, bytes]:
    folder = case.door.vault.root / "sessions" / "d-1"
    return {path.name: path.read_bytes() for path in folder.glob("*.npz")}


@pytest.mark.parametrize("step", ["write_labels", "commit_batch", "begin_batch"])
def test_a_killed_run_resumes_with_the_same_draws(case: Case, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    owner = Released if step == "write_labels" else type(case.door.ledger)
    cure = killed_at(monkeypatch, owner, step)
    with pytest.raises(KeyboardInterrupt):
        case.run()
    cure()
    drawn = drawn_before_the_kill(case)
    case.run()
    assert drawn_before_the_kill(case).items() >= drawn.items()
    if step != "begin_batch" and not case.mechanism.keyed:
        assert "answers-00001.npz" in drawn


def test_stable_labels_after_a_kill_are_those_of_an_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(tmp_path / "home", STABLE)
    shutil.copytree(tmp_path / "home", tmp_path / "twin")
    undisturbed = replace(case, door=Stores.of(tmp_path / "twin")).run()
    assert interrupted_and_resumed(case, monkeypatch, Released, "write_labels").equals(undisturbed)


def labels_written_by_a_killed_run(case: Case, monkeypatch: pytest.MonkeyPatch) -> list[Ints]:
    """Noisy counts of the second batch: those written before the kill and those written on resuming."""
    written: list[Ints] = []
    true = Released.write_labels

    def noting(self: Released, *args: Any, **kwargs: Any) -> Ref:
        if args[1] == 1:
            written.append(args[4])
        return true(self, *args, **kwargs)

    monkeypatch.setattr(Released, "write_labels", noting)
    interrupted_and_resumed(case, monkeypatch, type(case.door.ledger), "commit_batch")
    return written


def test_noise_is_not_drawn_again_on_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = labels_written_by_a_killed_run(make_case(tmp_path / "home", NOISY), monkeypatch)
    assert np.array_equal(before, after)


def test_noise_drawn_again_on_retry_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: answers are not kept, so the retry draws noise anew."""
    monkeypatch.setattr(Randomness, "kept", lambda _self, _name, make: list(make()))
    before, after = labels_written_by_a_killed_run(make_case(tmp_path / "home", NOISY), monkeypatch)
    assert not np.array_equal(before, after)


def test_votes_that_changed_stop_before_a_draw(case: Case) -> None:
    case.run()
    case.recount(1, counts_of(1)[::-1])
    before = drawn_before_the_kill(case)
    with pytest.raises(NotVerified, match="votes of batch 1"):
        case.run()
    assert drawn_before_the_kill(case) == before


def test_another_key_stops(case: Case) -> None:
    case.run()
    secret = case.door.vault.root / "secrets" / "sessions" / "d-1"
    secret.unlink()
    with pytest.raises(NotVerified, match="key"):
        case.run()
    case.door.vault.secret("sessions/d-1")
    with pytest.raises(NotVerified, match="key"):
        case.run()


def test_a_key_that_served_another_session_opens_none(case: Case) -> None:
    keys = case.door.vault.root / "secrets" / "sessions"
    (keys / "d-2").write_bytes((keys / "d-1").read_bytes()[:KEY_BYTES])  # as 0.1.0 wrote keys: without their names
    again = replace(opening_of(case.mechanism), id="d-2", commitment=commitment(case.door.vault, "d-2"))
    with pytest.raises(NotVerified, match="keys are never reused"):
        case.door.ledger.open_session(again, further=True)


def test_a_session_that_an_older_version_opened_goes_on(case: Case) -> None:
    key = case.door.vault.secret("sessions/d-1")
    bound = replace(case.session, commitment=keyed_digest(derive(key, "commitment"), "d-1"))
    check_key(case.door.vault, bound)
    with pytest.raises(NotVerified, match="is not the one"):
        check_key(case.door.vault, replace(bound, commitment=keyed_digest(key, "d-1")))


def test_a_released_file_that_changed_stops(case: Case) -> None:
    case.run()
    file = case.door.released.root / "d-1" / "labels" / "batch-00001.arrow"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(NotVerified, match="batch-00001"):
        case.run()


def test_rows_after_the_cutoff_are_not_asked(tmp_path: Path) -> None:
    mechanism = StableVoting.calibrate(epsilon=2.0, delta=1e-9, cutoff=1)  # answers a tie with probability 1e-10
    case = make_case(tmp_path / "home", mechanism)
    case.votes = [write(case.door, f"votes/tie-{at}", votes_schema(2), np.full((ROWS, 2), 300)) for at in range(3)]
    outcomes = pl.DataFrame(case.run())["outcome"].to_list()
    assert outcomes == ["refused"] + ["not asked"] * (3 * ROWS - 1)
    assert case.door.ledger.session("d-1").status == "spent"
    assert pl.DataFrame(case.run())["outcome"].to_list() == outcomes


def test_rows_beyond_those_paid_for_are_not_asked(tmp_path: Path) -> None:
    mechanism = NoisyVotes.calibrate(epsilon=2.0, delta=1e-5, queries=ROWS + 5, classes=2)
    outcomes = pl.DataFrame(make_case(tmp_path / "home", mechanism).run())["outcome"].to_list()
    assert outcomes == ["answered"] * (ROWS + 5) + ["not asked"] * (2 * ROWS - 5)


def test_the_same_rows_again_are_replayed_not_asked(case: Case) -> None:
    """A row's answer is drawn once: the same batch put later in the stream gets what was released for it."""
    case.run()
    asked = case.door.ledger.session("d-1").asked
    case.batches.append(case.batches[0])
    case.votes.append(case.votes[0])
    labels = case.run()
    assert labels["row"].to_pylist()[-ROWS:] == list(range(ROWS))
    assert case.door.ledger.session("d-1").asked == asked


def test_a_session_may_be_closed_while_its_votes_are_counted(case: Case) -> None:
    def closed(batch: PublicBatch) -> Ref:
        if batch is case.batches[1]:
            with alone_if_free(case.door.vault, "d-1", "lock") as free:
                assert free
            close(case.door, "d-1", give_back=False)
        return case.votes_on(batch)

    refs = release(case.door, case.session, case.mechanism, CLASSES, case.batches, closed)
    session = case.door.ledger.session("d-1")
    assert (session.status, session.batches, session.asked) == ("closed", 1, ROWS)
    assert case.door.released.labels(refs)["outcome"].to_pylist()[ROWS:] == ["not asked"] * (2 * ROWS)


def test_a_batch_begun_before_the_session_was_closed_is_not_asked_and_the_labels_before_it_stay(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = type(case.door.ledger).commit_batch

    def killed(ledger: Any, session: str, index: int, **outcome: Any) -> Any:
        if index == 1:
            raise KeyboardInterrupt
        return commit(ledger, session, index, **outcome)

    with monkeypatch.context() as dying:
        dying.setattr(type(case.door.ledger), "commit_batch", killed)
        with pytest.raises(KeyboardInterrupt):
            case.run()
    close(case.door, "d-1", give_back=False)
    labels = case.run()
    assert labels["outcome"].to_pylist()[ROWS:] == ["not asked"] * (2 * ROWS)
    assert labels["row"].to_pylist() == [
        *range(ROWS),
        *range(2 * ROWS, 4 * ROWS),
    ]
    again = replay(case.door, case.door.ledger.session("d-1"), case.mechanism, CLASSES, case.batches)
    assert case.door.released.labels(again).equals(labels)
    written = case.door.released.labels([case.door.released.find(labels_path("d-1", 1)) or again[0]])
    assert written["row"].to_pylist() == list(range(ROWS, 2 * ROWS))  # what left the door stays as it left

"""What a session was asked online is known to whoever asks next; if it is not, nothing is answered."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan
from concord.artifacts.stores import Stores
from concord.flows.start import start_extension
from concord.tasks.asks.online import KnownRows, as_staged
from concord.tasks.asks.votes import LabelStream
from concord.tasks.door.checkpoint import online_rows
from concord.tasks.door.erase import close, erase, forget
from concord.tasks.verify.verify import verify
from tests.flows.test_online import ROWS, opened
from tests.support.homes import killed_at
from tests.support.people import people
from tests.support.sentences import facts

PAIRS = [ROWS[first : first + 2] for first in range(0, 10, 2)]


def test_processes_that_alternate_read_each_file_once(
    session: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each answer of one would cost the other all rows that were ever asked."""
    both, reads, take = (opened(home, session), opened(home, session)), Counter[tuple[int, str]](), Vault.take

    def counted(vault: Vault, path: str) -> Any:
        reads[(id(vault), path)] += "/online/" in path
        return take(vault, path)

    with monkeypatch.context() as patch:
        patch.setattr(Vault, "take", counted)
        answers = [both[at % 2].answer(row) for at, row in enumerate(ROWS[:26])]
    assert max(reads.values()) == 1
    assert sum(reads.values()) < 2 * 26
    assert both[0].answers(ROWS[:26]) == both[1].answers(ROWS[:26]) == answers
    assert opened(home, session).answers(ROWS[:26]) == answers
    assert Ledger.of(home).session(session).asked == 326


@pytest.mark.slow
def test_a_row_that_was_put_and_not_begun_is_known_once_a_run_answers_it(
    session: str, home: Path, tmp_path: Path
) -> None:
    """Its batch is a later one than the file says, and the file was there when the one before was looked for."""
    online, other = opened(home, session), opened(home, session)
    with killed_at(LabelStream, "step"):
        other.answer(ROWS[0])
    online.answer(ROWS[1])
    people(50, 32).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    start_extension(session, tmp_path / "more.parquet", home)
    state = online.state
    assert state.asked == 352
    assert [online.answer(row) for row in ROWS[:2]] == [other.answer(row) for row in ROWS[:2]]
    assert opened(home, session).answers(ROWS[:2]) == [online.answer(row) for row in ROWS[:2]]
    assert online.state == state


@pytest.mark.parametrize("again", [False, True], ids=["asked", "killed again"])
def test_rows_that_were_put_and_not_begun_are_asked_as_they_were_put(session: str, home: Path, again: bool) -> None:
    """A run asks for all of a file: a row of it, asked alone meanwhile, would be drawn for twice."""
    other = opened(home, session)
    with killed_at(LabelStream, "step"):
        opened(home, session).answers(PAIRS[0])
    other.answer(ROWS[9])  # which is in no such file
    assert other.state.asked == 301
    if again:
        with killed_at(Ledger, "commit_batch"):
            other.answer(ROWS[0])
    answers = [other.answer(row) for row in ROWS[:2]]
    assert opened(home, session).answers(ROWS[:2]) == answers
    put = (rows.ref.path for rows, _ in online_rows(Vault(home / "vault"), session))
    assert other.state.asked == 303 == 300 + sum(2 if path.endswith("-2.arrow") else 1 for path in put)


def test_of_a_row_that_was_drawn_for_twice_the_first_answer_stays(
    session: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two files held the row, and a run asked for all of them."""
    online, vault = opened(home, session), Vault(home / "vault")
    with monkeypatch.context() as patch:
        patch.setattr(KnownRows, "left", lambda *_: None)
        for last in range(2, 10):
            with killed_at(LabelStream, "step"):
                opened(home, session).answers(ROWS[:last])
    for rows, _ in online_rows(vault, session):
        online._release(rows, online.state)
    known = KnownRows(Stores.of(home), session)
    known.update()
    assert [place and place[0].index for place in known.places(as_staged(ROWS[:2], online._recipe.encoding))] == [3, 3]


def test_rows_of_a_whole_batch_that_came_in_a_file_are_replayed(session: str, home: Path, plan: Plan) -> None:
    """The same content counts once: they are the batch that the plan's own rows began with."""
    first = pl.read_parquet(plan.path("public")).head(128)
    online, other = opened(home, session), opened(home, session)
    answers = online.answers(first)
    assert len(answers) == 128
    assert other.answers(first) == answers
    assert other.answers(ROWS[:2]) == online.answers(ROWS[:2])
    assert opened(home, session).answers(first) == answers
    assert online.state.asked == 302


def flipped(content: bytes) -> bytes:
    return content[:200] + bytes([content[200] ^ 1]) + content[201:]


def becomes_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit": lambda file: file.write_bytes(flipped(file.read_bytes())),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-200]),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "empty": lambda file: file.write_bytes(b""),
    "missing": Path.unlink,
    "a folder": becomes_folder,
    "no folder": lambda file: shutil.rmtree(file.parent),
}


def files_of_rows(home: Path, session: str) -> list[Path]:
    return sorted((home / "vault" / "sessions" / session / "online").glob("*.arrow"))


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.usefixtures("prefect_server")
def test_rows_that_are_damaged_or_gone_stop_their_session_and_nothing_else(
    session: str, home: Path, damage: str
) -> None:
    """Else a row that was asked would seem new, and be answered twice. Once a copy is back, all goes on."""
    online = opened(home, session)
    answers = [online.answers(pair) for pair in PAIRS]
    file = files_of_rows(home, session)[0]
    kept, released = home.parent / "kept", sorted((home / "released").rglob("*"))
    shutil.copytree(file.parent, kept)
    state = online.state
    DAMAGES[damage](file)
    fresh = opened(home, session)
    for rows in (PAIRS[0], ROWS[20:22]):
        with pytest.raises(NotVerified, match=facts(f"sessions/{session}/online", "twice", f"concord close {session}")):
            fresh.answers(rows)
    assert online.answers(PAIRS[0]) == answers[0]  # it has read them
    assert (online.state, sorted((home / "released").rglob("*"))) == (state, released)
    assert all(check.ok for check in verify(home))
    shutil.rmtree(file.parent, ignore_errors=True)
    shutil.copytree(kept, file.parent)
    assert [fresh.answers(pair) for pair in PAIRS] == answers
    assert fresh.state == state


def test_rows_that_cannot_be_read_are_named(session: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(home, session).answers(PAIRS[0])
    (file,) = files_of_rows(home, session)
    true = Path.open

    def refused(path: Path, *how: Any, **named: Any) -> Any:
        if path == file:
            raise PermissionError(13, "Permission denied", str(path))
        return true(path, *how, **named)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(EnvironmentFailed, match=facts(file.name, "Permission denied", "rows")):
        opened(home, session).answers(PAIRS[0])


def test_a_session_that_forgot_rows_would_answer_them_twice(
    session: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: nobody asks whether all rows on record are there."""
    opened(home, session).answers(PAIRS[0])
    shutil.rmtree(home / "vault" / "sessions" / session / "online")
    monkeypatch.setattr(KnownRows, "_check_given", lambda *_: None)
    opened(home, session).answer(PAIRS[0][1])
    assert Ledger.of(home).session(session).asked == 303


@pytest.mark.parametrize("end", ["forgotten", "erased"])
def test_a_session_whose_rows_are_damaged_can_end(session: str, home: Path, end: str) -> None:
    opened(home, session).answer(ROWS[0])
    files_of_rows(home, session)[0].write_bytes(b"")
    door = Stores.of(home)
    if end == "forgotten":
        close(door, session, give_back=True)
        assert forget(door, session)
    else:
        assert erase(door, "people", None)
    assert not (home / "vault" / "sessions" / session).exists()


def test_votes_that_are_damaged_can_be_cast_again(session: str, home: Path) -> None:
    online = opened(home, session)
    with killed_at(LabelStream, "step"):
        online.answer(ROWS[0])
    (votes,) = (home / "vault" / "votes").rglob("online-*")
    votes.write_bytes(votes.read_bytes()[:-1])
    with pytest.raises(NotVerified, match=facts(votes.name, "votes", "remove it")):
        opened(home, session).answer(ROWS[0])
    assert Ledger.of(home).session(session).pending is None
    votes.unlink()
    opened(home, session).answer(ROWS[0])


def test_an_answer_while_a_home_is_verified_is_no_damage(
    session: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is released between two looks of the one who verifies: at the ledger, and at what is released."""
    online, rows, batches = opened(home, session), iter(ROWS), Ledger.batches

    def answering(self: Ledger, name: str, first: int = 0) -> Any:
        found = batches(self, name, first)
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "batches", batches)
            online.answer(next(rows))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "batches", answering)
        checks = verify(home, session)
    assert [check.detail for check in checks if not check.ok] == []
    assert online.state.asked > 301

"""Rows asked together, or by many at once, are one batch: each is paid for before it is drawn, and drawn for once."""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.errors import BudgetRefused, EnvironmentFailed, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan
from concord.flows.start import start
from concord.tasks.asks import online as asks_online
from concord.tasks.asks.online import KnownRows, Online, Waiting, as_staged
from concord.tasks.data.encode import frame_bytes
from concord.tasks.verify.verify import verify
from tests.flows.test_online import NEW, ROWS, opened
from tests.support.homes import certified_rows, killed_at
from tests.support.people import people
from tests.support.sentences import facts


@pytest.mark.slow
def test_rows_asked_together_are_one_batch_of_the_session(session: str, plan: Plan, home: Path) -> None:
    online = opened(home, session)
    files = count_files(home)
    answers = online.answers([*ROWS[:16], ROWS[3]])
    assert {"no", "yes"} <= set(answers)
    assert answers[16] == answers[3]
    state = online.state
    assert (state.asked, state.batches, state.next_row) == (316, 4, 316)
    assert count_files(home) - files == 3  # rows, votes and labels
    assert opened(home, session).answers(reversed(ROWS[:16])) == answers[15::-1]
    assert online.answer(ROWS[7]) == answers[7]
    assert online.state == state
    summary = start(plan, home)
    assert (summary.asked, summary.asked_now) == (316, 0)
    assert certified_rows(home, summary)["label"].to_list()[300:] == answers[:16]
    assert all(check.ok for check in verify(home))


def test_callers_at_once_share_passages_of_the_door(session: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    online, began, gate = opened(home, session), threading.Event(), threading.Event()
    answer = Online._answer

    def slow(self: Online, rows: pl.DataFrame) -> Any:
        began.set()
        gate.wait(60)
        return answer(self, rows)

    monkeypatch.setattr(Online, "_answer", slow)
    with ThreadPoolExecutor(13) as pool:
        first = pool.submit(online.answer, ROWS[0])
        began.wait(60)
        rest = [pool.submit(online.answer, row) for row in [*ROWS[1:10], ROWS[0], ROWS[1]]]
        while len(online._waiting) < len(rest):
            pass
        gate.set()
        answers = [first.result(), *(each.result() for each in rest)]
    assert answers[10:] == answers[:2]
    state = online.state
    assert (state.asked, state.batches) == (310, 5)
    monkeypatch.undo()
    assert opened(home, session).answers(ROWS[:10]) == answers[:10]


def test_others_rows_are_known(session: str, home: Path) -> None:
    first, second = opened(home, session), opened(home, session)
    answers = first.answers(ROWS[:5])
    assert second.answers(ROWS[3:8])[:2] == answers[3:]
    assert first.answers(ROWS[5:8]) == second.answers(ROWS[5:8])
    assert Ledger.of(home).session(session).asked == 308


def test_what_was_asked_before_is_read_once(session: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [opened(home, session).answer(row) for row in ROWS[:3]]
    reads, read = [], Vault._open

    def counted(vault: Vault, path: str) -> Any:
        reads.append(path)
        return read(vault, path)

    monkeypatch.setattr(Vault, "_open", counted)
    assert opened(home, session).answers(ROWS[:3]) == answers
    asked = [path for path in reads if "/online/" in path]
    assert len(asked) == len(set(asked)) == 3


def test_a_wrong_row_among_others_is_told_and_nothing_is_asked(session: str, home: Path) -> None:
    online = opened(home, session)
    for wrong, words in (({"size": 1.0, "visits": 2}, "'shade'"), ({**ROWS[0], "size": "tall"}, "got 'tall'")):
        with pytest.raises(WrongInput, match=words):
            online.answers([ROWS[0], wrong])
    with pytest.raises(WrongInput, match="got 'tall'"):
        online.answers(pl.DataFrame([{**row, "size": word} for row, word in zip(ROWS, ("1.5", "tall"), strict=False)]))
    assert online.answers([]) == []
    assert online.state.asked == 300


@pytest.mark.parametrize("place", ["write_labels", "commit"])
def test_rows_together_whose_answer_was_killed_are_finished(session: str, home: Path, place: str) -> None:
    """Begun and not committed: labels follow from the session's key and the rows' places, whoever comes next."""
    twin = home.parent / "twin"
    shutil.copytree(home, twin)
    owner, name = (Released, "write_labels") if place == "write_labels" else (Ledger, "commit_batch")
    with killed_at(owner, name):
        opened(home, session).answers(ROWS[:6])
    assert Ledger.of(home).session(session).pending is not None
    assert opened(home, session).answers(ROWS[:8])[:6] == opened(twin, session).answers(ROWS[:6])
    assert Ledger.of(home).session(session).asked == 308


def test_a_session_that_ends_among_the_rows_says_so_and_replays_those_before(session: str, home: Path) -> None:
    online = opened(home, session)
    undecided = people(9000, 33).filter((pl.col("shade") == "light") & (pl.col("size") - 1).abs().lt(0.15))
    rows = undecided.head(300).rows(named=True)
    with pytest.raises(BudgetRefused, match=facts("ended")):
        online.answers(rows)
    state = online.state
    assert (state.status, state.refused) == ("spent", state.cutoff)
    asked = state.asked - 300
    assert 0 < asked < len(rows)
    again = opened(home, session)
    assert again.answers(rows[:asked]) == online.answers(rows[:asked])
    for late in (rows[asked], rows[-1], ROWS[0]):
        with pytest.raises(BudgetRefused, match=facts("ended")):
            again.answer(late)
    assert online.state == state


def test_an_index_that_lost_a_row_would_be_seen(session: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a row that was answered counts as new, and is drawn for, and paid for, again."""
    online = opened(home, session)
    online.answers(ROWS[:4])
    forgets: Callable[..., Any] = lambda self, rows: rows  # noqa: ARG005,E731
    asked = online.state.asked
    with monkeypatch.context() as patch:
        patch.setattr(KnownRows, "new", forgets)
        online.answers(ROWS[:1])
    assert online.state.asked == asked + 1


def test_rows_that_differ_in_a_bit_are_two_rows(session: str, home: Path) -> None:
    online = opened(home, session)
    beside = {**ROWS[0], "size": ROWS[0]["size"] * (1 + 2**-52)}
    assert beside["size"] != ROWS[0]["size"]
    online.answers([ROWS[0], beside, {**ROWS[0], "visits": None}, {**ROWS[0], "shade": "None"}])
    assert online.state.asked == 303 + (NEW["shade"].dtype == pl.String)


def count_files(home: Path) -> int:
    return sum(file.is_file() and "unfinished" not in str(file) for file in home.rglob("*"))


def test_a_row_is_what_it_is_alone_whatever_is_asked_beside_it(session: str, home: Path) -> None:
    """A number beside words, a whole number beside others, a decimal beside longer ones: none takes another's type."""
    encoding = opened(home, session)._recipe.encoding
    values = (1, 1.5, "1.25", True, None, Decimal("1.50"), Decimal("1.5000001"), 10**17 + 1, "7 ", float("nan"), -0.0)
    odd = [{**ROWS[0], "size": value, "shade": value} for value in values]
    together = as_staged(odd, encoding)
    assert [frame_bytes(together[at]) for at in range(len(odd))] == [
        frame_bytes(as_staged([row], encoding)) for row in odd
    ]


def test_what_fails_for_some_fails_for_no_others(session: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that wait in another batch are answered, whoever's turn it was; what failed can be asked again."""
    online, answer, failures = opened(home, session), Online._answer, [EnvironmentFailed("the disk is full")]

    def failing(self: Online, rows: pl.DataFrame) -> Any:
        if failures:
            raise failures.pop()
        return answer(self, rows)

    monkeypatch.setattr(Online, "_answer", failing)
    monkeypatch.setattr(asks_online, "MOST_ROWS", 2)
    others = Waiting(as_staged(ROWS[:2], online._recipe.encoding))
    online._waiting.append(others)
    answers = online.answers(ROWS[2:6])
    with pytest.raises(EnvironmentFailed, match="disk is full"):
        others.answers.result()
    assert online.state.asked == 304
    assert online.answers(ROWS[:6])[2:] == answers
    assert online.state.asked == 306

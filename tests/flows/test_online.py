"""A session is asked one row at a time: the same door, ledger and stream, whoever asks and whatever happens between."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.errors import BudgetRefused, NotVerified, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan
from concord.artifacts.stores import Stores
from concord.flows.start import start, start_extension
from concord.tasks.asks.online import Online
from concord.tasks.asks.votes import LabelStream
from concord.tasks.door.erase import close, forget
from concord.tasks.verify.verify import verify
from tests.support.homes import certified_rows, killed_at
from tests.support.people import changed, people
from tests.support.sentences import facts

NEW = people(40, 31).drop("outcome", "person")
ROWS = NEW.rows(named=True)


def opened(home: Path, session: str) -> Online:
    return Online(Stores.of(home), session)


def state_of(home: Path, session: str) -> tuple[Any, ...]:
    """All that a refused question must leave alone."""
    door = Stores.of(home)
    files = sorted(str(file) for file in (home / "vault" / "sessions" / session).rglob("*"))
    return door.ledger.total("people"), door.ledger.batches(session), files


@pytest.mark.usefixtures("prefect_server")
def test_rows_answered_online_are_the_session_s(session: str, plan: Plan, home: Path) -> None:
    charged = Ledger.of(home).total("people")
    online = opened(home, session)
    answers = [online.answer(row) for row in ROWS[:16]]
    assert {"no", "yes"} <= set(answers)
    state = online.state
    assert (state.asked, state.batches, state.next_row) == (316, 19, 316)
    assert state.refused >= answers.count(None)
    assert Ledger.of(home).total("people") == charged  # the session's reservation covers its refusals
    checks = verify(home)
    assert all(check.ok for check in checks)
    assert any("16 rows were answered since" in check.detail for check in checks)
    summary = start(plan, home)
    assert (summary.asked, summary.asked_now) == (316, 0)
    rows = certified_rows(home, summary)
    assert rows["row"].to_list() == list(range(316))
    assert rows["label"].to_list()[300:] == answers
    assert {stage.name for stage in summary.stages if not stage.cached} == {"study", "certify"}
    assert all(check.ok for check in verify(home))


def test_a_row_asked_again_is_replayed(session: str, home: Path) -> None:
    first, second = opened(home, session), opened(home, session)
    answers = [first.answer(row) for row in ROWS[:5]]
    state = state_of(home, session)
    assert [second.answer(row) for row in ROWS[:5]] == answers
    assert [first.answer(NEW[at]) for at in range(5)] == answers  # as a table of one row
    assert first.answer({**ROWS[0], "outcome": "yes", "remark": 7}) == answers[0]
    assert state_of(home, session) == state


@pytest.mark.slow
def test_an_extension_goes_on_after_rows_and_rows_after_it(
    session: str, plan: Plan, home: Path, tmp_path: Path
) -> None:
    online = opened(home, session)
    before = [online.answer(row) for row in ROWS[:3]]
    people(50, 32).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    assert start_extension(session, tmp_path / "more.parquet", home).asked == 353
    after = [online.answer(row) for row in ROWS[:6]]
    assert after[:3] == before
    rows = certified_rows(home, start(plan, home))
    assert rows["row"].to_list() == list(range(356))
    assert rows["label"].to_list()[300:303] == before
    assert rows["label"].to_list()[353:] == after[3:]


@pytest.mark.slow
def test_a_row_that_was_asked_online_is_not_asked_again_in_a_file(session: str, home: Path, tmp_path: Path) -> None:
    opened(home, session).answer(ROWS[0])
    NEW.head(1).write_parquet(tmp_path / "one.parquet")
    assert start_extension(session, tmp_path / "one.parquet", home).asked_now == 0


@pytest.mark.slow
def test_at_the_cutoff_new_rows_are_refused_and_known_ones_replayed(session: str, plan: Plan, home: Path) -> None:
    online = opened(home, session)
    first = online.answer(ROWS[0])
    undecided = people(9000, 33).filter((pl.col("shade") == "light") & (pl.col("size") - 1).abs().lt(0.15))
    with pytest.raises(BudgetRefused, match=facts(session, "ended")):
        list(map(online.answer, undecided.iter_rows(named=True)))
    assert (online.state.status, online.state.refused) == ("spent", plan.labeling.cutoff)
    state = state_of(home, session)
    with pytest.raises(BudgetRefused):
        opened(home, session).answer(ROWS[1])
    assert online.answer(ROWS[0]) == first
    assert state_of(home, session) == state
    assert start(plan, home).refused == plan.labeling.cutoff


WRONG: dict[str, tuple[Any, str]] = {
    "a column missing": ({"size": 1.0, "visits": 2}, "'shade'"),
    "text where a number should be": ({**ROWS[0], "size": "tall"}, "'size' as numeric, got 'tall'"),
    "two rows": (NEW.head(2), "one row"),
    "no row": (NEW.clear(), "one row"),
    "no plain value": ({**ROWS[0], "size": object()}, "row must hold"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_row_is_told_and_nothing_is_spent(session: str, home: Path, wrong: str) -> None:
    row, words = WRONG[wrong]
    state = state_of(home, session)
    with pytest.raises(WrongInput, match=words):
        opened(home, session).answer(row)
    assert state_of(home, session) == state


def test_cells_may_be_missing_or_new(session: str, home: Path) -> None:
    online = opened(home, session)
    for change in ({"size": None}, {"size": float("nan")}, {"shade": "striped"}, {"visits": "3"}, {"size": 1}):
        online.answer({**ROWS[0], **change})
    assert online.state.asked == 304  # the first two are one row


@pytest.mark.slow
@pytest.mark.parametrize("by", ["another question", "the same", "run"])
def test_an_answer_that_was_killed_is_finished(session: str, plan: Plan, home: Path, by: str) -> None:
    """Begun and not committed: whoever comes next gives the row the answer it would have had."""
    twin = home.parent / "twin"
    shutil.copytree(home, twin)
    with killed_at(Released, "write_labels"):
        opened(home, session).answer(ROWS[0])
    assert Ledger.of(home).session(session).pending is not None
    if by == "run":
        assert start(plan, home).asked == 301
    elif by == "another question":
        opened(home, session).answer(ROWS[1])
    assert opened(home, session).answer(ROWS[0]) == opened(twin, session).answer(ROWS[0])
    assert Ledger.of(home).batches(session)[3].first == 300


@pytest.mark.slow
def test_a_row_put_and_not_begun_is_answered_by_the_next_run(session: str, plan: Plan, home: Path) -> None:
    with killed_at(LabelStream, "step"):
        opened(home, session).answer(ROWS[0])
    opened(home, session).answer(ROWS[1])
    summary = start(plan, home)
    assert (summary.asked, summary.asked_now) == (302, 1)
    assert all(check.ok for check in verify(home))


@pytest.mark.slow
def test_rows_of_a_killed_run_are_finished_by_the_run(session: str, plan: Plan, home: Path, tmp_path: Path) -> None:
    NEW.write_parquet(tmp_path / "more.parquet")
    more = tmp_path / "more.parquet"
    with killed_at(Released, "write_labels"):
        start_extension(session, more, home)
    with pytest.raises(NotVerified, match="concord run PLAN"):
        opened(home, session).answer(ROWS[0])
    assert start(plan, home).asked == 340
    opened(home, session).answer(ROWS[0])


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_lost_votes_are_cast_again_and_lost_rows_are_told(session: str, plan: Plan, home: Path) -> None:
    opened(home, session).answer(ROWS[0])
    shutil.rmtree(home / "vault" / "votes")
    assert start(plan, home).asked == 301
    shutil.rmtree(home / "vault" / "sessions" / session / "online")
    with pytest.raises(NotVerified, match="but the ledger has"):
        start(changed(plan, student__refused="drop"), home)


def test_nothing_of_it_is_left_when_the_session_is_forgotten(session: str, home: Path) -> None:
    online = opened(home, session)
    online.answer(ROWS[0])
    close(Stores.of(home), session, give_back=True)
    with pytest.raises(BudgetRefused, match="closed"):
        online.answer(ROWS[1])
    assert forget(Stores.of(home), session)
    assert not any((home / "vault" / "sessions" / session).rglob("*.arrow"))
    with pytest.raises(NotVerified, match="key"):
        online.answer(ROWS[0])
    with pytest.raises(BudgetRefused, match="closed"):
        opened(home, session)
    with pytest.raises(WrongInput, match="no session 'nobody'"):
        opened(home, "nobody")


@pytest.mark.slow
@pytest.mark.parametrize(
    "labeling", [{"mechanism": "sparse_vector", "cutoff": 400}, {"mechanism": "noisy_votes", "queries": 304}]
)
def test_every_kind_of_mechanism_answers_online(plan: Plan, home: Path, labeling: dict[str, Any]) -> None:
    plan = changed({**plan.model_dump(), "labeling": {**labeling, "batch": 128}})
    online = opened(home, start(plan, home).session)
    answers = [online.answer(row) for row in ROWS[:4]]
    assert opened(home, online.id).answer(ROWS[0]) == answers[0]
    if online.state.queries == 304:
        with pytest.raises(BudgetRefused, match="spent"):
            online.answer(ROWS[4])
    rows = certified_rows(home, start(plan, home))
    assert rows["label"].to_list()[300:] == answers
    assert all(check.ok for check in verify(home))


@pytest.mark.slow
def test_a_relabelled_session_answers_online(plan: Plan, home: Path) -> None:
    relabel = {"hypotheses": "thresholds", "features": ["size"], "share": 0.3}
    labeling = {"mechanism": "noisy_votes", "queries": 2000, "batch": 128}
    plan = changed(
        {**plan.model_dump(), "relabel": relabel, "labeling": labeling}, teachers__count=30, privacy__epsilon=4.0
    )
    online = opened(home, start(plan, home).session)
    answers = [online.answer(row) for row in ROWS[:3]]
    rows = certified_rows(home, start(plan, home))
    assert rows["label"].to_list()[300:] == answers
    assert all(check.ok for check in verify(home))


def test_many_at_once_answer_each_row_once(session: str, home: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    asked = ROWS[:4] * 3
    answer: Callable[[dict[str, Any]], str | None] = lambda row: opened(home, session).answer(row)  # noqa: E731
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(answer, asked))
    assert answers[:4] == answers[4:8] == answers[8:]
    assert Ledger.of(home).session(session).asked == 304

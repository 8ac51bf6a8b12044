"""A schedule without a server: it fires in its time zone, goes on after what can be mended, and ends when told."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan, parse_plan
from concord.artifacts.stores import Stores
from concord.flows import scheduled, season, start
from concord.flows.season import next_time
from concord.flows.start import serve
from concord.tasks.door.erase import close
from concord.tasks.verify.verify import verify
from tests.deployments.services import ROOT, until
from tests.flows import test_refresh
from tests.support.homes import die_extending, state_of
from tests.support.people import arrive, changed


@pytest.mark.parametrize(
    ("cron", "timezone", "after", "first"),
    [
        ("0 3 * * *", "UTC", "2026-11-22T02:59:59", "2026-11-22T03:00:00"),
        ("0 3 * * *", "UTC", "2026-11-22T03:00:00", "2026-11-23T03:00:00"),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28T02:00:01", "2026-03-29T01:00:00"),  # the night before summer time
        ("0 3 * * *", "Europe/Berlin", "2026-10-24T01:00:01", "2026-10-25T02:00:00"),  # and the night after it
        ("15 14 1 * *", "America/New_York", "2026-01-02T00:00:00", "2026-02-01T19:15:00"),
    ],
)
def test_the_next_time_is_that_of_the_zone(cron: str, timezone: str, after: str, first: str) -> None:
    found = next_time(cron, timezone, datetime.fromisoformat(after).replace(tzinfo=UTC))
    assert found.astimezone(UTC).replace(tzinfo=None) == datetime.fromisoformat(first)


@pytest.mark.parametrize(
    ("cron", "timezone"), [("at three", "UTC"), ("0 3 * * *", "Mars/Olympus"), ("0 0 31 2 *", "UTC"), ("", "UTC")]
)
def test_a_time_that_never_comes_is_wrong_input(cron: str, timezone: str) -> None:
    with pytest.raises(WrongInput, match="--cron must be five fields"):
        next_time(cron, timezone, datetime.now(UTC))


def comes(monkeypatch: pytest.MonkeyPatch, *before: Callable[[], Any]) -> None:
    """The time has come at once, each time after one of these was done; then Ctrl-C is pressed."""
    times: Iterator[Callable[[], Any]] = iter(before)

    def now(cron: str, timezone: str, after: datetime) -> datetime:  # noqa: ARG001  # as `next_time` takes them
        if (do := next(times, None)) is None:
            raise KeyboardInterrupt
        do()
        return after - timedelta(seconds=1)

    monkeypatch.setattr(season, "next_time", now)


def idle() -> None:
    """Nothing arrives."""


@pytest.mark.slow
def test_it_answers_what_arrived_each_time(
    session: str, home: Path, arriving: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    comes(monkeypatch, idle, idle, lambda: arrive(arriving, 12, rows=40))
    with pytest.raises(KeyboardInterrupt):
        serve("people", arriving, home, cron="0 3 * * *", timezone="UTC")
    text = [line for line in capsys.readouterr().out.splitlines() if line.startswith("session")]
    assert [line.split(": ")[1].split(",")[0] for line in text] == [f"{n} rows queried now" for n in (150, 0, 40)]
    assert Ledger.of(home).session(session).asked == 490


@pytest.mark.slow
def test_a_stream_is_released_each_time_and_by_a_deployment(
    plan: Plan, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WrongInput, match="stream must be given"):
        start.serve_stream(plan, home, cron="0 3 * * *", timezone="UTC")
    folder = tmp_path / "weeks"
    weekly = parse_plan(test_refresh.tables(folder))
    comes(monkeypatch, *(partial(test_refresh.arrive, folder, week) for week in (1, 2)))
    with pytest.raises(KeyboardInterrupt):
        start.serve_stream(weekly, home, cron="0 3 * * *", timezone="UTC")
    text = [line for line in capsys.readouterr().out.splitlines() if line.startswith("session")]
    assert [line.split(": ")[1].split(",")[0] for line in text] == ["1 release queried now"] * 2
    state = scheduled.scheduled_refresh(plan=weekly, home=home, return_state=True)
    assert (state.name, Ledger.of(home).sessions("people")[-1].asked) == ("Completed", 3)


@pytest.mark.slow
def test_it_ends_when_rows_arrive_that_are_not_paid_for(
    plan: Plan, home: Path, arriving: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before: it went on for ever, and said every night that nothing was asked."""
    labeling = {"mechanism": "noisy_votes", "queries": 400, "batch": 128}
    start.start(changed({**plan.model_dump(), "labeling": labeling}), home)
    comes(monkeypatch, idle, idle)
    with pytest.raises(BudgetRefused, match="50 public rows have no label"):
        serve("people", arriving, home, cron="0 3 * * *", timezone="UTC")
    assert "100 rows queried now, 400 of 400 answered in total, 50 not queried" in capsys.readouterr().out


def test_a_wrong_table_is_told_and_the_next_time_waited_for(
    session: str, home: Path, arriving: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = arriving / "12.parquet"
    comes(monkeypatch, lambda: wrong.write_bytes(b"PAR1 is not enough"), wrong.unlink)
    with pytest.raises(KeyboardInterrupt):
        serve(session, arriving, home, cron="0 3 * * *", timezone="UTC")
    assert "concord: --public" in capsys.readouterr().err
    assert Ledger.of(home).session(session).asked == 450


def test_a_session_that_has_ended_ends_it(
    session: str, home: Path, arriving: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Stores.of(home)
    comes(monkeypatch, lambda: close(door, session, give_back=True), idle)
    with pytest.raises(BudgetRefused, match="has ended"):
        serve(session, arriving, home, cron="0 3 * * *", timezone="UTC")
    state = state_of(home, session)
    with pytest.raises(BudgetRefused, match="has ended"):
        serve(session, arriving, home, cron="0 3 * * *", timezone="UTC")
    assert state_of(home, session) == state


@pytest.mark.slow
def test_what_it_was_at_when_it_ended_is_finished_later(
    session: str, home: Path, arriving: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comes(monkeypatch, lambda: die_extending(session, arriving, home))
    with pytest.raises(KeyboardInterrupt):
        serve(session, arriving, home, cron="0 3 * * *", timezone="UTC")
    assert Ledger.of(home).session(session).asked == 450
    assert all(check.ok for check in verify(home))


@pytest.mark.slow
def test_the_command_waits_and_ends_with_sigterm(session: str, home: Path, arriving: Path, tmp_path: Path) -> None:
    options = ("--public", str(arriving), "--cron", "0 0 1 1 *", "--home", str(home))
    words, log = [str(ROOT / ".venv" / "bin" / "concord"), "serve", session, *options], tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("wb") as sink, subprocess.Popen(words, env=environment, stdout=sink, stderr=sink) as process:
        try:
            until(lambda: "next run at" in log.read_text() or process.poll() is not None, 240, log.read_text)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 143, log.read_text()
        finally:
            process.kill()
    assert log.read_text().splitlines()[-1].startswith("concord: ended by SIGTERM")

"""Whole runs, one for each way of reading private rows, killed at some points and given again: nothing is drawn, paid
for or recorded twice, and one more run changes nothing.

Noise differs between homes, so a home is compared with itself: after the kill, after the next run, and after one more.
With keyed draws its labels are those of an undisturbed home besides.
"""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.promises.commands import Commands
from tests.promises.kinds import KINDS
from tests.promises.runs import READERS, RUNS, Run
from tests.promises.walks import files
from tests.support.people import tables_of_plan
from tests.world import Charge, Ledger, Records, Session, Vault, verify

SAMPLES = {"stable": 3, "tallies": 2}
"""Kills of a kind, if not one; at other parts of each kind's run. Every kind meets every step of the door in
tests/promises/test_crash.py."""
KEYED = {kind.name for kind in KINDS if kind.keyed}
SESSION = "people-1"
SMALL = {"teachers": {"count": 20, "block": 10}}


class Named:
    """One name and key for all sessions here, so that their labels can be compared."""

    @staticmethod
    def token_hex(_: int) -> str:
        return "1"


def running(home: Path, data: Path, name: str) -> None:
    (run,) = (run for run in RUNS if run.name == name)
    tables = tables_of_plan(data) | SMALL
    if run.labels:  # of CSV files, none could be kept secret alone
        tables["data"]["private"] = "private.parquet"
    run.ask(run.plan(tables), home)


@dataclass(frozen=True)
class Left:
    """The visible state of a home: its draws, its published files, and its sessions."""

    drawn: dict[str, bytes]
    published: dict[str, bytes]
    sessions: tuple[Session, ...]
    charge: Charge | None

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger = Ledger.of(home)
        ledger.verify()
        kept, released = files(home / "vault"), files(home / "released")
        drawn = {path: kept[path] for path in kept if path.startswith("sessions/") and path.endswith(".npz")}
        known = ledger.domain("people")
        return cls(
            drawn,
            {path: text for path, text in released.items() if path.endswith((".json", ".skops", ".arrow"))},
            ledger.sessions("people"),
            None if known is None else ledger.total("people"),
        )

    @property
    def terms(self) -> list[tuple[Any, ...]]:
        """Costs and ends of sessions, without what differs between homes."""
        return [(item.mechanism["name"], item.part, item.reserved, item.status) for item in self.sessions]

    @property
    def labels(self) -> dict[str, bytes]:
        return {path: text for path, text in self.published.items() if path.endswith(".arrow")}


@cache
def commands_of(name: str, folder: Path, mlflow_database: Path) -> tuple[Commands, list[str], Left]:
    """The run, the points that it passes, and what an undisturbed one leaves."""
    keyed = name in KEYED
    commands = Commands(
        partial(running, name=name),
        folder,
        mlflow_database,
        {"tests.world.door_admit.secrets": Named} if keyed else {},
    )
    if keyed:
        Vault(commands.base / "vault").make_secret(f"sessions/{SESSION}")
    pl.read_csv(commands.data / "private.csv").write_parquet(commands.data / "private.parquet")
    home = commands.home("undisturbed")
    points = commands.go(home)
    return commands, points, Left.by(home)


def places() -> list[Any]:
    """Parts of the runs, spread over all kinds."""
    found = []
    for at, run in enumerate(READERS):
        for sample in range(samples := SAMPLES.get(run.name, 1)):
            part = (sample + (2 * at + 1) / (2 * len(READERS))) / samples
            found.append(pytest.param(run, part, id=f"{run.name}-{part:.0%}"))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.mark.slow
@pytest.mark.parametrize(("run", "part"), places())
def test_a_killed_run_is_finished_by_the_next(
    run: Run, part: float, folder: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands, points, undisturbed = commands_of(run.name, folder / run.name, mlflow_database)
    at = int(part * len(points))
    home, what = commands.home(f"killed-{at}"), f"{points[at]} ({at})"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    commands.go(home, at)
    left = Left.by(home)
    commands.go(home)
    finished = Left.by(home)
    assert left.drawn.items() <= finished.drawn.items(), what
    assert left.labels.items() <= finished.labels.items(), what
    assert finished.terms == undisturbed.terms, what
    if run.name in KEYED:
        assert finished.sessions == undisturbed.sessions, what
        assert finished.labels == undisturbed.labels, what
    monkeypatch.setenv("CONCORD_TRUST", "tests")  # one kind's student is of a test's own type
    assert [check for check in verify(home, None) if not check.ok] == [], what
    assert all(len(Records.of(home).runs(session.id)) <= 1 for session in finished.sessions), what
    commands.go(home)
    again = Left.by(home)
    assert (again.drawn, again.published, again.sessions) == (finished.drawn, finished.published, finished.sessions)
    assert again.charge == finished.charge
    assert not any(path.is_file() for path in (home / "held").rglob("*")), what

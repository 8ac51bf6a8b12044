"""Whole commands killed at each point and repeated: tallies with a choice and a test of the student, and a question.

Draws and published files stay the same, and nothing is paid for twice. As in tests/promises/test_crash_learn.py, they
run without Prefect's engine. Noise differs between homes, so a home is compared with itself: after the kill, after the
next command, and after one more.
"""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.privacy import Charge
from concord.artifacts.sessions import Session
from concord.flows import ask, learn, stages, tally
from concord.tasks.asking.questions import Question
from concord.tasks.verify.verify import verify
from tests.promises import crashes
from tests.promises.faults import Faults
from tests.promises.test_crash_learn import Direct
from tests.support.copies import copied
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.processes import FRESH

CANDIDATES = [{"estimator": "sklearn.dummy.DummyClassifier"}, {"learner": "linear"}]
DOORS = (tally.release_round, stages.choose_candidate, stages.release_test, ask.release_question)
Command = Callable[[Path, Path], object]


def learning(home: Path, data: Path) -> None:
    tables = {name: part for name, part in tables_of_plan(data).items() if name not in ("teachers", "student")}
    tables["labeling"] = {"mechanism": "tallies", "rounds": 1}
    del tables["data"]["test"]
    chosen = {"student__candidates": CANDIDATES, "student__epsilon": 1.0}
    learn.learn.fn(changed(tables, test__share=0.3, **chosen), home)


def lighter(rows: pl.DataFrame) -> Any:
    return int((rows["shade"] == "light").sum()) * 2 > rows.height


def asking(home: Path, data: Path) -> None:
    plan = changed(tables_of_plan(data), teachers__count=2, teachers__block=1, privacy__epsilon=2.0)
    for number in (1, 2):
        terms = ask.QuestionTerms(epsilon=2.0, form="optimal", cutoff=3, new_session=False)
        ask.ask(plan, Question(f"question {number}", lighter), home, terms)


@dataclass(frozen=True)
class Left:
    """The visible state of a home: its draws, its published files, and its charges."""

    drawn: dict[str, bytes]
    published: dict[str, bytes]
    certificates: dict[str, bytes]
    sessions: tuple[Session, ...]
    charge: Charge | None

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger = Ledger.of(home)
        ledger.verify()
        kept, released = crashes.files(home / "vault"), crashes.files(home / "released")
        drawn = {path: kept[path] for path in kept if path.startswith("sessions/") and path.endswith(".npz")}
        known = ledger.domain("people")
        return cls(
            drawn,
            {path: text for path, text in released.items() if path.endswith((".json", ".skops", ".arrow"))},
            {path: text for path, text in released.items() if path.endswith("/certificate.json")},
            ledger.sessions("people"),
            None if known is None else ledger.total("people"),
        )


class Commands:
    """One command, run each time in a new process and home."""

    def __init__(self, command: Command, folder: Path, mlflow_database: Path) -> None:
        self.command, self.folder, self.base = command, folder, folder / "base"
        self.data = write_tables(folder / "data", people(1200, 1))
        Vault(self.base / "vault").secret("domains/people")
        shutil.copy(mlflow_database, self.base / "mlflow.db")
        self.points = self.go(self.home("undisturbed"))
        self.undisturbed = Left.by(folder / "undisturbed")

    def home(self, name: str) -> Path:
        return copied(self.base, self.folder / name)

    def go(self, home: Path, at: int | None = None) -> list[str]:
        result = self.folder / "points"
        process = FRESH.Process(target=attempt, args=(self.command, home, self.data, at, result))
        process.start()
        process.join()
        assert process.exitcode == (0 if at is None else -signal.SIGKILL)
        return result.read_text().splitlines() if at is None else []


def attempt(command: Command, home: Path, data: Path, at: int | None, path: Path) -> None:
    """One process gives the command, killed at one point or at none; the points it passed are written down."""
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{home / 'mlflow.db'}"
    patch = pytest.MonkeyPatch()  # for as long as the process lasts
    patch.setattr("concord.flows.run.Stages", Direct)
    for door in DOORS:
        patch.setattr(door, "task", door.task.fn)
    patch.setattr("concord.flows.learn.shown", lambda summary: summary)  # its page needs Prefect's server
    faults = Faults(home, at)
    faults.install()
    command(home, data)
    path.write_text("\n".join(faults.points))


def terms(left: Left) -> list[tuple[Any, ...]]:
    """Costs and ends of sessions, without what differs between homes."""
    return [(item.mechanism["name"], item.part, item.reserved, item.settled, item.status) for item in left.sessions]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Callable[[Command], Commands]:
    """Each command, run once without a fault."""
    return cache(lambda command: Commands(command, tmp_path_factory.mktemp(command.__name__), mlflow_database))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "part"), [*((learning, part) for part in (0.3, 0.6, 0.75, 0.9)), (asking, 0.45), (asking, 0.8)]
)
def test_a_killed_command_is_finished_by_the_next(
    given: Callable[[Command], Commands], command: Command, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = given(command)
    at = int(part * len(commands.points))
    home = commands.home(f"killed-{at}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    commands.go(home, at)
    left = Left.by(home)
    assert not list((home / "released").rglob("candidates"))
    commands.go(home)
    finished = Left.by(home)
    what = f"{commands.points[at]} ({at})"
    assert left.drawn.items() <= finished.drawn.items(), what
    assert left.certificates.items() <= finished.certificates.items() or command is asking, what
    assert terms(finished) == terms(commands.undisturbed), what
    assert finished.charge == commands.undisturbed.charge, what
    assert [check for check in verify(home, None) if not check.ok] == [], what
    commands.go(home)
    again = Left.by(home)
    assert (again.drawn, again.published, again.sessions) == (finished.drawn, finished.published, finished.sessions)
    assert not (home / "held").exists() or not any(path.is_file() for path in (home / "held").rglob("*")), what

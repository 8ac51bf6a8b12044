"""Walks of whole commands, from plan to MLflow: each is given, and must end with a home that verifies."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests import world
from tests.promises.commands import STAND_INS
from tests.promises.kinds import KINDS
from tests.promises.runs import READERS, RUNS
from tests.promises.walks import Seen, Walk, below, files
from tests.support.people import arrive, changed, people, tables_of_plan, write_tables

FINAL = r"released/[^/]+/(labels|rounds)/"
"""Released files that are never replaced."""
NAMED = "sessions/people-1"
KEYED = {kind.name for kind in KINDS if kind.keyed}
SMALL = {"teachers": {"count": 20, "block": 10}}


@contextmanager
def standing_in(home: Path) -> Iterator[None]:
    """Commands on the home run without Prefect's engine, which does not affect the guarantee and takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        patch.setenv("CONCORD_TRUST", "tests")  # one kind's student is of a test's own type
        for place, stand_in in STAND_INS.items():
            patch.setattr(place, stand_in)
        if (home / "vault" / "secrets" / NAMED).exists():
            patch.setattr(world.door_admit, "secrets", Named)
        yield


class Named:
    """One name and key for the session of a walk whose draws are keyed, so that their labels can be compared."""

    @staticmethod
    def token_hex(_: int) -> str:
        return "1"


def keyed(home: Path) -> None:
    """As `with_tables`, with the session's key."""
    with_tables(home)
    world.Vault(home / "vault").make_secret(NAMED)


def with_tables(home: Path) -> None:
    """A home, and its tables beside it; with the empty tracking store that is there already."""
    data = write_tables(home.parent / "data", people(1200, 1))
    pl.read_csv(data / "private.csv").write_parquet(data / "private.parquet")
    home.mkdir(mode=0o700)
    shutil.copy(home.parent / "mlflow.db", home)
    world.Vault(home / "vault").make_secret("domains/people")


def given(home: Path, command: Callable[[Path], object]) -> None:
    """The command is given, and the home verifies; nothing is held back."""
    with standing_in(home):
        command(home)
        failing = [check for check in world.verify(home) if not check.ok]
        assert failing == [], failing
        assert not any(path.is_file() for path in (home / "held").rglob("*"))


def running(home: Path, name: str) -> None:
    (run,) = (run for run in RUNS if run.name == name)
    tables = tables_of_plan(home.parent / "data") | SMALL
    if run.labels:  # of CSV files, none could be kept secret alone
        tables["data"]["private"] = "private.parquet"
    run.ask(run.plan(tables), home)
    assert all(
        len(world.Records.of(home).runs(session.id)) <= 1 for session in world.Ledger.of(home).sessions("people")
    )


def of_home(home: Path) -> Seen:
    """The draws and terms of all sessions."""
    ledger, found = world.Ledger.of(home), files(home)
    ledger.verify()
    sessions = ledger.sessions("people") if ledger.domain("people") else []
    drawn = {path: noise for path, noise in below(found, "vault/sessions/").items() if path.endswith(".npz")}
    public = {path: content for path, content in below(found, "released/").items() if re.match(FINAL, path)}
    terms = [(item.mechanism["name"], item.part, item.reserved, item.status, item.batches) for item in sessions]
    return Seen(drawn, public, end=(terms, len(drawn)), charge=ledger.total("people") if sessions else None)


def published(home: Path) -> None:
    """A home that published a session, and more public rows beside it."""
    with_tables(home)
    tables = {**tables_of_plan(home.parent / "data"), "labeling": {"mechanism": "noisy_votes", "queries": 500}}
    lifetime = {"epsilon": 60.0, "delta": 4e-4}
    plan = changed(tables | SMALL, labeling__batch=128, test__share=0.3, privacy__lifetime=lifetime)
    given(home, lambda own: world.flows_learn.learn(plan, own))
    arrive(home.parent / "more", 11)


def extending(home: Path) -> None:
    world.flows_learn.extend(labelled(home), home.parent / "more", home)


def studying(home: Path) -> None:
    world.flows_learn.study_again(labelled(home), home, world.StudentPlan(estimator="sklearn.dummy.DummyClassifier"))


def labelled(home: Path) -> str:
    return next(session.id for session in world.Ledger.of(home).sessions("people") if session.purpose == world.LABELS)


def usable(home: Path) -> Seen:
    """As any command finds it first: the student that is published predicts, and all that is published verifies."""
    world.settle(home)
    with standing_in(home):
        rows = pl.read_parquet(home.parent / "data" / "public.parquet")
        assert len(world.student_of(world.handed_on(labelled(home), home)).predict(rows)) == rows.height
        failing = [check for check in world.verify_published(home / "released" / labelled(home)) if not check.ok]
        assert failing == [], failing
    return of_home(home)


READING = tuple(
    Walk(
        f"run {run.name}",
        keyed if run.name in KEYED else with_tables,
        partial(given, command=partial(running, name=run.name)),
        of_home,
        run.name in KEYED,
        FINAL,
    )
    for run in READERS
)
PUBLISHING_AGAIN = tuple(
    Walk(command.__name__, published, partial(given, command=command), usable, final=FINAL)
    for command in (extending, studying)
)
COMMANDS: Sequence[Walk] = (*READING, *PUBLISHING_AGAIN)

"""The life of a session, of every kind of release and every way to learn: what is published verifies, and any edit of
it is found, as is an entry that the ledger lacks; asked again it is free, draws nothing and is the one run in MLflow
that it was, whatever caches are lost; a further session is refused unasked; private rows that changed under their
version stop it; and what is forgotten leaves the vault and never goes on.

Tests in tests/flows hold what is special to one way. What none may tell is in tests/promises/test_canary_kinds.py.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests import world
from tests.promises.kept import KINDS
from tests.promises.recorder import drawing
from tests.promises.runs import RUNS, Run, Tables, refreshed, trying, without
from tests.support.chained import Said, rewrite
from tests.support.homes import charged
from tests.support.people import people, tables_of_plan, write_tables
from tests.support.sentences import facts

TALLIES = {"mechanism": "tallies", "rows": 3000}
CHOSEN = {"learner": "universal", "hypotheses": "stumps", "features": ["size"], "epsilon": 1.0}
CACHES = ("public", "shards", "relabelled", "teachers", "votes", "units", "sums", "counts", "measured", "coded")
"""Folders of the vault that are made anew from the tables."""


def tallied(tables: Tables) -> Tables:
    return {**without(tables, "teachers", "student"), "labeling": TALLIES}


def number(tables: Tables) -> Tables:
    """The label is a number."""
    data = {**without(tables["data"], "classes"), "label": "size", "bounds": [-4, 4], "features": ["shade", "visits"]}
    return {**tallied(tables), "data": data}


def beside(tables: Tables) -> Tables:
    """A student is chosen beside labels, in a session of its own."""
    return {**tables, "student": CHOSEN}


WAYS = (
    *(replace(run, tables=trying) if run.name == "test" else run for run in RUNS),
    Run("a number", "tallies", number),
    Run("a student beside labels", "stable", beside, (("student__epsilon", 0.5),)),
    Run("tested tallies", "tallies", lambda tables: tallied({**tables, "test": {"share": 0.3}})),
)
ANSWERED = ("question", "stream")
"""Ways that are answered again from what was released, whatever the tables hold by then."""
QUICK = ("stable", "tallies")
"""Ways of the default tests."""


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """A plan of people, as nested tables."""
    given, rows = tables_of_plan(write_tables(tmp_path / "data")), people(3000, 1)
    rows.write_parquet(tmp_path / "data" / "private.parquet")
    return {**given, "data": {**given["data"], "private": "private.parquet"}, "teachers": {"count": 60, "block": 30}}


@contextmanager
def nothing_drawn() -> Iterator[None]:
    """Context in which no mechanism can draw."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, method in drawing():
            patch.setattr(owner, method, None)
        yield


def contents(*folders: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


def faults(home: Path) -> list[str]:
    """What a home's verification finds, and a stranger's of each folder that was published."""
    certified = [file.parent for file in (home / "released").glob("*/certificate.json")]
    checks = [*world.verify(home), *(check for folder in certified for check in world.verify_published(folder))]
    return [f"{check.name}: {check.detail}" for check in checks if not check.ok]


def edits_missed(home: Path) -> list[Path]:
    """The published files of which a flip of one bit is not found."""
    missed = []
    for file, whole in contents(home / "released").items():
        folder, middle = home / "released" / file.relative_to(home / "released").parts[0], len(whole) // 2
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        checks = world.verify_published(folder) if (folder / "certificate.json").exists() else world.verify(home)
        missed += [file] * all(check.ok for check in checks)
        file.write_bytes(whole)
    return missed


def last_commit(session: str, entries: list[Said]) -> None:
    """Drop the session's last commit, and what came after it in the session."""
    last = max(at for at, entry in enumerate(entries) if (entry.session, entry.kind) == (session, "commit"))
    entries[:] = [entry for at, entry in enumerate(entries) if at < last or entry.session != session]


def all_batches(session: str, entries: list[Said]) -> None:
    gone = ("begin", "draw", "commit", "settle")
    entries[:] = [entry for entry in entries if entry.session != session or entry.kind not in gone]


def runs_of(home: Path) -> list[str]:
    """The runs in MLflow's store, whatever session they are of, unfinished ones too."""
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return [run.info.run_id for run in client.search_runs(experiments)]


class Life:
    """A home after one session of a way, and what must stay as it is."""

    def __init__(self, way: Run, tables: Tables, home: Path) -> None:
        self.way, self.tables, self.home, self.plan = way, tables, home, way.plan(tables)
        way.ask(self.plan, home)
        self.sessions, self.kept = world.Ledger.of(home).sessions("people"), self.state()
        assert len(runs_of(home)) == 1  # also of labels with a student chosen beside them, and of a test
        self.made = list(contents(*(home / "vault" / kind for kind in KINDS)))

    def state(self) -> Any:
        return charged(self.home), contents(self.home / "released"), runs_of(self.home)

    def is_free_again(self) -> None:
        with nothing_drawn():
            self.way.ask(self.plan, self.home)
        assert self.state() == self.kept

    def refuses(self, error: type[Exception], said: str, plan: world.Plan | None = None) -> None:
        with pytest.raises(error, match=said):
            self.way.ask(plan or self.plan, self.home)
        assert self.state() == self.kept

    def refuses_other_rows(self) -> None:
        """Of private rows under the same version; if labels alone are secret, other features are another question."""
        private = Path(self.plan.path("private"))
        whole = private.read_bytes()
        people(3000, 7).write_parquet(private)
        self.refuses(*((world.BudgetRefused, "domain 'people'") if self.way.labels else (world.NotVerified, "version")))
        private.write_bytes(whole)

    def misses_no_entry(self) -> None:
        """Of the ledger, with its chain made anew: what was refused would be charged to nobody, and what was answered
        could be asked again."""
        ledger, cuts = (self.home / "ledger.db").read_bytes(), [all_batches]
        if list(self.home.glob("released/*/certificate.json")):  # else, a crash before the commit leaves the same
            cuts.append(last_commit)
        for session in self.sessions:
            for cut in cuts:
                rewrite(self.home, partial(cut, session.id))
                assert faults(self.home), (session.mechanism["name"], cut)
                (self.home / "ledger.db").write_bytes(ledger)

    def asks_no_row_twice(self) -> None:
        with suppress(world.WrongInput):  # of sessions that label no later rows
            assert self.extended().asked_now == 0
        assert self.state() == self.kept

    def extended(self) -> world.Summary:
        try:
            return world.start_extension(self.sessions[0].id, Path(self.plan.path("public")), self.home)
        except world.RowsNotPaid as unpaid:  # the session has ended
            return unpaid.summary

    def ends(self) -> None:
        """Closed and forgotten."""
        for session in self.sessions:
            world.close(world.Stores.of(self.home), session.id, give_back=False)
            assert world.forget(world.Stores.of(self.home), session.id)
        assert [
            file for file in self.made if file.exists() and "shards" not in file.parts
        ] == []  # shards are the domain's
        assert faults(self.home) == []
        self.refuses(world.BudgetRefused, "--new-session")
        if self.plan.data.public:
            with pytest.raises(world.BudgetRefused, match=facts(self.sessions[0].id, "ended")):
                self.extended()


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[] if way.name in QUICK else pytest.mark.slow, id=way.name) for way in WAYS]
)
def test_a_session_keeps_its_promises_from_its_first_run_until_it_is_forgotten(
    way: Run, tables: Tables, plain_home: Path
) -> None:
    life = Life(way, tables, plain_home)
    assert faults(plain_home) == []
    assert edits_missed(plain_home) == []
    assert all(session.settled == session.reserved for session in life.sessions if session.status == "spent")
    life.misses_no_entry()
    life.is_free_again()
    for folder in ("results", *(f"vault/{name}" for name in CACHES if way.ask is not refreshed)):
        shutil.rmtree(plain_home / folder, ignore_errors=True)
    life.is_free_again()
    life.refuses(world.BudgetRefused, "--new-session|secret subset", way.plan(tables, **dict(way.other)))
    if not way.name.startswith(ANSWERED):
        life.refuses_other_rows()
    if life.plan.data.public:
        life.asks_no_row_twice()
    life.ends()


STAGES = {
    "stable": "encode split teach poll release study certify",
    "tallies": "encode code gather tally release infer study certify",
    "sketch": "encode gather tally release infer study certify",
    "test": "encode split teach poll release study try test certify",
    "relabelled": "encode split relabel teach poll release study certify",
    "hypothesis": "encode count choose study certify",
    "a student beside labels": "encode split teach count poll release choose study certify",
    "estimate": "encode split measure release",
    "question": "encode split ask release",
}
"""The stages of some ways, in order."""


def stages_of(result: Any) -> list[tuple[str, bool]]:
    """The stages of a run, and whether each was answered from the cache."""
    reports = result["stages"] if isinstance(result, dict) else [each.model_dump() for each in result.stages]
    return [(each["name"], each["cached"]) for each in reports]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in STAGES]
)
def test_the_same_again_is_answered_from_the_cache_of_every_stage(name: str, tables: Tables, home: Path) -> None:
    (way,) = (way for way in WAYS if way.name == name)
    plan = way.plan(tables)
    first, again = (stages_of(way.ask(plan, home)) for _ in range(2))
    assert first == [(stage, False) for stage in STAGES[name].split()]
    assert again
    assert all(from_cache for _, from_cache in again)
    assert {*dict(again)} <= {*dict(first)}  # a question that was answered asks no shard

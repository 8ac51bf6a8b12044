"""Secrets that records depend on, taken out of the vault one by one: no command makes one anew, and none that would
read private rows by another goes on. Otherwise erased units came back, and a stream asked everybody again at no charge.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.promises.commands import plainly
from tests.support.copies import copied
from tests.support.homes import killed_at
from tests.support.people import arrive, changed, people, tables_of_plan, write_tables
from tests.support.sentences import facts
from tests.world import (
    BudgetRefused,
    ConcordError,
    Ledger,
    NotVerified,
    Plan,
    Stores,
    Vault,
    close,
    erase,
    erased_units,
    estimate,
    extend,
    forget,
    learn,
    periods_counted,
    refresh,
    study_again,
    verify,
)

DOMAIN = "domains/people"
ARRIVING = {"data__private": "arriving", "privacy__domain": "arriving", "stream__season": 3}


@pytest.fixture(scope="module", autouse=True)
def _plainly() -> Iterator[None]:
    with plainly():
        yield


@dataclass(frozen=True)
class World:
    """A home after one session of votes and one season of a stream that goes on, its tables, and the plans of both."""

    home: Path
    folder: Path
    votes: Plan
    stream: Plan

    def period(self, number: int) -> None:
        (self.folder / "arriving").mkdir(exist_ok=True)
        people(200, 20 + number).write_parquet(self.folder / "arriving" / f"{number}.parquet")

    @property
    def session(self) -> str:
        return Ledger.of(self.home).sessions("people")[0].id

    @property
    def season(self) -> str:
        return Ledger.of(self.home).sessions("arriving")[0].id

    def without(self, name: str) -> Path:
        """The file of a secret, which is taken away."""
        file = self.home / "vault" / "secrets" / name
        file.unlink()
        return file


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> World:
    home, folder = (tmp_path_factory.mktemp(name) for name in ("home", "data"))
    shutil.copy(mlflow_database, home / "mlflow.db")
    tables = tables_of_plan(write_tables(folder, people(600, 1))) | {"teachers": {"count": 20, "block": 10}}
    tables["privacy"] |= {"epsilon": 1.0, "lifetime": {"epsilon": 12.0, "delta": 1e-4}}
    votes = changed(tables, data__version="1", labeling__cutoff=400, test__share=0.2)
    streamed = {name: part for name, part in tables.items() if name not in ("teachers", "student")}
    streamed["labeling"] = {"mechanism": "tallies", "rows": 1000}
    world = World(home, folder, votes, changed(streamed, **ARRIVING))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        learn(world.votes, home)
        world.period(1)
        refresh(world.stream, home)
    erase(Stores.of(home), "arriving", "p21-3")  # and the season goes on
    return world


@pytest.fixture
def world(base: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """With a copy of the home, and the same tables."""
    home = copied(base.home, tmp_path / "home")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    yield replace(base, home=home)
    (base.folder / "arriving" / "2.parquet").unlink(missing_ok=True)


Command = Callable[[World], Any]
LEARNING: dict[str, Command] = {
    "run": lambda world: learn(world.votes, world.home),
    "run of another plan": lambda world: learn(other(world.votes), world.home),
    "run --new-session": lambda world: learn(world.votes, world.home, new_session=True),
    "extend": lambda world: extend(world.session, arrive(world.folder / "later", 8), world.home),
    "study": lambda world: study_again(world.session, world.home),
    "estimate": lambda world: estimate(world.votes, 0.5, 0.2, 0.05, world.home),
    "erase a unit": lambda world: erase(Stores.of(world.home), "people", "p1-3"),
}
STREAM: dict[str, Command] = {"refresh": lambda world: refresh(world.stream, world.home)}
READS_NOTHING: dict[str, Command] = {
    "verify": lambda world: verify(world.home),
    "close": lambda world: close(Stores.of(world.home), world.session, give_back=False),
    "forget": lambda world: forget(Stores.of(world.home), world.session),
    "close the season": lambda world: close(Stores.of(world.home), world.season, give_back=False),
    "forget the season": lambda world: forget(Stores.of(world.home), world.season),
    "erase all": lambda world: erase(Stores.of(world.home), "people", None),
}


def other(plan: Plan) -> Plan:
    return plan.model_copy(update={"labeling": plan.labeling.model_copy(update={"cutoff": 8})})


SECRETS: dict[str, tuple[Callable[[World], str], dict[str, Command]]] = {
    "the installation's": (lambda _: "installation", {**LEARNING, **STREAM}),
    "the domain's": (lambda _: DOMAIN, LEARNING),
    "the domain's of the stream": (lambda _: "domains/arriving", STREAM),
    "the stream's": (lambda world: f"streams/{Ledger.of(world.home).session(world.season).stream}", STREAM),
    "the session's": (lambda world: f"sessions/{world.session}", {name: LEARNING[name] for name in ("run", "extend")}),
    "the season's": (lambda world: f"sessions/{world.season}", STREAM),
}


@pytest.mark.parametrize(
    "of", [pytest.param(of, marks=[] if of in ("the domain's", "the stream's") else pytest.mark.slow) for of in SECRETS]
)
def test_a_secret_that_is_lost_is_asked_for_and_never_made_anew(world: World, of: str) -> None:
    named, refusing = SECRETS[of]
    name = named(world)
    file = world.without(name)
    world.period(2)
    charged = {domain: Ledger.of(world.home).total(domain) for domain in ("people", "arriving")}
    for command, give in refusing.items():
        with pytest.raises(NotVerified, match="restore") as stopped:
            give(world)
        assert (name in str(stopped.value)) or name.startswith("sessions/"), command
        assert not file.exists(), command
    assert {domain: Ledger.of(world.home).total(domain) for domain in charged} == charged
    for command, give in {**READS_NOTHING, **LEARNING, **STREAM}.items():
        try:
            give(world)
        except ConcordError:
            assert command not in ("close", "close the season", "erase all") or name == "installation", command
        assert not file.exists(), command


@pytest.mark.slow
@pytest.mark.parametrize("of", ["the domain's", "the domain's of the stream", "the stream's", "the season's"])
def test_another_secret_in_its_place_is_refused(world: World, of: str) -> None:
    """As another home has it."""
    named, refusing = SECRETS[of]
    name = named(world)
    world.without(name)
    Vault(world.home / "vault").make_secret(name)
    world.period(2)
    for give in refusing.values():
        with pytest.raises(NotVerified, match=r"is not the one"):
            give(world)


def test_a_secret_that_nothing_depends_on_yet_is_made(world: World) -> None:
    """A first run was killed before anything was on record: what it made by the lost secret is made again."""
    plan = world.votes.model_copy(update={"privacy": world.votes.privacy.model_copy(update={"domain": "new"})})
    data = write_tables(world.home.parent / "new", people(600, 9))
    plan = plan.model_copy(update={"folder": str(data)})
    with killed_at("tests.world.flows_admit.begin"):
        learn(plan, world.home)
    shards = {*(world.home / "vault/shards/new").rglob("*.arrow")}
    world.without("domains/new")
    assert shards
    learn(plan, world.home)
    assert [remark.kind for remark in Ledger.of(world.home).remarks("new")] == ["secret", "holds"]


def test_a_period_that_was_counted_is_never_counted_under_another_key(world: World) -> None:
    """Killed between counting and drawing, with the stream's secret lost and a unit erased: the whole was counted again
    under a new one, and the period after asked all units a second time within one charge."""
    world.period(2)
    with killed_at("tests.world.SeasonAsk.steps"):
        refresh(world.stream, world.home)
    door = Stores.of(world.home)
    session = door.ledger.session(world.season)
    assert len([*periods_counted(door.vault, session)]) == session.asked + 1
    world.without(f"streams/{session.stream}")
    erase(door, "arriving", "p22-4")
    for _ in range(2):
        with pytest.raises(NotVerified, match=facts("stream", "whom it asked", "restore")):
            refresh(world.stream, world.home)
    close(door, session.id, give_back=False)
    with pytest.raises(BudgetRefused, match="does not know any more whom it asked"):
        refresh(world.stream, world.home)


def test_who_was_erased_stays_out_with_an_older_copy_of_the_whole_vault(world: World, tmp_path: Path) -> None:
    """A copy of before the domain was used has no secret of it; one of after has the same."""
    older = tmp_path / "older"
    shutil.copytree(world.home / "vault", older)
    door = Stores.of(world.home)
    erase(door, "people", "p1-3")
    gone = erased_units(door, "people")
    shutil.rmtree(world.home / "vault")
    shutil.copytree(older, world.home / "vault")
    assert erased_units(Stores.of(world.home), "people") == gone != ()
    for path in (world.home / "vault").iterdir():
        if path.name != "secrets":
            shutil.rmtree(path)
    shutil.rmtree(world.home / "vault/secrets/domains")
    for give in LEARNING.values():
        with pytest.raises(ConcordError):
            give(world)
    assert not (world.home / "vault/secrets/domains").exists()

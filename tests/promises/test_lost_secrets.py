"""Secrets that records depend on, taken out of the vault one by one: no command makes one anew, and none that would
read private rows by another goes on. Otherwise erased units came back, and a stream asked everybody again at no charge.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.promises.commands import plainly
from tests.support.copies import copied
from tests.support.homes import killed_at
from tests.support.people import arrive, changed, people, tables_of_plan, write_tables
from tests.support.sentences import facts

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
    votes: world.Plan
    stream: world.Plan

    def period(self, number: int) -> None:
        (self.folder / "arriving").mkdir(exist_ok=True)
        people(200, 20 + number).write_parquet(self.folder / "arriving" / f"{number}.parquet")

    @property
    def session(self) -> str:
        return world.Ledger.of(self.home).sessions("people")[0].id

    @property
    def season(self) -> str:
        return world.Ledger.of(self.home).sessions("arriving")[0].id

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
    case = World(home, folder, votes, changed(streamed, **ARRIVING))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        world.learn(case.votes, home)
        case.period(1)
        world.refresh(case.stream, home)
    world.erase(world.Stores.of(home), "arriving", "p21-3")  # and the season goes on
    return case


@pytest.fixture
def case(base: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """With a copy of the home, and the same tables."""
    home = copied(base.home, tmp_path / "home")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    yield replace(base, home=home)
    (base.folder / "arriving" / "2.parquet").unlink(missing_ok=True)


Command = Callable[[World], Any]
LEARNING: dict[str, Command] = {
    "run": lambda case: world.learn(case.votes, case.home),
    "run of another plan": lambda case: world.learn(other(case.votes), case.home),
    "run --new-session": lambda case: world.learn(case.votes, case.home, new_session=True),
    "extend": lambda case: world.extend(case.session, arrive(case.folder / "later", 8), case.home),
    "study": lambda case: world.study_again(case.session, case.home),
    "estimate": lambda case: world.estimate(case.votes, 0.5, 0.2, 0.05, case.home),
    "erase a unit": lambda case: world.erase(world.Stores.of(case.home), "people", "p1-3"),
}
STREAM: dict[str, Command] = {"refresh": lambda case: world.refresh(case.stream, case.home)}
READS_NOTHING: dict[str, Command] = {
    "verify": lambda case: world.verify(case.home),
    "close": lambda case: world.close(world.Stores.of(case.home), case.session, give_back=False),
    "forget": lambda case: world.forget(world.Stores.of(case.home), case.session),
    "close the season": lambda case: world.close(world.Stores.of(case.home), case.season, give_back=False),
    "forget the season": lambda case: world.forget(world.Stores.of(case.home), case.season),
    "erase all": lambda case: world.erase(world.Stores.of(case.home), "people", None),
}


def other(plan: world.Plan) -> world.Plan:
    return plan.model_copy(update={"labeling": plan.labeling.model_copy(update={"cutoff": 8})})


SECRETS: dict[str, tuple[Callable[[World], str], dict[str, Command]]] = {
    "the installation's": (lambda _: "installation", {**LEARNING, **STREAM}),
    "the domain's": (lambda _: DOMAIN, LEARNING),
    "the domain's of the stream": (lambda _: "domains/arriving", STREAM),
    "the stream's": (lambda case: f"streams/{world.Ledger.of(case.home).session(case.season).stream}", STREAM),
    "the session's": (lambda case: f"sessions/{case.session}", {name: LEARNING[name] for name in ("run", "extend")}),
    "the season's": (lambda case: f"sessions/{case.season}", STREAM),
}


@pytest.mark.parametrize(
    "of", [pytest.param(of, marks=[] if of in ("the domain's", "the stream's") else pytest.mark.slow) for of in SECRETS]
)
def test_a_secret_that_is_lost_is_asked_for_and_never_made_anew(case: World, of: str) -> None:
    named, refusing = SECRETS[of]
    name = named(case)
    file = case.without(name)
    case.period(2)
    charged = {domain: world.Ledger.of(case.home).total(domain) for domain in ("people", "arriving")}
    for command, give in refusing.items():
        with pytest.raises(world.NotVerified, match="restore") as stopped:
            give(case)
        assert (name in str(stopped.value)) or name.startswith("sessions/"), command
        assert not file.exists(), command
    assert {domain: world.Ledger.of(case.home).total(domain) for domain in charged} == charged
    for command, give in {**READS_NOTHING, **LEARNING, **STREAM}.items():
        try:
            give(case)
        except world.ConcordError:
            assert command not in ("close", "close the season", "erase all") or name == "installation", command
        assert not file.exists(), command


@pytest.mark.slow
@pytest.mark.parametrize("of", ["the domain's", "the domain's of the stream", "the stream's", "the season's"])
def test_another_secret_in_its_place_is_refused(case: World, of: str) -> None:
    """As another home has it."""
    named, refusing = SECRETS[of]
    name = named(case)
    case.without(name)
    world.Vault(case.home / "vault").make_secret(name)
    case.period(2)
    for give in refusing.values():
        with pytest.raises(world.NotVerified, match=r"is not the one"):
            give(case)


def test_a_secret_that_nothing_depends_on_yet_is_made(case: World) -> None:
    """A first run was killed before anything was on record: what it made by the lost secret is made again."""
    plan = case.votes.model_copy(update={"privacy": case.votes.privacy.model_copy(update={"domain": "new"})})
    data = write_tables(case.home.parent / "new", people(600, 9))
    plan = plan.model_copy(update={"folder": str(data)})
    with killed_at("tests.world.flows_admit.begin"):
        world.learn(plan, case.home)
    shards = {*(case.home / "vault/shards/new").rglob("*.arrow")}
    case.without("domains/new")
    assert shards
    world.learn(plan, case.home)
    assert [remark.kind for remark in world.Ledger.of(case.home).remarks("new")] == ["secret", "holds"]


def test_a_period_that_was_counted_is_never_counted_under_another_key(case: World) -> None:
    """Killed between counting and drawing, with the stream's secret lost and a unit erased: the whole was counted again
    under a new one, and the period after asked all units a second time within one charge."""
    case.period(2)
    with killed_at("tests.world.SeasonAsk.steps"):
        world.refresh(case.stream, case.home)
    door = world.Stores.of(case.home)
    session = door.ledger.session(case.season)
    assert len([*world.periods_counted(door.vault, session)]) == session.asked + 1
    case.without(f"streams/{session.stream}")
    world.erase(door, "arriving", "p22-4")
    for _ in range(2):
        with pytest.raises(world.NotVerified, match=facts("stream", "whom it asked", "restore")):
            world.refresh(case.stream, case.home)
    world.close(door, session.id, give_back=False)
    with pytest.raises(world.BudgetRefused, match="does not know any more whom it asked"):
        world.refresh(case.stream, case.home)


def test_who_was_erased_stays_out_with_an_older_copy_of_the_whole_vault(case: World, tmp_path: Path) -> None:
    """A copy of before the domain was used has no secret of it; one of after has the same."""
    older = tmp_path / "older"
    shutil.copytree(case.home / "vault", older)
    door = world.Stores.of(case.home)
    world.erase(door, "people", "p1-3")
    gone = world.erased_units(door, "people")
    shutil.rmtree(case.home / "vault")
    shutil.copytree(older, case.home / "vault")
    assert world.erased_units(world.Stores.of(case.home), "people") == gone != ()
    for path in (case.home / "vault").iterdir():
        if path.name != "secrets":
            shutil.rmtree(path)
    shutil.rmtree(case.home / "vault/secrets/domains")
    for give in LEARNING.values():
        with pytest.raises(world.ConcordError):
            give(case)
    assert not (case.home / "vault/secrets/domains").exists()

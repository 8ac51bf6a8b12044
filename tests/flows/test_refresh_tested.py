"""The private test of a stream: units set aside as they arrive, each tested once, with the student of its release."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from mlflow import MlflowClient

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.guarantee import UNTESTED
from concord.artifacts.home.vault import Vault, derive
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan, parse_plan
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import STUDENT_TEST, Session
from concord.artifacts.stores import Stores
from concord.flows import refresh, season, set_aside, stages
from concord.flows.learn import retest
from concord.flows.outcome import Summary
from concord.flows.start import start_again
from concord.tasks.asking.tally import total_of
from concord.tasks.asks.unit_counts import count_aside
from concord.tasks.data.encode import read_frame
from concord.tasks.data.parts import of_part
from concord.tasks.door.erase import close, erase
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.flows.test_refresh import arrive, periods_of, publish_rows, published, start_refresh, tables
from tests.support.homes import certificate_of, dies, killed_at
from tests.support.people import people
from tests.support.sentences import facts


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def plan(data: Path) -> Plan:
    given = tables(data) | {"test": {"share": 0.3}}
    del given["data"]["test"]
    return parse_plan(given)


def made_in(home: Path) -> list[Session]:
    return [each for each in Ledger.of(home).sessions("people") if each.purpose == STUDENT_TEST]


def parts_of(plan: Plan, home: Path, week: int) -> tuple[set[str], set[str]]:
    """The persons of a week who learn, and those set aside, by the rule of plain plans."""
    key = derive(Vault(home / "vault").secret("domains/people"), "split")
    persons = pl.read_parquet(Path(plan.folder) / "arriving" / f"{week}.parquet").select("person").unique()
    owners = persons["person"].cast(pl.Binary)
    found = (of_part(plan, key, part)(persons, owners) for part in ("learning", "test"))
    learning, test = (set(persons.filter(mine)["person"]) for mine in found)
    return learning, test


def faults(home: Path, summary: Summary) -> list[Any]:
    checks = [*verify(home), *verify_published(Path(summary.certificate))]
    return [check for check in checks if not check.ok]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many units each test counted."""
    found, true = list[int](), count_aside

    def noting(rows: Sequence[Ref], encoding: Any, counts: Any, vault: Vault, folder: str) -> Ref:
        found.append(sum(read_frame(ref, vault).height for ref in rows))
        return true(rows, encoding, counts, vault, folder)

    monkeypatch.setattr(stages, "count_rows_aside", noting)
    return found


@pytest.mark.slow
def test_each_student_is_tested_on_the_units_of_its_period_and_each_pays_once(
    data: Path, plan: Plan, home: Path, counted: list[int]
) -> None:
    arrive(data, 1)
    first = start_refresh(plan, home)
    charged = Ledger.of(home).total("people")
    arrive(data, 2, pl.concat([people(1500, 12), people(1500, 11)]))  # those of the first week have paid
    second = start_refresh(plan, home)
    third = start_refresh(plan, home)  # nothing new: a test all the same, of nobody
    learning, test = zip(*(parts_of(plan, home, week) for week in (1, 2)), strict=True)
    assert counted == [len(test[0]), len(test[1] - test[0]), 0]
    sums = [int(total_of([each.sums[1]], Vault(home / "vault"))[-1]) for each in periods_of(home)]
    one = published(home, third)[-1]["questions"][1]["count"]
    assert [each // one for each in sums] == [len(learning[0]), len(learning[1] - learning[0]), 0]
    assert 0.2 < len(test[0]) / len(test[0] | learning[0]) < 0.4
    assert Ledger.of(home).total("people") == charged
    assert [each.mechanism["release"] for each in made_in(home)] == [0, 1, 2]
    assert {each.stream for each in made_in(home)} == {f"{Ledger.of(home).session(first.session).stream}-tests"}
    assert all(each.test and each.test["clean"] and each.test["earlier"] == 0 for each in (first, second, third))
    assert first.guarantee == third.guarantee
    assert second.test is not None
    assert abs(second.test["rows"] - counted[1]) < 60
    assert second.test["accuracy"]["value"] > 0.8
    certificate = certificate_of(third)
    assert [*certificate.by_release] == [1, 2, 3]
    assert "releases-caption" in Path(third.report).read_text()
    recorded = MlflowClient(f"sqlite:///{home}/mlflow.db").get_metric_history(third.run_id, "accuracy_by_release")
    assert [point.value for point in recorded] == [each.value for each in certificate.by_release.values()]
    assert not [path for path in (home / "vault" / "aside").rglob("*") if path.is_file()]
    assert faults(home, third) == []


def only_for_tests(name: str) -> Any:
    """A method of the ledger that is killed for sessions of tests."""
    true = getattr(Ledger, name)

    def method(ledger: Ledger, session: str, *given: Any, **named: Any) -> Any:
        return dies() if ledger.session(session).purpose == STUDENT_TEST else true(ledger, session, *given, **named)

    return method


STEPS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "before it is set aside": partial(killed_at, season, "keep_aside"),
    "before it is counted": partial(killed_at, stages, "count_rows_aside"),
    "before its session is opened": partial(killed_at, set_aside, "begin"),
    "before it is begun": partial(killed_at, Ledger, "begin_batch", by=only_for_tests("begin_batch")),
    "before its draw is on record": partial(killed_at, Ledger, "record_draw", by=only_for_tests("record_draw")),
    "before it is committed": partial(killed_at, Ledger, "commit_batch", by=only_for_tests("commit_batch")),
    "before it is published": partial(killed_at, refresh, "publish"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_test_that_is_killed_is_finished_by_the_next_refresh_and_drawn_once(
    data: Path, plan: Plan, home: Path, counted: list[int]
) -> None:
    """What arrives meanwhile is tested with the next student."""
    assert plan.stream is not None
    plan = plan.model_copy(update={"stream": plan.stream.model_copy(update={"season": len(STEPS)})})
    for number, (step, killed) in enumerate(STEPS.items()):
        arrive(data, 2 * number)
        with killed():
            start_refresh(plan, home)
        drawn = {path: path.read_bytes() for path in (home / "vault" / "sessions").rglob("*.npz")}
        arrive(data, 2 * number + 1)
        found = start_refresh(plan, home)
        assert found.asked == len(made_in(home)) == number + 1, step
        assert {path: path.read_bytes() for path in drawn} == drawn, step
        assert found.test is not None, step
        assert found.test["earlier"] == 0, step
    assert [len([*(home / "vault" / "sessions" / each.id).glob("*.npz")]) for each in made_in(home)] == [1] * len(STEPS)
    assert {(each.status, each.asked) for each in made_in(home)} == {("spent", 1)}
    aside = set[str]().union(*(parts_of(plan, home, week)[1] for week in range(2 * len(STEPS) - 1)))
    assert sum(counted) == len(aside)
    assert Ledger.of(home).total("people").renyi == Ledger.of(home).sessions("people")[0].reserved.renyi
    assert faults(home, found) == []


@pytest.mark.slow
def test_units_are_tested_with_the_student_of_their_release_or_never(data: Path, home: Path, tmp_path: Path) -> None:
    """Another student would ask them again; so they are passed over, and so are those whose rows were erased."""
    given = tables(data) | {"test": {"share": 0.3}, "student": {"estimator": "sklearn.linear_model.LogisticRegression"}}
    plan = parse_plan(given)
    arrive(data, 1)
    with STEPS["before its draw is on record"]():
        start_refresh(plan, home)
    publish_rows(data, 200, 81)
    found = start_refresh(plan, home)
    assert (found.test, [(each.status, each.asked) for each in made_in(home)]) == (None, [("closed", 0)])
    assert not [path for path in (home / "vault" / "aside").rglob("*") if path.is_file()]
    for week, step in ((2, "before it is counted"), (3, "before its draw is on record")):
        arrive(data, week)
        with STEPS[step]():
            start_refresh(plan, home)
        shutil.copytree(home / "vault" / "aside", older := tmp_path / f"aside before {week}")
        assert erase(Stores.of(home), "people", min(people(1500, 12)["person"]))
        shutil.copytree(older, home / "vault" / "aside", dirs_exist_ok=True)  # as a backup would
        last = start_refresh(plan, home)
        assert last.test is None
    assert {each.status for each in made_in(home)} == {"closed"}  # an open one would stop all later tests
    assert not any(Vault(home / "vault").has_secret(f"sessions/{each.id}") for each in made_in(home))
    assert UNTESTED in certificate_of(last).caveats
    found = start_refresh(plan, home)
    assert found.test is not None
    assert UNTESTED not in certificate_of(found).caveats
    assert faults(home, found) == []
    with STEPS["before its draw is on record"]():
        start_refresh(plan, home)
    (stopped,) = (each.id for each in made_in(home) if each.status == "open")
    (home / "vault" / "secrets" / "sessions" / stopped).unlink()
    with pytest.raises(NotVerified, match=facts(f"`concord close {stopped}`")):
        start_refresh(plan, home)
    close(Stores.of(home), stopped, give_back=False)
    found = start_refresh(plan, home)
    assert UNTESTED in certificate_of(found).caveats
    assert faults(home, found) == []
    with pytest.raises(WrongInput, match=facts("once", "units of its period")):
        start_again(retest, found.session, home, epsilon=None, again=False)
    (home / "vault" / "secrets" / "domains" / "people").unlink()
    with pytest.raises(NotVerified, match=facts("restore a copy")):
        start_refresh(plan, home)

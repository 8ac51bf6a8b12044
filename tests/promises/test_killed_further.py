"""`run --new-session`, and each command that asks anew, killed at one step after another and given again: what was
charged is finished first, and a further session is opened by the command after that.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.promises.commands import killed, plainly
from tests.support.copies import copied
from tests.support.people import changed, people, tables_of_plan, write_tables

SMALL = {"teachers": {"count": 20, "block": 10}, "student": {}}
TALLIED = {"labeling": {"mechanism": "tallies", "rows": 1000}}
Asked = Callable[..., Any]
"""Is given a home, a folder of tables, and whether it asks `again`."""


def plan_of(data: Path, *, tallied: bool) -> Any:
    tables = tables_of_plan(data)
    tables["privacy"] |= {"epsilon": 1.0, "lifetime": {"epsilon": 20.0, "delta": 1e-4}}
    tables |= TALLIED if tallied else SMALL
    return changed({name: part for name, part in tables.items() if not (tallied and name in SMALL)})


def voted(home: Path, data: Path, *, again: bool) -> None:
    world.learn(plan_of(data, tallied=False), home, new_session=again)


def chosen(home: Path, data: Path, *, again: bool) -> None:
    """Two sessions: labels, and a choice beside them."""
    student = {"learner": "universal", "hypotheses": "stumps", "features": ["size"], "epsilon": 0.3}
    world.learn(changed({**plan_of(data, tallied=False).model_dump(), "student": student}), home, new_session=again)


def tallied(home: Path, data: Path, *, again: bool) -> None:
    world.learn(plan_of(data, tallied=True), home, new_session=again)


def estimated(home: Path, data: Path, *, again: bool) -> None:
    world.estimate(plan_of(data, tallied=False), 0.5, 0.2, 0.05, home, again=again)


COMMANDS: dict[str, tuple[Asked, str, tuple[str, ...]]] = {
    "votes": (
        voted,
        "concord run PLAN",
        (
            "tests.world.Ledger.begin_batch",
            "tests.world.Ledger.commit_batch",
            "tests.world.flows_learn.publish",
            "tests.world.publish_certify.publish_certificate",
            "tests.world.Tracking.publish",
        ),
    ),
    "tallies": (
        tallied,
        "concord run PLAN",
        ("tests.world.Ledger.commit_batch", "tests.world.flows_learn.publish"),
    ),
    "votes and a choice": (
        chosen,
        "concord run PLAN",
        ("tests.world.flows_learn.publish", "tests.world.Tracking.publish"),
    ),
    "an estimate": (
        estimated,
        "concord estimate PLAN",
        (
            "tests.world.Ledger.commit_batch",
            "tests.world.Tracking.keep_estimate",
        ),
    ),
}


class World:
    """A home in which a command was given once, and its tables."""

    def __init__(self, folder: Path, database: Path, asked: Asked) -> None:
        self.folder, self.asked = folder, asked
        self.data = write_tables(folder / "data", people(800, 1))
        self.base = folder / "base"
        self.base.mkdir(mode=0o700)
        shutil.copy(database, self.base / "mlflow.db")
        self.once(self.base, again=False)

    def once(self, home: Path, *, again: bool) -> None:
        with pytest.MonkeyPatch.context() as patch, plainly():
            patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
            self.asked(home, self.data, again=again)

    def killed(self, home: Path, place: str) -> None:
        """Ask anew in a new process, which is killed there."""
        killed(partial(self.asked, again=True), home, self.data, place)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "tallies" else pytest.mark.slow) for kind in COMMANDS]
)
def test_what_a_killed_command_charged_is_finished_before_a_further_session(
    kind: str, tmp_path: Path, mlflow_database: Path
) -> None:
    asked, command, places = COMMANDS[kind]
    case = World(tmp_path, mlflow_database, asked)
    for number, place in enumerate(places):
        home = copied(case.base, tmp_path / str(number))
        case.killed(home, place)
        ledger = world.Ledger.of(home)
        charged, sessions = ledger.total("people"), [session.id for session in ledger.sessions("people")]
        further = sessions[len(sessions) // 2 :]
        assert unfinished(home) == dict.fromkeys(further, command), place
        case.once(home, again=True)
        assert [session.id for session in ledger.sessions("people")] == sessions, place
        assert (ledger.total("people"), unfinished(home)) == (charged, {}), place
    case.once(home, again=True)
    assert len(ledger.sessions("people")) == len(sessions) + len(further)
    assert (unfinished(home), ledger.total("people") == charged) == ({}, False)


def unfinished(home: Path) -> dict[str, str]:
    """What budget and verify name as charged and not published, with the command that finishes it."""
    (domain,) = world.budget_of(home)["domains"]
    found = {each["id"]: each["finished_by"] for each in domain["sessions"] if each["finished_by"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        checks = world.verify(home)
    assert found or all(check.ok for check in checks)
    said = {check.name: check.detail for check in checks if check.name.endswith(": unfinished")}
    assert said.keys() == {f"{name}: unfinished" for name in found}
    assert all(f"`{command}` finishes it" in said[f"{name}: unfinished"] for name, command in found.items())
    status = {each["id"]: each["status"] for each in domain["sessions"]}
    ends = {name: f"concord {'close' if status[name] == 'open' else 'forget'} {name}" for name in found}
    assert all(f"`{ends[name]}` ends it" in said[f"{name}: unfinished"] for name in found)
    return found


@pytest.mark.slow
def test_a_killed_session_that_was_closed_is_not_finished(tmp_path: Path, mlflow_database: Path) -> None:
    """Its operator has ended it: the next is a further one."""
    case = World(tmp_path, mlflow_database, voted)
    case.killed(case.base, "tests.world.Ledger.begin_batch")
    _, second = world.Ledger.of(case.base).sessions("people")
    assert second.status == "open"
    world.close(world.Stores.of(case.base), second.id, give_back=False)
    assert unfinished(case.base) == {}
    case.once(case.base, again=True)
    assert len(world.Ledger.of(case.base).sessions("people")) == 3


@pytest.mark.slow
def test_a_killed_test_is_finished_also_if_its_student_was_published_again(tmp_path: Path, plain_home: Path) -> None:
    """The student's certificate tells of the test, which was charged and not drawn."""
    plan = plan_of(write_tables(tmp_path / "data", people(800, 1)), tallied=False)
    plan, begin = world.Plan.model_validate(plan.model_dump() | {"test": {"share": 0.3}}), world.Ledger.begin_batch

    def begins(ledger: world.Ledger, session: str, *given: Any, **named: Any) -> Any:
        if ledger.session(session).purpose == world.STUDENT_TEST:
            raise OSError("switched off")
        return begin(ledger, session, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.Ledger, "begin_batch", begins)
        with pytest.raises(world.EnvironmentFailed):
            world.start(plan, plain_home)
    learned, opened = world.Ledger.of(plain_home).sessions("people")
    charged = world.Ledger.of(plain_home).total("people")
    world.study_again(learned.id, plain_home)
    assert world.Stores.of(plain_home).unpublished == {opened.id}
    world.start(plan, plain_home)
    assert world.Stores.of(plain_home).unpublished == set()
    assert len(world.Ledger.of(plain_home).sessions("people")) == 2
    assert world.Ledger.of(plain_home).total("people") == charged


@pytest.mark.slow
def test_without_its_parameter_it_is_finished_too(tmp_path: Path, mlflow_database: Path) -> None:
    case = World(tmp_path, mlflow_database, voted)
    case.killed(case.base, "tests.world.flows_learn.publish")
    case.once(case.base, again=False)
    assert unfinished(case.base) == {}
    _, second = world.Ledger.of(case.base).sessions("people")
    assert world.Records.of(case.base).runs(second.id)

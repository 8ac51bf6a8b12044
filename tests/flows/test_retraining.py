"""Another student of a session's released labels: post-processing, whatever has become of teachers and votes."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.homes import certificate_of, charged, die_extending, labels_of, state_of
from tests.support.people import changed
from tests.support.sentences import facts

DROPPING = world.StudentPlan(refused="drop")


@pytest.mark.usefixtures("prefect_server")
def test_another_student_of_the_same_labels(session: str, home: Path) -> None:
    charge, batches, _, labels = state_of(home, session)
    (first,) = world.Tracking.of(home).runs(session)
    shutil.rmtree(home / "vault" / "teachers")
    shutil.rmtree(home / "vault" / "votes")
    summary = world.study_again(session, home, DROPPING)
    assert [report.name for report in summary.stages if not report.cached] == ["study", "certify"]
    assert (summary.asked, summary.asked_now) == (300, 0)
    assert summary.spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert state_of(home, session)[:2] == (charge, batches)
    assert labels_of(home, session) == labels
    assert certificate_of(summary).student.refused == "drop"
    assert all(check.ok for check in world.verify(home))
    assert all(report.cached for report in world.study_again(session, home).stages)  # not trained twice
    same = world.study_again(session, home, DROPPING.model_copy(update={"params": {"max_iter": 100}}))
    assert certificate_of(same).student.params == {"max_iter": 100}  # what is said by default may be said aloud
    assert world.Tracking.of(home).runs(session) == [same.run_id, summary.run_id, first]  # one a publication


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_it_is_what_the_plan_would_have_made_and_stays(
    session: str, plan: world.Plan, home: Path, arriving: Path
) -> None:
    """`run` with the changed plan answers from its cache; a later extension teaches the new student."""
    summary = world.study_again("people", home, DROPPING)  # the domain, whose latest session is meant
    again = world.start(changed(plan, student__refused="drop"), home)
    assert all(report.cached for report in again.stages)
    assert (again.session, again.run_id) == (summary.session, summary.run_id)
    extended = world.start_extension(session, arriving, home)
    assert certificate_of(extended).student.refused == "drop"


def test_a_label_that_is_gone_or_changed_stops_it(session: str, home: Path) -> None:
    label = sorted((home / "released" / session / "labels").iterdir())[1]
    for spoil in (lambda: label.write_bytes(label.read_bytes()[:-1]), label.unlink):
        spoil()
        recipe = world.read_checkpoint(world.Stores.of(home), session)
        with pytest.raises(world.NotVerified, match=label.name):
            world.study_again(session, home, DROPPING)
        assert world.read_checkpoint(world.Stores.of(home), session) == recipe


def test_rows_without_a_label_stop_it(session: str, home: Path, arriving: Path) -> None:
    """An extension died at its second batch: it is to be finished first."""
    die_extending(session, arriving, home)
    state = state_of(home, session)
    with pytest.raises(world.WrongInput, match=facts(session, "no label", "extend")):
        world.study_again(session, home, DROPPING)
    assert state_of(home, session) == state


@pytest.mark.parametrize(
    ("student", "message"),
    [
        ({"params": {"C": -1.0}}, "cannot learn"),
        ({"learner": "universal", "hypotheses": "stumps"}, "which costs"),
    ],
)
def test_a_student_that_labels_cannot_teach_changes_nothing(
    session: str, home: Path, student: dict[str, Any], message: str
) -> None:
    state = state_of(home, session)
    with pytest.raises(world.WrongInput, match=message):
        world.study_again(session, home, world.StudentPlan(**student))
    assert state_of(home, session) == state


@pytest.mark.slow
def test_a_forgotten_session_has_no_rows_to_learn_from(session: str, home: Path) -> None:
    door = world.Stores.of(home)
    world.close(door, session, give_back=True)
    world.study_again(session, home, DROPPING)  # one that has ended still has them
    assert world.forget(door, session)
    charge = charged(home)
    with pytest.raises(world.WrongInput, match=facts(session, "forgotten")):
        world.study_again(session, home)
    assert charged(home) == charge

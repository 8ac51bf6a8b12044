"""Another student of a session's released labels: post-processing, whatever has become of teachers and votes."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import certificate_of, charged, die_extending, labels_of, state_of
from tests.support.people import changed
from tests.support.sentences import facts
from tests.world import (
    NotVerified,
    Plan,
    Stores,
    StudentPlan,
    Tracking,
    WrongInput,
    close,
    forget,
    read_checkpoint,
    start,
    start_extension,
    study_again,
    verify,
)

DROPPING = StudentPlan(refused="drop")


@pytest.mark.usefixtures("prefect_server")
def test_another_student_of_the_same_labels(session: str, home: Path) -> None:
    charge, batches, _, labels = state_of(home, session)
    (first,) = Tracking.of(home).runs(session)
    shutil.rmtree(home / "vault" / "teachers")
    shutil.rmtree(home / "vault" / "votes")
    summary = study_again(session, home, DROPPING)
    assert [report.name for report in summary.stages if not report.cached] == ["study", "certify"]
    assert (summary.asked, summary.asked_now) == (300, 0)
    assert summary.spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert state_of(home, session)[:2] == (charge, batches)
    assert labels_of(home, session) == labels
    assert certificate_of(summary).student.refused == "drop"
    assert all(check.ok for check in verify(home))
    assert all(report.cached for report in study_again(session, home).stages)  # not trained twice
    same = study_again(session, home, DROPPING.model_copy(update={"params": {"max_iter": 100}}))
    assert certificate_of(same).student.params == {"max_iter": 100}  # what is said by default may be said aloud
    assert Tracking.of(home).runs(session) == [same.run_id, summary.run_id, first]  # one a publication


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_it_is_what_the_plan_would_have_made_and_stays(session: str, plan: Plan, home: Path, arriving: Path) -> None:
    """`run` with the changed plan answers from its cache; a later extension teaches the new student."""
    summary = study_again("people", home, DROPPING)  # the domain, whose latest session is meant
    again = start(changed(plan, student__refused="drop"), home)
    assert all(report.cached for report in again.stages)
    assert (again.session, again.run_id) == (summary.session, summary.run_id)
    extended = start_extension(session, arriving, home)
    assert certificate_of(extended).student.refused == "drop"


def test_a_label_that_is_gone_or_changed_stops_it(session: str, home: Path) -> None:
    label = sorted((home / "released" / session / "labels").iterdir())[1]
    for spoil in (lambda: label.write_bytes(label.read_bytes()[:-1]), label.unlink):
        spoil()
        recipe = read_checkpoint(Stores.of(home).vault, session)
        with pytest.raises(NotVerified, match=label.name):
            study_again(session, home, DROPPING)
        assert read_checkpoint(Stores.of(home).vault, session) == recipe


def test_rows_without_a_label_stop_it(session: str, home: Path, arriving: Path) -> None:
    """An extension died at its second batch: it is to be finished first."""
    die_extending(session, arriving, home)
    state = state_of(home, session)
    with pytest.raises(WrongInput, match=facts(session, "no label", "extend")):
        study_again(session, home, DROPPING)
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
    with pytest.raises(WrongInput, match=message):
        study_again(session, home, StudentPlan(**student))
    assert state_of(home, session) == state


@pytest.mark.slow
def test_a_forgotten_session_has_no_rows_to_learn_from(session: str, home: Path) -> None:
    door = Stores.of(home)
    close(door, session, give_back=True)
    study_again(session, home, DROPPING)  # one that has ended still has them
    assert forget(door, session)
    charge = charged(home)
    with pytest.raises(WrongInput, match=facts(session, "forgotten")):
        study_again(session, home)
    assert charged(home) == charge

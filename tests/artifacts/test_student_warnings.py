"""Warnings about a student: a class that a private test may not find has a threshold, or a word on what one takes."""

import shlex

import pytest

from tests import world
from tests.support.evaluated import EVALUATIONS, MATRIX, counted
from tests.support.recorded import RECORDED
from tests.support.sentences import says


def test_by_a_private_test_the_threshold_is_the_class_s_share_of_the_units() -> None:
    """152 of 3,990; and none is proposed where no probability of that share is given, or another test decides."""
    assert world.thresholds_of(None, counted(MATRIX), tallied=True) == {"it's rare": 0.0381}
    _, proposed = world.warnings_of(None, counted(MATRIX), tallied=True)
    command = shlex.split(proposed.split("`")[1])
    assert command == ["concord", "predict", "--threshold", "it's rare=0.0381"]
    for name in ("a class of few of them", "many classes of them", "a rare class, learned from"):
        assert world.thresholds_of(*EVALUATIONS[name], tallied=True) == {}, name
    assert world.thresholds_of(*EVALUATIONS["a rare class, with a public test"], tallied=True) == {}
    # votes of a rare class are refused or changed
    assert world.thresholds_of(None, counted(MATRIX), tallied=False) == {}


@pytest.mark.parametrize("units", [None, 99, 100, 100_000])
def test_a_delta_that_is_large_for_so_many_units_is_a_warning(units: int | None) -> None:
    """Before, a session of δ = 0.1 about 1,500 units ended as champion without a word."""
    guarantee = world.Guarantee.at(1.0, 1e-4, "one row", "add or remove one unit")
    file = world.Ref(path="d-1/student.skops", digest="1" * 64)
    student = world.StudentRecord.model_construct(file=file, public_test=None, named=("no", "yes"))
    counts = world.Counts(asked=1, answered=1, refused=0, not_asked=0)
    tallies = world.MechanismRecord(name="tallies", settings=RECORDED["tallies"], proof="", releases="")
    learned = world.SessionRecord.model_construct(mechanism=tallies, counts=counts, teachers=0, outcomes=())
    certificate = world.Certificate.model_construct(
        learned=student, sessions=(learned,), units=units, guarantee=guarantee
    )
    warned = [warning for warning in world.student_warnings(certificate) if warning.startswith("δ times")]
    assert len(warned) == (units is not None and units >= 100)
    assert all(says(warning, f"{1e-4 * (units or 0):.3g}", "far below 1") for warning in warned)
    assert world.usual_delta(999_999) * 999_999 < world.LARGE

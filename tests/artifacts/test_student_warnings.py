"""Warnings about a student: a class that a private test may not find has a threshold, or a word on what one takes."""

import shlex

import pytest

from tests.support.evaluated import EVALUATIONS, MATRIX, NAMES, counted
from tests.support.recorded import RECORDED
from tests.support.sentences import says
from tests.world import (
    CAVEATS,
    LARGE,
    Certificate,
    Counts,
    Guarantee,
    MechanismRecord,
    NotVerified,
    Ref,
    SessionRecord,
    StudentRecord,
    _consistent,
    student_warnings,
    thresholds_of,
    usual_delta,
    warnings_of,
)


def test_by_a_private_test_the_threshold_is_the_class_s_share_of_the_units() -> None:
    """152 of 3,990; and none is proposed where no probability of that share is given, or another test decides."""
    assert thresholds_of(None, counted(MATRIX), tallied=True) == {"it's rare": 0.0381}
    _, proposed = warnings_of(None, counted(MATRIX), tallied=True)
    command = shlex.split(proposed.split("`")[1])
    assert command == ["concord", "predict", "--threshold", "it's rare=0.0381"]
    for name in ("a class of few of them", "many classes of them", "a rare class, learned from"):
        assert thresholds_of(*EVALUATIONS[name], tallied=True) == {}, name
    assert thresholds_of(*EVALUATIONS["a rare class, with a public test"], tallied=True) == {}
    assert thresholds_of(None, counted(MATRIX), tallied=False) == {}  # votes of a rare class are refused or changed


def certificate_of(teachers: int, warnings: tuple[str, ...]) -> Certificate:
    """A certificate with that private test and those warnings."""
    file = Ref(path="d-1/student.skops", digest="1" * 64)
    counts = Counts(asked=1, answered=1, refused=0, not_asked=0)
    settings = {**RECORDED["private_test"], "student": file.digest, "session": "d-1"}
    test = MechanismRecord(name="private_test", settings=settings, proof="", releases="")
    learned = SessionRecord.model_construct(session="d-1", counts=counts, teachers=teachers, outcomes=())
    trial = SessionRecord.model_construct(session="d-2", mechanism=test, outcomes=(counted(MATRIX),))
    student = StudentRecord(estimator="", params={}, refused=None, file=file, accuracy=None, named=NAMES)
    versions = Certificate.model_fields["versions"].get_default(call_default_factory=True)
    return Certificate.model_construct(
        learned=student, sessions=(learned, trial), warnings=warnings, caveats=CAVEATS, versions=versions
    )


@pytest.mark.parametrize("teachers", [0, 40], ids=["of sums", "of votes"])
def test_verification_computes_the_threshold_again(teachers: int) -> None:
    due = warnings_of(None, counted(MATRIX), tallied=not teachers)
    assert certificate_of(teachers, due).thresholds == ({} if teachers else {"it's rare": 0.0381})
    _consistent(certificate_of(teachers, due))
    wrong = tuple(text.replace("0.0381", "0.5").replace("data.test", "data.public") for text in due)
    for warnings in (due[:1], wrong):
        with pytest.raises(NotVerified, match="leaves out what must stand in it"):
            _consistent(certificate_of(teachers, warnings))


@pytest.mark.parametrize("units", [None, 99, 100, 100_000])
def test_a_delta_that_is_large_for_so_many_units_is_a_warning(units: int | None) -> None:
    """Before, a session of δ = 0.1 about 1,500 units ended as champion without a word."""
    guarantee = Guarantee.at(1.0, 1e-4, "one row", "add or remove one unit")
    certificate = certificate_of(0, ()).model_copy(update={"units": units, "guarantee": guarantee})
    warned = [warning for warning in student_warnings(certificate) if warning.startswith("δ times")]
    assert len(warned) == (units is not None and units >= 100)
    assert all(says(warning, f"{1e-4 * (units or 0):.3g}", "far below 1") for warning in warned)
    assert usual_delta(999_999) * 999_999 < LARGE

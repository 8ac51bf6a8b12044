"""Warnings about a student: a class that a private test may not find has a threshold, or a word on what one takes."""

import shlex
from typing import Any

import numpy as np
import pytest

from tests.support.recorded import RECORDED
from tests.support.sentences import says
from tests.world import (
    CAVEATS,
    LARGE,
    Certificate,
    ClassTested,
    ConfusionMatrix,
    Counts,
    Estimate,
    Guarantee,
    Measured,
    Measures,
    MechanismRecord,
    Noisy,
    NotVerified,
    PrivateTest,
    PublicTest,
    Ref,
    SessionRecord,
    StudentRecord,
    TestRecord,
    _consistent,
    student_warnings,
    thresholds_of,
    usual_delta,
    warnings_of,
)

NAMES = ("no", "it's rare", "other")
MATRIX = ((3730, 10, 4), (160, -8, 0), (3, 1, 90))
"""Noisy counts by which "it's rare" may never be found: about 152 of 3,990 units."""


def record_of(matrix: ConfusionMatrix, **given: Any) -> TestRecord:
    """The record of a private test with those noisy counts, whose noise is of scale 5 each."""
    test = PrivateTest(epsilon=1.0, delta=1e-6, classes=len(matrix), secret="rows", scale=5.0, pair_scale=5.0)
    right = sum(row[at] for at, row in enumerate(matrix))
    wrong = sum(map(sum, matrix)) - right
    found = Measures.of(test, Noisy.of(test, [right, wrong, *np.ravel(matrix).tolist()]))

    def estimate(share: Measured) -> Estimate:
        return Estimate(value=share.value, low=share.low, high=share.high)

    classes = tuple(
        ClassTested(name=name, recall=estimate(recall), precision=estimate(precision))
        for name, recall, precision in zip(NAMES, found.recall, found.precision, strict=False)
    )
    said: dict[str, Any] = {"share": 0.1, "clean": True, "earlier": 0, "level": 0.95, "rows": found.rows} | given
    said |= {"accuracy": estimate(found.accuracy), "balanced_accuracy": estimate(found.balanced_accuracy)}
    return TestRecord(**said, classes=classes, matrix=matrix)


def test_by_a_private_test_the_threshold_is_the_class_s_share_of_the_units() -> None:
    test = record_of(MATRIX)
    assert thresholds_of(None, test, tallied=True) == {"it's rare": 0.0381}  # 152 of 3,990
    blind, proposed = warnings_of(None, test, tallied=True)
    assert says(blind, "recall", "0", '"it\'s rare"')
    command = shlex.split(proposed.split("`")[1])
    assert command == ["concord", "predict", "--threshold", "it's rare=0.0381"]
    assert "about 3.8%" in proposed
    assert says(proposed, "recall", "precision", "not")


FEW = ((3730, 10, 4), (9, 1, 0), (3, 1, 90))


@pytest.mark.parametrize(
    ("test", "tallied"),
    [(record_of(MATRIX), False), (record_of(FEW), True), (record_of(MATRIX).model_copy(update={"matrix": None}), True)],
    ids=["of votes", "few units", "many classes"],
)
def test_without_a_threshold_it_says_what_one_takes(test: TestRecord, tallied: bool) -> None:
    """Votes of a rare class are refused or changed, so what learned from them gives no probabilities of that share."""
    assert thresholds_of(None, test, tallied=tallied) == {}
    _, lacking = warnings_of(None, test, tallied=tallied)
    assert says(lacking, "threshold", '"it\'s rare"', "public")
    assert "`data.test`" in lacking


def test_a_test_that_is_not_clean_proposes_none() -> None:
    test = record_of(MATRIX, clean=False)
    assert thresholds_of(None, test, tallied=True) == {}
    assert len(warnings_of(None, test, tallied=True)) == 1


def test_with_a_public_test_that_one_decides() -> None:
    share = Estimate(value=0.9, low=0.8, high=1.0)
    public = PublicTest.model_construct(
        thresholds=(), classes=(), accuracy=share, majority=0.5, balanced_accuracy=share
    )
    assert thresholds_of(public, record_of(MATRIX), tallied=True) == {}
    (blind,) = warnings_of(public, record_of(MATRIX), tallied=True)
    assert "recall may be 0" in blind


def certificate_of(teachers: int, warnings: tuple[str, ...]) -> Certificate:
    """A certificate with that private test and those warnings."""
    file = Ref(path="d-1/student.skops", digest="1" * 64)
    counts = Counts(asked=1, answered=1, refused=0, not_asked=0)
    settings = {**RECORDED["private_test"], "student": file.digest, "session": "d-1"}
    test = MechanismRecord(name="private_test", settings=settings, proof="", releases="")
    learned = SessionRecord.model_construct(session="d-1", counts=counts, teachers=teachers, outcomes=())
    trial = SessionRecord.model_construct(session="d-2", mechanism=test, outcomes=(record_of(MATRIX),))
    student = StudentRecord(estimator="", params={}, refused=None, file=file, accuracy=None, named=NAMES)
    versions = Certificate.model_fields["versions"].get_default(call_default_factory=True)
    return Certificate.model_construct(
        learned=student, sessions=(learned, trial), warnings=warnings, caveats=CAVEATS, versions=versions
    )


@pytest.mark.parametrize("teachers", [0, 40], ids=["of sums", "of votes"])
def test_verification_computes_the_threshold_again(teachers: int) -> None:
    due = warnings_of(None, record_of(MATRIX), tallied=not teachers)
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

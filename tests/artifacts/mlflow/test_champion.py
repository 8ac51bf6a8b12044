"""The alias of a domain's champion goes to the better student, and never unasked to one that is warned of."""

from typing import Any

import pytest

from concord.artifacts.certificate import Certificate, StudentRecord
from concord.artifacts.measures import ClassMeasured, Interval, PublicTest, TestRecord, warnings_of
from concord.artifacts.mlflow.describe import Champion, takes_alias
from concord.artifacts.schemas import Ref
from concord.artifacts.sections import AboutPlan


def student(balanced: float | None, *, warned: bool = False, says: Any = "better", table: str = "t") -> Certificate:
    classes = (ClassMeasured(name="a", rows=1, predicted=1, recall=1.0, precision=1.0),)
    test = PublicTest(
        table=table,
        label="class",
        rows=10,
        accuracy=0.9,
        balanced_accuracy=balanced or 0,
        majority=0.5,
        classes=classes,
        matrix=None,
        calibration=None,
    )
    made = StudentRecord(
        estimator="e",
        params={},
        refused=None,
        file=Ref(path="s", digest="new"),
        accuracy=0.9,
        public_test=None if balanced is None else test,
    )
    warnings = ("it is blind",) if warned else ()
    return Certificate.model_construct(student=made, warnings=warnings, about=AboutPlan(champion=says), test=None)


def now(balanced: float | None, table: str = "t", **tags: str) -> Champion:
    if balanced is None:
        return Champion(tags, {}, {})
    return Champion(tags, {"public_test": table}, {"balanced_accuracy": balanced})


@pytest.mark.parametrize(
    ("candidate", "champion", "takes"),
    [
        (student(0.6), None, True),
        (student(None), None, True),
        (student(0.6, warned=True), None, False),
        (student(0.6, warned=True), now(0.5), False),
        (student(0.6), now(0.5), True),
        (student(0.6), now(0.6), False),
        (student(0.6), now(0.7), False),
        (student(0.6), now(0.7, warned="true"), True),
        (student(0.6), now(0.6, **{"digest.student": "new"}), True),
        (student(0.6), now(None), True),
        (student(None), now(0.5), False),
        (student(None), now(None), True),
        (student(0.9), now(0.5, table="another"), False),
        (student(0.1, warned=True, says="always"), now(0.5), True),
        (student(0.9, says="never"), now(0.5), False),
    ],
)
def test_who_is_champion(candidate: Certificate, champion: Champion | None, takes: bool) -> None:
    assert takes_alias(candidate, champion) is takes


def tried(balanced: float, *, clean: bool) -> TestRecord:
    share = Interval(value=balanced, low=balanced - 0.01, high=balanced + 0.01)
    return TestRecord.model_construct(clean=clean, accuracy=share, balanced_accuracy=share, majority=0.5, classes=())


@pytest.mark.parametrize(
    ("clean", "champion", "takes"),
    [(True, True, True), (False, True, False), (True, False, True), (False, False, True)],
)
def test_a_private_test_that_is_not_clean_counts_as_none(clean: bool, champion: bool, takes: bool) -> None:
    """A student tried on what it learned from took the alias of one that was tried on units it never saw."""
    certificate = student(None).model_copy(update={"test": tried(0.99, clean=clean)})
    there = Champion({}, {"test.clean": str(champion)}, {"test_balanced_accuracy": 0.9})
    assert takes_alias(certificate, there) is takes
    assert takes_alias(certificate, Champion({}, {}, {})) is True


def test_a_private_test_that_is_not_clean_is_warned_of() -> None:
    assert warnings_of(None, tried(0.99, clean=True)) == ()
    (warning,) = warnings_of(None, tried(0.99, clean=False))
    assert "may have learned from the tested units" in warning


def test_labels_of_one_class_are_warned_of_where_no_test_tells() -> None:
    """A student of such labels names one class for every row, and became champion."""
    (warning,) = warnings_of(None, None, ("no",))
    assert "every released label names the class 'no'" in warning
    assert "no released label names a class" in warnings_of(None, None, ())[0]
    assert warnings_of(None, None, ("no", "yes")) == warnings_of(None, None) == ()

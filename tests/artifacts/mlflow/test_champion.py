"""The alias of a domain's champion goes to the better student, and never unasked to one that is warned of."""

import re
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy

import pytest
from mlflow.tracking import MlflowClient

from tests.support.published import SESSION, world
from tests.support.recorded import RECORDED
from tests.support.tracked import tracked
from tests.world import (
    AboutPlan,
    Certificate,
    Champion,
    ClassMeasured,
    Estimate,
    MechanismRecord,
    NumberTested,
    PublicTest,
    Records,
    Ref,
    SessionRecord,
    StableVoting,
    StudentRecord,
    TestRecord,
    mlflow_write,
    share,
    takes_alias,
    untested,
    warnings_of,
)

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


def student(balanced: float | None, *, warned: bool = False, table: str = "t") -> Certificate:
    classes = (ClassMeasured(name="a", rows=1, predicted=1, recall=share(1, 1), precision=share(1, 1)),)
    test = PublicTest(
        table=table,
        label="class",
        rows=10,
        accuracy=share(9, 10),
        balanced_accuracy=share((balanced or 0) * 10, 10),
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
        accuracy=share(9, 10),
        public_test=None if balanced is None else test,
    )
    warnings = ("it is blind",) if warned else ()
    return Certificate.model_construct(learned=made, warnings=warnings, about=AboutPlan(), sessions=())


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
        (student(0.9), Champion({}, {"public_test": "t"}, {"rmse": 1.0}), False),  # of a number on the same rows
    ],
)
def test_who_is_champion(candidate: Certificate, champion: Champion | None, takes: bool) -> None:
    assert takes_alias(candidate, champion) is takes


def record_of(balanced: float, *, clean: bool) -> TestRecord:
    around = Estimate(value=balanced, low=balanced - 0.01, high=balanced + 0.01)
    return TestRecord.model_construct(clean=clean, accuracy=around, balanced_accuracy=around, majority=0.5, classes=())


@pytest.mark.parametrize(
    ("clean", "champion", "takes"),
    [(True, True, True), (False, True, False), (True, False, True), (False, False, True)],
)
def test_a_private_test_that_is_not_clean_counts_as_none(clean: bool, champion: bool, takes: bool) -> None:
    """A student tested on what it learned from took the alias of one that was tested on units it never saw."""
    mechanism = MechanismRecord(
        name="private_test", settings={**RECORDED["private_test"], "student": "new"}, proof="", releases=""
    )
    record = SessionRecord.model_construct(mechanism=mechanism, outcomes=(record_of(0.99, clean=clean),))
    certificate = student(None).model_copy(update={"sessions": (record,)})
    there = Champion({}, {"test.clean": str(champion)}, {"test_balanced_accuracy": 0.9})
    assert takes_alias(certificate, there) is takes
    assert takes_alias(certificate, Champion({}, {}, {})) is True


def test_a_private_test_that_is_not_clean_is_warned_of() -> None:
    assert warnings_of(None, record_of(0.99, clean=True)) == ()
    (warning,) = warnings_of(None, record_of(0.99, clean=False))
    assert "may have learned from the tested units" in warning


def number_tested(rmse: float) -> NumberTested:
    own, other = (Estimate(value=value, low=value - 1, high=value + 1) for value in (rmse, 9.0))
    return NumberTested.model_construct(clean=True, rmse=own, constant=23.4, constant_rmse=other)


def test_of_numbers_the_private_test_of_least_error_is_champion() -> None:
    settings = {**RECORDED["private_test"], "student": "new", "bounds": [0.0, 50.0]}
    mechanism = MechanismRecord(name="private_test", settings=settings, proof="", releases="")
    record = SessionRecord.model_construct(mechanism=mechanism, outcomes=(number_tested(3.0),))
    certificate = student(None).model_copy(update={"sessions": (record,)})
    same = {"test.bounds": "[0.0, 50.0]"}
    for before, takes in ((2.9, False), (3.0, False), (3.1, True)):
        assert takes_alias(certificate, Champion({}, same, {"test_rmse": before})) is takes
    assert takes_alias(student(None), Champion({}, same, {"test_rmse": 9.0})) is False
    for other in ({"test.bounds": "[0.0, 60.0]"}, {}):
        assert takes_alias(certificate, Champion({}, other, {"test_rmse": 9.0})) is False
    assert takes_alias(certificate, Champion({}, {}, {"test_balanced_accuracy": 0.1})) is False
    of_classes = SessionRecord.model_construct(mechanism=mechanism, outcomes=(record_of(0.9, clean=True),))
    measured = student(None).model_copy(update={"sessions": (of_classes,)})
    assert takes_alias(measured, Champion({}, same, {"test_rmse": 9.0})) is False
    assert takes_alias(measured, Champion({}, {}, {"test_balanced_accuracy": 0.8})) is True


def test_a_number_not_told_from_a_constant_by_the_private_test_is_warned_of() -> None:
    assert warnings_of(None, number_tested(6.9)) == ()
    for rmse, words in ((7.0, "may not beat"), (10.9, "may not beat"), (11.0, "does not beat")):
        (warning,) = warnings_of(None, number_tested(rmse))
        assert f"{words} a constant prediction of 23.4: RMSE {rmse - 1:.4g} to {rmse + 1:.4g} against" in warning


def test_labels_of_one_class_are_warned_of_where_no_test_tells() -> None:
    """A student of such labels names one class for every row, and became champion."""
    assert "the likeliest class of every row is 'no'" in untested(("no",), None, tallied=True)[0]
    (warning,) = untested(("no",), None)
    assert "every released label is 'no'" in warning
    assert "no label was released" in untested((), None)[0]
    assert untested(("no", "yes"), None) == untested(None, None) == warnings_of(None, None) == ()


@pytest.mark.parametrize(("champion", "address"), [(False, "/1"), (True, "@champion")])
def test_the_snippet_named_a_champion_that_was_not_there(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch, champion: bool, address: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    copy(mlflow_database, tmp_path / "mlflow.db")
    small = world(tmp_path)
    monkeypatch.setattr(mlflow_write, "takes_alias", lambda *_: champion)
    where = tracked(small, STABLE, small.truth, datetime(2026, 1, 2, tzinfo=UTC))
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    said = client.get_registered_model("people-student").description
    addresses = set(re.findall(r'load_model\("(.*)"\)', said))
    assert addresses == {f"models:/people-student{address}"}
    assert Records.of(tmp_path).session_of(addresses.pop()) == SESSION
    assert champion == where.champion == ("there is no champion" not in said)

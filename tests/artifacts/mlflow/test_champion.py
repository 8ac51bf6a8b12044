"""The alias of a domain's champion goes to the better student, and never unasked to one that is warned of.

What is warned of: tests/texts/verdicts.txt"""

import re
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests import world
from tests.support.homes import undrawn
from tests.support.published import SESSION, world_in
from tests.support.recorded import RECORDED
from tests.support.tracked import tracked


def around(value: float, width: float = 0.01) -> world.Estimate:
    return world.Estimate(value=value, low=value - width, high=value + width)


def student(balanced: float | None = None, *, private: Any = None, warned: bool = False) -> world.Certificate:
    """A certificate with that balanced accuracy on public rows, and that private test."""
    test = world.PublicTest.model_construct(table="t", balanced_accuracy=around(balanced or 0))
    made = world.StudentRecord.model_construct(
        file=world.Ref(path="s", digest="new"), public_test=None if balanced is None else test
    )
    settings = {**RECORDED["private_test"], "student": "new", "bounds": [0.0, 50.0]}
    mechanism = world.MechanismRecord(name="private_test", settings=settings, proof="", releases="")
    tests = [] if private is None else [world.SessionRecord.model_construct(mechanism=mechanism, outcomes=(private,))]
    warnings = ("it is blind",) if warned else ()
    return world.Certificate.model_construct(
        learned=made, warnings=warnings, about=world.AboutPlan(), sessions=tuple(tests)
    )


def units_tested(balanced: float, *, clean: bool = True) -> world.TestRecord:
    found = around(balanced)
    return world.TestRecord.model_construct(
        clean=clean, accuracy=found, balanced_accuracy=found, majority=0.5, classes=()
    )


def number_tested(rmse: float) -> world.NumberTested:
    own, constant = around(rmse, 1), around(9.0, 1)
    return world.NumberTested.model_construct(clean=True, rmse=own, constant=23.4, constant_rmse=constant)


def now(balanced: float | None, table: str = "t", **tags: str) -> world.Champion:
    if balanced is None:
        return world.Champion(tags, {}, {})
    return world.Champion(tags, {"public_test": table}, {"balanced_accuracy": balanced})


def of_number(rmse: float, bounds: str = "[0.0, 50.0]") -> world.Champion:
    return world.Champion({}, {"test.bounds": bounds} if bounds else {}, {"test_rmse": rmse})


def of_units(balanced: float, clean: bool = True) -> world.Champion:
    return world.Champion({}, {"test.clean": str(clean)}, {"test_balanced_accuracy": balanced})


NUMBER, UNITS = student(private=number_tested(3.0)), student(private=units_tested(0.99))
UNCLEAN = student(private=units_tested(0.99, clean=False))
CHAMPIONS: list[tuple[world.Certificate, world.Champion | None, bool]] = [
    (student(0.6), None, True),
    (student(), None, True),
    (student(0.6, warned=True), None, False),
    (student(0.6, warned=True), now(0.5), False),
    (student(0.6), now(0.5), True),
    (student(0.6), now(0.6), False),
    (student(0.6), now(0.7), False),
    (student(0.6), now(0.7, warned="true"), True),
    (student(0.6), now(0.6, **{"digest.student": "new"}), True),
    (student(0.6), now(None), True),
    (student(), now(0.5), False),
    (student(), now(None), True),
    (student(0.9), now(0.5, table="another"), False),
    (student(0.9), world.Champion({}, {"public_test": "t"}, {"rmse": 1.0}), False),  # of a number on the same rows
    (UNITS, of_units(0.9), True),
    (UNITS, of_units(0.9, clean=False), True),
    (UNCLEAN, of_units(0.9), False),  # it took the alias of one that was tested on units it never saw
    (UNCLEAN, of_units(0.9, clean=False), True),
    (UNCLEAN, now(None), True),
    *((NUMBER, of_number(before), takes) for before, takes in ((2.9, False), (3.0, False), (3.1, True))),
    *((NUMBER, of_number(9.0, bounds), False) for bounds in ("[0.0, 60.0]", "")),
    (NUMBER, of_units(0.1), False),
    (student(), of_number(9.0), False),
    (UNITS, of_number(9.0), False),
]


@pytest.mark.parametrize(("candidate", "champion", "takes"), CHAMPIONS)
def test_who_is_champion(candidate: world.Certificate, champion: world.Champion | None, takes: bool) -> None:
    assert world.takes_alias(candidate, champion) is takes


@pytest.mark.parametrize(("champion", "address"), [(False, "/1"), (True, "@champion")])
def test_the_snippet_named_a_champion_that_was_not_there(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch, champion: bool, address: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    copy(mlflow_database, tmp_path / "mlflow.db")
    small = world_in(tmp_path)
    monkeypatch.setattr(world.publish_figures, "_svg", undrawn)
    monkeypatch.setattr(world.mlflow_write, "takes_alias", lambda *_: champion)
    stable = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)
    where = tracked(small, stable, small.truth, datetime(2026, 1, 2, tzinfo=UTC))
    said = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db").get_registered_model("people-student").description
    addresses = set(re.findall(r'load_model\("(.*)"\)', said))
    assert addresses == {f"models:/people-student{address}"}
    assert world.Records.of(tmp_path).session_of(addresses.pop()) == SESSION
    assert champion == where.champion == ("there is no champion" not in said)

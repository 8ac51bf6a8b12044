"""Figures of a private test: they follow from its counts by the function that made them, and others are found."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.privacy.exact import Silent
from tests.support.edited import with_values
from tests.world import (
    Kind,
    NotVerified,
    NumberTested,
    PrivateTest,
    StudentTestAsk,
    TestRecord,
    artifacts_kinds,
    check_tested,
)
from tests.world import test_figures as figures_of

ABOUT: dict[str, Any] = {"session": "d-0", "student": "0" * 64, "share": 0.1, "clean": True}
NUMBER = {"bounds": [10.0, 60.0], "constant": 23.4}
Made = tuple[Any, artifacts_kinds.PrivateTest, dict[str, Any]]


def released_by(counts: Any, noise: Any, scale: float, classes: tuple[str, ...], **more: Any) -> Made:
    """The record of a test of these counts, its kind and its released file."""
    exact = PrivateTest(epsilon=1.0, delta=1e-6, classes=len(classes), secret="rows", scale=scale, pair_scale=scale)
    ask = StudentTestAsk(exact, ABOUT | more, classes)
    drawn = exact.release(counts, Silent())
    released = json.loads(json.dumps(ask.result(drawn + noise[: len(drawn)])))
    kind = Kind.of(ask.settings()).only(artifacts_kinds.PrivateTest)
    return figures_of(kind, released, 0), kind, released


def of_classes(scale: float = 5.0) -> Made:
    """The noise of its counts is below 3."""
    counts = np.random.default_rng(0).integers(40, 300, size=(2, 2))
    return released_by(counts, np.random.default_rng(1).integers(-3, 4, size=1000), scale, ("no", "yes"))


def of_number(scale: float = 5.0) -> Made:
    """A number from 10 to 60."""
    counts = np.array([range(800, 0, -100), range(0, 800, 100)])
    return released_by(counts, np.zeros(1000, np.int64), scale, (), **NUMBER)


def read(test: Any, **changes: Any) -> Any:
    """The record with other values, as a certificate has it."""
    return type(test).model_validate_json(json.dumps(with_values(test.model_dump(mode="json"), changes)))


@pytest.mark.parametrize("scale", [0.7, 5.0, 900.0])
def test_a_test_s_figures_follow_from_its_counts(scale: float) -> None:
    for made in (of_classes, of_number):
        test, kind, released = made(scale)
        check_tested(test, kind, released)
    assert isinstance(test, NumberTested)
    assert 0 <= test.rmse.low < test.rmse.value < test.rmse.high <= 50
    squares = [at and 4.0 ** (at - 7) for at in range(8)]
    assert test.rmse.value == pytest.approx(50 * np.sqrt(np.average(squares, weights=range(8, 0, -1))))
    assert test.constant_rmse.value == pytest.approx(50 * np.sqrt(np.average(squares, weights=range(8))))


def narrower(estimate: dict[str, Any]) -> dict[str, Any]:
    return estimate | {"low": (estimate["low"] + estimate["value"]) / 2}


Values = dict[str, Any]
CHANGES: dict[str, tuple[Callable[[], Made], Values, str]] = {
    "an accuracy": (of_classes, {"accuracy.value": lambda value: value + 0.001}, "accuracy"),
    "an interval": (of_classes, {"accuracy": narrower}, "accuracy"),
    "a balanced accuracy": (of_classes, {"balanced_accuracy": narrower}, "balanced_accuracy"),
    "a recall": (of_classes, {"classes.1.recall": narrower}, "recall"),
    "a precision": (of_classes, {"classes.0.precision": narrower}, "precision"),
    "a largest class": (of_classes, {"majority": lambda value: value - 0.05}, "majority"),
    "the units": (of_classes, {"rows": lambda rows: rows + 1}, "rows"),
    "the coverage": (of_classes, {"level": 0.5}, "level"),
    "that it is clean": (of_classes, {"clean": False}, "clean"),
    "the share": (of_classes, {"share": 0.9}, "share"),
    "an error": (of_number, {"rmse.value": lambda value: value - 0.01}, "rmse is"),
    "an error's interval": (of_number, {"rmse": narrower}, "rmse is"),
    "an interval below 0": (of_number, {"rmse.low": -1e9}, "rmse is"),
    "an interval beyond the bounds": (of_number, {"rmse.high": 51.0}, "rmse is"),
    "the constant's error": (of_number, {"constant_rmse.value": lambda value: value - 0.01}, "constant_rmse is"),
    "the constant's interval": (of_number, {"constant_rmse": narrower}, "constant_rmse is"),
    "the constant": (of_number, {"constant": 30.0}, "constant is"),
    "the units of a number": (of_number, {"rows": 1}, "rows is"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_figure_that_does_not_follow_is_found(change: str) -> None:
    made, values, said = CHANGES[change]
    test, kind, released = made()
    with pytest.raises(NotVerified, match=rf"the private test, .*{said}.* (certified|recorded) as"):
        check_tested(read(test, **values), kind, released)


@pytest.mark.parametrize("place", ["accuracy", "classes.0.recall"])
def test_a_figure_without_its_interval_is_found(place: str) -> None:
    with pytest.raises(ValidationError):
        read(of_classes()[0], **{place: lambda estimate: estimate["value"]})


def test_figures_without_a_positive_count_are_the_middle_of_what_is_possible() -> None:
    _, kind, released = of_classes()
    released["matrix"] = [[100, 3], [-2, -1]]
    test = figures_of(kind, released, 0)
    assert isinstance(test, TestRecord)
    check_tested(test, kind, released)
    for place, value in (("classes.1.recall.value", 0.4), ("balanced_accuracy.value", 0.7)):
        with pytest.raises(NotVerified, match="but it was certified as"):
            check_tested(read(test, **{place: value}), kind, released)
    _, kind, released = of_number()
    empty = {**released, "errors": [-3] * 8, "constant_errors": [-1] * 8}
    nothing: Any = figures_of(kind, empty, 0)
    check_tested(nothing, kind, empty)
    assert (nothing.rows, nothing.rmse.low, nothing.rmse.high, nothing.constant_rmse.high) == (0, 0, 50, 50)
    with pytest.raises(NotVerified, match="rmse is"):
        check_tested(read(nothing, **{"rmse.value": lambda value: value - 1}), kind, empty)


@pytest.mark.parametrize("broken", [{"matrix": [[10**30, 0], [0, 1]]}, {"matrix": "none"}, {"right": "many"}])
def test_a_file_that_is_none_is_found(broken: dict[str, Any]) -> None:
    test, kind, released = of_classes()
    with pytest.raises(NotVerified, match="is not what such a test releases"):
        check_tested(test, kind, {**released, **broken})


def test_a_number_tested_as_classes_or_without_all_its_counts_is_found() -> None:
    test, kind, released = of_number()
    with pytest.raises(NotVerified, match="whether the label is a number"):
        check_tested(test, kind.model_copy(update={"classes": 2}), released)
    shorter = {**released, "constant_errors": released["constant_errors"][1:]}
    with pytest.raises(NotVerified, match="the number of counts"):
        check_tested(figures_of(kind, shorter, 0), kind, shorter)
    with pytest.raises(NotVerified, match="constant is"):  # it lies beyond the bounds
        check_tested(read(test, constant=60.5), kind.model_copy(update={"constant": 60.5}), released)


@pytest.mark.parametrize("length", [1e-6, 1e9])
def test_a_number_s_figures_are_compared_whatever_its_unit(length: float) -> None:
    """A difference of a thousandth of the bounds' length was none in tons, and rounding was one in grams."""
    _, kind, released = of_number()
    kind = kind.model_copy(update={"bounds": (0.0, length), "constant": length / 2})
    test = figures_of(kind, released, 0)
    check_tested(test, kind, released)
    with pytest.raises(NotVerified, match="rmse is"):
        check_tested(read(test, **{"rmse.value": lambda value: value + length / 1000}), kind, released)

"""Figures of a private test: they follow from its counts by the function that made them."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.privacy.exact import Silent
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

CLASSES = ("no", "yes")


def made(scale: float) -> tuple[TestRecord, artifacts_kinds.PrivateTest, dict[str, Any]]:
    """The record of a test, its kind and its released file; the noise of its counts is below 3."""
    about = {"session": "d-0", "student": "0" * 64, "share": 0.1, "clean": True}
    exact = PrivateTest(epsilon=1.0, delta=1e-6, classes=2, secret="rows", scale=scale, pair_scale=scale)
    ask = StudentTestAsk(exact, about, CLASSES)
    counts = np.random.default_rng(0).integers(40, 300, size=(2, 2))
    noise = np.random.default_rng(1).integers(-3, 4, size=1000)
    drawn = exact.release(counts, Silent())
    released = json.loads(json.dumps(ask.result(drawn + noise[: len(drawn)])))
    kind = Kind.of(ask.settings()).only(artifacts_kinds.PrivateTest)
    test = figures_of(kind, released, 0)
    assert isinstance(test, TestRecord)
    return test, kind, released


def of_number(scale: float) -> tuple[NumberTested, artifacts_kinds.PrivateTest, dict[str, Any]]:
    """The same of a test of a number from 10 to 60."""
    about = {
        "session": "d-0",
        "student": "0" * 64,
        "share": 0.1,
        "clean": True,
        "bounds": [10.0, 60.0],
        "constant": 23.4,
    }
    exact = PrivateTest(epsilon=1.0, delta=1e-6, classes=0, secret="rows", scale=scale, pair_scale=scale)
    ask = StudentTestAsk(exact, about, ())
    counts = [range(800, 0, -100), range(0, 800, 100)]
    released = json.loads(json.dumps(ask.result(exact.release(np.array(counts), Silent()))))
    kind = Kind.of(ask.settings()).only(artifacts_kinds.PrivateTest)
    test = figures_of(kind, released, 0)
    assert isinstance(test, NumberTested)
    return test, kind, released


@pytest.mark.parametrize("scale", [0.7, 5.0, 900.0])
def test_a_test_s_figures_follow_from_its_counts(scale: float) -> None:
    test, kind, released = made(scale)
    check_tested(test, kind, released)


def narrower(share: dict[str, Any]) -> None:
    share["low"] += (share["value"] - share["low"]) / 2


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an accuracy": lambda test: test["accuracy"].update(value=test["accuracy"]["value"] + 0.001),
    "an interval": lambda test: narrower(test["accuracy"]),
    "a balanced accuracy": lambda test: narrower(test["balanced_accuracy"]),
    "a recall": lambda test: narrower(test["classes"][1]["recall"]),
    "a precision": lambda test: narrower(test["classes"][0]["precision"]),
    "a largest class": lambda test: test.update(majority=test["majority"] - 0.05),
    "the units": lambda test: test.update(rows=test["rows"] + 1),
    "the coverage": lambda test: test.update(level=0.5),
    "that it is clean": lambda test: test.update(clean=False),
    "the share": lambda test: test.update(share=0.9),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_figure_that_does_not_follow_is_found(change: str) -> None:
    test, kind, released = made(5.0)
    said = test.model_dump(mode="json")
    CHANGES[change](said)
    with pytest.raises(NotVerified, match=r"the private test, .* (certified|recorded) as"):
        check_tested(TestRecord.model_validate_json(json.dumps(said)), kind, released)


@pytest.mark.parametrize("of", ["all", "a class"])
def test_a_figure_without_its_interval_is_found(of: str) -> None:
    said = made(5.0)[0].model_dump(mode="json")
    place, name = {
        "all": (said, "accuracy"),
        "a class": (said["classes"][0], "recall"),
    }[of]
    place[name] = place[name]["value"]
    with pytest.raises(ValidationError):
        TestRecord.model_validate_json(json.dumps(said))


def test_figures_without_a_positive_count_are_the_middle_of_what_is_possible() -> None:
    _, kind, released = made(5.0)
    released["matrix"] = [[100, 3], [-2, -1]]
    test = figures_of(kind, released, 0)
    assert isinstance(test, TestRecord)
    check_tested(test, kind, released)
    for recall, mean in ((0.4, test.balanced_accuracy.value), (test.classes[1].recall.value, 0.7)):
        said = test.model_dump(mode="json")
        said["classes"][1]["recall"]["value"], said["balanced_accuracy"]["value"] = recall, mean
        with pytest.raises(NotVerified, match="but it was certified as"):
            check_tested(TestRecord.model_validate_json(json.dumps(said)), kind, released)


@pytest.mark.parametrize(
    "broken",
    [
        {"matrix": [[10**30, 0], [0, 1]]},
        {"matrix": "none"},
        {"right": "many"},
    ],
)
def test_a_file_that_is_none_is_found(broken: dict[str, Any]) -> None:
    test, kind, released = made(5.0)
    with pytest.raises(NotVerified, match="is not what such a test releases"):
        check_tested(test, kind, {**released, **broken})


@pytest.mark.parametrize("scale", [0.7, 5.0, 900.0])
def test_a_number_s_figures_follow_from_its_counts(scale: float) -> None:
    test, kind, released = of_number(scale)
    check_tested(test, kind, released)
    assert 0 <= test.rmse.low < test.rmse.value < test.rmse.high <= 50
    squares = [at and 4.0 ** (at - 7) for at in range(8)]
    assert test.rmse.value == pytest.approx(50 * np.sqrt(np.average(squares, weights=range(8, 0, -1))))
    assert test.constant_rmse.value == pytest.approx(50 * np.sqrt(np.average(squares, weights=range(8))))


def lower(error: dict[str, Any]) -> None:
    error["value"] -= 0.01


OF_NUMBER: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an error": (lambda test: lower(test["rmse"]), "rmse is"),
    "an interval": (lambda test: narrower(test["rmse"]), "rmse is"),
    "an interval below 0": (lambda test: test["rmse"].update(low=-1e9), "rmse is"),
    "an interval beyond the bounds": (lambda test: test["rmse"].update(high=51.0), "rmse is"),
    "the constant's error": (lambda test: lower(test["constant_rmse"]), "constant_rmse is"),
    "the constant's interval": (lambda test: narrower(test["constant_rmse"]), "constant_rmse is"),
    "the constant": (lambda test: test.update(constant=30.0), "constant is"),
    "the units": (lambda test: test.update(rows=1), "rows is"),
}


@pytest.mark.parametrize("change", OF_NUMBER)
def test_a_figure_of_a_number_that_does_not_follow_is_found(change: str) -> None:
    test, kind, released = of_number(5.0)
    said = test.model_dump(mode="json")
    OF_NUMBER[change][0](said)
    with pytest.raises(NotVerified, match=OF_NUMBER[change][1]):
        check_tested(NumberTested.model_validate_json(json.dumps(said)), kind, released)


def test_a_number_tested_as_classes_or_without_all_its_counts_is_found() -> None:
    test, kind, released = of_number(5.0)
    with pytest.raises(NotVerified, match="whether the label is a number"):
        check_tested(test, kind.model_copy(update={"classes": 2}), released)
    shorter = {**released, "constant_errors": released["constant_errors"][1:]}
    with pytest.raises(NotVerified, match="the number of counts"):
        check_tested(figures_of(kind, shorter, 0), kind, shorter)
    beyond = test.model_copy(update={"constant": 60.5})
    with pytest.raises(NotVerified, match="constant is"):
        check_tested(beyond, kind.model_copy(update={"constant": 60.5}), released)
    empty = {**released, "errors": [-3] * 8, "constant_errors": [-1] * 8}
    nothing = figures_of(kind, empty, 0)
    check_tested(nothing, kind, empty)
    assert isinstance(nothing, NumberTested)
    assert (nothing.rows, nothing.rmse.low, nothing.rmse.high, nothing.constant_rmse.high) == (0, 0, 50, 50)
    said = nothing.model_dump(mode="json")
    said["rmse"]["value"] -= 1
    with pytest.raises(NotVerified, match="rmse is"):
        check_tested(NumberTested.model_validate_json(json.dumps(said)), kind, empty)


@pytest.mark.parametrize("length", [1e-6, 1e9])
def test_a_number_s_figures_are_compared_whatever_its_unit(length: float) -> None:
    """A difference of a thousandth of the bounds' length was none in tons, and rounding was one in grams."""
    _, kind, released = of_number(5.0)
    kind = kind.model_copy(update={"bounds": (0.0, length), "constant": length / 2})
    test = figures_of(kind, released, 0)
    check_tested(test, kind, released)
    said = test.model_dump(mode="json")
    said["rmse"]["value"] += length / 1000
    with pytest.raises(NotVerified, match="rmse is"):
        check_tested(NumberTested.model_validate_json(json.dumps(said)), kind, released)

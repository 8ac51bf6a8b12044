"""Figures of a certificate follow from student and public table, or from the released counts of private units."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression

from tests import world
from tests.privacy.exact import Silent
from tests.support.edited import edits, with_values
from tests.support.published import SESSION, World


def read(small: World) -> world.Certificate:
    return world.Certificate.model_validate_json((small.released.root / SESSION / "certificate.json").read_bytes())


def found(small: World, values: Mapping[str, Any] = MappingProxyType({}), table: str | None = None) -> str:
    """What the check of the public test says, of a certificate with other values in it."""
    certificate = read(small)
    assert certificate.student.public_test is not None
    test = world.PublicTest.model_validate(with_values(certificate.student.public_test.model_dump(), values))
    student = certificate.student.model_copy(update={"public_test": test})
    changed = certificate.model_copy(update={"learned": student})
    return world.public_test(changed, small.released.read, table or small.plan.path("test"), small.home)


def test_the_student_gives_the_certified_counts_again(small: World, tmp_path: Path) -> None:
    assert "those from the student and the 300 rows" in found(small)
    certificate = read(small)
    assert "was not found" in world.public_test(certificate, small.released.read, None, None)
    assert certificate.student.public_test is not None
    world.keep_table_path(tmp_path, certificate.student.public_test, small.plan.path("test"))
    assert "300 rows" in world.public_test(certificate, small.released.read, None, tmp_path)
    world.keep_table_path(tmp_path, certificate.student.public_test, "snapshot:///elsewhere/vault#public/tables/gone/1")
    assert "was not found" in world.public_test(certificate, small.released.read, None, tmp_path)
    pl.DataFrame({"size": [1.0]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(world.NotVerified, match="the digest of other"):
        found(small, table=str(tmp_path / "other.parquet"))


def test_a_test_table_is_read_as_it_is_written(small: World, tmp_path: Path) -> None:
    """A table with semicolons and decimal commas was read as usual, and the honest certificate did not verify."""
    table = str(tmp_path / "test.csv")
    pl.read_parquet(small.plan.path("test")).write_csv(table, separator=";", decimal_comma=True)
    assert "those from the student and the 300 rows" in found(small, {"table": world.digest_of_table(table)}, table)


@pytest.mark.parametrize("what", ["calibration", "matrix"])
def test_what_the_student_gives_is_not_left_out(small: World, what: str) -> None:
    with pytest.raises(world.NotVerified, match=f"whether there is a {what}"):
        found(small, {what: None})


def exact(hits: int, rows: int) -> dict[str, float]:
    return world.share(hits, rows).model_dump()


def never_wrong(test: dict[str, Any]) -> dict[str, Any]:
    """Counts, and all that follows from them, as a student that is never wrong would have them."""
    rows = [item["rows"] for item in test["classes"]]
    of_class = [{"predicted": of, "recall": exact(of, of), "precision": exact(of, of)} for of in rows]
    return test | {
        "matrix": [[rows[0], 0], [0, rows[1]]],
        "accuracy": exact(sum(rows), sum(rows)),
        "calibration": None,
        "balanced_accuracy": world.mean_of_shares([world.share(of, of) for of in rows]).model_dump(),
        "classes": [item | own for item, own in zip(test["classes"], of_class, strict=True)],
    }


AREAS = {f"classes.*.{area}.{part}" for area in ("auc", "average_precision") for part in ("value", "low", "high")}
UNSEEN = {"calibration.*.confidence"} | AREAS
"""Figures of which a small difference is within the tolerance for ranks on another machine."""


@pytest.mark.filterwarnings("ignore:invalid value")  # a class that no row has
def test_another_value_of_any_figure_is_found(small: World) -> None:
    test, missed = json.loads(read(small).model_dump_json())["student"]["public_test"], set[str]()
    for place, other in edits(test):
        if not place.endswith(" removed"):
            with suppress(Exception):  # any is a fault, as for `verify_published`
                found(small, other)
                missed.add(place)
    assert missed <= UNSEEN
    larger: dict[str, dict[str, Any]] = {
        "the auc of 'yes' is": {"classes.1.auc": exact(1, 2)},
        "the expected calibration error": {"calibration.-1.confidence": 0.5},
        "the rows predicted to be of each class": {"matrix.0": lambda counts: counts[::-1]},
    }
    for named, values in larger.items():
        with pytest.raises(world.NotVerified, match=named):
            found(small, values)


def test_a_student_that_is_never_wrong_is_another(small: World) -> None:
    test = read(small).student.public_test
    assert test is not None
    with pytest.raises(world.NotVerified, match="public test rows otherwise than was certified"):
        found(small, never_wrong(test.model_dump()))


def estimates(part: Any, place: tuple[str, ...] = ()) -> Iterator[str]:
    """The places of all estimates in a part of JSON."""
    if isinstance(part, dict) and {"value", "low", "high"} == part.keys():
        yield ".".join(place)
    elif isinstance(part, dict | list | tuple):
        for at, each in part.items() if isinstance(part, dict) else enumerate(part):
            yield from estimates(each, (*place, str(at)))


def test_every_interval_that_is_narrower_wider_or_missing_is_found(small: World) -> None:
    test = json.loads(read(small).model_dump_json())["student"]["public_test"]
    places = [*estimates(test)]
    assert len(places) == 2 + 2 * 4 + len(test["calibration"])
    for place in places:
        for ends in ({"low": 0.0}, {"low": -1.0, "high": 1.0}):
            with pytest.raises(world.NotVerified, match="was certified as"):
                found(small, {f"{place}.{end}": value for end, value in ends.items()})
        with pytest.raises(ValidationError, match="finite"):
            found(small, {f"{place}.low": -math.inf})


def test_errors_of_equal_numbers_are_found_again(tmp_path: Path) -> None:
    """Rounding gave their mean another value, and their spread one that no other machine would have."""
    truth = np.full(7, 1e6 + 0.1)
    rows, off = pl.DataFrame({"at": np.linspace(0, 1, 7)}), 1.0
    student = SimpleNamespace(predict=lambda rows: truth + off * rows["at"].to_numpy())
    test = world.number_measured(truth, student.predict(rows), "cost", "")
    rows.write_parquet(table := str(tmp_path / "test.parquet"))
    given = student, rows, truth, world.Encoding(columns=(), label="cost", classes=()), table
    world._check_student(test, *given)
    off = 2.0
    with pytest.raises(world.NotVerified, match="the RMSE is"):
        world._check_student(test, *given)


def test_a_threshold_that_is_another_or_left_out_is_found(tmp_path: Path) -> None:
    """A class of one in ten, which the student never names and ranks well."""
    draw, table = np.random.default_rng(8), str(tmp_path / "test.parquet")
    truth = (draw.random(600) < 0.1).astype(np.int64)
    rows: Any = (draw.normal(size=600) + truth - 4)[:, None]
    pl.DataFrame({"kind": truth}).write_parquet(table)
    model = LogisticRegression().fit([[-1.0], [1.0]], ["no", "yes"])
    encoding = world.Encoding(columns=(), label="kind", classes=("no", "yes"))
    test = world.measured(model, rows, truth, encoding, table)
    (threshold,) = test.thresholds
    world._check_student(test, model, rows, truth, encoding, table)
    lower = threshold.model_copy(update={"least": threshold.least / 2})
    higher = threshold.model_copy(update={"recall": world.share(1, 1)})
    for wrong, named in (((lower,), "at its threshold"), ((higher,), "at its threshold"), ((), "with a threshold")):
        with pytest.raises(world.NotVerified, match=named):
            world._check_student(test.model_copy(update={"thresholds": wrong}), model, rows, truth, encoding, table)


ABOUT: dict[str, Any] = {"session": "d-0", "student": "0" * 64, "share": 0.1, "clean": True}
NUMBER = {"bounds": [10.0, 60.0], "constant": 23.4}
Made = tuple[Any, dict[str, Any], dict[str, Any]]


def released_by(counts: Any, noise: Any, scale: float, classes: tuple[str, ...], **more: Any) -> Made:
    """The record of a test of these counts, its settings and its released file."""
    exact = world.PrivateTest(
        epsilon=1.0, delta=1e-6, classes=len(classes), secret="rows", scale=scale, pair_scale=scale
    )
    ask = world.StudentTestAsk(exact, ABOUT | more, classes)
    drawn = exact.release(counts, Silent())
    at_the_door: Any = SimpleNamespace(arrays=(drawn + noise[: len(drawn)],))
    released = json.loads(json.dumps(ask.result(at_the_door)))
    return figures_of(ask.settings(), released), ask.settings(), released


def figures_of(settings: dict[str, Any], released: dict[str, Any]) -> Any:
    return world.test_figures(world.PrivateTest.model_validate(settings), released, 0)


def check_figures(test: Any, settings: dict[str, Any], released: dict[str, Any]) -> None:
    """As the referee does, by its own reading of the settings."""
    world.check_tested(test, world.read_settings(settings).only(world.PrivateTestSettings), released)


def of_classes(scale: float = 5.0) -> Made:
    """The noise of its counts is below 3."""
    counts = np.random.default_rng(0).integers(40, 300, size=(2, 2))
    return released_by(counts, np.random.default_rng(1).integers(-3, 4, size=1000), scale, ("no", "yes"))


def of_number(scale: float = 5.0) -> Made:
    """A number from 10 to 60."""
    counts = np.array([range(800, 0, -100), range(0, 800, 100)])
    return released_by(counts, np.zeros(1000, np.int64), scale, (), **NUMBER)


def with_figures(test: Any, **changes: Any) -> Any:
    """The record with other values, as a certificate has it."""
    return type(test).model_validate_json(json.dumps(with_values(test.model_dump(mode="json"), changes)))


@pytest.mark.parametrize("scale", [0.7, 5.0, 900.0])
def test_a_test_s_figures_follow_from_its_counts(scale: float) -> None:
    for made in (of_classes, of_number):
        test, settings, released = made(scale)
        check_figures(test, settings, released)
    assert isinstance(test, world.NumberTested)
    assert 0 <= test.rmse.low < test.rmse.value < test.rmse.high <= 50
    squares = [at and 4.0 ** (at - 7) for at in range(8)]
    assert test.rmse.value == pytest.approx(50 * np.sqrt(np.average(squares, weights=range(8, 0, -1))))
    assert test.constant_rmse.value == pytest.approx(50 * np.sqrt(np.average(squares, weights=range(8))))


def test_figures_without_a_positive_count_are_the_middle_of_what_is_possible() -> None:
    _, settings, released = of_classes()
    released["matrix"] = [[100, 3], [-2, -1]]
    test = figures_of(settings, released)
    assert isinstance(test, world.TestRecord)
    check_figures(test, settings, released)
    for place, value in (("classes.1.recall.value", 0.4), ("balanced_accuracy.value", 0.7)):
        with pytest.raises(world.NotVerified, match="but it was certified as"):
            check_figures(with_figures(test, **{place: value}), settings, released)
    _, settings, released = of_number()
    empty = {**released, "errors": [-3] * 8, "constant_errors": [-1] * 8}
    nothing: Any = figures_of(settings, empty)
    check_figures(nothing, settings, empty)
    assert (nothing.rows, nothing.rmse.low, nothing.rmse.high, nothing.constant_rmse.high) == (0, 0, 50, 50)
    with pytest.raises(world.NotVerified, match="rmse is"):
        check_figures(with_figures(nothing, **{"rmse.value": lambda value: value - 1}), settings, empty)


def test_a_number_tested_as_classes_or_beside_a_constant_beyond_its_bounds_is_found() -> None:
    test, settings, released = of_number()
    with pytest.raises(world.NotVerified, match="whether the label is a number"):
        check_figures(test, {**settings, "classes": 2}, released)
    with pytest.raises(world.NotVerified, match="constant is"):
        check_figures(with_figures(test, constant=60.5), {**settings, "constant": 60.5}, released)


@pytest.mark.parametrize("length", [1e-6, 1e9])
def test_a_number_s_figures_are_compared_whatever_its_unit(length: float) -> None:
    """A difference of a thousandth of the bounds' length was none in tons, and rounding was one in grams."""
    _, settings, released = of_number()
    settings = {**settings, "bounds": (0.0, length), "constant": length / 2}
    test = figures_of(settings, released)
    check_figures(test, settings, released)
    with pytest.raises(world.NotVerified, match="rmse is"):
        check_figures(with_figures(test, **{"rmse.value": lambda value: value + length / 1000}), settings, released)

"""The measures of a certificate are checked against one another, and made again from student and table."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression

from tests.support.edited import with_values
from tests.support.published import SESSION, World
from tests.world import (
    Certificate,
    Encoding,
    NotVerified,
    PublicTest,
    _check_student,
    digest_of_table,
    keep_table_path,
    mean_of_shares,
    measured,
    number_measured,
    public_test,
    share,
)


def read(small: World) -> Certificate:
    return Certificate.model_validate_json((small.released.root / SESSION / "certificate.json").read_bytes())


def found(small: World, values: Mapping[str, Any] = MappingProxyType({}), table: str | None = None) -> str:
    """What the check of the public test says, of a certificate with other values in it."""
    certificate = read(small)
    assert certificate.student.public_test is not None
    test = PublicTest.model_validate(with_values(certificate.student.public_test.model_dump(), values))
    student = certificate.student.model_copy(update={"public_test": test})
    changed = certificate.model_copy(update={"learned": student})
    return public_test(changed, small.released.read, table or small.plan.path("test"), small.home)


def test_the_student_gives_the_certified_counts_again(small: World, tmp_path: Path) -> None:
    assert "those from the student and the 300 rows" in found(small)
    certificate = read(small)
    assert "was not found" in public_test(certificate, small.released.read, None, None)
    assert certificate.student.public_test is not None
    keep_table_path(tmp_path, certificate.student.public_test, small.plan.path("test"))
    assert "300 rows" in public_test(certificate, small.released.read, None, tmp_path)
    keep_table_path(tmp_path, certificate.student.public_test, "snapshot:///elsewhere/vault#public/tables/gone/1")
    assert "was not found" in public_test(certificate, small.released.read, None, tmp_path)
    pl.DataFrame({"size": [1.0]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(NotVerified, match="the digest of other"):
        found(small, table=str(tmp_path / "other.parquet"))


def test_a_test_table_is_read_as_it_is_written(small: World, tmp_path: Path) -> None:
    """A table with semicolons and decimal commas was read as usual, and the honest certificate did not verify."""
    table = str(tmp_path / "test.csv")
    pl.read_parquet(small.plan.path("test")).write_csv(table, separator=";", decimal_comma=True)
    assert "those from the student and the 300 rows" in found(small, {"table": digest_of_table(table)}, table)


def exact(hits: int, rows: int) -> dict[str, float]:
    return share(hits, rows).model_dump()


HALF = exact(1, 2)


def never_wrong(test: dict[str, Any]) -> dict[str, Any]:
    """Counts, and all that follows from them, as a student that is never wrong would have them."""
    rows = [item["rows"] for item in test["classes"]]
    of_class = [{"predicted": of, "recall": exact(of, of), "precision": exact(of, of)} for of in rows]
    return test | {
        "matrix": [[rows[0], 0], [0, rows[1]]],
        "accuracy": exact(sum(rows), sum(rows)),
        "calibration": None,
        "balanced_accuracy": mean_of_shares([share(of, of) for of in rows]).model_dump(),
        "classes": [item | own for item, own in zip(test["classes"], of_class, strict=True)],
    }


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"accuracy": exact(999, 1000)}, "the accuracy is"),
        ({"majority": 0.1}, "the share of the largest class"),
        ({"balanced_accuracy": exact(299, 300)}, "the balanced accuracy"),
        ({"classes.0.precision": HALF}, "the precision of 'no'"),
        ({"classes.0.precision": None}, "the precision of 'no'"),
        ({"classes.1.auc": HALF}, "the auc of 'yes' is 0.9"),
        ({"classes.0.average_precision": HALF}, "the average_precision of 'no' is"),
        ({"calibration.0.rows": 1}, "the rows of the calibration bins"),
        ({"calibration.-1.accuracy": HALF}, "rows of the calibration bins that are right"),
        ({"calibration.-1.confidence": 0.5}, "the expected calibration error is"),
        ({"matrix.0": lambda counts: counts[::-1]}, "the rows predicted to be of each class"),
        ({"matrix": [[-1, 301], [0, 0]]}, "the rows of each class"),
        ({"calibration": None, "classes.1.auc": HALF}, "the auc of 'yes' is 0.9"),  # no word of how sure it is
    ],
)
def test_a_measure_that_is_not_the_students_is_found(small: World, values: dict[str, Any], named: str) -> None:
    with pytest.raises(NotVerified, match=named):
        found(small, values)


def test_a_student_that_is_never_wrong_is_another(small: World) -> None:
    test = read(small).student.public_test
    assert test is not None
    with pytest.raises(NotVerified, match="public test rows otherwise than was certified"):
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
            with pytest.raises(NotVerified, match="was certified as"):
                found(small, {f"{place}.{end}": value for end, value in ends.items()})
        with pytest.raises(ValidationError, match="finite"):
            found(small, {f"{place}.low": -math.inf})


def test_errors_of_equal_numbers_are_found_again() -> None:
    """Rounding gave their mean another value, and their spread one that no other machine would have."""
    truth = np.full(7, 1e6 + 0.1)
    rows, off = pl.DataFrame({"at": np.linspace(0, 1, 7)}), 1.0
    student = SimpleNamespace(predict=lambda rows: truth + off * rows["at"].to_numpy())
    test = number_measured(truth, student.predict(rows), "cost", "")
    _check_student(test, student, rows, truth, "")
    off = 2.0
    with pytest.raises(NotVerified, match="the RMSE is"):
        _check_student(test, student, rows, truth, "")


def test_a_threshold_that_is_another_or_left_out_is_found(tmp_path: Path) -> None:
    """A class of one in ten, which the student never names and ranks well."""
    draw, table = np.random.default_rng(8), str(tmp_path / "test.parquet")
    truth = (draw.random(600) < 0.1).astype(np.int64)
    rows: Any = (draw.normal(size=600) + truth - 4)[:, None]
    pl.DataFrame({"kind": truth}).write_parquet(table)
    model = LogisticRegression().fit([[-1.0], [1.0]], ["no", "yes"])
    encoding = Encoding(columns=(), label="kind", classes=("no", "yes"))
    test = measured(model, rows, truth, encoding, table)
    (threshold,) = test.thresholds
    _check_student(test, model, rows, truth, table)
    lower = threshold.model_copy(update={"least": threshold.least / 2})
    higher = threshold.model_copy(update={"recall": share(1, 1)})
    for wrong, named in (((lower,), "at its threshold"), ((higher,), "at its threshold"), ((), "with a threshold")):
        with pytest.raises(NotVerified, match=named):
            _check_student(test.model_copy(update={"thresholds": wrong}), model, rows, truth, table)

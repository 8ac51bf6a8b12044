"""The measures of a certificate are checked against one another, and made again from student and table."""

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression

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


def found(small: World, change: Callable[[dict[str, Any]], None] = lambda _: None, table: str | None = None) -> str:
    certificate = read(small)
    assert certificate.student.public_test is not None
    test = certificate.student.public_test.model_dump()
    change(test)
    student = certificate.student.model_copy(update={"public_test": PublicTest.model_validate(test)})
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

    def written_so(test: dict[str, Any]) -> None:
        test["table"] = digest_of_table(table)

    assert "those from the student and the 300 rows" in found(small, written_so, table)


def exact(hits: int, rows: int) -> dict[str, float]:
    return share(hits, rows).model_dump()


def moved(test: dict[str, Any]) -> None:
    """Counts, and all that follows from them, as a student that is never wrong would have them."""
    rows = [item["rows"] for item in test["classes"]]
    test |= {"matrix": [[rows[0], 0], [0, rows[1]]], "accuracy": exact(sum(rows), sum(rows)), "calibration": None}
    test["balanced_accuracy"] = mean_of_shares([share(of, of) for of in rows]).model_dump()
    for item, of in zip(test["classes"], rows, strict=True):
        item |= {"predicted": of, "recall": exact(of, of), "precision": exact(of, of)}


def unsure(test: dict[str, Any]) -> None:
    """An AUC that nobody measured, with no word of how sure the student is."""
    test["calibration"] = None
    test["classes"][1]["auc"] = exact(1, 2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda test: test.update(accuracy=exact(999, 1000)), "the accuracy is"),
        (lambda test: test.update(majority=0.1), "the share of the largest class"),
        (lambda test: test.update(balanced_accuracy=exact(299, 300)), "the balanced accuracy"),
        (lambda test: test["classes"][0].update(precision=exact(1, 2)), "the precision of 'no'"),
        (lambda test: test["classes"][0].update(precision=None), "the precision of 'no'"),
        (lambda test: test["classes"][1].update(auc=exact(1, 2)), "the auc of 'yes' is 0.9"),
        (lambda test: test["classes"][0].update(average_precision=exact(1, 2)), "the average_precision of 'no' is"),
        (lambda test: test["calibration"][0].update(rows=1), "the rows of the calibration bins"),
        (
            lambda test: test["calibration"][-1].update(accuracy=exact(1, 2)),
            "rows of the calibration bins that are right",
        ),
        (lambda test: test["calibration"][-1].update(confidence=0.5), "the expected calibration error is"),
        (
            lambda test: test.update(matrix=(test["matrix"][0][::-1], test["matrix"][1])),
            "the rows predicted to be of each class",
        ),
        (lambda test: test.update(matrix=[[-1, 301], [0, 0]]), "the rows of each class"),
        (unsure, "the auc of 'yes' is 0.9"),
        (moved, "public test rows otherwise than was certified"),
    ],
)
def test_a_measure_that_is_not_the_students_is_found(
    small: World, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    with pytest.raises(NotVerified, match=named):
        found(small, change)


def estimates(part: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all estimates in a part of JSON."""
    if isinstance(part, dict) and {"value", "low", "high"} == part.keys():
        yield place
    elif isinstance(part, dict | list | tuple):
        for at, each in part.items() if isinstance(part, dict) else enumerate(part):
            yield from estimates(each, (*place, at))


def changed(test: Any, place: tuple[Any, ...], ends: dict[str, float]) -> None:
    for step in place:
        test = test[step]
    test |= ends


def test_every_interval_that_is_narrower_wider_or_missing_is_found(small: World) -> None:
    test = json.loads(read(small).model_dump_json())["student"]["public_test"]
    places = [*estimates(test)]
    assert len(places) == 2 + 2 * 4 + len(test["calibration"])
    for place in places:
        for ends in ({"low": 0.0}, {"low": -1.0, "high": 1.0}):
            with pytest.raises(NotVerified, match="was certified as"):
                found(small, partial(changed, place=place, ends=ends))
        with pytest.raises(ValidationError, match="finite"):
            found(small, partial(changed, place=place, ends={"low": -math.inf, "high": math.inf}))


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

"""Evaluate: test a published student on public labelled rows, class by class.

Assumes      the test table is public; the student saw released labels and public rows alone
Guarantees   post-processing: nothing here reads a private row, and the same rows give the same figures
Not covered  how similar the test table is to future rows
             Checked by tests/tasks/student/test_evaluate.py

`artifacts.measures` defines the figures. `concord verify` computes them again, independently (tasks.verify). The path
of a test table is kept below HOME/tests, by the digest of the table: a hint for verification, which trusts the digest
alone.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from concord.artifacts.home.released import sha256_of_all
from concord.artifacts.home.whole import write_whole
from concord.artifacts.measures import AnyPublicTest, ClassMeasured, NumberTest, PublicTest, Surety
from concord.artifacts.schemas import Encoding
from concord.tasks.data.encode import encode, labelled_rows
from concord.tasks.data.snapshots import SCHEME, SnapshotTable
from concord.tasks.data.tables import find_files

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

MOST_LISTED = 100
"""Most classes for which the whole matrix is listed."""
CONFIDENCE_BINS = 10
"""Number of bins of a student's confidence."""
PROBABILITY_DIGITS = 6
"""Digits to which a mean probability is rounded, since its last bits depend on the machine."""


def evaluate(student: "Pipeline", path: str, encoding: Encoding) -> AnyPublicTest:
    """Measures of the student on the public labelled rows at `path`. Raises WrongInput if the table does not fit."""
    rows, truth = labelled_rows(path, encoding)
    return tested(student["student"], encode(rows, encoding), truth, encoding, path)


def tested(model: Any, X: Any, truth: NDArray[Any], encoding: Encoding, path: str) -> AnyPublicTest:
    """Measures of a fitted model on its matrix X of the rows at `path`, whose class indices, or numbers, are `truth`
    (rows,)."""
    if encoding.bounds is None:
        return measured(model, X, truth, encoding, path)
    return number_measured(truth, model.predict(X), encoding.label, digest_of_table(path))


def measured(model: Any, X: Any, truth: NDArray[np.int64], encoding: Encoding, path: str) -> PublicTest:
    """Measures of a fitted model on its matrix X of the rows at `path`, whose class indices are `truth` (rows,)."""
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support  # heavy

    classes, names = list(encoding.classes), np.array(encoding.classes)[truth]
    answers = model.predict(X)
    odds = _probabilities(model, X, classes)
    matrix = confusion_matrix(names, answers, labels=classes)
    precision, recall, _, of_class = precision_recall_fscore_support(
        names, answers, labels=classes, zero_division=np.nan
    )
    return PublicTest(
        table=digest_of_table(path),
        label=encoding.label,
        rows=len(truth),
        accuracy=float(accuracy_score(names, answers)),
        balanced_accuracy=float(np.nanmean(recall)),
        majority=float(of_class.max() / len(truth)),
        classes=tuple(
            ClassMeasured(
                name=name,
                rows=int(of),
                predicted=int(named),
                recall=_share(found),
                precision=_share(right),
                **({} if odds is None else _ranking(names == name, odds[:, at])),
            )
            for at, (name, of, named, found, right) in enumerate(
                zip(classes, of_class, matrix.sum(axis=0), recall, precision, strict=True)
            )
        ),
        matrix=tuple(tuple(row) for row in matrix.tolist()) if len(classes) <= MOST_LISTED else None,
        calibration=None if odds is None else _calibration(odds, answers == names),
    )


def number_measured(truth: NDArray[Any], answers: NDArray[Any], label: str, table: str) -> NumberTest:
    """Measures of predicted numbers (rows,) against the true ones."""
    mean = truth.mean().clip(truth.min(), truth.max())  # of equal numbers, rounding may give another
    error, spread = float(np.mean((truth - answers) ** 2)), float(np.mean((truth - mean) ** 2))
    r2 = 1 - error / spread if spread else 0.0
    return NumberTest(
        table=table, label=label, rows=len(truth), rmse=math.sqrt(error), mean_rmse=math.sqrt(spread), r2=r2
    )


def _share(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _probabilities(model: Any, X: Any, classes: list[str]) -> NDArray[np.float64] | None:
    """Probabilities (rows, classes), 0 of a class that the model does not know; None if it gives none."""
    if not hasattr(model, "predict_proba"):
        return None
    found = np.zeros((len(X), len(classes)))
    found[:, [classes.index(str(name)) for name in model.classes_]] = model.predict_proba(X)
    return found


def _ranking(own: NDArray[np.bool_], odds: NDArray[np.float64]) -> dict[str, float]:
    """AUC and average precision of one class, whose rows are `own` and whose probabilities are `odds` (rows,)."""
    from sklearn.metrics import average_precision_score, roc_auc_score  # heavy

    if own.all() or not own.any():
        return {}
    found = {"auc": roc_auc_score(own, odds), "average_precision": average_precision_score(own, odds)}
    return {name: round(float(value), PROBABILITY_DIGITS) for name, value in found.items()}


def _calibration(odds: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[Surety, ...]:
    sure = odds.max(axis=1)
    at = np.clip((sure * CONFIDENCE_BINS).astype(np.int64), 0, CONFIDENCE_BINS - 1)
    rows = np.bincount(at, minlength=CONFIDENCE_BINS)
    means = (np.bincount(at, weights, CONFIDENCE_BINS) / np.maximum(rows, 1) for weights in (sure, right))
    return tuple(
        Surety(
            rows=int(many), sure=round(float(mean), PROBABILITY_DIGITS), right=round(float(share), PROBABILITY_DIGITS)
        )
        for many, mean, share in zip(rows, *means, strict=True)
        if many
    )


def digest_of_table(path: str) -> str:
    """SHA-256 of the files of a public test table, one after the other. Raises WrongInput."""
    return sha256_of_all(file.path.read_bytes() for file in find_files(path, "data.test"))


def keep_table_path(home: Path, test: AnyPublicTest, path: str) -> None:
    """Keep the path of a test's table."""
    (home / "tests").mkdir(exist_ok=True)
    with write_whole(home / "tests" / test.table, home) as file:
        file.write((path if "://" in path else str(Path(path).absolute())).encode())


def remembered(home: Path, table: str) -> str | None:
    """The path of the table with that digest; None if it is not known."""
    try:
        path = (home / "tests" / table).read_text(encoding="utf-8")
    except OSError:
        return None
    if not path.startswith(SCHEME):
        return path
    return SnapshotTable(f"{SCHEME}{(home / 'vault').absolute()}#{path.rpartition('#')[2]}")  # homes may move

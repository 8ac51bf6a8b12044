"""Evaluate: test a published student on public labelled rows, class by class, and by the words of public columns.

Assumes      the test table is public; the student saw released labels and public rows alone; columns that make groups
             need not be features
Guarantees   post-processing: nothing here reads a private row, and the same rows give the same figures. A group of
             fewer than LEAST_OF_GROUP rows has no figures, which would say little of it
Not covered  how similar the test table is to future rows, and groups that no column names
             Checked by tests/tasks/student/test_evaluate.py

`artifacts.measures` defines the figures, and tasks.student.intervals their intervals. `concord verify` computes them
again by these functions, from the published student and the table. The path of a test table is kept below HOME/tests,
by the digest of the table: a hint for verification, which trusts the digest alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_curve
from sklearn.pipeline import Pipeline

from concord.artifacts.home.atomic import write_whole
from concord.artifacts.home.released import sha256_of_all
from concord.artifacts.measures import (
    LEAST_OF_GROUP,
    AnyPublicTest,
    CalibrationBin,
    ClassMeasured,
    Estimate,
    GroupMeasured,
    NumberTest,
    OddsMeasured,
    PublicTest,
    Threshold,
)
from concord.artifacts.schemas import Encoding
from concord.tasks.data.encode import grouping, labelled_rows
from concord.tasks.data.files import find_files
from concord.tasks.data.places import SCHEME, SnapshotTable
from concord.tasks.data.tables import open_public
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.student.concord_tallied import Tallied
from concord.tasks.student.intervals import auc, explained, mean_of_shares, root_mean_square, share

MOST_LISTED = 100
"""Most classes for which the whole matrix is listed."""
CONFIDENCE_BINS = 10
"""Number of bins of a student's confidence."""
CHANCE = 0.5
"""The AUC at chance level."""
PROBABILITY_DIGITS = 6
"""Digits to which a mean probability is rounded, since its last bits depend on the machine."""


def evaluate(student: Pipeline, path: str, encoding: Encoding, groups: Sequence[str] = ()) -> AnyPublicTest:
    """Figures of a published student on the public labelled rows at `path`, and for each group of them; of a student of
    tallies, at both operating points. Raises WrongInput if the table does not fit."""
    _, truth = labelled_rows(path, encoding)
    table = open_public(path, "data.test", encoding.format)
    raw = pl.concat(table.frames(encoding.asked), how="vertical_relaxed")
    return figures(student["student"], student[:-1].transform(raw), truth, encoding, path, groups)


def figures(
    model: Any, X: Any, truth: NDArray[Any], encoding: Encoding, path: str, groups: Sequence[str]
) -> AnyPublicTest:
    """Figures of a model on its matrix X of the rows at `path`; `truth` (rows,) are their class indices, or numbers."""
    if not encoding.classes:
        test: AnyPublicTest = number_measured(truth, model.predict(X), encoding.label, digest_of_table(path))
    else:
        test = measured(model, X, truth, encoding, path)
        if isinstance(model, Tallied):
            odds = at_prior_odds(model, X, truth, encoding.classes)
            test = test.model_copy(update={"prior_odds": odds})
    of_groups = groups_measured(model, X, truth, encoding.classes, grouping(path, groups, encoding)) if groups else ()
    return test.model_copy(update={"groups": tuple(of_groups)})


def measured(model: Any, X: Any, truth: NDArray[np.int64], encoding: Encoding, path: str) -> PublicTest:
    """Measures of a fitted model on its matrix X of the rows at `path`, whose class indices are `truth` (rows,)."""
    classes, names = list(encoding.classes), np.array(encoding.classes)[truth]
    answers, odds = model.predict(X), class_probabilities(model, X, classes)
    matrix = _counted(truth, answers, classes)
    figures = shares(classes, np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0))
    ranked = (ranking(truth == at, odds[:, at]) if odds is not None else {} for at in range(len(classes)))
    measures = [item.model_copy(update=areas) for item, areas in zip(figures.pop("classes"), ranked, strict=True)]
    unnamed = [at for at, of in enumerate(measures) if of.auc and of.auc.low > CHANCE and not matrix[at, at]]
    return PublicTest(
        table=digest_of_table(path),
        label=encoding.label,
        matrix=tuple(map(tuple, matrix.tolist())) if len(classes) <= MOST_LISTED else None,
        classes=tuple(measures),
        calibration=None if odds is None else _calibration(odds, answers == names),
        thresholds=tuple(best_threshold(classes[at], odds[:, at], truth == at) for at in unnamed if odds is not None),
        **figures,
    )


def best_threshold(name: str, odds: NDArray[np.float64], of_class: NDArray[np.bool_]) -> Threshold:
    """The threshold of a class at which the sum of recall and specificity is largest; of equal ones, the highest.

    odds  (rows,) predicted probabilities of the class
    of_class   (rows,) whether a row is of the class
    """
    wrongly, rightly, least = roc_curve(of_class, odds, drop_intermediate=False)
    best = float(least[1:][np.argmax(rightly[1:] - wrongly[1:])])
    shorter = float(f"{best * (1 - 5e-4):.4g}")  # and not above it
    return at_threshold(name, shorter, odds, of_class)


def at_threshold(name: str, least: float, odds: NDArray[np.float64], of_class: NDArray[np.bool_]) -> Threshold:
    """What a threshold of a class gives on these rows."""
    named = odds >= least
    hits = int(np.sum(named & of_class))
    recall, precision = share(hits, int(of_class.sum())), share(hits, int(named.sum()))
    return Threshold(name=name, least=least, recall=recall, precision=precision)


def at_prior_odds(model: Tallied, X: Any, truth: Ints, classes: Sequence[str]) -> OddsMeasured:
    """Measures of a student of tallies on its matrix X of rows of these classes (rows,), at prior odds."""
    params: dict[str, Any] = model.get_params() | {"point": "prior odds"}
    matrix = _counted(truth, type(model)(**params).fit().predict(X), classes)
    figures = shares(classes, np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0))
    return OddsMeasured(accuracy=figures["accuracy"], balanced_accuracy=figures["balanced_accuracy"])


def _counted(truth: Ints, answers: NDArray[Any], classes: Sequence[str]) -> Ints:
    """Rows by their class and in each by the answer (classes, classes)."""
    matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(matrix, (truth, np.array([classes.index(str(answer)) for answer in answers])), 1)
    return matrix


def shares(classes: Sequence[str], hits: Ints, rows: Ints, predicted: Ints) -> dict[str, Any]:
    """The fields of a `PublicTest` that follow from counts (classes,): rows of each class that the student finds, all
    rows of it, and rows that are predicted to be of it."""
    recalls = [share(right, of) if of else None for right, of in zip(hits.tolist(), rows.tolist(), strict=True)]
    precisions = [share(right, of) if of else None for right, of in zip(hits.tolist(), predicted.tolist(), strict=True)]
    counted = zip(classes, rows.tolist(), predicted.tolist(), recalls, precisions, strict=True)
    return {
        "rows": int(rows.sum()),
        "accuracy": share(int(hits.sum()), int(rows.sum())),
        "balanced_accuracy": mean_of_shares([recall for recall in recalls if recall is not None]),
        "majority": float(rows.max() / rows.sum()),
        "classes": tuple(
            ClassMeasured(name=name, rows=of, predicted=named, recall=recall, precision=precision)
            for name, of, named, recall, precision in counted
        ),
    }


def number_measured(truth: NDArray[Any], answers: NDArray[Any], label: str, table: str) -> NumberTest:
    """Measures of predicted numbers (rows,) against the true ones."""
    mean = truth.mean().clip(truth.min(), truth.max())  # of equal numbers, rounding may give another
    errors, deviations = truth - answers, truth - mean
    return NumberTest(
        table=table,
        label=label,
        rows=len(truth),
        rmse=root_mean_square(errors),
        mean_rmse=math.sqrt(float(np.mean(deviations**2))),
        r2=explained(errors, deviations),
    )


def class_probabilities(model: Any, X: Any, classes: Sequence[str]) -> NDArray[np.float64] | None:
    """Probabilities (rows, classes), 0 of a class that the model does not know; None if it gives none."""
    if not hasattr(model, "predict_proba"):
        return None
    by_class = np.zeros((len(X), len(classes)))
    by_class[:, [classes.index(str(name)) for name in model.classes_]] = model.predict_proba(X)
    return by_class


def ranking(of_class: NDArray[np.bool_], odds: NDArray[np.float64]) -> dict[str, Estimate]:
    """AUC and average precision of one class, whose rows are `of_class` and whose probabilities are `odds` (rows,)."""
    if of_class.all() or not of_class.any():
        return {}
    precision, rows = round(float(average_precision_score(of_class, odds)), PROBABILITY_DIGITS), int(of_class.sum())
    return {"auc": auc(odds, of_class), "average_precision": share(precision * rows, rows)}


def _calibration(odds: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[CalibrationBin, ...]:
    sure = odds.max(axis=1)
    at = np.clip((sure * CONFIDENCE_BINS).astype(np.int64), 0, CONFIDENCE_BINS - 1)
    rows, hits = np.bincount(at, minlength=CONFIDENCE_BINS), np.bincount(at[right], minlength=CONFIDENCE_BINS)
    means = np.bincount(at, sure, CONFIDENCE_BINS) / np.maximum(rows, 1)
    return tuple(
        CalibrationBin(rows=of, confidence=round(mean, PROBABILITY_DIGITS), accuracy=share(right_ones, of))
        for of, mean, right_ones in zip(rows.tolist(), means.tolist(), hits.tolist(), strict=True)
        if of
    )


def groups_measured(
    model: Any, X: Any, truth: NDArray[Any], classes: Sequence[str], groups: Mapping[str, pl.Series]
) -> Iterator[GroupMeasured]:
    """Figures of a model, as for `figures`, on the rows with each word of each column of `groups`."""
    named, predicted = np.array(classes)[truth] if classes else truth, model.predict(X)
    sure = model.predict_proba(X).max(axis=1) if hasattr(model, "predict_proba") else None

    def measured_on(rows: NDArray[np.bool_]) -> dict[str, Any]:
        if rows.sum() < LEAST_OF_GROUP:
            return {}
        if not classes:
            return {"rmse": root_mean_square(named[rows] - predicted[rows])}
        hits, by_class = named == predicted, [rows & (named == name) for name in classes]
        recalls = (share(int(hits[of].sum()), int(of.sum())) if of.sum() >= LEAST_OF_GROUP else None for of in by_class)
        return {
            "accuracy": share(int(hits[rows].sum()), int(rows.sum())),
            "recalls": tuple(recalls),
            "confidence": None if sure is None else round(float(sure[rows].mean()), PROBABILITY_DIGITS),
        }

    for column, words in groups.items():
        for word in words.unique().sort().to_list():
            rows = np.asarray(words.eq_missing(word))
            yield GroupMeasured(column=column, group=word, rows=int(rows.sum()), **measured_on(rows))


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

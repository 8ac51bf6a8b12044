"""Reproduce what was published of a student: its file, and its figures on public test rows.

    released model or hypothesis ─ student            the same weights and names, if it is one
    certificate ─ counts ─ shares and intervals       always
    student + test table ─ counts, areas and errors   if the table is there: at its path, or at that of `--test`

Figures are made again by the functions that made them (tasks.student.evaluate), from the published student and the
raw rows.

Assumes      the certificate's student is the file that it digests, which is checked before
Guarantees   found and named: a student's file that holds more than the student, or another than the released one, or
             codes of columns other than those that were released, if they were; a
             share or an interval that does not follow from the counts, or an interval that is missing though the
             certificate's format has them; counts that the student does not give; groups that leave out rows or give
             another figure together. If the table is there: an area, a calibration error or an error of numbers, or its
             interval, that the student does not give, but for RANKED; a group of other words
Not covered  a student of a type that is none of ours nor scikit-learn's, or that was fitted to released labels; how one
             of tallies codes cells, if that follows from public rows; up to
             TIED_SHARE of the rows, or one, since rounding on another machine may break a tie otherwise. CSV whose plan
             declared another format than is detected: a certificate does not record it. Checked by
             tests/tasks/verify/test_verify_figures.py, test_every_field.py and tests/tasks/student/test_evaluate.py
"""

import io
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import polars as pl

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import ConcordError, NotVerified
from concord.artifacts.measures import LEAST_OF_GROUP, AnyPublicTest, GroupMeasured, NumberTest, PublicTest
from concord.artifacts.records import SessionRecord
from concord.artifacts.schemas import SCHEMA_FIELD, Encoding, Ref
from concord.tasks.data.cells import cast_numbers, class_index
from concord.tasks.data.files import format_of
from concord.tasks.data.tables import open_public
from concord.tasks.student.evaluate import (
    at_threshold,
    class_probabilities,
    digest_of_table,
    figures,
    remembered,
    shares,
)
from concord.tasks.student.intervals import share
from concord.tasks.verify.checks import ROUNDED, alike, equal
from concord.tasks.verify.forms import HypothesisForm, LearnedForm, RoundForm
from concord.tasks.verify.recompute import read_settings
from concord.tasks.verify.records import PublishedSession
from concord.tasks.verify.released import NOT_DECODED, LabelTable

TIED_SHARE = 1 / 1000
"""Share of the rows that another machine may predict differently."""
RANKED = 1 / 100
"""Tolerance for a figure and its interval there: a few rows of a rare class may change places."""
OURS = ("concord_tallied", "concord_student")
"""Modules of students that are what was released; any other was fitted to released labels."""
STAND_IN = "DummyClassifier"
"""What is fitted in place of an estimator if all released labels are of one class."""
FITTED = "it was fitted to released labels; fitting is not repeated here"
VERSION = re.compile(rb'_(?:skops|sklearn)_version": (?:"[^"]*"|.{0,120}?"content": "[^,]*")')
"""Matches a version that a student's file names."""


def student_as_released(at: PublishedSession) -> str:
    """Check that a student's file holds nothing else, and that one which is a released model, or a released hypothesis,
    has its weights to the bit, its names of classes and, if they were released, its codes. Raises NotVerified."""
    stated, record = at.certificate.student, at.certificate.leading
    module, _, made = stated.estimator.rpartition(".")
    file = at.named(stated.file)
    types = _types(file)
    if (module.split(".")[0], made) not in types and ("sklearn", STAND_IN) not in types:
        raise NotVerified(f"the file {stated.file.path} holds no {stated.estimator}")
    if module not in OURS and not module.startswith("sklearn."):
        return FITTED
    from concord.tasks.student.model import dump, load  # imports all of scikit-learn

    whole = load(file)
    again = dump(whole)
    if _writers(again) == _writers(file) and again != file:  # other versions may write it otherwise
        raise NotVerified(f"the file {stated.file.path} holds more than the student: written again, it is another")
    if module not in OURS:
        return FITTED
    forms = at.forms(record, (file for file in record.files if file.path.endswith(".json")))
    last = forms[-1]
    student = whole["student"]
    if isinstance(last, HypothesisForm):
        said = json.loads(student.hypothesis), (*student.classes,)
        equal("the hypothesis of the student", said, (last.content["hypothesis"], last.classes))
        return "it is the released hypothesis"
    assert isinstance(last, LearnedForm)
    for name in ("weights", "intercept", *(("prior",) if made == "Tallied" else ())):
        if not np.array_equal(np.asarray(getattr(student, name)), np.array(getattr(last.decoded, name))):
            raise NotVerified(f"the {name} of the student are not those of the last released model")
    announced = (form.following for form in forms[::-1] if isinstance(form, RoundForm))
    if codes := next((question.codes for question in announced if question and question.codes), None):
        parts = (part for part in whole["encode"].transformers_ if part[1] != "drop")  # a column of one value is
        coded = {names[0]: part.named_steps["code"] for _, part, names in parts}
        for field in (codes.fields[place] for place in codes.fine):
            equal(f"how the student codes {field.name!r}", _coded(coded.get(field.name)), _coded(field))
    if made == "Tallied":
        _named_as_released(student, record, at)
        measured = stated.public_test
        equal("whether it was measured at prior odds", getattr(measured, "prior_odds", None) is None, measured is None)
    else:
        due = read_settings(record.mechanism.settings).stated_bounds()
        equal("the bounds of the student", (student.low, student.high), due)
    return f"it has the weights of the last released model; {NOT_DECODED.format(record.mechanism.facts.of_rows)}"


def _coded(field: Any) -> tuple[object, ...]:
    """The first code of a column, and the cuts of its numbers or the words that have codes."""
    return getattr(field, "start", None), (*(getattr(field, "cuts", None) or ()),), (*getattr(field, "words", ()),)


def _named_as_released(student: Any, record: SessionRecord, at: PublishedSession) -> None:
    """Raise NotVerified unless a student names the likeliest class, by the name that inferred labels give it."""
    table = LabelTable(record, at)
    for file in (file for file in record.files if file.path.endswith("labels.arrow")):
        table.check_inferred(file, None)
    equal("the classes of the student", (*student.classes_,), (*student.classes,))
    for place, name in table.classes.items():
        equal(f"class {place} of the student", student.classes[place], name)
    equal("the operating point of the student", student.point, "default")


def _types(student: bytes) -> set[tuple[str, str]]:
    """The package and the name of every class that a student's file holds."""
    types = set[tuple[str, str]]()

    def noted(part: dict[str, Any]) -> dict[str, Any]:
        types.add((str(part.get("__module__")).split(".")[0], str(part.get("__class__"))))
        return part

    with ZipFile(io.BytesIO(student)) as file:
        json.loads(file.read("schema.json"), object_hook=noted)
    return types


def _writers(student: bytes) -> set[bytes]:
    """The versions of libraries that a student's file says it was written by; a certificate may be of later ones."""
    with ZipFile(io.BytesIO(student)) as file:
        return set(VERSION.findall(file.read("schema.json")))


def public_test(certificate: Certificate, read: Callable[[Ref], bytes], named: str | None, home: Path | None) -> str:
    """The measures on public test rows follow from one another, and are the student's. Raises NotVerified.

    read    returns the bytes of a released file
    named   path of the test table, if it was given; otherwise the path that `home` remembers
    """
    test = certificate.student.public_test
    if test is None:
        return "the certificate has none"
    if isinstance(test, NumberTest):
        follows = "its R² follows from its errors"
        alike("R²", 1 - (test.rmse.value / test.mean_rmse) ** 2 if test.mean_rmse else 0.0, test.r2.value, ROUNDED)
    else:
        follows = "its shares and intervals follow from its counts"
        _shares_follow(test)
    for column, groups in groupby(test.groups, key=lambda group: group.column):
        _groups_follow(test, column, [*groups])
    table = _table(test, named, home)
    if table is None:
        return f"{follows}; the test table was not found: name it with --test to evaluate the student again"
    # This imports all of scikit-learn, which nothing else here needs.
    from concord.tasks.student.model import columns_read, load

    student = load(read(certificate.student.file))
    columns = columns_read(student)
    equal("the features", [*certificate.features], [*columns])
    names = () if isinstance(test, NumberTest) else tuple(item.name for item in test.classes)
    words = tuple(name for name, field in columns.items() if field == SCHEMA_FIELD)
    form = format_of(table, field="--test")
    encoding = Encoding(columns=(), label=test.label, classes=names, format=form, words=words)
    rows, truth = _rows(columns, encoding, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column that is mostly unread was so when the student was measured
        _check_student(test, student[-1], student[:-1].transform(rows), truth, encoding, table)
    return f"{follows}, and those from the student and the {test.rows:,} rows of the table"


def _shares_follow(test: PublicTest) -> None:
    """Raise NotVerified unless shares and their intervals follow from the counts of the test."""
    names, rows, predicted = zip(*((item.name, item.rows, item.predicted) for item in test.classes), strict=True)
    hits = np.array([item.recall.value * item.rows if item.recall else 0.0 for item in test.classes]).round()
    if test.matrix is not None:
        matrix = np.array(test.matrix)
        hits = np.diag(matrix)
        equal("the rows of each class in the public test", matrix.sum(axis=1).tolist(), [*rows])
        equal("the rows predicted to be of each class", matrix.sum(axis=0).tolist(), [*predicted])
    if not sum(rows) or (hits < 0).any() or (hits > np.minimum(rows, predicted)).any():
        raise NotVerified("the rows of the public test that are right are not among those there are")
    due_shares = shares(names, hits, np.array(rows), np.array(predicted))
    equal("the rows of all classes in the public test", due_shares["rows"], test.rows)
    alike("the share of the largest class", due_shares["majority"], test.majority)
    alike("the accuracy", due_shares["accuracy"], test.accuracy)
    alike("the balanced accuracy", due_shares["balanced_accuracy"], test.balanced_accuracy)
    for due, item in zip(due_shares["classes"], test.classes, strict=True):
        for what in ("recall", "precision"):
            alike(f"the {what} of {item.name!r}", getattr(due, what), getattr(item, what))
    if test.calibration is not None:
        equal("the rows of the calibration bins", sum(bin_.rows for bin_ in test.calibration), test.rows)
        right = [round(bin_.rows * bin_.accuracy.value) for bin_ in test.calibration]
        equal("the rows of the calibration bins that are right", sum(right), int(hits.sum()))
        for bin_, of in zip(test.calibration, right, strict=True):
            alike(f"the accuracy at a mean confidence of {bin_.confidence:.1%}", share(of, bin_.rows), bin_.accuracy)


def _groups_follow(test: AnyPublicTest, column: str, groups: Sequence[GroupMeasured]) -> None:
    """Raise NotVerified if the groups of a column are not all rows, or give another figure together."""
    equal(f"the rows of all groups by {column!r}", sum(group.rows for group in groups), test.rows)
    if any(group.rows < LEAST_OF_GROUP for group in groups):
        return
    if isinstance(test, NumberTest):
        whole = test.rmse.value**2 * test.rows
        together = math.fsum(group.rows * group.rmse.value**2 for group in groups if group.rmse)
    else:
        whole = test.accuracy.value * test.rows
        together = math.fsum(group.rows * group.accuracy.value for group in groups if group.accuracy)
    if not math.isclose(together, whole, rel_tol=ROUNDED, abs_tol=ROUNDED):
        raise NotVerified(f"the figures of the groups by {column!r} do not make those of all rows")


def _check_student(test: AnyPublicTest, model: Any, X: Any, truth: Any, encoding: Encoding, path: str) -> None:
    """Raise NotVerified if a model gives other figures on its matrix X of the rows at `path`, whose class indices, or
    numbers, are `truth` (rows,)."""
    again = figures(model, X, truth, encoding, path, [*dict.fromkeys(group.column for group in test.groups)])
    if isinstance(test, NumberTest) and isinstance(again, NumberTest):
        equal("the rows of the public test", again.rows, test.rows)
        alike("the RMSE of the mean", again.mean_rmse, test.mean_rmse)
        alike("the RMSE", again.rmse, test.rmse, TIED_SHARE * test.mean_rmse)
        alike("R²", again.r2, test.r2, RANKED)
    elif isinstance(test, PublicTest) and isinstance(again, PublicTest):
        _check_answers(test, again)
        if test.thresholds and (odds := class_probabilities(model, X, encoding.classes)) is not None:
            for threshold in test.thresholds:
                at, what = encoding.classes.index(threshold.name), f"of {threshold.name!r} at its threshold"
                due = at_threshold(threshold.name, threshold.least, odds[:, at], truth == at)
                alike(f"the recall {what}", due.recall, threshold.recall, RANKED)
                alike(f"the precision {what}", due.precision, threshold.precision, RANKED)
        if test.prior_odds is not None:
            equal("whether there is another operating point", again.prior_odds is not None, True)
            for what, figure in test.prior_odds:
                alike(f"the {what.replace('_', ' ')} at prior odds", getattr(again.prior_odds, what), figure, RANKED)
    for column, of_column in groupby(test.groups, key=lambda group: group.column):
        groups, due_groups = [*of_column], {group.group: group for group in again.groups if group.column == column}
        named = sorted((group.group for group in groups), key=repr)  # a word may be None, too
        equal(f"the groups by {column!r}", named, sorted(due_groups, key=repr))
        for group in groups:
            _check_group(group, due_groups[group.group], test)


def _check_answers(test: PublicTest, again: PublicTest) -> None:
    """Raise NotVerified if answers or probabilities differ from those that were certified."""
    other = abs(again.accuracy.value - test.accuracy.value) * test.rows
    if test.matrix is not None and again.matrix is not None:
        other = np.abs(np.array(again.matrix) - np.array(test.matrix)).sum() / 2
    if other > TIED_SHARE * test.rows:
        raise NotVerified(
            f"the student answers {other:.0f} of {test.rows} public test rows otherwise than was certified"
        )
    for what in ("calibration", "matrix"):
        equal(f"whether there is a {what}", getattr(test, what) is not None, getattr(again, what) is not None)
    if test.calibration is not None:
        alike("the expected calibration error", again.calibration_error, test.calibration_error, RANKED)
        for measured_bin, certified_bin in zip(again.calibration or (), test.calibration, strict=False):
            if measured_bin.rows == certified_bin.rows:  # at its edge, a row may be rounded into the next
                means = measured_bin.confidence, certified_bin.confidence
                alike("the mean confidence of a calibration bin", *means, RANKED)
    equal("the classes with a threshold", [of.name for of in test.thresholds], [of.name for of in again.thresholds])
    for due, item in zip(again.classes, test.classes, strict=True):
        for what in ("auc", "average_precision"):
            alike(f"the {what} of {item.name!r}", getattr(due, what), getattr(item, what), RANKED)


def _check_group(group: GroupMeasured, again: GroupMeasured, test: AnyPublicTest) -> None:
    """Raise NotVerified if the student gives other figures of a group. One row of it, or of a class in it, may break a
    tie otherwise."""
    name = f"{group.column} = {group.group!r}"
    equal(f"the rows of {name}", again.rows, group.rows)
    if isinstance(test, NumberTest):
        return alike(f"the RMSE of {name}", again.rmse, group.rmse, TIED_SHARE * test.mean_rmse)
    alike(f"the accuracy of {name}", again.accuracy, group.accuracy, 1.5 / max(1, group.rows))
    equal(f"the number of recalls of {name}", len(again.recalls), len(group.recalls))
    for item, due, recall in zip(test.classes, again.recalls, group.recalls, strict=False):
        alike(f"the recall of {item.name!r} of {name}", due, recall, 1.5 / LEAST_OF_GROUP)
    return alike(f"the mean confidence of {name}", again.confidence, group.confidence, RANKED)


def _table(test: AnyPublicTest, named: str | None, home: Path | None) -> str | None:
    """Path of the test table; None if it is no longer there. Raises NotVerified if `named` is another table."""
    path = remembered(home, test.table) if named is None and home is not None else named
    try:
        digest = None if path is None else digest_of_table(path)
    except (ConcordError, OSError):
        digest = None
    if named is not None:
        equal(f"the digest of {Path(named).name}", digest, test.table)
    return path if digest == test.table else None


def _rows(features: Mapping[str, str], encoding: Encoding, path: str) -> tuple[pl.DataFrame, Any]:
    """The raw rows at `path`, and their class indices or numbers (rows,)."""
    table, label = open_public(path, "--test", encoding.format), encoding.label
    rows = pl.concat(table.frames({**features, label: "data.label"}), how="vertical_relaxed")
    if not encoding.classes:
        return rows.drop(label), cast_numbers(rows[label])
    truth = rows.select(class_index(label, rows.schema[label], encoding.classes)).to_series().to_numpy()
    return rows.drop(label), truth.astype(np.int64)

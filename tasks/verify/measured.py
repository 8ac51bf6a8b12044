"""Verify measures: a certificate's shares on public test rows must follow from its counts, and these from the student.

    certificate ─ counts ─ shares          always
    student + test table ─ counts          if the table is available: at its path, or at that of `concord verify --test`

Independent of `tasks.student.evaluate`: the published pipeline reads raw rows, and shares are plain quotients.

Assumes      the certificate's student is the file that it digests, which is checked before
Guarantees   found and named: a share that does not follow from the counts; counts that the student does not give, or an
             error of numbers; if the table is there, an AUC, an average precision or an expected calibration error
             that its probabilities do not give, but for RANKED
Not covered  up to TIED_SHARE of the rows, since rounding on another machine may break a tie otherwise; or of the error
             if the mean is named. The student's confidence, bin by bin. CSV whose plan declared another format than is
             detected: a certificate does not record it. Checked by tests/tasks/verify/test_verify_measured.py
"""

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import ConcordError, NotVerified
from concord.artifacts.measures import AnyPublicTest, NumberTest, PublicTest
from concord.artifacts.schemas import Ref
from concord.tasks.data.cells import cast_numbers, class_index, group_word
from concord.tasks.data.files import format_of
from concord.tasks.data.tables import open_public
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.student.evaluate import digest_of_table, remembered
from concord.tasks.verify import grouped
from concord.tasks.verify.checks import equal

ROUNDED = 1e-5
"""By how much a mean of shares may differ that are rounded."""
TIED_SHARE = 1 / 1000
"""Share of the rows that another machine may predict differently."""
RANKED = 1 / 100
"""By how much AUC and average precision may differ there: a few rows of a rare class may change places."""


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
        _close("R²", 1 - (test.rmse / test.mean_rmse) ** 2 if test.mean_rmse else 0.0, test.r2)
    else:
        follows = "its shares follow from its counts"
        _shares_follow(test)
    grouped.follow(test)
    table = _table(test, named, home)
    if table is None:
        return f"{follows}; the test table is not at hand: name it with --test to count again"
    from concord.tasks.student.model import load  # imports all of scikit-learn, which nothing else here needs

    student = load(read(certificate.student.file))
    rows, truth = _rows(certificate.features, test, table)
    words = _words(test, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column that is mostly unread was so when the student was measured
        if isinstance(test, NumberTest):
            said = np.asarray(student.predict(rows), np.float64)
            _errs(test, truth, said)
            grouped.check(test, words, truth.tolist(), said.tolist(), ())
            return f"{follows}, and those are the student's on the {test.rows:,} rows of the table"
        _answers(test, _counted(student, rows, truth, test))
        _ranks(student, rows, truth, test)
        right = [test.classes[at].name for at in truth]
        sure = student.predict_proba(rows).max(axis=1).tolist() if hasattr(student, "predict_proba") else ()
        grouped.check(test, words, right, student.predict(rows).tolist(), sure)
    return f"{follows}, and those from the student and the {test.rows:,} rows of the table"


def _shares_follow(test: PublicTest) -> None:
    rows = [item.rows for item in test.classes]
    recalls = [item.recall for item in test.classes if item.recall is not None]
    equal("the rows of all classes in the public test", sum(rows), test.rows)
    _close("the share of the largest class", max(rows) / test.rows, test.majority)
    _close("the balanced accuracy", sum(recalls) / len(recalls), test.balanced_accuracy)
    if test.matrix is not None:
        matrix = np.array(test.matrix)
        equal("the rows of each class in the public test", matrix.sum(axis=1).tolist(), rows)
        predicted = [item.predicted for item in test.classes]
        equal("the rows predicted to be of each class", matrix.sum(axis=0).tolist(), predicted)
        _shares_of(test, matrix)

    if test.calibration is not None:
        equal("the rows by how sure the student is", sum(each.rows for each in test.calibration), test.rows)
        right = math.fsum(each.rows * each.right for each in test.calibration)
        if abs(right / test.rows - test.accuracy) > ROUNDED:
            raise NotVerified(f"rows by how sure the student is are right on {right / test.rows:.6g}, not as certified")


def _shares_of(test: PublicTest, matrix: Ints) -> None:
    _close("the accuracy", np.trace(matrix) / test.rows, test.accuracy)
    for at, item in enumerate(test.classes):
        for what, share, of in (("recall", item.recall, matrix[at]), ("precision", item.precision, matrix[:, at])):
            if (share is None) != (of.sum() == 0):
                raise NotVerified(f"the {what} of {item.name!r} was certified as {share}, of {of.sum()} rows")
            if share is not None:
                _close(f"the {what} of {item.name!r}", matrix[at, at] / of.sum(), share)


def _answers(test: PublicTest, matrix: Ints) -> None:
    """Raise NotVerified if the matrix differs from the test's, or the number of right ones if the test lists none."""
    if test.matrix is None:
        other = abs(int(np.trace(matrix)) - round(test.accuracy * test.rows))
    else:
        other = int(np.abs(matrix - np.array(test.matrix)).sum()) // 2
    if other > TIED_SHARE * test.rows:
        raise NotVerified(f"the student answers {other} of {test.rows} public test rows otherwise than was certified")


def _errs(test: NumberTest, truth: Floats, predicted: Floats) -> None:
    """Raise NotVerified if the errors differ from the test's."""
    mean = min(max(math.fsum(truth) / len(truth), truth.min()), truth.max())
    rmse, spread = (math.sqrt(math.fsum(gaps**2) / len(truth)) for gaps in (truth - predicted, truth - mean))
    equal("the rows of the public test", len(truth), test.rows)
    _close("the RMSE of the mean", spread, test.mean_rmse)
    if not math.isclose(rmse, test.rmse, rel_tol=1e-9, abs_tol=TIED_SHARE * test.mean_rmse):
        raise NotVerified(f"the student's RMSE is {rmse:.6g}, but it was certified as {test.rmse:.6g}")


def _close(what: str, found: float, recorded: float) -> None:
    if not math.isclose(found, recorded, rel_tol=1e-9, abs_tol=1e-12):
        raise NotVerified(f"{what} is {found:.6g}, but it was certified as {recorded:.6g}")


def _table(test: AnyPublicTest, named: str | None, home: Path | None) -> str | None:
    """Path of the test table; None if it is no longer there. Raises NotVerified if `named` is another table."""
    path = remembered(home, test.table) if named is None and home is not None else named
    try:
        found = None if path is None else digest_of_table(path)
    except (ConcordError, OSError):
        found = None
    if named is not None:
        equal(f"the digest of {Path(named).name}", found, test.table)
    return path if found == test.table else None


def _rows(features: Sequence[str], test: AnyPublicTest, path: str) -> tuple[pl.DataFrame, Any]:
    """The raw rows at `path`, and their class indices or numbers (rows,)."""
    table = open_public(path, "--test", format_of(path, field="--test"))
    rows = pl.concat(table.frames((*features, test.label)), how="vertical_relaxed")
    if isinstance(test, NumberTest):
        return rows.drop(test.label), cast_numbers(rows[test.label])
    names = tuple(item.name for item in test.classes)
    truth = rows.select(class_index(test.label, rows.schema[test.label], names)).to_series().to_numpy()
    return rows.drop(test.label), truth.astype(np.int64)


def _words(test: AnyPublicTest, path: str) -> dict[str, pl.Series]:
    """The word of each row at `path` in each column that makes groups."""
    if not (columns := [*dict.fromkeys(each.column for each in test.groups)]):
        return {}
    frames = open_public(path, "--test", format_of(path, field="--test")).frames(columns)
    words = pl.concat(frame.select(group_word(name, frame.schema[name]) for name in columns) for frame in frames)
    return {name: words[name] for name in columns}


def _counted(student: Any, rows: pl.DataFrame, truth: Ints, test: PublicTest) -> Ints:
    """The student's answers, (classes, classes)."""
    index = {item.name: at for at, item in enumerate(test.classes)}
    predicted = np.array([index[name] for name in student.predict(rows)])
    matrix = np.zeros((len(index), len(index)), dtype=np.int64)
    np.add.at(matrix, (truth, predicted), 1)
    return matrix


def _ranks(student: Any, rows: pl.DataFrame, truth: Ints, test: PublicTest) -> None:
    """Raise NotVerified if the calibration error, or a class's AUC or average precision, is not that of the student's
    probabilities."""
    certified = test.calibration_error
    if certified is None and test.auc is None:
        return
    odds, known = student.predict_proba(rows), list(student.classes_)
    gap = _calibration_error(odds, truth, [item.name for item in test.classes], known)
    if certified is not None and abs(gap - certified) > RANKED:
        raise NotVerified(f"the expected calibration error is {gap:.4f}, but it was certified as {certified:.4f}")
    for at, item in ((at, item) for at, item in enumerate(test.classes) if item.auc is not None):
        scores = odds[:, known.index(item.name)] if item.name in known else np.zeros(len(truth))
        for what, found in _areas(scores, truth == at).items():
            if abs(found - (getattr(item, what) or 0.0)) > RANKED:
                raise NotVerified(f"the {what} of {item.name!r} is {found:.4f}, not {getattr(item, what)} as certified")


def _calibration_error(odds: Any, truth: Ints, names: Sequence[str], known: Sequence[str]) -> float:
    """The mean gap between how sure the student is and how often it is right then, over tenths of sureness."""
    sure, said = odds.max(axis=1), np.array([names.index(str(known[at])) for at in odds.argmax(axis=1)])
    tenth = np.minimum(np.floor(10 * sure), 9)
    gaps = (
        abs(math.fsum(sure[tenth == each]) - np.count_nonzero((said == truth)[tenth == each])) for each in range(10)
    )
    return math.fsum(gaps) / len(truth)


def _areas(scores: Any, own: Any) -> dict[str, float]:
    """AUC, by the sum of ranks of a class's `own` rows (Mann & Whitney), and average precision, from the highest
    probability down: equal ones are found together."""
    from scipy.stats import rankdata  # heavy, and needed only if the table is at hand

    ranks, positives = rankdata(scores), int(own.sum())
    pairs = positives * (len(own) - positives)
    _, group = np.unique(-scores, return_inverse=True)
    hits = np.bincount(group, own)
    precision = np.cumsum(hits) / np.cumsum(np.bincount(group))
    return {
        "auc": float(ranks[own].sum() - positives * (positives + 1) / 2) / pairs,
        "average_precision": float((hits * precision).sum()) / positives,
    }

"""Measures: how often a published student is right, on public test rows and on private units set aside; and warnings.

Accuracy says little by itself: if 98% of the rows are of one class, naming it for every row is right on 98%. So the
share of the largest class and the recall of each class are given with it. Nothing here computes on rows: readers of
the published files need only these types.

Checked by tests/tasks/student/test_evaluate.py
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, ClassVar

from pydantic import Field

from concord.artifacts.schemas import CertificatePart

ConfusionMatrix = tuple[tuple[int, ...], ...]
"""Rows by their class, and in each by the class that the student names: in the order of `classes`."""


class ClassMeasured(CertificatePart):
    """One class on public test rows: how many rows are of it, and how many are `predicted` to be.

    recall      the share of its rows that the student finds; None if there are none
    precision   of the rows that the student says are of it, the share that are; None if it says so of none
    auc         how often its probability of the class is higher for a row of it than for another: 0.5 if it looks at
                nothing, whatever threshold it names the class at; None without probabilities, or without such rows
    average_precision
                the mean precision at the thresholds that find one more row: the class's share if it looks at nothing
    """

    name: str
    rows: int
    predicted: int
    recall: float | None
    precision: float | None
    auc: float | None = None
    average_precision: float | None = None


class Surety(CertificatePart):
    """Rows on which the student is about as sure of its answer: its mean probability, and the share it is right on."""

    rows: int
    sure: float
    right: float


LEAST_OF_GROUP = 30
"""Rows of a group, or of a class in it, below which no figure is given: it would say little."""


class GroupMeasured(CertificatePart):
    """One group of public test rows: those with the word `group` in a column, or with none; too small if all else is
    None.

    accuracy   the share that is right; of a number, None
    recalls    of each class, in order, the share of its rows that is found; None if the group has few of it
    sure       the mean of how sure the student says it is: to be compared with accuracy
    rmse       of a number, the root of the mean squared error
    """

    column: str
    group: str | None
    rows: int
    accuracy: float | None = None
    recalls: tuple[float | None, ...] = ()
    sure: float | None = None
    rmse: float | None = None

    @property
    def in_words(self) -> str:
        """The group and how right the student is there."""
        name = f"{self.column} {'without a value' if self.group is None else repr(self.group)}"
        if self.rmse is not None:
            return f"{name}: RMSE {self.rmse:.4g} on {self.rows:,} rows"
        if self.accuracy is None:
            return f"{name}: {self.rows:,} rows, too few to say"
        sure = "" if self.sure is None else f", where it says it is sure by {self.sure:.1%}"
        return f"{name}: {self.accuracy:.1%} right on {self.rows:,} rows{sure}"


class PublicTest(CertificatePart):
    """The student on public labelled rows.

    table               SHA-256 of the files of those rows, one after the other; `label` is their label column
    balanced_accuracy   the mean of the recalls, of classes that have rows
    majority            the share of the largest class: what naming it for every row would be right on
    matrix              None if there are too many classes to list
    calibration         by how sure it is, from the least; None if it gives no probabilities
    groups              by the words of columns that the plan declares
    """

    table: str
    label: str
    rows: int
    accuracy: float
    balanced_accuracy: float
    majority: float
    classes: tuple[ClassMeasured, ...]
    matrix: ConfusionMatrix | None
    calibration: tuple[Surety, ...] | None
    groups: tuple[GroupMeasured, ...] = ()

    @property
    def largest(self) -> str:
        """The class with most rows."""
        return max(self.classes, key=lambda item: item.rows).name

    @property
    def auc(self) -> float | None:
        """The mean of the classes' AUC."""
        areas = [item.auc for item in self.classes if item.auc is not None]
        return fmean(areas) if areas else None

    @property
    def calibration_error(self) -> float | None:
        """The mean gap between how sure it is and how often it is right then, over the bins (expected calibration
        error); None without probabilities."""
        if self.calibration is None:
            return None
        return sum(each.rows * abs(each.sure - each.right) for each in self.calibration) / self.rows

    @property
    def rarest(self) -> ClassMeasured:
        """The class with fewest rows, of those that have any."""
        return min((item for item in self.classes if item.rows), key=lambda item: item.rows)


RARE = 0.2
"""A class with less than this share of rows is rare."""


def ranking_in_words(test: PublicTest) -> str:
    """How well the probabilities rank rows, and those of a rare class, in a part of a sentence; empty if there are
    none."""
    rare = test.rarest
    if test.auc is None or rare.average_precision is None:
        return ""
    share = rare.rows / test.rows
    found = f"{rare.average_precision:.3f} ({share:.3f} if it looked at nothing)"
    more = f"; average precision of the rarest class, {rare.name!r}, {found}" if share < RARE else ""
    return f"; AUC {test.auc:.3f}{more}"


class NumberTest(CertificatePart):
    """The student of a number on public labelled rows.

    table      SHA-256 of the files of those rows, one after the other; `label` is their label column
    rmse       root of the mean squared error
    mean_rmse  what naming the mean of these rows for every row would give
    r2         the share of the squared error about that mean that the student does away with, 1 − (rmse / mean_rmse)²;
               0 if all rows are equal
    groups     by the words of columns that the plan declares
    """

    table: str
    label: str
    rows: int
    rmse: float
    mean_rmse: float
    r2: float
    groups: tuple[GroupMeasured, ...] = ()


AnyPublicTest = PublicTest | NumberTest


def number_in_words(rows: int, rmse: float, mean_rmse: float, r2: float) -> str:
    """A test of a number in one line."""
    return f"RMSE {rmse:.4g} on {rows:,} public test rows ({mean_rmse:.4g} if it always named their mean), R² {r2:.3f}"


class Interval(CertificatePart):
    """A share, or an error, and the interval that covers it at the level of the test, by itself: sampling and noise are
    counted."""

    value: float
    low: float
    high: float

    @property
    def in_words(self) -> str:
        """The share in percent, and its interval."""
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


class ClassTested(CertificatePart):
    """Of one class: the share of its units that the student finds, and of those it finds, the share that are of it."""

    name: str
    recall: Interval
    precision: Interval


class LevelTested(CertificatePart):
    """Of a group's units of which the student says that it is sure by at least `least`, the share that it is right on;
    None if too few are counted to say."""

    least: float
    right: Interval | None


class GroupTested(CertificatePart):
    """One group of the tested units: those with the word `group` in a column, or with none; or, if `column` is none,
    all that have in no column a word of the public test table.

    rows       their noisy number
    accuracy   the share that is right; None if too few are counted to say
    recalls    of each class, in order, the share of its units that is found
    calibrated how often it is right by how sure it says it is, from the least
    """

    column: str | None
    group: str | None
    rows: int
    accuracy: Interval | None
    recalls: tuple[Interval | None, ...]
    calibrated: tuple[LevelTested, ...]

    @property
    def in_words(self) -> str:
        """The group and how right the student is there."""
        name = f"{self.column} {'without a value' if self.group is None else repr(self.group)}"
        if self.column is None:
            name = "other values"
        if self.accuracy is None:
            return f"{name}: about {self.rows:,} private units, too few to say"
        sure = "".join(
            f"; of those it is sure of by {level.least:.0%} or more, {level.right.in_words}"
            for level in self.calibrated[-1:]
            if level.right is not None
        )
        return f"{name}: {self.accuracy.in_words} right on about {self.rows:,} private units{sure}"


class UnitsTested(CertificatePart):
    """The student, tried on private units that were set aside for the domain's whole life: noisy counts.

    share      of the units that is set aside
    clean      whether the student learned from none of the tested units; if not, the intervals say nothing
    earlier    sessions that may have touched the same units before, on whose outcome this student may have been chosen:
               tests, choices among students of other sessions, and whatever was asked of units of every part
    among      candidates of the session that were compared on the same units: each interval is so wide that those of
               all candidates would hold at once, whichever was chosen
    rows       the noisy number of tested units
    """

    share: float
    clean: bool
    earlier: int
    among: int = 1
    level: float
    rows: int


class NumberTested(UnitsTested):
    """The student of a number, tried on units set aside.

    rmse           root of the mean squared error, where a true number beyond the bounds counts as the nearer one, a
                   unit without one as their middle, and an error that is larger than what lies between them as that
    constant       what the released model says of public rows on average
    constant_rmse  the error of naming that for every unit
    """

    rmse: Interval
    constant: float
    constant_rmse: Interval

    groups: ClassVar[tuple[()]] = ()


def number_tested_in_words(test: Mapping[str, Any]) -> str:
    """The figures of a `NumberTested`, given as JSON, in a part of a sentence."""
    own, other = ("{value:.4g} ({low:.4g} to {high:.4g})".format(**test[of]) for of in ("rmse", "constant_rmse"))
    return f"RMSE {own}, where naming {test['constant']:.4g} for every unit would have {other},"


class TestRecord(UnitsTested):
    """The student of classes, tried on units set aside.

    majority   the share of the largest class, by the noisy counts
    matrix     the noisy counts themselves; None if there are too many classes to list
    groups     by the words of columns that the plan declares
    """

    __test__ = False  # no test of pytest's

    accuracy: Interval
    balanced_accuracy: Interval
    majority: float | None = None
    classes: tuple[ClassTested, ...]
    matrix: ConfusionMatrix | None = None
    groups: Annotated[tuple[GroupTested, ...], Field(exclude_if=lambda groups: not groups)] = ()


AnyTested = TestRecord | NumberTested

LEAST_ASKED = 0.01
"""The share of public rows that a session should have asked before it ended."""


def warnings_of(
    public: AnyPublicTest | None,
    private: AnyTested | None,
    released: Sequence[str] | None = None,
    named: Sequence[str] | None = None,
    *,
    asked: tuple[int, int] | None = None,
) -> tuple[str, ...]:
    """Warnings about a student: it is no better than a constant prediction, it never finds some class, or its session
    ended after few of the public rows.

    released   the classes among the released labels, if it learned from those
    named      the classes it predicts on the public rows, if that was computed
    asked      how many public rows were asked, and how many there are
    """
    return (*_of_rows(*(asked or (0, 0))), *_of_student(public, private, released, named))


def _of_rows(asked: int, rows: int) -> Iterator[str]:
    if asked < LEAST_ASKED * rows:
        yield (
            f"the session ended after {asked:,} of {rows:,} public rows: the others were not asked, and have no label "
            "to learn from"
        )


def _of_student(
    public: AnyPublicTest | None,
    private: AnyTested | None,
    released: Sequence[str] | None,
    named: Sequence[str] | None,
) -> tuple[str, ...]:
    if isinstance(public, NumberTest):
        return (*_of_number(public), *_of_private(private, set()))
    if public is None and private is None:
        return tuple(f"{words}, and {UNTESTED}" for words in _of_one_class(released, named))
    found = set[str]() if public is None else {item.name for item in public.classes if item.recall}
    return (*_of_public(public), *_of_private(private, found))


UNTESTED = "no test says whether the student tells classes apart"


def _of_one_class(released: Sequence[str] | None, named: Sequence[str] | None) -> Iterator[str]:
    if released is not None and not released:
        yield "no released label names a class"
    elif released is not None and len(released) == 1:
        yield f"every released label names the class {released[0]!r}"
    elif named is not None and len(named) == 1:
        yield f"the student names the class {named[0]!r} for every public row"


def _of_public(test: PublicTest | None) -> Iterator[str]:
    if test is None:
        return
    if test.accuracy <= test.majority:
        yield (
            f"the student is no better than naming the class {test.largest!r} for every row: it is right on "
            f"{test.accuracy:.1%} of the public test rows, and {test.majority:.1%} of them are of that class"
        )
    if blind := [item for item in test.classes if item.recall == 0]:
        names = _listed([item.name for item in blind])
        yield f"the student is blind to {names}: of the public test rows of such a class it finds none"
        if ranked := [item for item in blind if item.auc is not None and item.auc >= TELLS_APART]:
            name, area = ranked[0].name, ranked[0].auc
            yield (
                f"the student would find rows of the class {name!r} at a lower threshold: it gives them a higher "
                f"probability than others {area:.0%} of the time (AUC), where one that looks at nothing has 50%; see "
                "`concord predict --threshold`"
            )


def _of_number(test: NumberTest) -> Iterator[str]:
    if test.rmse >= test.mean_rmse:
        yield (
            f"the student is no better than naming the mean for every row: its RMSE is {test.rmse:.4g} on the public "
            f"test rows, and {test.mean_rmse:.4g} of their mean"
        )


def _of_private(test: AnyTested | None, found: set[str]) -> Iterator[str]:
    if test is None:
        return
    if not test.clean:
        yield "the private test says nothing of the student, which may have learned from the tested units"
        return
    if isinstance(test, NumberTested):
        if test.rmse.high >= test.constant_rmse.low:
            what = "is no better than" if test.rmse.low >= test.constant_rmse.high else "cannot be told from"
            yield (
                f"by the private test the student {what} naming {test.constant:.4g} for every unit: its RMSE is "
                f"{test.rmse.low:.4g} to {test.rmse.high:.4g}, and that of the constant "
                f"{test.constant_rmse.low:.4g} to {test.constant_rmse.high:.4g}"
            )
        return
    if test.majority is not None and test.accuracy.value <= test.majority:
        yield (
            "by the private test the student is no better than naming the largest class for every unit: it is right on "
            f"about {test.accuracy.value:.1%}, and about {test.majority:.1%} are of that class"
        )
    if blind := [item.name for item in test.classes if item.recall.low <= 0 and item.name not in found]:
        yield (
            f"the student may be blind to {_listed(blind)}: the private test cannot tell it from one that never finds "
            "such a class"
        )


TELLS_APART = 0.6
"""The least AUC of a class for which another threshold is advised."""
MOST_CLASSES_NAMED = 5


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_CLASSES_NAMED} more" if len(names) > MOST_CLASSES_NAMED else ""
    return (
        f"{'the class' if len(names) == 1 else 'the classes'} {', '.join(map(repr, names[:MOST_CLASSES_NAMED]))}{more}"
    )

"""Measures: how often a published student is right, on public test rows and on private units set aside.

Accuracy says little by itself: if 98% of the rows are of one class, naming it for every row is right on 98%. So the
share of the largest class and the recall of each class are given with it. Nothing here computes on rows: readers of
the published files need only these types.

Checked by tests/tasks/student/test_evaluate.py
"""

import math
from shlex import quote
from statistics import fmean
from typing import Any, Self

from pydantic import model_validator

from concord.artifacts.schemas import CertificatePart

LEVEL = 0.95
"""Coverage probability of each interval, by itself."""
ROUNDED = 1e-9
"""Tolerance for a figure that lies outside its interval, since doubles are rounded."""


class Estimate(CertificatePart):
    """A figure measured on a sample, and the interval that covers, at LEVEL, what it would be on all rows or units like
    those: the luck of the sample is counted, and noise."""

    value: float
    low: float
    high: float

    @model_validator(mode="after")
    def _within(self) -> Self:
        if not self.low - ROUNDED <= self.value <= self.high + ROUNDED:
            raise ValueError(f"{self.value} must be within its interval, {self.low} to {self.high}")
        return self

    def __format__(self, form: str) -> str:
        """The figure and its interval, each in that format: `94.1% (92.8% to 95.2%)` for `.1%`."""
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"

    @property
    def in_words(self) -> str:
        """A share in percent, and its interval."""
        return f"{self:.1%}"


ConfusionMatrix = tuple[tuple[int, ...], ...]
"""Rows by their class, and in each by the class that the student names: in the order of `classes`."""


class ClassMeasured(CertificatePart):
    """One class on public test rows: how many rows are of it, and how many are `predicted` to be.

    recall      the share of its rows that the student finds; None if there are none
    precision   of the rows that the student says are of it, the share that are; None if it says so of none
    auc         how often its probability of the class is higher for a row of it than for another: 0.5 at chance
                level, over all thresholds; None without probabilities, or without such rows
    average_precision
                the mean precision at the thresholds that find one more row: the class's share at chance level
    """

    name: str
    rows: int
    predicted: int
    recall: Estimate | None
    precision: Estimate | None
    auc: Estimate | None = None
    average_precision: Estimate | None = None


class CalibrationBin(CertificatePart):
    """A calibration bin: rows of similar confidence, their mean confidence, and the accuracy on them."""

    rows: int
    confidence: float
    accuracy: Estimate


LEAST_OF_GROUP = 30
"""Rows of a group, or of a class in it, below which no figure is given: it would say little."""


class GroupMeasured(CertificatePart):
    """One group of public test rows: those with the word `group` in a column, or with none; too small if all else is
    None.

    accuracy   the share that is right; of a number, None
    recalls    of each class, in order, the share of its rows that is found; None if the group has few of it
    confidence the student's mean confidence, which equals its accuracy if it is calibrated
    rmse       of a number, the root of the mean squared error
    """

    column: str
    group: str | None
    rows: int
    accuracy: Estimate | None = None
    recalls: tuple[Estimate | None, ...] = ()
    confidence: float | None = None
    rmse: Estimate | None = None

    @property
    def in_words(self) -> str:
        """The group and the student's performance there."""
        name = f"{self.column} {'without a value' if self.group is None else repr(self.group)}"
        if self.rmse is not None:
            return f"{name}: RMSE {self.rmse:.4g} on {self.rows:,} rows"
        if self.accuracy is None:
            return f"{name}: {self.rows:,} rows, too few to measure"
        confidence = "" if self.confidence is None else f", mean confidence {self.confidence:.1%}"
        return f"{name}: accuracy {self.accuracy.in_words} on {self.rows:,} rows{confidence}"


class OddsMeasured(CertificatePart):
    """A student of tallies on public test rows at its other operating point, prior odds, which finds more of a rare
    class."""

    accuracy: Estimate
    balanced_accuracy: Estimate


class Threshold(CertificatePart):
    """A class that the student never predicts, and the threshold of its probability at which balanced accuracy against
    the other classes is highest on the public test rows (Youden 1950).

    recall, precision   on the same rows, by which it was chosen: on others they are lower, if there are few
    """

    name: str
    least: float
    recall: Estimate
    precision: Estimate

    @property
    def in_a_sentence(self) -> str:
        """What it gives."""
        return (
            f"At a probability of {self.least:g} or more for {self.name!r}, recall is {self.recall.in_words} and "
            f"precision {self.precision.in_words}."
        )

    @property
    def in_words(self) -> str:
        """The threshold, how to use it, and what it gives."""
        return (
            f"`concord predict --threshold {quote(f'{self.name}={self.least:g}')}` predicts it for rows to which the "
            f"student gives a probability of {self.least:g} or more; on the public test rows, recall "
            f"{self.recall.in_words} and precision {self.precision.in_words}"
        )


class PublicTest(CertificatePart):
    """The student on public labelled rows.

    table               SHA-256 of the files of those rows, one after the other; `label` is their label column
    balanced_accuracy   the mean of the recalls, of classes that have rows
    majority            the share of the largest class: the accuracy of always predicting it
    matrix              None if there are too many classes to list
    calibration         by confidence, from the lowest; None if it gives no probabilities
    groups              by the words of columns that the plan declares
    prior_odds          None for a student without that operating point
    thresholds          for each class whose recall is 0 and whose AUC is above 0.5 with all of its interval
    """

    table: str
    label: str
    rows: int
    accuracy: Estimate
    balanced_accuracy: Estimate
    majority: float
    classes: tuple[ClassMeasured, ...]
    matrix: ConfusionMatrix | None
    calibration: tuple[CalibrationBin, ...] | None
    groups: tuple[GroupMeasured, ...] = ()
    prior_odds: OddsMeasured | None = None
    thresholds: tuple[Threshold, ...] = ()

    @property
    def largest(self) -> str:
        """The class with most rows."""
        return max(self.classes, key=lambda item: item.rows).name

    @property
    def auc(self) -> Estimate | None:
        """The mean of the classes' AUC. A standard error of a mean is at most the mean of theirs, however they depend
        on one another, and so is the mean of the ends an interval."""
        areas = [item.auc for item in self.classes if item.auc is not None]
        means = {end: fmean(getattr(area, end) for area in areas) for end in ("value", "low", "high") if areas}
        return Estimate(**means) if areas else None

    @property
    def calibration_error(self) -> Estimate | None:
        """The mean gap between confidence and accuracy over the bins (expected calibration error); None without
        probabilities.

        The gaps of b bins with n₁ … n_b of n rows are off by Σ √nᵢ / 2n together on average, at most, and one row
        changes that by 1/n: it is more than √(ln 20 / 2n) larger at most 5 % of the time (McDiarmid 1989).
        """
        if self.calibration is None:
            return None
        gap = (
            math.fsum(group.rows * abs(group.confidence - group.accuracy.value) for group in self.calibration)
            / self.rows
        )
        off = math.fsum(math.sqrt(group.rows) for group in self.calibration) / (2 * self.rows)
        off += math.sqrt(-math.log(1 - LEVEL) / (2 * self.rows))
        return Estimate(value=gap, low=max(0.0, gap - off), high=min(1.0, gap + off))

    @property
    def in_words(self) -> str:
        """The figures of all rows, in a part of a sentence."""
        return (
            f"accuracy {self.accuracy.in_words} on {self.rows:,} public test rows, with 95% intervals; majority-class "
            f"baseline {self.majority:.1%}; balanced accuracy {self.balanced_accuracy.in_words}{ranking_in_words(self)}"
        )

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
    precision = f"{rare.average_precision:.3f}, chance level {share:.3f}"
    more = f"; average precision of the rarest class, {rare.name!r}, {precision}" if share < RARE else ""
    gap = test.calibration_error
    sure = "" if gap is None else f"; expected calibration error {gap.in_words}"
    return f"; AUC {test.auc:.3f}{more}{sure}"


class NumberTest(CertificatePart):
    """The student of a number on public labelled rows.

    table      SHA-256 of the files of those rows, one after the other; `label` is their label column
    rmse       root of the mean squared error
    mean_rmse  that of always predicting the mean of these rows
    r2         the share of the squared error about that mean that the student removes, 1 − (rmse / mean_rmse)²;
               0 if all rows are equal
    groups     by the words of columns that the plan declares
    """

    table: str
    label: str
    rows: int
    rmse: Estimate
    mean_rmse: float
    r2: Estimate
    groups: tuple[GroupMeasured, ...] = ()

    @property
    def in_words(self) -> str:
        """The figures of all rows, in a part of a sentence."""
        return (
            f"RMSE {self.rmse:.4g} on {self.rows:,} public test rows, with 95% intervals; always predicting "
            f"their mean {self.mean_rmse:.4g}; R² {self.r2:.3f}"
        )


AnyPublicTest = PublicTest | NumberTest


class ClassTested(CertificatePart):
    """Recall and precision of one class."""

    name: str
    recall: Estimate
    precision: Estimate


class UnitsTested(CertificatePart):
    """The student, evaluated on private units that were set aside for the domain's whole life: noisy counts.

    share      of the units that is set aside
    clean      whether the student learned from none of the tested units; if not, the intervals say nothing
    earlier    sessions that may have touched the same units before, on whose outcome this student may have been chosen:
               tests, and whatever was asked of units of every part
    rows       the noisy number of tested units
    """

    share: float
    clean: bool
    earlier: int
    level: float
    rows: int

    @property
    def on_units(self) -> str:
        """What it was evaluated on, and what its intervals cover, in a part of a sentence."""
        clean = "" if self.clean else "; NOT clean: the student may have learned from the tested units"
        return f"on about {self.rows:,} private units set aside, with {self.level:.0%} intervals{clean}"


class NumberTested(UnitsTested):
    """The student of a number, evaluated on units set aside.

    rmse           root of the mean squared error, where a true number beyond the bounds counts as the nearer one, a
                   unit without one as their middle, and an error that is larger than what lies between them as that
    constant       what the released model says of public rows on average
    constant_rmse  the error of naming that for every unit
    """

    rmse: Estimate
    constant: float
    constant_rmse: Estimate

    @property
    def in_words(self) -> str:
        """The figures of all units, in a part of a sentence."""
        against = f"{self.constant_rmse:.4g} for a constant prediction of {self.constant:.4g}"
        return f"RMSE {self.rmse:.4g}, against {against} {self.on_units}"


class TestRecord(UnitsTested):
    """The student of classes, evaluated on units set aside.

    majority   the share of the largest class, by the noisy counts
    matrix     the noisy counts themselves; None if there are too many classes to list
    """

    __test__ = False  # no test of pytest's

    accuracy: Estimate
    balanced_accuracy: Estimate
    majority: float | None = None
    classes: tuple[ClassTested, ...]
    matrix: ConfusionMatrix | None = None

    @property
    def in_words(self) -> str:
        """The figures of all units, in a part of a sentence."""
        baseline = "" if self.majority is None else f"majority-class baseline about {self.majority:.1%}, "
        balanced = f"balanced accuracy {self.balanced_accuracy.in_words}"
        return f"accuracy {self.accuracy.in_words}, {baseline}{balanced} {self.on_units}"


AnyTested = TestRecord | NumberTested


def figures_of(test: AnyPublicTest | AnyTested) -> dict[str, Estimate | float]:
    """The figures of all rows or units, by name: those that were determined."""
    figures: dict[str, Any] = {name: part for name, part in test if name not in UnitsTested.model_fields}
    if isinstance(test, PublicTest):
        figures |= {"auc": test.auc, "calibration_error": test.calibration_error}
        figures |= {f"prior_odds_{name}": part for name, part in test.prior_odds or ()}
    return {name: part for name, part in figures.items() if isinstance(part, Estimate | float)}


def compared(test: AnyPublicTest | AnyTested) -> tuple[bool | None, str]:
    """Whether a student beats a constant prediction, of the largest class or of one number, with all of its interval;
    None if its figure alone does. And a predicate that says so."""
    larger: Estimate | float
    smaller: Estimate | float
    if isinstance(test, PublicTest | TestRecord):
        larger, smaller, baseline = test.accuracy, test.majority or 0.0, "the majority-class baseline"
        figures = f"accuracy {larger:.1%} against {smaller:.1%}"
    else:
        larger, smaller = test.mean_rmse if isinstance(test, NumberTest) else test.constant_rmse, test.rmse
        figures, baseline = f"RMSE {smaller:.4g} against {larger:.4g}", "a constant prediction"
    value, low = (larger.value, larger.low) if isinstance(larger, Estimate) else (larger, larger)
    most, high = (smaller.value, smaller.high) if isinstance(smaller, Estimate) else (smaller, smaller)
    if value <= most:
        return False, f"does not beat {baseline}: {figures}"
    surely = low > high or not math.isfinite(low - high)
    return surely or None, f"{'beats' if surely else 'may not beat'} {baseline}: {figures}"


def thresholds_of(public: AnyPublicTest | None, private: AnyTested | None, *, tallied: bool) -> dict[str, float]:
    """For each class that the student may never predict, the least probability at which to predict it.

    With a public test it is measured there (`Threshold`). Without one, it is the class's share of the tested private
    units, by their noisy counts: if probabilities are calibrated, that is the threshold of highest balanced accuracy.
    Those of a student that was decoded from sums (`tallied`) are. Those of a student that learned from votes are not,
    since votes of a rare class are refused or changed more often. A class of no units beyond noise has none.
    """
    if isinstance(public, PublicTest):
        return {of.name: of.least for of in public.thresholds}
    if not (tallied and isinstance(private, TestRecord) and private.clean and private.matrix is not None):
        return {}
    units = [max(0, sum(row)) for row in private.matrix]
    return {
        item.name: float(f"{of / sum(units):.3g}")
        for item, of in zip(private.classes, units, strict=True)
        if of and item.recall.low <= 0 and item.recall.high < 1
    }

"""Worth: the value of answers to a student, counted in labels, and the number of labels that is enough.

Votes and tallies are compared in one measure: the number of labels without noise that would be worth as much.
  a label      that noise changed with odds e is worth (1 − e·C/(C − 1))² of one (Angluin & Laird 1988, for C = 2)
  a count      that a student regresses on is worth its reliability: the share of its variance about the mean that comes
               from the votes. If noise is large, that is π/2 times the worth of its label alone; of two noises, the one
               of smaller variance is always worth more
  teachers     of n rows and F columns agree with each other by atan(√(n/F)) (`typical_agreement`), and are wrong
               together if n is small: all their votes at once are worth at most 8·n²/F labels
  a tally      of n units in cells of n_c: n·h·n_c/(h·n_c + σ²), h the mean p(1 − p): each cell's own spread, over that
               plus the noise's. A single round also has its model from the public rows only (`one_round_error`), unless
               only labels are secret: then features are known
Measured on UCI Adult (14 columns), shrunk linear discriminants of 25/60/150/400 rows: agreement .82/.86/.89/.93, where
the rule says .80/.86/.91/.94; a student of all their votes without noise 82.0/83.7/83.8/83.5% right. Logistic
regression on 60/120/250/500/1,000/2,000/4,000 true labels: 76.9/79.3/82.5/82.6/84.1/84.4/84.7%, of 85.3 with 30,000:
so about fields/labels of the rows are lost, and below `enough` a student knows little more than the commonest class.

Assumes      all figures are public: rows as a stated guess, columns and classes of the plan
Guarantees   nothing about privacy: arithmetic. More ε is never worth less, the rest being the same
Not covered  what a model can express: additive codes, linear teachers; how well the guess describes the private rows
Checked by tests/tasks/advice/test_worth.py
"""

import math
from collections.abc import Sequence
from typing import Literal

from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Hashed, Passed
from concord.tasks.mechanisms.mechanism import Expectation
from concord.tasks.mechanisms.tallies import LATER_FIELDS, PAIRED, Tallies

Lesson = Literal["random", "drop", "soft", "published"]
"""How a student uses rows without an answer, and counts: `student.refused`."""

SPREAD = 1 / 8
"""Mean p(1 − p) of a label given its row: half of its value without the row."""
BINS = 8
"""Most codes of a column that count as different: neighbouring bins are alike, so more of them cost nothing."""
LIST_FIELDS = 32
"""Most columns that a list of numbers counts for, since its elements are dependent."""
TYPICAL_AGREEMENT = 0.9
"""Mean share of the winning class if nothing is known of rows and columns, close to that of linear teachers on tables
and digits."""
LOUD = 5
"""Units that share a cell, over the standard deviation of the noise in its sums."""
LABELS_A_CLASS, LABELS_A_FIELD = 10, 5
"""Least number of labels for a student, per class and per field."""


def enough(classes: int, fields: int | None = None) -> int:
    """Number of labels below which a student learns little more than the most frequent class."""
    return max(LABELS_A_CLASS * classes, LABELS_A_FIELD * (fields or 0))


def lost(worth: float, classes: int, fields: int) -> float:
    """The rough share of rows that a student gets wrong for lack of labels."""
    return min(1 - 1 / classes, fields / max(worth, 1e-300))


def typical_agreement(rows: float, fields: int, classes: int) -> float:
    """The mean share of the winning class among teachers of `rows` rows each.

    A teacher's score is the true one, of variance 1 over the rows, plus independent noise of variance fields/rows.
    """
    lead = 2 / math.pi * math.atan(math.sqrt(rows / fields))
    return 1 / classes + (1 - 1 / classes) * lead


def worth_of_votes(
    expected: Expectation, *, queries: int, classes: int, lesson: Lesson, rows: float | None, fields: int | None
) -> float:
    """Worth of a mechanism's expected answers; `rows` and `fields` are those of a teacher, if they are known."""
    if lesson == "soft" and expected.kept is not None:
        kept = expected.kept
    else:
        kept = max(0.0, 1 - expected.changed * classes / (classes - 1)) ** 2
    worth = expected.answered * kept
    if lesson == "random":
        worth *= 1 - expected.refused  # refused rows get random labels, which are worth nothing
    if lesson == "published":
        worth *= expected.answered / queries  # and so do rows that were not asked
    if rows is None or fields is None:
        return worth
    return 1 / (1 / max(worth, 1e-300) + fields * SPREAD / rows**2)


def one_round_error(units: float, public: int) -> float:
    """The variance of a code's sum from the limited number of public rows, if there is a single round."""
    return 0.007 * units**2 / public


def rounds_of(fields_asked: int, rho: float, public: int, guess: float) -> int:
    """Number of rounds to plan, by public facts: one if ν = [F/(8ρ)] / [.007·n²/m] is above .3, otherwise three."""
    return 1 if fields_asked / (8 * rho) > 0.3 * one_round_error(guess, public) else 3


def later_fields(fields_asked: int, rho: float, public: int, guess: float) -> int:
    """Most fields that rounds after the first ask about, by public facts: all of a few, if ν of
    `rounds_of` is below .001.

    Each field then errs by the draw of public rows, which a model that is asked about it again takes away: 94.8 %
    became 95.4 % with 1,000,000 private rows of 21 columns and 20,000 public ones (ε = 2).
    """
    quiet = fields_asked / (8 * rho) < 0.001 * one_round_error(guess, public)
    return fields_asked if quiet and fields_asked <= PAIRED else LATER_FIELDS


def cells_that_are_heard(once: Tallies, guess: float) -> int:
    """The most cells of a vector, by public facts: each holds LOUD times as many units as the noise of a single round.

    Measured at ε = 1 on rows that are one vector each (tests/benchmarks/TRIED.md, "Several columns as one list"): 600
    cells of 2,810 private rows lose 5 points.
    """
    return max(2, int(guess / (LOUD * once.rounds[-1].scale / once.steps)))


def rounds_of_spaces(once: Tallies, cells: int, guess: float) -> int:
    """Number of rounds to plan for pictures, by public facts: two if more cells than those would be heard, because
    labels are then good enough to learn a space from.

    Measured on MNIST with simulated noise, on private images set aside for it, one run each: at ε = 0.1, where the
    noise is 0.18 of them, 97.9 to 98.0 % with two rounds and 97.8 % with one. Smaller ε were not tried; totals of codes
    were not asked.
    """
    return 2 if cells <= cells_that_are_heard(once, guess) else 1


def worth_of_tallies(mechanism: Tallies, sizes: Sequence[int], *, units: float, public: int) -> float:
    """Worth of tallies over columns with `sizes` different codes each, for so many private units and public rows."""
    of_labels = [each for each in mechanism.rounds if each.what == "labels"]
    noise = 1 / sum((mechanism.steps / each.scale) ** 2 for each in of_labels)
    if len(of_labels) == 1 and mechanism.secret == "rows":
        noise += one_round_error(units, public)
    classes = mechanism.classes or 2  # a number spreads less than classes do, so that this is cautious
    spread = (1 / classes) * (1 - 1 / classes) / 2  # of one class against the rest: SPREAD, for two
    known = [units / size * spread for size in sizes]
    return units * sum(own / (own + noise) for own in known) / len(known)


def learning_units(plan: Plan) -> float | None:
    """Number of private units that are learned from, as the plan states it; None if it does not."""
    rows = plan.labeling.rows
    return None if rows is None else rows * (1 - (plan.test.share if plan.test else 0))


def fields_of(encoding: Encoding) -> int:
    """Number of columns that are learned from; a list, or hashed words, counts for up to LIST_FIELDS columns."""
    widths = (column.size if isinstance(column, Passed | Hashed) else 1 for column in encoding.columns if column.width)
    return max(1, sum(min(width, LIST_FIELDS) for width in widths))

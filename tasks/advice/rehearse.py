"""Rehearse: what a plan would teach, by running it on public rows with synthetic labels.

    public rows ─ synthetic labels ─ drawn again as private rows ─ votes or sums, released with noise ─ student
                                              accuracy, and recall and AUC by class, beside those without privacy

Labels are drawn from additive models of the public codes, of three strengths of signal. How good the best possible
student would be is known, since the labels are synthetic. They are drawn several times, with noise of their own, since
luck decides at a small ε; shares of the classes that are not known are the same in one draw and uneven in the next.

Offers       `Rehearsed` and `ClassRehearsed` (one draw), `ClassAhead` (a class over all draws), `Stage` (what is
             rehearsed: `rehearse_tallies`, `rehearse_votes`), `rehearse_classes` (one draw of it), and their words

Assumes      plan, public rows and class shares are public
Guarantees   nothing private is read and nothing is charged: NumPy's generator is seeded, so results repeat
Not covered  labels that no additive model of the columns describes; private rows unlike the public ones.
             Checked by tests/tasks/advice/test_rehearse.py
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from concord.artifacts.errors import quoted
from concord.tasks.advice.synthetic_labels import (
    SIGNALS,
    assumed_shares,
    clearest,
    principal_components,
    random_logits,
    separated,
    shares_of_clusters,
    with_shares,
)
from concord.tasks.data.codes import CodeMatrix, Codes
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.student.intervals import auc, share

Truths = NDArray[np.bool_]
TESTED = 10_000
"""Rows with synthetic labels on which recall and AUC are measured."""
BEATS = 0.01
"""Least accuracy above the majority-class baseline that counts as learned; of a number, the least explained share of
its variance."""
NEAR_NONE = 0.05
"""A mean recall below which the student is expected to find next to no rows of a class."""


@dataclass(frozen=True, kw_only=True)
class ClassRehearsed:
    """A class in one draw of synthetic labels: its share of rows, and its recall and AUC as on a public test table.
    None if no row is of the class; the AUC is None as well if all rows are."""

    share: float
    recall: float | None
    auc: float | None

    @classmethod
    def of(cls, part: float, own: Truths, named: Truths, odds: NDArray[np.float64]) -> "ClassRehearsed":
        """Of test rows (rows,): whether each is of the class, whether the student predicts it, and its probability."""
        hits, rows = int((own & named).sum()), int(own.sum())
        return cls(
            share=part,
            recall=share(hits, rows).value if rows else None,
            auc=auc(odds, own).value if 0 < rows < len(own) else None,
        )


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """Shares of rows with the right label, for one draw of synthetic labels of this strength of signal; or shares of a
    number's variance that are explained (R²).

    right     by the student
    possible  by the best possible student
    largest   if every row is given the most common class; None for a number
    classes   in the plan's order; none for a number
    """

    signal: str
    right: float
    possible: float
    largest: float | None
    classes: tuple[ClassRehearsed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ClassAhead:
    """What to expect of a class: its least and greatest share, recall and AUC over all draws; None if there are none.

    missed   strengths of signal with which the mean recall is below NEAR_NONE
    """

    name: str
    share: tuple[float, float]
    recall: tuple[float, float] | None
    auc: tuple[float, float] | None
    missed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Stage(ABC):
    """What is rehearsed, by codes and rows (m, F) of some public rows; `classes` is 2 of a number, which lies between
    two bounds."""

    codes: Codes
    rows: CodeMatrix
    classes: int

    @cached_property
    def leading(self) -> Floats:
        """Coordinates of rows along the directions in which they differ most."""
        return principal_components(self.codes, self.rows, self.classes)

    @abstractmethod
    def private(self, rng: np.random.Generator) -> Ints:
        """Rows that stand in for private ones."""

    @abstractmethod
    def learned(self, private: Ints, labels: Ints, rng: np.random.Generator) -> Floats:
        """The scores (m, C) that the student gives the rows, once those that are `private`, with labels, were asked."""


def labels_of(rows: Ints, truth: Floats, rng: np.random.Generator) -> Ints:
    """Synthetic labels (n,) of these rows (n,), by the probabilities (m, C) of all rows."""
    below = rng.random((len(rows), 1)) > truth[rows].cumsum(axis=1)
    found: Ints = np.minimum(below.sum(axis=1), truth.shape[1] - 1)
    return found


def rehearse_classes(signal: str, stage: Stage, draw: int, shares: Sequence[float] | None) -> Rehearsed:
    """Rehearse synthetic classes of these shares; if they are not known, of equal or uneven ones, or those of clusters.
    `draw` is the number of the draw."""
    codes, rows, strength = stage.codes, stage.rows, SIGNALS[signal]
    rng = np.random.default_rng(1 + draw)
    assumed = assumed_shares(stage.classes, draw) if shares is None else np.asarray(shares, np.float64)
    along = [random_logits(codes, rows, len(assumed), rng)]
    if signal == "strong":
        along = separated(stage.leading, along[0] / 10, assumed)
        if shares is None and len(assumed) > 2:  # clusters that were made equal would be cut
            assumed = shares_of_clusters(strength * along[0])
    truth = clearest(with_shares(strength * each, assumed) for each in along)

    private = stage.private(rng)
    odds = stage.learned(private, labels_of(private, truth, rng), rng)
    given, tested = odds.argmax(axis=1), rng.integers(0, len(rows), TESTED)
    actual = labels_of(tested, truth, rng)
    return Rehearsed(
        signal=signal,
        right=float(truth[np.arange(len(rows)), given].mean()),
        possible=float(truth.max(axis=1).mean()),
        largest=float(truth.mean(axis=0).max()),
        classes=tuple(
            ClassRehearsed.of(part, actual == at, given[tested] == at, odds[tested, at])
            for at, part in enumerate(truth.mean(axis=0).tolist())
        ),
    )


def expect_classes(names: Sequence[str], rehearsed: Sequence[Rehearsed]) -> tuple[ClassAhead, ...]:
    """What to expect of each class, over these draws; empty for a number, which has no classes."""
    found = []
    for at, name in enumerate(names):
        recalls = defaultdict[str, list[float | None]](list)
        for draw in rehearsed:
            recalls[draw.signal].append(draw.classes[at].recall)
        known = {signal: [each for each in own if each is not None] for signal, own in recalls.items()}
        own = [draw.classes[at] for draw in rehearsed]
        found.append(
            ClassAhead(
                name=name,
                share=(min(each.share for each in own), max(each.share for each in own)),
                recall=_ends(each.recall for each in own),
                auc=_ends(each.auc for each in own),
                missed=tuple(signal for signal, some in known.items() if some and fmean(some) < NEAR_NONE),
            )
        )
    return tuple(found)


def _ends(values: Iterable[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None


def missed_in_words(classes: Sequence[ClassAhead]) -> str:
    """A clause for the classes whose recall is expected to be near 0, with the signals for which it is; else empty."""
    missed = defaultdict[tuple[str, ...], list[str]](list)
    for each in classes:
        missed[each.missed].append(each.name)
    return "".join(
        f"; expect a recall near 0 for {quoted(names)} if the signal is {' or '.join(signals)}"
        for signals, names in missed.items()
        if signals
    )


def learned(rehearsed: Sequence[Rehearsed]) -> bool:
    """Whether the student is clearly better than the largest class, or than the mean, in the mean over draws of a
    signal."""
    beyond = defaultdict[str, list[float]](list)
    for each in rehearsed:
        beyond[each.signal].append(each.right - (each.largest or 0.0))
    return any(float(np.mean(draws)) > BEATS for draws in beyond.values())


def span(values: Iterable[float | None], digits: int = 0) -> str:
    """The least and the greatest of shares, as percentages; one if they are the same, and a dash if there are none."""
    words = [f"{value:.{digits}%}" for value in sorted(value for value in values if value is not None)] or ["–"]
    return words[0] if words[0] == words[-1] else f"{words[0]} to {words[-1]}"


def in_words(rehearsed: Sequence[Rehearsed], rows: str = "the public rows") -> str:
    """The range of results on these rows, beside those without privacy and the majority-class baseline."""
    right, possible = (span(getattr(each, name) for each in rehearsed) for name in ("right", "possible"))
    simulated = f"simulated with synthetic {{}} on {rows}: expect {{}} of {right}"
    if rehearsed[0].largest is None:
        expected = f"{simulated.format('numbers', 'an R²')} (without privacy {possible})"
    else:
        largest = f"majority-class baseline {span(each.largest for each in rehearsed)}"
        expected = f"{simulated.format('labels', 'an accuracy')} (without privacy {possible}; {largest})"
    if learned(rehearsed):
        return expected
    if rehearsed[0].largest is None:
        return (
            f"{expected}; the student is not expected to learn anything: ε is too small, or private units are too few"
        )
    why = "ε is too small, private units are too few, or a class is too rare"
    return f"{expected}; the student is not expected to beat the baseline: {why}"

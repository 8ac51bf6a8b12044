"""Rehearse: what a plan would teach, by running it on public rows with synthetic labels.

    public rows ─ synthetic labels ─ drawn again as private rows ─ votes or sums, released with noise ─ student
                                              accuracy, and recall and AUC by class, beside those without privacy

Labels are drawn from additive models of the public codes, of three strengths of signal; with a strong one they are
nearly certain, and follow distances between public rows. How good the best possible student would be is known, since
the labels are synthetic. They are drawn several times, with noise of their own, since luck decides at a small ε; shares
of the classes that are not known are the same in one draw and uneven in the next.

Offers       `Rehearsed` and `ClassRehearsed` (one draw), `ClassAhead` (a class over all draws), `Ahead` (all of it),
             `Stage` (what is rehearsed: `rehearse_tallies`, `rehearse_votes`), `rehearse_classes` (one draw of it)

Assumes      plan, public rows and class shares are public
Guarantees   nothing private is read and nothing is charged: NumPy's generator is seeded, so results repeat
Not covered  labels that no additive model of the columns describes; private rows unlike the public ones. Checked by
             tests/tasks/advice/test_rehearse.py and test_synthetic_labels.py
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from concord.artifacts.errors import quoted
from concord.tasks.data.codes import CodeMatrix, Codes, NumberField
from concord.tasks.data.vectors import VectorField
from concord.tasks.mechanisms.contributions import columns
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.student.intervals import auc
from concord.tasks.student.prior import correlations

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
    def of(cls, part: float, actual: Truths, named: Truths, odds: NDArray[np.float64]) -> "ClassRehearsed":
        """Of test rows (rows,): whether each is of the class, whether the student predicts it, and its probability."""
        hits, rows = int((actual & named).sum()), int(actual.sum())
        return cls(
            share=part,
            recall=hits / rows if rows else None,
            auc=auc(odds, actual).value if 0 < rows < len(actual) else None,
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
    labels: Ints = np.minimum(below.sum(axis=1), truth.shape[1] - 1)
    return labels


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
            of_clusters = softmax(strength * along[0], axis=1).mean(axis=0) + 1 / len(rows)  # none of them 0
            assumed = of_clusters / np.sum(of_clusters)
    truth = clearest(with_shares(strength * logits, assumed) for logits in along)

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
    expected = []
    for at, name in enumerate(names):
        of_class, recalls = [draw.classes[at] for draw in rehearsed], defaultdict[str, list[float]](list)
        for draw, item in zip(rehearsed, of_class, strict=True):
            if item.recall is not None:
                recalls[draw.signal].append(item.recall)
        expected.append(
            ClassAhead(
                name=name,
                share=(min(item.share for item in of_class), max(item.share for item in of_class)),
                recall=_ends(item.recall for item in of_class),
                auc=_ends(item.auc for item in of_class),
                missed=tuple(signal for signal, values in recalls.items() if fmean(values) < NEAR_NONE),
            )
        )
    return tuple(expected)


def _ends(values: Iterable[float | None]) -> tuple[float, float] | None:
    measured = [value for value in values if value is not None]
    return (min(measured), max(measured)) if measured else None


def missed_in_words(classes: Sequence[ClassAhead]) -> str:
    """A clause for the classes whose recall is expected to be near 0, with the signals for which it is; else empty."""
    missed = defaultdict[tuple[str, ...], list[str]](list)
    for ahead in classes:
        missed[ahead.missed].append(ahead.name)
    return "".join(
        f"; expect a recall near 0 for {quoted(names)} if the signal is {' or '.join(signals)}"
        for signals, names in missed.items()
        if signals
    )


def learned(rehearsed: Sequence[Rehearsed]) -> bool:
    """Whether the student is clearly better than the largest class, or than the mean, in the mean over draws of a
    signal."""
    beyond = defaultdict[str, list[float]](list)
    for draw in rehearsed:
        beyond[draw.signal].append(draw.right - (draw.largest or 0.0))
    return any(float(np.mean(draws)) > BEATS for draws in beyond.values())


def span(values: Iterable[float | None], digits: int = 0) -> str:
    """The least and the greatest of shares, as percentages; one if they are the same, and a dash if there are none."""
    words = [f"{value:.{digits}%}" for value in sorted(value for value in values if value is not None)] or ["–"]
    return words[0] if words[0] == words[-1] else f"{words[0]} to {words[-1]}"


def rehearsed_in_words(rehearsed: Sequence[Rehearsed], rows: str = "the public rows") -> str:
    """The range of results on these rows, beside those without privacy and the majority-class baseline."""
    right, possible = (span(getattr(draw, name) for draw in rehearsed) for name in ("right", "possible"))
    simulated = f"simulated with synthetic {{}} on {rows}: expect {{}} of {right}"
    if rehearsed[0].largest is None:
        expected = f"{simulated.format('numbers', 'an R²')} (without privacy {possible})"
    else:
        largest = f"majority-class baseline {span(draw.largest for draw in rehearsed)}"
        expected = f"{simulated.format('labels', 'an accuracy')} (without privacy {possible}; {largest})"
    if learned(rehearsed):
        return expected
    if rehearsed[0].largest is None:
        return (
            f"{expected}; the student is not expected to learn anything: ε is too small, or private units are too few"
        )
    why = "ε is too small, private units are too few, or a class is too rare"
    return f"{expected}; the student is not expected to beat the baseline: {why}"


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """What to expect of a plan, by public figures alone.

    rehearsed  what was learned from synthetic labels, draw by draw, by strength of signal; of a stream, after the last
               release of a season
    classes    what to expect of each class, with the shares that are publicly known; none for a number
    feasible   whether the student is expected to beat the majority-class baseline, or a mean, with any signal
    reason     all of this in words
    """

    rehearsed: tuple[Rehearsed, ...]
    classes: tuple[ClassAhead, ...]
    feasible: bool
    reason: str

    @classmethod
    def of(
        cls, names: Sequence[str], rehearsed: Sequence[Rehearsed], rows: str = "the public rows", more: str = ""
    ) -> "Ahead":
        """What to expect of a student that was rehearsed on these rows.

        names   of the classes
        more    what else its reason says
        """
        classes = expect_classes(names, rehearsed)
        reason = f"{rehearsed_in_words(rehearsed, rows)}{missed_in_words(classes)}{more}"
        return Ahead(rehearsed=tuple(rehearsed), classes=classes, feasible=learned(rehearsed), reason=reason)


SIGNALS = {"weak": 1.0, "typical": 3.0, "strong": 30.0}
"""Standard deviation of a row's logit, by strength of signal. A strong one follows the directions in which public rows
differ most, and if there are more than two classes their clusters, as labels do that are nearly certain; others follow
weights at random."""
FADING, ROUGH = 1 / 4, 1 / 10
"""Neighbouring intervals of a number are alike: the share of its intervals over which likeness fades, and the part of
a weight's variance that is an interval's own."""
DIRECTIONS = 5
"""Choices of the directions that a strong signal follows, each either way."""
CLOSE = 1e-4
"""Error of synthetic shares of the classes, in logarithms, that counts as none."""
LEAST_SPREAD = 1e-3
"""Least spread of rows along a direction, as a share of the widest: single precision tells them apart."""
RARER = 3.0
"""Factor by which each class is rarer than the one before, in every other draw, if their shares are not known."""


def typical_truth(codes: Codes, rows: CodeMatrix, shares: Sequence[float], rng: np.random.Generator) -> Floats:
    """Probabilities (m, C) of synthetic labels with those shares of the classes, of a typical strength of signal."""
    return with_shares(
        SIGNALS["typical"] * random_logits(codes, rows, len(shares), rng), np.asarray(shares, np.float64)
    )


def random_logits(codes: Codes, rows: CodeMatrix, classes: int, rng: np.random.Generator) -> Floats:
    """Logits (m, C) of deviation 1: sums of random weights of a row's codes, a few fields weighing most."""
    logits = columns(classes, "labels")
    total = np.zeros((len(rows), logits))
    for at, amount in zip(codes.fine, rng.exponential(size=len(codes.fine)), strict=True):
        field, smooth = codes.fields[at], None
        weights: Floats = rng.normal(size=(field.size, logits))
        if isinstance(field, NumberField):
            gaps = np.abs(np.subtract.outer(np.arange(field.size), np.arange(field.size)))
            smooth = (1 - ROUGH) * np.exp(-gaps / (FADING * field.size)) + ROUGH * np.eye(field.size)
        elif isinstance(field, VectorField):
            smooth = correlations(field)
        if smooth is not None:  # of words, weights are independent
            weights = np.linalg.cholesky(smooth) @ weights
        part = weights[rows[:, at] - field.start]
        total += amount * (part - part.mean(axis=0))
    return _logits(total)


def assumed_shares(classes: int, draw: int) -> Floats:
    """Made-up shares of the classes: equal ones, or in every other draw uneven ones."""
    weights: Floats = RARER ** -(draw % 2 * np.arange(classes, dtype=np.float64))
    return weights / np.sum(weights)


def principal_components(codes: Codes, rows: CodeMatrix, classes: int) -> Floats:
    """Coordinates of rows (m, k), from their codes, along the directions in which they differ most; all 0 if none
    differ."""
    distinct, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(distinct) == 1:
        return np.zeros((len(rows), 1))
    places = list[NDArray[np.float32]]()
    for at in codes.fine:  # 1 at the code of a row; of a vector the centre of its cell
        field, cells_of_field = codes.fields[at], rows[:, at].astype(np.int64) - codes.fields[at].start
        if isinstance(field, VectorField):
            centres = field.points - field.points.mean(axis=0)
            places.append(np.asarray(np.vstack([centres, np.zeros(centres.shape[1])])[cells_of_field], np.float32))
        else:
            places.append(np.asarray(cells_of_field[:, None] == np.arange(field.size), np.float32))
    cells = np.hstack(places)
    most = min(DIRECTIONS if classes == 2 else 2 * classes, *cells.shape)
    along: Floats = PCA(most, svd_solver="randomized", random_state=0).fit_transform(cells)
    return np.asarray(along[first][place])  # rounded alike in rows that are alike


def separated(leading: Floats, logits: Floats, shares: Floats) -> list[Floats]:
    """Logits (m, C): `logits`, plus a multiple of how far rows lie apart along `leading`. Only `logits` if all rows
    are alike.

    With two classes the signal is the position along a direction in which rows differ most; with more it is the
    distance to the centres of clusters, and the largest cluster gets the class with the largest share.
    """
    classes = len(shares)
    if classes > 2:
        clusters = KMeans(min(classes, len(np.unique(leading, axis=0))), random_state=0).fit(leading)
        centres = clusters.cluster_centers_[np.argsort(-np.bincount(clusters.labels_), kind="stable")]
        near = leading @ centres.T - (centres**2).sum(axis=1) / 2
        logits[:, np.argsort(-shares, kind="stable")[: len(centres)]] += near / max(
            near.std(axis=0).mean(), LEAST_SPREAD
        )
        return [logits]
    # several directions, since rows in two clumps cannot be of every share along one that tells the clumps apart
    spread = leading.std(axis=0)
    real = spread > LEAST_SPREAD * max(spread[0], LEAST_SPREAD)  # beyond them is the rounding of this machine
    scaled = leading[:, real] / spread[real]
    signed = scaled.T * np.where((scaled**3).sum(axis=0) < 0, -1, 1)[:, None]  # the way is by chance as well
    ways = product(signed, (1, -1))
    return [_logits(logits[:, 1:] + sign * direction[:, None]) for direction, sign in ways] or [logits]


def clearest(tried: Iterator[Floats]) -> Floats:
    """The first probabilities (m, C) if their likeliest classes are right on as many rows as lie halfway from the
    largest class to all; otherwise those that are right on most."""
    first = next(tried)
    if _possible(first) >= (1 + float(first.mean(axis=0).max())) / 2:
        return first
    return max([first, *tried], key=_possible)


def _possible(truth: Floats) -> float:
    return float(truth.max(axis=1).mean())


def _logits(total: Floats) -> Floats:
    scaled = total / np.maximum(total.std(axis=0), 1e-9)
    return np.column_stack([np.zeros(len(scaled)), scaled]) if scaled.shape[1] == 1 else scaled


def with_shares(logits: Floats, shares: Floats) -> Floats:
    """Probabilities of these logits, shifted by class until their means are the shares, nearly."""
    shift = np.log(shares)
    for _ in range(500):  # of rows in clumps, which a shift moves past one another, it takes hundreds
        odds: Floats = softmax(logits + shift, axis=1)
        missed = np.log(shares) - np.log(odds.mean(axis=0))
        if np.abs(missed).max() < CLOSE:
            break
        shift += missed
    return odds

"""Synthetic labels: probabilities of labels of public rows, for a rehearsal.

Labels follow additive models of the codes. With a strong signal they are nearly certain, and follow distances between
public rows.

Assumes      rows and codes are public
Guarantees   nothing private is read; the same for the same generator
Not covered  labels that no additive model of the columns describes. Checked by tests/tasks/advice/test_rehearse.py
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from concord.tasks.data.codes import CodeMatrix, Codes, NumberField
from concord.tasks.data.vectors import VectorField
from concord.tasks.mechanisms.contributions import columns
from concord.tasks.mechanisms.distance import Floats
from concord.tasks.student.prior import correlations

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
            apart = np.abs(np.subtract.outer(np.arange(field.size), np.arange(field.size)))
            smooth = (1 - ROUGH) * np.exp(-apart / (FADING * field.size)) + ROUGH * np.eye(field.size)
        elif isinstance(field, VectorField):
            smooth = correlations(field)
        if smooth is not None:  # of words, weights are independent
            weights = np.linalg.cholesky(smooth) @ weights
        part = weights[rows[:, at] - field.start]
        total += amount * (part - part.mean(axis=0))
    return _logits(total)


def assumed_shares(classes: int, draw: int) -> Floats:
    """Made-up shares of the classes: equal ones, or in every other draw uneven ones."""
    found: Floats = RARER ** -(draw % 2 * np.arange(classes, dtype=np.float64))
    return found / np.sum(found)


def shares_of_clusters(logits: Floats) -> Floats:
    """The shares that the classes of these logits have by themselves, none of them 0."""
    found: Floats = softmax(logits, axis=1).mean(axis=0) + 1 / len(logits)
    return found / np.sum(found)


def principal_components(codes: Codes, rows: CodeMatrix, classes: int) -> Floats:
    """Coordinates of rows (m, k), from their codes, along the directions in which they differ most; all 0 if none
    differ."""
    distinct, first, each = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(distinct) == 1:
        return np.zeros((len(rows), 1))
    places = list[NDArray[np.float32]]()
    for at in codes.fine:  # 1 at the code of a row; of a vector the centre of its cell
        field, own = codes.fields[at], rows[:, at].astype(np.int64) - codes.fields[at].start
        if isinstance(field, VectorField):
            centres = field.points - field.points.mean(axis=0)
            places.append(np.asarray(np.vstack([centres, np.zeros(centres.shape[1])])[own], np.float32))
        else:
            places.append(np.asarray(own[:, None] == np.arange(field.size), np.float32))
    cells = np.hstack(places)
    most = min(DIRECTIONS if classes == 2 else 2 * classes, *cells.shape)
    found: Floats = PCA(most, svd_solver="randomized", random_state=0).fit_transform(cells)
    return np.asarray(found[first][each])  # rounded alike in rows that are alike


def separated(leading: Floats, own: Floats, shares: Floats) -> list[Floats]:
    """Logits (m, C): `own` ones, plus a multiple of how far rows lie apart along `leading`. Only `own` ones if all rows
    are alike.

    With two classes the signal is the position along a direction in which rows differ most; with more it is the
    distance to the centres of clusters, and the largest cluster gets the class with the largest share.
    """
    classes = len(shares)
    if classes > 2:
        clusters = KMeans(min(classes, len(np.unique(leading, axis=0))), random_state=0).fit(leading)
        centres = clusters.cluster_centers_[np.argsort(-np.bincount(clusters.labels_), kind="stable")]
        near = leading @ centres.T - (centres**2).sum(axis=1) / 2
        own[:, np.argsort(-shares, kind="stable")[: len(centres)]] += near / max(near.std(axis=0).mean(), LEAST_SPREAD)
        return [own]
    # several directions, since rows in two clumps cannot be of every share along one that tells the clumps apart
    spread = leading.std(axis=0)
    real = spread > LEAST_SPREAD * max(spread[0], LEAST_SPREAD)  # beyond them is the rounding of this machine
    scaled = leading[:, real] / spread[real]
    signed = scaled.T * np.where((scaled**3).sum(axis=0) < 0, -1, 1)[:, None]  # the way is by chance as well
    ways = product(signed, (1, -1))
    return [_logits(own[:, 1:] + sign * each[:, None]) for each, sign in ways] or [own]


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
        found: Floats = softmax(logits + shift, axis=1)
        missed = np.log(shares) - np.log(found.mean(axis=0))
        if np.abs(missed).max() < CLOSE:
            break
        shift += missed
    return found

"""Prior of the weights that tallies are decoded to, and what sums say under it: posterior, evidence, likelihood.

How large and how smooth a model's weights are, field by field, learned from released sums alone. The weights of
a field are normal with mean zero. Those of a category are independent, of variance τ²; those of a number are alike in
neighbouring intervals: τ²(.9·e^(−|i−j|/¼k) + .1·[i = j]) for k intervals; those of a vector in neighbouring cells:
τ²(.9·e^(−d²/2m²) + .1·[i = j]), d being how far centres lie from each other and m the mean way to the eighth nearest.
If λ is more than 0, a share λ of a number's variance is that of a straight line, τ²·l_i·l_j, l being the middles of its
intervals, of mean 0 and variance 1. τ of each field is found by expectation and maximisation, and λ by the evidence, so
that nothing is tuned. Post-processing: no private row is read here. Checked by tests/tasks/student/test_joint.py: the
evidence never falls, and equals that of the normal distribution; sums of a straight line get λ > 0, of a plateau 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cholesky, solve_triangular

from concord.tasks.data.codes import CodedField, NumberField
from concord.tasks.data.joined import JoinedField
from concord.tasks.data.vectors import VectorField
from concord.tasks.mechanisms.distance import Floats

FIRST_SPREAD = 0.6
SPREADS = (0.02, 3.0)
"""Least and largest τ."""
SMOOTH = 0.9
LENGTH = 0.25
"""Share of a number's intervals over which weights are alike."""
STRAIGHT = (0.5, 0.9, 0.98)
"""What λ may be but 0."""
CLEARER = 3.0
"""Log-evidence that each larger λ must add, a factor of twenty: noise alone may add less than that."""
CELL_NEIGHBOURS = 8
"""Number of neighbouring cells of a vector over which weights are alike."""
EVEN = 1e-13
"""Share of the largest variance of a sum that is added to each, so that rounding makes no covariance singular."""
HASTENED = 4
"""Power of the ratio by which a step changes τ of joined numbers. The few steps of a decoder do not reach the τ of most
evidence: penbased 95.5 became 96.3 (ε = 1). Columns stay as they are: a power for them, too, cost ring .8 points."""
CHUNK = 64
"""Rows of a triangular system that are solved at a time, so that nearly all work is in products of matrices."""
INTERCEPT = 3.0
"""Prior sd of the intercept, which is not learned."""


@dataclass(frozen=True)
class Linear:
    """Sums z that are linear in the weights u (in the prior's basis) up to normal noise.

    z = M u + noise of unit variance, after whitening. Inference needs only
    gram       MᵀM (d, d)
    pull       Mᵀz (d,)
    square     zᵀz
    lower      Cholesky factor (P, P) of the noise's covariance before whitening
    """

    gram: Floats
    pull: Floats
    square: float
    lower: Floats


@dataclass(frozen=True)
class Prior:
    """A normal prior of weights: W = basis · u, where the entries of u that belong to field f have variance spread[f]².

    basis   (d, d) block-diagonal, block f the Cholesky factor of the field's correlations
    owner   (d,) index into `spread` of each entry of u
    spread  sd by field; the last is the intercept's, which is not learned
    unseen    by field, how many parts are left out, since the sums say nothing of them
    straight  λ
    power     by field, the power of the ratio by which a step of expectation and maximisation changes its spread
    """

    basis: Floats
    owner: NDArray[np.int64]
    spread: Floats
    unseen: NDArray[np.int64] | int = 0
    straight: float = 0.0
    power: Floats | int = 1

    @property
    def sd(self) -> Floats:
        """(d,) prior sd of each part of u."""
        sd: Floats = self.spread[self.owner]
        return sd

    @property
    def blocks(self) -> list[Floats]:
        """The block of the basis of each field, and of the intercept."""
        edges = np.searchsorted(self.owner, np.arange(len(self.spread) + 1)).tolist()
        return [self.basis[start:stop, start:stop] for start, stop in pairwise(edges)]


def prior_of(fields: Sequence[CodedField], straight: float = 0.0, onto: Sequence[Floats | None] = ()) -> Prior:
    """The prior of the weights of the fields, in order, and of an intercept; `straight` is λ. For a field with a matrix
    (n, codes) in `onto`, it is the prior of these combinations of the weights."""
    factors = list[Floats]()
    for field, part in zip_longest(fields, onto):
        covariance = correlations(field, straight)
        factors.append(cholesky(covariance if part is None else part @ covariance @ part.T, lower=True))
    owner = np.repeat(np.arange(len(fields) + 1), [*map(len, factors), 1])
    spread = np.array([FIRST_SPREAD] * len(fields) + [INTERCEPT])
    unseen = np.array([*(field.size - len(factor) for field, factor in zip(fields, factors, strict=True)), 0])
    power = np.array([*(HASTENED if isinstance(field, JoinedField) else 1 for field in fields), 1], np.float64)
    return Prior(block_diag(*factors, np.eye(1)), owner, spread, unseen, straight, power)


def straighter(fields: Sequence[CodedField], onto: Sequence[Floats | None] = ()) -> list[Prior]:
    """The priors with λ > 0, if a field is a number of three intervals or more; `onto` as in `prior_of`."""
    some = any(_line(field) is not None for field in fields)
    return [prior_of(fields, share, onto) for share in STRAIGHT] if some else []


def correlations(field: CodedField, straight: float = 0.0) -> Floats:
    """Prior covariance of a field's weights if τ is 1 (codes, codes); that of a missing cell is independent."""
    covariance = np.eye(field.size)
    if isinstance(field, NumberField):
        intervals = field.size - 1
        places = np.arange(intervals)
        gaps = np.abs(places[:, None] - places)
        covariance[:-1, :-1] = SMOOTH * np.exp(-gaps / (LENGTH * intervals)) + (1 - SMOOTH) * np.eye(intervals)
        if (line := _line(field)) is not None:
            covariance[:-1, :-1] = straight * np.outer(line, line) + (1 - straight) * covariance[:-1, :-1]
    elif isinstance(field, VectorField | JoinedField):
        points = field.points.astype(np.float64)
        products = points @ points.T
        squares = np.maximum(0, np.diag(products)[:, None] + np.diag(products) - 2 * products)
        near = np.sort(squares, axis=1)[:, min(CELL_NEIGHBOURS, len(points) - 1)].mean() or 1.0
        alike = SMOOTH * np.exp(-squares / (2 * near)) + (1 - SMOOTH) * np.eye(len(points))
        covariance[: len(points), : len(points)] = alike
    return covariance


def _line(field: CodedField) -> Floats | None:
    """The middles of a number's intervals, the outer ones as wide as their neighbours, with mean 0 and variance 1; None
    for fewer than three intervals and for other fields."""
    if not isinstance(field, NumberField) or len(field.cuts) < 2:
        return None
    cuts = np.array(field.cuts) / np.abs(field.cuts).max()
    cuts = (cuts - cuts[0]) / (cuts[-1] - cuts[0])
    middles = (np.concatenate([[-cuts[1]], cuts]) + np.append(cuts, 2 - cuts[-2])) / 2
    line: Floats = (middles - middles.mean()) / middles.std()
    return line


def posterior(linear: Linear, prior: Prior) -> tuple[Floats, Floats]:
    """Mean (d,) of u given the sums, and the variance (d,) of each part."""
    within = inverted(_factor(linear, prior))
    within *= prior.sd
    return within.T @ (within @ linear.pull), np.einsum("ij,ij->j", within, within)


def mean_of(linear: Linear, prior: Prior) -> Floats:
    """Mean (d,) of u given the sums."""
    lower, sd = _factor(linear, prior), prior.sd
    half = solve_triangular(lower, sd * linear.pull, lower=True, check_finite=False)
    mean: Floats = sd * solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
    return mean


def evidence(linear: Linear, prior: Prior) -> float:
    """Log-likelihood of the sums under the prior, without the constant ½ log 2π per sum."""
    return -0.5 * sum(square_and_determinant(linear, prior))


def square_and_determinant(linear: Linear, prior: Prior) -> tuple[float, float]:
    """zᵀC⁻¹z and log det C, where C (P, P) is the covariance of the sums under the prior."""
    lower = _factor(linear, prior)
    explained = solve_triangular(lower, prior.sd * linear.pull, lower=True, check_finite=False)
    log_determinant = 2 * float(np.log(np.diag(linear.lower)).sum()) + 2 * float(np.log(np.diag(lower)).sum())
    return linear.square - float(explained @ explained), log_determinant


def straightened(linear: Linear, prior: Prior, others: Iterable[Prior], steps: int) -> tuple[Linear, Prior]:
    """The prior, or one of the others, by the evidence of the same sums: the first whose successor adds less than
    CLEARER.

    Each of the others takes over the spreads of the one before, and has `steps` of expectation and maximisation, none
    hastened: what they add to the evidence must be owed to λ.
    """
    best = evidence(linear, prior)
    for other in others:
        turns = [solve_triangular(*pair, lower=True) for pair in zip(prior.blocks, other.blocks, strict=True)]
        gram = by_block(by_block(linear.gram, turns).T, turns)
        turned = replace(linear, gram=gram, pull=by_block(linear.pull, turns))
        straight = replace(other, spread=prior.spread, power=1)
        for _ in range(steps):
            straight = improved(turned, straight)
        if (now := evidence(turned, straight)) < best + CLEARER:
            break
        linear, prior, best = turned, replace(straight, power=other.power), now
    return linear, prior


def by_block(matrix: Floats, blocks: Sequence[Floats]) -> Floats:
    """`matrix` (…, d) times the matrix (d, d) that has these blocks along its diagonal."""
    edges = np.cumsum([0, *map(len, blocks)])
    parts = [matrix[..., start:stop] @ block for (start, stop), block in zip(pairwise(edges), blocks, strict=True)]
    return np.concatenate(parts, axis=-1)


def improved(linear: Linear, prior: Prior) -> Prior:
    """The prior after a step of expectation and maximisation: its evidence is no less, within SPREADS, if no field has
    a power."""
    mean, variance = posterior(linear, prior)
    second = np.bincount(prior.owner, mean**2 + variance, len(prior.spread)) + prior.unseen * prior.spread**2
    spread = np.sqrt(second / (np.bincount(prior.owner, minlength=len(second)) + prior.unseen))
    hastened = prior.spread * (spread / prior.spread) ** prior.power
    spread = np.clip(np.where(np.equal(prior.power, 1), spread, hastened), *SPREADS)
    spread[-1] = prior.spread[-1]
    return replace(prior, spread=spread)


def whitened(jacobian: Floats, target: Floats, covariance: Floats) -> Linear:
    """Sums `target` = jacobian · u + noise of that covariance."""
    lower, both = _factored(covariance, np.vstack([jacobian.T, target]))
    gram = both @ both.T
    return Linear(gram[:-1, :-1], gram[:-1, -1], float(gram[-1, -1]), lower)


def inverted(lower: Floats) -> Floats:
    """The inverse (P, P) of a lower triangular matrix."""
    inverse = np.zeros_like(lower)
    for first in range(0, len(lower), CHUNK):
        rows = slice(first, first + CHUNK)
        inverse[rows, rows] = np.linalg.inv(lower[rows, rows])
        inverse[rows, :first] = -inverse[rows, rows] @ (lower[rows, :first] @ inverse[:first, :first])
    return inverse


def _factored(covariance: Floats, below: Floats) -> tuple[Floats, Floats]:
    """The Cholesky factor L (P, P) of a covariance, and `below` (n, P) · L⁻ᵀ.

    The covariance gets EVEN or, while rounding leaves it no factor, ten times as much more on its diagonal: the sums of
    every field have the same total, up to noise that doubles may lose among many units. Work is in products of
    matrices, in which NumPy lets other threads run and SciPy does not.
    """
    size, even = len(covariance), EVEN * covariance.diagonal().max()
    more = even
    while True:
        whole = np.vstack([covariance, below])
        whole[np.diag_indices(size)] += more
        try:
            for first in range(0, size, CHUNK):
                stop = min(first + CHUNK, size)
                rows = slice(first, stop)
                whole[first:, rows] -= whole[first:, :first] @ whole[rows, :first].T
                whole[rows, rows] = np.linalg.cholesky(whole[rows, rows])
                whole[rows, stop:] = 0
                whole[stop:, rows] = whole[stop:, rows] @ np.linalg.inv(whole[rows, rows]).T
            return whole[:size], whole[size:]
        except np.linalg.LinAlgError:
            if not even < np.abs(covariance).sum():  # with more than that on its diagonal, every matrix has a factor
                raise
            even *= 10
            more += even


def _factor(linear: Linear, prior: Prior) -> Floats:
    """Cholesky factor of 1 + diag(sd)·gram·diag(sd)."""
    sd = prior.sd
    scaled = sd[:, None] * linear.gram
    scaled *= sd
    scaled[np.diag_indices_from(scaled)] += 1
    return _factored(scaled, np.empty((0, len(sd))))[0]

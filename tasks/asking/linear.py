"""Fits of linear teachers: scikit-learn's fit to a shard, by a few small matrices in double precision.

    scores of a row = weights (classes, width + 1) · (the row's numbers, 1)

The vote is the class of the largest score. A fit takes X (rows, width), the index y (rows,) of each row's class among
those that the shard holds, their number (at least two), and the learner's parameters. It raises LinAlgError if there is
no solution; the caller must check that the weights are finite.

Assumes      at least one row of each class
Guarantees   the result of a fit follows from its arguments, to the bit: arrays that BLAS and LAPACK read more than once
             lie in memory that begins at a cache line, in a shape that depends on the shard alone
Not covered  covariances that are singular to rounding: the solution may then be another one than scikit-learn's.
             Checked by tests/tasks/asking/test_linear_teachers.py
"""

import math
from contextlib import suppress
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, lstsq
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

Numbers = NDArray[np.float64]
Rows = NDArray[np.floating[Any]]
Classes = NDArray[np.int64]

CACHE_LINE = 64  # bytes
WELL_CONDITIONED = 1e-10
CONSTANT = 1e-12
"""A standard deviation below this share of the column's largest number is rounding."""


def aligned(*shape: int, dtype: Any = np.float64) -> NDArray[Any]:
    """An array that starts at a cache line, because the grouping of sums may depend on the address."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + CACHE_LINE, dtype=np.uint8)
    start = -room.__array_interface__["data"][0] % CACHE_LINE
    found: NDArray[Any] = room[start : start + size].view(dtype).reshape(shape)
    return found


def rooms(*shapes: tuple[int, ...]) -> list[Numbers]:
    """Several arrays, each of which starts at a cache line."""
    sizes = [math.prod(shape) for shape in shapes]
    ends = list(accumulate(-(-size // 8) * 8 for size in sizes))
    room = aligned(ends[-1])
    return [
        room[end - -(-size // 8) * 8 :][:size].reshape(shape)
        for end, size, shape in zip(ends, sizes, shapes, strict=True)
    ]


def own(rows: Rows) -> Numbers:
    """A copy of rows in double precision."""
    found = aligned(*rows.shape)
    found[...] = rows
    return found


def centred(rows: Numbers) -> Numbers:
    """Subtract the column means from rows, in place."""
    rows -= rows.mean(axis=0)
    return rows


def gram(A: Numbers, out: Numbers | None = None) -> Numbers:
    """The lower triangle of AᵀA (width, width), in Fortran's order, and zeros above it.

    out   an earlier result to overwrite
    """
    if out is None:
        out = aligned(A.shape[1], A.shape[1]).T
        out[...] = 0  # what the memory held before may be another shard's
    found: Numbers = dsyrk(1.0, A.T, beta=0.0, c=out, overwrite_c=1, lower=1)
    return found


def on_diagonal(lower: Numbers) -> Numbers:
    """A writable view of the diagonal of a matrix in Fortran's order."""
    return lower.reshape(-1, order="F")[:: len(lower) + 1]


def factor(lower: Numbers) -> Numbers:
    """Cholesky's factor of a positive definite matrix, in place. Raises LinAlgError."""
    result = dpotrf(lower, lower=1, clean=0, overwrite_a=1)
    found: Numbers = result[0]
    if result[1]:
        raise LinAlgError("the matrix is not positive definite")
    return found


def solved(lower: Numbers, right: Numbers) -> Numbers:
    """S⁻¹ · right (width, outputs) for a positive semidefinite S; of least norm if S is singular to rounding."""
    whole = lower + np.tril(lower, -1).T
    with suppress(LinAlgError):
        found = factor(lower)
        if dpocon(found, np.abs(whole).sum(axis=0).max(), uplo="L")[0] > WELL_CONDITIONED:
            return own(dpotrs(found, right, lower=1)[0])
    return own(lstsq(own(whole), right)[0])


def ridge(X: Rows, y: Classes, classes: int, alpha: float = 1.0, **_: Any) -> Numbers:
    """Least squares to −1 and 1, with an L2 penalty on all but the offset: one problem per class, or one for two."""
    A, targets = own(X), own(np.where(y[:, None] == np.arange(classes), 1.0, -1.0))
    means, mean = own(A.mean(axis=0)), targets.mean(axis=0)
    found = gram(centred(A))
    on_diagonal(found)[...] += alpha
    weights = own(solved(found, A.T @ centred(targets)).T)
    if classes == 2:
        weights[0], mean[0] = 0, 0
    return with_offset(weights, mean - weights @ means)


def discriminant(X: Rows, y: Classes, classes: int, shrinkage: float | str | None = None, **_: Any) -> Numbers:
    """Linear discriminant analysis by least squares (`solver = "lsqr"`): one covariance, the mean of those of the
    classes, each shrunk by itself. Raises LinAlgError unless there are more rows than classes, as scikit-learn does."""
    if len(y) == classes:
        raise LinAlgError("there must be more rows than classes")
    means, spread = aligned(classes, X.shape[1]), aligned(X.shape[1], X.shape[1]).T
    priors = np.bincount(y) / len(y)
    spread[...] = 0
    for at, prior in enumerate(priors):
        rows = own(X[y == at])
        means[at] = rows.mean(axis=0)
        spread += prior * covariance(centred(rows), shrinkage)
    weights = solved(spread, means.T).T
    return with_offset(weights, np.log(priors) - (means * weights).sum(axis=1) / 2)


def covariance(A: Numbers, shrinkage: float | str | None) -> Numbers:
    """The lower triangle of the covariance of centred rows A, shrunk towards the mean variance: by a share; by Ledoit
    and Wolf's estimate ("auto"), of columns of unit variance (doi:10.1016/S0047-259X(03)00096-4); or not at all."""
    if shrinkage != "auto":
        return shrunk(gram(A) / len(A), float(shrinkage or 0))
    scale = np.sqrt((A * A).mean(axis=0))
    scale[scale <= CONSTANT * np.abs(A).max(initial=0.0)] = 1
    A /= scale
    found = gram(A) / len(A)
    lower = np.tril(found, -1)
    trace, squares = found.trace(), 2 * (lower * lower).sum() + (on_diagonal(found) ** 2).sum()
    width, noise = len(found), ((A * A).sum(axis=1) ** 2).sum() / len(A) - squares
    delta = squares - trace * trace / width
    share = min(noise / len(A), delta) / delta if width > 1 and noise > 0 and delta > 0 else 0.0
    found = shrunk(found, share)
    found *= scale[:, None] * scale
    return found


def shrunk(lower: Numbers, share: float) -> Numbers:
    """(1 − share) · S + share · (its mean variance) · I."""
    mean = lower.trace() / len(lower)
    lower *= 1 - share
    on_diagonal(lower)[...] += share * mean
    return lower


def naive_bayes(X: Rows, y: Classes, classes: int, var_smoothing: float = 1e-9, **_: Any) -> Numbers:
    """Gaussian naive Bayes: the log-likelihood of a class is a sum over a row's numbers and their squares."""
    parts = [own(X[y == at]) for at in range(classes)]
    means = np.stack([part.mean(axis=0) for part in parts])
    spread = np.stack([part.var(axis=0) for part in parts]) + var_smoothing * own(X).var(axis=0).max()
    offset = np.log(np.bincount(y) / len(y)) - (np.log(spread) + means**2 / spread).sum(axis=1) / 2
    return with_offset(np.hstack([means / spread, -0.5 / spread]), offset)


def nearest_centroid(X: Rows, y: Classes, classes: int, **_: Any) -> Numbers:
    """The nearest mean: |x − m|² without |x|². Raises LinAlgError if all rows are alike, as scikit-learn does."""
    if (X[0] == X).all():
        raise LinAlgError("rows must differ")
    means = np.stack([own(X[y == at]).mean(axis=0) for at in range(classes)])
    return with_offset(means, -(means * means).sum(axis=1) / 2)


def with_offset(weights: Numbers, offset: Numbers) -> Numbers:
    """Weights (outputs, width) and offsets (outputs,) as one array."""
    return np.hstack([weights, offset[:, None]])

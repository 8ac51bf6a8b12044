"""Logistic regression of many shards of two classes at once, each until it has converged, by conjugate gradients.

    minimise  loss of the rows  +  |weights|² / 2C        the offset is not penalised

The Hessian at zero, AᵀA / 4 + P = L Lᵀ, bounds all others (Böhning and Lindsay 1988, doi:10.1007/BF00049423). With
B = A L⁻ᵀ and weights L⁻ᵀ z, the slope is Bᵀ(shares − y − odds / 4) + z and the Hessian I − Bᵀ(1/4 − V)B lies below I.
So a step as long as the bound allows always descends, and conjugate gradients (Polak and Ribière, restarted) need no
other Hessian. If AᵀA / 4 + P is singular to rounding, L is that of a QR decomposition, which squares nothing.

Assumes      at least one row of each class
Guarantees   a shard's weights do not depend on those fitted with it, to the bit: it is padded with zeros to a number of
             rows that follows from its own number; sums are one call of BLAS per shard, on memory that begins at a
             cache line; all else is added, multiplied and compared element by element; each stops by its own rule
Not covered  running time, which depends on the slowest shard of a stack. Checked by
             tests/tasks/asking/test_linear_teachers.py and tests/privacy/test_linear_alone.py
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.special import expit

from concord.tasks.asking.linear import Classes, Numbers, Rows, aligned, on_diagonal, own
from concord.tasks.asking.logistic import CONVERGED
from concord.tasks.data.guard import PRIVATE_FAILURES

MOST_GRADIENTS = 200
"""Most gradients of a shard; one that takes more is left to Newton's method."""
OVERSHOT = 0.5
"""If the slope along a step ends above this share of its start, upwards, the step is taken by the bound instead."""
SINGULAR = 1e-10
"""If a pivot is below this share of the Hessian's diagonal, the factor is computed by QR, without squaring."""
FACTORED = 1 << 20
"""Bytes of rows of shards whose Hessians are computed and factored at once: other threads run in between."""
LEAST_CURVATURE = 1e-14
"""Least curvature, as a share of the bound, which stands for one that cancels to zero."""
STACKED = 1 << 22
"""Bytes of the matrices B of shards that step at once: they are read twice per step, from a cache."""


def logistic_of_many(shards: Iterable[tuple[Rows, Classes]], C: float = 1.0, **_: Any) -> list[Numbers | None]:
    """Logistic regression of many shards of two classes, X (rows, width) and y (rows,) in 0 and 1, with an L2 penalty:
    the weights (2, width + 1) of each, or None if it is left to `logistic`."""
    given = list(shards)
    found: list[Numbers | None] = [None] * len(given)
    for places in _of_one_size(given):
        with np.errstate(all="ignore"):
            B, roots, target = coordinates([given[place] for place in places], C)
            points = least_points(B, target)
        for place, root, z in zip(places, roots, points, strict=True):
            if z is not None:
                found[place] = weights = np.zeros((2, len(z)))
                np.matmul(z, root, out=weights[1])
    return found


def rows_given(rows: int) -> int:
    """The number of rows to which a shard of `rows` rows is padded, so that many shards have the same."""
    unit = max(8, 1 << max(0, rows.bit_length() - 3))
    return -(-rows // unit) * unit


def _of_one_size(shards: Sequence[tuple[Rows, Classes]]) -> Iterator[list[int]]:
    """Indices of shards of one padded size, in groups of at most STACKED bytes."""
    places: dict[int, list[int]] = {}
    for place, (X, _) in enumerate(shards):
        places.setdefault(rows_given(len(X)), []).append(place)
    for rows, same in places.items():
        most = max(1, STACKED // (8 * rows * (shards[same[0]][0].shape[1] + 1)))
        yield from (same[first : first + most] for first in range(0, len(same), most))


def coordinates(shards: Sequence[tuple[Rows, Classes]], C: float) -> tuple[Numbers, Numbers, Numbers]:
    """For shards of one size, in the coordinates in which the Hessian at zero is the identity: B (shards, rows, n), L⁻¹
    (shards, n, n), and the classes minus a half (shards, rows). NaN for a shard that has no such coordinates."""
    count, rows, n = len(shards), rows_given(len(shards[0][0])), shards[0][0].shape[1] + 1
    B, roots, target = aligned(count, rows, n), _squares(count, n), _zeros(count, rows)
    most, penalty = max(1, FACTORED // (8 * rows * n)), np.append(np.full(n - 1, 1 / C), 0.0)
    room, squares = aligned(min(most, count), rows, n), _squares(min(most, count), n)
    for first in range(0, count, most):
        part = slice(first, min(first + most, count))
        A, hessians = room[: part.stop - first], squares[: part.stop - first]
        for mine, wanted, (X, y) in zip(A, target[part], shards[part], strict=True):
            mine[: len(X), :-1], mine[: len(X), -1], mine[len(X) :] = X, 1, 0
            np.subtract(y, 0.5, out=wanted[: len(X)])
        singular = inverse_roots(A, penalty, hessians)
        roots[part] = hessians.transpose(0, 2, 1)
        np.matmul(A, roots[part].transpose(0, 2, 1), out=B[part])
        for at in singular:
            B[first + at], roots[first + at] = _by_rows(A[at], penalty)
    return B, roots, target


def inverse_roots(A: Numbers, penalty: Numbers, out: Numbers) -> list[int]:
    """Write L⁻ᵀ of each shard's A to `out`, by Cholesky's factor; return the shards whose Hessian is singular."""
    np.matmul(A.transpose(0, 2, 1), A, out=out)
    out *= 0.25
    diagonals = out.diagonal(axis1=1, axis2=2) + penalty
    least = np.sqrt(SINGULAR * diagonals)
    singular = []
    for at, hessian in enumerate(out):
        on_diagonal(hessian.T)[...] = diagonals[at]
        root, failed = dpotrf(hessian.T, lower=1, overwrite_a=1)
        if failed or not (on_diagonal(root) > least[at]).all():
            singular.append(at)
        else:
            dtrtri(root, lower=1, overwrite_c=1)
    return singular


def _by_rows(A: Numbers, penalty: Numbers) -> tuple[Numbers, Numbers]:
    """B and L⁻¹ of one shard, by a decomposition of its rows; B is NaN if that fails."""
    rows, n = A.shape
    both = aligned(n, rows + n).T
    np.divide(A, 2, out=both[:rows])
    both[rows:] = np.diag(np.sqrt(penalty))
    try:
        Q, R = qr(both, overwrite_a=True, mode="economic", check_finite=False)
        found, failed = dtrtri(own(R.T).T, overwrite_c=1)
    except MemoryError:
        raise  # the machine's fault, not the shard's
    except PRIVATE_FAILURES:
        failed = True
    return (np.full_like(A, np.nan), np.zeros((n, n))) if failed else (2 * Q[:rows], found.T)


def least_points(B: Numbers, target: Numbers) -> list[Numbers | None]:
    """The minimum (n,) of each shard by conjugate gradients from zero, or None if it takes too many steps.

    B (shards, rows, n), target (shards, rows). A shard that has converged stays in the stack, without effect, until
    three in four have.
    """
    found: list[Numbers | None] = [None] * len(B)
    shards, rows, n = B.shape
    wide = _of_lines(n)
    going, ended, flattest = np.arange(shards), np.zeros(shards, dtype=bool), np.ones((shards, 1))
    odds, half, change, left = (_zeros(shards, rows) for _ in range(4))
    z, slope, along, last = (_zeros(shards, wide) for _ in range(4))

    def look() -> None:
        """Update the shares minus a half, and the slope, at these odds."""
        expit(odds, out=half)
        np.subtract(half, 0.5, out=half)
        np.subtract(half, target, out=left)
        np.subtract(left, odds / 4, out=left)
        np.matmul(left[:, None, :], B, out=slope[:, None, :n])
        np.add(slope, z, out=slope)

    def move(by: Numbers) -> None:
        np.add(z, by * along, out=z)
        np.add(odds, by * change, out=odds)
        look()

    look()
    np.negative(slope, out=along)
    for _ in range(MOST_GRADIENTS):
        squared = _dot(slope, slope)
        done = (np.sqrt(squared) <= CONVERGED * flattest * np.sqrt(_dot(z, z)))[:, 0]
        for at in np.flatnonzero(done & ~ended):
            found[going[at]] = own(z[at, :n])
        ended |= done | ~np.isfinite(squared[:, 0])
        if ended.all():
            break
        if 4 * np.count_nonzero(ended) >= 3 * len(ended):
            on = np.flatnonzero(~ended)
            going, ended, flattest, squared = going[on], ended[on], flattest[on], squared[on]
            B, target, odds, half, change, left = (_picked(part, on) for part in (B, target, odds, half, change, left))
            z, slope, along, last = (_picked(part, on) for part in (z, slope, along, last))
        np.matmul(B, along[:, :n, None], out=change[:, :, None])
        length, falls = _dot(along, along), -_dot(slope, along)
        np.multiply(half, change, out=left)
        curve = np.maximum(length - _dot(left, left), LEAST_CURVATURE * length)
        step, short = falls / curve, falls / length
        last[...] = slope
        move(step)
        if (over := _dot(slope, along) > OVERSHOT * falls).any():
            move(np.where(over, short - step, 0.0))
        flattest = np.minimum(flattest, curve / length)
        np.subtract(slope, last, out=last)
        turn = np.maximum(_dot(slope, last) / squared, 0.0)
        np.subtract(turn * along, slope, out=along)
        if (rises := _dot(along, slope) >= 0).any():
            np.copyto(along, -slope, where=rises)
    return found


def _of_lines(numbers: int) -> int:
    """`numbers` rounded up to whole cache lines."""
    return -(-numbers // 8) * 8


def _squares(count: int, n: int) -> Numbers:
    """Square matrices (count, n, n), each from the start of a cache line."""
    return aligned(count, _of_lines(n * n))[:, : n * n].reshape(count, n, n)


def _zeros(*shape: int) -> Numbers:
    found = aligned(*shape)
    found[...] = 0
    return found


def _picked(stack: Numbers, on: NDArray[np.int64]) -> Numbers:
    """The elements `on` of a stack, in memory of their own."""
    found = aligned(len(on), *stack.shape[1:])
    np.take(stack, on, axis=0, out=found)
    return found


def _dot(a: Numbers, b: Numbers) -> Numbers:
    """The dot product of each pair of vectors, (shards, 1)."""
    found: Numbers = np.vecdot(a, b)[:, None]
    return found

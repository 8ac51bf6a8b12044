"""Logistic regression of one shard by Newton's method, until it has converged.

    minimise  loss of the rows  +  |weights|² / 2C        the offsets are not penalised

The optimum is scikit-learn's for an L2 penalty. A Hessian of a few dozen unknowns costs less than the Python between
two of scikit-learn's first-order steps; each shard stops by its own rule. Used for shards with more than two classes,
for those that `tasks.asking.gradients` leaves out, and for all shards of a session that began with it. Checked by
tests/tasks/asking/test_linear_teachers.py
"""

import math
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrs
from scipy.special import expit

from concord.tasks.asking.linear import Classes, Numbers, Rows, aligned, factor, gram, on_diagonal, rooms

MOST_STEPS = 100
SHORTEST = 2.0**-26
"""Least share of a step that is tried: if no longer one descends, only rounding is left."""
CONVERGED = 1e-6
"""A fit ends when the coefficients would change by about this share."""
SLOWED = 0.1
"""A new Hessian is computed if a step is larger than this share of the last one."""


class Binomial:
    """Logistic loss of two classes plus half the squared weights (not the offset) divided by C, with the derivatives
    that Newton's method needs. A (rows, width + 1) has a column of ones.
    """

    def __init__(self, A: Numbers, y: Classes, classes: int, C: float) -> None:  # noqa: ARG002, as for more classes
        rows, n = A.shape
        own = rooms((n,), (n,), (n,), (n, n), (rows,), (rows,), (rows,), (rows,), (rows,), (rows, n))
        self.at, self.slope, self.penalty, self.curved, self.odds, self.share, self.left = own[:7]
        self.signs, self.ones, self.scaled = own[7:]
        self.A, self.y, self.curved = A, y, self.curved.T
        self.penalty[:-1], self.penalty[-1], self.curved[...] = 1 / C, 0, 0
        self.signs[...], self.ones[...] = 1 - 2 * y, 1

    def value(self, at: Numbers) -> float:
        """The loss at `at`; `gradient` and `hessian` are then those at `at`."""
        self.at[...] = at
        np.matmul(self.A, self.at, out=self.odds)
        np.multiply(self.signs, self.odds, out=self.left)
        np.logaddexp(0, self.left, out=self.left)
        return float(self.ones @ self.left + self.penalty @ (self.at * self.at) / 2)

    def gradient(self) -> Numbers:
        expit(self.odds, out=self.share)
        np.subtract(self.share, self.y, out=self.left)
        np.matmul(self.left, self.A, out=self.slope)
        self.slope += self.penalty * self.at
        return self.slope

    def hessian(self) -> Numbers:
        np.subtract(1, self.share, out=self.left)
        self.left *= self.share
        np.sqrt(self.left, out=self.left)
        np.multiply(self.A, self.left[:, None], out=self.scaled)
        found = gram(self.scaled, self.curved)
        on_diagonal(found)[...] += self.penalty
        return found

    def weights(self) -> Numbers:
        return np.stack([np.zeros_like(self.at), self.at])


class Multinomial:
    """The same for three or more classes: cross entropy of shares exp(odds), normalised. Offsets are pinned to a sum of
    zero, which changes no share."""

    def __init__(self, A: Numbers, y: Classes, classes: int, C: float) -> None:
        (rows, wide), unknowns = A.shape, A.shape[1] * classes
        self.A, self.own, self.shape = A, np.arange(rows) * classes + y, (classes, wide)
        self.at, self.slope, self.odds = aligned(unknowns), aligned(unknowns), aligned(rows, classes)
        self.share, self.left, self.scaled = aligned(rows, classes), aligned(rows, classes), aligned(rows, unknowns)
        self.penalty = np.tile(np.append(np.full(wide - 1, 1 / C), 0.0), classes)

    def value(self, at: Numbers) -> float:
        self.at[...] = at
        np.matmul(self.A, self.at.reshape(self.shape).T, out=self.odds)
        self.odds -= self.odds.max(axis=1, keepdims=True)
        np.exp(self.odds, out=self.share)
        norms = self.share.sum(axis=1)
        loss = (np.log(norms) - self.odds.reshape(-1)[self.own]).sum()
        self.share /= norms[:, None]
        return float(loss + self.penalty @ (self.at * self.at) / 2 + self._offsets.sum() ** 2 / 2)

    @property
    def _offsets(self) -> Numbers:
        return self.at.reshape(self.shape)[:, -1]

    def gradient(self) -> Numbers:
        self.left[...] = self.share
        self.left.reshape(-1)[self.own] -= 1
        np.matmul(self.left.T, self.A, out=self.slope.reshape(self.shape))
        self.slope += self.penalty * self.at
        self.slope.reshape(self.shape)[:, -1] += self._offsets.sum()
        return self.slope

    def hessian(self) -> Numbers:
        classes, wide = self.shape
        np.multiply(self.share[:, :, None], self.A[:, None, :], out=self.scaled.reshape(-1, classes, wide))
        found = gram(self.scaled)
        found *= -1
        found[wide - 1 :: wide, wide - 1 :: wide] += 1
        on_diagonal(found)[...] += self.penalty
        own = aligned(*self.A.shape)
        for at in range(classes):
            np.multiply(self.A, np.sqrt(self.share[:, at])[:, None], out=own)
            part = slice(at * wide, (at + 1) * wide)
            found[part, part] += gram(own)
        return found

    def weights(self) -> Numbers:
        return self.at.reshape(self.shape)


def newton(loss: Binomial | Multinomial) -> Numbers:
    """The weights of least loss, which is convex, by Newton's steps from zero, halved until they descend. A Hessian is
    reused as long as steps shrink fast (SLOWED)."""
    step, last, shrinks = aligned(len(loss.at)), 0.0, 1.0
    at = np.zeros_like(step)
    value = loss.value(at)
    for _ in range(MOST_STEPS):
        slope = loss.gradient()
        if shrinks > SLOWED:
            factored = factor(loss.hessian())
        step[...] = slope
        step = dpotrs(factored, step, lower=1, overwrite_b=1)[0]
        falls, share = slope @ step, 1.0
        while not (found := loss.value(at - share * step)) <= value - 1e-4 * share * falls:
            share /= 2
            if share < SHORTEST:  # all that is left is rounding
                loss.value(at)
                return loss.weights()
        at, value, size = loss.at.copy(), found, math.sqrt(step @ step)
        shrinks, last = size / last if last and share == 1 else 1.0, size * share
        if last * min(shrinks, 1.0) <= CONVERGED * math.sqrt(loss.at @ loss.at):
            break
    return loss.weights()


def logistic(X: Rows, y: Classes, classes: int, C: float = 1.0, **_: Any) -> Numbers:
    """Logistic regression with an L2 penalty: for two classes by the odds of the second, otherwise by those of each."""
    return newton((Binomial if classes == 2 else Multinomial)(with_ones(X), y, classes, C))


def with_ones(X: Rows) -> Numbers:
    """X (rows, width) and a column of ones, in double precision and memory of its own."""
    A = aligned(len(X), X.shape[1] + 1)
    A[:, :-1], A[:, -1] = X, 1
    return A

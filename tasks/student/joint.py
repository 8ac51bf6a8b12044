"""Joint decoding: one column of weights from the noisy sums of several rounds, by Gauss–Newton steps.

Round r released G_r = Σ x(y − q_r) + noise over private rows, x being the one-hot row of its codes and q_r public.
Public rows of weight w = n̂/m stand for the private ones: with p = 1/(1 + e^−logit) and logit = Z·W,
    A_r(W)  = X_rᵀ w(p − q_r)                                           what G_r should be
    J_r     = X_rᵀ diag(w·p(1 − p)) Z                                   how that moves with W
    V_rs    = X_rᵀ diag(w·p(1 − p) + κw²(p − q_r)(p − q_s)) X_s + [r = s] σ_r²
The first part of V is the labels' own variance, which rounds share; the second that of drawing public rows. Totals of
codes are a round of their own, Σ x + noise: a row adds 1 for p − q, and its label nothing. They say how the public rows
happen to differ from the private ones, on which sums hang where q is far from p, as ½ is for a rare class. A step goes
to the posterior mean of W given z = G − A(W) + J·W under the prior of tasks.student.prior, which learns its spreads and
κ from the same sums.

Assumes      released sums and public rows: post-processing, in floats, repeated at will
Guarantees   a function of its arguments; nothing here draws
Checked by tests/tasks/student/test_joint.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit

from concord.tasks.mechanisms.distance import Floats
from concord.tasks.student.prior import Linear, Prior, evidence, improved, posterior, whitened

Places = NDArray[np.int64]

STEP_LENGTHS = (1.0, 1.0, 0.8, 0.8, 0.8, 0.8, 0.8)
"""Share of the way to the posterior mean that each Gauss–Newton step goes."""
KAPPAS = (1.0, 4.0, 16.0, 64.0, 256.0)
SETTLED = 3
"""Step after which κ stays."""
HALVINGS = 8
"""How often a step is halved at most."""
MAXIMISATIONS = 3
"""Steps of expectation and maximisation in each Gauss–Newton step."""


@dataclass(frozen=True)
class MeasuredColumn:
    """What one round says of one column of weights.

    places  (m, F_r) which sum each code of a public row adds to
    guess   (m,) q, the probability that the round subtracted; None: it counted rows, whatever their labels
    sums    (P_r,) released, in rows
    noise   sd of the noise in every sum
    """

    places: Places
    guess: Floats | None
    sums: Floats
    noise: float

    def added(self, p: Floats) -> Floats:
        """What a public row is expected to add (m,), if p is its probability."""
        return np.ones_like(p) if self.guess is None else p - self.guess


@dataclass(frozen=True)
class DecodedColumn:
    """A decoded column of weights: `weights` (d,), the last the intercept; its prior, κ, and the evidence for both."""

    weights: Floats
    prior: Prior
    kappa: float
    evidence: float


def decode_column(
    rounds: Sequence[MeasuredColumn], codes: Places, prior: Prior, units: float, kappas: Sequence[float] = KAPPAS
) -> DecodedColumn:
    """Decode all rounds together. `codes` (m, F + 1) are the weights a public row adds up, the intercept's last."""
    weights = np.zeros(len(prior.owner))
    for at, step in enumerate(STEP_LENGTHS):
        parts = linearised(rounds, codes, weights, units)
        linear, kappa = _likeliest(parts, prior, kappas)
        if at >= SETTLED:
            kappas = (kappa,)
        for _ in range(MAXIMISATIONS):
            prior = improved(linear, prior)
        mean, _ = posterior(linear, prior)
        weights = _nearer(rounds, codes, weights, step * (prior.basis @ mean - weights), units, linear, prior)
    return DecodedColumn(weights, prior, kappa, evidence(linear, prior))


def _nearer(
    rounds: Sequence[MeasuredColumn],
    codes: Places,
    weights: Floats,
    move: Floats,
    units: float,
    linear: Linear,
    prior: Prior,
) -> Floats:
    """The weights after as much of the move, halved if need be, as brings them nearer to the sums and the prior.

    A whole step may lead far away if public rows contradict the sums, and the next one further.
    """

    def misfit(at: Floats) -> float:
        off = np.concatenate([measured.sums for measured in rounds]) - expected_sums(rounds, codes, at, units)
        parts = solve_triangular(linear.lower, off, lower=True)
        away = solve_triangular(prior.basis, at, lower=True) / prior.sd
        return float(parts @ parts + away @ away)

    here = misfit(weights)
    for halved in range(HALVINGS):
        if misfit(moved := weights + move / 2**halved) <= here:
            return np.asarray(moved, dtype=np.float64)
    return weights


@dataclass(frozen=True)
class Linearised:
    """Sums at some weights: `target` (P,) = jacobian (P, d) · weights + noise of covariance labels + κ·rows + noise."""

    jacobian: Floats
    target: Floats
    labels: Floats
    rows: Floats
    noise: Floats


def expected_sums(rounds: Sequence[MeasuredColumn], codes: Places, weights: Floats, units: float) -> Floats:
    """A(W) (P,): what the sums of all rounds should be."""
    p = expit(weights[codes].sum(axis=1))
    share = units / len(codes)
    return np.concatenate(
        [
            np.bincount(
                measured.places.ravel(),
                np.repeat(share * measured.added(p), measured.places.shape[1]),
                minlength=len(measured.sums),
            )
            for measured in rounds
        ]
    )


def _likeliest(parts: Linearised, prior: Prior, kappas: Sequence[float]) -> tuple[Linear, float]:
    """The linearised sums, under the κ that makes them likeliest."""
    jacobian = parts.jacobian @ prior.basis
    linears = [whitened(jacobian, parts.target, parts.labels + kappa * parts.rows + parts.noise) for kappa in kappas]
    best = int(np.argmax([evidence(linear, prior) for linear in linears])) if len(kappas) > 1 else 0
    return linears[best], kappas[best]


def linearised(rounds: Sequence[MeasuredColumn], codes: Places, weights: Floats, units: float) -> Linearised:
    """J, z and the three parts of V, for all rounds one below another."""
    sizes = [len(measured.sums) for measured in rounds]
    starts = np.cumsum([0, *sizes])
    places = np.column_stack([measured.places + start for measured, start in zip(rounds, starts, strict=False)])
    width = [measured.places.shape[1] for measured in rounds]
    share = units / len(codes)
    p = expit(weights[codes].sum(axis=1))
    slope = share * p * (1 - p)
    off = share * np.repeat(np.column_stack([measured.added(p) for measured in rounds]), width, axis=1)
    total = int(starts[-1])
    asking_labels = places[:, np.repeat([measured.guess is not None for measured in rounds], width)]
    every = np.repeat(np.sqrt(slope)[:, None], asking_labels.shape[1], axis=1)
    jacobian = cross_products(asking_labels, codes, slope, (total, len(weights)))
    released = np.concatenate([measured.sums for measured in rounds])
    return Linearised(
        jacobian=jacobian,
        target=released - expected_sums(rounds, codes, weights, units) + jacobian @ weights,
        labels=gram_matrix(asking_labels, every, total),
        rows=gram_matrix(places, off, total),
        noise=np.diag(np.repeat([measured.noise**2 for measured in rounds], sizes)),
    )


def cross_products(left: Places, right: Places, weight: Floats, shape: tuple[int, int]) -> Floats:
    """Lᵀ·diag(weight)·R of the matrices whose row i has ones at left[i] and at right[i]."""
    found = np.zeros(shape)
    for column in left.T:
        _add_crossed(found, column, right, np.broadcast_to(weight[:, None], right.shape))
    return found


def gram_matrix(places: Places, weight: Floats, size: int) -> Floats:
    """LᵀL of the matrix (m, size) whose row i has weight[i, a] at places[i, a]; half of it is computed."""
    found = np.zeros((size, size))
    for at, column in enumerate(places.T):
        half = np.where(np.arange(at, places.shape[1]) == at, 0.5, 1.0)
        _add_crossed(found, column, places[:, at:], weight[:, at, None] * weight[:, at:] * half)
    return found + found.T


def _add_crossed(found: Floats, column: Places, right: Places, weight: Floats) -> None:
    """Add weight[i, b] at (column[i], right[i, b])."""
    first, last = int(column.min()), int(column.max()) + 1
    flat = (column - first)[:, None] * found.shape[1] + right
    sums = np.bincount(flat.ravel(), weight.ravel(), minlength=(last - first) * found.shape[1])
    found[first:last] += sums.reshape(-1, found.shape[1])

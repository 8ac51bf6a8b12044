"""Joint decoding: one column of weights from the noisy sums of several rounds, by Gauss–Newton steps.

Round r released G_r = Σ x(y − q_r) + noise over private rows, x being the one-hot row of its codes and q_r public.
Public rows of weight w = n̂/m stand for the private ones: with p = 1/(1 + e^−logit) and logit = Z·W,
    A_r(W)  = X_rᵀ w(p − q_r)                                           what G_r should be
    J_r     = X_rᵀ diag(w·p(1 − p)) Z                                   how that moves with W
    V_rs    = X_rᵀ diag(w·p(1 − p) + κw²(p − q_r)(p − q_s)) X_s + [r = s] σ_r²
The first part of V is the variance of the labels, which rounds share; the second that of drawing public rows. Totals of
codes are a round of their own, Σ x + noise: a row adds 1 instead of p − q, and its label has no variance. They measure
the difference between public and private rows, which sums depend on if q is far from p, as ½ is for a rare class. A
step goes to the posterior mean of W given z = G − A(W) + J·W under the prior of tasks.student.prior, which learns its
spreads and κ from the same sums.

Assumes      released sums and public rows: post-processing, in floats, repeated at will
Guarantees   a function of its arguments; nothing here draws
Checked by tests/tasks/student/test_joint.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

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
"""Most halvings of a step."""
MAXIMISATIONS = 3
"""Steps of expectation and maximisation in each Gauss–Newton step."""


@dataclass(frozen=True)
class MeasuredColumn:
    """The sums of one round for one column of weights.

    places  (m, F_r) index of the sum that each code of a public row adds to
    guess   (m,) q, the probability that the round subtracted; None: it counted rows, whatever their labels
    sums    (P_r,) released, in rows
    noise   sd of the noise in every sum
    """

    places: Places
    guess: Floats | None
    sums: Floats
    noise: float

    def added(self, p: Floats) -> Floats:
        """The expected contribution (m,) of public rows with probabilities p."""
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
    """Decode all rounds together. `codes` (m, F + 1) index the weights that a public row sums, the intercept's last."""
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
    """The weights after the move, halved until they are nearer to the sums and the prior.

    If public rows contradict the sums, a whole step may lead far away, and the next one further.
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
    """A(W), (P,): the expected sums of all rounds."""
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
    """The linearised sums under the κ of largest evidence, and that κ."""
    jacobian = parts.jacobian @ prior.basis
    linears = [whitened(jacobian, parts.target, parts.labels + kappa * parts.rows + parts.noise) for kappa in kappas]
    best = int(np.argmax([evidence(linear, prior) for linear in linears])) if len(kappas) > 1 else 0
    return linears[best], kappas[best]


def linearised(rounds: Sequence[MeasuredColumn], codes: Places, weights: Floats, units: float) -> Linearised:
    """J, z and the three parts of V, for all rounds one below another."""
    share = units / len(codes)
    p = expit(weights[codes].sum(axis=1))
    slope = share * p * (1 - p)
    spread = np.sqrt(slope)
    asking = [measured.guess is not None for measured in rounds]
    jacobian = _stacked(rounds, [slope if asks else None for asks in asking], codes, len(weights))
    released = np.concatenate([measured.sums for measured in rounds])
    return Linearised(
        jacobian=jacobian,
        target=released - expected_sums(rounds, codes, weights, units) + jacobian @ weights,
        labels=_gram(rounds, [spread if asks else None for asks in asking]),
        rows=_gram(rounds, [share * measured.added(p) for measured in rounds]),
        noise=np.diag(np.repeat([measured.noise**2 for measured in rounds], [len(each.sums) for each in rounds])),
    )


def _stacked(rounds: Sequence[MeasuredColumn], weights: Sequence[Floats | None], codes: Places, width: int) -> Floats:
    """X_rᵀ·diag(weight)·Z, of all rounds one below another; zero for a round without a weight."""
    found: list[Floats] = []
    for at, (measured, weight) in enumerate(zip(rounds, weights, strict=True)):
        like = next((each for each in range(at) if weights[each] is weight and _alike(rounds[each], measured)), None)
        if weight is None:
            found.append(np.zeros((len(measured.sums), width)))
        elif like is not None:
            found.append(found[like])
        else:
            (product,) = cross_products(measured.places, codes, [weight], (len(measured.sums), width))
            found.append(product)
    return np.concatenate(found)


def _gram(rounds: Sequence[MeasuredColumn], weights: Sequence[Floats | None]) -> Floats:
    """X_rᵀ·diag(weight_r·weight_s)·X_s of all pairs of rounds; zero if one has no weight.

    Pairs with equal places and weights are computed once, which gives the same bits as each alone.
    """
    ends = np.cumsum([0, *(len(measured.sums) for measured in rounds)])
    own = [slice(*each) for each in pairwise(ends.tolist())]
    found = np.zeros((ends[-1], ends[-1]))
    weighed = {at: weight for at, weight in enumerate(weights) if weight is not None}
    like = {at: next(each for each in weighed if _alike(rounds[each], rounds[at])) for at in weighed}
    blocks: dict[tuple[int, int], Floats] = {}
    for at, weight in weighed.items():
        key, places = (like[at], id(weight)), rounds[at].places
        if key not in blocks:
            blocks[key] = gram_matrix(places, np.broadcast_to(weight[:, None], places.shape), len(rounds[at].sums))
        found[own[at], own[at]] = blocks[key]
    for left, right in dict.fromkeys((like[r], like[s]) for r, s in combinations(weighed, 2)):
        pairs = [(r, s) for r, s in combinations(weighed, 2) if (like[r], like[s]) == (left, right)]
        products = {(id(weighed[r]), id(weighed[s])): weighed[r] * weighed[s] for r, s in pairs}
        shape = (len(rounds[left].sums), len(rounds[right].sums))
        crossed = cross_products(rounds[left].places, rounds[right].places, list(products.values()), shape)
        of = dict(zip(products, crossed, strict=True))
        for r, s in pairs:
            found[own[r], own[s]] = of[id(weighed[r]), id(weighed[s])]
            found[own[s], own[r]] = found[own[r], own[s]].T
    return found


def _alike(one: MeasuredColumn, other: MeasuredColumn) -> bool:
    """Whether public rows add to the same places in two rounds."""
    return len(one.sums) == len(other.sums) and np.array_equal(one.places, other.places)


def cross_products(left: Places, right: Places, weights: Sequence[Floats], shape: tuple[int, int]) -> list[Floats]:
    """Lᵀ·diag(weight)·R of the matrices whose row i has ones at left[i] and at right[i], for each weight (m,)."""
    found = [np.zeros(shape) for _ in weights]
    repeated = [np.repeat(weight, right.shape[1]) for weight in weights]
    for column in left.T:
        first, last, flat = _crossed(column, right, shape[1])
        for product, weight in zip(found, repeated, strict=True):
            product[first:last] += np.bincount(flat, weight, (last - first) * shape[1]).reshape(-1, shape[1])
    return found


def gram_matrix(places: Places, weight: Floats, size: int) -> Floats:
    """LᵀL of the matrix (m, size) whose row i has weight[i, a] at places[i, a]; half of it is computed."""
    found = np.zeros((size, size))
    for at, column in enumerate(places.T):
        half = np.where(np.arange(at, places.shape[1]) == at, 0.5, 1.0)
        first, last, flat = _crossed(column, places[:, at:], size)
        weights = weight[:, at, None] * weight[:, at:] * half
        found[first:last] += np.bincount(flat, weights.ravel(), (last - first) * size).reshape(-1, size)
    return found + found.T


def _crossed(column: Places, right: Places, width: int) -> tuple[int, int, Places]:
    """The rows that a column names, from the first to the last, and the cells (column[i], right[i, b]) among them."""
    first, last = int(column.min()), int(column.max()) + 1
    return first, last, ((column - first)[:, None] * width + right).ravel()

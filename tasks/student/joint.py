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
spreads, λ and κ from the same sums.

A cell of a round is a code of Z or several: X_r = Z·M_r. So J and V follow from cross tables Zᵀ·diag(v)·Z alone, v
being the products of 1, p and the guesses q; those without p are counted once for all steps.

Assumes      released sums and public rows: post-processing, in floats, repeated at will
Guarantees   a function of its arguments; nothing here draws
Checked by tests/tasks/student/test_joint.py.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array, vstack
from scipy.special import expit

from concord.artifacts.threads import Threads
from concord.tasks.mechanisms.distance import Floats
from concord.tasks.student.prior import (
    Linear,
    Prior,
    by_block,
    evidence,
    improved,
    mean_of,
    square_and_determinant,
    straightened,
    whitened,
)
from concord.tasks.student.public_rows import CrossedRows, ReducedRows

STEP_LENGTHS = (1.0, 1.0, 0.8, 0.8, 0.8, 0.8)
"""Share of the way to the posterior mean that each Gauss–Newton step goes."""
BEGUN = 4
"""Steps that are left out if earlier rounds were decoded already. The next one chooses λ."""
SEARCHED = 4
"""Number of steps that choose κ; then it stays."""
HALVINGS = 8
"""Most halvings of a step."""
MAXIMISATIONS = 3
"""Steps of expectation and maximisation in each Gauss–Newton step."""
ONE, P = 0, 1
"""The first two factors of a product: 1 and p; the others are guesses that differ between rows."""

CrossTables = Mapping[tuple[int, int], Floats]
"""Cross tables (d, d) of products of two factors."""


@dataclass(frozen=True)
class Search:
    """How a model is searched for: the κ that are tried, and how many Gauss–Newton steps are taken at most."""

    kappas: tuple[float, ...] = (1.0, 4.0, 16.0, 64.0, 256.0)
    steps: int = len(STEP_LENGTHS)


@dataclass(frozen=True, eq=False)
class MeasuredColumn:
    """The sums of one round for one column of weights.

    view   (P_r, d) M_r, transposed: the codes that add to each sum
    guess  q, the probability that the round subtracted: (rows,), or () if it is the same for all; None: it counted
           rows, whatever their labels
    sums   (P_r,) released, in rows
    noise  sd of the noise in every sum
    """

    view: csr_array
    guess: Floats | None
    sums: Floats
    noise: float


@dataclass(frozen=True)
class DecodedColumn:
    """A decoded column of weights: `weights` (d,), the last the intercept; its prior, κ, and the evidence for both."""

    weights: Floats
    prior: Prior
    kappa: float
    evidence: float


@dataclass(frozen=True)
class Linearised:
    """Sums at some weights: `target` (P,) = jacobian (P, d) · weights + noise of covariance labels + κ·rows + noise."""

    jacobian: Floats
    target: Floats
    labels: Floats
    rows: Floats
    noise: Floats


class MeasuredRounds:
    """The sums of all rounds, one below another, and the public rows that explain them, each for `share` private ones.

    factors  1, p in place of which there is 1 as well, and each guess that differs between rows
    parts    (rounds, factors) what a row adds to its cells: the sum of the factors with these weights
    """

    def __init__(self, rounds: Sequence[MeasuredColumn], rows: CrossedRows | ReducedRows, units: float) -> None:
        self.rows, self.share = rows, units / rows.counts.sum()
        self.sums = np.concatenate([of_round.sums for of_round in rounds])
        self.noise = np.repeat([of_round.noise**2 for of_round in rounds], [len(of_round.sums) for of_round in rounds])
        self.views = [of_round.view for of_round in rounds]
        self.stacked = vstack(self.views, format="csr")
        self.asking = vstack([of_round.view * (of_round.guess is not None) for of_round in rounds], format="csr")
        ends = np.cumsum([0, *(len(of_round.sums) for of_round in rounds)]).tolist()
        self.cells = [slice(*pair) for pair in pairwise(ends)]
        guesses = [of_round.guess for of_round in rounds if of_round.guess is not None and of_round.guess.ndim]
        self.factors = [np.ones(len(rows.counts)), np.ones(len(rows.counts)), *guesses]
        self.parts = _parts(rounds, len(self.factors))
        still = [pair for pair in combinations_with_replacement(range(len(self.factors)), 2) if P not in pair]
        self.still = self._varying(self._tables(still, self.factors))
        self.totals = np.array([rows.totals(factor) for factor in self.factors])

    def expected(self, weights: Floats) -> Floats:
        """A(W), (P,): what the sums should be."""
        totals = self.totals.copy()
        totals[P] = self.rows.totals(expit(self.rows.logits(weights)))
        added = self.share * self.parts @ totals
        return np.concatenate([view @ weight for view, weight in zip(self.views, added, strict=True)])

    def linearised(self, weights: Floats) -> Linearised:
        """J, z and the three parts of V."""
        factors = [*self.factors]
        factors[P] = expit(self.rows.logits(weights))
        tables = self._tables([(min(P, at), max(P, at)) for at in range(len(factors))], factors)
        slope = self.share * (tables[ONE, P] - tables[P, P])
        jacobian = self.asking @ slope
        rows = self._varying(tables)
        rows += self.still
        return Linearised(
            jacobian=jacobian,
            target=self.sums - self.expected(weights) + jacobian @ weights,
            labels=self.asking @ jacobian.T,
            rows=rows,
            noise=self.noise,
        )

    def _tables(self, pairs: Sequence[tuple[int, int]], factors: Sequence[Floats]) -> CrossTables:
        tables = self.rows.tables([factors[one] * factors[other] for one, other in pairs])
        return dict(zip(pairs, tables, strict=True))

    def _varying(self, tables: CrossTables) -> Floats:
        """The part of the variance of drawing public rows, (P, P), that these tables give."""
        variance = np.zeros((len(self.sums), len(self.sums)))
        for r, s in combinations_with_replacement(range(len(self.views)), 2):
            products = np.outer(self.parts[r], self.parts[s])
            weighed = {pair: products[pair] + (products.T[pair] if pair[0] != pair[1] else 0) for pair in tables}
            mixed = sum(weight * tables[pair] for pair, weight in weighed.items() if weight)
            if not isinstance(mixed, np.ndarray):
                continue
            variance[self.cells[r], self.cells[s]] = self.share**2 * (self.views[s] @ (self.views[r] @ mixed).T).T
            variance[self.cells[s], self.cells[r]] = variance[self.cells[r], self.cells[s]].T
        return variance


def _parts(rounds: Sequence[MeasuredColumn], factors: int) -> Floats:
    parts, guess = np.zeros((len(rounds), factors)), P
    for part, of_round in zip(parts, rounds, strict=True):
        if of_round.guess is None:
            part[ONE] = 1
        elif of_round.guess.ndim:
            guess += 1
            part[P], part[guess] = 1, -1
        else:
            part[P], part[ONE] = 1, -float(of_round.guess)
    return parts


def decode_column(
    rounds: MeasuredRounds,
    prior: Prior,
    others: Sequence[Prior],
    search: Search,
    before: DecodedColumn | None,
) -> DecodedColumn:
    """Decode all rounds together.

    prior    the first prior that is tried; its `others` have straighter numbers
    before   the model decoded from all rounds but the last
    """
    weights, kappas, place, first = np.zeros(len(prior.owner)), search.kappas, 0, 0
    if before is not None:
        weights, prior, first = before.weights, before.prior, BEGUN
    for at, step in enumerate(STEP_LENGTHS[first : first + search.steps], first):
        if at - first == SEARCHED:
            kappas, place = (kappas[place],), 0
        linear, place = likeliest(rounds.linearised(weights), prior, kappas, place, rounds.rows.threads)
        for _ in range(MAXIMISATIONS):
            prior = improved(linear, prior)
        if at == BEGUN:
            linear, prior = straightened(linear, prior, others, MAXIMISATIONS)
        weights = _nearer(rounds, weights, step * (prior.basis @ mean_of(linear, prior) - weights), linear, prior)
    return DecodedColumn(weights, prior, kappas[place], evidence(linear, prior))


def _nearer(rounds: MeasuredRounds, weights: Floats, move: Floats, linear: Linear, prior: Prior) -> Floats:
    """The weights after the move, halved until they are nearer to the sums and the prior.

    If public rows contradict the sums, a whole step may lead far away, and the next one further.
    """

    def misfit(at: Floats) -> float:
        parts = solve_triangular(linear.lower, rounds.sums - rounds.expected(at), lower=True, check_finite=False)
        away = solve_triangular(prior.basis, at, lower=True) / prior.sd
        return float(parts @ parts + away @ away)

    here = misfit(weights)
    for halved in range(HALVINGS):
        if misfit(moved := weights + move / 2**halved) <= here:
            return np.asarray(moved, dtype=np.float64)
    return weights


def likeliest(
    parts: Linearised, prior: Prior, kappas: Sequence[float], first: int, threads: int = 1
) -> tuple[Linear, int]:
    """The linearised sums under the κ of most evidence, and its place among `kappas`, which ascend.

    The κ at place `first` and one beside it are tried first, at once if there are threads for it; then those further
    away, but none that must have less evidence.
    """
    jacobian = by_block(parts.jacobian, prior.blocks)

    def under(place: int) -> Linear:
        covariance = kappas[place] * parts.rows
        covariance += parts.labels
        covariance[np.diag_indices_from(covariance)] += parts.noise
        return whitened(jacobian, parts.target, covariance)

    def tried(place: int) -> tuple[Linear, tuple[float, float]]:
        linear = under(place)
        return linear, square_and_determinant(linear, prior)

    if len(kappas) == 1:
        return under(first), first
    order = sorted(range(len(kappas)), key=lambda place: abs(place - first))
    with Threads(threads) as pool:
        near = dict(zip(order, pool.each(tried, order[:2]), strict=False))
    best = min(near, key=lambda place: sum(near[place][1]))
    linear, sums = near[best][0], {kappas[place]: of_place for place, (_, of_place) in near.items()}
    for place in order[2:]:
        if least_sum(kappas[place], sums) > sum(sums[kappas[best]]):
            continue
        other, sums[kappas[place]] = tried(place)
        if sum(sums[kappas[place]]) < sum(sums[kappas[best]]):
            linear, best = other, place
    return linear, best


def least_sum(kappa: float, tried: Mapping[float, tuple[float, float]]) -> float:
    """The least that zᵀC⁻¹z + log det C can be under κ, by both of them under two or more others, which are all smaller
    than κ or all larger. Evidence is minus half of it.

    C = B + κR. If λ are the eigenvalues of B⁻¹R, log det C is Σ log(1 + κλ) and a constant, which is convex in log κ.
    And zᵀC⁻¹z is Σ c/(1 + κλ) with c ≥ 0, a Stieltjes function of κ, so its inverse is concave in κ. Beyond two points,
    a convex function lies above the line through them, and a concave one below it.
    """
    nearest = sorted(tried.items(), key=lambda one: abs(math.log(one[0] / kappa)))
    (near, (square, determinant)), (far, (far_square, far_determinant)) = nearest[:2]
    inverse = 1 / square + (kappa - near) / (near - far) * (1 / square - 1 / far_square)
    beyond = math.log(kappa / near) / math.log(near / far) * (determinant - far_determinant)
    return 1 / inverse + determinant + beyond

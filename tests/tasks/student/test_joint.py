"""The algebra of the joint decoder: identities that it must satisfy to the digit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import multivariate_normal

from tests import world
from tests.support.coded import CODES, STEPS, hear, labels_of, one_hot, question_of, rows_of, truth

Floats = NDArray[np.float64]


def compact(weights: Floats) -> Floats:
    """Weights of the fine fields, one after another."""
    return np.concatenate([weights[CODES.span(field)] for field in CODES.fine])


def crossed_rows(rows: int) -> tuple[world.CrossedRows, world.CodeMatrix, Floats]:
    """Public rows as the decoder takes them, their codes, and as a dense matrix Z."""
    crossed, codes = world.CrossedRows.of(rows_of(rows, 0), CODES)
    return crossed, codes, one_hot(codes)


def some_weights(size: int) -> Floats:
    return np.random.default_rng(1).normal(size=size)


@pytest.mark.parametrize("later", [CODES.coarse, CODES.fine, (1, 3), (2,)])
def test_sums_and_their_noise_are_those_of_dense_matrices(later: Sequence[int]) -> None:
    """V, J and A: of totals of codes, a round with q = ½, and two rounds of models about the same fields or others."""
    crossed, codes, hot = crossed_rows(400)
    asked = [CODES.coarse, CODES.coarse, CODES.fine, tuple(later)]
    models = [wild_model(seed) for seed in (4, 5)]
    questions = [
        question_of(asked[0], what="codes"),
        question_of(asked[1]),
        *(question_of(each, least=STEPS // 4, model=model) for each, model in zip(asked[2:], models, strict=True)),
    ]
    heard = [world.NoisyRound(each, (2.0 + at) * STEPS, some_sums(each, at)) for at, each in enumerate(questions)]
    rounds = world.MeasuredRounds(
        [world.decode_measured(each, world.guess_of(each.question, codes), CODES, 0) for each in heard],
        crossed,
        units=3000,
    )
    weights, share = some_weights(crossed.size), 3000 / 400
    parts = rounds.linearised(weights)
    p = expit(hot @ weights)
    guesses = [None, *(world.expected(each, codes)[:, 0] / STEPS for each in questions[1:])]
    own = [one_hot(codes, each.fields) for each in questions]
    off = [np.ones(len(p)) if guess is None else p - guess for guess in guesses]
    added = share * np.hstack([x * each[:, None] for x, each in zip(own, off, strict=True)])
    asking = np.hstack([x * (guess is not None) for x, guess in zip(own, guesses, strict=True)])
    slope = share * crossed.counts * p * (1 - p)
    assert np.allclose(parts.rows, added.T @ (crossed.counts[:, None] * added))
    assert np.allclose(parts.labels, asking.T @ (slope[:, None] * asking))
    assert np.allclose(parts.jacobian, asking.T @ (slope[:, None] * hot))
    sums = np.concatenate([each.cells[:, 0] for each in heard])
    assert np.allclose(parts.target, sums - added.T @ crossed.counts + parts.jacobian @ weights)
    assert np.allclose(parts.noise, np.repeat([4.0, 9.0, 16.0, 25.0], [x.shape[1] for x in own]))


def wild_model(seed: int) -> world.IntegerModel:
    weights = np.random.default_rng(seed).integers(-300, 300, (CODES.size, 1))
    weights[CODES.span(0)] = 0  # a coarse view has no weights of its own
    return world.IntegerModel(weights, np.array([100]))


def some_sums(question: world.RoundQuestion, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(-(10**7), 10**7, question.size)


def problem(seed: int = 0) -> tuple[Floats, Floats, Floats, world.Prior]:
    """A jacobian, sums, the noise's covariance, and a prior."""
    draw = np.random.default_rng(seed)
    prior = world.prior_of([CODES.fields[at] for at in CODES.fine])
    spread = np.array([0.3, 1.0, 0.05, 3.0])
    size = len(prior.owner)
    jacobian, mixed = draw.normal(size=(12, size)), draw.normal(size=(12, 12))
    wide = world.Prior(prior.basis, prior.owner, spread)
    return jacobian, 3 * draw.normal(size=12), mixed @ mixed.T + np.eye(12), wide


def test_posterior_and_evidence_are_those_of_the_normal_law() -> None:
    """W = K Jᵀ (J K Jᵀ + V)⁻¹ z, and the density of z."""
    jacobian, target, noise, prior = problem()
    linear = world.whitened(jacobian @ prior.basis, target, noise)
    scaled = prior.basis * prior.sd
    covariance = scaled @ scaled.T
    total = jacobian @ covariance @ jacobian.T + noise
    mean, variance = world.posterior(linear, prior)
    assert np.allclose(prior.basis @ mean, covariance @ jacobian.T @ np.linalg.solve(total, target))
    seen = jacobian @ prior.basis
    left = np.diag(prior.sd**2) - (prior.sd**2 * seen).T @ np.linalg.solve(total, seen * prior.sd**2)
    assert np.allclose(variance, np.diag(left))
    density = multivariate_normal(np.zeros(12), total).logpdf(target)
    assert world.evidence(linear, prior) == pytest.approx(density + 6 * np.log(2 * np.pi))


KAPPAS = world.Search().kappas


@pytest.mark.parametrize("first", range(len(KAPPAS)))
def test_the_kappa_of_most_evidence_is_found_although_few_are_tried(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Whichever is tried first, it is the κ of all; sums are near to what is expected, or far from it."""
    tried = list[Any]()

    def spied(*given: Any) -> world.Linear:
        tried.append(given)
        return world.whitened(*given)

    monkeypatch.setattr(world.student_joint, "whitened", spied)
    counts = list[int]()
    for seed in range(40):
        jacobian, target, noise, prior = problem(seed)
        drawn = np.random.default_rng(seed).normal(size=(12, 1 + seed % 12))
        target *= (1, 4, 30)[seed % 3]
        parts = world.Linearised(jacobian, target, noise - np.eye(12), drawn @ drawn.T, np.ones(12))
        sums = dict[float, float]()
        for kappa in KAPPAS:
            linear, _ = world.likeliest(parts, prior, (kappa,), 0)
            sums[kappa] = -2 * world.evidence(linear, prior)
        best = min(KAPPAS, key=lambda kappa: sums[kappa])
        tried.clear()
        linear, place = world.likeliest(parts, prior, KAPPAS, first)
        counts.append(len(tried))
        assert KAPPAS[place] == best
        assert world.evidence(linear, prior) == -sums[best] / 2
    assert np.mean(counts) < len(KAPPAS) - 1


def test_the_bound_by_which_a_kappa_is_not_tried_is_one() -> None:
    for seed in range(20):
        jacobian, target, noise, prior = problem(seed)
        drawn = np.random.default_rng(seed).normal(size=(12, 1 + seed % 12))
        scaled = jacobian @ prior.basis * prior.sd
        both = dict[float, tuple[float, float]]()
        for kappa in KAPPAS:
            covariance = scaled @ scaled.T + noise + kappa * drawn @ drawn.T
            both[kappa] = (
                float(target @ np.linalg.solve(covariance, target)),
                float(np.linalg.slogdet(covariance)[1]),
            )
        for at in range(len(KAPPAS) - 2):
            rising, falling = KAPPAS[at : at + 3], KAPPAS[at : at + 3][::-1]
            for one, other, kappa in (rising, falling):
                assert world.least_sum(kappa, {each: both[each] for each in (one, other)}) <= sum(both[kappa]) + 1e-9


def test_expectation_and_maximisation_never_lower_the_evidence() -> None:
    for seed in range(5):
        jacobian, target, noise, prior = problem(seed)
        linear = world.whitened(jacobian @ prior.basis, target, noise)
        found = [world.evidence(linear, prior)]
        for _ in range(40):
            prior = world.improved(linear, prior)
            found.append(world.evidence(linear, prior))
            assert np.all((world.SPREADS[0] <= prior.spread) & (prior.spread <= world.SPREADS[1]))
        assert np.all(np.diff(found) >= -1e-9)
        assert found[-1] > found[0] + 0.1
        assert prior.spread[-1] == problem(seed)[3].spread[-1]  # the intercept's stays


def test_the_planted_maximisation_lowers_the_evidence() -> None:
    """Without the posterior's variance τ collapses, and the evidence with it."""
    jacobian, target, noise, prior = problem()
    linear = world.whitened(jacobian @ prior.basis, target, noise)
    found = [world.evidence(linear, prior)]
    for _ in range(40):
        mean, _ = world.posterior(linear, prior)
        second = np.bincount(prior.owner, mean**2) / np.bincount(prior.owner)
        prior = world.Prior(prior.basis, prior.owner, np.append(np.sqrt(second)[:-1], prior.spread[-1]))
        found.append(world.evidence(linear, prior))
    assert np.diff(found).min() < -1e-3


@pytest.mark.parametrize("cuts", [(1.0, 2.0, 4.0), (1.0, np.nextafter(1.0, 2), 2.0), (-1.7e308, 0.0, 1.7e308)])
def test_correlations_are_a_normal_law_s_and_a_share_of_a_number_is_a_straight_line(cuts: tuple[float, ...]) -> None:
    """The line is in proportion to the middles of intervals, of any width; other weights are as they are without it."""
    age = world.NumberField(kind="numeric", name="age", start=0, cuts=cuts)
    for field in (age, *CODES.fields):
        curved, found = world.correlations(field), world.correlations(field, 0.9)
        assert np.all(np.diag(curved) == 1)
        assert not curved[-1, :-1].any()  # a missing cell is like no other
        assert min(np.linalg.eigvalsh(each).min() for each in (curved, found)) > 0
        if field is age:
            far, line = np.array(cuts) / max(map(abs, cuts)), np.zeros(field.size)
            line[:4] = 1.5 * far[0] - far[1] / 2, *(far[:-1] + far[1:]) / 2, 1.5 * far[-1] - far[-2] / 2
            line[:4] = (line[:4] - line[:4].mean()) / line[:4].std()
            numbers = np.arange(field.size) < 4
            assert np.allclose(
                found, np.where(np.outer(numbers, numbers), 0.1, 1) * curved + 0.9 * np.outer(line, line)
            )
        elif isinstance(field, world.WordField):
            assert np.allclose(found, curved)
    assert np.allclose(world.correlations(CODES.fields[1])[0, 1], 0.9 * np.exp(-1 / 2))
    binary = world.NumberField(kind="numeric", name="age", start=0, cuts=(0.5,))
    assert np.array_equal(world.correlations(binary, 0.9), world.correlations(binary))
    assert not list(world.straighter([binary, *CODES.fields[2:]]))


def shaped(straight: bool) -> Floats:
    """Weights by code: a straight line of age, or a step up and one down. (One step alone is half a line.)"""
    weights, age = np.zeros((CODES.size, 1)), np.arange(8)
    weights[5:13, 0] = (age - 3.5) / 2 if straight else np.where((age > 1) & (age < 6), 1.5, -1.5)
    return weights


@pytest.mark.parametrize("straight", [True, False])
def test_the_sums_say_whether_a_number_is_straight(monkeypatch: pytest.MonkeyPatch, straight: bool) -> None:
    taken = list[world.Prior]()

    def spied(*given: Any) -> tuple[world.Linear, world.Prior]:
        found = world.straightened(*given)
        taken.append(found[1])
        return found

    monkeypatch.setattr(world.student_joint, "straightened", spied)
    curved = world.prior_of([CODES.fields[at] for at in CODES.fine])
    for seed in range(2):
        private, public = rows_of(60_000, seed), rows_of(8_000, 10 + seed)
        labels = labels_of(private, shaped(straight), 2)
        world.decode([hear(question_of(CODES.fine), private, labels, 30.0, seed)], public, CODES)
        assert np.array_equal(taken.pop().basis, curved.basis) is not straight
        assert not taken


def test_neighbouring_cells_of_a_vector_are_alike_by_how_far_their_centres_lie() -> None:
    levels = np.array([[0, 0, 0], [3, 4, 0], [250, 250, 250]], dtype=np.uint8)
    cells = pl.Series("v", levels, dtype=pl.Array(pl.UInt8(), 3))
    field = world.learn_view(world.Passed(name="v", element="uint8", size=3), cells, start=0, most=9)
    found = world.correlations(field)
    order = [int(np.flatnonzero((field.points == row).all(axis=1))[0]) for row in levels.astype(np.int64)]
    squares = ((levels[:, None].astype(float) - levels) ** 2).sum(axis=2)
    near = np.sort(squares, axis=1)[:, 2].mean()  # of three cells, the farthest stands for the eighth nearest
    alike = 0.9 * np.exp(-squares / (2 * near)) + 0.1 * np.eye(3)
    assert np.allclose(found[np.ix_(order, order)], alike)
    assert np.linalg.eigvalsh(found).min() > 0
    assert not found[-1, :-1].any()


def test_without_noise_on_the_same_rows_it_is_the_penalised_logistic_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zᵀ(y − p) = K⁻¹W, where the slope of the likelihood meets that of a prior that stays."""
    monkeypatch.setattr(world.student_joint, "MAXIMISATIONS", 0)
    monkeypatch.setattr(world.student_prior, "STRAIGHT", ())
    rows = rows_of(4000, 0)
    labels = labels_of(rows, truth(), 1)
    decoded = world.decode(
        [hear(question_of(CODES.fine), rows, labels, 1e-4)], rows, CODES, units=4000, search=world.Search((0.0,))
    )
    hot, weights = one_hot(rows), np.append(compact(decoded.weights)[:, 0], decoded.intercept)
    slope = hot.T @ (labels - expit(hot @ weights))
    prior = world.prior_of([CODES.fields[at] for at in CODES.fine])
    scaled = prior.basis * decoded.spread[prior.owner, 0]
    assert np.allclose(slope, np.linalg.solve(scaled @ scaled.T, weights), atol=0.02)
    assert np.abs(hot.T @ (labels - 0.5)).max() > 300  # what the tolerance is small against

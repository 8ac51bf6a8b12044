"""The algebra of the joint decoder: identities that it must satisfy to the digit."""

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import multivariate_normal

from concord.artifacts.schemas import Passed
from concord.tasks.data.views import learn_view
from concord.tasks.student import joint
from concord.tasks.student.decode import (
    decode,
    model_places,
)
from concord.tasks.student.joint import MeasuredColumn, cross_products, gram_matrix, linearised
from concord.tasks.student.prior import (
    SPREADS,
    Linear,
    Prior,
    correlations,
    evidence,
    improved,
    posterior,
    prior_of,
    whitened,
)
from tests.support.coded import CODES, hear, labels_of, question_of, rows_of, truth

Floats = NDArray[np.float64]


def one_hot(places: NDArray[np.int64], size: int) -> Floats:
    found = np.zeros((len(places), size))
    for column in places.T:
        found[np.arange(len(places)), column] += 1
    return found


def compact(weights: Floats) -> Floats:
    """Weights of the fine fields, one after another."""
    return np.concatenate([weights[CODES.span(field)] for field in CODES.fine])


def test_sums_by_places_are_those_of_one_hot_matrices() -> None:
    draw = np.random.default_rng(0)
    left = np.column_stack([draw.integers(0, 4, 50), draw.integers(4, 9, 50)])
    right, weight, each = draw.integers(0, 6, (50, 3)), draw.random(50), draw.normal(size=(50, 2))
    expected = one_hot(left, 9).T @ (weight[:, None] * one_hot(right, 6))
    assert np.allclose(cross_products(left, right, [weight], (9, 6))[0], expected)
    scaled = one_hot(left[:, :1], 9) * each[:, :1] + one_hot(left[:, 1:], 9) * each[:, 1:]
    assert np.allclose(gram_matrix(left, each, 9), scaled.T @ scaled)


def test_the_jacobian_is_the_derivative_of_what_sums_should_be() -> None:
    rows = rows_of(300, 0)
    places = model_places(rows, CODES)
    weights = np.random.default_rng(1).normal(size=places.max() + 1)
    measured = [MeasuredColumn(places[:, :3], np.full(300, 0.5), np.zeros(places.max()), 1.0)]

    def expected(moved: Floats) -> Floats:
        off = expit(moved[places].sum(axis=1)) - 0.5
        sums = np.bincount(places[:, :3].ravel(), np.repeat(off, 3), minlength=int(places.max()))
        return np.asarray(10.0 * sums, dtype=np.float64)

    parts = linearised(measured, places, weights, units=3000)
    step = 1e-5
    for at in range(len(weights)):
        nudge = np.zeros(len(weights))
        nudge[at] = step
        slope = (expected(weights + nudge) - expected(weights - nudge)) / (2 * step)
        assert np.allclose(parts.jacobian[:, at], slope, atol=1e-5)
    assert np.allclose(parts.target, parts.jacobian @ weights - expected(weights))


def test_totals_of_codes_vary_as_public_rows_do_and_together_with_the_labels() -> None:
    """V and A by dense matrices: of a round of labels with q = ½, and of one that counts rows."""
    rows = rows_of(200, 0)
    places = model_places(rows, CODES)
    weights = np.random.default_rng(1).normal(size=places.max() + 1)
    x = one_hot(places[:, :3], int(places.max()))
    summed, counted = np.arange(len(x.T), dtype=np.float64), np.arange(len(x.T), dtype=np.float64) ** 2
    rounds = [
        MeasuredColumn(places[:, :3], np.full(200, 0.5), summed, 2.0),
        MeasuredColumn(places[:, :3], None, counted, 3.0),
    ]
    parts = linearised(rounds, places, weights, units=2000)
    p = expit(weights[places].sum(axis=1))
    off = 10 * np.hstack([x * (p - 0.5)[:, None], x])
    assert np.allclose(parts.rows, off.T @ off)
    assert np.allclose(parts.labels[: len(summed), : len(summed)], 10 * x.T @ np.diag(p * (1 - p)) @ x)
    assert not parts.labels[len(summed) :].any()
    assert not parts.labels[:, len(summed) :].any()
    assert not parts.jacobian[len(summed) :].any()
    missed = parts.target - parts.jacobian @ weights
    assert np.allclose(missed, np.append(summed - 10 * x.T @ (p - 0.5), counted - 10 * x.sum(axis=0)))
    assert np.allclose(np.diag(parts.noise), np.repeat([4.0, 9.0], len(summed)))


@pytest.mark.parametrize("later", ["as before", "others", "overlapping"])
def test_rounds_together_are_each_pair_alone_to_the_bit(later: str) -> None:
    """What is computed once for rounds of equal places is what was computed for each: sessions go on as they began."""
    draw, m = np.random.default_rng(3), 400
    first = np.column_stack([draw.integers(at, at + 5, m) for at in (0, 5, 10)])
    last = {"as before": first.copy(), "others": first[:, ::-1] % 9, "overlapping": draw.integers(0, 15, (m, 2))}[later]
    guesses = [None, np.full(m, 0.5), draw.random(m), draw.random(m)]
    rounds = [
        MeasuredColumn(places, guess, draw.normal(size=15), 1.0)
        for places, guess in zip((first, first, first.copy(), last), guesses, strict=True)
    ]
    codes = np.column_stack([first, np.full(m, 15)])
    weights = draw.normal(size=16)
    parts = linearised(rounds, codes, weights, units=3000)
    p, share = expit(weights[codes].sum(axis=1)), 3000 / m
    slope, width = share * p * (1 - p), [measured.places.shape[1] for measured in rounds]
    places = np.column_stack([measured.places + 15 * at for at, measured in enumerate(rounds)])
    off = share * np.repeat(np.column_stack([measured.added(p) for measured in rounds]), width, axis=1)
    assert parts.rows.tobytes() == gram_matrix(places, off, 60).tobytes()
    asking = places[:, 3:]
    every = np.repeat(np.sqrt(slope)[:, None], asking.shape[1], axis=1)
    assert parts.labels.tobytes() == gram_matrix(asking, every, 60).tobytes()
    assert parts.jacobian.tobytes() == cross_products(asking, codes, [slope], (60, 16))[0].tobytes()


def problem(seed: int = 0) -> tuple[Floats, Floats, Floats, Prior]:
    """A jacobian, sums, the noise's covariance, and a prior."""
    draw = np.random.default_rng(seed)
    prior = prior_of([CODES.fields[at] for at in CODES.fine])
    spread = np.array([0.3, 1.0, 0.05, 3.0])
    size = len(prior.owner)
    jacobian, mixed = draw.normal(size=(12, size)), draw.normal(size=(12, 12))
    return jacobian, 3 * draw.normal(size=12), mixed @ mixed.T + np.eye(12), Prior(prior.basis, prior.owner, spread)


def test_posterior_and_evidence_are_those_of_the_normal_law() -> None:
    """W = K Jᵀ (J K Jᵀ + V)⁻¹ z, and the density of z."""
    jacobian, target, noise, prior = problem()
    linear = whitened(jacobian @ prior.basis, target, noise)
    scaled = prior.basis * prior.sd
    covariance = scaled @ scaled.T
    total = jacobian @ covariance @ jacobian.T + noise
    mean, variance = posterior(linear, prior)
    assert np.allclose(prior.basis @ mean, covariance @ jacobian.T @ np.linalg.solve(total, target))
    seen = jacobian @ prior.basis
    left = np.diag(prior.sd**2) - (prior.sd**2 * seen).T @ np.linalg.solve(total, seen * prior.sd**2)
    assert np.allclose(variance, np.diag(left))
    density = multivariate_normal(np.zeros(12), total).logpdf(target)
    assert evidence(linear, prior) == pytest.approx(density + 6 * np.log(2 * np.pi))


@pytest.mark.parametrize("seed", range(5))
def test_expectation_and_maximisation_never_lower_the_evidence(seed: int) -> None:
    jacobian, target, noise, prior = problem(seed)
    linear = whitened(jacobian @ prior.basis, target, noise)
    found = [evidence(linear, prior)]
    for _ in range(40):
        prior = improved(linear, prior)
        found.append(evidence(linear, prior))
        assert np.all((SPREADS[0] <= prior.spread) & (prior.spread <= SPREADS[1]))
    assert np.all(np.diff(found) >= -1e-9)
    assert found[-1] > found[0] + 0.1
    assert prior.spread[-1] == problem(seed)[3].spread[-1]  # the intercept's stays


def test_the_planted_maximisation_lowers_the_evidence() -> None:
    """Without the posterior's variance τ collapses, and the evidence with it."""
    jacobian, target, noise, prior = problem()
    linear = whitened(jacobian @ prior.basis, target, noise)
    found = [evidence(linear, prior)]
    for _ in range(40):
        mean, _ = posterior(linear, prior)
        second = np.bincount(prior.owner, mean**2) / np.bincount(prior.owner)
        prior = Prior(prior.basis, prior.owner, np.append(np.sqrt(second)[:-1], prior.spread[-1]))
        found.append(evidence(linear, prior))
    assert np.diff(found).min() < -1e-3


def test_correlations_are_a_normal_law_s() -> None:
    for field in CODES.fields:
        found = correlations(field)
        assert np.all(np.diag(found) == 1)
        assert np.linalg.eigvalsh(found).min() > 0
        assert not found[-1, :-1].any()  # a missing cell is like no other
    assert np.allclose(correlations(CODES.fields[1])[0, 1], 0.9 * np.exp(-1 / 2))


def test_neighbouring_cells_of_a_vector_are_alike_by_how_far_their_centres_lie() -> None:
    levels = np.array([[0, 0, 0], [3, 4, 0], [250, 250, 250]], dtype=np.uint8)
    cells = pl.Series("v", levels, dtype=pl.Array(pl.UInt8(), 3))
    field = learn_view(Passed(name="v", element="uint8", size=3), cells, start=0, most=9)
    found = correlations(field)
    order = [int(np.flatnonzero((field.points == row).all(axis=1))[0]) for row in levels.astype(np.int64)]
    squares = ((levels[:, None].astype(float) - levels) ** 2).sum(axis=2)
    near = np.sort(squares, axis=1)[:, 2].mean()  # of three cells, the farthest stands for the eighth nearest
    alike = 0.9 * np.exp(-squares / (2 * near)) + 0.1 * np.eye(3)
    assert np.allclose(found[np.ix_(order, order)], alike)
    assert np.linalg.eigvalsh(found).min() > 0
    assert not found[-1, :-1].any()


def test_without_noise_on_the_same_rows_it_is_the_penalised_logistic_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zᵀ(y − p) = K⁻¹W, where the slope of the likelihood meets that of a prior that stays."""
    monkeypatch.setattr(joint, "MAXIMISATIONS", 0)
    rows = rows_of(4000, 0)
    labels = labels_of(rows, truth(), 1)
    decoded = decode([hear(question_of(CODES.fine), rows, labels, 1e-4)], rows, CODES, units=4000, kappas=(0.0,))
    places = model_places(rows, CODES)
    weights = np.append(compact(decoded.weights)[:, 0], decoded.intercept)
    slope = one_hot(places, len(weights)).T @ (labels - expit(weights[places].sum(axis=1)))
    prior = prior_of([CODES.fields[at] for at in CODES.fine])
    scaled = prior.basis * decoded.spread[prior.owner, 0]
    assert np.allclose(slope, np.linalg.solve(scaled @ scaled.T, weights), atol=0.02)
    assert np.abs(one_hot(places, len(weights)).T @ (labels - 0.5)).max() > 300  # what the tolerance is small against


def test_the_linear_form_is_what_was_measured() -> None:
    jacobian, target, noise, _ = problem()
    linear: Linear = whitened(jacobian, target, noise)
    assert linear.square == pytest.approx(target @ np.linalg.solve(noise, target))
    assert linear.log_noise == pytest.approx(np.linalg.slogdet(noise)[1])
    assert np.allclose(linear.gram, jacobian.T @ np.linalg.solve(noise, jacobian))
    assert np.allclose(linear.lower @ linear.lower.T, noise)

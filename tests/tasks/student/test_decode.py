"""The decoder of tallies: identities it must satisfy to the digit, known weights it must find, and what it hands on."""

import json

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import multivariate_normal

from concord.artifacts.schemas import Passed
from concord.tasks.data.codes import CodeMatrix
from concord.tasks.data.views import learn_view
from concord.tasks.mechanisms.contributions import STEPS_A_NAT, IntegerModel, tally
from concord.tasks.student import joint
from concord.tasks.student.decode import (
    Decoded,
    Heard,
    decode,
    estimated_units,
    logits,
    model_places,
    next_fields,
    next_model,
    odds_scores,
    scores,
)
from concord.tasks.student.joint import MeasuredColumn, crossed, linearised, squared
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
from tests.support.coded import CODES, STEPS, hear, labels_of, question_of, rows_of, truth

Floats = NDArray[np.float64]


def one_hot(places: NDArray[np.int64], size: int) -> Floats:
    found = np.zeros((len(places), size))
    for column in places.T:
        found[np.arange(len(places)), column] += 1
    return found


def compact(weights: Floats) -> Floats:
    """Weights of the fine fields, one after another."""
    return np.concatenate([weights[CODES.span(field)] for field in CODES.fine])


def balanced(predicted: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    return float(np.mean([np.mean(predicted[labels == each] == each) for each in np.unique(labels)]))


def rounds(private: CodeMatrix, labels: NDArray[np.int64], public: CodeMatrix, noise: float) -> list[Heard]:
    """Three rounds of two classes, each with the model that the ones before it decode to."""
    heard = [hear(question_of(CODES.coarse), private, labels, noise)]
    for least, seed in ((STEPS // 4, 1), (STEPS // 20, 2)):
        decoded = decode(heard, public, CODES)
        asked = question_of(next_fields(decoded, CODES, 2), least=least, model=next_model(decoded))
        heard.append(hear(asked, private, labels, noise, seed))
    return heard


# --- identities -----------------------------------------------------------------------------------------------------


def test_sums_by_places_are_those_of_one_hot_matrices() -> None:
    draw = np.random.default_rng(0)
    left = np.column_stack([draw.integers(0, 4, 50), draw.integers(4, 9, 50)])
    right, weight, each = draw.integers(0, 6, (50, 3)), draw.random(50), draw.normal(size=(50, 2))
    expected = one_hot(left, 9).T @ (weight[:, None] * one_hot(right, 6))
    assert np.allclose(crossed(left, right, weight, (9, 6)), expected)
    scaled = one_hot(left[:, :1], 9) * each[:, :1] + one_hot(left[:, 1:], 9) * each[:, 1:]
    assert np.allclose(squared(left, each, 9), scaled.T @ scaled)


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


# --- what it finds --------------------------------------------------------------------------------------------------


def test_known_weights_are_found() -> None:
    private, public = rows_of(60_000, 0), rows_of(8000, 1)
    decoded = decode(rounds(private, labels_of(private, truth(), 2), public, 30.0), public, CODES)
    fresh = rows_of(5000, 3)
    off = logits(decoded, fresh)[:, 0] - truth()[fresh].sum(axis=1)[:, 0]
    assert np.sqrt(np.mean(off**2)) < 0.08
    assert decoded.units == pytest.approx(60_000, rel=0.02)
    assert next_fields(decoded, CODES, 1) == (1,)
    assert next_fields(decoded, CODES, 2) == (1, 2)
    assert decoded.importance[3] < 0.05 < decoded.importance[2]


@pytest.mark.parametrize("least", [0, STEPS // 4])
def test_a_round_with_a_wrong_model_misleads_nobody(least: int) -> None:
    """q is known, so it cancels, clipped or not: there is no bias."""
    private, public = rows_of(60_000, 0), rows_of(8000, 1)
    labels = labels_of(private, truth(), 2)
    wild = np.random.default_rng(4).integers(-700, 700, (CODES.size, 1))
    model = IntegerModel(wild, np.array([300]))
    asked = question_of(CODES.fine, least=least, model=model)
    decoded = decode([hear(asked, private, labels, 5.0)], public, CODES, units=60_000)
    fresh = rows_of(5000, 3)
    assert np.sqrt(np.mean((logits(decoded, fresh)[:, 0] - truth()[fresh].sum(axis=1)[:, 0]) ** 2)) < 0.15


def test_later_rounds_add_to_the_first() -> None:
    private, public, fresh = rows_of(60_000, 0), rows_of(8000, 1), rows_of(5000, 3)
    heard = rounds(private, labels_of(private, truth(), 2), public, 100.0)
    off = [
        np.sqrt(np.mean((logits(decode(heard[:count], public, CODES), fresh) - truth()[fresh].sum(axis=1)) ** 2))
        for count in (1, 3)
    ]
    assert off[1] < 0.8 * off[0]


def test_more_classes_are_each_decoded_against_the_rest() -> None:
    private, public, fresh = rows_of(60_000, 0), rows_of(8000, 1), rows_of(5000, 3)
    weights = truth(classes=4)
    heard = [hear(question_of(CODES.coarse, 4, STEPS // 4), private, labels_of(private, weights, 2), 10.0)]
    decoded = decode(heard, public, CODES)
    asked = question_of(CODES.fine, 4, STEPS * 3 // 40, model=next_model(decoded))
    decoded = decode([*heard, hear(asked, private, labels_of(private, weights, 2), 10.0, 1)], public, CODES)
    found, best = scores(decoded, fresh), weights[fresh].sum(axis=1)
    assert np.allclose(found.sum(axis=1), 1)
    assert decoded.weights.shape == (CODES.size, 4)
    assert np.mean(np.argmax(found, axis=1) == np.argmax(best, axis=1)) > 0.9
    assert np.abs(found - expit(best - np.log(np.exp(best).sum(axis=1, keepdims=True)))).mean() < 0.25


def test_a_rare_class_is_kept_at_the_prior_odds() -> None:
    private, public, fresh = rows_of(50_000, 0), rows_of(8000, 1), rows_of(20_000, 3)
    weights = truth(shift=-4.0)
    labels, fresh_labels = labels_of(private, weights, 2), labels_of(fresh, weights, 4)
    assert labels.mean() < 0.05
    decoded = decode([hear(question_of(CODES.coarse), private, labels, 20.0)], public, CODES)
    assert decoded.prior[0] == pytest.approx(labels.mean(), abs=0.01)
    default, odds = (
        balanced(np.argmax(found(decoded, fresh), axis=1), fresh_labels) for found in (scores, odds_scores)
    )
    logit_of = weights[fresh].sum(axis=1)[:, 0]
    assert default < 0.55
    assert odds > balanced((logit_of > logit(labels.mean())).astype(np.int64), fresh_labels) - 0.02 > 0.65


def test_totals_of_codes_tell_a_rare_class_from_an_uneven_draw_of_public_rows() -> None:
    """At q = ½ the sums of a 2 % class hang on how many public rows have a code: few of them drown it."""
    weights = truth(shift=-4.0)
    private, fresh = rows_of(50_000, 0), rows_of(5_000, 3)
    totals, labels = question_of(CODES.coarse, what="codes"), labels_of(private, weights, 2)
    counted = hear(totals, private, labels, 20.0, 5)
    first = hear(question_of(CODES.coarse), private, labels, 10.0)
    off = {True: list[float](), False: list[float]()}
    for seed in range(10, 12):
        public = rows_of(1_000, seed)
        for bought, heard in ((True, [counted, first]), (False, [first])):
            missed = (logits(decode(heard, public, CODES), fresh) - weights[fresh].sum(axis=1))[:, 0]
            off[bought].append(float(missed.std()))
    assert max(off[True]) < 0.5 < min(off[False])


# --- what it hands on -----------------------------------------------------------------------------------------------


def test_the_next_model_depends_on_released_sums_alone() -> None:
    """Again, and with public rows in another order: the same whole steps, but for a last one."""
    private, public = rows_of(20_000, 0), rows_of(2000, 1)
    heard = rounds(private, labels_of(private, truth(), 2), public, 20.0)
    models = [next_model(decode(heard, rows, CODES)) for rows in (public, public, public[::-1])]
    assert models[0].digest == models[1].digest
    assert np.abs(models[0].weights - models[2].weights).max() <= 1


def test_a_model_in_whole_steps_says_nearly_the_same() -> None:
    private, public = rows_of(20_000, 0), rows_of(2000, 1)
    decoded = decode([hear(question_of(CODES.coarse), private, labels_of(private, truth(), 2), 20.0)], public, CODES)
    model = next_model(decoded)
    assert not model.weights[CODES.span(0)].any()  # a coarse view has no weights of its own
    whole = (model.intercept + model.weights[public].sum(axis=1)) / STEPS_A_NAT
    assert np.abs(whole - logits(decoded, public)).max() <= 4 / (2 * STEPS_A_NAT)


def test_what_was_decoded_reads_back_to_the_bit() -> None:
    private, public = rows_of(5000, 0), rows_of(500, 1)
    decoded = decode([hear(question_of(CODES.coarse), private, labels_of(private, truth(), 2), 20.0)], public, CODES)
    again = Decoded.from_record(json.loads(json.dumps(decoded.record())))
    for name in decoded.record():
        assert np.asarray(getattr(again, name)).tobytes() == np.asarray(getattr(decoded, name)).tobytes()


def test_units_are_counted_by_all_that_was_released() -> None:
    rows = rows_of(1000, 0)
    labels = labels_of(rows, truth(), 1)
    totals, first = question_of(CODES.coarse, what="codes"), question_of(CODES.coarse)
    heard = [hear(totals, rows, labels, 0.5), hear(first, rows, labels, 0.5)]
    found, noise = estimated_units(heard)
    assert abs(found - 1000) < 6 * noise
    precision = sum(0.5**-2 / size for size in (5, 5, 4)) + (0.5 * STEPS / first.count) ** -2
    assert noise == pytest.approx(precision**-0.5)
    nothing = IntegerModel(np.zeros((CODES.size, 1), np.int64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="number of units must be given"):
        estimated_units([hear(question_of(CODES.fine, model=nothing), rows, labels, 1.0)])
    with pytest.raises(ValueError, match="asked for labels"):
        decode(heard[:1], rows, CODES)


def test_the_prior_odds_point_is_where_the_logit_passes_them() -> None:
    private, public = rows_of(5000, 0), rows_of(500, 1)
    decoded = decode([hear(question_of(CODES.coarse), private, labels_of(private, truth(), 2), 20.0)], public, CODES)
    over = logits(decoded, public)[:, 0] > logit(decoded.prior[0])
    assert np.array_equal(np.argmax(odds_scores(decoded, public), axis=1), over)
    assert decoded.prior[0] == pytest.approx(scores(decoded, public)[:, 1].mean())


def test_the_linear_form_is_what_was_measured() -> None:
    jacobian, target, noise, _ = problem()
    linear: Linear = whitened(jacobian, target, noise)
    assert linear.square == pytest.approx(target @ np.linalg.solve(noise, target))
    assert linear.log_noise == pytest.approx(np.linalg.slogdet(noise)[1])
    assert np.allclose(linear.gram, jacobian.T @ np.linalg.solve(noise, jacobian))
    assert np.allclose(linear.lower @ linear.lower.T, noise)


@pytest.mark.parametrize(("public", "units"), [(500, 10**9), (5, 10**7)])
def test_many_units_beside_little_noise_are_decoded(public: int, units: int) -> None:
    """Sums of a field add up alike: noise alone tells them apart, and doubles lose it beside so many units."""
    rows, private = rows_of(public, 1), rows_of(3_000, 2, (0.1, 0.2, 0.3, 0.4))
    labels, scale = labels_of(private, truth(), 3), 0.04 * STEPS
    heard = [
        Heard(asked, scale, units // 3_000 * tally(asked, private, labels))
        for asked in (question_of(CODES.coarse, least=0, what="codes"), question_of(CODES.coarse))
    ]
    assert np.isfinite(decode(heard, rows, CODES).weights).all()

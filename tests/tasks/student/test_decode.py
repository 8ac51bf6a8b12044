"""The decoder of tallies: known weights it must find, and what it hands on."""

import json

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit, softmax

from tests.support.coded import CODES, STEPS, hear, labels_of, question_of, rows_of, truth
from tests.world import (
    STEPS_A_NAT,
    CodeMatrix,
    Decoded,
    IntegerModel,
    NoisyRound,
    decode,
    estimated_units,
    logits,
    next_fields,
    next_model,
    odds_scores,
    reporting,
    scores,
    tally,
)

Floats = NDArray[np.float64]


def balanced(predicted: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    return float(np.mean([np.mean(predicted[labels == each] == each) for each in np.unique(labels)]))


def rounds(private: CodeMatrix, labels: NDArray[np.int64], public: CodeMatrix, noise: float) -> list[NoisyRound]:
    """Three rounds of two classes, each with the model that the ones before it decode to."""
    heard = [hear(question_of(CODES.coarse), private, labels, noise)]
    for least, seed in ((STEPS // 4, 1), (STEPS // 20, 2)):
        decoded = decode(heard, public, CODES)
        asked = question_of(next_fields(decoded, CODES, 2), least=least, model=next_model(decoded))
        heard.append(hear(asked, private, labels, noise, seed))
    return heard


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
    assert np.abs(found - softmax(best, axis=1)).mean() < 0.1


def test_how_far_it_is_is_told_by_classes_whatever_was_drawn() -> None:
    """Of a round of a thousand classes, decoding took eight minutes without a word."""
    private, public, told = rows_of(2000, 0), rows_of(500, 1), list[tuple[int, int]]()
    heard = [hear(question_of(CODES.coarse, 4, STEPS // 4), private, labels_of(private, truth(classes=4), 2), 10.0)]
    with reporting(lambda done, size: told.append((done, size))):
        decode(heard, public, CODES)
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4)]


def test_a_rare_class_is_kept_at_the_prior_odds() -> None:
    """Nearly as well as by the true weights, in the mean of four draws: of one, it is off by up to 4 points."""
    weights, short, more = truth(shift=-4.0), list[float](), list[float]()
    for seed in (0, 100, 200, 300):
        private, public, fresh = rows_of(50_000, seed), rows_of(8000, seed + 1), rows_of(20_000, seed + 3)
        labels, fresh_labels = labels_of(private, weights, seed + 2), labels_of(fresh, weights, seed + 4)
        assert labels.mean() < 0.05
        decoded = decode([hear(question_of(CODES.coarse), private, labels, 20.0, seed)], public, CODES)
        more.append(decoded.prior[0] - labels.mean())
        default, odds = (
            balanced(np.argmax(found(decoded, fresh), axis=1), fresh_labels) for found in (scores, odds_scores)
        )
        logit_of = weights[fresh].sum(axis=1)[:, 0]
        best = balanced((logit_of > logit(labels.mean())).astype(np.int64), fresh_labels)
        assert default < 0.55
        assert best > 0.67
        short.append(best - odds)
    assert np.mean(short) < 0.02
    assert abs(np.mean(more)) < 0.01


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
    """Again, and with public rows in another order: the same whole steps."""
    private, public = rows_of(20_000, 0), rows_of(2000, 1)
    heard = rounds(private, labels_of(private, truth(), 2), public, 20.0)
    models = [next_model(decode(heard, rows, CODES)) for rows in (public, public, public[::-1])]
    assert models[0].digest == models[1].digest == models[2].digest


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


@pytest.mark.parametrize(("public", "units"), [(500, 10**9), (5, 10**7)])
def test_many_units_beside_little_noise_are_decoded(public: int, units: int) -> None:
    """Sums of a field add up alike: noise alone tells them apart, and doubles lose it beside so many units."""
    rows, private = rows_of(public, 1), rows_of(3_000, 2, (0.1, 0.2, 0.3, 0.4))
    labels, scale = labels_of(private, truth(), 3), 0.04 * STEPS
    heard = [
        NoisyRound(asked, scale, units // 3_000 * tally(asked, private, labels))
        for asked in (question_of(CODES.coarse, least=0, what="codes"), question_of(CODES.coarse))
    ]
    assert np.isfinite(decode(heard, rows, CODES).weights).all()

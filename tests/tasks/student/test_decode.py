"""The decoder of tallies: weights that it must find, of one round, of several, and of seasons; what it hands on; and
that any sums give a model.
"""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from tests import world
from tests.support.coded import CODES, STEPS, hear, labels_of, question_of, rows_of, truth

Labels = NDArray[np.int64]
FRESH = rows_of(5_000, 3)


def rounds(private: world.CodeMatrix, labels: Labels, public: world.CodeMatrix, noise: float) -> list[world.NoisyRound]:
    """Three rounds of two classes, each with the model that the ones before it decode to."""
    heard = [hear(question_of(CODES.coarse), private, labels, noise)]
    for least, seed in ((STEPS // 4, 1), (STEPS // 20, 2)):
        decoded = world.decode(heard, public, CODES)
        asked = question_of(world.next_fields(decoded, CODES, 2), least=least, model=world.next_model(decoded))
        heard.append(hear(asked, private, labels, noise, seed))
    return heard


def error(decoded: world.Decoded) -> float:
    """Root mean square of its logits' error on rows that it never saw."""
    off: world.Floats = world.logits(decoded, FRESH)[:, 0] - truth()[FRESH].sum(axis=1)[:, 0]
    return float(np.sqrt(np.mean(off**2)))


# --- what it finds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "most"), [(30.0, 0.08), (100.0, 0.25)])
def test_known_weights_are_found_and_later_rounds_add_to_the_first(noise: float, most: float) -> None:
    private, public = rows_of(60_000, 0), rows_of(8000, 1)
    heard = rounds(private, labels_of(private, truth(), 2), public, noise)
    one, decoded = world.decode(heard[:1], public, CODES), world.decode(heard, public, CODES)
    assert error(decoded) < min(most, 0.8 * error(one))
    assert decoded.units == pytest.approx(60_000, rel=0.03)
    assert world.next_fields(decoded, CODES, 2) == (1, 2)
    assert decoded.importance[3] < 0.05 < decoded.importance[2]


def test_a_model_is_the_same_to_the_bit_on_any_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads part the fields whose tables they add, and the κ that they try, but no sum."""
    private, public = rows_of(20_000, 0), rows_of(8000, 1)
    heard, decoded = rounds(private, labels_of(private, truth(), 2), public, 30.0), list[dict[str, object]]()
    for cores in (1, 2, 5):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        decoded.append(world.decode(heard, public, CODES).record())
    assert decoded[0] == decoded[1] == decoded[2]


def test_more_classes_are_each_decoded_against_the_rest_and_it_says_how_far_it_is() -> None:
    """Of a round of a thousand classes, decoding took eight minutes without a word."""
    private, public, told = rows_of(60_000, 0), rows_of(8000, 1), list[tuple[int, int]]()
    weights = truth(classes=4)
    labels = labels_of(private, weights, 2)
    heard = [hear(question_of(CODES.coarse, 4, STEPS // 4), private, labels, 10.0)]
    with world.reporting(lambda done, size: told.append((done, size))):
        decoded = world.decode(heard, public, CODES)
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4)]
    asked = question_of(CODES.fine, 4, STEPS * 3 // 40, model=world.next_model(decoded))
    decoded = world.decode([*heard, hear(asked, private, labels, 10.0, 1)], public, CODES)
    found, best = world.scores(decoded, FRESH), weights[FRESH].sum(axis=1)
    assert np.allclose(found.sum(axis=1), 1)
    assert decoded.weights.shape == (CODES.size, 4)
    assert np.mean(np.argmax(found, axis=1) == np.argmax(best, axis=1)) > 0.9
    assert np.abs(found - softmax(best, axis=1)).mean() < 0.1


def test_rounds_of_models_about_the_same_codes_are_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that subtracted the mean of their guesses: of both alike if noise is large, or of hardly but the last if
    the draw of public rows is. Little is lost by it."""
    private, public = rows_of(60_000, 0), rows_of(8000, 1)
    labels = labels_of(private, truth(), 2)
    shares = list[float]()
    for noise in (300.0, 0.3):
        heard = rounds(private, labels, public, noise)
        guesses = [world.guess_of(each.question, private) for each in heard]
        read, kept = world.merged(heard, guesses, np.ones(len(private)), units=60_000)
        first, last, both = (guess for guess in (*guesses[1:], kept[1]) if guess is not None)
        off = 2 / 14 * float(((first - last) ** 2).sum())  # of two fields, which have fourteen codes
        shares.append(noise**2 / (2 * noise**2 + off))
        one, other = np.array([shares[-1], 1 - shares[-1]])
        assert [each.question.fields for each in read] == [CODES.coarse, (1, 2)]
        assert np.allclose(both, one * first + other * last)
        assert np.allclose(read[1].cells, one * heard[1].cells + other * heard[2].cells, atol=1 / STEPS)
        assert read[1].noise == pytest.approx(noise * np.hypot(one, other))
    assert shares[0] > 0.4 > 0.1 > shares[1]
    heard = rounds(private, labels, public, 100.0)
    merged = error(world.decode(heard, public, CODES))
    monkeypatch.setattr(world.student_decode, "merged", lambda rounds, guesses, *_: (rounds, guesses))
    assert merged < 1.02 * error(world.decode(heard, public, CODES))


def test_rounds_about_other_codes_are_read_by_themselves() -> None:
    public = rows_of(8000, 1)
    heard = rounds(rows_of(6000, 0), labels_of(rows_of(6000, 0), truth(), 2), public, 30.0)
    wider = replace(heard[2].question, fields=CODES.fine, spans=question_of(CODES.fine).spans)
    heard[2] = world.NoisyRound(wider, 1.0, np.zeros(wider.size, np.int64))
    guesses = [world.guess_of(each.question, public) for each in heard]
    read, kept = world.merged(heard, guesses, np.ones(len(public)), units=6000)
    assert [*map(id, read)] == [*map(id, heard)]
    assert [*map(id, kept)] == [*map(id, guesses)]


# --- seasons of a stream, read as one -------------------------------------------------------------------------------

UNITS, NOISE = (30_000, 2_000, 20_000), (100.0, 75.0, 75.0)


def seasons(seed: int) -> list[list[world.NoisyRound]]:
    """One round each, of other people."""
    found = []
    for at, (units, noise) in enumerate(zip(UNITS, NOISE, strict=True)):
        own = 10 * seed + at
        rows = rows_of(units, own)
        found.append([hear(question_of(CODES.fine), rows, labels_of(rows, truth(), own), noise, own)])
    return found


def added(several: list[list[world.NoisyRound]]) -> list[world.NoisyRound]:
    """The same sums, plainly added: nothing that is read as one may be worse."""
    each = [season[0] for season in several]
    scale = float(np.sqrt(sum(one.scale**2 for one in each)))
    return [replace(each[0], scale=scale, sums=np.sum([one.sums for one in each], axis=0))]


def test_all_seasons_say_more_than_one_and_a_noisy_one_misleads_nobody() -> None:
    public, found = rows_of(8000, 1), [seasons(seed) for seed in range(4)]
    alone, whole, plain = (
        np.mean([error(world.decode(heard(each), public, CODES)) for each in found])
        for heard in (lambda several: several[0], world.joined, added)
    )
    assert whole < min(0.9 * alone, 1.02 * plain)


def test_what_seasons_stand_for_is_said_by_their_count_and_noise_and_one_is_as_it_was_released() -> None:
    first, *_ = several = seasons(0)
    (heard,) = world.joined(several)
    units, noise = world.estimated_units([heard])
    assert 30_000 < units < sum(UNITS)  # a season that says less of each unit counts for fewer
    assert noise == pytest.approx(heard.scale / heard.question.count)
    assert heard.noise < np.sqrt(sum(each**2 for each in NOISE))
    assert world.joined([first])[0] is first[0]
    (twice,) = world.joined([first, first])
    assert twice.sums == pytest.approx(2 * first[0].sums)
    assert twice.scale == pytest.approx(np.sqrt(2) * first[0].scale)


# --- what it hands on -----------------------------------------------------------------------------------------------


def test_the_next_model_depends_on_released_sums_alone_and_says_nearly_the_same() -> None:
    """In whole steps: again, and with public rows in another order, the same ones."""
    private, public = rows_of(20_000, 0), rows_of(2000, 1)
    heard = rounds(private, labels_of(private, truth(), 2), public, 20.0)
    decoded = world.decode(heard, public, CODES)
    model = world.next_model(decoded)
    assert model.digest == world.next_model(world.decode(heard, public[::-1], CODES)).digest
    assert not model.weights[CODES.span(0)].any()  # a coarse view has no weights of its own
    whole = (model.intercept + model.weights[public].sum(axis=1)) / world.STEPS_A_NAT
    assert np.abs(whole - world.logits(decoded, public)).max() <= 4 / (2 * world.STEPS_A_NAT)
    again = world.Decoded.from_record(json.loads(json.dumps(decoded.record())))
    for name in decoded.record():
        assert np.asarray(getattr(again, name)).tobytes() == np.asarray(getattr(decoded, name)).tobytes()


def test_units_are_counted_by_all_that_was_released() -> None:
    rows = rows_of(1000, 0)
    labels = labels_of(rows, truth(), 1)
    totals, first = question_of(CODES.coarse, what="codes"), question_of(CODES.coarse)
    heard = [hear(totals, rows, labels, 0.5), hear(first, rows, labels, 0.5)]
    found, noise = world.estimated_units(heard)
    assert abs(found - 1000) < 6 * noise
    precision = sum(0.5**-2 / size for size in (5, 5, 4)) + (0.5 * STEPS / first.count) ** -2
    assert noise == pytest.approx(precision**-0.5)
    nothing = world.IntegerModel(np.zeros((CODES.size, 1), np.int64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="number of units must be given"):
        world.estimated_units([hear(question_of(CODES.fine, model=nothing), rows, labels, 1.0)])
    with pytest.raises(ValueError, match="asked for labels"):
        world.decode(heard[:1], rows, CODES)


@pytest.mark.parametrize(("public", "units"), [(500, 10**9), (5, 10**7)])
def test_many_units_beside_little_noise_are_decoded(public: int, units: int) -> None:
    """Sums of a field add up alike: noise alone tells them apart, and doubles lose it beside so many units."""
    rows, private = rows_of(public, 1), rows_of(3_000, 2, (0.1, 0.2, 0.3, 0.4))
    labels, scale = labels_of(private, truth(), 3), 0.04 * STEPS
    heard = [
        world.NoisyRound(asked, scale, units // 3_000 * world.tally(asked, private, labels))
        for asked in (question_of(CODES.coarse, least=0, what="codes"), question_of(CODES.coarse))
    ]
    assert np.isfinite(world.decode(heard, rows, CODES).weights).all()

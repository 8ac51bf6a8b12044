"""Repair: public rows unlike the private ones are made like them field by field, and others stay as they are."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.coded import CODES, STEPS, hear, labels_of, question_of, rows_of, truth
from tests.world import (
    CodeMatrix,
    Codes,
    Decoded,
    NumberField,
    RoundPlanner,
    Tallies,
    Totals,
    decode,
    logits,
    next_fields,
    next_model,
    planned_rounds,
    repaired,
    student_prior,
    tally,
    unlike_fields,
)


def totals_of(rows: CodeMatrix, noise: float = 1.0) -> Totals:
    spans = [CODES.span(field) for field in CODES.coarse]
    counted = (
        np.bincount(rows[:, field] - span.start, minlength=span.stop - span.start).astype(np.float64)
        for field, span in zip(CODES.coarse, spans, strict=True)
    )
    return Totals(tuple(counted), noise, float(len(rows)), 1.0)


def shares(rows: CodeMatrix, field: int, codes: Codes = CODES) -> NDArray[np.float64]:
    span = codes.span(field)
    found: NDArray[np.float64] = np.bincount(rows[:, field] - span.start, minlength=span.stop - span.start) / len(rows)
    return found


def older(rows: CodeMatrix) -> CodeMatrix:
    """Those of age 4 and more, and a few others."""
    kept: CodeMatrix = rows[(rows[:, 0] >= 2) | (np.arange(len(rows)) % 20 == 0)]
    return kept


def test_rows_alike_stay_as_they_are() -> None:
    public = rows_of(5000, 1)
    found, moved = repaired(public, CODES, totals_of(rows_of(50_000, 0)), together=True)
    assert moved == 0
    assert np.array_equal(found, public)


def test_a_clear_difference_that_is_small_stays() -> None:
    private, public = rows_of(50_000, 0), rows_of(50_000, 1, cities=(0.415, 0.285, 0.2, 0.1))
    found, moved = repaired(public, CODES, totals_of(private), together=True)
    assert (moved, np.array_equal(found, public)) == (0, True)
    assert repaired(rows_of(50_000, 1, cities=(0.44, 0.26, 0.2, 0.1)), CODES, totals_of(private), together=True)[1] > 0


def test_a_difference_within_the_noise_stays() -> None:
    private, public = rows_of(50_000, 0), older(rows_of(5000, 1))
    assert repaired(public, CODES, totals_of(private, noise=10.0), together=True)[1] > 0.1
    assert repaired(public, CODES, totals_of(private, noise=1e5), together=True)[1] == 0


def test_noise_in_many_codes_repairs_nothing() -> None:
    """One of 300 totals differs by four standard deviations in two releases of a hundred."""
    cuts = tuple(np.arange(1.0, 299))
    field = NumberField(kind="numeric", name="x", start=0, cuts=cuts)
    codes, source = Codes(fields=(field,), coarse=(0,), fine=(0,)), np.random.default_rng(0)
    public = source.integers(0, 300, (30_000, 1)).astype(np.int32)
    for _ in range(200):
        noisy = source.multinomial(30_000, np.full(300, 1 / 300)) + source.normal(0, 30.0, 300)
        found, moved = repaired(public, codes, Totals((noisy,), 30.0, 30_000.0, 0.0), together=True)
        assert (moved, np.array_equal(found, public)) == (0, True)


def test_fields_that_differ_are_made_alike_and_others_left() -> None:
    private, public = rows_of(50_000, 0), older(rows_of(9000, 1, cities=(0.8, 0.0, 0.1, 0.1)))
    found, moved = repaired(public, CODES, totals_of(private), together=True)
    for field in (0, 2):
        assert np.abs(shares(found, field) - shares(private, field)).max() < 1 / len(public) + 1e-9
    assert np.array_equal(found[:, 3], public[:, 3])
    assert moved == pytest.approx(np.mean(found[:, [0, 2, 3]] != public[:, [0, 2, 3]]))


def test_both_views_of_a_number_move_together() -> None:
    found, _ = repaired(older(rows_of(9000, 1)), CODES, totals_of(rows_of(50_000, 0)), together=True)
    assert np.array_equal(found[:, 0], (found[:, 1] - 5) // 2)


def test_codes_that_no_public_row_has_are_found_in_both_views() -> None:
    public = rows_of(9000, 1)
    public = public[public[:, 0] >= 2]
    found, _ = repaired(public, CODES, totals_of(rows_of(50_000, 0)), together=True)
    assert shares(found, 0)[0] == pytest.approx(0.25, abs=0.02)
    assert np.array_equal(found[:, 0], (found[:, 1] - 5) // 2)
    missing = rows_of(50_000, 0)
    missing[:20_000, 0] = 4
    found, _ = repaired(public, CODES, totals_of(missing), together=True)
    assert np.array_equal(found[:, 0] == 4, found[:, 1] == 13)


def test_rows_that_move_in_one_field_move_in_others_first() -> None:
    """They stand for those whom public rows leave out; or, with an order for each field, for nobody in particular."""
    public = older(rows_of(9000, 1, cities=(0.7, 0.1, 0.1, 0.1)))
    found, _ = repaired(public, CODES, totals_of(rows_of(50_000, 0)), together=True)
    age, city = (found[:, field] != public[:, field] for field in (0, 2))
    assert city.mean() == pytest.approx(0.3, abs=0.02)
    assert age.mean() > city.mean()
    assert np.mean(age[city]) > 0.6
    separate, _ = repaired(public, CODES, totals_of(rows_of(50_000, 0)), together=False)
    age, city = (separate[:, field] != public[:, field] for field in (0, 2))
    assert np.mean(age[city]) == pytest.approx(age.mean(), abs=0.05)


def test_it_is_a_function_of_what_was_released() -> None:
    public, totals = older(rows_of(9000, 1)), totals_of(rows_of(50_000, 0))
    first, again = (repaired(public, CODES, totals, together=True)[0] for _ in range(2))
    assert first.tobytes() == again.tobytes()
    empty = Totals(tuple(np.full_like(counted, -5.0) for counted in totals.by_field), 1.0, 50_000.0, 1.0)
    assert repaired(public, CODES, empty, together=True)[0].shape == public.shape  # noise alone


def three_rounds(public: CodeMatrix, *, repair: bool, coarse: bool = True) -> Decoded:
    """`coarse`: fields that were repaired are asked about as their totals are, as `RoundPlanner` does."""
    private = rows_of(60_000, 0)
    labels = labels_of(private, truth(), 2)
    heard = [hear(question_of(CODES.coarse, what="codes"), private, labels, 30.0, 7)] if repair else []
    heard.append(hear(question_of(CODES.coarse), private, labels, 30.0))
    for least, seed in ((STEPS // 4, 1), (STEPS // 20, 2)):
        decoded = decode(heard, public, CODES)
        repaired = unlike_fields(heard, public, CODES, None) if coarse else ()
        fields = next_fields(decoded, CODES, 2, repaired)
        asked = question_of(fields, least=least, model=next_model(decoded))
        heard.append(hear(asked, private, labels, 30.0, seed))
    return decode(heard, public, CODES)


def error_of(decoded: Decoded) -> float:
    """Root mean square of the logits' error on rows like the private ones."""
    fresh = rows_of(5000, 3)
    return float(np.sqrt(np.mean((logits(decoded, fresh) - truth()[fresh].sum(axis=1)) ** 2)))


def test_repair_finds_the_weights_that_shifted_rows_hide() -> None:
    public = older(rows_of(9000, 1, cities=(0.8, 0.05, 0.1, 0.05)))
    missed = {repair: error_of(three_rounds(public, repair=repair)) for repair in (False, True)}
    assert missed[True] < 0.2
    assert missed[True] < missed[False] / 2


def test_rows_that_noise_alone_would_move_stay_as_the_labels_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(student_prior, "CLEARLY", 0.0)
    private, public = rows_of(60_000, 0), rows_of(9000, 1)
    labels = labels_of(private, truth(), 2)
    totals = hear(question_of(CODES.coarse, what="codes"), private, labels, 3000.0, 7)
    by_field = np.split(totals.cells[:, 0], np.cumsum([CODES.fields[at].size for at in CODES.coarse])[:-1])
    assert repaired(public, CODES, Totals(tuple(by_field), totals.noise, 60_000.0, 0.0), together=True)[1] > 0.02
    decoded = decode([totals, hear(question_of(CODES.coarse), private, labels, 30.0)], public, CODES, units=60_000)
    assert decoded.moved == 0


def test_a_field_that_was_repaired_is_asked_about_as_its_totals_are() -> None:
    """Nothing says which of the fine codes within have been left out: to ask of these contradicts what totals say."""
    private, public = rows_of(60_000, 0), rows_of(9000, 1)
    public = public[public[:, 1] < 8]  # the young: of the codes 2 and 3 of age, the coarse code 1, none has 3
    totals = [hear(question_of(CODES.coarse, what="codes"), private, labels_of(private, truth(), 2), 30.0, 7)]
    assert unlike_fields(totals, public, CODES, None) == (0,)
    assert unlike_fields(totals, rows_of(9000, 1), CODES, None) == ()
    missed = {each: error_of(three_rounds(public, repair=True, coarse=each)) for each in (False, True)}
    assert missed[True] < 0.35
    assert missed[True] < 0.9 * missed[False]


def test_a_field_whose_own_rows_are_the_most_of_each_code_is_asked_about_finely() -> None:
    private, public = rows_of(60_000, 0), rows_of(9000, 1, cities=(0.3, 0.4, 0.2, 0.1))
    totals = hear(question_of(CODES.coarse, what="codes"), private, labels_of(private, truth(), 2), 30.0, 7)
    assert repaired(public, CODES, totals_of(private), together=True)[1] > 0.02
    assert unlike_fields([totals], public, CODES, None) == ()


@pytest.mark.parametrize(("oldest", "age"), [(8, 0), (13, 1)])
def test_the_next_round_asks_as_coarsely_as_the_totals_that_it_follows(oldest: int, age: int) -> None:
    private, public = rows_of(60_000, 0), rows_of(9000, 1)
    labels, public = labels_of(private, truth(), 2), public[public[:, 1] < oldest]
    rounds = planned_rounds(classes=2, fields=3, codes=CODES.size, rounds=2)
    planner = RoundPlanner(Tallies.calibrate(epsilon=20, delta=1e-5, classes=2, rounds=rounds), CODES, public)
    released: list[dict[str, Any]] = []
    for each in planner.mechanism.rounds[:2]:
        question = planner.question(released)
        sums = tally(question, private, labels)
        following = planner.follow(released, question, sums)
        released.append({"question": question.record(), "scale": each.scale, "sums": sums.tolist(), **following})
    assert planner.question(released).fields == (age, 2, 3)

"""Repair: public rows unlike the private ones are made like them field by field, and others stay as they are."""

from typing import Any

import numpy as np
import pytest

from tests import world
from tests.support.coded import CODES, STEPS, hear, labels_of, question_of, rows_of, truth

PRIVATE = rows_of(50_000, 0)
AGE, FINE_AGE, CITY, TEAM = range(4)


def totals_of(rows: world.CodeMatrix, noise: float = 1.0) -> world.Totals:
    """The totals of the coarse codes of rows, which noise of that scale is said to be in."""
    return world.Totals(tuple(shares(rows, field) * len(rows) for field in CODES.coarse), noise, float(len(rows)), 1.0)


def shares(rows: world.CodeMatrix, field: int) -> world.Floats:
    """Of the codes of a field."""
    span = CODES.span(field)
    return np.bincount(rows[:, field] - span.start, minlength=span.stop - span.start) / len(rows)


def older(rows: world.CodeMatrix) -> world.CodeMatrix:
    """Those of age 4 and more, and a few others."""
    kept: world.CodeMatrix = rows[(rows[:, AGE] >= 2) | (np.arange(len(rows)) % 20 == 0)]
    return kept


def cities(*odds: float, rows: int = 50_000) -> world.CodeMatrix:
    """Public rows of these cities, where private ones have them by 0.4, 0.3, 0.2 and 0.1."""
    return rows_of(rows, 1, odds)


KEPT: dict[str, tuple[world.CodeMatrix, float]] = {
    "rows alike": (rows_of(5000, 1), 1.0),
    "a clear difference that is small": (cities(0.415, 0.285, 0.2, 0.1), 1.0),
    "a difference within the noise": (older(rows_of(5000, 1)), 1e5),
}
MOVED: dict[str, tuple[world.CodeMatrix, float, set[int]]] = {
    "a larger difference": (cities(0.44, 0.26, 0.2, 0.1), 1.0, {CITY}),
    "a difference beyond the noise": (older(rows_of(9000, 1)), 10.0, {AGE}),
    "two fields": (older(cities(0.8, 0.0, 0.1, 0.1, rows=9000)), 1.0, {AGE, CITY}),
    "codes that no public row has": (rows_of(9000, 1)[rows_of(9000, 1)[:, AGE] >= 2], 1.0, {AGE}),
}
"""Public rows, the scale of the noise in the totals of private ones, and which fields are made alike."""


@pytest.mark.parametrize("what", KEPT)
def test_rows_stay_as_they_are(what: str) -> None:
    public, noise = KEPT[what]
    found, moved = world.repaired(public, CODES, totals_of(PRIVATE, noise), together=True)
    assert (moved, np.array_equal(found, public)) == (0, True)


@pytest.mark.parametrize("what", MOVED)
def test_fields_that_differ_are_made_alike_and_others_left(what: str) -> None:
    """Both views of a number together; and the same again."""
    public, noise, fields = MOVED[what]
    totals = totals_of(PRIVATE, noise)
    found, moved = world.repaired(public, CODES, totals, together=True)
    for field in CODES.coarse:
        if field in fields:
            assert np.abs(shares(found, field) - shares(PRIVATE, field)).max() < 1 / len(public) + 1e-9
        else:
            assert np.array_equal(found[:, field], public[:, field])
    assert np.array_equal(found[:, AGE], (found[:, FINE_AGE] - 5) // 2)
    asked = list(CODES.coarse)
    assert moved == pytest.approx(np.mean(found[:, asked] != public[:, asked]))
    assert world.repaired(public, CODES, totals, together=True)[0].tobytes() == found.tobytes()


def test_missing_cells_are_missing_in_both_views_and_noise_alone_gives_rows() -> None:
    public, private = older(rows_of(9000, 1)), rows_of(50_000, 0)
    private[:20_000, AGE] = 4
    found, _ = world.repaired(public, CODES, totals_of(private), together=True)
    assert np.array_equal(found[:, AGE] == 4, found[:, FINE_AGE] == 13)
    below = world.Totals(tuple(np.full_like(own, -5.0) for own in totals_of(PRIVATE).by_field), 1.0, 50_000.0, 1.0)
    assert world.repaired(public, CODES, below, together=True)[0].shape == public.shape


def test_noise_in_many_codes_repairs_nothing() -> None:
    """One of 300 totals differs by four standard deviations in two releases of a hundred."""
    field = world.NumberField(kind="numeric", name="x", start=0, cuts=tuple(np.arange(1.0, 299)))
    codes, source = world.Codes(fields=(field,), coarse=(0,), fine=(0,)), np.random.default_rng(0)
    public = source.integers(0, 300, (30_000, 1)).astype(np.int32)
    for _ in range(200):
        noisy = source.multinomial(30_000, np.full(300, 1 / 300)) + source.normal(0, 30.0, 300)
        assert world.repaired(public, codes, world.Totals((noisy,), 30.0, 30_000.0, 0.0), together=True)[1] == 0


def test_rows_that_move_in_one_field_move_in_others_first() -> None:
    """They stand for those whom public rows leave out; or, with an order for each field, for nobody in particular."""
    public = older(cities(0.7, 0.1, 0.1, 0.1, rows=9000))
    for together in (True, False):
        found, _ = world.repaired(public, CODES, totals_of(PRIVATE), together=together)
        age, city = (found[:, field] != public[:, field] for field in (AGE, CITY))
        assert city.mean() == pytest.approx(0.3, abs=0.02)
        if together:
            assert np.mean(age[city]) > 0.6 > age.mean() > city.mean()
        else:
            assert np.mean(age[city]) == pytest.approx(age.mean(), abs=0.05)


# In the decoder -------------------------------------------------------------------------------------------------------

PEOPLE = rows_of(60_000, 0)
LABELS = labels_of(PEOPLE, truth(), 2)
TOTALS = hear(question_of(CODES.coarse, what="codes"), PEOPLE, LABELS, 30.0, 7)
YOUNG = rows_of(9000, 1)[rows_of(9000, 1)[:, FINE_AGE] < 8]
"""Of the codes 2 and 3 of age, which are the coarse code 1, no row has 3."""


def three_rounds(public: world.CodeMatrix, totals: list[world.NoisyRound], *, coarse: bool = True) -> world.Decoded:
    """`coarse`: fields that were repaired are asked about as their totals are, as `RoundPlanner` does."""
    heard = [*totals, hear(question_of(CODES.coarse), PEOPLE, LABELS, 30.0)]
    for least, seed in ((STEPS // 4, 1), (STEPS // 20, 2)):
        decoded = world.decode(heard, public, CODES)
        fields = world.next_fields(decoded, CODES, 2, world.unlike_fields(heard, public, CODES, None) if coarse else ())
        asked = question_of(fields, least=least, model=world.next_model(decoded))
        heard.append(hear(asked, PEOPLE, LABELS, 30.0, seed))
    return world.decode(heard, public, CODES)


def error_of(decoded: world.Decoded) -> float:
    """Root mean square of the logits' error on rows like the private ones."""
    fresh = rows_of(5000, 3)
    return float(np.sqrt(np.mean((world.logits(decoded, fresh) - truth()[fresh].sum(axis=1)) ** 2)))


def test_repair_finds_the_weights_that_shifted_rows_hide() -> None:
    public = older(cities(0.8, 0.05, 0.1, 0.05, rows=9000))
    without, repaired_rows = (error_of(three_rounds(public, totals)) for totals in ([], [TOTALS]))
    assert repaired_rows < min(0.2, without / 2)


def test_rows_that_noise_alone_would_move_stay_as_the_labels_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.student_public_rows, "CLEARLY", 0.0)
    public = rows_of(9000, 1)
    totals = hear(question_of(CODES.coarse, what="codes"), PEOPLE, LABELS, 3000.0, 7)
    by_field = np.split(totals.cells[:, 0], np.cumsum([CODES.fields[at].size for at in CODES.coarse])[:-1])
    told = world.Totals(tuple(by_field), totals.noise, 60_000.0, 0.0)
    assert world.repaired(public, CODES, told, together=True)[1] > 0.02
    decoded = world.decode([totals, hear(question_of(CODES.coarse), PEOPLE, LABELS, 30.0)], public, CODES, units=60_000)
    assert decoded.moved == 0


def test_a_field_that_was_repaired_is_asked_about_as_its_totals_are() -> None:
    """Nothing says which of the fine codes within have been left out: to ask of these contradicts what totals say. Of a
    field whose own rows are the most of each code, they do."""
    for public, fields in ((YOUNG, (AGE,)), (rows_of(9000, 1), ()), (cities(0.3, 0.4, 0.2, 0.1, rows=9000), ())):
        assert world.unlike_fields([TOTALS], public, CODES, None) == fields
    coarse, fine = (error_of(three_rounds(YOUNG, [TOTALS], coarse=each)) for each in (True, False))
    assert coarse < min(0.35, 0.9 * fine)


@pytest.mark.parametrize(("public", "age"), [(YOUNG, AGE), (rows_of(9000, 1), FINE_AGE)], ids=["repaired", "alike"])
def test_the_next_round_asks_as_coarsely_as_the_totals_that_it_follows(public: world.CodeMatrix, age: int) -> None:
    rounds = world.planned_rounds(classes=2, fields=3, codes=CODES.size, rounds=2)
    planner = world.RoundPlanner(
        world.calibrated_sums(world.Tallies, epsilon=20, delta=1e-5, classes=2, rounds=rounds), CODES, public
    )
    released: list[dict[str, Any]] = []
    for each in planner.mechanism.rounds[:2]:
        question = planner.question(released)
        sums = world.tally(question, PEOPLE, LABELS)
        following = planner.follow(released, question, sums)
        released.append({"question": question.record(), "scale": each.scale, "sums": sums.tolist(), **following})
    assert planner.question(released).fields == (age, CITY, TEAM)

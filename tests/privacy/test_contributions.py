"""What a unit adds to tallies: to the bit the same in any company, of the norm that is paid for, and planted bugs."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import world

SPANS = ((0, 3), (3, 4), (4, 9))
LAST = SPANS[-1][1]
HUGE = (0, 1, -1, 255, -8192, 8193, 2**31, -(2**31), world.LARGEST_WEIGHT, -world.LARGEST_WEIGHT)


def question(
    classes: int = 2, *, steps: int = 1 << 16, least: int = 0, seed: int | None = 0, **changed: object
) -> world.RoundQuestion:
    """Of all three fields, with a random model, or none."""
    model = None
    if seed is not None:
        weights = np.random.default_rng(seed).integers(-700, 700, (LAST + 1, 1 if classes <= 2 else classes))
        model = world.IntegerModel(weights[1:], weights[0])
    values = {"fields": (0, 1, 2), "spans": SPANS, "model": model, "what": "labels", "count": 77}
    return world.RoundQuestion(**{"classes": classes, "steps": steps, "least": least, **values, **changed})  # type: ignore[arg-type]


def rows_of(size: int, classes: int, seed: int = 1) -> tuple[world.CodeRows, world.Ints]:
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(start, stop, size) for start, stop in SPANS], axis=1).astype(np.int32)
    if not classes:
        return codes, random.integers(-9_999, 75_000, size)  # numbers, some of them beyond 0 and 2^16
    return codes, random.integers(-1, classes + 1, size)  # −1 and `classes` are no class


QUESTIONS = [
    pytest.param(question(2, least=3276), id="two classes"),
    pytest.param(question(2, least=1 << 15, seed=None), id="two classes, first round"),
    pytest.param(question(0, least=3276), id="a number"),
    pytest.param(question(0, least=1 << 15, seed=None), id="a number, first round"),
    pytest.param(question(7, least=2808), id="seven classes"),
    pytest.param(question(7, least=9362, seed=None, count=0), id="seven classes, first round"),
    pytest.param(question(3, what="codes", seed=None, count=0), id="codes"),
    pytest.param(question(2, least=3276, fields=(2, 0), spans=(SPANS[2], SPANS[0])), id="two fields of three"),
]


def by_hand(asked: world.RoundQuestion, codes: world.CodeRows, labels: world.Ints) -> list[int]:
    """One unit's contribution in Python's own whole numbers, cell by cell."""
    model, size, tops = asked.model, asked.columns, np.cumsum([0, *(stop - start for start, stop in asked.spans)])
    sums = [0] * (asked.width * size)
    for row, label in zip(codes.tolist(), labels.tolist(), strict=True):
        logits = [0] * size
        if model is not None:
            logits = [int(model.intercept[k]) + sum(int(model.weights[c, k]) for c in row) for k in range(size)]
        z = hand_residual(asked, logits, label)
        for field, (start, _), top in zip(asked.fields, asked.spans, tops, strict=False):
            for k in range(size):
                sums[(top + row[field] - start) * size + k] += z[k]
    means = [abs(total) // len(codes) * (1 if total > 0 else -1) for total in sums]
    return means + [asked.count] * (asked.count > 0)


def hand_residual(asked: world.RoundQuestion, logits: list[int], label: int) -> list[int]:
    if asked.what == "codes":
        return [asked.steps]
    table, steps, least = world.odds_table().tolist(), asked.steps, asked.least
    if asked.classes <= 2:
        low = steps * table[min(8192, abs(logits[0]))] // (table[0] + table[min(8192, abs(logits[0]))])
        q = steps - low if logits[0] > 0 else low
        vote = steps * (label == 1) if asked.classes else min(max(label, 0), steps)
        return [vote - min(max(q, least), steps - least)]
    odds = [table[min(8192, max(logits) - logit)] for logit in logits]
    rest = steps - asked.classes * least
    return [steps * (label == k) - least - rest * odds[k] // sum(odds) for k in range(asked.classes)]


def test_the_table_is_that_of_another_arithmetic() -> None:
    with localcontext(prec=40):
        each = [int(2**31 * (Decimal(-d) / 256).exp()) for d in range(8193)]
    assert world.odds_table().tolist() == each
    assert hashlib.sha256(np.array(each, "<i8").tobytes()).hexdigest() == world.TABLE_DIGEST


def test_a_table_that_comes_out_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.mechanisms_contributions, "STEPS_A_NAT", 255)
    world.odds_table.cache_clear()
    with pytest.raises(ArithmeticError, match="otherwise"):
        world.odds_table()
    monkeypatch.undo()
    world.odds_table.cache_clear()


units_of = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2**32 - 1)), min_size=1, max_size=40)


@settings(max_examples=15, deadline=None)
@given(
    people=units_of,
    odd=st.tuples(st.integers(1, 70), st.integers(0, 2**32 - 1)),
    at=st.integers(0, 40),
    seed=st.integers(0, 99),
)
@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_sum_with_the_unit_less_the_sum_without_is_its_contribution(
    asked: world.RoundQuestion, people: list[tuple[int, int]], odd: tuple[int, int], at: int, seed: int
) -> None:
    """In any order, however its rows lie among the others'."""
    alone = rows_of(odd[0], asked.classes, odd[1])
    others = [rows_of(rows, asked.classes, each) for rows, each in people]
    company = [*others[:at], alone, *others[at:]]
    names = np.repeat(np.arange(len(company)), [len(labels) for _, labels in company])
    codes, labels = (np.concatenate([part[k] for part in company]) for k in (0, 1))
    order = np.random.default_rng(seed).permutation(len(names))
    left = order[names[order] != min(at, len(others))]
    with_it = world.tally(asked, codes[order], labels[order], names[order])
    without = world.tally(asked, codes[left], labels[left], names[left])
    assert (with_it - without).tobytes() == np.array(by_hand(asked, *alone)).tobytes()
    assert (with_it - without).tobytes() == world.tally(asked, *alone, np.zeros(odd[0], np.int64)).tobytes()


@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize("rows", [1, 2, 5, 63, 1000])
def test_a_unit_summed_in_parts_is_the_same_unit(asked: world.RoundQuestion, rows: int) -> None:
    codes, labels = rows_of(rows, asked.classes)
    whole = world.tally(asked, codes, labels, np.full(rows, 9))
    parts = [slice(start, start + 7) for start in range(0, rows, 7)]
    in_parts = world.unit_mean(
        sum((world.row_sums(asked, codes[p], labels[p]) for p in parts), np.zeros(asked.size, np.int64)), rows
    )
    assert in_parts.tobytes() == whole.tobytes()


def splits(rows: int) -> Iterator[list[slice]]:
    for size in (97, 65_535, 65_536, 65_537):
        if rows / size < 1_000:
            yield [slice(start, start + size) for start in range(0, rows, size)]


@pytest.mark.parametrize("asked", QUESTIONS)
def test_any_blocking_order_layout_and_number_of_threads_gives_the_same_bits(asked: world.RoundQuestion) -> None:
    rows = 66_000
    codes, labels = rows_of(rows, asked.classes)
    whole = world.tally(asked, codes, labels)
    assert whole.dtype == np.int64
    assert (
        world.tally(
            asked, np.asfortranarray(codes), labels.astype(np.uint16) if labels.min() >= 0 else labels
        ).tobytes()
        == whole.tobytes()
    )
    order = np.random.default_rng(2).permutation(rows)
    assert world.tally(asked, codes[order], labels[order]).tobytes() == whole.tobytes()
    assert world.tally(asked, codes, labels, order).tobytes() == whole.tobytes()  # every row a unit by name
    for blocks in splits(rows):
        for threads in (1, 3):
            with ThreadPoolExecutor(threads) as pool:
                sums = list(pool.map(lambda block: world.tally(asked, codes[block], labels[block]), blocks))
            assert sum(sums[::-1], np.zeros_like(whole)).tobytes() == whole.tobytes()


def test_a_sum_in_floats_is_rejected() -> None:
    """Planted bug 1: float32 sums, whose last bits depend on the company."""
    asked = question(2, least=3276)
    codes, labels = rows_of(5_000, 2)

    def floats(rows: slice) -> world.Floats:
        thirds = world.residuals(asked, codes[rows], labels[rows])[:, 0] / (3.0 * asked.steps)
        return np.bincount(codes[rows, 0], thirds, 3).astype(np.float64)

    assert (floats(slice(0, None)) - floats(slice(1, None))).tobytes() != floats(slice(0, 1)).tobytes()


def norm(contribution: world.Ints) -> int:
    return sum(int(value) ** 2 for value in contribution)


def worst_model(logits: tuple[int, ...]) -> world.IntegerModel:
    return world.IntegerModel(np.zeros((LAST, len(logits)), np.int64), np.array(logits, np.int64))


GRIDS = [
    (2, 2, 1),
    (2, 7, 3),
    (2, 65_536, 0),
    (2, 65_536, 3276),
    (0, 2, 1),
    (0, 7, 3),
    (0, 65_536, 0),
    (0, 65_536, 32_768),
    (3, 5, 1),
    (3, 10, 0),
    (3, 65_536, 6553),
    (7, 65_536, 9362),
]


@pytest.mark.parametrize(("classes", "steps", "least"), GRIDS)
def test_no_row_passes_the_norm_that_is_paid_for_and_one_reaches_it(classes: int, steps: int, least: int) -> None:
    bound, found = world.row_square(classes, steps, "labels", least), 0
    for logits in product(HUGE, repeat=1 if classes <= 2 else min(classes, 3)):
        full = logits if classes <= 2 else (*logits, *([0] * (classes - len(logits))))
        asked = question(classes, steps=steps, least=least, model=worst_model(full))
        labels = (
            np.arange(-1, classes + 1) if classes else np.array([-9, 0, 1, steps // 2, steps - 1, steps, 2 * steps])
        )
        z = world.residuals(asked, np.tile(np.array([[0, 3, 4]], np.int32), (len(labels), 1)), labels)
        found = max(found, *(norm(row) for row in z))
    assert found == bound


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1, 256, 8192, 2**20, world.LARGEST_WEIGHT]),
    grid=st.sampled_from(GRIDS),
    rows=st.integers(1, 40),
)
def test_the_norm_holds_for_odd_models_and_units(seed: int, scale: int, grid: tuple[int, int, int], rows: int) -> None:
    classes, steps, least = grid
    random = np.random.default_rng(seed)
    weights = random.integers(-scale, scale + 1, (LAST + 1, 1 if classes <= 2 else classes))
    asked = question(classes, steps=steps, least=least, model=world.IntegerModel(weights[1:], weights[0]))
    codes, labels = rows_of(rows, classes, seed)
    bound = 3 * world.row_square(classes, steps, "labels", least)
    assert max(norm(z) for z in world.residuals(asked, codes, labels)) * 3 <= bound
    assert norm(world.tally(asked, codes, labels, np.zeros(rows, np.int64))[:-1]) <= bound
    assert world.expected(asked, codes).min() >= least
    assert world.expected(asked, codes).max() <= steps - ((classes or 2) - 1) * least


def test_a_mean_rounded_down_is_rejected() -> None:
    """Planted bug 2: floor division carries a cell beyond its mean, here of nine rows of label 0 in as many cells."""
    asked = world.RoundQuestion(classes=2, steps=2, what="labels", least=1, count=0, fields=(0,), spans=((0, 9),))
    sums = world.row_sums(asked, np.arange(9, dtype=np.int32)[:, None], np.zeros(9, np.int64))
    assert norm(world.unit_mean(sums, 9)) <= world.row_square(2, 2, "labels", 1) < norm(sums // 9)


def test_a_model_that_is_not_held_within_its_least_is_rejected() -> None:
    """Planted bug 3: what the model expects is not clipped."""
    asked = question(2, least=16_384, model=worst_model((2000,)))
    z = world.residuals(asked, np.array([[0, 3, 4]], np.int32), np.array([0]))
    unheld = world.residuals(replace(asked, least=0), np.array([[0, 3, 4]], np.int32), np.array([0]))
    assert norm(z[0]) <= world.row_square(2, asked.steps, "labels", 16_384) < norm(unheld[0])


def test_a_number_that_is_not_held_within_its_bounds_is_rejected() -> None:
    """Planted bug 6: a number beyond a bound counts as it is, as one odd row of a table might have it."""
    asked, codes = question(0, least=1 << 15, seed=None), np.array([[0, 3, 4]], np.int32)
    odd = np.array([asked.steps + 1])
    unheld = odd - world.expected(asked, codes)[:, 0]
    bound = world.row_square(0, asked.steps, "labels", 1 << 15)
    assert norm(world.residuals(asked, codes, odd)[0]) == bound < norm(unheld)


def test_rounding_after_the_bound_is_rejected() -> None:
    """Planted bug 4: what a model expects is rounded up, so that together it is more than the rest."""
    bound = world.row_square(3, 4, "labels", 1)
    codes = np.array([[0, 3, 4]], np.int32)
    asked = question(3, steps=4, least=1)
    asked = replace(asked, model=worst_model((0, 0, -8192)))
    odds = world.odds_table()[[0, 0, 8192]]
    rounded_up = np.array([0, 0, 4]) - (1 - -odds // odds.sum())
    assert norm(world.residuals(asked, codes, np.array([2]))[0]) <= bound < norm(rounded_up)


def test_a_sum_of_32_bits_is_rejected() -> None:
    """Planted bug 5: int32 wraps after 2^15 rows of 2^16 steps."""
    asked = question(2, what="codes", seed=None, count=0)
    codes = np.tile(np.array([[0, 3, 4]], np.int32), (40_000, 1))
    sums = world.tally(asked, codes, np.zeros(40_000, np.int64))
    assert sums.max() == 40_000 * asked.steps
    assert (
        world.residuals(asked, codes, np.zeros(40_000, np.int64)).astype(np.int32).sum(dtype=np.int32)
        != 40_000 * asked.steps
    )


WRONG = [
    ({"spans": ((0, 3), (2, 4), (4, 9))}, "share a code"),
    ({"spans": ((0, 3), (3, 3), (4, 9))}, "must not be empty"),
    ({"fields": (0, 0, 1)}, "distinct fields"),
    ({"fields": (), "spans": ()}, "distinct fields"),
    ({"fields": (0, 1)}, "distinct fields"),
    ({"least": 40_000}, "classes"),
    ({"steps": 1}, "2 to 2"),
    ({"classes": 3}, "a weight for every code"),
    ({"what": "codes"}, "a weight for every code"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG)
def test_a_question_whose_norm_is_another_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        question(**({"model": question().model} | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "weights", [np.zeros((9, 1)), np.full((9, 1), 2 * world.LARGEST_WEIGHT), np.zeros(9, np.int64)]
)
def test_a_model_that_could_overflow_is_refused(weights: world.Ints) -> None:
    with pytest.raises(ValueError, match="weights"):
        world.IntegerModel(weights, np.zeros(1, np.int64))


def test_a_code_outside_its_span_is_never_put_in_another_fields_cell() -> None:
    """The planted bug of an encoder: its code counts as the nearest of its field, so no unit adds more than it may."""
    for units, (code, nearest) in product((None, np.zeros(2, np.int64)), ((3, 2), (-1, 0), (9, 2))):
        codes, meant = (np.array([[0, 3, 4], [at, 3, 4]], np.int32) for at in (code, nearest))
        asked, labels = question(2, least=1 << 15), np.zeros(2, np.int64)
        assert world.tally(asked, codes, labels, units).tolist() == world.tally(asked, meant, labels, units).tolist()


def test_a_row_more_than_there_are_labels_is_refused() -> None:
    """The planted bug of an encoder that doubles a row."""
    codes = np.array([[0, 3, 4], [0, 3, 4]], np.int32)
    for units in (None, np.zeros(1, np.int64)):
        with pytest.raises(ValueError, match="each row"):
            world.tally(question(2, least=1 << 15), codes, np.zeros(1, np.int64), units)


@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_question_is_read_back_to_the_bit(asked: world.RoundQuestion) -> None:
    again = world.RoundQuestion.from_record(asked.record())
    assert again.record() == asked.record()
    if asked.model is not None:
        assert again.model is not None
        assert again.model.weights.tobytes() == asked.model.weights.tobytes()
        assert again.model.digest == asked.model.digest
    codes, labels = rows_of(100, asked.classes)
    assert world.tally(again, codes, labels).tobytes() == world.tally(asked, codes, labels).tobytes()

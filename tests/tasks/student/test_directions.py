"""Cross tables of public rows and the sample they are of, by its codes alone, in any order; and directions of wide
tables: the algebra they rest on, and a model that is nearly the one of all codes.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tests import world
from tests.support.coded import CODES, one_hot, rows_of

# Cross tables ---------------------------------------------------------------------------------------------------------


def shuffled(rows: world.CodeMatrix, seed: int) -> world.CodeMatrix:
    found: world.CodeMatrix = rows[np.random.default_rng(seed).permutation(len(rows))]
    return found


def cells_of(rows: world.CodeMatrix) -> pl.DataFrame:
    """Cells that have these codes."""
    cities, teams = np.array(["Rome", "Oslo", "Lima", "Bern"]), np.array(["a", "b"])
    cells = {"age": rows[:, 1] - 5.0, "city": cities[rows[:, 2] - 14], "team": teams[rows[:, 3] - 19]}
    return pl.DataFrame(cells, schema={"age": pl.Float64, "city": pl.String, "team": pl.String})


def test_tables_are_those_of_one_hot_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of rows add up."""
    monkeypatch.setattr(world.student_public_rows, "CHUNK", 7)
    crossed, rows = world.CrossedRows.of(rows_of(500, 0), CODES)
    hot, values = one_hot(rows), np.random.default_rng(1).normal(size=(3, len(rows)))
    assert len(rows) < 500 == crossed.counts.sum()
    for value, table in zip(values, crossed.tables(list(values)), strict=True):
        weighed = crossed.counts * value
        assert np.allclose(table, hot.T @ (weighed[:, None] * hot))
        assert np.allclose(crossed.totals(value), hot.T @ weighed)
    weights = np.random.default_rng(2).normal(size=crossed.size)
    assert np.allclose(crossed.logits(weights), hot @ weights)


@pytest.mark.parametrize("most", [1, 999, 5000])
def test_a_sample_follows_from_the_rows_and_not_from_their_order(most: int) -> None:
    rows = rows_of(1000, 0)
    found = world.sampled_pairs(rows, CODES, most)
    assert len(found) == min(most, 1000)
    for seed in range(3):
        other = shuffled(rows, seed)
        assert np.array_equal(world.sampled_pairs(other, CODES, most), found)
        parts = np.array_split(other, [0, 3, 400])
        assert np.array_equal(world.sampled_of(parts, cells_of, CODES, most), found)
    assert np.array_equal(world.sampled_pairs(found, CODES, most), found)


def test_rows_are_in_the_sample_as_often_as_among_all() -> None:
    rows = np.concatenate([rows_of(900, 0), np.tile(rows_of(1, 5), (900, 1))])
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    found = world.sampled_pairs(rows, CODES, 300)
    for kind, count in zip(kinds, counts, strict=True):
        assert abs(int((found == kind).all(axis=1).sum()) - count / 6) <= 1


# Directions -----------------------------------------------------------------------------------------------------------

STEPS = 1 << 16
NUMBERS, BINS = 4, (4, 12)


def codes_of(numbers: int, constant: bool = False) -> world.Codes:
    """Numbers of 4 and of 12 intervals, a word, and if `constant` a number that all rows have in one interval."""
    fields, start = list[world.NumberField | world.WordField](), 0
    for at in range(numbers + constant):
        for bins in BINS:
            cuts = tuple((np.arange(1, bins) / bins + 2.0 * (at == numbers)).tolist())
            fields.append(world.NumberField(kind="numeric", name=f"x{at}", start=start, cuts=cuts))
            start += fields[-1].size
    fields.append(world.WordField(name="word", start=start, words=("a", "b")))
    pairs = [(at, at + 1) for at in range(0, len(fields) - 1, 2)]
    last = len(fields) - 1
    coarse, fine = ([*(pair[side] for pair in pairs), last] for side in (0, 1))
    return world.Codes(fields=tuple(fields), coarse=tuple(coarse), fine=tuple(fine))


def drawn(codes: world.Codes, rows: int, seed: int) -> tuple[world.CodeMatrix, NDArray[np.int64]]:
    """Codes of rows, and labels by the first number and the word."""
    rng = np.random.default_rng(seed)
    numbers, words = rng.random((rows, len(codes.fine) - 1)), rng.integers(0, 3, rows)
    found = np.empty((rows, codes.width), np.int32, order="F")
    for at, field in enumerate(codes.fields):
        if isinstance(field, world.NumberField):
            found[:, at] = field.start + np.searchsorted(field.cuts, numbers[:, at // 2], side="right")
        else:
            found[:, at] = codes.fields[at].start + words
    score = 4 * (numbers[:, 0] - 0.5) + (words == 0) - 0.3
    return found, (rng.logistic(size=rows) < score).astype(np.int64)


def heard(
    codes: world.Codes, rows: world.CodeMatrix, labels: NDArray[np.int64], asked: Sequence[int], scale: float
) -> world.NoisyRound:
    spans = tuple((codes.span(at).start, codes.span(at).stop) for at in asked)
    question = world.RoundQuestion(
        classes=2, steps=STEPS, what="labels", least=STEPS // 2, count=0, fields=tuple(asked), spans=spans, model=None
    )
    noise = np.random.default_rng(7).normal(scale=scale * STEPS, size=question.size).round().astype(np.int64)
    return world.NoisyRound(question, scale * STEPS, world.tally(question, rows, labels) + noise)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is wide, and has all of its directions."""
    monkeypatch.setattr(world.student_directions, "WIDE", 0)


def directions_of(
    codes: world.Codes, rows: world.CodeMatrix, rounds: Sequence[world.NoisyRound]
) -> tuple[world.Directions, world.CodeMatrix]:
    crossed, own = world.CrossedRows.of(rows, codes)
    return world.Directions.of([each.question for each in rounds], rounds[0].by_field, crossed, codes), own


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("later", [None, (1,)])
def test_sums_along_directions_are_those_of_rows_along_them(
    monkeypatch: pytest.MonkeyPatch, later: Sequence[int] | None
) -> None:
    """Whatever a row adds to the codes that were asked about, it adds as much along the directions, and noise stays
    independent; a field that was asked about in both views keeps all codes; blocks of rows add up."""
    monkeypatch.setattr(world.student_public_rows, "CHUNK", 97)
    codes = codes_of(NUMBERS)
    public, labels = drawn(codes, 300, 0)
    rounds = [heard(codes, public, labels, asked, 1.0) for asked in (codes.coarse, later) if asked is not None]
    along, own = directions_of(codes, public, rounds)
    assert isinstance(along.rows, world.ReducedRows)
    assert [kept is None for kept in along.kept] == [later is not None and at == 0 for at in range(len(along.kept))]
    eye = np.eye(along.rows.size)
    rows = np.stack([along.rows.logits(part) for part in eye], axis=1)  # of each row along each direction
    value = np.random.default_rng(1).normal(size=len(rows))
    weighed = (value * along.rows.counts)[:, None]
    assert np.allclose(along.rows.tables([value])[0], rows.T @ (weighed * rows))
    assert np.allclose(along.rows.totals(value), rows.T @ weighed[:, 0])
    for each in rounds:
        asked = world.decode_measured(each, world.guess_of(each.question, own), codes, 0)
        found = along.measured(each.question, asked)
        hot = np.column_stack(
            [np.eye(codes.fields[at].size)[own[:, at] - codes.span(at).start] for at in each.question.fields]
        )
        by = np.stack(
            [
                along.measured(each.question, type(asked)(asked.view, asked.guess, one, 1.0)).sums
                for one in np.eye(hot.shape[1])
            ],
            axis=1,
        )  # Qᵀ, cell by cell
        assert np.allclose(by @ by.T, np.eye(len(by)))
        assert np.allclose(hot @ by.T, rows @ found.view.toarray().T)
        assert np.allclose(found.sums, by @ asked.sums)


@pytest.mark.parametrize(("asked", "alike"), [("coarse", 0.99), ("fine", 0.995)])
def test_along_all_directions_the_model_is_nearly_the_one_of_all_codes(
    monkeypatch: pytest.MonkeyPatch, asked: str, alike: float
) -> None:
    """With codes of their own, the prior tells weights within a queried code apart; directions have one for all."""
    codes = codes_of(NUMBERS, constant=True)
    private, labels = drawn(codes, 5_000, 1)
    public, _ = drawn(codes, 3_000, 2)
    rounds = [heard(codes, private, labels, getattr(codes, asked), 20.0)]
    found = list[NDArray[np.float64]]()
    for limit in (1024, 0):
        monkeypatch.setattr(world.student_directions, "WIDE", limit)
        found.append(world.logits(world.decode(rounds, public, codes, units=5_000), public)[:, 0])
    assert found[0].std() > 0.5
    assert np.corrcoef(found[0], found[1]).min() > alike
    assert np.abs(found[0] - found[1]).mean() < 0.1 * found[0].std()


def test_columns_whose_sums_stand_out_have_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.student_directions, "WIDE", 0)
    monkeypatch.setattr(world.student_directions, "COLUMNS", 2)
    monkeypatch.setattr(world.student_directions, "MOST", 2)
    codes = codes_of(NUMBERS)
    public, labels = drawn(codes, 3_000, 0)
    along = directions_of(codes, public, [heard(codes, public, labels, codes.coarse, 1.0)])[0]
    assert [part.shape[1] for part in along.kept if part is not None] == [1, 0, 0, 0, 1]  # those that labels follow
    decoded = world.decode([heard(codes, public, labels, codes.coarse, 1.0)], public, codes, units=3_000)
    assert np.flatnonzero(decoded.importance).tolist() == [1, len(codes.fields) - 1]


@pytest.mark.usefixtures("wide")
def test_fields_of_several_columns_are_decoded_in_a_wide_table_too() -> None:
    """A round about pairs is not the first about labels: without their sums, the last round of a paid session failed.
    Of all numbers together every cell is kept."""
    codes = codes_of(NUMBERS)
    public, labels = drawn(codes, 3_000, 0)
    scores = np.random.default_rng(3).integers(-world.LARGEST_LEVEL, world.LARGEST_LEVEL, (len(public), NUMBERS))
    codes = codes.with_joined(scores, public, [f"x{at}" for at in range(NUMBERS)], 8)
    codes = world.with_pairs(codes, public, 4, [(codes.fine[0], codes.fine[1])])
    public, (joined, pair) = codes.completed(public), codes.derived
    rounds = [heard(codes, public, labels, fields, 1.0) for fields in ([joined], codes.coarse, [pair])]
    decoded = world.decode(rounds, public, codes, units=3_000)
    assert np.isfinite(decoded.weights).all()
    assert ((world.logits(decoded, public)[:, 0] > 0) == labels).mean() > 0.7
    sums = rounds[0].by_field | rounds[1].by_field | rounds[2].by_field
    along = world.Directions.of([each.question for each in rounds], sums, world.CrossedRows.of(public, codes)[0], codes)
    assert [part is None for part in along.kept] == [False] * len(codes.fine) + [True, False]

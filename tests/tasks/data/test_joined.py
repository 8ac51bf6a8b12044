"""All numbers together: the nearest centre in whole numbers, alone as in company, and whether public rows cluster."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests import world
from tests.support.clusters import COLUMNS, permuted
from tests.support.clusters import clustered as rows_in_clusters
from tests.support.students import codes_of, drawn_model, encoding_of

PUBLIC = rows_in_clusters(1_200, 5).drop("outcome")
ENCODING = encoding_of(PUBLIC)
CODES = world.learn_codes([world.cast_rows(PUBLIC, ENCODING)], ENCODING.columns, coarse=8, joined=60)


def joined_field(codes: world.Codes = CODES) -> world.JoinedField:
    assert codes.joined is not None
    field = codes.fields[codes.joined]
    assert isinstance(field, world.JoinedField)
    return field


# The nearest centre ---------------------------------------------------------------------------------------------------


def by_hand(field: world.JoinedField, codes: Sequence[int]) -> int:
    """In Python's whole numbers, one centre after another."""
    levels = [of_column[code] for of_column, code in zip(field.levels, codes, strict=True)]
    pairs = (zip(levels, centre, strict=True) for centre in field.points.tolist())
    away = [sum((level - at) ** 2 for level, at in pair) for pair in pairs]
    return field.start + away.index(min(away))


@st.composite
def fields(draw: st.DrawFn) -> tuple[world.JoinedField, np.ndarray]:
    """Any levels and centres, of which several are nearest or nearly so, and codes (columns, rows)."""
    rng, far = np.random.default_rng(draw(st.integers(0, 1 << 30))), draw(st.sampled_from([1, 5, world.LARGEST_LEVEL]))
    columns, cells, size, rows = draw(st.tuples(*(st.integers(1, most) for most in (70, 40, 12, 300))))

    def levels_of(*shape: int) -> world.Ints:
        """Any, or two far apart and those beside them, so that distances differ by single steps."""
        near_two = rng.choice([-far, far], shape) + rng.integers(-1, 2, shape)
        return rng.integers(-far, far + 1, shape) if spread else near_two

    spread = draw(st.booleans())
    levels, centres = levels_of(columns, size).clip(-far, far), levels_of(cells, columns)
    moved = rng.integers(-1, 2, (cells, columns)) * (rng.random((cells, columns)) < 1 / columns)
    close = centres[rng.integers(0, cells, cells)] + moved
    centres = np.concatenate([centres, close]).clip(-far, far)
    field = world.JoinedField(
        start=draw(st.integers(0, 1 << 20)),
        columns=tuple(range(columns)),
        levels=tuple(map(tuple, levels.tolist())),
        centres=world.written(centres),
    )
    return field, rng.integers(0, size, (columns, rows))


def check_cells(
    case: tuple[world.JoinedField, np.ndarray], cells: Callable[[world.JoinedField, np.ndarray], world.Ints]
) -> None:
    """They are the first nearest ones, and a row's is the same alone as in company."""
    field, codes = case
    together = cells(field, codes)
    assert np.array_equal(together, [by_hand(field, row) for row in codes.T.tolist()])
    assert np.array_equal(together, [int(cells(field, codes[:, [at]])[0]) for at in range(codes.shape[1])])


@settings(max_examples=60)
@given(fields())
def test_a_row_has_the_first_nearest_centre_alone_as_in_company(case: tuple[world.JoinedField, np.ndarray]) -> None:
    check_cells(case, lambda field, codes: np.asarray(field.of(list(codes)), np.int64))


def in_floats(field: world.JoinedField, codes: np.ndarray) -> world.Ints:
    """Planted: distances in single precision."""
    features = np.column_stack([np.array(of)[code] for of, code in zip(field.levels, codes, strict=True)])
    points = field.points.astype(np.float32)
    away = (points**2).sum(axis=1) - 2 * features.astype(np.float32) @ points.T
    return np.asarray(field.start + away.argmin(axis=1), np.int64)


def last_of_equals(field: world.JoinedField, codes: np.ndarray) -> world.Ints:
    """Planted: of equals, the last."""
    features = np.column_stack([np.array(of)[code] for of, code in zip(field.levels, codes, strict=True)])
    return np.asarray(field.start + field.size - 1 - world.nearest(features, field.points[::-1]), np.int64)


def less_the_mean(field: world.JoinedField, codes: np.ndarray) -> world.Ints:
    """Planted: levels less their mean over the rows that happen to be there."""
    features = np.column_stack([np.array(of)[code] for of, code in zip(field.levels, codes, strict=True)])
    return np.asarray(
        field.start + world.nearest(features - features.mean(axis=0).astype(np.int64), field.points), np.int64
    )


@pytest.mark.parametrize("planted", [in_floats, last_of_equals, less_the_mean])
def test_planted_faults_are_found(planted: Callable[[world.JoinedField, np.ndarray], world.Ints]) -> None:
    with pytest.raises(AssertionError):  # noqa: PT012, since the search is what fails

        @settings(max_examples=300, phases=[Phase.generate])  # one case in 15 shows the first
        @given(fields())
        def holds(case: tuple[world.JoinedField, np.ndarray]) -> None:
            check_cells(case, planted)

        holds()


def test_a_row_of_the_table_is_by_hand_what_it_is_by_its_codes() -> None:
    """Missing numbers have the level 0; codes that are completed are those that are learned of cells."""
    holes = PUBLIC.head(200).with_columns(
        pl.when(pl.int_range(pl.len()) % (3 + at) == 0).then(None).otherwise(pl.col(name)).alias(name)
        for at, name in enumerate(COLUMNS)
    )
    rows, field = CODES.of(world.cast_rows(holes, ENCODING)), joined_field()
    assert all(levels[-1] == 0 for levels in field.levels)
    due = [by_hand(field, row) for row in np.column_stack(CODES.within(rows, field.columns)).tolist()]
    assert rows[:, CODES.joined].tolist() == due
    assert np.array_equal(CODES.completed(rows[:, :-1]), rows)
    assert np.array_equal(CODES.of_raw(holes, ENCODING.columns), rows)
    assert len(set(due)) > 20


@pytest.mark.parametrize("paired", [False, True])
def test_the_student_reads_a_row_as_its_codes_say(paired: bool) -> None:
    codes = codes_of(PUBLIC, ENCODING, paired=paired, together=True)
    model = drawn_model(codes, 1)
    due = world.scores(model, codes.of(world.cast_rows(PUBLIC, ENCODING)))
    assert np.array_equal(world.linear_student(model, ENCODING, codes).predict_proba(PUBLIC), due)


def test_fields_that_do_not_fit_their_codes_are_refused() -> None:
    field = joined_field()
    for changes in (
        {"columns": field.columns[:-1]},
        {"levels": (*field.levels[:-1], (*field.levels[-1], 0))},
        {"centres": world.written(np.array([[world.LARGEST_LEVEL + 1] * 4]))},
        {"centres": ""},
    ):
        with pytest.raises(ValueError, match="level"):
            world.Codes(
                fields=(*CODES.fields[:-1], world.JoinedField(**{**dict(field), **changes})),
                coarse=CODES.coarse,
                fine=CODES.fine,
            )


# The rule -------------------------------------------------------------------------------------------------------------


def ratio_of(rows: pl.DataFrame, encoding: world.Encoding = ENCODING) -> float | None:
    return world.unclustered(world.cast_rows(rows, encoding), encoding.columns)


def test_numbers_are_joined_if_public_rows_cluster() -> None:
    apart, by_chance = ratio_of(PUBLIC), ratio_of(permuted(PUBLIC, 6))
    assert apart is not None
    assert by_chance is not None
    assert apart < 0.2 < world.CLUSTERED < 0.9 < by_chance < 1.1
    assert all(world.clustered(ratio, 20) for ratio in (apart, 0.6))
    assert not any(world.clustered(ratio, 20) for ratio in (0.61, by_chance, None))
    assert [world.clustered(world.CLUSTERED, columns) for columns in (2, 20, 23, 100)] == [True] * 4
    assert [world.clustered(0.92, columns) for columns in (2, 4, 5, 100)] == [True, True, False, False]
    assert all(world.clustered(round(world.most_ratio(columns), 2), columns) for columns in range(2, 40))
    assert ratio_of(PUBLIC.head(world.LEAST_ROWS - 1)) is None
    assert ratio_of(PUBLIC, encoding_of(PUBLIC.drop(COLUMNS[:3]))) is None
    assert (
        world.joinable(encoding_of(PUBLIC.with_columns(pl.lit(1.5).alias(name) for name in COLUMNS[:3])).columns) == []
    )


def test_r_is_the_same_of_a_sample_that_is_taken_at_once_and_twice() -> None:
    """As `concord plan` takes it, and as codes are learned."""
    rows = world.cast_rows(rows_in_clusters(20_000, 9).drop("outcome"), ENCODING)
    assert world.unclustered(rows, ENCODING.columns) == world.unclustered(rows.gather_every(2), ENCODING.columns)


def test_codes_of_columns_are_the_same_to_the_byte_where_numbers_are_not_joined() -> None:
    rows = [world.cast_rows(permuted(PUBLIC, 6), ENCODING)]
    alone = world.learn_codes(rows, ENCODING.columns, coarse=8)
    assert world.learn_codes(rows, ENCODING.columns, coarse=8, joined=60) == alone
    assert "joined" not in alone.model_dump_json()
    both, columns = CODES, world.learn_codes([world.cast_rows(PUBLIC, ENCODING)], ENCODING.columns, coarse=8)
    assert both.fields[: columns.width] == columns.fields
    assert (both.coarse, both.fine) == (columns.coarse, columns.fine)


def test_scores_are_clipped_whole_and_0_if_missing() -> None:
    numbers = world.joinable(ENCODING.columns)
    odd = PUBLIC.head(4).with_columns(height=pl.Series([1e99, -1e99, None, numbers[0].mean]))
    scores = world.public_scores(world.cast_rows(odd, ENCODING), numbers)[:, 0]
    assert scores.tolist() == [world.LARGEST_LEVEL, -world.LARGEST_LEVEL, 0, 0]

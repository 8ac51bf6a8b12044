"""Codes: by hand, one of each field for any cell, the same for every frame; what is learned is of public rows alone."""

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests import world


def public(rows: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.where(rng.random(rows) < 0.3, 0.0, rng.normal(40, 10, rows))
    return pl.DataFrame(
        {
            "age": pl.Series(age).set(pl.Series(rng.random(rows) < 0.1), None),
            "city": rng.choice(["Rome", "Oslo", "Lima", "Bonn"], rows, p=[0.6, 0.3, 0.095, 0.005]),
        }
    )


def learned(rows: pl.DataFrame, *cuts: int, coarse: int = 8) -> world.Codes:
    columns = [world.learn_column(rows, "age", "numeric"), world.learn_column(rows, "city", "categorical")]
    frames = [rows[first:last] for first, last in itertools.pairwise((0, *cuts, rows.height))]
    return world.learn_codes(frames, columns, coarse=coarse)


def cuts_of(numbers: world.Floats, bins: int, *, tails: bool = False) -> tuple[float, ...]:
    return world.interval_cuts(*np.unique(numbers, return_counts=True), len(numbers), bins, tails)


def test_codes_in_one_range_are_refused() -> None:
    """They would make the norm of a row up to F, where √F is paid for."""
    number = world.NumberField(kind="numeric", name="a", start=0, cuts=(1.0,))
    for start in (0, 2, 4):
        with pytest.raises(ValidationError, match="must start at 3"):
            world.Codes(fields=(number, number.model_copy(update={"start": start})), coarse=(0, 1), fine=(0, 1))
    with pytest.raises(ValidationError, match="must be fields 0 to 0"):
        world.Codes(fields=(number,), coarse=(0,), fine=(1,))


@given(st.lists(st.floats(-5, 5) | st.sampled_from([0.0, -0.0, 1.0]), max_size=60), st.sampled_from([1, 2, 4, 8]))
def test_finer_bins_only_cut_further_and_divided_tails_only_the_outermost_bins(numbers: list[float], bins: int) -> None:
    given = np.array(numbers)
    wide, narrow = (cuts_of(given, each) for each in (bins, 4 * bins))
    assert set(wide) <= set(narrow)
    assert list(narrow) == sorted(set(narrow))
    if bins > 1:
        divided = cuts_of(given, bins, tails=True)
        assert set(wide) <= set(divided) <= set(narrow)
        assert len(divided) <= len(wide) + 4


def test_tails_are_divided_into_a_half_and_two_quarters() -> None:
    numbers = np.arange(1600.0)
    counts = np.bincount(np.searchsorted(cuts_of(numbers, 4, tails=True), numbers, side="right"))
    assert counts.tolist() == [100, 100, 200, 400, 400, 200, 100, 100]


def test_frequent_values_are_codes_alone_and_the_rest_are_quantiles() -> None:
    numbers = np.concatenate([np.zeros(500), np.arange(1.0, 401.0), np.full(200, 200.5)])
    cuts = cuts_of(numbers, 4)
    assert cuts == (1.0, 101.0, 200.5, 201.0, 301.0)
    counts = np.bincount(np.searchsorted(np.array(cuts), numbers, side="right"))
    assert counts.tolist() == [500, 100, 100, 200, 100, 100]


def test_what_is_learned_does_not_depend_on_frames() -> None:
    rows = public(2000)
    whole = learned(rows)
    assert learned(rows, 1, 700, 701) == whole
    assert learned(rows, 1999).digest == whole.digest
    words = whole.fields[-1]
    assert isinstance(words, world.WordField)
    assert words.words == ("Rome", "Oslo", "Lima")  # the rare word is one of the others
    assert (whole.coarse, whole.fine) == ((0, 2), (1, 2))
    assert [field.size for field in whole.fields] == [8 + 1 + 1, 32 + 1 + 1, 3 + 2]  # zero, and a missing cell


@pytest.mark.parametrize(("numbers", "bins", "words"), [(1, 32, 20), (60, 32, 20), (100, 16, 20), (400, 4, 10)])
def test_a_wide_table_has_fewer_bins_and_only_its_most_frequent_words(numbers: int, bins: int, words: int) -> None:
    """Decoding takes as long as the third power of the codes: 300 columns of 32 bins took 9 GB and minutes."""
    rows = pl.DataFrame({f"n{at}": np.arange(500.0) + at for at in range(numbers)} | {"w": few_and_many()})
    number: dict[str, Any] = {"kind": "numeric", "mean": 0, "scale": 1, "fill": 0, "low": 0, "high": 999}
    columns = [world.Scaled(name=name, missing=False, **number) for name in rows.columns[:-1]]
    codes = world.learn_codes([rows], [*columns, world.OneHot(name="w", vocabulary=(), missing=False)], coarse=16)
    assert {(codes.fields[a].size, codes.fields[b].size) for a, b in zip(codes.coarse, codes.fine, strict=True)} == {
        (min(16, bins) + 1, bins + 1),
        (words + 2, words + 2),
    }


def few_and_many() -> list[str]:
    """Ten words of 8 % of the rows each, and ten rarer ones of 2 %."""
    return [f"often {at % 10}" if at < 400 else f"rarely {at % 10}" for at in range(500)]


def test_larger_epsilon_affords_more_bins() -> None:
    assert (world.coarse_bins(0.1), world.coarse_bins(0.99), world.coarse_bins(1.0)) == (8, 8, 16)


def test_columns_without_a_value_are_left_out_and_vectors_have_one_field() -> None:
    image = pl.Series([[1, 2]] * 60 + [[9, 9]] * 40, dtype=pl.Array(pl.UInt8, 2))
    rows = public(100).with_columns(image=image)
    columns = (world.Passed(name="image", element="uint8", size=2), world.Empty(name="nothing"))
    plain = world.learn_column(rows, "age", "numeric")
    codes = world.learn_codes([rows], [*columns, plain], coarse=8, cells=5)
    assert [field.name for field in codes.fields] == ["image", "age", "age"]
    assert (codes.coarse, codes.fine) == ((0, 1), (0, 2))
    assert codes.fields[0].size == 3  # two cells, and that of a missing vector
    assert len(set(codes.of(rows)[:60, 0])) == len(set(codes.of(rows)[60:, 0])) == 1
    assert codes.of(rows)[0, 0] != codes.of(rows)[99, 0]
    with pytest.raises(ValueError, match="must divide"):
        world.learn_codes([rows], [plain], coarse=7)


def test_codes_are_the_same_read_back() -> None:
    codes, rows = learned(public(500)), public(300, seed=1)
    again = world.Codes.model_validate_json(codes.model_dump_json())
    assert (again, again.digest) == (codes, codes.digest)
    assert np.array_equal(again.of(rows), codes.of(rows))
    first = codes.fields[0]
    assert isinstance(first, world.NumberField)
    nudged = first.model_copy(update={"cuts": (float(np.nextafter(first.cuts[0], 1)), *first.cuts[1:])})
    assert codes.model_copy(update={"fields": (nudged, *codes.fields[1:])}).digest != codes.digest

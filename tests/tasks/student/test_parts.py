"""The published encoding gives the bits of the private side's, whatever the cells, their types and their frame; and a
column of which it can read hardly a cell is named.
"""

import io
import json
import struct
import zipfile
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier

from tests import world
from tests.support.encodings import EVERY
from tests.support.raw import CELLS, TYPES, Cell, cells_of, column

KINDS: dict[str, world.ColumnKind] = {"plain": "numeric", "truth": "boolean", "date": "date"}
PUBLISHED = world.published_encoding(EVERY)
LEAST_MOMENT = struct.pack("<q", -(2**63))
"""NumPy takes it for no moment at all."""

columns = st.sampled_from(TYPES).flatmap(
    lambda stored: st.tuples(st.just(stored), st.lists(cells_of(stored), min_size=1))
)
moments = st.lists(st.sampled_from([*"0123456789-:. T+", "2020", "01", "31", "-0", ":5", "\u3000", "\x1c", "59", "60"]))


def alike(rows: pl.DataFrame) -> None:
    """Both sides give the same bits, for a polars frame and for a pandas frame."""
    as_pandas = rows.to_pandas()
    for frame, read in ((rows, rows), (as_pandas, pl.from_pandas(as_pandas))):
        cast = world.cast_rows(read, EVERY)
        for name, kind in KINDS.items():
            clean = world.Cells(kind).transform(frame[[name]])[:, 0]
            assert (
                clean.tobytes() == np.where(cast[name].is_null(), np.nan, world.numbers_of(cast[name], kind)).tobytes()
            )
        private = world.encode(cast, EVERY)
        published = PUBLISHED.transform(frame).astype(np.float32)
        differing = np.argwhere(published.view(np.uint32) != private.view(np.uint32))
        assert not len(differing), [(rows[int(row), 0], EVERY.outputs[at]) for row, at in differing]


@pytest.mark.parametrize("single", [True, False])
def test_numbers_are_the_same_words_at_the_ends_of_plain_digits(single: bool) -> None:
    """Polars writes numbers of 32 bits plainly from 10^-6 on, those of 64 from 10^-5 on."""
    kind = np.float32 if single else np.float64
    ends = [kind(10.0**power) for power in range(-9, 20)]
    numbers = [step for end in ends for step in (np.nextafter(end, kind(0)), end, np.nextafter(end, kind(np.inf)))]
    cells = pl.Series("c", numbers, dtype=pl.Float32 if single else pl.Float64)
    assert cells.to_frame().select(world.text("c", cells.dtype)).to_series().to_list() == [
        world.word(cell) for cell in numbers
    ]


def everywhere(cells: pl.Series) -> pl.DataFrame:
    return pl.DataFrame([cells.alias(name) for name in EVERY.features])


def check_alike(cases: int, phases: Collection[Phase] = tuple(Phase)) -> None:
    @settings(max_examples=cases, phases=phases)
    @given(columns)
    def holds(typed: tuple[pa.DataType, list[Cell]]) -> None:
        stored, cells = typed
        if world.polars_type(stored) != pl.Unknown:
            bits = [None if pa.types.is_timestamp(stored) and cell == LEAST_MOMENT else cell for cell in cells]
            alike(everywhere(world.read_column("c", column(stored, bits), stored)))

    holds()


def test_cells_of_any_bits_become_what_they_become_for_a_teacher(exhaustive: bool) -> None:
    check_alike(300 if exhaustive else 40)


def test_the_planted_word_of_a_number_as_python_writes_it_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """By as many cases as are always searched."""
    monkeypatch.setattr(world.data_concord_student, "word", repr)
    with pytest.raises(AssertionError):
        check_alike(40, [Phase.generate])


@pytest.mark.parametrize("stored", [pa.float64(), pa.float32(), pa.int64(), pa.string(), pa.date32()], ids=str)
def test_odd_cells_together_become_what_they_become_for_a_teacher(stored: pa.DataType) -> None:
    alike(everywhere(world.read_column("c", column(stored, CELLS), stored)))


texts = st.lists(st.one_of(moments.map("".join), st.text(max_size=6), st.floats().map(str)), min_size=1, max_size=25)


def test_text_is_read_alike(exhaustive: bool) -> None:
    @settings(max_examples=100 if exhaustive else 4)
    @given(texts)
    @example(
        [
            "2020-1-2",
            "+02020-01-02",
            "2020- 01-02",
            "2020-01-203:04:05",
            "2020-01-23:04:05",
            "2020-01-02\u30003:4:5.9999999",
        ]
    )
    @example(["9999-12-31 23:59:60", "2016-12-31T23:59:60.5", "2020-01-02T 03:04:05", "2020-01-02 T03:04:05"])
    @example(["2020-01-02T03:04Z", "2020-01-02 03:04", "1901-01-02T03:04:05.9999999-0530", "2020-01-02T03:04:60Z"])
    @example(["0001-01-01T00:00+02:00", "9999-12-31T23:30-02:00", "2020-01-02T24:00Z", "2020-01-02T03:04:05+24:00"])
    @example(["31.12.2020", "1.2.2020", "30.02.2020", "31.12.20", "12/31/2020 3:04", "12/31/2020", "x31.12.2020"])
    @example(["-0001-01-01", "20-01-02", "2020-02-30", "2020-01-02 24:00:00", "+" + "9" * 5000 + "-01-01"])
    @example(["Zu Hause, ohne Übel", "İSTANBUL ſtraße ǅ", "e\u0301te\u0301 \u1e9e", "_a_ b-cc\x00dd", "ﬁn 12,5 ٣٤"])
    @example(["\x1c1", "\x851\x85", "1.", ".5", ".", "1_0", "infinity", "-0", "1e400", "1e-400"])
    def holds(words: list[str]) -> None:
        alike(everywhere(pl.Series(words, dtype=pl.String)))

    holds()


@given(st.lists(st.floats(), min_size=1))
@example([1e-12, -1e-12, 1e-300, -0.0, 0.5, -1e100])
def test_a_logarithm_is_the_same_alone_as_in_company_to_the_bit(numbers: list[float]) -> None:
    alone = b"".join(world.signed_log(np.array([number])).tobytes() for number in numbers)
    assert world.signed_log(np.array([numbers])).tobytes() == world.signed_log(np.array(numbers)).tobytes() == alone


def test_a_column_of_python_objects_is_read_cell_by_cell() -> None:
    mixed = [1, True, "7", None, pd.NA, pd.NaT, float("nan"), 10**400, b"\xff", {"a": 1}, [1, 2], object()]
    frame = pd.DataFrame({name: pd.Series(mixed, dtype=object) for name in EVERY.features})
    matrix = pd.DataFrame(PUBLISHED.transform(frame), columns=EVERY.outputs)
    assert matrix["plain missing"].tolist() == [0, 0, 0, *[1] * 9]
    assert matrix["truth missing"].tolist() == [0, 0, *[1] * 10]
    assert matrix["word=true"].tolist() == [0, 1, *[0] * 10]
    assert matrix[["bytes[1]", "wave[1]"]].iloc[10].tolist() == [2 / np.float32(255), 2]


def test_durations_are_missing_cells_as_for_a_teacher() -> None:
    """NumPy counts them among whole numbers, and Python makes numbers of some."""
    days = [np.timedelta64(5, "D"), np.timedelta64(5, "ns"), np.timedelta64("NaT")]
    for cells in (pd.Series(days), pd.Series(days, dtype=object), pl.Series(np.array(days, "m8[us]"))):
        for kind in ("numeric", "boolean", "date", "categorical", "hashed"):
            assert pd.isna(world.Cells(kind, 5).transform(cells.to_frame("c"))).all()


def test_no_address_is_in_a_student_s_file() -> None:
    """Of free text: scikit-learn keeps where its stop words lie, so that no two runs published the same bytes."""
    made = world.published_student(EVERY, DummyClassifier().fit(np.zeros((2, EVERY.width)), ["a", "b"]))
    before = world.dump(made)
    with pytest.warns(UserWarning, match="they count as missing"):
        made.predict(pl.DataFrame({column.name: ["a"] for column in EVERY.columns}))
    assert world.dump(made) == before
    assert b"_stop_words_id" not in zipfile.ZipFile(io.BytesIO(before)).read("schema.json")


@pytest.mark.parametrize(("name", "columns"), [("stumps", [0, 1, 2]), ("rectangles", [0, 2])])
def test_a_chosen_hypothesis_says_what_the_candidate_says(name: str, columns: list[int]) -> None:
    rng = np.random.default_rng(5)
    X = rng.integers(-3, 4, size=(40, 3)) / 3
    odd = np.array([[np.nan, np.inf, -np.inf], [-0.0, 1e-300, 5e-324], [1 / 3, 2 / 3, 1]])
    asked = np.concatenate([X, X + 1e-9, rng.normal(size=(200, 3)), odd])
    candidates = world.hypothesis_class(name, columns=columns).dichotomies(X)
    for at in range(0, len(candidates), max(1, len(candidates) // 50)):
        candidate = candidates[at]
        text = json.dumps(candidate.describe())
        predicted = world.Chosen(text, ["no", "yes"]).fit().predict(asked)
        assert (predicted == np.array(["no", "yes"])[candidate.predict(asked)]).all()


# Columns that are mostly not read -------------------------------------------------------------------------------------

WRONG: dict[str, tuple[str, list[Any]]] = {
    "german numbers": ("plain", ["1.234,5", "12,5", "3"]),
    "dates for numbers": ("b", [pd.Timestamp(2023, 12, 20)] * 3),
    "german dates": ("date", ["20.12.2023", "21.12.2023", "2023-12-22"]),
    "numbers for dates": ("date", [20231220, 20231221, 20231222]),
    "words that are no truth": ("truth", ["perhaps", "never", "true"]),
    "words of another list": ("word", ["rome", "ROME", "a"]),
    "words of another list, none missing": ("known", ["x", "y", None]),
    "lists of another length": ("bytes", [[1, 2, 3], [1, 2, 3], [1, 2]]),
    "no lists": ("wave", ["1 2", "3 4", None]),
    "no words": ("text", [{"a": 1}, {"b": 2}, "some"]),
}
RIGHT: dict[str, tuple[str, list[Any]]] = {
    "half of them": ("plain", ["1.234,5", "1"]),
    "blanks and what is missing": ("plain", ["", "?", "NA", None, float("nan"), pd.NA, pd.NaT, "7"]),
    "nothing at all": ("date", [None, " ", "NaT"]),
    "dates": ("date", ["2023-12-20", None, pd.Timestamp(2023, 12, 20)]),
    "truth": ("truth", ["true", 0, None]),
    "words": ("word", ["Rome", "?", "other"]),
    "lists": ("bytes", [[1, 2], None]),
    "text": ("text", ["any words", "at all"]),
}


@pytest.mark.parametrize("what", [*WRONG, *RIGHT])
def test_a_column_is_named_if_most_of_its_cells_are_not_read(what: str) -> None:
    column, cells = {**WRONG, **RIGHT}[what]
    frame = pd.DataFrame({name: pd.Series([None] * len(cells), dtype=object) for name in PUBLISHED.feature_names_in_})
    frame[column] = pd.Series(cells, dtype=object)
    assert [name for name, _ in world.unread(frame, PUBLISHED)] == [column] * (what in WRONG)


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_a_long_table_is_looked_at_evenly(frame: Any) -> None:
    rows = 10 * world.LOOKED_AT
    cells = ["1,5"] * (rows * 6 // 10) + ["1.5"] * (rows * 4 // 10)
    for each in (cells, cells[::-1]):
        with pytest.warns(UserWarning, match="'plain' are no numbers"):
            world.Published([("encode", PUBLISHED)])._looked_over(frame({"plain": each}))


def test_missing_cells_and_numbers_are_those_of_concord() -> None:
    assert sorted(world.EMPTY) == sorted(world.NULL_WORDS)
    assert world.LARGEST == world.LARGEST_NUMBER

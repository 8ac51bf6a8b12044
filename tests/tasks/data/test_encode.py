"""Encode: rules for a cell that look at that cell alone, statistics that are public, and matrices by hand."""

import datetime
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.sentences import facts

DAY = datetime.date(2020, 1, 2)
ENCODING = world.Encoding(
    columns=(
        world.Scaled(kind="numeric", name="age", mean=40, scale=10, fill=38, low=20, high=60, missing=True),
        world.OneHot(name="city", vocabulary=("Rome", "7"), missing=True),
        world.Scaled(kind="boolean", name="active", mean=0.5, scale=0.5, fill=1, low=0, high=1, missing=False),
        world.Scaled(kind="date", name="since", mean=18263, scale=2, fill=18263, low=18261, high=18265, missing=False),
        world.Empty(name="nothing"),
        world.Passed(name="image", element="uint8", size=2),
        world.Passed(name="wave", element="float32", size=2),
    ),
    label="y",
    classes=("no", "yes", "3"),
)


def plan(folder: Path, **data: object) -> world.Plan:
    named = {"private": "none.csv", "public": "public.parquet", "label": "y", "classes": ["no", "yes"]}
    privacy = {"domain": "d", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 1, "delta": 1e-5}}
    tables = {"teachers": {"count": 5}, "labeling": {"cutoff": 5}, "folder": str(folder)}
    return world.parse_plan({"data": named | data, "privacy": privacy} | tables)


def test_statistics_by_hand(tmp_path: Path) -> None:
    columns = {
        "n": [1, 2, 3, None, 6],
        "constant": [5.0] * 5,
        "word": ["b", "a", "b", "c", "c"],
        "none": [float("nan")] * 5,
        "y": ["ignored"] * 5,
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "public.parquet")
    encoding = world.learn_encoding(plan(tmp_path))
    numeric = world.Scaled(kind="numeric", name="n", mean=3, scale=3.5**0.5, fill=3, low=1, high=6, missing=True)
    constant = world.Scaled(kind="numeric", name="constant", mean=5, scale=1, fill=5, low=5, high=5, missing=False)
    word = world.OneHot(name="word", vocabulary=("b", "c", "a"), missing=False)
    assert encoding.columns == (numeric, constant, word, world.Empty(name="none"))
    words = [f"w{index:03d}" for index in range(world.VOCABULARY + 20) for _ in range(200 - index)]
    pl.DataFrame({"w": words}).write_parquet(tmp_path / "public.parquet")  # of which the rare ones are missing cells
    many = world.OneHot(name="w", vocabulary=tuple(f"w{index:03d}" for index in range(world.VOCABULARY)), missing=True)
    assert world.learn_encoding(plan(tmp_path)).columns == (many,)


def test_a_word_that_public_rows_hold_is_a_category_in_csv_too(tmp_path: Path) -> None:
    """None was a category of public rows in Parquet, and missing in a test in CSV: an accuracy of 61 %, not 88 %, was
    certified, and `verify`, which reads by the words of the student, took the release for a false one."""
    rows = pl.DataFrame({"word": ["None", "a", "None", "b"], "y": ["yes", "no", "yes", "no"]})
    rows.write_parquet(tmp_path / "public.parquet")
    encoding = world.learn_encoding(plan(tmp_path))
    rows.write_csv(tmp_path / "test.csv")
    for name in ("public.parquet", "test.csv"):
        read, _ = world.labelled_rows(str(tmp_path / name), encoding)
        assert read["word"].to_list() == ["None", "a", "None", "b"]


def test_the_digest_is_of_the_content_and_survives_a_round_trip(tmp_path: Path) -> None:
    again = world.Encoding.model_validate_json(ENCODING.model_dump_json())
    assert again == ENCODING
    assert again.digest == ENCODING.digest
    assert ENCODING.model_copy(update={"label": "z"}).digest != ENCODING.digest
    frame = pl.DataFrame({"n": np.linspace(0, 1, 1000) ** 3, "y": ["a"] * 1000})
    digests = set()
    for size in (1000, 7):
        frame.write_parquet(tmp_path / "public.parquet", row_group_size=size)
        digests.add(world.learn_encoding(plan(tmp_path)).digest)
    assert len(digests) == 1


def test_skewed_numbers_are_encoded_by_their_logarithm(tmp_path: Path) -> None:
    even, skewed = list(range(-50, 50)), [0.0] * 90 + [-9.0] * 5 + [99_999.0] * 5
    pl.DataFrame({"even": even, "skewed": skewed}).write_parquet(tmp_path / "public.parquet")
    encoding = world.learn_encoding(plan(tmp_path))
    flat, logged = encoding.columns
    assert isinstance(flat, world.Scaled)
    assert isinstance(logged, world.Scaled)
    assert (flat.log, logged.log) == (False, True)
    assert np.allclose((logged.low, logged.fill, logged.high), (-np.log(10), 0, np.log(100_000)))
    matrix = world.encode(world.cast_rows(pl.DataFrame({"even": [0.0], "skewed": [-9.0]}), encoding), encoding)
    assert np.isclose(matrix[0, 1], (logged.low - logged.mean) / logged.scale)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_sample_is_even_however_rows_come(size: int) -> None:
    rows = pl.DataFrame({"n": range(100)})
    frames = iter([rows[first : first + size] for first in range(0, 100, size)])
    assert world.systematic_sample(frames, most=30)["n"].to_list() == list(range(0, 100, 4))


def test_batches_are_even_and_hold_the_stream_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, size in enumerate((5, 1, 11)):
        pl.DataFrame({"n": range(part * 100, part * 100 + size)}).write_parquet(folder / f"{part}.parquet")
    vault = world.Vault(tmp_path / "vault")
    encoding = world.learn_encoding(plan(tmp_path, public="parts"))
    batches = world.stage_public(str(folder), encoding, vault, "public", 4)
    assert [(batch.first, batch.rows) for batch in batches] == [(0, 4), (4, 4), (8, 4), (12, 4), (16, 1)]
    staged = pl.concat(world.read_frame(batch.ref, vault) for batch in batches)
    assert staged["n"].to_list() == [*range(5), 100, *range(200, 211)]


def test_features_are_the_plan_s_or_all_but_label_and_unit(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2], "b": [2, 3], "y": [0, 0], "u": [3, 3]}).write_parquet(tmp_path / "public.parquet")
    assert world.learn_encoding(plan(tmp_path, unit="u")).features == ("a", "b")
    assert world.learn_encoding(plan(tmp_path, features=["b"])).features == ("b",)
    with pytest.raises(world.WrongInput, match=r"data\.public must hold the column 'c'"):
        world.learn_encoding(plan(tmp_path, features=["c"]))
    pl.DataFrame({"y": [1]}).write_parquet(tmp_path / "public.parquet")
    with pytest.raises(world.WrongInput, match="at least one feature column"):
        world.learn_encoding(plan(tmp_path))


@pytest.mark.parametrize("name", ["concord.label", "concord.shard", "concord.content", ""])
def test_a_feature_with_a_name_of_ours_ended_in_a_stage_that_failed(tmp_path: Path, name: str) -> None:
    pl.DataFrame({"age": [1, 2], name: [3, 4], "y": ["a", "b"]}).write_parquet(tmp_path / "public.parquet")
    with pytest.raises(world.WrongInput, match=facts("data.features", f"'{name}'")):
        world.learn_encoding(plan(tmp_path))
    assert [*world.features_of(world.open_public(str(tmp_path / "public.parquet")), ("y",))] == ["age"]


def test_pictures_are_held_twice_at_most_while_they_are_digested() -> None:
    """As columns and as rows, and then as rows and what is hashed: a third copy would be a frame more in memory."""
    size, count = 4096, 1_000
    encoding = world.Encoding(
        columns=(world.Passed(name="picture", element="uint8", size=size),), label="y", classes=("a", "b")
    )
    pictures = pl.Series(np.zeros((count, size), dtype=np.uint8), dtype=pl.Array(pl.UInt8, size))
    rows = pl.DataFrame({"picture": pictures, world.LABEL: pl.Series([0] * count, dtype=pl.UInt16)})
    tracemalloc.start()
    try:
        world.row_digests(rows, encoding, bytes(32))
        assert tracemalloc.get_traced_memory()[1] < 2.5 * size * count
    finally:
        tracemalloc.stop()


CONSTANT: dict[str, pl.Series] = {
    "numbers": pl.Series([1.5] * 3),
    "words": pl.Series(["x"] * 3),
    "truth values": pl.Series([True] * 3),
    "dates": pl.Series([DAY] * 3),
    "none": pl.Series([None] * 3, dtype=pl.Float64),
    "one row": pl.Series([7]),
}


@pytest.mark.parametrize("cells", CONSTANT.values(), ids=[*CONSTANT])
def test_a_table_whose_rows_are_all_alike_is_refused_and_one_in_which_some_cell_differs_is_not(
    cells: pl.Series, tmp_path: Path
) -> None:
    """Its numbers would be the same for all private rows as well, whatever is in them."""
    pl.DataFrame({"a": cells, "b": cells}).write_parquet(tmp_path / "public.parquet")
    with pytest.raises(world.WrongInput, match=facts("data.public", "'a'", "'b'")):
        world.learn_encoding(plan(tmp_path))
    other = pl.Series([1.0, 2.0]) if cells.null_count() else cells.extend_constant(None, 1)
    pl.DataFrame({"a": other, "b": [other[0]] * len(other)}).write_parquet(tmp_path / "public.parquet")
    assert world.learn_encoding(plan(tmp_path)).features == ("a", "b")


NUMBER = world.Scaled(kind="numeric", name="", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)


@pytest.mark.parametrize(
    "columns",
    [
        [NUMBER.model_copy(update={"name": str(at)}) for at in range(40)],
        [NUMBER.model_copy(update={"name": str(at), "log": True}) for at in range(10)],
        [world.OneHot(name="0", vocabulary=tuple(map(str, range(200))), missing=True)],
        [world.Hashed(name="0")],
        [world.Passed(name="0", element="uint8", size=200)],
    ],
    ids=["numbers", "logarithms", "words", "text", "lists"],
)
def test_more_rows_are_encoded_in_no_more_memory_than_their_matrix(columns: list[world.Column]) -> None:
    """Transformers hold several copies of double width. Those of all rows at once took ten times the matrix."""
    encoding = world.Encoding(columns=tuple(columns), label="y", classes=("a", "b"))

    def besides(rows: int) -> int:
        places = np.arange(rows)
        cells = (
            pl.Series(np.zeros((rows, 200), dtype=np.uint8)) if isinstance(columns[0], world.Passed) else places % 200
        )
        whole = pl.DataFrame({column.name: cells for column in columns})
        cast = world.cast_rows(whole, encoding)
        world.encode(cast.head(1), encoding)
        tracemalloc.start()
        try:
            size = world.encode(cast, encoding).nbytes
            return tracemalloc.get_traced_memory()[1] - size
        finally:
            tracemalloc.stop()

    few, many = besides(1 << 14), besides(1 << 16)
    assert many < 1.2 * few

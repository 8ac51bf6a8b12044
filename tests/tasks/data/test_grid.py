"""The grid: one cell for any value, from the schema alone; later codes are groups of its cells; and
rows in place of public ones: the same for the same schema, whole, and written again if they were changed."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests import world
from tests.support.sentences import says


def number(low: float, high: float, *, whole: bool = False, name: str = "x") -> world.DeclaredRange:
    return world.DeclaredRange(kind="numeric", name=name, low=low, high=high, whole=whole)


SCHEMA = world.TableSchema(
    columns=(
        number(0, 4, whole=True, name="age"),
        number(-10.0, 1e6, name="wage"),
        world.DeclaredTruth(kind="boolean", name="member"),
        world.DeclaredRange(kind="date", name="since", low=0, high=9, whole=True),
        world.DeclaredCategories(kind="categorical", name="sex", words=("Female", "Male", "7")),
        world.DeclaredCategories(kind="categorical", name="country", words=("Italy",)),
    ),
    undeclared=(),
)
GRID = world.grid_of(SCHEMA)


TEXT = world.TableSchema(columns=(world.DeclaredText(kind="text", name="town"),), undeclared=())
TOWNS = ["Rome", " Rome ", "Paris", "e\u0301", "\u00e9", "", "bucket 7 of 32", "bucket 33 of 32", None]


@pytest.mark.parametrize(
    "stored",
    [
        *(pa.string(), pa.large_string(), pa.string_view()),
        *(pa.dictionary(pa.int8(), words) for words in (pa.string(), pa.large_string(), pa.string_view())),
    ],
    ids=str,
)
def test_any_text_has_the_bucket_of_its_sha_256_however_it_is_stored(stored: pa.DataType) -> None:
    grid, columns = world.grid_of(TEXT), world.reading_columns(TEXT)
    cells = world.read_column("town", pa.array(TOWNS).cast(stored), stored).to_frame("town")
    found = grid.of_raw(cells, columns)[:, 0].tolist()
    by_hand = [int.from_bytes(hashlib.sha256(town.encode()).digest()[:8], "big") % 32 for town in ("Rome", "Paris")]
    assert found[:3] == [by_hand[0], by_hand[0], by_hand[1]] == [6, 6, found[2]]
    assert found[3] == found[4]
    assert found[6:] == [6, 8, 33]
    named = world.Cells("hashed", 32).transform(cells)[:, 0].tolist()
    assert named == [None if place == 33 else f"bucket {place + 1} of 32" for place in found]


@pytest.mark.parametrize(
    "declared",
    [
        number(0, 1023, whole=True),
        number(0, 1024, whole=True),
        number(-1e100, 1e100),
        number(0, 5e-324),
        number(1e12, 1e12 + 1),
        number(-1e9, 1e12, whole=True),
        number(0.1, 0.3),
    ],
)
def test_cuts_ascend_within_the_range_and_tails_have_fine_ones(declared: world.DeclaredRange) -> None:
    cuts = world.grid_cuts(declared)
    assert np.isfinite(cuts).all()
    assert (np.diff(cuts) > 0).all()
    assert (cuts > declared.low).all()
    assert (cuts <= declared.high).all()
    assert len(cuts) < world.NARROW
    if declared.whole:
        assert (cuts == np.rint(cuts)).all()
    if declared.high - declared.low > 1e6:
        assert (cuts < declared.low + (declared.high - declared.low) / 1000).sum() > 100


def test_a_number_of_1024_whole_values_has_a_cell_for_each_and_a_column_of_one_value_none() -> None:
    assert world.grid_cuts(number(0, 1023, whole=True)).tolist() == [*range(1, 1024)]
    assert len(world.grid_cuts(number(0, 1024, whole=True))) != 1024
    assert "country" not in {field.name for field in GRID.fields}
    assert len(GRID.coarse) == len(GRID.fine) == 5


def test_cuts_have_the_same_bits_on_every_processor() -> None:
    """NumPy's powers have not."""
    cuts = [
        world.grid_cuts(each).tobytes() for each in (number(0, 1e6), number(17.3, 99.1), number(-1e9, 1e12, whole=True))
    ]
    assert (
        hashlib.sha256(b"".join(cuts)).hexdigest() == "52be5c00c464c6c2d4fde751e74ca19f72cf67e2f6ee512e4f998799b9186a6c"
    )


def made(name: str) -> world.NumberField | world.WordField:
    field = next(GRID.fields[at] for at in GRID.fine if GRID.fields[at].name == name)
    assert isinstance(field, world.NumberField | world.WordField)
    return field


def test_later_codes_are_looked_up_in_the_grid_as_if_they_were_read_from_the_table() -> None:
    age, sex = made("age"), made("sex")
    codes = world.Codes(
        fields=(
            age.model_copy(update={"start": 0, "cuts": (2.0,)}),
            age.model_copy(update={"start": 3, "cuts": (1.0, 2.0, 4.0)}),
            sex.model_copy(update={"start": 8, "words": ("Male",)}),
        ),
        coarse=(0, 2),
        fine=(1, 2),
    )
    raw = pl.DataFrame(
        {
            "age": [0.0, 1.5, 2, 4, 9, None, 3, 3],
            "sex": ["Female", "Male", "7", "?", None, "Male", "x", "Female"],
        }
    ).with_columns(pl.lit(None).alias(name) for name in ("wage", "member", "since"))
    grid = GRID.of_raw(raw, world.reading_columns(SCHEMA)).astype(np.int32)
    found = world.recoded(grid, GRID, codes)
    assert found.dtype == np.int32
    assert (found == codes.of_raw(raw, world.as_declared(world.reading_columns(SCHEMA), SCHEMA))).all()


def test_tables_of_two_columns_have_a_cell_for_two_groups() -> None:
    groups = [np.arange(GRID.fields[at].size) // 3 for at in GRID.fine]
    tables = world.with_tables(GRID, groups)
    assert len(tables.pairs) == 10
    rows = np.column_stack([np.full(4, GRID.fields[at].start) for at in range(GRID.width)]).astype(np.int32)
    rows[:, GRID.fine[0]] += np.array([0, 2, 3, 5], np.int32)
    rows[:, GRID.fine[1]] += np.array([1, 7, 7, 30], np.int32)
    found = world.recoded(rows, GRID, tables)
    first = GRID.width
    width = max(groups[1]) + 1
    assert (found[:, first] - tables.fields[first].start).tolist() == [0, 2, width + 2, width + 10]
    assert world.Codes.model_validate_json(tables.model_dump_json()) == tables


def test_an_undeclared_word_is_a_missing_cell_in_every_table() -> None:
    """In those of two columns as in those of labels, and as to the student."""
    sex = made("sex")
    group = sex.model_copy(update={"start": 0, "words": ("Male",)})
    at = next(at for at in GRID.fine if GRID.fields[at] == sex)
    cells = np.tile([field.start for field in GRID.fields], (sex.size, 1)).astype(np.int32)
    cells[:, at] += np.arange(sex.size, dtype=np.int32)
    due = [1, 0, 1, 2, 2]
    assert world.recoded(cells, GRID, world.Codes(fields=(group,), coarse=(0,), fine=(0,)))[:, 0].tolist() == due
    groups = {own: np.arange(GRID.fields[own].size) for own in GRID.fine} | {at: world.groups_of(sex, group)}
    tables = world.with_tables(GRID, [*groups.values()])
    both = next(pair for pair, field in tables.pairs.items() if field.both[1] == at)
    assert (world.recoded(cells, GRID, tables)[:, both] - tables.fields[both].start).tolist() == due


@pytest.mark.parametrize(
    ("name", "changes", "rule"),
    [
        ("age", {"cuts": (1.5,)}, "must be cuts of the grid"),
        ("age", {"cuts": (0.0,)}, "must be cuts of the grid"),
        ("sex", {"words": ("other",)}, "must be declared words"),
    ],
)
def test_groups_that_are_none_of_the_grids_are_refused(name: str, changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        world.groups_of(made(name), made(name).model_copy(update=changes))


# What is said of released sums ----------------------------------------------------------------------------------------


def said(schema: world.TableSchema, sums: Any, scale: float = 2.0) -> tuple[str, ...]:
    """What is said of sums in 64 steps of 1000 units."""
    step = {"schema": schema.model_dump(mode="json"), "sums": np.asarray(sums).tolist(), "units": 1000.0}
    return world.outside_of_schema({**step, "scale": 64 * scale, "question": {"steps": 64}})


def test_much_outside_of_the_schema_is_said_by_released_sums_alone() -> None:
    sums = np.zeros(GRID.size, int)
    narrow = {GRID.fields[at].name: GRID.fields[at] for at in GRID.fine}
    for field in narrow.values():
        sums[field.start : field.start + field.size - 2] = 700 * 64 // (field.size - 2)
    for name in ("sex", "wage", "age"):  # the last year of age is a value like any other
        sums[narrow[name].start + narrow[name].size - 2] = 300 * 64
    wage, sex = said(SCHEMA, sums)
    assert says(wage, "30%", "'wage'", "range", "data.schema")
    assert says(sex, "30%", "'sex'", "category", "data.schema")
    assert said(SCHEMA, sums, scale=100.0) == ()  # what is noise is not said
    sums[narrow["sex"].start + narrow["sex"].size - 2] = 1_010 * 64  # noise may make it more than all units
    assert "about 100% of 'sex'" in said(SCHEMA, sums)[-1]
    assert said(TEXT, [0] * 32 + [5760, 0, 6400], scale=10.0) == ()  # no text is undeclared


@pytest.mark.parametrize("place", ["first", "last", "missing"])
@pytest.mark.parametrize(
    "declared",
    [
        number(0, 10, whole=True),
        number(1000, 1e5),
        number(200, 300, whole=True),
        number(0, 1e6),
        number(0, 2, whole=True),
    ],
)
def test_much_at_either_end_of_any_range_or_missing_is_said(declared: world.DeclaredRange, place: str) -> None:
    """Ages of 18 to 95 that were declared 0 to 10, or 200 to 300, published that everybody is 10, without a warning."""
    schema = world.TableSchema(columns=(declared,), undeclared=())
    first, size = next(
        (field.start, field.size) for field in (world.grid_of(schema).fields[at] for at in world.grid_of(schema).fine)
    )
    for share in (0.2, 0.95):
        sums = np.zeros(world.grid_of(schema).size, int)
        sums[first : first + size - 1] = round(64_000 * (1 - share) / (size - 1))
        sums[first + {"first": 0, "last": size - 2, "missing": size - 1}[place]] += round(64_000 * share)
        found = said(schema, sums)
        if share > 0.9:
            assert [says(sentence, "'x'", place, "data.schema") for sentence in found] == [True], found
        elif size <= world.NARROW // 2:
            assert found == ()


# Rows in place of public ones -----------------------------------------------------------------------------------------

WORDS = [f"word {number}" for number in range(150)]
FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
    {"name": "member", "type": "boolean"},
    {"name": "town", "type": "string", "constraints": {"enum": WORDS}},
]


def plan(folder: Path) -> world.Plan:
    budget = {"epsilon": 1.0, "delta": 1e-5}
    return world.parse_plan(
        {
            "folder": str(folder),
            "data": {"private": "none.parquet", "schema": {"fields": FIELDS}, "label": "y", "classes": ["a", "b"]},
            "privacy": {"domain": "people", **budget, "lifetime": budget},
            "labeling": {"mechanism": "tallies", "rows": 1000},
        }
    )


def test_stand_ins_have_every_declared_value_about_as_often(tmp_path: Path) -> None:
    declared = plan(tmp_path).data.sketched
    rows = world.stand_ins(declared)
    assert rows.height == world.STAND_INS
    assert rows.equals(world.stand_ins(declared))
    assert set(WORDS) < set(rows["town"].unique())
    assert rows["age"].drop_nulls().is_between(17, 90).all()
    assert max(rows["age"].value_counts()["count"].to_list()) < 2 * world.STAND_INS / 74
    pairs = rows.select("age", "member").unique().height
    assert pairs > 2 * 74  # columns do not go together in one way alone


def test_the_encoding_knows_all_declared_words(tmp_path: Path) -> None:
    made = plan(tmp_path)
    made = world.with_rows(made, world.Vault(tmp_path / "vault"), world.stand_ins(made.data.sketched))
    encoding = world.learn_encoding(made)
    assert encoding.features == ("age", "member", "town")
    assert set(encoding.columns[2].vocabulary) == set(WORDS)  # type: ignore[union-attr]


def test_a_column_without_a_value_in_synthetic_rows_is_of_its_declared_kind(tmp_path: Path) -> None:
    """Whatever was released, the session has paid: rows that are missing or all alike give an encoding."""
    nothing = {"age": pl.Int64(), "member": pl.Boolean(), "town": pl.String()}
    rows = [
        pl.DataFrame({name: [None, None] for name in nothing}, schema=nothing),
        pl.DataFrame({"age": [20, 20], "member": [False, False], "town": ["word 1", "word 1"]}, schema=nothing),
    ]
    for number, each in enumerate(rows):
        vault = world.Vault(tmp_path / f"vault {number}")
        encoding = world.learn_encoding(world.with_rows(plan(tmp_path), vault, each))
        assert [column.kind for column in encoding.columns] == ["numeric", "boolean", "categorical"]
        assert world.cast_rows(each, encoding).columns == [*nothing]
    truth = plan(tmp_path).model_copy(deep=True)
    data = truth.data.model_copy(update={"features": ("age", "member")})
    truth = truth.model_copy(update={"data": data})
    assert world.learn_encoding(world.with_rows(truth, vault, rows[1])).features == ("age", "member")


def test_rows_are_kept_once_and_again_if_they_were_changed(tmp_path: Path) -> None:
    vault, rows = world.Vault(tmp_path / "vault"), pl.DataFrame({"age": [1, 2], "town": ["a", None]})
    first = world.with_rows(plan(tmp_path), vault, rows)
    assert world.with_rows(plan(tmp_path), vault, rows).path("public") == first.path("public")
    assert pl.concat(world.open_public(first.path("public")).frames(["age", "town"])).equals(rows)
    (part,) = (tmp_path / "vault" / "public" / "tables").rglob("00000")
    part.write_bytes(part.read_bytes()[:-1])
    again = world.with_rows(plan(tmp_path), vault, rows)
    assert pl.concat(world.open_public(again.path("public")).frames(["age", "town"])).equals(rows)
    other = world.with_rows(plan(tmp_path), vault, rows.reverse())
    assert other.path("public") != first.path("public")

"""Rows in place of public ones: the same for the same schema, whole, and written again if they were changed."""

from pathlib import Path

import polars as pl

from tests.world import STAND_INS, Plan, Vault, cast_rows, learn_encoding, open_public, parse_plan, stand_ins, with_rows

WORDS = [f"word {number}" for number in range(150)]
FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
    {"name": "member", "type": "boolean"},
    {"name": "town", "type": "string", "constraints": {"enum": WORDS}},
]


def plan(folder: Path) -> Plan:
    budget = {"epsilon": 1.0, "delta": 1e-5}
    return parse_plan(
        {
            "folder": str(folder),
            "data": {"private": "none.parquet", "schema": {"fields": FIELDS}, "label": "y", "classes": ["a", "b"]},
            "privacy": {"domain": "people", **budget, "lifetime": budget},
            "labeling": {"mechanism": "tallies", "rows": 1000},
        }
    )


def test_stand_ins_have_every_declared_value_about_as_often(tmp_path: Path) -> None:
    declared = plan(tmp_path).data.sketched
    rows = stand_ins(declared)
    assert rows.height == STAND_INS
    assert rows.equals(stand_ins(declared))
    assert set(WORDS) < set(rows["town"].unique())
    assert rows["age"].drop_nulls().is_between(17, 90).all()
    assert max(rows["age"].value_counts()["count"].to_list()) < 2 * STAND_INS / 74
    pairs = rows.select("age", "member").unique().height
    assert pairs > 2 * 74  # columns do not go together in one way alone


def test_the_encoding_knows_all_declared_words(tmp_path: Path) -> None:
    made = plan(tmp_path)
    made = with_rows(made, Vault(tmp_path / "vault"), stand_ins(made.data.sketched))
    encoding = learn_encoding(made)
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
        vault = Vault(tmp_path / f"vault {number}")
        encoding = learn_encoding(with_rows(plan(tmp_path), vault, each))
        assert [column.kind for column in encoding.columns] == ["numeric", "boolean", "categorical"]
        assert cast_rows(each, encoding).columns == [*nothing]
    truth = plan(tmp_path).model_copy(deep=True)
    data = truth.data.model_copy(update={"features": ("age", "member")})
    truth = truth.model_copy(update={"data": data})
    assert learn_encoding(with_rows(truth, vault, rows[1])).features == ("age", "member")


def test_rows_are_kept_once_and_again_if_they_were_changed(tmp_path: Path) -> None:
    vault, rows = Vault(tmp_path / "vault"), pl.DataFrame({"age": [1, 2], "town": ["a", None]})
    first = with_rows(plan(tmp_path), vault, rows)
    assert with_rows(plan(tmp_path), vault, rows).path("public") == first.path("public")
    assert pl.concat(open_public(first.path("public")).frames(["age", "town"])).equals(rows)
    (part,) = (tmp_path / "vault" / "public" / "tables").rglob("00000")
    part.write_bytes(part.read_bytes()[:-1])
    again = with_rows(plan(tmp_path), vault, rows)
    assert pl.concat(open_public(again.path("public")).frames(["age", "town"])).equals(rows)
    other = with_rows(plan(tmp_path), vault, rows.reverse())
    assert other.path("public") != first.path("public")

"""Missing cells, composed text, packed files: one rule for private, public and test rows, and for the student."""

import gzip
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.raw import exact
from tests.support.sources import asked_of, database, plan_over, ward

WORDS = (*world.NULL_WORDS, "n.b.", "k. A.")
FORM = world.TextFormat(missing=("n.b.", " k. A. "))
FEATURES = {
    "number": ("1.5", "2"),
    "truth": ("true", "false"),
    "day": ("2020-01-02", "2021-03-04"),
    "town": ("Aix", "Ulm"),
}
KINDS = ("numeric", "boolean", "date", "categorical")


def rows_with(word: str) -> list[dict[str, str]]:
    """Two rows, and one whose features are all that word."""
    known = [{name: cells[at] for name, cells in FEATURES.items()} for at in (0, 1)]
    return [row | {"label": "no"} for row in (*known, dict.fromkeys(FEATURES, word))]


def plan_of(folder: Path, word: str, source: Any = None) -> world.Plan:
    """A plan whose tables all have such a row, in CSV; the private one may be another source."""
    for name in ("private", "public", "test"):
        pl.DataFrame(rows_with(word)).write_csv(folder / f"{name}.csv")
    tables = {"test": "test.csv", "features": [*FEATURES], "format": FORM.model_dump()}
    return plan_over(source or "private.csv", folder, **tables)


def private_cells(plan: world.Plan, folder: Path) -> pl.DataFrame:
    columns = dict.fromkeys(FEATURES, "data.features") | {"label": "data.label"}
    there = world.with_snapshots(plan, world.Vault(folder / "vault"))
    return pl.concat(world.open_private(there.path("private"), plan.data.format).frames(columns))


@pytest.mark.parametrize("word", WORDS)
def test_a_word_for_a_missing_cell_is_missing_in_every_table_and_for_the_student(
    tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(tmp_path, word)
    encoding = world.learn_encoding(plan)
    assert [column.kind for column in encoding.columns] == [*KINDS]
    private = world.cast_rows(private_cells(plan, tmp_path), encoding).drop(world.LABEL)
    test, _ = world.labelled_rows(plan.path("test"), encoding)
    public = pl.concat(
        world.cast_rows(frame, encoding)
        for frame in world.open_public(plan.path("public"), form=FORM).frames(encoding.features)
    )
    cells = [tuple(row.values()) for row in rows_with(word)]
    asked = asked_of(monkeypatch, database(tmp_path / "ward.db", cells, [*FEATURES, "label"]))
    queried = plan_of(tmp_path, word, asked)
    stored = world.cast_rows(private_cells(queried, tmp_path), encoding).drop(world.LABEL)
    for name in FEATURES:
        assert exact(private[name]) == exact(test[name]) == exact(public[name])
        assert sorted(map(repr, exact(stored[name]))) == sorted(map(repr, exact(private[name])))  # a query has no order
        assert private[name].null_count() == 1
    for column, kind in zip(encoding.columns, KINDS, strict=True):
        read = world.Cells(kind).transform(pl.DataFrame({column.name: [word]}))[0, 0]
        known = read in column.vocabulary if isinstance(column, world.OneHot) else not np.isnan(read)
        assert not known


@pytest.mark.parametrize("word", [word for word in WORDS if word])
def test_a_class_may_be_a_word_for_a_missing_cell(tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`+` and `-` are classes in many a table: all rows counted as the first one."""
    rows = [("1", "+"), ("2", word), ("3", "?"), ("4", word)]
    pl.DataFrame(rows, schema=["c", "label"], orient="row").write_csv(tmp_path / "private.csv")
    pl.DataFrame([rows[0], rows[1]], schema=["c", "label"], orient="row").write_csv(tmp_path / "public.csv")
    more = {"classes": ["+", word], "test": "public.csv", "format": FORM.model_dump()}
    asked = asked_of(monkeypatch, database(tmp_path / "ward.db", rows, ["c", "label"]))
    expected = [0, 1, int(word == "?"), 1]
    for source in ("private.csv", asked):
        plan = plan_over(source, tmp_path, **more)
        encoding, there = world.learn_encoding(plan), world.with_snapshots(plan, world.Vault(tmp_path / "vault"))
        table = world.open_private(there.path("private"), plan.data.format)
        read = pl.concat(table.frames({"c": "data.features", "label": "data.label"}))
        assert world.cast_rows(read, encoding).sort("c")[world.LABEL].to_list() == expected
    assert world.labelled_rows(plan.path("test"), encoding)[1].tolist() == [0, 1]


COMPOSED = ("Orléans", "Ångström", "Ω", "한글", "plain", "ẛ̣", "a" + "\u0301" * 31)
"""Words in composed form, one of them with more marks than are composed."""


def test_text_is_compared_by_what_it_shows(tmp_path: Path) -> None:
    """As ids are: Unicode writes an accent with its letter, or after it; macOS and Linux differ."""
    for number, word in enumerate(COMPOSED):
        forms = [word, unicodedata.normalize("NFD", word), f" {unicodedata.normalize('NFD', word)}\u00a0"]
        table = pl.DataFrame({"town": [*forms * 3, "Ulm"], "label": "no"})
        table.write_csv(tmp_path / f"{number}.csv")
        table.write_parquet(tmp_path / f"{number}.parquet")
        table.with_columns(pl.col("town").cast(pl.Categorical)).write_ipc(tmp_path / f"{number}.arrow")
        for suffix in ("csv", "parquet", "arrow"):
            plan = plan_over(f"{number}.{suffix}", tmp_path, public=f"{number}.{suffix}", features=["town"])
            (column,) = world.learn_encoding(plan).columns
            assert isinstance(column, world.OneHot)
            marks = word == COMPOSED[-1]
            plain = word if marks else unicodedata.normalize("NFC", word)
            assert {*column.vocabulary} == {plain, "Ulm"}
            frames = world.open_private(plan.path("private")).frames({"town": "data.features"}, ["town"])
            rows = pl.concat(world.cast_rows(frame, world.learn_encoding(plan)) for frame in frames)
            assert rows["town"].null_count() == 0
            found = world.Cells("categorical").transform(table.select("town"))[:, 0].tolist()
            assert found == [plain] * 9 + ["Ulm"]


def test_a_file_is_the_same_whatever_its_name_and_packed_or_not(tmp_path: Path) -> None:
    rows = ward(200)
    found = []
    for name in ("a.csv", "b.tsv", "c.txt", "d.CSV.gz", "e.tsv.gz", "f.txt.GZ"):
        sign = "\t" if "tsv" in name else ","
        content = rows.write_csv(separator=sign).encode("utf-8")
        (tmp_path / name).write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
        form = world.format_of(str(tmp_path / name))
        assert form.separator == sign
        owned = world.rows_with_units(
            world.open_private(str(tmp_path / name), form, "unit"), {"c": "data.features", "label": "data.label"}
        )
        (frame, owner), *_ = owned
        public = pl.concat(world.open_public(str(tmp_path / name), form=form).frames(["c", "label"]))
        assert public.equals(frame.select("c", "label"))
        found.append([*(exact(frame[column]) for column in ("c", "label")), owner.to_list()])
    assert all(each == found[0] for each in found)


def test_words_that_are_numbers_with_commas_are_not_taken_for_names_of_rows(tmp_path: Path) -> None:
    commas = [f"{at},{at % 10}" for at in range(1, 400)]
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{cell};n.b.\n" for cell in commas))
    table = world.open_public(str(tmp_path / "t.csv"), form=world.TextFormat(separator=";"))
    assert world.remarks_on(table, table.kinds(["a"])) == {"a": world.WITH_COMMAS}
    pl.DataFrame({"a": [str(at / 8) for at in range(9)] * 9 + ["n.b."]}).write_csv(tmp_path / "u.csv")
    table = world.open_public(str(tmp_path / "u.csv"))
    assert world.remarks_on(table, table.kinds(["a"])) == {"a": world.MOSTLY_NUMBERS}


def test_an_index_of_pandas_is_no_feature(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = ward(40).drop("unit").to_pandas().iloc[[*range(0, 40, 3), 1]]
    frame.to_parquet(tmp_path / "public.parquet")
    frame.to_parquet(tmp_path / "private.parquet")
    assert "__index_level_0__" in pl.read_parquet_schema(tmp_path / "public.parquet")
    assert world.public_features(plan_over("private.parquet", tmp_path, public="public.parquet"))[1] == ("c",)
    listed = plan_over("private.parquet", tmp_path, public="public.parquet", features=["c", "__index_level_0__"])
    assert world.public_features(listed)[1] == ("c", "__index_level_0__")


def test_of_unknown_labels_only_those_that_say_something_are_offered_as_classes(tmp_path: Path) -> None:
    pl.DataFrame({"label": ["yes", "no", "NA", ".", ""]}).write_csv(tmp_path / "t.csv")
    assert world.classes_of(str(tmp_path / "t.csv"), "label") == ("no", "yes")

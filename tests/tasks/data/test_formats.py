"""Formats: CSV files as people have them are read as Parquet is, and what is wrong says what to try."""

import csv
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.raw import exact

ROWS = [
    ("Köln; Süd", 1234.5, 17, "2020-01-02", "ja"),
    ("Bonn, am Rhein", -0.25, 1_234_567, "2021-12-31", "nein"),
    ("d'Aix €", 12.0, 3, "2020-01-02", "nein"),
    (None, None, 40, "1999-05-06", "ja"),
]
COLUMNS = ("stadt", "größe", "zahl", "tag", "urteil")
WRITTEN: dict[str, world.TextFormat] = {
    "as Excel does in Germany": world.TextFormat(separator=";", decimal=",", encoding="cp1252"),
    "with digits in groups": world.TextFormat(separator=";", decimal=",", thousands="."),
    "with tabs": world.TextFormat(separator="\t"),
    "with bars and spaces in numbers": world.TextFormat(separator="|", decimal=",", thousands=" ", encoding="cp1252"),
    "with commas that groups have too": world.TextFormat(thousands=","),
    "as usual": world.COMMAS,
}


def number(value: float | None, form: world.TextFormat) -> str:
    text = "" if value is None else f"{value:,}" if form.thousands else str(value)
    return text.translate({ord(","): form.thousands, ord("."): form.decimal})


def write(path: Path, form: world.TextFormat, rows: list[tuple[Any, ...]] = ROWS) -> str:
    with path.open("w", encoding=form.encoding, newline="") as file:
        writer = csv.writer(file, delimiter=form.separator, quotechar='"')
        writer.writerow(COLUMNS)
        for city, size, count, day, verdict in rows:
            writer.writerow((city, number(size, form), number(count, form), day, verdict))
    return str(path)


def plan_of(folder: Path, form: world.TextFormat, private: str, public: str) -> Any:
    data = {"private": private, "public": public, "test": private, "label": "urteil", "classes": ["ja", "nein"]}
    privacy = {"domain": "d", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 4, "delta": 4e-5}}
    labeling = {"mechanism": "tallies", "rows": 4}
    return world.parse_plan(
        {"data": {**data, "format": form.model_dump()}, "privacy": privacy, "labeling": labeling, "folder": str(folder)}
    )


@pytest.mark.parametrize("how", WRITTEN)
def test_a_table_is_the_same_however_it_is_written(tmp_path: Path, how: str) -> None:
    """Public encoding, test rows and private rows, all by the plan, to the bit."""
    form = WRITTEN[how]
    table = pl.DataFrame(ROWS, schema=COLUMNS, orient="row").with_columns(pl.col("tag").str.to_date())
    table.write_parquet(tmp_path / "t.parquet")
    text = plan_of(tmp_path, form, write(tmp_path / "t.csv", form), "t.csv")
    plain = plan_of(tmp_path, form, "t.parquet", "t.parquet")
    encoding = world.learn_encoding(text)
    assert encoding.columns == world.learn_encoding(plain).columns
    assert [column.kind for column in encoding.columns] == ["categorical", "numeric", "numeric", "date"]
    rows, truth = world.labelled_rows(text.path("test"), encoding)
    same, as_true = world.labelled_rows(plain.path("test"), encoding)
    assert [exact(rows[name]) for name in rows.columns] == [exact(same[name]) for name in rows.columns]
    assert truth.tolist() == as_true.tolist() == [0, 1, 1, 0]
    private = [cast(plan, encoding) for plan in (text, plain)]
    assert world.encode(private[0], encoding).tobytes() == world.encode(private[1], encoding).tobytes()


def cast(plan: Any, encoding: world.Encoding) -> pl.DataFrame:
    columns = {**dict.fromkeys(encoding.features, "data.features"), "urteil": "data.label"}
    return world.cast_rows(
        pl.concat(world.open_private(plan.path("private"), plan.data.format).frames(columns)), encoding
    )


@pytest.mark.parametrize("how", WRITTEN)
def test_init_finds_how_a_public_table_is_written(tmp_path: Path, how: str) -> None:
    found = world.format_of(write(tmp_path / "t.csv", WRITTEN[how], ROWS * 3))
    assert found == WRITTEN[how]
    assert parse_plan_of(found) == found
    assert bool(world.words_of(found)) == (found != world.COMMAS)


def parse_plan_of(form: world.TextFormat) -> world.TextFormat:
    return world.TextFormat.model_validate(form.model_dump(exclude_defaults=True))


GERMAN = world.TextFormat(separator=";", decimal=",")


def valued(*cells: str) -> bytes:
    """A table of words, and of numbers beside cells that are missing."""
    return "".join(["name;value\n", *(f"{'xy'[at % 2]};{cell}\n" for at, cell in enumerate(cells * 2))]).encode()


FOUND = {
    "Latin-1": ("a,b\nKöln,1\n".encode("latin-1"), world.TextFormat(encoding="latin-1")),
    "one column": (b"a\n1\n2\n", world.COMMAS),
    "nothing": (b"", world.COMMAS),
    "a header alone": (b"a;b;c\n", world.TextFormat(separator=";")),
    "commas in a tabbed text": (b"a\tb\nx, y, z\t1\nu\t2\n", world.TextFormat(separator="\t")),
    "three decimals": (b"a;b\n1,234;1,5\n", world.TextFormat(separator=";", decimal=",")),
    "decimals beside dashes": (valued("1,5", "-", "2,25", "-", "3"), GERMAN),
    "decimals beside points": (valued(".", "1,5", ".", "2,25", "."), GERMAN),
    "decimals beside words of their own": (valued("1,5", "n.b.", "2,25", "3,75", "4"), GERMAN),
    "decimals below empty cells": (valued(*[""] * 6000, "1,5", "2,5"), GERMAN),
    "ragged": (b"a;b\n1;2;3\n4\n5;6\n", world.TextFormat(separator=";")),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_is_found_in_a_small_file(tmp_path: Path, what: str) -> None:
    content, form = FOUND[what]
    (tmp_path / "t.csv").write_bytes(content)
    assert world.find_format([tmp_path / "t.csv"]) == form
    if content.startswith(b"name;value"):
        declared = form.model_copy(update={"missing": ("n.b.",)})
        assert world.open_public(str(tmp_path / "t.csv"), form=declared).kinds(["value"]) == {"value": "numeric"}


@pytest.mark.parametrize("name", ["größe", "stadt", "zahl (m, cm)"])
@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_separator_of_a_private_table_is_found_in_its_first_line_alone(
    tmp_path: Path, sign: str, name: str
) -> None:
    """Whatever its rows are: they would say another one, and another encoding."""
    head = sign.join([f'"{name}"' if sign in name else name, "tag", "urteil"]) + "\r\n"
    for rows in (b"", b"a,b,c,d,e\n" * 9, b"a;b;c;d;e\n" * 9, b"\xff\xfe\x00\n" * 9):
        (tmp_path / "t.csv").write_bytes(head.encode("cp1252") + rows)
        assert world.format_of_private(str(tmp_path / "t.csv")) == world.TextFormat.model_validate({"separator": sign})

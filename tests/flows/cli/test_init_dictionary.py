"""The command `init` with a data dictionary that is a table: it becomes a schema, as a Table Schema does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.console import concord as without_home
from tests.support.declared import people
from tests.world import TABLES_OF_DICTIONARY, load_plan

FIELDS = [
    {"name": "wage", "type": "number", "constraints": {"minimum": "0.5", "maximum": "1000000"}},
    {"name": "age", "type": "integer", "constraints": {"minimum": "17", "maximum": "90"}},
    {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}},
]
GERMAN = """Feld;Art;von;bis;Werte
wage;Decimal;0,5;1000000;
age;int;17;90;
sex;text;;;"Female; Male"
"""
CODED = """name,type,minimum,maximum,values
wage,number,0.5,1000000,
age,integer,17,90,
sex,code,,,Female = woman | Male = man
"""
NAMES = ("--dictionary-columns", "name=Feld,type=Art,minimum=von,maximum=bis,values=Werte")


@pytest.fixture
def concord(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """`init` for a table of people, in its folder."""
    monkeypatch.chdir(tmp_path)
    frame, labels = people(2_000)
    frame.with_columns(label=pl.Series(labels).replace_strict({0: "low", 1: "high"})).write_parquet("private.parquet")
    stated = ("--label", "label", "--classes", "low,high", "--domain", "d", "--rows", "2000", "--unit", "row")
    return lambda *words: without_home("init", "--private", "private.parquet", *stated, *words, "--home", "home")


def read_schema() -> Any:
    return json.loads(Path("schema.json").read_text())["fields"]


@pytest.mark.parametrize(("text", "names"), [(GERMAN, NAMES), (CODED, ())])
def test_a_dictionary_in_csv_becomes_the_schema(
    text: str, names: tuple[str, ...], concord: Callable[..., tuple[int, str, str]]
) -> None:
    Path("fields.csv").write_text(text)
    status, _, error = concord("--schema", "fields.csv", *names)
    assert (status, error) == (0, "")
    assert read_schema() == FIELDS
    declared = load_plan(Path("plan.toml")).data.declared
    assert declared is not None
    assert declared.names == ("wage", "age", "sex")
    Path("plan.toml").unlink()
    assert concord("--schema", "fields.csv", *names)[0] == 0  # the same again
    Path("plan.toml").unlink()
    Path("schema.json").write_text("{}")
    assert "another schema" in concord("--schema", "fields.csv", *names)[2]


@pytest.mark.parametrize("suffix", sorted({*TABLES_OF_DICTIONARY} - {".tsv", ".csv"}))
def test_a_dictionary_in_arrow_becomes_the_schema(suffix: str, concord: Callable[..., tuple[int, str, str]]) -> None:
    lists = {"Name": ["wage", "sex"], "Type": ["number", "string"], "values": [None, "Female; Male, or other"]}
    frame = pl.DataFrame({**lists, "minimum": [0.5, None], "maximum": [1e6, None]})
    write = frame.write_parquet if suffix == ".parquet" else frame.write_ipc
    write(f"fields{suffix}")
    private = pl.read_parquet("private.parquet").drop("age")
    private.write_parquet("private.parquet")
    assert concord("--schema", f"fields{suffix}")[0] == 0
    limits = {"minimum": "0.5", "maximum": "1000000"}
    assert read_schema() == [
        {"name": "wage", "type": "number", "constraints": limits},
        {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male, or other"]}},
    ]


@pytest.mark.parametrize(
    ("text", "words", "rule"),
    [
        ("Feld,Art\nage,int\n", (), "--dictionary-columns name=…,type=… gives their names"),
        ("name\nage\n", (), "and some of the others"),
        ("name,type\nage,length\n", (), "the type of 'age' must be one of number, integer"),
        ("name,type\n,integer\n", (), "row 1 has no name"),
        ("name,type,minimum\nage,integer,1\n", (), "field 'age': constraints must give maximum"),
        ("name,type\nage,int\n", ("--dictionary-columns", "kind=type"), "must be KEY=COLUMN with the keys name, type"),
        ("name,type\nage,int\n", ("--dictionary-columns", "type=Typ"), "with the columns 'name', 'Typ'"),
    ],
)
def test_a_wrong_dictionary_is_refused_and_writes_nothing(
    text: str, words: tuple[str, ...], rule: str, concord: Callable[..., tuple[int, str, str]]
) -> None:
    Path("fields.csv").write_text(text)
    status, _, error = concord("--schema", "fields.csv", *words)
    assert (status, rule in error) == (2, True), error
    assert not Path("schema.json").exists()
    assert not Path("plan.toml").exists()


def test_columns_of_a_table_schema_are_not_renamed(concord: Callable[..., tuple[int, str, str]]) -> None:
    Path("schema.json").write_text(json.dumps({"fields": FIELDS}))
    status, _, error = concord("--schema", "schema.json", *NAMES)
    assert (status, "--schema must be one: CSV, or Arrow" in error) == (2, True)

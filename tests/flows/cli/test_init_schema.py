"""The command `init` without a public table: a schema to declare, or a data dictionary that becomes one, then a plan;
no private cell is read."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import concord
from tests import world
from tests.support.console import Terminal, heard
from tests.support.console import concord as without_home
from tests.support.sentences import says

STATED = ("--classes", "low,high", "--domain", "workers", "--rows", "4000")
ANSWERS = {
    "age": "17 90",
    "wage": "0 to 1e6",
    "sex": "Female, Male",
    "since": "1990-01-01 2030-12-31",
    "note": "",
}
"""By column, what its owner knows of it from documentation."""


def workers(rows: int = 4_000) -> pl.DataFrame:
    source = np.random.default_rng(1)
    age, days = source.integers(17, 91, rows), source.integers(0, 9_000, rows)
    return pl.DataFrame(
        {
            "person": [f"p{number}" for number in source.integers(0, rows, rows)],
            "age": age,
            "wage": np.exp(source.normal(8, 1, rows)) * age / 40,
            "sex": source.choice(["Female", "Male"], rows),
            "member": source.random(rows) < 0.5,
            "since": [date(1995, 1, 1) + timedelta(days=int(day)) for day in days],
            "note": [f"note {number}" for number in range(rows)],
            "class": np.where(age + source.normal(0, 5, rows) > 50, "high", "low"),
        }
    )


@pytest.fixture(params=["parquet", "csv"])
def given(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options for a table of workers, in the folder the command is given in."""
    monkeypatch.chdir(tmp_path)
    write(f"private.{request.param}", workers())
    return ("--private", f"private.{request.param}", "--label", "class")


@pytest.fixture(autouse=True)
def simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the plan is looked at, a sketch is simulated by one draw of rows, with a strong signal."""
    monkeypatch.setattr(world.advice_rehearse_sketch, "DRAWS", 1)
    monkeypatch.setattr(world.advice_rehearse_sketch, "SIGNALS", ("strong",))


def write(path: str, rows: pl.DataFrame) -> None:
    rows.write_csv(path) if path.endswith("csv") else rows.write_parquet(path)


def fill_in() -> None:
    """The schema as its owner fills it in."""
    schema = json.loads(Path("schema.json").read_text())
    for field in schema["fields"]:
        answer = ANSWERS.get(field["name"], "")
        if field["name"] == "sex":
            field |= {"type": "string", "constraints": {"enum": answer.split(", ")}}
        elif field["name"] == "member":
            field["type"] = "boolean"
        elif field["name"] == "note" and field["type"] == "string":
            field["type"] = "any"
        elif answer:
            low, high = answer.replace(" to ", " ").split()
            kinds = {"age": "integer", "wage": "number", "since": "date"}
            field |= {"type": kinds[field["name"]], "constraints": {"minimum": low, "maximum": high}}
    Path("schema.json").write_text(json.dumps(schema))


def test_without_a_public_table_the_schema_is_written_and_left_open(given: tuple[str, ...]) -> None:
    status, printed, error = without_home("init", *given)
    assert (status, error) == (0, "")
    assert "range that is much too wide costs the model nothing" in printed
    assert not Path("plan.toml").exists()
    written = Path("schema.json").read_text()
    fields = {field["name"]: field for field in json.loads(written)["fields"]}
    assert [*fields] == ["person", "age", "wage", "sex", "member", "since", "note"]
    kinds = ["string", "integer", "number", "string", "boolean", "date", "string"]
    assert [field["type"] for field in fields.values()] == (kinds if "private.parquet" in given else ["any"] * 7)
    assert not any(any(field.get("constraints", {}).values()) for field in fields.values())

    status, printed, error = without_home("init", *given, *STATED, "--unit", "row")
    if "private.csv" in given:
        assert (status, says(error, "range", "categories", "one column")) == (2, True)
    else:  # truth values need no more
        assert (status, says(printed, "'age'", "range", "categories", "left out")) == (0, True)
    assert Path("schema.json").read_text() == written


def test_of_the_private_table_the_header_and_stored_types_alone_matter(given: tuple[str, ...]) -> None:
    def schema() -> str:
        assert without_home("init", *given)[0] == 0
        found = Path("schema.json").read_text()
        Path("schema.json").unlink()
        return found

    before, none = schema(), workers().select(pl.all().shuffle(3)).tail(0)
    write(given[1], none)
    assert schema() == before


def test_with_the_schema_filled_in_the_same_command_writes_the_plan(given: tuple[str, ...]) -> None:
    assert without_home("init", *given, "--unit", "person")[0] == 0
    fill_in()
    status, _, error = without_home("init", *given, *STATED)
    assert (status, says(error, "--unit", "no public table")) == (2, True)
    status, printed, error = without_home("init", *given, *STATED, "--unit", "person", "--json")
    assert (status, error) == (0, "")
    found = json.loads(printed)
    assert (found["plan"], found["schema"], found["mechanism"]) == ("plan.toml", "schema.json", "tallies")
    assert found["columns"]["note"] == "no range or categories declared, left out"
    assert says(found["reason"], "cannot be foreseen", "--shares")
    assert (found["classes"], without_home("plan", "plan.toml")[0]) == ([], 0)
    Path("plan.toml").unlink()
    shared = ("--shares", "low=.06, high=.94")
    found = json.loads(without_home("init", *given, *STATED, *shared, "--unit", "person", "--json")[1])
    assert "simulated with synthetic labels on plausible rows of the schema: expect an accuracy of" in found["reason"]
    assert "majority-class baseline 94%" in found["reason"]
    assert [(each["name"], round(each["share"][0], 2)) for each in found["classes"]] == [("low", 0.06), ("high", 0.94)]
    assert world.load_plan(Path("plan.toml")).data.shares == {"low": 0.06, "high": 0.94}
    status, printed, error = without_home("plan", "plan.toml", "--json")
    assert (status, error) == (0, "")
    planned = json.loads(printed)
    assert [(each["name"], each["feasible"]) for each in planned["mechanisms"]] == [("sketch", True)]
    assert planned["mechanisms"][0]["reason"] == planned["sketch"]["reason"] in found["reason"]
    status, printed, error = without_home("plan", "plan.toml")
    assert (status, "two-way tables" in printed, "without privacy" in printed) == (0, True, True)
    data = world.load_plan(Path("plan.toml")).data
    assert (data.public, data.unit) == (None, "person")
    assert data.features == ("age", "wage", "sex", "member", "since")
    assert data.sketched.columns == (
        world.DeclaredRange(kind="numeric", name="age", low=17, high=90, whole=True),
        world.DeclaredRange(kind="numeric", name="wage", low=0, high=1e6, whole=False),
        world.DeclaredCategories(kind="categorical", name="sex", words=("Female", "Male")),
        world.DeclaredTruth(kind="boolean", name="member"),
        world.DeclaredRange(kind="date", name="since", low=7305, high=22279, whole=True),
    )


def test_at_a_terminal_each_column_is_asked_for_once_and_again_if_the_answer_cannot_be(given: tuple[str, ...]) -> None:
    csv, wrong = "private.csv" in given, "90 17"
    kinds = {"age": "integer ", "wage": "number ", "since": "date "} if csv else {}
    answers = [(kinds.get(name, "") if answer else "") + answer for name, answer in ANSWERS.items()]
    answers[3:3] = ["boolean"] if csv else []
    answers[-1] = "string" if csv else ""
    again = ["agee", "age", f"{kinds.get('age', '')}{ANSWERS['age']}", ""]  # what was read back is corrected
    answers[0] = answers[0].replace("17", "7")
    typed = "\n".join(["person", (kinds.get("age", "") + wrong), *answers, *again]) + "\n"
    status, _, error = heard("init", *given, *STATED, "--json", stdin=Terminal(typed))
    assert status == 0, error
    assert "never from the rows" in error
    assert says(error, "minimum", "maximum", 90, 17)
    assert says(
        error, "'age': whole numbers, 7 to 90", "'age': whole numbers, 17 to 90", "'agee' is none of the columns"
    )
    assert "'since': dates, 1990-01-01 to 2030-12-31" in error
    data = world.load_plan(Path("plan.toml")).data
    assert data.features == ("age", "wage", "sex", "member", "since", "note")
    assert data.sketched.columns[-1] == world.DeclaredText(kind="text", name="note", buckets=32)
    age = json.loads(Path("schema.json").read_text())["fields"][0]
    assert age == {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}}


@pytest.mark.parametrize("kind", ["any", "string"])
def test_names_of_types_begin_categories_and_a_range_with_a_comma_is_asked_for_again(kind: str) -> None:
    """Its values would be categories: each cell would be an undeclared one, at full price."""
    for word in world.SCALARS:
        declared = world.answered({"name": "class", "type": kind}, f"{word} 1, {word} 2")
        assert declared == {"name": "class", "type": "string", "constraints": {"enum": [f"{word} 1", f"{word} 2"]}}
    values = ("0, 120", "0,1e6", "-1, to 1", "0,5 1,5", "1, 2, 3", "1990-01-01, 2030-12-31")
    for word, range_of in product(("integer", "number", "year", "date", "datetime"), values):
        with pytest.raises(world.WrongInput):
            world.answered({"name": "age", "type": kind}, f"{word} {range_of}")
    for answer in ("red", "2023 to 2025", "01/02/2023 to 03/04/2025", "string red"):
        with pytest.raises(world.WrongInput, match="must be two or more"):
            world.answered({"name": "day", "type": "any"}, answer)


@pytest.mark.parametrize("answer", ["01.01.2023 to 31.12.2025", "1.1.2023 31.12.2025", "date 01.01.2023 to 31.12.2025"])
def test_a_range_of_dates_was_one_category(answer: str) -> None:
    declared = world.answered({"name": "day", "type": "any"}, answer)
    limits = {"minimum": "2023-01-01", "maximum": "2025-12-31"}
    assert declared == {"name": "day", "type": "date", "format": "%d.%m.%Y", "constraints": limits}
    assert world.answered({"name": "day", "type": "any"}, "2023-01-01 to 2025-12-31")["constraints"] == limits


@pytest.mark.parametrize(
    ("form", "answer", "bounds"),
    [
        ({"decimal": ","}, "number 0 250.000", (0, 250_000)),
        ({"decimal": ","}, "number 0,5 to 1.250,5", (0.5, 1250.5)),
        ({"decimal": ",", "thousands": "'"}, "integer 0 to 1'000", (0, 1000)),
        ({"thousands": ","}, "number 0 to 250,000.5", (0, 250_000.5)),
        ({}, "number 0 250.000", (0, 250)),
    ],
)
def test_a_range_is_read_as_the_numbers_of_the_file_are(
    form: dict[str, Any], answer: str, bounds: tuple[float, float]
) -> None:
    """`250.000` was 250 with decimal commas."""
    found = world.answered({"name": "wage", "type": "any"}, answer, world.TextFormat(**form))
    assert tuple(found["constraints"].values()) == bounds


@pytest.mark.slow
def test_a_table_alone_goes_from_init_to_verify_as_it_stands(
    concord: Callable[..., Any], given: tuple[str, ...]
) -> None:
    assert concord("init", *given, "--unit", "person")[0] == 0
    fill_in()
    assert concord("init", *given, *STATED, "--unit", "person")[0] == 0
    assert concord("plan", "plan.toml")[0] == 0
    status, printed, error = concord("run", "plan.toml", "--json")
    assert status == 0, error
    assert json.loads(printed)["mechanism"]["name"] == "sketch"
    assert json.loads(concord("verify", "--json")[1])["ok"]


CLINIC = ("Aufnahme;Größe;Geschlecht;class\r\n" + "1,5;-99;männlich;high\r\n" * 3).encode("cp1252")
SAID = "encoding=cp1252 decimal=, missing=-99"


@pytest.mark.parametrize("how", ["options", "Python", "dialogue"])
def test_a_table_as_excel_writes_it_was_a_dead_end_without_a_public_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its separator stands in the first line, and so does that it is no UTF-8; all else is given."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(CLINIC)
    given = ("--private", "t.csv", "--label", "class", "--unit", "row")
    status, printed, error = without_home("init", *given)
    assert (status, printed) == (2, "")
    assert says(error, "--format", "encoding", "cp1252", "first line", "t.csv")
    if how == "dialogue":
        typed = (
            f"t.csv\n\n\n\n{SAID}\nclass\nlow,high\nlow=.5\nlow=.9,high=.1\nrow\nd\n4000\n\n\n\n\n"
            "number 0 10\nnumber 1 2\nmännlich, weiblich\n"
        )
        status, _, error = heard("init", stdin=Terminal(typed + "\n" * 5))
        assert status == 0, error
    else:
        words = {"private": "t.csv", "label": "class", "unit": "row"}
        asked = {"encoding": "cp1252", "decimal": ",", "missing": ["-99"]}
        assert without_home("init", *given, "--format", SAID)[0] == 0
        schema = json.loads(Path("schema.json").read_text("utf-8"))
        assert [field["name"] for field in schema["fields"]] == ["Aufnahme", "Größe", "Geschlecht"]
        schema["fields"][0] = {"name": "Aufnahme", "type": "boolean"}
        Path("schema.json").write_text(json.dumps(schema), "utf-8")
        if how == "Python":
            concord.init(**words, format=asked, classes=["low", "high"], domain="d", rows=4000)
        else:
            assert without_home("init", *given, *STATED, "--format", SAID)[0] == 0
    form = world.load_plan(Path("plan.toml")).data.format
    assert form == world.TextFormat(separator=";", decimal=",", encoding="cp1252", missing=("-99",))


# A data dictionary that is a table ------------------------------------------------------------------------------------

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
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """`init` for a table of some columns of workers, in its folder."""
    monkeypatch.chdir(tmp_path)
    write("private.parquet", workers().select("wage", "age", "sex", "class"))
    stated = ("--label", "class", *STATED, "--unit", "row")
    return lambda *words: without_home("init", "--private", "private.parquet", *stated, *words, "--home", "home")


def read_schema() -> Any:
    return json.loads(Path("schema.json").read_text())["fields"]


@pytest.mark.parametrize(("text", "names"), [(GERMAN, NAMES), (CODED, ())])
def test_a_dictionary_in_csv_becomes_the_schema(
    text: str, names: tuple[str, ...], init: Callable[..., tuple[int, str, str]]
) -> None:
    Path("fields.csv").write_text(text)
    status, _, error = init("--schema", "fields.csv", *names)
    assert (status, error) == (0, "")
    assert read_schema() == FIELDS
    declared = world.load_plan(Path("plan.toml")).data.declared
    assert declared is not None
    assert declared.names == ("wage", "age", "sex")
    Path("plan.toml").unlink()
    assert init("--schema", "fields.csv", *names)[0] == 0  # the same again
    Path("plan.toml").unlink()
    Path("schema.json").write_text("{}")
    assert "another schema" in init("--schema", "fields.csv", *names)[2]


def test_a_category_that_begins_with_a_sign_is_no_code_and_a_column_of_one_value_is_left_out(
    init: Callable[..., tuple[int, str, str]],
) -> None:
    """`<=30` was the code `<`; of a column of one value, `init` asked to change features that it had named itself."""
    rows = "wage,text,<=30; >=30\nage,integer,17\nsex,boolean,yes; no\n"
    Path("fields.csv").write_text(f"name,type,values\n{rows}")
    assert init("--schema", "fields.csv")[0] == 0
    declared = [field.get("constraints", {}).get("enum") for field in read_schema()]
    assert declared == [["<=30", ">=30"], ["17"], None]
    assert world.load_plan(Path("plan.toml")).data.features == ("wage", "sex")


@pytest.mark.parametrize("suffix", sorted({*world.TABLES_OF_DICTIONARY} - {".tsv", ".csv"}))
def test_a_dictionary_in_arrow_becomes_the_schema(suffix: str, init: Callable[..., tuple[int, str, str]]) -> None:
    lists = {"Name": ["wage", "sex"], "Type": ["number", "string"], "values": [None, "Female; Male, or other"]}
    frame = pl.DataFrame({**lists, "minimum": [0.5, None], "maximum": [1e6, None]})
    write = frame.write_parquet if suffix == ".parquet" else frame.write_ipc
    write(f"fields{suffix}")
    private = pl.read_parquet("private.parquet").drop("age")
    private.write_parquet("private.parquet")
    assert init("--schema", f"fields{suffix}")[0] == 0
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
        ("name,type,values\nsex,bool,1 = yes; 2 = no\n", (), "'sex' must be truth values such as yes and no, got '2'"),
        ("name,type\nage,int\n", ("--dictionary-columns", "kind=type"), "must be KEY=COLUMN with the keys name, type"),
        ("name,type\nage,int\n", ("--dictionary-columns", "type=Typ"), "with the columns 'name', 'Typ'"),
    ],
)
def test_a_wrong_dictionary_is_refused_and_writes_nothing(
    text: str, words: tuple[str, ...], rule: str, init: Callable[..., tuple[int, str, str]]
) -> None:
    Path("fields.csv").write_text(text)
    status, _, error = init("--schema", "fields.csv", *words)
    assert (status, rule in error) == (2, True), error
    assert not Path("schema.json").exists()
    assert not Path("plan.toml").exists()


def test_columns_of_a_table_schema_are_not_renamed(init: Callable[..., tuple[int, str, str]]) -> None:
    Path("schema.json").write_text(json.dumps({"fields": FIELDS}))
    status, _, error = init("--schema", "schema.json", *NAMES)
    assert (status, "--schema must be one: CSV, or Arrow" in error) == (2, True)

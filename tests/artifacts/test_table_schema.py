"""The declared schema: what a Table Schema is read as, and one sentence for each way to be wrong."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.table_schema import (
    DeclaredCategories,
    DeclaredRange,
    DeclaredText,
    DeclaredTruth,
    TableSchema,
    read_schema,
    schema_of,
)
from tests.support.sentences import facts

AGE = {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}}
SEX = {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}}


def of(*fields: Any) -> TableSchema:
    return schema_of({"fields": list(fields)})


def test_a_data_dictionary_is_read_as_it_is() -> None:
    found = schema_of(
        {
            "$schema": "https://datapackage.org/profiles/2.0/tableschema.json",
            "primaryKey": "id",
            "missingValues": ["", "-99"],
            "fields": [
                {**AGE, "title": "Age in years", "constraints": {"required": True, "minimum": "17", "maximum": 90}},
                SEX,
                {"name": "wage", "type": "number", "constraints": {"minimum": -0.5, "maximum": 1e6}},
                {"name": "veteran", "type": "boolean"},
                {"name": "since", "type": "date", "constraints": {"minimum": "1970-01-02", "maximum": "2020-12-31"}},
                {"name": "code", "type": "integer", "constraints": {"enum": [1, 2.0, "03"]}},
                {"name": "town", "type": "string", "constraints": {"enum": []}},
                {"name": "street", "type": "string", "buckets": 64},
                {"name": "note", "type": "any"},
            ],
        }
    )
    assert found.columns == (
        DeclaredRange(kind="numeric", name="age", low=17, high=90, whole=True),
        DeclaredCategories(kind="categorical", name="sex", words=("Female", "Male")),
        DeclaredRange(kind="numeric", name="wage", low=-0.5, high=1e6, whole=False),
        DeclaredTruth(kind="boolean", name="veteran"),
        DeclaredRange(kind="date", name="since", low=1, high=18627, whole=True),
        DeclaredCategories(kind="categorical", name="code", words=("1", "2", "03")),
        DeclaredText(kind="text", name="town", buckets=32),
        DeclaredText(kind="text", name="street", buckets=64),
    )
    assert found.undeclared == ("note",)


def test_dates_of_toml_and_moments_are_days_since_1970() -> None:
    days = {"minimum": date(1970, 1, 2), "maximum": date(1970, 2, 1)}
    moments = {"minimum": "1970-01-02T12:00:00", "maximum": "1970-01-03T00:00:00+01:00"}
    found = of(
        {"name": "day", "type": "date", "constraints": days},
        {"name": "moment", "type": "datetime", "constraints": moments},
    )
    assert [(column.low, column.high) for column in found.columns if isinstance(column, DeclaredRange)] == [
        (1.0, 31.0),
        (1.5, 2 - 1 / 24),
    ]


@pytest.mark.parametrize("given", [[], {}, {"fields": {}}, {"fields": []}, {"fields": ["age"]}, "age", None])
def test_what_is_no_table_schema_is_refused(given: Any) -> None:
    with pytest.raises(WrongInput, match=r"data\.schema must be a Table Schema"):
        schema_of(given)


def test_names_are_given_once_and_something_is_declared() -> None:
    with pytest.raises(WrongInput, match="name each column once, got 'age' twice"):
        of(AGE, AGE)
    with pytest.raises(WrongInput, match="give every field a name"):
        of({"type": "integer"})
    with pytest.raises(WrongInput, match=facts("range", "categories", "one column")):
        of({"name": "note", "type": "any"})
    alone = of({"name": "country", "type": "string", "constraints": {"enum": ["Italy"]}})
    with pytest.raises(WrongInput, match=facts("more than one value")):
        alone.check("income")
    with pytest.raises(WrongInput, match=facts("'country'", "data.schema", "one value")):
        alone.only(["country"])


def test_schema_and_table_must_have_the_same_columns() -> None:
    found = of(AGE, SEX)
    found.check("income", ["age", "sex", "income"])
    found.check("income", ["age", "sex", "income", "person"], no_features=["person"])
    with pytest.raises(WrongInput, match="must not name the label 'sex'"):
        found.check("sex")
    with pytest.raises(WrongInput, match=facts("'sex'", "data.private")):
        found.check("income", ["age", "income"])
    with pytest.raises(WrongInput, match=facts("data.private", "1 of the columns", "data.schema")) as wrong:
        found.check("income", ["age", "sex", "race", "income"])
    assert "race" not in str(wrong.value)  # a pivoted table has values as names


def test_features_choose_and_order_columns() -> None:
    found = of(AGE, SEX)
    assert found.only(["sex"]).names == ("sex",)
    with pytest.raises(WrongInput, match=r"data\.features names 'race'"):
        found.only(["race"])


def test_a_file_is_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    with pytest.raises(WrongInput, match=facts("data.schema", "'schema.json'", "No such file")):
        read_schema(path)
    path.write_text("{")
    with pytest.raises(WrongInput, match="it is no JSON"):
        read_schema(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(WrongInput, match="it is no JSON"):
        read_schema(path)
    path.write_text(json.dumps({"fields": [AGE, SEX]}))
    assert read_schema(path) == of(AGE, SEX)
    assert read_schema(path).digest == of(AGE, SEX).digest != of(SEX, AGE).digest

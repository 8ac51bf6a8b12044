"""The declared schema: what a Table Schema is read as. What is said of a wrong one: tests/texts/wrong_plans.py"""

import json
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.sentences import facts
from tests.texts.wrong_plans import SCHEMAS

WORD = world.Spelling(absent=("-99",))
AGE: dict[str, Any] = {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}}
SEX = {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}}


def of(*fields: Any) -> world.TableSchema:
    return world.schema_of({"fields": list(fields)})


def test_a_data_dictionary_is_read_as_it_is() -> None:
    found = world.schema_of(
        {
            "$schema": "https://datapackage.org/profiles/2.0/tableschema.json",
            "primaryKey": "id",
            "missingValues": ["", "-99"],
            "fields": [
                {
                    **AGE,
                    "title": "Age in years",
                    "missingValues": [],
                    "constraints": {"required": True, "minimum": "17", "maximum": 90},
                },
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
        world.DeclaredRange(kind="numeric", name="age", low=17, high=90, whole=True),
        world.DeclaredCategories(kind="categorical", name="sex", words=("Female", "Male"), spelling=WORD),
        world.DeclaredRange(
            kind="numeric", name="wage", low=-0.5, high=1e6, whole=False, spelling=world.Spelling(absent=(-99.0,))
        ),
        world.DeclaredTruth(kind="boolean", name="veteran", spelling=WORD),
        world.DeclaredRange(kind="date", name="since", low=1, high=18627, whole=True, spelling=WORD),
        world.DeclaredCategories(kind="categorical", name="code", words=("1", "2", "03"), spelling=WORD),
        world.DeclaredText(kind="text", name="town", buckets=32, spelling=WORD),
        world.DeclaredText(kind="text", name="street", buckets=64, spelling=WORD),
    )
    assert found.undeclared == ("note",)


@pytest.mark.parametrize("ends", [("02.01.1970", "31.12.2020"), ("1970-01-02", "2020-12-31")])
def test_ends_of_dates_are_written_as_declared_or_as_iso(ends: tuple[str, str]) -> None:
    limits = dict(zip(("minimum", "maximum"), ends, strict=True))
    (found,) = world.schema_of({"fields": [{**DATE, "format": "%d.%m.%Y", "constraints": limits}]}).columns
    assert isinstance(found, world.DeclaredRange)
    assert (found.low, found.high) == (1, 18627)


def test_dates_of_toml_and_moments_are_days_since_1970() -> None:
    days = {"minimum": date(1970, 1, 2), "maximum": date(1970, 2, 1)}
    moments = {"minimum": "1970-01-02T12:00:00", "maximum": "1970-01-03T00:00:00+01:00"}
    found = of(
        {"name": "day", "type": "date", "constraints": days},
        {"name": "moment", "type": "datetime", "constraints": moments},
    )
    assert [(column.low, column.high) for column in found.columns if isinstance(column, world.DeclaredRange)] == [
        (1.0, 31.0),
        (1.5, 2 - 1 / 24),
    ]


def test_schema_and_table_must_have_the_same_columns() -> None:
    alone = of({"name": "country", "type": "string", "constraints": {"enum": ["Italy"]}})
    with pytest.raises(world.WrongInput, match=facts("more than one value")):
        alone.check("income")
    with pytest.raises(world.WrongInput, match=facts("'country'", "data.schema", "one value")):
        alone.only(["country"])
    found = of(AGE, SEX)
    found.check("income", ["age", "sex", "income"])
    found.check("income", ["age", "sex", "income", "person"], no_features=["person"])
    assert found.without(["sex", None]) == of(AGE)
    with pytest.raises(world.WrongInput, match=facts("'sex'", "data.private")):
        found.check("income", ["age", "income"])
    with pytest.raises(world.WrongInput, match=facts("data.private", "1 of the columns", "data.schema")) as wrong:
        found.check("income", ["age", "sex", "race", "income"])
    assert "race" not in str(wrong.value)  # a pivoted table has values as names


def test_features_choose_and_order_columns() -> None:
    found = of(AGE, SEX)
    assert found.only(["sex"]).names == ("sex",)
    with pytest.raises(world.WrongInput, match=r"data\.features names 'race'"):
        found.only(["race"])


def test_a_file_is_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    with pytest.raises(world.WrongInput, match=facts("data.schema", "'schema.json'", "No such file")):
        world.read_schema(path)
    path.write_text("{")
    with pytest.raises(world.WrongInput, match="it is no JSON"):
        world.read_schema(path)
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(world.WrongInput, match="it is no JSON"):
        world.read_schema(path)
    path.write_text(json.dumps({"fields": [AGE, {**SEX, "constraints": {"enum": ["f", "\ud800"]}}]}))
    with pytest.raises(world.WrongInput, match=r"field 'sex': enum: must be a valid string, .* unicode string"):
        world.read_schema(path)
    text = json.dumps({"fields": [AGE, {**SEX, "name": " sex "}]})
    for written in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le"):
        path.write_text(text, written)
        assert world.read_schema(path) == of(AGE, SEX)
    assert world.read_schema(path).digest == of(AGE, SEX).digest != of(SEX, AGE).digest


DATE = {"name": "day", "type": "date", "constraints": {"minimum": "1970-01-02", "maximum": "2020-12-31"}}
TRUTH = {"name": "member", "type": "boolean"}
GIVEN: dict[str, dict[str, Any]] = {
    "$schema": {"$schema": "https://datapackage.org/profiles/2.0/tableschema.json"},
    "primaryKey": {"primaryKey": ["age"]},
    "uniqueKeys": {"uniqueKeys": [["age"]]},
    "foreignKeys": {"foreignKeys": [{"fields": ["age"], "reference": {"resource": "", "fields": ["age"]}}]},
    "fieldsMatch": {"fieldsMatch": ["exact"]},
    "missingValues": {"missingValues": ["", "-9", {"value": "-8", "label": "not asked"}]},
    "title": {"fields": [{**AGE, "title": "Age"}]},
    "description": {"fields": [{**AGE, "description": "in years"}]},
    "example": {"fields": [{**AGE, "example": 18}]},
    "rdfType": {"fields": [{**AGE, "rdfType": "https://schema.org/age"}]},
    "categoriesOrdered": {"fields": [{**AGE, "categoriesOrdered": True}]},
    "format": {"fields": [{**DATE, "format": "%d.%m.%Y"}]},
    "categories": {"fields": [{"name": "sex", "type": "integer", "categories": [{"value": 0, "label": "f"}, 1]}]},
    "trueValues": {"fields": [{**TRUTH, "trueValues": ["Si", "1"]}]},
    "falseValues": {"fields": [{**TRUTH, "falseValues": ["2"]}]},
    "buckets": {"fields": [{"name": "street", "type": "string", "buckets": 64}]},
    "exclusiveMinimum": {"fields": [{**AGE, "constraints": {"exclusiveMinimum": 16, "maximum": 90}}]},
    "exclusiveMaximum": {
        "fields": [{**DATE, "constraints": {"minimum": "1970-01-02", "exclusiveMaximum": "2021-01-01"}}]
    },
    **{
        name: {"fields": [{**AGE, "constraints": {**AGE["constraints"], name: value}}]}
        for name, value in {
            **{"required": True, "unique": True, "minLength": 1, "maxLength": 2, "pattern": "[0-9]+"},
            **{"jsonSchema": {"type": "integer"}, "minimum": 17, "maximum": 90, "enum": []},
        }.items()
    },
}
"""What is read, or says nothing of cells: of every property a schema that has it."""


def test_every_property_of_the_standard_is_tried_here() -> None:
    everywhere = {"fields", "name", "type", "constraints"}
    assert {name for owned in world.PROPERTIES.values() for name in owned} <= GIVEN.keys() | SCHEMAS.keys() | everywhere


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_said_to_be_read_is_read_and_what_is_allowed_changes_nothing(name: str) -> None:
    """Before, a form of dates, words of truth values and markers of missing cells were ignored, at full price."""
    found = world.schema_of({"fields": [AGE], **GIVEN[name]})
    fates = {owned[name] for owned in world.PROPERTIES.values() if name in owned}
    assert not any(fate.startswith("refused") for fate in fates)
    if all(fate.startswith("allowed") for fate in fates) or name in ("exclusiveMinimum", "minimum", "maximum", "enum"):
        assert found == of(AGE)
    elif name == "exclusiveMaximum":
        assert found == of(DATE)
    elif name != "fieldsMatch":
        assert found not in (of(AGE), of(DATE), of(TRUTH))


def read(field: dict[str, Any], cells: list[Any], **schema: Any) -> list[Any]:
    """Cells of a column, as private rows are read by its field."""
    declared = world.schema_of({"fields": [field], **schema})
    encoding = world.Encoding(columns=world.reading_columns(declared), label="y", classes=("a", "b"))
    return list(world.cast_rows(pl.DataFrame({field["name"]: cells}, strict=False), encoding)[field["name"]])


def test_cells_are_read_as_the_dictionary_has_them_written() -> None:
    age, day, member = AGE | {"missingValues": ["999", "unknown"]}, DATE | {"format": "%d.%m.%Y"}, TRUTH
    assert read(age, ["18", "999", "999.0", "unknown", "1000"]) == [18, None, None, None, 1000]
    assert read(age, [18, 999, None]) == [18, None, None]
    days = [date(2020, 12, 31), date(2020, 2, 1), date(2020, 12, 31), None, None]
    found = read(day | {"missingValues": ["09.09.2099"]}, ["31.12.2020", "1.2.2020", "2020-12-31", "09.09.2099", "x"])
    assert [moment and moment.date() for moment in found] == days
    assert read(member, ["ja", "Nein", "Y", "non", "1", "maybe"]) == [True, False, True, False, True, None]
    assert read(member | {"trueValues": ["1"], "falseValues": ["2"]}, [1, 2, 3]) == [True, False, None]
    assert read(member | {"trueValues": ["0"], "falseValues": ["1"]}, ["0", "1", "yes"]) == [True, False, None]
    assert read(member | {"missingValues": ["N", "0"]}, ["y", "N", "0", "n"]) == [True, None, None, False]
    assert read(SEX, ["Male", "k. A.", "other"], missingValues=["k. A."]) == ["Male", None, "other"]


def test_a_schema_is_read_out_of_a_resource_and_of_a_data_package_of_one() -> None:
    resource = {"name": "t", "path": "t.csv", "schema": {"fields": [AGE, SEX]}}
    assert world.schema_of(resource) == world.schema_of({"name": "p", "resources": [resource]}) == of(AGE, SEX)


def test_a_dictionary_may_name_label_and_unit() -> None:
    """Every dictionary does; they are no features."""
    label, unit = {"name": "y", "type": "string"}, {"name": "person", "type": "any"}
    data = {"private": "t.csv", "label": "y", "unit": "person", "classes": ["a", "b"]}
    plan = world.DataPlan.model_validate({**data, "schema": {"fields": [unit, AGE, label]}})
    assert plan.sketched == of(AGE)
    with pytest.raises(world.WrongInput, match="besides the label"):
        world.DataPlan.model_validate({**data, "schema": {"fields": [unit, label]}})

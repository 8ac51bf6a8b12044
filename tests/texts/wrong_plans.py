"""What may be wrong with a plan, or with a declared schema: changes of one that is right, by the key's place.

None leaves a key or section out. What is said of each stands in wrong_plans.txt, which `make reference` writes."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.people import tables_of_plan
from tests.world import parse_plan, schema_of

Changes = dict[str, Any]
STUMPS = {"learner": "universal", "hypotheses": "stumps"}
LINEAR = {"learner": "linear"}
QUERY = {"query": "SELECT 1", "connection": "X"}


def each_of(place: str, *values: Any) -> list[Changes]:
    """A change of that key to each of the values."""
    return [{place: value} for value in values]


BASES: dict[str, Changes] = {
    "labels": {},
    "tallies": {"teachers": None, "student": None, "labeling": {"mechanism": "tallies", "rows": 3000}},
    "universal": {"teachers": None, "labeling": None, "student": STUMPS},
}
BASES["a number"] = BASES["tallies"] | {"data.classes": None, "data.bounds": [0, 50.5], "data.label": "cost"}
BASES["a stream"] = BASES["tallies"] | {"stream": {"season": 4}}
"""A plan for each, as changes of one for labels."""
PLANS: dict[str, list[Changes]] = {
    "labels": [
        {"data": None},
        {"studnt": {}},
        {"data.clases": ["no", "yes"]},
        {"data.label": 3},
        *each_of("data.classes", "yes", ["no"], ["no", "\ud800"]),
        {"data.features": []},
        {"data.features": ["size"], "data.categories": ["visits"]},
        {"data.categories": ["outcome"]},
        {"data.text": ["shade"], "data.features": ["size"]},
        {"data.text": ["shade"], "data.categories": ["shade"]},
        {"data.text": ["shade"], "labeling": {"mechanism": "auto", "rows": 9000}},
        {"privacy.domain": "my {clinic}"},
        *each_of("privacy.epsilon", "one", True, 0, 10.0),
        {"privacy.delta": 2},
        {"privacy.delta": 0.01, "privacy.lifetime": {"epsilon": 4.0, "delta": 0.04}, "labeling.rows": 100},
        {"privacy.lifetime": 4},
        {"privacy.secret": "labels", "data.public": None},
        {"data.public_share": 0.5},
        *each_of("teachers.count", 10.5, 0),
        *each_of("teachers.params", 3, {"depth": 3}),
        {"teachers.estimator": "LogisticRegression"},
        {"student.estimator": "sklearn.preprocessing.StandardScaler"},
        {"student.learner": "linear"},
        {"labeling": None},
        {"labeling.agreement": 0.9},
        {"privacy.large_delta": True},
        {"relabel.epsilon": 1.0},
        {"about.contact": "dp@ward.example"},
        *each_of("labeling.mechanism", "stabel", "noisy_votes"),
        *each_of("test.share", 1.0, 0.0),
        {"test.share": 0.3, "data.unit": None},
        {"test.share": 0.3, "test.columns": ["size", "visits"]},
        {"data.unit": None, "test.share": 0.3, "test.columns": ["outcome"]},
        {"about.date": "2026-02-29"},
        {"data.test": None, "data.groups": ["sex"]},
        {"data.test": "test.parquet", "data.groups": ["sex", "region", "sex"]},
        {"data.features": ["size", "visits", "size"]},
        {"labeling.queries": 5},
        {"labeling.room": 5},
    ],
    "tallies": [
        {"data.text": ["shade"]},
        {"labeling.rows": None},
        {"labeling.rounds": 1},
        {"labeling.cutoff": 9},
        {"labeling.queries": 9},
        {"labeling": {"mechanism": "auto"}},
        {"teachers": {"count": 10}},
        {"relabel": {}, "teachers": {"count": 0}},
        {"student": STUMPS},
        {"student": {**LINEAR, "estimator": "sklearn.svm.SVC"}},
    ],
    "a number": [
        {"data.bounds": None},
        {"data.classes": ["a", "b"]},
        *each_of("data.bounds", [1, 1], [2, 1], [0, 1e101], [0], [0, 1, 2], [0, "1"], [0, True], [0, float("nan")], 3),
        {"labeling": {"mechanism": "noisy_votes"}, "teachers": {"count": 9}},
        {"labeling": {"mechanism": "auto", "rows": 9}, "teachers": {"count": 9}},
    ],
    "universal": [
        {"student.hypotheses": None},
        {"student.params": {"C": 1.0}},
        {"student": {}},
        {"student.epsilon": 1.0},
        {"teachers": {"count": 5}},
        {"data.classes": ["a", "b", "c"]},
        {"labeling": {"cutoff": 12}, "teachers": {"count": 150}, "student.learner": "fitted"},
        {"labeling": {"cutoff": 12}, "teachers": {"count": 0}, "student.epsilon": 1.0},
        {"labeling": {"cutoff": 12}, "teachers": {"count": 150}, "student.epsilon": None},
        {"labeling": {"cutoff": 12}, "teachers": {"count": 150}, "student.epsilon": 4.0},
    ],
    "a stream": [
        {"data.unit": None},
        {"stream.delivery": "each row once"},
        {"privacy.secret": "labels"},
        {"test": {"share": 0.2}},
        *each_of("data.private", "s3://bucket/stays", QUERY),
        {"data.bounds": [0, 9], "data.classes": None},
        {"labeling": {"mechanism": "stable", "cutoff": 3}, "teachers": {"count": 9}},
        {"stream.season": 1},
    ],
}
SEX = {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}}


def limits(kind: str, **constraints: Any) -> Changes:
    return {"name": "x", "type": kind, "constraints": constraints}


ENDS: dict[str, tuple[tuple[Any, Any], ...]] = {
    "number": ((1, 1), (2, 1), (0, "many"), (0, float("inf")), (0, float("nan")), (0, 1e300), (False, 1), (None, 0)),
    "integer": ((0.5, 3), (0, 10**400), (0, 1e19), (-(2**53) - 2, 0)),
    "any": ((1, 0),),
    "date": (("yesterday", "2020-01-01"), (5, "2020-01-01")),
    "datetime": (("0001-01-01T00:00:00+02:00", "2020-01-01"), ("2020-01-01", "9999-12-31T23:59:59-05:00")),
}
ENUMS = (["a", "b", "a"], ["a ", "a"], ["e\u0301", "\u00e9"], ["a", " "], "a", [["a"]], [*map(str, range(2**16 - 1))])
FIELDS: list[Any] = [
    *(limits(kind, minimum=low, maximum=high) for kind, ends in ENDS.items() for low, high in ends),
    limits("number", minimum=0),
    *(limits("string", enum=words) for words in ENUMS),
    {**limits("string", enum=["a", "?"]), "missingValues": ["?"]},
    limits("integer", enum=[1, 1.0]),
    *({**limits("string"), "buckets": odd} for odd in (1, 1025, "8", 8.5, None)),
    *({**field, "buckets": 8} for field in (limits("string", enum=["a"]), limits("integer"), limits("boolean"))),
    limits("array"),
    limits("geopoint"),
    {"name": "x", "type": "number", "constraints": 3},
]
"""Fields of a Table Schema, each beside one that is right."""

AGE = limits("integer", minimum=17, maximum=90) | {"name": "age"}
DATE = limits("date", minimum="1970-01-02", maximum="2020-12-31")
SCHEMAS: dict[str, Any] = {
    "a list": [],
    "nothing": {},
    "no list of fields": {"fields": {}},
    "no fields": {"fields": []},
    "a word for a field": {"fields": ["age"]},
    "a word": "age",
    "a name twice": {"fields": [AGE, AGE]},
    "no name": {"fields": [{"type": "integer"}]},
    "nothing declared": {"fields": [limits("any")]},
    "two resources": {"resources": [{"schema": {"fields": [AGE]}}] * 2},
    "a file's name": {"name": "t", "path": "t.csv", "schema": "schema.json"},
    "fieldsMatch": {"fieldsMatch": "subset", "fields": [AGE]},
    "missingValues": {"fields": [AGE], "missingValues": "-9"},
    "a missing value within a range": {"fields": [AGE], "missingValues": ["", "18"]},
    "type": {"fields": [AGE | {"type": "yearmonth"}]},
    **{f"format {form}": {"fields": [DATE | {"format": form}]} for form in ("any", "%d. %B %Y", "%d.%m.%y")},
    "decimalChar": {"fields": [AGE | {"type": "number", "decimalChar": ","}]},
    "groupChar": {"fields": [AGE | {"groupChar": "."}]},
    "bareNumber": {"fields": [AGE | {"bareNumber": False}]},
    "trueValues": {"fields": [limits("boolean") | {"trueValues": ["x"], "falseValues": ["x"]}]},
    "delimiter": {"fields": [limits("list") | {"delimiter": ";"}]},
    "itemType": {"fields": [limits("list") | {"itemType": "string"}]},
    "minimun": {"fields": [AGE | {"constraints": {"minimun": 1, "maximum": 2}}]},
}
"""Schemas that are none, or that say of cells what is not read."""


def with_changes(tables: Changes, changes: Changes) -> Changes:
    """The tables of a plan with those changes, in order."""
    tables = deepcopy(tables)
    for place, value in changes.items():
        section, _, key = place.partition(".")
        part = tables.setdefault(section, {}) if key else tables
        part[key or section] = deepcopy(value)
        if value is None:
            del part[key or section]
    return tables


def wrong() -> Iterator[tuple[str, Changes, Callable[[], object]]]:
    """Of each: the plan that is changed, or a field of a schema, the changes, and what raises."""
    for base, cases in PLANS.items():
        tables = with_changes(tables_of_plan(Path("data")), BASES[base])
        for changes in cases:
            yield f"A plan for {base}", changes, partial(parse_plan, with_changes(tables, changes))
    for field in FIELDS:
        yield "A field of data.schema", field, partial(schema_of, {"fields": [SEX, field]})
    for given in SCHEMAS.values():
        yield "A schema", {"data.schema": given}, partial(schema_of, given)

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
        {"data.classes": "yes"},
        {"data.classes": ["no"]},
        {"data.classes": ["no", "\ud800"]},
        {"data.features": []},
        {"data.features": ["size"], "data.categories": ["visits"]},
        {"data.categories": ["outcome"]},
        {"data.text": ["shade"], "data.features": ["size"]},
        {"data.text": ["shade"], "data.categories": ["shade"]},
        {"data.text": ["shade"], "labeling": {"mechanism": "auto", "rows": 9000}},
        {"privacy.domain": "my {clinic}"},
        {"privacy.epsilon": "one"},
        {"privacy.epsilon": True},
        {"privacy.epsilon": 0},
        {"privacy.epsilon": 10.0},
        {"privacy.delta": 2},
        {"privacy.delta": 0.01, "privacy.lifetime": {"epsilon": 4.0, "delta": 0.04}, "labeling.rows": 100},
        {"privacy.lifetime": 4},
        {"privacy.secret": "labels", "data.public": None},
        {"data.public_share": 0.5},
        {"teachers.count": 10.5},
        {"teachers.count": 0},
        {"teachers.params": 3},
        {"teachers.params": {"depth": 3}},
        {"teachers.estimator": "LogisticRegression"},
        {"student.estimator": "sklearn.preprocessing.StandardScaler"},
        {"student.learner": "linear"},
        {"labeling": None},
        {"labeling.agreement": 0.9},
        {"privacy.large_delta": True},
        {"relabel.epsilon": 1.0},
        {"about.contact": "dp@ward.example"},
        {"labeling.mechanism": "stabel"},
        {"labeling.mechanism": "noisy_votes"},
        {"test.share": 1.0},
        {"test.share": 0.0},
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
        {"data.bounds": [1, 1]},
        {"data.bounds": [2, 1]},
        {"data.bounds": [0, 1e101]},
        {"data.bounds": [0]},
        {"data.bounds": [0, 1, 2]},
        {"data.bounds": [0, "1"]},
        {"data.bounds": [0, True]},
        {"data.bounds": [0, float("nan")]},
        {"data.bounds": 3},
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
        {"data.private": "s3://bucket/stays"},
        {"data.private": QUERY},
        {"data.bounds": [0, 9], "data.classes": None},
        {"labeling": {"mechanism": "stable", "cutoff": 3}, "teachers": {"count": 9}},
        {"stream.season": 1},
    ],
}
SEX = {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}}


def limits(kind: str, **constraints: Any) -> Changes:
    return {"name": "x", "type": kind, "constraints": constraints}


FIELDS: list[Any] = [
    limits("number", minimum=1, maximum=1),
    limits("number", minimum=2, maximum=1),
    limits("integer", minimum=0.5, maximum=3),
    limits("number", minimum=0),
    limits("number", maximum=0, minimum=None),
    limits("any", maximum=0, minimum=1),
    limits("number", minimum=0, maximum="many"),
    limits("number", minimum=0, maximum=float("inf")),
    limits("number", minimum=0, maximum=float("nan")),
    limits("number", minimum=0, maximum=1e300),
    limits("integer", minimum=0, maximum=10**400),
    limits("integer", minimum=0, maximum=1e19),
    limits("integer", minimum=-(2**53) - 2, maximum=0),
    limits("number", minimum=False, maximum=1),
    limits("date", minimum="yesterday", maximum="2020-01-01"),
    limits("date", minimum=5, maximum="2020-01-01"),
    limits("datetime", minimum="0001-01-01T00:00:00+02:00", maximum="2020-01-01"),
    limits("datetime", minimum="2020-01-01", maximum="9999-12-31T23:59:59-05:00"),
    limits("string", enum=["a", "b", "a"]),
    limits("string", enum=["a ", "a"]),
    limits("string", enum=["e\u0301", "\u00e9"]),
    limits("string", enum=["a", " "]),
    {**limits("string", enum=["a", "?"]), "missingValues": ["?"]},
    limits("string", enum="a"),
    limits("string", enum=[["a"]]),
    limits("string", enum=[*map(str, range(2**16 - 1))]),
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

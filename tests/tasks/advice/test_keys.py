"""Every key of a plan is explained by a schema, which is made from the plan's types and kept."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel

from tests.support.plan_keys import plan_schema, schema_text, sections
from tests.texts.wrong_plans import with_changes
from tests.world import PLAN_SCHEMA_FILE, SCHEMA_LINE, SHIPPED, Plan, WrongInput, parse_plan

PLANS = Path(__file__).parents[3] / "deployments/plans"
ROOT = PLANS.parents[1]
CODE, TESTS = (
    "".join(path.read_text(encoding="utf-8") for name in folders for path in (ROOT / name).rglob("*.[pj][y2]"))
    for folders in (("flows", "tasks", "artifacts"), ("tests",))
)
EACH_PLAN = sorted(PLANS.glob("*.toml"))
WRONG: list[tuple[str, Any]] = [
    ("labeling.cutof", 3),
    ("teacher", {"count": 3}),
    ("privacy.epsilon", "one"),
    ("privacy.epsilon", 0.0),
    ("privacy.delta", 1.0),
    ("privacy.domain", "a/b"),
    ("data.classes", ["yes"]),
    ("labeling.mechanism", "stabel"),
    ("teachers.count", 1.5),
    ("student", 7),
    ("data.format", {"encoding": "utf-16"}),
]
"""Values that a schema finds; all that Concord refuses: tests/texts."""


@pytest.fixture(scope="module")
def schema() -> Draft7Validator:
    """The schema, itself checked."""
    Draft7Validator.check_schema(plan_schema())
    return Draft7Validator(plan_schema())


def keys_of(model: Any, above: str = "") -> list[str]:
    """The dotted names of all keys, by the types themselves."""
    found = []
    for name, field in model.model_fields.items():
        parts = (field.annotation, *get_args(field.annotation))
        inner = next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)
        found += [f"{above}{field.alias or name}"] if inner is None else keys_of(inner, f"{above}{name}.")
    return found


def test_the_schema_is_that_of_the_plan_s_types() -> None:
    assert SHIPPED.resolve() == PLANS / PLAN_SCHEMA_FILE
    assert SHIPPED.read_text(encoding="utf-8") == schema_text(), "make reference writes it anew"


def test_every_key_is_there_once_with_words_of_its_own() -> None:
    named = [key.name for section in sections() for key in section.keys]
    assert sorted(named) == sorted(name for name in keys_of(Plan) if name != "folder")
    for section in sections():
        words = [key.words for key in section.keys]
        assert all(text.endswith(".") for text in (section.words, *words))
        assert len({*words}) == len(words)


def test_every_key_is_read_and_tested() -> None:
    """Before, a key that no code read and no test named passed."""
    for key in (name for name in keys_of(Plan) if name != "folder"):
        own = key.rpartition(".")[2]
        assert re.search(rf"[.\"]{own}\b", CODE), f"no code reads {key}: remove it"
        assert re.search(rf"(?:\b|_){own}\b", TESTS), f"no test names {key}: add one"


@pytest.mark.parametrize("plan", EACH_PLAN, ids=lambda path: path.stem)
def test_every_plan_names_the_schema_and_is_as_it_says(plan: Path, schema: Draft7Validator) -> None:
    text = plan.read_text(encoding="utf-8")
    assert text.startswith(SCHEMA_LINE)
    schema.validate(tomllib.loads(text))


def test_an_editor_finds_what_concord_refuses(schema: Draft7Validator) -> None:
    for place, value in WRONG:
        tables = with_changes(tomllib.loads((PLANS / "demo.toml").read_text(encoding="utf-8")), {place: value})
        assert not schema.is_valid(tables), place
        with pytest.raises(WrongInput):
            parse_plan({**tables, "folder": "."})


def test_defaults_are_those_that_run() -> None:
    """A plan in which every default is written out is the plan without them."""
    tables = tomllib.loads((PLANS / "demo.toml").read_text(encoding="utf-8"))
    spelt = tomllib.loads((PLANS / "demo.toml").read_text(encoding="utf-8"))
    for section in sections():
        if section.name in ("data", "privacy", "teachers", "labeling", "student", "about"):
            given = {
                key.name.rpartition(".")[2]: json.loads(key.default)
                for key in section.keys
                if key.default not in ("none", "must be given")
            }
            spelt[section.name] = given | spelt.get(section.name, {})
    assert parse_plan(spelt) == parse_plan(tables) != parse_plan(tables | {"student": {"refused": "drop"}})

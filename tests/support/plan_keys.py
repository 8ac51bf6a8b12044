"""Reference of a plan's keys for people and editors, from the JSON schema of the plan's types.

`make reference` writes the schema to deployments/plans, from where `concord init` copies it next to a plan, whose first
line names it, so that editors which support it (taplo and those built on it) complete and check keys; and the page of
all keys (tests/reference.py). Checked by tests/tasks/advice/test_keys.py, which makes both anew and compares.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.world import Plan

Schema = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key of a plan.

    name      dotted name, as in errors
    values    its allowed values, in words; `unit` is the unit of a number, empty if none
    default   default in TOML, or that it must be given
    known_to  everyone, since it is published, or the operator
    """

    name: str
    values: str
    unit: str
    default: str
    known_to: str
    words: str


@dataclass(frozen=True, kw_only=True)
class KeySection:
    """A table of the plan."""

    name: str
    words: str
    keys: tuple[Key, ...]

    @property
    def title(self) -> str:
        """Its header in TOML."""
        return f"[{self.name}]"


def plan_schema() -> Schema:
    """JSON Schema of a plan in TOML: without nulls, and without `folder`, which follows from the plan's path.

    It is of draft 7, the newest that TOML editors support. Rules between keys are left to Concord.
    """
    given = Plan.model_json_schema()
    del given["properties"]["folder"]
    plain: Schema = _as_toml(given)
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "urn:concord:plan"}
    return head | plain | {"title": "A plan for Concord"}


def schema_text() -> str:
    """The content of the file that plans name."""
    return json.dumps(plan_schema(), indent=1, ensure_ascii=False) + "\n"


def sections() -> tuple[KeySection, ...]:
    """Every section with its keys, in the order of the plan's types."""
    schema = plan_schema()
    return tuple(_sections(schema, schema["$defs"]))


def _sections(part: Schema, types: dict[str, Schema], above: str = "", who: str = "everyone") -> Iterator[KeySection]:
    """The sections within one, each before its own; `who` is the default of `known_to`."""
    for name, value in part["properties"].items():
        if (inner := _type_of(value)) is not None:
            below, whole, known_to = types[inner], f"{above}{name}", value.get("x-known-to", who)
            given = below.get("required", ())
            here = [item for item in below["properties"].items() if _type_of(item[1]) is None]
            keys = list[Key]()
            for key, about in here:
                units = (part["x-unit"] for part in (about, *about.get("anyOf", ())) if "x-unit" in part)
                default = json.dumps(about["default"], ensure_ascii=False) if "default" in about else "none"
                keys.append(
                    Key(
                        name=f"{whole}.{key}",
                        values=_values(about),
                        unit=next(units, ""),
                        default="must be given" if key in given else default,
                        known_to=about.get("x-known-to", known_to),
                        words=about["description"],
                    )
                )
            yield KeySection(name=whole, words=below["description"], keys=tuple(keys))
            yield from _sections(below, types, f"{whole}.", known_to)


def _type_of(value: Schema) -> str | None:
    """The name of the section that a key holds; None if it holds none."""
    reference: str | None = value.get("$ref")
    return reference and reference.rpartition("/")[2]


def _values(value: Schema) -> str:
    """Allowed values of a key, in words."""
    if "anyOf" in value:
        return " or ".join(map(_values, value["anyOf"]))
    if "enum" in value:
        return ", ".join(json.dumps(choice, ensure_ascii=False) for choice in value["enum"])
    match value["type"]:
        case "array":
            return f"list of {_values(value['items'])}" + _bounds(value, "minItems", "maxItems", "")
        case "string" if "pattern" in value:
            return f"text of the form `{value['pattern']}`"
        case "string":
            return "text" + _bounds(value, "minLength", "maxLength", " characters")
    words = {"integer": "whole number", "number": "number", "boolean": "true or false", "object": "table"}
    return words[value["type"]] + _bounds(value, "minimum", "maximum", "")


def _bounds(value: Schema, least: str, most: str, of: str) -> str:
    named = {least: "at least", "exclusiveMinimum": "above", most: "at most", "exclusiveMaximum": "below"}
    return "".join(f", {words} {value[name]:,}{of}" for name, words in named.items() if name in value)


def _as_toml(value: Any) -> Any:
    """A schema without nulls, which TOML lacks, without titles, and without the defaults of whole sections."""
    if isinstance(value, list):
        return [_as_toml(item) for item in value]
    if not isinstance(value, dict):
        return value
    branches = [branch for branch in value.get("anyOf", ()) if branch != {"type": "null"}]
    rest = {
        key: item
        for key, item in value.items()
        if key not in ("anyOf", "default") and not (key == "title" and isinstance(item, str))
    }
    if len(branches) == 1:
        rest = branches[0] | rest
    elif branches:
        rest["anyOf"] = branches
    if value.get("default") is not None and "$ref" not in rest:
        rest["default"] = value["default"]
    return {
        key: " ".join(item.split()) if key == "description" and isinstance(item, str) else _as_toml(item)
        for key, item in rest.items()
    }

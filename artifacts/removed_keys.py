"""Keys that plans of earlier versions had: such plans, kept in homes, are read and digested as they were.

Checked by tests/artifacts/test_kept_plans.py
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

REMOVED: dict[str, tuple[Any, str]] = {
    "data.format.quote": ('"', 'a CSV cell is quoted by " alone; write a table with other quotes, or none, as Parquet'),
    "data.format.quoted_line_breaks": (
        False,
        "a line of a CSV file is a row; write cells with line breaks as Parquet",
    ),
    "privacy.lifetime.filter": (
        "renyi",
        "charges add up by Rényi order; a domain that was named with 'gaussian' goes on with version 1.0.0",
    ),
}
"""Keys that earlier versions knew: what each was by default, and what to do instead."""


def without_removed(tables: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as an earlier version kept it, without the keys of REMOVED that were as by default."""
    whole = deepcopy(dict(tables))
    for section, name, default in _removed_in(whole):
        if section.get(name) == default:
            section.pop(name, None)
    return whole


def with_removed(tables: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as earlier versions wrote it, and digested it: with the keys of REMOVED by default."""
    whole = deepcopy(dict(tables))
    for section, name, default in _removed_in(whole):
        section[name] = default
    return whole


def _removed_in(tables: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """For each key of REMOVED whose section the tables have: that section, the key's name in it, and its default."""
    for key, (default, _) in REMOVED.items():
        *sections, name = key.split(".")
        section: Any = tables
        for step in sections:
            section = section.get(step) if isinstance(section, dict) else None
        if isinstance(section, dict):
            yield section, name, default

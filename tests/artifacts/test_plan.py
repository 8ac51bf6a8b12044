"""Slips of the pen in a plan, and in its name. What else may be wrong with a plan: tests/texts/wrong_plans.py"""

import copy
from pathlib import Path

import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import load_plan, parse_plan
from tests.support.people import tables_of_plan

TABLES = tables_of_plan(Path("data"))


@pytest.mark.parametrize(
    ("key", "slip"), [("privacy", "privcy"), ("data.private", "privat"), ("privacy.lifetime.delta", "dleta")]
)
def test_a_slip_of_the_pen_is_told_and_not_that_the_right_key_is_missing(key: str, slip: str) -> None:
    tables = copy.deepcopy(TABLES)
    *sections, last = key.split(".")
    place = tables
    for section in sections:
        place = place[section]
    place[slip] = place.pop(last)
    with pytest.raises(WrongInput) as raised:
        parse_plan(tables)
    assert str(raised.value) == f"{'.'.join([*sections, slip])} is not a key of the plan; did you mean {last!r}?"


@pytest.mark.parametrize(
    ("named", "end"),
    [
        ("s", "; did you mean {}/s.toml?"),
        ("stays", "; did you mean {}/stays-2026.toml?"),
        ("s.tml", "; did you mean {}/s.toml?"),
        ("plan.toml", ": `concord init` writes one"),
        ("no/s", ": `concord init` writes one"),
    ],
)
def test_a_plan_beside_the_one_that_is_not_there_was_not_named(tmp_path: Path, named: str, end: str) -> None:
    for there in ("s.toml", "stays-2026.toml", "s.csv"):
        (tmp_path / there).touch()
    with pytest.raises(WrongInput) as raised:
        load_plan(tmp_path / named)
    assert str(raised.value) == f"the plan {tmp_path / named} does not exist{end.format(tmp_path)}"

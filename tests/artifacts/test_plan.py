"""What is wrong with a plan is told in one sentence: the key, the rule in the words of TOML, and what stands there."""

import copy
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import load_plan, parse_plan
from tests.support.people import changed, tables_of_plan

TABLES = tables_of_plan(Path("data"))
WRONG: dict[str, tuple[Any, str]] = {
    "about__date": ("2026-02-29", "about.date: day is out of range for month"),
    "data__label": (3, "data.label must be text, in quotes, got 3"),
    "data__classes": ("yes", "data.classes must be a list, in square brackets, got 'yes'"),
    "data__features": ([], "data.features must hold at least 1 of them, got []"),
    "privacy__domain": ("my {clinic}", "privacy.domain must be 1 to 64 letters"),
    "privacy__epsilon": ("one", "privacy.epsilon must be a number, got 'one'"),
    "privacy__delta": (2, "privacy.delta must be less than 1, got 2"),
    "privacy__lifetime": (4, "privacy.lifetime must be a section with keys of its own, got 4"),
    "teachers__count": (10.5, "teachers.count must be a whole number, got 10.5"),
    "teachers__params": (3, "teachers.params must be a table of keys, got 3"),
    "teachers__estimator": ("LogisticRegression", "such as sklearn.linear_model.LogisticRegression"),
    "labeling__agreement": (0.9, "labeling.agreement is not a key of the plan"),
    "labeling__mechanism": ("stabel", "labeling.mechanism must be 'stable', 'noisy_votes',"),
}


@pytest.mark.parametrize("place", WRONG)
def test_a_wrong_value_is_told_with_its_key_and_the_rule(place: str) -> None:
    value, result = WRONG[place]
    with pytest.raises(WrongInput) as raised:
        changed(TABLES, **{place: value})
    assert result in str(raised.value)


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

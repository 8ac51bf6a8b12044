"""What follows from a plan's sections; slips of the pen in a plan, and in its name. What else may be wrong with a plan:
tests/texts/wrong_plans.py"""

import copy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.people import changed, tables_of_plan
from tests.world import GONE, Plan, TableSource, WrongInput, app, load_plan, parse_plan

PLANS = Path(__file__).parents[2] / "deployments/plans"
TABLES = tables_of_plan(Path("data"))
TALLIES: dict[str, Any] = {"teachers": None, "student": None, "labeling": {"mechanism": "tallies", "rows": 3000}}
STUMPS = {"learner": "universal", "hypotheses": "stumps"}


def plan_of(**sections: Any) -> Plan:
    """A plan with sections changed; those that are None are left out."""
    given = copy.deepcopy(TABLES) | sections
    return parse_plan({name: section for name, section in given.items() if section is not None})


def test_what_is_left_out_follows_from_what_is_named() -> None:
    plan = plan_of(**TALLIES)
    assert (plan.tallied, plan.ways, plan.teachers.count, plan.student.learner) == (True, ("tallies",), 0, "linear")
    assert plan_of(**TALLIES | {"student": {}}).student.learner == "linear"
    fitted = {"estimator": "sklearn.naive_bayes.BernoulliNB"}
    assert plan_of(**TALLIES | {"student": fitted}).student.learner == "fitted"
    data = {name: value for name, value in TABLES["data"].items() if name != "classes"}
    plan = plan_of(**TALLIES, test={"share": 0.1}, data=data | {"label": "cost", "bounds": [0, 50.5]})
    assert (plan.data.classes, plan.data.bounds, plan.student.learner) == ((), (0.0, 50.5), "linear")
    plan = plan_of(student=STUMPS, teachers=None, labeling=None)  # nobody votes for it
    assert (plan.ways, plan.epsilon_of_choice) == (("hypothesis",), plan.privacy.epsilon)
    assert plan.student.space.hypotheses == "stumps"
    plan = plan_of(student=STUMPS | {"epsilon": 1.5})  # labels and choice share the budget
    assert plan.ways == ("votes", "hypothesis")
    assert (plan.epsilon_of_choice, plan.epsilon_of_labels) == (1.5, plan.privacy.epsilon - 1.5)


@pytest.mark.parametrize(("name", "learner"), [("adult-tallies", "linear"), ("mnist-tallies", "fitted")])
def test_a_plan_that_is_handed_out_counts_and_fits_what_it_names(name: str, learner: str) -> None:
    plan = load_plan(PLANS / f"{name}.toml")
    assert (plan.tallied, plan.student.learner) == (True, learner)
    if learner == "fitted":
        plan.student.build(random_state=0)


def test_a_plan_survives_being_written_down() -> None:
    alone, beside = plan_of(student=STUMPS, teachers=None, labeling=None), plan_of(student=STUMPS | {"epsilon": 1.5})
    for plan in (alone, beside, plan_of(**TALLIES), changed(TABLES)):
        assert Plan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize("key", ["classes", "features"])
def test_a_set_of_python_is_refused_since_its_order_would_make_another_plan_of_it(key: str) -> None:
    with pytest.raises(WrongInput, match=rf"data\.{key}: must be a list, in an order that stays"):
        plan_of(**TALLIES, data=TABLES["data"] | {key: {"no", "yes"}})


def test_a_path_of_python_is_the_same_as_its_text() -> None:
    paths = {name: Path(TABLES["data"][name]) for name in ("private", "public", "test")}
    assert plan_of(data=TABLES["data"] | paths) == plan_of()


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
    ("named", "meant"), [("s", "s"), ("stays", "stays-2026"), ("s.tml", "s"), ("plan.toml", ""), ("no/s", "")]
)
def test_a_plan_beside_the_one_that_is_not_there_was_not_named(tmp_path: Path, named: str, meant: str) -> None:
    end = f"; did you mean {tmp_path / meant}.toml?" if meant else ": `concord init` writes one"
    for there in ("s.toml", "stays-2026.toml", "s.csv"):
        (tmp_path / there).touch()
    with pytest.raises(WrongInput) as raised:
        load_plan(tmp_path / named)
    assert str(raised.value) == f"the plan {tmp_path / named} does not exist{end}"


@pytest.mark.parametrize("written", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_a_plan_is_read_as_notepad_and_powershell_write_it(tmp_path: Path, written: str) -> None:
    text = (PLANS / "adult-tallies.toml").read_text("utf-8")
    (tmp_path / "plan.toml").write_text(text, written)
    plan = load_plan(PLANS / "adult-tallies.toml")
    assert load_plan(tmp_path / "plan.toml").data == plan.data


def test_a_query_may_end_with_a_semicolon() -> None:
    source = {"query": "select 1; ", "connection": "WARD"}
    assert TableSource.model_validate(source).query == "select 1"


COMMANDS = [name for name in GONE if name.startswith("concord ")]
KEYS = [name for name in GONE if not name.startswith("concord ")]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_is_gone_names_the_alternative(key: str) -> None:
    *sections, name = key.split(".")
    tables: dict[str, object] = {name: 1}
    for section in reversed(sections):
        tables = {section: tables}
    with pytest.raises(WrongInput) as refused:
        parse_plan(tables)
    assert str(refused.value) == f"{key} is no longer a key of the plan: {GONE[key]}"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_gone_names_the_alternative(name: str) -> None:
    refused = CliRunner().invoke(app, [name.removeprefix("concord "), "anything", "--at-all"])
    assert isinstance(refused.exception, WrongInput)
    assert str(refused.exception) == f"`{name}` is no longer a command: {GONE[name]}"

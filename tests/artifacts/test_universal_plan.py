"""Plans whose student is chosen. What they do not take: tests/texts/wrong_plans.py"""

from pathlib import Path
from typing import Any

from concord.artifacts.plan import Plan, parse_plan
from tests.support.people import changed, tables_of_plan

STUMPS = {"learner": "universal", "hypotheses": "stumps"}


def tables(**sections: Any) -> dict[str, Any]:
    """A plan without teachers, with sections changed; those that are None are left out."""
    chosen = {**tables_of_plan(Path("data")), "student": STUMPS, "teachers": None, "labeling": None, **sections}
    return {name: section for name, section in chosen.items() if section is not None}


def voting(**student: Any) -> dict[str, Any]:
    """A plan that buys labels as well."""
    return {**tables_of_plan(Path("data")), "student": STUMPS | student}


def test_nobody_votes_for_a_universal_student() -> None:
    plan = parse_plan(tables())
    assert plan.ways == ("hypothesis",)
    assert plan.epsilon_of_choice == plan.privacy.epsilon
    assert plan.student.space.hypotheses == "stumps"


def test_labels_and_choice_share_the_budget() -> None:
    plan = parse_plan(voting(epsilon=1.5))
    assert plan.ways == ("votes", "hypothesis")
    assert (plan.epsilon_of_choice, plan.epsilon_of_labels) == (1.5, plan.privacy.epsilon - 1.5)


def test_a_plan_survives_being_written_down() -> None:
    for plan in (parse_plan(tables()), parse_plan(voting(epsilon=1.5)), changed(tables_of_plan(Path("data")))):
        assert Plan.model_validate_json(plan.model_dump_json()) == plan

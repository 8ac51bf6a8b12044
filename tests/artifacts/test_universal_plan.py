"""Plans whose student is chosen: which sections and keys they need, and which have no meaning for them."""

from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import WrongInput
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
    assert not plan.votes
    assert plan.epsilon_of_choice == plan.privacy.epsilon
    assert plan.student.space.hypotheses == "stumps"


def test_labels_and_choice_share_the_budget() -> None:
    plan = parse_plan(voting(epsilon=1.5))
    assert plan.votes
    assert (plan.epsilon_of_choice, plan.epsilon_of_labels) == (1.5, plan.privacy.epsilon - 1.5)


def test_a_plan_survives_being_written_down() -> None:
    for plan in (parse_plan(tables()), parse_plan(voting(epsilon=1.5)), changed(tables_of_plan(Path("data")))):
        assert Plan.model_validate_json(plan.model_dump_json()) == plan


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no class of hypotheses": (tables(student={"learner": "universal"}), "hypotheses must be given"),
    "an estimator": (tables(student={**STUMPS, "params": {"C": 1.0}}), "params has no meaning"),
    "hypotheses of a fitted one": (voting(learner="fitted"), "hypotheses has no meaning"),
    "no votes for a fitted one": (tables(student={}), "labeling must be given"),
    "no teachers": ({**voting(epsilon=1.0), "teachers": {"count": 0}}, "teachers.count must be given and at least 1"),
    "teachers who are not asked": (tables(teachers={"count": 5}), "teachers have no meaning without"),
    "no part of the budget": (voting(), r"student\.epsilon must be given and below privacy\.epsilon = 4"),
    "all of the budget": (voting(epsilon=4.0), "below privacy.epsilon = 4, .* got 4"),
    "a part without the rest": (tables(student={**STUMPS, "epsilon": 1.0}), r"student\.epsilon has no meaning without"),
    "three classes": (
        tables(data={**tables_of_plan(Path("data"))["data"], "classes": ["a", "b", "c"]}),
        r"is for two classes, got 3 in data\.classes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_in_words(case: str) -> None:
    given, words = REFUSED[case]
    with pytest.raises(WrongInput, match=words):
        parse_plan(given)

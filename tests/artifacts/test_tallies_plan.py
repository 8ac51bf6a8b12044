"""Plans for tallies, and of a number. What they do not take: tests/texts/wrong_plans.py"""

from pathlib import Path
from typing import Any

from concord.artifacts.plan import load_plan, parse_plan
from tests.support.people import tables_of_plan

PLANS = Path(__file__).parents[2] / "deployments/plans"


def tables(**labeling: Any) -> dict[str, Any]:
    given = tables_of_plan(Path("data")) | {"labeling": {"mechanism": "tallies", "rows": 3000, **labeling}}
    return {name: section for name, section in given.items() if name not in ("teachers", "student")}


def test_the_decoded_model_is_the_student_unless_another_is_named() -> None:
    plan = parse_plan(tables())
    assert (plan.tallied, plan.ways, plan.teachers.count, plan.student.learner) == (True, ("tallies",), 0, "linear")
    assert parse_plan({**tables(), "student": {}}).student.learner == "linear"
    fitted = {"estimator": "sklearn.naive_bayes.BernoulliNB"}
    assert parse_plan({**tables(), "student": fitted}).student.learner == "fitted"


def test_the_plan_for_adult_is_one() -> None:
    plan = load_plan(PLANS / "adult-tallies.toml")
    assert plan.tallied
    assert plan.student.learner == "linear"


def test_the_plan_for_images_fits_a_student_to_inferred_labels() -> None:
    plan = load_plan(PLANS / "mnist-tallies.toml")
    assert plan.tallied
    assert plan.student.learner == "fitted"
    plan.student.build(random_state=0)


def test_a_number_has_bounds_in_place_of_classes() -> None:
    given = tables() | {"test": {"share": 0.1}}
    del given["data"]["classes"]
    plan = parse_plan({**given, "data": {**given["data"], "label": "cost", "bounds": [0, 50.5]}})
    assert (plan.data.classes, plan.data.bounds, plan.student.learner) == ((), (0.0, 50.5), "linear")

"""A plan for tallies: which keys it takes, and what it says of those it does not."""

from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import load_plan, parse_plan
from tests.support.people import tables_of_plan

PLANS = Path(__file__).parents[2] / "deployments/plans"


def tables(**labeling: Any) -> dict[str, Any]:
    given = tables_of_plan(Path("data")) | {"labeling": {"mechanism": "tallies", "rows": 3000, **labeling}}
    return {name: section for name, section in given.items() if name not in ("teachers", "student")}


def test_the_decoded_model_is_the_student_unless_another_is_named() -> None:
    plan = parse_plan(tables())
    assert (plan.tallied, plan.votes, plan.teachers.count, plan.student.learner) == (True, False, 0, "linear")
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labeling": {"mechanism": "tallies"}}, "rows must be given for mechanism = 'tallies'"),
        ({"labeling": {"mechanism": "tallies", "rows": 9, "rounds": 1}}, "rounds is not a key of the plan"),
        ({"labeling": {"mechanism": "tallies", "rows": 9, "cutoff": 9}}, "cutoff has no meaning"),
        ({"labeling": {"mechanism": "tallies", "rows": 9, "queries": 9}}, "queries has no meaning"),
        ({"labeling": {"mechanism": "auto"}}, "teachers.count must be given for labeling.mechanism = 'auto'"),
        ({"teachers": {"count": 10}}, "teachers have no meaning for labeling.mechanism = 'tallies'"),
        ({"relabel": {}, "teachers": {"count": 0}}, "relabel has no meaning for labeling.mechanism = 'tallies'"),
        ({"student": {"learner": "universal", "hypotheses": "stumps"}}, "not beside tallies"),
        ({"student": {"learner": "linear", "estimator": "sklearn.svm.SVC"}}, "estimator has no meaning"),
    ],
)
def test_what_it_does_not_take_is_told_in_one_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        parse_plan(tables() | change)


NUMBER = {"label": "cost", "classes": None, "bounds": [0, 50.5]}
RIDGE = {"estimator": "sklearn.linear_model.Ridge"}


def of_number(data: dict[str, Any] = {}, **sections: Any) -> dict[str, Any]:  # noqa: B006, since it is only read
    given = tables()
    kept = {key: value for key, value in {**given["data"], **NUMBER, **data}.items() if value is not None}
    return given | {"data": kept} | sections


def test_a_number_has_bounds_in_place_of_classes() -> None:
    plan = parse_plan(of_number(test={"share": 0.1}))
    assert (plan.data.classes, plan.data.bounds, plan.student.learner) == ((), (0.0, 50.5), "linear")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"bounds": None}}, "data: classes must be given, or else bounds"),
        ({"data": {"classes": ["a", "b"]}}, "data: classes and bounds must not both be given"),
        ({"data": {"bounds": [1, 1]}}, "the lower one first"),
        ({"data": {"bounds": [2, 1]}}, "the lower one first"),
        ({"data": {"bounds": [0, 1e101]}}, "of less than 1e.100"),
        ({"data": {"bounds": [0]}}, "data.bounds must hold at least 2"),
        ({"data": {"bounds": [0, 1, 2]}}, "data.bounds must hold at most 2"),
        ({"data": {"bounds": [0, "1"]}}, "data.bounds.1 must be a number, got '1'"),
        ({"data": {"bounds": [0, True]}}, "data.bounds.1 must be a number, got True"),
        ({"data": {"bounds": [0, float("nan")]}}, "data.bounds.1 must be a finite number"),
        ({"data": {"bounds": 3}}, "data.bounds must be a list"),
        ({"labeling": {"mechanism": "noisy_votes"}, "teachers": {"count": 9}}, "needs labeling.mechanism = 'tallies'"),
        ({"labeling": {"mechanism": "auto", "rows": 9}, "teachers": {"count": 9}}, "needs labeling.mechanism"),
        (
            {"test": {"share": 0.1}, "student": {"candidates": [{"learner": "linear"}, RIDGE], "epsilon": 0.1}},
            "student.candidates are compared by their wrong classes",
        ),
    ],
)
def test_what_a_number_does_not_take_is_told_in_one_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        parse_plan(of_number(**change))


def test_a_linear_student_needs_tallies() -> None:
    with pytest.raises(WrongInput, match="is the model that tallies are decoded to"):
        parse_plan(tables_of_plan(Path("data")) | {"student": {"learner": "linear"}})

"""Planning: laws, the tables of the design, and the choice between mechanisms."""

import json
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.sections import MECHANISMS
from concord.tasks.advice.compare import (
    FAILURE_ODDS,
    LabelRequest,
    Option,
    best_mechanism,
    margin_needed,
    plan_mechanisms,
    recommend,
)
from concord.tasks.mechanisms.mechanism import Expectation, calibrate, expectation
from concord.tasks.mechanisms.noisy_votes import NoisyVotes
from concord.tasks.mechanisms.odds import Odds, profile
from concord.tasks.mechanisms.published import noise_scale, teachers_required
from concord.tasks.mechanisms.sparse_vector import SparseVector
from concord.tasks.mechanisms.stable import StableVoting


@cache
def planned(
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    teachers: int = 600,
    queries: int = 2000,
    classes: int = 2,
    agreement: float = 0.92,
    cutoff: int | None = None,
) -> dict[str, Option]:
    figures: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "agreement": agreement}
    request = LabelRequest(**figures, teachers=teachers, queries=queries, classes=classes)
    return {option.name: option for option in plan_mechanisms(request, cutoff)}


def request(classes: int = 2, teachers: int = 600, agreement: float = 0.92) -> LabelRequest:
    figures: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "agreement": agreement, "order": 1.5}
    return LabelRequest(**figures, teachers=teachers, queries=1000, classes=classes)


# Laws -----------------------------------------------------------------------------------------------------------------


def labels_of(name: str, option: Option) -> float:
    return option.expected_answered if name in ("stable", "sparse_vector", "published") else option.informative


@pytest.mark.parametrize("name", ["stable", "sparse_vector", "noisy_votes", "laplace_votes"])
@pytest.mark.parametrize("classes", [2, 5])
def test_a_larger_budget_more_teachers_and_more_agreement_never_teach_less(name: str, classes: int) -> None:
    by_epsilon = [planned(epsilon=value, classes=classes)[name] for value in (0.5, 1.0, 2.0)]
    by_teachers = [planned(teachers=value, classes=classes)[name] for value in (300, 600, 1200)]
    by_agreement = [planned(agreement=value, classes=classes)[name] for value in (0.8, 0.9, 0.98)]
    for options in (by_epsilon, by_teachers, by_agreement):
        assert all(labels_of(name, less) <= labels_of(name, more) for less, more in pairwise(options))


@pytest.mark.parametrize("name", MECHANISMS)
def test_margins_shrink_as_epsilon_grows(name: str) -> None:
    options = [planned(epsilon=value, cutoff=20)[name] for value in (0.5, 1.0, 2.0)]
    for less, more in pairwise(options):
        assert less.margin_needed is not None
        assert more.margin_needed is not None
        assert more.margin_needed < less.margin_needed


def test_the_cutoff_is_the_one_of_its_neighbours_that_answers_most() -> None:
    best = planned()["stable"]
    assert best.cutoff is not None
    for cutoff in (best.cutoff // 2, best.cutoff * 2):
        assert planned(cutoff=cutoff)["stable"].expected_answered <= best.expected_answered


# The design's tables --------------------------------------------------------------------------------------------------

TABLE = {(0.5, 10): 303, (0.5, 100): 672, (1, 50): 271, (1, 300): 561, (2, 100): 188, (4, 10): 49, (4, 1000): 272}


@pytest.mark.parametrize(("setting", "distance"), list(TABLE.items()))
def test_stable_needs_twice_the_distance_of_its_table(setting: tuple[float, int], distance: int) -> None:
    mechanism = StableVoting.calibrate(epsilon=setting[0], delta=1e-6, cutoff=setting[1])
    found = margin_needed(mechanism, request())
    assert found is not None
    assert 0.95 * (2 * distance + 1) < found < 1.02 * (2 * distance + 1) + 2  # orders lie closer than the table's


@pytest.mark.parametrize(
    ("epsilon", "cutoff", "margin"), [(1, 1, 113), (1, 5, 610), (1, 20, 2085), (2, 1, 58), (4, 5, 154)]
)
def test_sparse_vector_needs_at_most_the_margin_of_its_table(epsilon: float, cutoff: int, margin: int) -> None:
    mechanism = SparseVector.calibrate(epsilon=epsilon, delta=1e-5, cutoff=cutoff)
    found = margin_needed(mechanism, request())
    assert found is not None
    assert 0.9 * margin < found < 1.03 * margin


@pytest.mark.parametrize(
    ("epsilon", "queries", "margin"), [(0.5, 100, 328), (1, 100, 174), (1, 1000, 550), (2, 5000, 657), (4, 1000, 159)]
)
def test_noisy_votes_need_the_margin_of_the_table(epsilon: float, queries: int, margin: int) -> None:
    mechanism = NoisyVotes.calibrate(epsilon=epsilon, delta=1e-5, queries=queries, classes=2)
    assert margin_needed(mechanism, request()) == pytest.approx(margin, rel=0.03)


@pytest.mark.parametrize(("cutoff", "teachers"), [(1, 18_800), (5, 45_500), (20, 97_000), (100, 232_000)])
def test_published_asks_for_the_printed_teachers(cutoff: int, teachers: int) -> None:
    asked = teachers_required(epsilon=1.0, delta=1e-5, cutoff=cutoff, queries=1000, beta=0.05)
    assert asked == pytest.approx(teachers, rel=0.005)
    assert f"{asked:,} teachers" in planned(queries=1000, cutoff=cutoff)["published"].needs


def test_the_printed_teachers_are_more_than_enough_for_what_runs() -> None:
    needed = planned(queries=1000, cutoff=20)["published"].margin_needed
    assert needed is not None
    assert needed > noise_scale(1.0, 1e-5, 20)
    assert needed < 97_000 / 3


# Margins and ensembles ------------------------------------------------------------------------------------------------


def test_margin_needed_is_the_least_that_is_enough() -> None:
    for name in MECHANISMS:
        at = request(classes=3)
        mechanism = at.calibrated(name, 10 if name in ("stable", "sparse_vector", "published") else None)
        needed = margin_needed(mechanism, at)
        assert needed is not None
        level = np.array([2, -1, -1]) / 3
        rows = 200 + np.array([needed - 1, needed])[:, None] * level
        found = mechanism.odds(rows)
        fails = 1 - (1 - found.refused) * (1 - found.changed)
        assert fails[1] <= FAILURE_ODDS < fails[0]


# Choosing -------------------------------------------------------------------------------------------------------------


def test_options_are_json_best_first_and_every_mechanism_is_there() -> None:
    options = list(planned().values())
    assert sorted(option.name for option in options) == sorted(MECHANISMS)
    assert [option.feasible for option in options] == sorted((option.feasible for option in options), reverse=True)
    labels = [option.informative for option in options if option.feasible]
    assert labels == sorted(labels, reverse=True)
    assert json.loads(json.dumps([asdict(option) for option in options]))[0]["name"] == options[0].name


def test_the_mechanism_depends_on_rows_and_agreement_as_the_design_says() -> None:
    """STABLE_VOTING, "Where it pays": agreement makes `stable` best, many contested rows a noisy release."""
    _, near_agreement = best_mechanism(
        LabelRequest(classes=2, epsilon=1.0, delta=1e-6, teachers=1000, queries=17_750, agreement=0.997)
    )
    assert near_agreement is not None
    assert near_agreement.name == "stable"
    _, contested = best_mechanism(
        LabelRequest(classes=2, epsilon=1.0, delta=1e-5, teachers=400, queries=10_000, agreement=0.913)
    )
    assert contested is not None
    assert contested.name == "noisy_votes"


def test_the_recommended_option_names_its_rival() -> None:
    options = list(planned().values())
    best = recommend(options)
    assert best.name == options[0].name
    assert f"; {options[1].name}: {options[1].informative:,.0f}" in best.reason


def test_a_cutoff_that_is_fixed_is_kept() -> None:
    assert {option.cutoff for option in planned(cutoff=7).values()} == {7, None}


def test_too_few_teachers_are_refused() -> None:
    with pytest.raises(WrongInput, match="within the budget"):
        recommend(plan_mechanisms(LabelRequest(epsilon=0.1, delta=1e-6, teachers=3, queries=100, classes=2)))


def test_a_budget_that_cannot_be_calibrated_is_an_option_that_is_not_feasible() -> None:
    options = planned(epsilon=16.0, delta=1e-5, queries=1000, cutoff=100)
    assert not options["published"].feasible
    assert "cannot be proved" in options["published"].reason


def test_figures_that_make_no_sense_are_refused() -> None:
    with pytest.raises(WrongInput, match="teachers >= 1"):
        planned(teachers=0)
    with pytest.raises(WrongInput, match="epsilon must be positive"):
        planned(epsilon=-1.0)


def test_an_option_is_what_the_door_would_run() -> None:
    option = planned()["stable"]
    made = calibrate(
        "stable", epsilon=1.0, delta=1e-5, cutoff=option.cutoff, queries=2000, classes=2, teachers=600, order=1.5
    )
    expected = expectation(made, profile(0.92, 2) * 600, 2000)
    assert expected.answered == option.expected_answered
    assert isinstance(made.odds(np.array([[600.0, 0.0]])), Odds)


# Informative labels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("queries", [3, 40, 2000])
@pytest.mark.parametrize("classes", [2, 5])
def test_of_two_noises_the_one_of_smaller_variance_is_more_informative(
    epsilon: float, queries: int, classes: int
) -> None:
    at = LabelRequest(epsilon=epsilon, delta=1e-5, teachers=600, queries=queries, classes=classes)
    gaussian, laplace = (at.calibrated(name, None) for name in ("noisy_votes", "laplace_votes"))
    variances = [getattr(gaussian, "scale") ** 2, 2 * getattr(laplace, "scale") ** 2]  # noqa: B009
    values = [at.informative(at.outcome(each)) for each in (gaussian, laplace)]
    assert (variances[0] < variances[1]) == (values[0] > values[1])


def test_a_count_is_as_informative_as_it_is_reliable_and_a_changed_label_less_than_one() -> None:
    mechanism = NoisyVotes(epsilon=1.0, delta=1e-5, queries=10, classes=2, scale=5000.0)
    found = expectation(mechanism, np.array([[600.0, 400.0]]), 10)
    assert found.kept == 2 * 100.0**2 / (2 * 100.0**2 + 2 * 5000.0**2)
    assert request().informative(found) == 10 * found.kept
    assert request().informative(Expectation(answered=100.0, changed=0.0)) == 100
    assert request().informative(Expectation(answered=100.0, changed=0.25)) == 25
    assert request(classes=3).informative(Expectation(answered=100.0, changed=0.7)) == 0


def falls(at: list[LabelRequest]) -> list[tuple[float, float]]:
    """Where the informative labels of what is chosen fall as ε grows."""
    values = [best_mechanism(each)[0] for each in at]
    return [(less, more) for less, more in pairwise(values) if more < less]


def test_more_epsilon_never_chooses_worse() -> None:
    """Among options nearly as good as the best, the first was taken once: from one ε to the next that was a loss."""
    given: dict[str, Any] = {"delta": 1e-5, "teachers": 300, "queries": 1000, "classes": 2, "agreement": 0.95}
    assert falls([LabelRequest(epsilon=epsilon, **given) for epsilon in (1.4, 1.5, 1.6, 1.7, 1.8)]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"teachers": 200, "queries": 10_000, "agreement": 0.86},
        {"teachers": 500, "queries": 1000, "classes": 5, "agreement": 0.95},
        {"teachers": 100, "queries": 500, "classes": 3},
        {"teachers": 1500, "queries": 17_000, "agreement": 0.99},
    ],
)
def test_more_epsilon_never_chooses_worse_of_anything(given: dict[str, Any]) -> None:
    figures = {"delta": 1e-5, "classes": 2, **given}
    assert falls([LabelRequest(epsilon=float(epsilon), **figures) for epsilon in np.geomspace(0.1, 8, 10)]) == []

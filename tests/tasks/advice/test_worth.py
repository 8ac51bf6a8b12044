"""What a student gets of votes and of tallies, in labels: laws, and the faults that the earlier measure had."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from concord.artifacts.sections import MECHANISMS
from concord.tasks.advice.compare import Stream, best_mechanism
from concord.tasks.advice.worth import (
    cells_that_are_heard,
    enough,
    later_fields,
    rounds_of,
    rounds_of_spaces,
    typical_agreement,
    worth_of_tallies,
    worth_of_votes,
)
from concord.tasks.mechanisms.mechanism import Expectation, expectation
from concord.tasks.mechanisms.noisy_votes import NoisyVotes
from concord.tasks.mechanisms.tallies import Tallies, planned_rounds

FIGURES: dict[str, Any] = {"delta": 1e-5, "classes": 2}


def stream(epsilon: float = 1.0, teachers: int = 600, queries: int = 2000, **more: Any) -> Stream:
    return Stream.expected(**{**FIGURES, "epsilon": epsilon, "teachers": teachers, "queries": queries, **more})


def worth(at: Stream, name: str) -> float:
    return at.worth(at.outcome(at.best(name)))


# Votes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("queries", [3, 40, 2000])
@pytest.mark.parametrize("classes", [2, 5])
def test_of_two_noises_the_one_of_smaller_variance_is_worth_more_to_a_student_of_counts(
    epsilon: float, queries: int, classes: int
) -> None:
    at = stream(epsilon, queries=queries, classes=classes)
    gaussian, laplace = (at.calibrated(name, None) for name in ("noisy_votes", "laplace_votes"))
    variances = [getattr(gaussian, "scale") ** 2, 2 * getattr(laplace, "scale") ** 2]  # noqa: B009
    values = [at.worth(at.outcome(each)) for each in (gaussian, laplace)]
    assert (variances[0] < variances[1]) == (values[0] > values[1])


def test_laplace_noise_of_twice_the_variance_is_not_taken_for_a_student_of_counts() -> None:
    """Counted by hard labels it was: its peak keeps more labels as they are."""
    at = stream(0.2, agreement=0.92)
    hard = Stream.expected(**FIGURES, epsilon=0.2, teachers=600, queries=2000, agreement=0.92, lesson="drop")
    assert (worth(hard, "laplace_votes") > worth(hard, "noisy_votes"), best_of(at)) == (True, "noisy_votes")


def best_of(at: Stream) -> str:
    _, mechanism = best_mechanism(at)
    assert mechanism is not None
    return mechanism.name


def test_a_count_is_worth_its_reliability_and_far_down_half_pi_of_its_label() -> None:
    votes = np.array([[600.0, 400.0]])
    mechanism = NoisyVotes(epsilon=1.0, delta=1e-5, queries=10, classes=2, scale=5000.0)
    found = expectation(mechanism, votes, 10)
    assert found.kept == 2 * 100.0**2 / (2 * 100.0**2 + 2 * 5000.0**2)
    given: dict[str, Any] = {"queries": 10, "classes": 2, "rows": None, "fields": None}
    soft, hard = (worth_of_votes(found, lesson=lesson, **given) for lesson in ("soft", "drop"))
    assert soft / hard == pytest.approx(np.pi / 2, rel=0.02)
    exact = Expectation(answered=10.0, changed=0.0, kept=1.0)
    assert worth_of_votes(exact, lesson="soft", **given) == worth_of_votes(exact, lesson="drop", **given) == 10


def test_labels_drawn_at_random_for_unanswered_rows_cost_what_they_hide() -> None:
    half = Expectation(answered=50.0, changed=0.0, refused=0.25)
    given: dict[str, Any] = {"queries": 100, "classes": 2, "rows": None, "fields": None}
    assert worth_of_votes(half, lesson="drop", **given) == 50
    assert worth_of_votes(half, lesson="random", **given) == 50 * 0.75
    assert worth_of_votes(half, lesson="published", **given) == 100 * (1 - 2 * 0.25) ** 2


def test_more_teachers_of_the_same_rows_are_not_better_teachers() -> None:
    by_count = [best_mechanism(stream(teachers=count, units=6000, fields=14))[0] for count in (20, 120, 2400)]
    assert by_count[1] > by_count[0]
    assert by_count[1] > by_count[2]
    agreement = [typical_agreement(6000 / count, 14, 2) for count in (20, 120, 2400)]
    assert agreement == sorted(agreement, reverse=True)


@pytest.mark.parametrize(("rows", "measured"), [(25, 0.821), (60, 0.855), (150, 0.889), (400, 0.925)])
def test_teachers_agree_as_they_were_measured_to_on_adult(rows: int, measured: float) -> None:
    assert typical_agreement(rows, 14, 2) == pytest.approx(measured, abs=0.03)


def falls(at: list[Stream]) -> list[tuple[float, float]]:
    """Where the worth of what is chosen falls as ε grows."""
    values = [best_mechanism(each)[0] for each in at]
    return [(less, more) for less, more in pairwise(values) if more < less]


def test_more_epsilon_never_chooses_worse() -> None:
    """Among options nearly as good as the best, the first was taken once: from one ε to the next that was a loss."""
    given: dict[str, Any] = {"teachers": 300, "queries": 1000, "agreement": 0.95}
    assert falls([stream(epsilon, **given) for epsilon in (1.4, 1.5, 1.6, 1.7, 1.8)]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"teachers": 200, "queries": 10_000, "agreement": 0.86},
        {"teachers": 500, "queries": 1000, "classes": 5, "agreement": 0.95, "lesson": "drop"},
        {"teachers": 100, "queries": 500, "classes": 3, "units": 6000, "fields": 8},
        {"teachers": 1500, "queries": 17_000, "agreement": 0.99, "lesson": "random"},
    ],
)
def test_more_epsilon_never_chooses_worse_of_anything(given: dict[str, Any]) -> None:
    assert falls([stream(float(epsilon), **given) for epsilon in np.geomspace(0.1, 8, 10)]) == []


def test_every_mechanism_has_a_worth() -> None:
    at = stream(4.0, queries=200)
    assert all(worth(at, name) >= 0 for name in MECHANISMS)


# Tallies --------------------------------------------------------------------------------------------------------------

SIZES = (4, 9, 12, 30)


def tallied(epsilon: float, units: float, public: int = 3000, classes: int = 2) -> float:
    def made(rounds: int) -> Tallies:
        asked = planned_rounds(classes=classes, fields=len(SIZES), codes=sum(SIZES), rounds=rounds)
        return Tallies.calibrate(epsilon=epsilon, delta=1e-5, classes=classes, rounds=asked)

    once = made(1)
    mechanism = once if rounds_of(len(SIZES), once.rho, public, units) == 1 else made(3)
    return worth_of_tallies(mechanism, SIZES, units=units, public=public)


@pytest.mark.parametrize("classes", [2, 6])
def test_tallies_are_worth_more_with_more_epsilon_and_more_units_across_the_rule_of_rounds(classes: int) -> None:
    for units in (300, 5000, 100_000):
        by_epsilon = [tallied(float(epsilon), units, classes=classes) for epsilon in np.geomspace(0.03, 10, 20)]
        assert by_epsilon == sorted(by_epsilon)
    by_units = [tallied(0.5, float(units), classes=classes) for units in np.geomspace(50, 1e7, 30)]
    assert by_units == sorted(by_units)
    assert tallied(8.0, 1000.0, classes=classes) < 1000


def test_rounds_by_the_public_rule() -> None:
    assert rounds_of(14, 5e-4, 10_000, 32_561) == 1
    assert rounds_of(14, 3e-2, 10_000, 32_561) == 3


def test_with_many_units_all_of_a_few_columns_are_asked_about_again() -> None:
    assert [later_fields(columns, 0.1, 20_000, 10**6) for columns in (5, 21, 100)] == [5, 21, 7]
    assert later_fields(14, 3e-2, 10_000, 32_561) == 7  # Adult
    begun = planned_rounds(classes=2, fields=21, codes=400, rounds=3, later=21)
    assert [each.fields for each in begun if each.what == "labels"] == [21, 21, 21]


def test_pictures_are_asked_twice_if_their_labels_are_good_enough_to_learn_a_space_from() -> None:
    def rounds(epsilon: float, guess: float = 50_000) -> int:
        asked = planned_rounds(classes=10, fields=1, codes=301, rounds=1, repair=False)
        return rounds_of_spaces(Tallies.calibrate(epsilon=epsilon, delta=1e-5, classes=10, rounds=asked), 301, guess)

    assert [rounds(epsilon) for epsilon in (0.03, 0.1, 0.5, 1.0)] == [1, 2, 2, 2]
    assert [rounds(0.1, guess) for guess in (10_000, 100_000)] == [1, 2]


def test_cells_are_as_many_as_are_heard_over_the_noise_of_one_round() -> None:
    asked = planned_rounds(classes=10, fields=1, codes=301, rounds=1)
    once = Tallies.calibrate(epsilon=1, delta=1e-5, classes=10, rounds=asked)
    cells = cells_that_are_heard(once, 2810)
    noise = once.rounds[-1].scale / once.steps
    assert 5 * noise * cells <= 2810 < 5 * noise * (cells + 1)
    assert (rounds_of_spaces(once, cells, 2810), rounds_of_spaces(once, cells + 1, 2810)) == (2, 1)
    assert cells_that_are_heard(once, 3) == 2


def test_enough_is_what_a_student_needs_by_classes_and_by_columns() -> None:
    assert (enough(2), enough(2, 14), enough(10, 3)) == (20, 70, 100)

"""Rounds, columns and cells of planned tallies, by public facts."""

from tests.world import Tallies, cells_that_are_heard, later_fields, planned_rounds, rounds_of, rounds_of_spaces


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

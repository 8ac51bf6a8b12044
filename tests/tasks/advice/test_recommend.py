"""What mechanism = "auto" stands for: tallies or votes, keys it keeps to, what runs, and what cannot work."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.people import changed, tables_of_plan, tallied, write_tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


def auto(
    folder: Path, *, without: tuple[str, ...] = (), privacy: Mapping[str, Any] = MappingProxyType({}), **labeling: Any
) -> world.Plan:
    """A plan for any number of rows, without some sections; of [labeling], what is None is left out."""
    tables = {**tables_of_plan(folder), "labeling": {"mechanism": "auto", **labeling}}
    tables["privacy"] |= {"delta": min(1e-5, 0.1 / (labeling.get("rows") or 1)), **privacy}
    tables["labeling"] = {key: value for key, value in tables["labeling"].items() if value is not None}
    return world.parse_plan({name: section for name, section in tables.items() if name not in without})


def test_rows_that_may_be_asked_themselves_are(folder: Path) -> None:
    plan = auto(folder, rows=3000, cutoff=9)
    chosen, reason = world.decided(plan, world.learn_encoding(plan))
    assert chosen.tallied
    assert (chosen.labeling.cutoff, chosen.labeling.rows) == (None, 3000)
    assert (chosen.teachers.count, chosen.student.learner) == (0, "linear")
    assert "label all public rows" in reason


@pytest.mark.parametrize(
    ("ends", "votes"), [({"cutoff": 9}, "stable"), ({}, "noisy_votes"), ({"queries": 9}, "noisy_votes")]
)
def test_without_rows_votes_are_taken_as_the_plan_ends_them_and_it_says_why(
    folder: Path, ends: dict[str, Any], votes: str
) -> None:
    plan = auto(folder, **ends)
    chosen, reason = world.decided(plan, world.learn_encoding(plan))
    assert (chosen.labeling.mechanism, chosen.teachers.count) == (votes, 150)
    assert {name: getattr(chosen.labeling, name) for name in ends} == ends
    assert "no tallies: labeling.rows does not say" in reason


def test_the_choice_follows_from_no_figure(folder: Path) -> None:
    """What was reckoned once differed by ε, and by the last bits of a machine's logarithms."""
    for epsilon, teachers in ((1e-3, 1), (1.0, 100_000), (300.0, 1)):
        plan = changed(
            auto(folder, rows=3000).model_dump(exclude_unset=True),
            privacy__epsilon=epsilon,
            privacy__lifetime={"epsilon": 400.0, "delta": 4e-5},
            teachers__count=teachers,
        )
        assert world.decided(plan, world.learn_encoding(plan))[0].tallied


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"relabel": {}}, "[relabel] is for teachers"),
        ({"student": {"learner": "universal", "hypotheses": "stumps", "epsilon": 1.0}}, "chosen beside votes"),
    ],
)
def test_what_only_votes_can_do_is_left_to_them(folder: Path, changes: dict[str, Any], why: str) -> None:
    tables = {**tables_of_plan(folder), "labeling": {"mechanism": "auto", "rows": 3000}}
    for name, section in changes.items():
        tables[name] = {**tables.get(name, {}), **section}
    plan = world.parse_plan(tables)
    chosen, reason = world.decided(plan, world.learn_encoding(plan))
    assert "votes" in chosen.ways
    assert why in reason


def test_pictures_are_asked_twice_or_as_often_as_their_session_was_begun(folder: Path) -> None:
    levels = np.random.default_rng(0).integers(0, 256, (8, 196))
    pictures = pl.DataFrame({"image": pl.Series(levels, dtype=pl.Array(pl.UInt8, 196))})
    codes = world.learn_codes([pictures], [world.Passed(name="image", element="uint8", size=196)], coarse=8)
    plan = auto(folder, without=("teachers",), mechanism="tallies", rows=10**6)

    def asked(begun: tuple[int, int] | None) -> list[str]:
        return [each.what for each in world.planned_tallies(plan, codes, pictures.height, begun).rounds]

    assert asked(None) == asked((2, 1)) == ["codes", "labels", "labels"]
    assert asked((1, 1)) == ["codes", "labels"]


def test_lists_have_fewer_cells_if_units_are_few_and_one_round_then(folder: Path) -> None:
    column = world.Passed(name="image", element="uint8", size=196)
    encoding = world.Encoding(columns=(column,), label="outcome", classes=("no", "yes"))

    def cells(rows: int | None, **changes: Any) -> int:
        return world.planned_sizes(auto(folder, rows=rows, privacy={"epsilon": 1.0, **changes}), encoding)["cells"]

    few = cells(1000)
    assert cells(None) == cells(10**6) == world.VECTOR_CELLS
    assert 2 < cells(1000, epsilon=0.1) < few < cells(2000) < world.VECTOR_CELLS
    levels = np.random.default_rng(0).integers(0, 256, (few + 50, 196))
    pictures = pl.DataFrame({"image": pl.Series(levels, dtype=pl.Array(pl.UInt8, 196))})
    plan = changed(tallied(folder, 1000), privacy__epsilon=1.0)
    codes = world.learn_codes([pictures], encoding.columns, **world.planned_sizes(plan, encoding))
    assert codes.size == few + 1  # and one for rows without a list
    assert [each.what for each in world.planned_tallies(plan, codes, len(pictures)).rounds] == ["codes", "labels"]


def test_the_outermost_bins_are_divided_if_units_are_many(folder: Path) -> None:
    def tails(rows: int, **changes: Any) -> bool:
        plan = auto(folder, rows=rows, privacy={"epsilon": 1.0, **changes})
        return "tails" in world.planned_sizes(plan, world.learn_encoding(plan))

    assert (tails(3_000), tails(10**6), tails(10**6, secret="labels")) == (False, True, False)


def test_a_settled_plan_keeps_what_has_meaning_alone(folder: Path) -> None:
    plan = auto(folder, rows=3000, queries=200)
    assert plan.naming("tallies").labeling.queries is None
    stable = plan.naming("stable", 7)
    assert (stable.labeling.cutoff, stable.labeling.queries, stable.labeling.rows) == (7, None, 3000)
    noisy = plan.naming("noisy_votes")
    assert (noisy.labeling.queries, noisy.labeling.cutoff) == (200, None)


# What cannot work -----------------------------------------------------------------------------------------------------


def test_where_neither_can_be_asked_it_says_why_of_both(folder: Path) -> None:
    tables = {**tables_of_plan(folder), "labeling": {"mechanism": "auto"}}
    tables["student"] = {"learner": "linear"}
    plan = world.parse_plan(tables)
    with pytest.raises(
        world.WrongInput, match=r"no tallies: labeling\.rows does not say .*; student\.learner = 'linear'"
    ):
        world.decided(plan, world.learn_encoding(plan))


# Rounds, columns and cells of tallies, by public facts ----------------------------------------------------------------


def test_rounds_by_the_public_rule() -> None:
    assert world.rounds_of(14, 5e-4, 10_000, 32_561) == 1
    assert world.rounds_of(14, 3e-2, 10_000, 32_561) == 3


def test_with_many_units_all_of_a_few_columns_are_asked_about_again() -> None:
    assert [world.later_fields(columns, 0.1, 20_000, 10**6) for columns in (5, 21, 100)] == [5, 21, 7]
    assert world.later_fields(14, 3e-2, 10_000, 32_561) == 7  # Adult
    begun = world.planned_rounds(classes=2, fields=21, codes=400, rounds=3, later=21)
    assert [each.fields for each in begun if each.what == "labels"] == [21, 21, 21]


def test_pictures_are_asked_twice_if_their_labels_are_good_enough_to_learn_a_space_from() -> None:
    def rounds(epsilon: float, guess: float = 50_000) -> int:
        asked = world.planned_rounds(classes=10, fields=1, codes=301, rounds=1, repair=False)
        return world.rounds_of_spaces(
            world.calibrated_sums(world.Tallies, epsilon=epsilon, delta=1e-5, classes=10, rounds=asked), 301, guess
        )

    assert [rounds(epsilon) for epsilon in (0.03, 0.1, 0.5, 1.0)] == [1, 2, 2, 2]
    assert [rounds(0.1, guess) for guess in (10_000, 100_000)] == [1, 2]


def test_cells_are_as_many_as_are_heard_over_the_noise_of_one_round() -> None:
    asked = world.planned_rounds(classes=10, fields=1, codes=301, rounds=1)
    once = world.calibrated_sums(world.Tallies, epsilon=1, delta=1e-5, classes=10, rounds=asked)
    cells = world.cells_that_are_heard(once, 2810)
    noise = once.rounds[-1].scale / once.steps
    assert 5 * noise * cells <= 2810 < 5 * noise * (cells + 1)
    assert (world.rounds_of_spaces(once, cells, 2810), world.rounds_of_spaces(once, cells + 1, 2810)) == (2, 1)
    assert world.cells_that_are_heard(once, 3) == 2

"""The rehearsal of a sketch: rows that a schema allows, and what tables and labels of them would teach."""

from typing import Any

import numpy as np
import pytest

from tests.support.sentences import says
from tests.world import (
    MOST_COLUMNS,
    Plan,
    TableSchema,
    advice_rehearse_sketch,
    expect_sketch,
    grid_of,
    groups_of,
    parse_plan,
    plausible_cells,
    rehearsed_columns,
    schema_of,
)

SHARES = {"low": 0.7, "high": 0.3}
RANGE = {"minimum": 0, "maximum": 1e6}
FIELDS: list[dict[str, Any]] = [
    {"name": "wage", "type": "number", "constraints": RANGE},
    {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
    {"name": "since", "type": "date", "constraints": {"minimum": "1990-01-01", "maximum": "2030-12-31"}},
    {"name": "member", "type": "boolean"},
    {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}},
    {"name": "one", "type": "string", "constraints": {"enum": ["the only one"]}},
    {"name": "note", "type": "date"},
]


def plan_of(rows: int, epsilon: float, **data: Any) -> Plan:
    """A plan whose tables are not there: nothing private is read."""
    label = {"label": "class", "classes": ["low", "high"]} | data
    privacy = {"domain": "x", "epsilon": epsilon, "delta": 1e-5, "lifetime": {"epsilon": 99, "delta": 1e-4}}
    privacy["large_delta"] = True
    tables = {"private": "not there", "schema": {"fields": FIELDS}} | {k: v for k, v in label.items() if v}
    return parse_plan({"data": tables, "privacy": privacy, "labeling": {"mechanism": "tallies", "rows": rows}})


@pytest.fixture(autouse=True)
def one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice_rehearse_sketch, "DRAWS", 1)


def test_plausible_rows_are_cells_of_the_schema_that_depend_on_one_another() -> None:
    schema, rows = schema_of({"fields": FIELDS}), 4_000
    grid, found = grid_of(schema), list[Any]()
    for seed in range(6):
        cells = plausible_cells(schema, rows, np.random.default_rng(seed))
        assert np.array_equal(cells, plausible_cells(schema, rows, np.random.default_rng(seed)))
        for wide, narrow in zip(grid.coarse, grid.fine, strict=True):
            own = cells[:, narrow] - grid.fields[narrow].start
            assert own.min() >= 0
            assert own.max() < grid.fields[narrow].size
            places = groups_of(grid.fields[narrow], grid.fields[wide])[own] + grid.fields[wide].start
            assert np.array_equal(cells[:, wide], places)
            assert len(np.unique(own)) > 1
        both = cells[:, grid.fine[:2]].astype(np.float64)
        found.append(np.asarray(np.corrcoef(both, rowvar=False))[0, 1])
    assert max(map(abs, found)) > 0.2


def test_what_is_expected_grows_with_the_budget_and_lies_between_the_largest_class_and_the_possible() -> None:
    little, much = (expect_sketch(plan_of(*given, shares=SHARES)) for given in ((200, 0.01), (200_000, 8.0)))
    assert (little.feasible, much.feasible) == (False, True)
    assert "not expected to beat the baseline" in little.reason
    assert much.reason.startswith("simulated with synthetic labels on plausible rows of the schema: expect an accuracy")
    assert {each.signal for each in much.rehearsed} == {"weak", "typical", "strong"}
    for each in much.rehearsed:
        assert each.largest == pytest.approx(0.7, abs=0.01)
        assert each.possible - 0.05 < each.right <= each.possible
    assert [each.name for each in much.classes] == ["low", "high"]
    assert (much.columns, much.left_out) == (("wage", "age", "since", "member", "sex", "one"), ("note",))
    assert [step.what for step in much.steps] == ["one-way tables", "two-way tables", "labels", "labels", "labels"]
    assert [step.columns for step in much.steps] == [8, 10, 5, 5, 5]
    assert sum(step.share for step in much.steps) == pytest.approx(1)


def test_without_the_shares_of_classes_no_accuracy_is_foreseen() -> None:
    """It was "64 % to 99 %" of a 5.7 % outcome."""
    for classes in (["low", "high"], ["low", "middle", "high"]):
        found = expect_sketch(plan_of(50_000, 4.0, classes=classes))
        assert says(found.reason, "cannot be foreseen", "--shares", "data.shares")
        assert (found.rehearsed, found.classes, found.feasible) == ((), (), True)


def test_a_number_as_label_is_expected_by_how_much_of_it_is_explained() -> None:
    found = expect_sketch(plan_of(50_000, 4.0, classes=None, bounds=[0, 10]))
    assert "expect an R² of" in found.reason
    assert found.classes == ()
    assert [each.possible for each in found.rehearsed] == [0.1, 0.5, 0.9]
    assert all(each.possible - 0.3 < each.right <= each.possible for each in found.rehearsed)


def test_of_a_wide_schema_some_columns_are_rehearsed_the_same_ones_whatever_their_order() -> None:
    fields = [{"name": f"x{at}", "type": "number", "constraints": RANGE} for at in range(40)]
    kept, part = rehearsed_columns(schema_of({"fields": fields}))
    other, _ = rehearsed_columns(schema_of({"fields": fields[::-1]}))
    assert (len(kept.names), part) == (MOST_COLUMNS, MOST_COLUMNS / 40)
    assert {*kept.names} == {*other.names}
    few: TableSchema = schema_of({"fields": FIELDS})
    assert rehearsed_columns(few) == (few.only(["wage", "age", "since", "member", "sex"]), 1)

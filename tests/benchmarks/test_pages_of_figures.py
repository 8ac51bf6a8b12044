"""What the pages say of the field and of speed is what was measured: no figure by hand, none lost."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.benchmarks import speed
from tests.benchmarks.accuracy import EPSILONS, METHODS, OF_VIEWS, fallen, figures, miscalibrated, read
from tests.benchmarks.ours import Said
from tests.benchmarks.page import FIGURE, IN_NATS, MEASURES, SMALL, by_method, cell, pages
from tests.benchmarks.speed import Measured
from tests.benchmarks.tables import xor
from tests.benchmarks.views import VIEWS, by_view

LINES = read()


def test_the_pages_are_made_of_what_was_measured() -> None:
    for path, text in pages(LINES).items():
        assert path.read_text(encoding="utf-8") == text, f"make bench-accuracy writes {path}"
    assert FIGURE.read_text().startswith("<?xml")
    assert SMALL.read_text().startswith("<?xml")


def test_a_figure_below_its_record_is_named() -> None:
    def lines(case: str, *accuracies: float) -> list[dict[str, Any]]:
        return [{"case": case, "method": "tallies", "epsilon": 1.0, "accuracy": each} for each in accuracies]

    record = [*lines("health", 83.4, 83.6, 83.7), *lines("once", 90.0), *lines("adult", 86.4, 86.6), {"case": "slow"}]
    now = [*lines("health", 74.6, 75.1, 74.7), *lines("once", 50.0), *lines("adult", 86.2, 86.7)]
    assert [said.split(":")[0] for said in fallen(record, now)] == ["health, tallies, ε = 1.0"]
    assert [*fallen(now, record)] == []


def test_nothing_was_measured_twice() -> None:
    named = [(line["case"], line["method"], line["epsilon"], line["seed"]) for line in LINES]
    assert len(set(named)) == len(named)
    assert {method for _, method, _, _ in named} <= {*METHODS, *OF_VIEWS}


def test_a_cell_without_a_measurement_is_empty_and_one_that_failed_says_why() -> None:
    assert cell([], "accuracy") == ""
    assert cell([{"why": "more than 300 s"}], "accuracy") == "more than 300 s"
    assert cell([{"accuracy": 1.0}], "accuracy") == "1.0"
    assert cell([{"accuracy": 1.0}, {"accuracy": 2.0}], "accuracy") == "1.5 ± 0.7"


def test_tables_have_a_row_for_each_method_that_was_measured_alone() -> None:
    for measure in MEASURES:
        lines = [{"case": "c", "method": "tallies", "epsilon": 1.0, measure: 50.0}]
        shown = "50.000" if measure in IN_NATS else "50.0"
        assert [*by_method(lines, "c", measure)][1:] == [("**`tallies`**", "", "", shown, "", "")]
    assert EPSILONS.index(1.0) == 2


def test_views_of_a_row_stand_beside_what_the_rule_sees_of_public_rows() -> None:
    lines: list[dict[str, Any]] = [
        {"case": "phoneme", "method": view, "epsilon": 1.0, "accuracy": 80.0 + at} for at, view in enumerate(VIEWS)
    ]
    lines[-1] |= {"chosen": "both", "ratio": 0.472}
    assert [*by_view(lines, cell)][1:] == [("phoneme", "1", "0.47", "both", "80.0", "81.0", "82.0", "")]


def test_calibration_is_the_gap_between_what_is_said_and_what_is_right() -> None:
    said = np.array([[0.9, 0.1]] * 10)
    assert miscalibrated(said, np.array([0] * 9 + [1])) == pytest.approx(0.0)
    assert miscalibrated(said, np.array([0] * 5 + [1] * 5)) == pytest.approx(0.4)
    assert figures(Said(said, np.log(said)), np.array([0] * 9 + [1]))["log_loss"] == pytest.approx(0.325, abs=1e-3)


def test_an_exclusive_or_tells_nothing_by_single_columns() -> None:
    private = xor(2).private
    odd = private.filter(pl.col("y") == "odd")
    shares = [(odd[name] > 0).mean() for name in ("n0", "n1", "n2")]
    assert shares == pytest.approx([0.5, 0.5, 0.5], abs=0.02)
    assert ((odd["n0"] > 0) != (odd["n1"] > 0)).all()


# Speed ----------------------------------------------------------------------------------------------------------------


def test_the_page_of_speed_is_made_of_what_was_measured() -> None:
    assert speed.PAGE.read_text(encoding="utf-8") == speed.page(speed.read()), "make bench writes it"


def test_a_later_figure_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    for value in (3.0, 2.0):
        speed.record(Measured("a", value, "s", 2.5, least=False), tmp_path / "x")
        speed.record(Measured("b", value, "×", 2.5, least=True), tmp_path / "x")
    assert [(each.what, each.value) for each in speed.read(tmp_path / "x")] == [("a", 2.0), ("b", 2.0)]


def test_what_misses_its_aim_is_said_to() -> None:
    rows = [Measured("a", 2.0, "s", 2.5, least=False), Measured("b", 2.0, "×", 2.5, least=True, beside="a loop")]
    assert list(speed.shown(rows))[2:4] == [
        "| a | **2.00** s | ≤ 2.5 |  |",
        "| b | **2.00** × | ≥ 2.5, missed | a loop |",
    ]
    assert [row.times for row in rows] == [1.25, 0.8]

"""What the pages say of the field, of speed and of scale is what was measured: no figure by hand, none lost."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.benchmarks import schedule, speed
from tests.benchmarks.accuracy import EPSILONS, METHODS, fallen, figures, miscalibrated, read
from tests.benchmarks.ours import Said
from tests.benchmarks.page import FIGURE, IN_NATS, MEASURES, SMALL, by_method, cell, hindsight, pages
from tests.benchmarks.speed import Measured
from tests.benchmarks.tables import xor
from tests.world import FAR_AHEAD

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
    assert {method for _, method, _, _ in named} <= set(METHODS)


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


def test_hindsight_names_the_best_and_what_auto_lost_to_it() -> None:
    def line(method: str, accuracy: float, **more: str) -> dict[str, object]:
        return {"case": "c", "method": method, "epsilon": 1.0, "accuracy": accuracy, **more}

    named = [line("tallies", 80.0), line("tallies", 82.0), line("stable", 84.0)]
    chose = [line("auto", 79.0, chosen="tallies"), line("auto", 80.0, chosen="tallies")]
    best = hindsight([*named, *chose], "c", "accuracy", 1.0)
    assert best is not None
    assert (best.lost, best.error, best.text) == (4.5, None, "**−4.5** (79.5; `stable` 84.0)")
    own = hindsight([*named[:2], *chose], "c", "accuracy", 1.0)
    assert own is not None
    assert own.error == pytest.approx(1.118, abs=0.001)
    assert own.text == "**−1.5 ± 1.1** (79.5)"
    nothing = hindsight([*named, {"case": "c", "method": "auto", "epsilon": 1.0, "why": "no"}], "c", "accuracy", 1.0)
    assert nothing is not None
    assert (nothing.lost, nothing.text) == (0.0, "nothing can work (`stable` 84.0)")
    assert hindsight(named, "c", "accuracy", 1.0) is None
    assert hindsight(chose, "c", "accuracy", 1.0) is None


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


# A run too large for us -----------------------------------------------------------------------------------------------


def test_the_page_of_scale_is_what_the_simulation_says() -> None:
    text = schedule.PAGE.read_text(encoding="utf-8")
    assert schedule.page(text, schedule.measured()) == text, "python -m tests.benchmarks.schedule writes it"
    assert "| 1,024 |" in text
    assert schedule.AHEAD == FAR_AHEAD


@pytest.mark.parametrize(
    ("polls", "door", "workers", "ahead", "wall"),
    [
        ([4.0] * 6, [1.0] * 6, 1, 64, 25.0),  # polls decide, and the last passage
        ([4.0] * 6, [1.0] * 6, 6, 64, 10.0),  # the door decides, after the first poll
        ([4.0] * 3, [5.0] * 3, 1, 64, 19.0),
        ([4.0] * 4, [1.0] * 4, 4, 0, 20.0),  # nothing ahead: one after the other
    ],
)
def test_polls_and_door_go_on_together(
    polls: list[float], door: list[float], workers: int, ahead: int, wall: float
) -> None:
    assert schedule.interleaved(polls, door, workers, ahead) == wall


def test_more_workers_take_no_longer_and_no_less_than_the_single_process() -> None:
    rates, size = schedule.measured(), schedule.Size(private=10**7, public=10**7, teachers=1000)
    runs = [schedule.simulate(size, rates, workers) for workers in (1, 4, 16, 64)]
    assert [run.wall for run in runs] == sorted((run.wall for run in runs), reverse=True)
    single = runs[0].stages["encode"] + runs[0].stages["split"] + size.public / rates.labels
    assert all(run.wall >= single for run in runs)
    assert all(run.busy == runs[0].busy for run in runs)

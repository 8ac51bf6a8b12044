"""What the page of speed says is what was measured."""

from pathlib import Path

from tests.benchmarks.speed import FIGURE, PAGE, Measured, draw, page, read, record, shown


def test_the_page_is_made_of_what_was_measured() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read()), "make bench writes it"
    assert FIGURE.read_text().startswith("<?xml")


def test_a_later_figure_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    for value in (3.0, 2.0):
        record(Measured("a", value, "s", 2.5, least=False), tmp_path / "x")
        record(Measured("b", value, "×", 2.5, least=True), tmp_path / "x")
    assert [(each.what, each.value) for each in read(tmp_path / "x")] == [("a", 2.0), ("b", 2.0)]


def test_what_misses_its_aim_is_said_to() -> None:
    rows = [Measured("a", 2.0, "s", 2.5, least=False), Measured("b", 2.0, "×", 2.5, least=True, beside="a loop")]
    assert list(shown(rows))[2:4] == ["| a | **2.00** s | ≤ 2.5 |  |", "| b | **2.00** × | ≥ 2.5, missed | a loop |"]
    assert [row.times for row in rows] == [1.25, 0.8]
    assert draw(rows).axes

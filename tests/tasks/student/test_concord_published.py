"""A published student as a whole: columns that it mostly cannot read are named, wherever it is loaded."""

import ast
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from tests.tasks.student.test_parts import PUBLISHED
from tests.world import (
    EMPTY,
    LARGEST,
    LARGEST_NUMBER,
    LOOKED_AT,
    NULL_WORDS,
    Published,
    student_concord_published,
    unread,
)

WRONG: dict[str, tuple[str, list[Any]]] = {
    "german numbers": ("plain", ["1.234,5", "12,5", "3"]),
    "dates for numbers": ("b", [pd.Timestamp(2023, 12, 20)] * 3),
    "german dates": ("date", ["20.12.2023", "21.12.2023", "2023-12-22"]),
    "numbers for dates": ("date", [20231220, 20231221, 20231222]),
    "words that are no truth": ("truth", ["perhaps", "never", "true"]),
    "words of another list": ("word", ["rome", "ROME", "a"]),
    "words of another list, none missing": ("known", ["x", "y", None]),
    "lists of another length": ("bytes", [[1, 2, 3], [1, 2, 3], [1, 2]]),
    "no lists": ("wave", ["1 2", "3 4", None]),
    "no words": ("text", [{"a": 1}, {"b": 2}, "some"]),
}
RIGHT: dict[str, tuple[str, list[Any]]] = {
    "half of them": ("plain", ["1.234,5", "1"]),
    "blanks and what is missing": ("plain", ["", "?", "NA", None, float("nan"), pd.NA, pd.NaT, "7"]),
    "nothing at all": ("date", [None, " ", "NaT"]),
    "dates": ("date", ["2023-12-20", None, pd.Timestamp(2023, 12, 20)]),
    "truth": ("truth", ["true", 0, None]),
    "words": ("word", ["Rome", "?", "other"]),
    "lists": ("bytes", [[1, 2], None]),
    "text": ("text", ["any words", "at all"]),
}


def found(column: str, cells: list[Any]) -> list[str]:
    frame = pd.DataFrame({name: pd.Series([None] * len(cells), dtype=object) for name in PUBLISHED.feature_names_in_})
    frame[column] = pd.Series(cells, dtype=object)
    return [name for name, _ in unread(frame, PUBLISHED)]


@pytest.mark.parametrize("what", WRONG)
def test_a_column_that_is_mostly_not_read_is_named(what: str) -> None:
    column, cells = WRONG[what]
    assert found(column, cells) == [column]


@pytest.mark.parametrize("what", RIGHT)
def test_a_column_that_is_mostly_read_or_missing_is_not(what: str) -> None:
    assert found(*RIGHT[what]) == []


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_a_long_table_is_looked_at_evenly(frame: Any) -> None:
    rows = 10 * LOOKED_AT
    cells = ["1,5"] * (rows * 6 // 10) + ["1.5"] * (rows * 4 // 10)
    for each in (cells, cells[::-1]):
        with pytest.warns(UserWarning, match="'plain' are no numbers"):
            Published([("encode", PUBLISHED)])._looked_over(frame({"plain": each}))


def test_missing_cells_and_numbers_are_those_of_concord() -> None:
    assert sorted(EMPTY) == sorted(NULL_WORDS)
    assert LARGEST == LARGEST_NUMBER


def test_the_file_that_travels_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(student_concord_published.__file__).read_text())
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == {"numpy", "sklearn"}
    assert Published.__module__ == student_concord_published.NAME == Path(student_concord_published.__file__).stem

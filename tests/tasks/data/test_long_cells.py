"""Long cells: none takes long to name or to read, however it is made, because work on it could go back over it."""

import signal
import subprocess
import sys
import unicodedata

import pytest

from tests.world import LONGEST_TEXT, MOST_MARKS, name_of

PATIENCE = 4
"""Seconds of a processor for the cells below, which take 1. One of them took minutes."""

LONG = f"""
import math, resource, time
import polars as pl
from concord.tasks.data import concord_student
from concord.tasks.data.cells import canonical_id, cell, class_index
from concord.tasks.units.identifiers import name_of
from concord.tasks.units.units import unit_names

most = math.ceil(time.process_time()) + {PATIENCE}
resource.setrlimit(resource.RLIMIT_CPU, (most, most))
for word in (
    "1" * 10**5 + "é",
    "1" * 10**5 + "." + "1" * 10**5 + "é",
    "1e" + "0" * 10**5 + "é",
    "0" * 10**6 + "é",
    "." * 10**6,
    "+-" * 10**6,
    "2020-01-01 00:00:00." + "9" * 10**6 + "é",
    "e" + "\u0300\u0316" * 10**5,
    ("e" + "\u0300\u0316" * {MOST_MARKS // 2}) * 10**4,
):
    assert name_of(word) == word
    name_of(word[:{LONGEST_TEXT}])
    unit_names(pl.Series([word]))
    for cells in (pl.Series([word]), pl.Series([word.encode()])):
        rules = [cell("c", cells.dtype, kind).alias(kind) for kind in ("numeric", "boolean", "date", "categorical")]
        ids = [canonical_id("c", cells.dtype).alias("id"), class_index("c", cells.dtype, ("a", "b")).alias("class")]
        cells.alias("c").to_frame().select(*rules, *ids)
    for kind in ("numeric", "boolean", "date", "categorical"):
        concord_student.Cells(kind).transform(pl.Series("c", [word]).to_frame())
"""


@pytest.mark.parametrize(
    "planted", ["", pytest.param("concord_student.MOST_MARKS = 10**9; ", marks=pytest.mark.slow)], ids=["", "planted"]
)
def test_no_long_cell_takes_long(planted: str) -> None:
    """Digits before a letter, and marks in a row, took time that grew with the square of their number: without the
    bound of marks they still do, and that is found."""
    done = subprocess.run([sys.executable, "-c", LONG.replace("most =", f"{planted}most =")], check=False)
    assert done.returncode == (-signal.SIGKILL if planted else 0)


def test_text_within_the_bounds_is_composed_and_beyond_them_is_its_own_name() -> None:
    marks = "\u0300\u0316"
    for word in ("e" + marks * (MOST_MARKS // 2), ("e" + marks) * (LONGEST_TEXT // 3)):
        assert name_of(word) == unicodedata.normalize("NFC", word) != word
    for word in ("e" + marks * (MOST_MARKS // 2) + "\u0300", ("e" + marks) * LONGEST_TEXT):
        assert name_of(word) == word

"""Benchmark of a stream's age: 520 refreshes in one home, ten seasons, a small file of new people each time.

The tenth and the last, and one on either side of each, are commands; the others are quicker, in one process without
Prefect's engine. Run by `make bench`.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks.speed import Measured
from tests.promises.commands import STAND_INS
from tests.support.people import people, write_plan, write_tables
from tests.world import flows_refresh, load_plan

pytestmark = pytest.mark.bench

REFRESHES, SEASON = 520, 52
PUBLISHED = ("released", "mlartifacts")
MOST = 1.5
"""For the processor seconds of the tenth, and for the files that it left besides what is published."""


def kept(home: Path) -> int:
    """The number of files in a home besides what is published."""
    return sum(len(files) for part in home.iterdir() if part.name not in PUBLISHED for _, _, files in os.walk(part))


def command(plan: Path, home: Path) -> tuple[float, int]:
    """Processor seconds of `concord refresh`, its server's included, and how many files it left."""
    words = [str(Path(sys.executable).with_name("concord")), "refresh", str(plan), "--home", str(home), "--quiet"]
    files, before = kept(home), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, kept(home) - files


def test_the_last_of_520_refreshes_is_like_the_tenth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Callable[[Measured], None]
) -> None:
    for place, stand_in in STAND_INS.items():
        monkeypatch.setattr(place, stand_in)
    data, home, measured = write_tables(tmp_path / "data"), tmp_path / "home", dict[int, tuple[float, int]]()
    labeling = {"labeling__mechanism": "tallies", "labeling__rows": 6000, "labeling__cutoff": None}
    others = {"teachers": None, "student": None, "labeling__batch": None, "stream__season": SEASON}
    path = write_plan(data, data__private="arriving", **labeling, **others)
    (data / "arriving").mkdir()
    for number in range(1, REFRESHES + 1):
        people(150, 1000 + number).write_parquet(data / "arriving" / f"{number:03}.parquet")
        if number in range(9, 12) or number > REFRESHES - 3:
            measured[number] = command(path, home)
        else:
            flows_refresh.refresh.fn(load_plan(path), home)
    (tenth, left), (last, left_by_last) = (
        (median(seconds for seconds, _ in of), median(files for _, files in of))
        for of in ([*measured.values()][:3], [*measured.values()][3:])
    )
    beside = f"{tenth:.2f} and {last:.2f} processor s; {left} and {left_by_last} files left besides what is published"
    print(f"\nrefresh {REFRESHES} of a home for its tenth: {beside}")
    what = f"refresh {REFRESHES} in a home for the tenth"
    record(Measured(what, last / tenth, "×", MOST, least=False, beside=beside))
    assert last <= MOST * tenth
    assert left_by_last <= MOST * left

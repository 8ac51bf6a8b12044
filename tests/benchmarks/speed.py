"""The table of speed, made of what `make bench` measured and of nothing else.

    python -m tests.benchmarks.speed        (make bench runs it last)

Benchmarks append to speed.jsonl if they are run with `--record`; a later figure takes the place of the earlier one of
the same name. The table stands in speed.md between its marks. Checked by test_pages_of_figures.py.
"""

import json
import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.support.markdown import between, table

MACHINE = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
RECORDED = Path(__file__).with_name("speed.jsonl")
PAGE = RECORDED.with_suffix(".md")
MARKS = "<!-- measured by make bench -->", "<!-- end of what was measured -->"


@dataclass(frozen=True)
class Measured:
    """One figure of a benchmark, and what was aimed at.

    what    what was done, with its size
    value   in `unit`; "×" is a ratio to a peer of the same run
    aim     in the same unit
    least   whether the aim is the least value or the most
    beside  the peer, or the figure in other units
    """

    what: str
    value: float
    unit: str
    aim: float
    least: bool
    beside: str = ""
    machine: str = MACHINE
    at: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d}")

    @property
    def times(self) -> float:
        """How many times better than the aim."""
        return self.value / self.aim if self.least else self.aim / self.value


Benchmark = Callable[[Path], Iterator[Measured]]
"""Is given an empty folder. Its docstring says what is measured, beside what."""


def read(path: Path = RECORDED) -> list[Measured]:
    """What was recorded, in its order."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Measured(**json.loads(line)) for line in lines]


def record(measured: Measured, path: Path = RECORDED) -> None:
    """Write a figure, in the place of an earlier one of the same name."""
    known = {each.what: each for each in read(path)} | {measured.what: measured}
    lines = [json.dumps(asdict(each), ensure_ascii=False) for each in known.values()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def number(value: float) -> str:
    """To three significant digits, and all digits before the point."""
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}"


def shown(rows: Sequence[Measured]) -> Iterator[str]:
    """A row a figure, and below it the machine and the days."""
    cells = [("what", "measured", "aim", "beside it")]
    for row in rows:
        aim = f"{'≥' if row.least else '≤'} {row.aim:g}" + (", missed" if row.times < 1 else "")
        cells.append((row.what, f"**{number(row.value)}** {row.unit}", aim, row.beside))
    yield from table(cells)
    yield ""
    for machine in dict.fromkeys(row.machine for row in rows):
        days = sorted({row.at for row in rows if row.machine == machine})
        yield f"Measured on {machine}; {' to '.join(dict.fromkeys((days[0], days[-1])))}."


def page(rows: Sequence[Measured]) -> str:
    """The page as it should read."""
    return between(PAGE.read_text(encoding="utf-8"), "\n" + "\n".join(shown(rows)) + "\n", MARKS)


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")

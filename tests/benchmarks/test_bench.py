"""The runner of all benchmarks of speed: each figure is printed, and kept with `--record`, as `make bench` does."""

from pathlib import Path

import pytest

from tests.benchmarks.parts import PARTS
from tests.benchmarks.runs import RUNS
from tests.benchmarks.speed import MACHINE, Benchmark, number, read, record

SLACK = 1.5
"""Times by which a figure may miss its aim, or what is on record where that missed it: machines do other work, too."""


@pytest.mark.bench
@pytest.mark.parametrize("benchmark", [*RUNS, *PARTS], ids=lambda benchmark: benchmark.__name__)
def test_no_figure_is_far_from_its_aim(benchmark: Benchmark, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    before, far = {each.what: each.times for each in read()}, []
    for figure in benchmark(tmp_path):
        print(f"\n{figure.what} ({MACHINE}): {number(figure.value)} {figure.unit}. {figure.beside}")
        if request.config.getoption("--record", default=False):
            record(figure)
        if figure.times < min(1.0, before.get(figure.what, 1.0)) / SLACK:
            far.append(figure.what)
    assert not far

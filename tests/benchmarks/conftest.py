"""What a benchmark measured is kept if it is run with `--record`, as `make bench` does."""

from collections.abc import Callable

import pytest

from tests.benchmarks.speed import Measured
from tests.benchmarks.speed import record as keep


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write figures to tests/benchmarks/speed.jsonl")


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[Measured], None]:
    return keep if request.config.getoption("--record", default=False) else lambda _: None

"""The option by which figures of benchmarks are kept."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write figures to tests/benchmarks/speed.jsonl")

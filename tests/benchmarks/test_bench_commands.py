"""Benchmarks of what a person waits for: commands over the demonstration, the best of several. Run by `make bench`.

Wall seconds of a process of its own, from its start to its end, in a home that no other uses.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest

from tests.benchmarks.speed import MACHINE, Measured

pytestmark = pytest.mark.bench

CONCORD = str(Path(sys.executable).with_name("concord"))


def seconds(*words: str, tries: int) -> float:
    """Of a command that must succeed."""

    def once() -> float:
        started = perf_counter()
        subprocess.run([CONCORD, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return perf_counter() - started

    return min(once() for _ in range(tries))


def test_commands_over_the_demonstration(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    home = ("--home", str(tmp_path / "home"))
    print(f"\ncommands over the demonstration ({MACHINE}), seconds")
    first = seconds("demo", *home, tries=1)
    (session,) = (tmp_path / "home/released").glob("demo-*")
    for what, took, aim in (
        ("`concord demo` in a fresh home", first, 12.0),
        ("`concord demo` again, from its cache", seconds("demo", *home, tries=3), 5.0),
        ("`concord --help`", seconds("--help", tries=5), 0.15),
        ("`concord budget`", seconds("budget", *home, tries=5), 0.5),
        ("`concord verify FOLDER`, of a session without its home", seconds("verify", str(session), tries=3), 1.0),
        ("`concord verify`, of a home of one session", seconds("verify", *home, tries=3), 1.0),
    ):
        print(f"  {what}: {took:.2f}")
        record(Measured(what, took, "s", aim, least=False))

"""The command line as it is met: help that ends with examples, quiet when asked, no colours where nobody sees them."""

import io
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command

from flows import progress
from flows.cli import app
from flows.examples import EXAMPLES
from tests.console import concord as without_home
from tests.people import write_plan, write_tables

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]  # the app is a group
ESCAPE = "\x1b["


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_ends_with_examples_that_parse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    status, printed, _ = without_home(name, "--help")
    assert status == 0
    for example in EXAMPLES[name]:
        assert example in printed
        program, command, *arguments = shlex.split(example.partition(" > ")[0])
        assert (program, command) == ("concord", name)
        COMMANDS[name].make_context(name, arguments)


def test_help_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in COMMANDS:
        assert max(map(len, without_home(name, "--help")[1].splitlines())) <= 80


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("run", "nowhere.toml"), ("run",)])
def test_no_colours_where_there_is_no_terminal(arguments: tuple[str, ...]) -> None:
    assert not any(ESCAPE in str(said) for said in without_home(*arguments))


def test_no_colours_where_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    table = "[green]ok[/green]"
    for unwanted, coloured in ((None, True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", unwanted) if unwanted else monkeypatch.delenv("NO_COLOR", raising=False)
        console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
        console.print(table)
        assert ("32m" in console.file.getvalue()) == coloured  # type: ignore[attr-defined]  # a StringIO


def test_quietly_only_the_certificate_s_path_is_printed(concord: Callable[..., Any], tmp_path: Path) -> None:
    plan = str(write_plan(write_tables(tmp_path)))
    status, printed, error = concord("run", plan, "--quiet")
    assert (status, printed.count("\n")) == (0, 1)
    assert Path(printed.strip()).name == "certificate.json"
    assert "✓" not in error
    status, printed, error = concord("run", str(tmp_path / "nowhere.toml"), "-q")
    assert (status, printed) == (2, "")
    assert "concord init" in error
    assert "session" in concord("run", plan)[1]  # and aloud again


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What stages say on a terminal of 80 columns; long is what takes longer than no time."""
    told = io.StringIO()
    monkeypatch.setattr(progress, "console", Console(file=told, force_terminal=True, width=80, highlight=False))
    monkeypatch.setattr(progress, "SHOW_AFTER", 0.0)
    monkeypatch.setattr(progress.Progress, "_publish", lambda *_: None)  # Prefect's page of it needs a server
    return told


def test_a_long_stage_says_its_rate_and_what_remains(told: io.StringIO) -> None:
    with progress.Progress("poll", 4) as stage:
        for _ in range(4):
            time.sleep(0.15)
            stage.advance(cached=False)
    said = told.getvalue()
    assert re.search(r"[1-3]/4\b.* \d+(\.\d+)?/s", re.sub(r"\x1b\[[\d;]*m", "", said))
    assert re.search(r"\d:\d\d:\d\d", said)
    assert re.search(r"4 parts, 0\.\d s, \d\.?\d*/s", re.sub(r"\x1b\[[\d;]*m", "", said).splitlines()[-1])


def test_a_stage_of_one_part_says_the_time_it_took(told: io.StringIO) -> None:
    with progress.Progress("split", 1) as stage:
        time.sleep(0.25)
        stage.advance(cached=False)
    said = re.sub(r"\x1b\[[\d;]*[a-zA-Z]", "", told.getvalue())
    assert "part" not in said
    assert "0:00:00" in said  # while it ran
    assert re.search(r"split ✓ 0\.\d s", said)


def test_a_cached_stage_says_so(told: io.StringIO) -> None:
    with progress.Progress("teach", 2) as stage:
        stage.advance(cached=True)
        stage.advance(cached=True)
    assert "from cache" in told.getvalue()


def test_quiet_ends_with_what_was_quiet() -> None:
    with progress.hushed():
        assert progress.console.quiet
        with progress.hushed(False):
            assert progress.console.quiet
    assert not progress.console.quiet

"""The command line as it is met: help that ends with examples, quiet when asked, no colours where nobody sees them."""

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from inspect import getdoc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress as Bars
from typer.main import get_command

from tests.support.console import concord as without_home
from tests.support.openings import named, opening
from tests.support.people import write_plan, write_tables
from tests.world import PANELS, BudgetRefused, Ledger, Stages, app, flows_console, mechanisms_noise

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]  # the app is a group
EXAMPLES = {name: examples for commands in PANELS.values() for name, examples in commands.items()}
WIDTH, HEIGHT = 100, 40
"""Columns and lines of a screen, in which each command's help is seen whole."""
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


@pytest.mark.parametrize("name", ["run", "refresh", "estimate"])
def test_a_command_that_is_refused_a_further_session_has_each_option_that_the_refusal_names(
    name: str, tmp_path: Path
) -> None:
    """It named --again as well, which `run` had not."""
    ledger = named(Ledger.of(tmp_path))
    ledger.open_session(opening("one"))
    with pytest.raises(BudgetRefused) as refused:
        ledger.open_session(opening("two"))
    asked_by = re.findall(r"--[a-z-]+", str(refused.value))
    assert asked_by
    assert {*asked_by} <= {option for each in COMMANDS[name].params for option in each.opts}


def test_help_shows_every_word_of_its_texts_and_fits_a_screen_and_eighty_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, words in brackets were taken for markup and left out: "a plan with a [stream]"; `init` had 63 lines."""
    for name, command in COMMANDS.items():
        monkeypatch.setenv("COLUMNS", "400")
        shown = " ".join(without_home(name, "--help")[1].split())
        told = [getdoc(command.callback), *filter(None, (each.help for each in command.params))]
        for text in (*told[0].split("\n\n"), *(each.replace("\\[", "[") for each in told[1:]), *EXAMPLES[name]):
            assert " ".join(text.split()) in shown
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        assert len(without_home(name, "--help")[1].splitlines()) <= HEIGHT
        monkeypatch.setenv("COLUMNS", "80")
        assert max(map(len, without_home(name, "--help")[1].splitlines())) <= 80


def test_help_groups_all_commands_with_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    _, *panels = re.split("╭─ ", without_home("--help")[1])
    shown = {title: found for title, found in map(titled, panels) if title != "Options"}
    assert {title: list(commands) for title, commands in PANELS.items()} == shown
    assert {name for names in shown.values() for name in names} == set(COMMANDS)


def titled(panel: str) -> tuple[str, list[str]]:
    """The title of a panel, and the first word of each of its lines."""
    title, *lines = panel.splitlines()
    return title.partition(" ─")[0], [line.strip("│ ").split(" ")[0] for line in lines if line.startswith("│")]


def test_no_colours_where_there_is_no_terminal() -> None:
    for arguments in (("--help",), ("run", "--help"), ("run", "nowhere.toml"), ("run",)):
        assert not any(ESCAPE in str(result) for result in without_home(*arguments))
    assert without_home("--version")[:2] == (0, f"concord {version('concord')}\n")


@pytest.mark.parametrize("name", ["budget", "verify", "ui", "close x", "forget x", "extend x --public y"])
def test_no_home_is_made_where_one_is_asked_about(name: str, tmp_path: Path) -> None:
    home = tmp_path / "misspelt"
    status, printed, error = without_home(*name.split(), "--home", str(home))
    assert (status, printed) == (1, "")
    assert f"no home folder of concord at {home}" in error
    assert not home.exists()


def test_results_that_cannot_be_written_are_told_in_one_sentence() -> None:
    command = [sys.executable, "-c", "from concord.flows.cli import main; main()", "--version"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "concord: the machine refused: [Errno 28] No space left on device\n")


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
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


@dataclass
class Terminal:
    """A terminal of 80 columns, what stages say there, and a clock that goes on when it is told to."""

    file: io.StringIO
    now: float = 0.0

    def after(self, seconds: float, stage: flows_console.Progress) -> None:
        """One part of the stage ends that much later, and the next frame is drawn."""
        self.now += seconds
        stage.advance(cached=False)
        stage._bars.refresh()

    @property
    def shown(self) -> str:
        return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", self.file.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal(io.StringIO())
    console = Console(file=found.file, force_terminal=True, width=80, highlight=False, get_time=lambda: found.now)
    monkeypatch.setattr(flows_console, "err", console)
    monkeypatch.setattr(flows_console, "time", SimpleNamespace(monotonic=lambda: found.now))
    monkeypatch.setattr(flows_console.Progress, "_publish", lambda *_: None)  # Prefect's page of it needs a server
    return found


def test_a_long_stage_says_its_rate_and_what_remains(terminal: Terminal) -> None:
    with flows_console.Progress("poll", 4) as stage:
        for _ in range(4):
            terminal.after(15, stage)
    assert re.search(r"2/4 0\.0667/s 0:00:30 0:00:30", terminal.shown)
    assert terminal.shown.splitlines()[-1] == "    poll ✓ 4 parts, 60.0 s, 0.0667/s"


def test_a_release_of_many_numbers_says_how_many_are_drawn(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: the minutes of a round of many classes passed without a word. What is drawn for is not shown."""
    update = Bars.update

    def drawing(bars: Bars, *values: Any, **named: Any) -> None:
        terminal.now += 15
        update(bars, *values, **named)
        bars.refresh()

    monkeypatch.setattr(Bars, "update", drawing)
    monkeypatch.setattr(mechanisms_noise, "DRAWS_AT_A_TIME", 5)
    Stages(tmp_path, None).uncached("release", lambda: (mechanisms_noise.gaussian(1e9, 20), False))
    assert re.search(r"10/20 0\.\d+/s 0:00:\d\d", terminal.shown)
    assert terminal.shown.splitlines()[-1].startswith(" release ✓ ")
    shown = re.findall(r"\d+", terminal.shown)
    assert max(map(int, shown)) < 1000  # no draw is there, nor a number that it is added to


def test_a_stage_of_one_part_says_the_time_it_took_and_a_cached_one_says_so(terminal: Terminal) -> None:
    with flows_console.Progress("split", 1) as stage:
        terminal.after(75, stage)
    assert "part" not in terminal.shown
    assert "0:01:15" in terminal.shown  # while it ran
    assert terminal.shown.splitlines()[-1] == "   split ✓ 75.0 s"
    with flows_console.Progress("teach", 2) as stage:
        stage.advance(cached=True)
        stage.advance(cached=True)
    assert "from cache" in terminal.shown


def test_quiet_ends_with_what_was_quiet() -> None:
    with flows_console.hushed():
        assert flows_console.err.quiet
        with flows_console.hushed(False):
            assert flows_console.err.quiet
    assert not flows_console.err.quiet

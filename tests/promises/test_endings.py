"""A run that is interrupted, terminated or killed, or loses its server, ends soon, in one sentence, losing nothing."""

import signal
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest

from tests.promises.endings import FAULTS, PLACES, Impossible, attempt

AT_A_PLACE = [name for name, fault in FAULTS.items() if fault.do]


@pytest.mark.slow
def test_ctrl_c_ends_a_run_while_its_workers_fit(tmp_path: Path) -> None:
    assert attempt("Ctrl-C", "fit", tmp_path, again=False).wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize(("at", "fault"), list(zip(PLACES, cycle(AT_A_PLACE), strict=False)))
def test_a_run_ends_at_every_stage(tmp_path: Path, fault: str, at: str) -> None:
    """After a signal that the run heard, nothing is asked of the next run that is not asked of it after kill -9."""
    try:
        assert attempt(fault, at, tmp_path, again=FAULTS[fault].status < 128).wrong() == []
    except Impossible as why:
        pytest.skip(str(why))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["Ctrl-C", "kill -9"])
def test_workers_end_with_their_run(tmp_path: Path, fault: str) -> None:
    assert attempt(fault, "fit", tmp_path, again=False, teachers__runner="dask").wrong() == []


@pytest.mark.slow
def test_a_worker_that_lost_its_run_writes_nothing_to_the_terminal() -> None:
    """Dask's workers write their log to the terminal of a run that was killed, if they live to the next heartbeat."""
    lines = """import logging; from concord.artifacts.process import our_settings
with our_settings():
    import distributed; logging.getLogger("distributed.worker").error("Failed to communicate with scheduler")"""
    ended = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if not fault.do])
def test_a_run_goes_on_whatever_stands_in_its_way(tmp_path: Path, fault: str) -> None:
    assert attempt(fault, "", tmp_path).wrong() == []


WATCHED = """import os, signal, sys, time; from concord.flows.ending import watch
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1])); watch(); os.kill(os.getpid(), signal.SIGHUP)
time.sleep(float(sys.argv[2])); print("it goes on")"""


@pytest.mark.parametrize(
    ("handled", "seconds", "status", "shown"), [("SIG_DFL", 60, 129, ""), ("SIG_IGN", 0.2, 0, "it goes on\n")]
)
def test_a_signal_that_is_ignored_as_by_nohup_stays_so(handled: str, seconds: float, status: int, shown: str) -> None:
    asked = [sys.executable, "-c", WATCHED, handled, str(seconds)]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (status, shown)
    assert ("its terminal was closed" in ended.stderr) == (status == 128 + signal.SIGHUP)


EARLY = """import os, signal, sys, time
press_at = sys.argv.pop(1)
class Press:
    def find_spec(self, name, *_):
        if name == press_at:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
sys.meta_path.insert(0, Press())
from concord.flows.cli import main
main()"""


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("typer", ["--help"]),
        ("concord.tasks.advice.init", ["init"]),
        ("concord.tasks.advice.report", ["plan", "plan.toml"]),
        ("concord.flows.home", ["run", "plan.toml"]),
    ],
)
def test_ctrl_c_while_packages_are_loaded_ends_in_one_sentence(place: str, command: list[str]) -> None:
    """Before: in the first quarter of a second in a traceback, and of `init` in a sentence about a budget charged."""
    given = [sys.executable, "-c", EARLY, place, *command]
    ended = subprocess.run(given, capture_output=True, text=True, check=False, timeout=50)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "concord: interrupted; nothing was charged: give the same command again\n"


@pytest.mark.parametrize("closed", [(0, 1, 2), (2,)])
def test_closed_streams_are_no_place_for_files(closed: tuple[int, ...]) -> None:
    """Before: the pipe of signals was standard input and output, and the command failed at its first word."""
    asked = [sys.executable, "-c", CLOSED, *map(str, closed), "plan", "nowhere.toml"]
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 2


CLOSED = """import os, sys
while sys.argv[1:] and sys.argv[1].isdigit():
    os.close(int(sys.argv.pop(1)))
os.execv(sys.executable, [sys.executable, "-m", "concord", *sys.argv[1:]])"""
"""Runs the command line in a process that has those of its streams closed."""

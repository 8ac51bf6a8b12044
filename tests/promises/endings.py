"""How a run ends by each fault, at a real terminal; and whether the next one goes on.

A `Fault` is caused while a run is stopped at some place (tests/promises/stalling.py), and the run then goes on if that
did not end it; or in its home before the run. To add one, add a line to FAULTS.
"""

import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.promises.stalling import STUCK
from tests.promises.terminal import GIVEN, SOON, STARTED, Run
from tests.support.people import write_plan, write_tables
from tests.world import Ledger, verify

CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Escape sequences that move a terminal's cursor or colour text."""
SMALL = {"teachers__count": 20, "teachers__block": 10, "labeling__cutoff": 300, "student__refused": "drop"}


@dataclass(frozen=True)
class Fault:
    """A fault that must end a run with `status` and one sentence that contains `sentence`.

    do       causes it while the run is stopped; None if `before` causes it in the home
    undo     mends the home before the next run
    goes_on  whether the run is resumed afterwards
    within   the most seconds until the run ends
    """

    status: int
    sentence: str = ""
    do: Callable[[Run], object] | None = None
    before: Callable[[Path, ExitStack], object] = lambda *_: None
    undo: Callable[[Path], object] = lambda _: None
    goes_on: bool = False
    within: float = SOON


def to_group(number: signal.Signals) -> Callable[[Run], None]:
    return lambda run: os.killpg(run.process.pid, number)


def to_process(number: signal.Signals) -> Callable[[Run], None]:
    return lambda run: os.kill(run.process.pid, number)


def strangers(_: Path, held: ExitStack) -> None:
    """Other processes listen on the ports that Prefect would try, and never answer."""
    for port in range(8000, 9000):
        with suppress(OSError):
            held.enter_context(socket.create_server(("127.0.0.1", port)))


def silent_mlflow(_: Path, held: ExitStack) -> None:
    """MLflow's server accepts requests and never answers."""
    server = held.enter_context(socket.create_server(("127.0.0.1", 0)))
    GIVEN["MLFLOW_TRACKING_URI"] = f"http://127.0.0.1:{server.getsockname()[1]}"
    held.callback(GIVEN.clear)


class Impossible(Exception):
    """A fault that cannot be done on this machine."""


DISK = 128 << 20
"""Bytes of a disk that holds a home."""
FILLER = "filler"


def small_disk(home: Path, held: ExitStack) -> None:
    """Put the home on a disk of its own. Raises Impossible without the right to mount one."""
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "none", str(home)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        raise Impossible("no disk can be mounted here")
    held.callback(subprocess.run, ["umount", "--lazy", str(home)], check=True)


def fill_disk(run: Run) -> None:
    """Fill that disk to the last byte."""
    with (run.folder / "home" / FILLER).open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(1 << 16)):
            pass


def free_disk(home: Path) -> None:
    (home / FILLER).unlink()


def refuse_writes(run: Run) -> None:
    """From now on no file can grow, whichever process or library of the run writes to it."""
    for process in run.processes():
        with suppress(ProcessLookupError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (0, 0))


PROGRESS = re.compile(r" ✓ |━|\d:\d\d:\d\d$")
"""Matches the line of a stage, done or in progress, as shown by a run that goes on or cannot clear its progress."""
OURS = "concord: "
"""The beginning of each of our sentences. Which sentence is shown depends on where the fault is met first."""
KEPT = "the budget already charged stays valid"
FAULTS = {
    "Ctrl-C": Fault(130, f"interrupted; {KEPT}", lambda run: run.press(b"\x03")),
    "SIGTERM to the group": Fault(143, f"ended by SIGTERM; {KEPT}", to_group(signal.SIGTERM)),
    "SIGTERM": Fault(143, f"ended by SIGTERM; {KEPT}", to_process(signal.SIGTERM)),
    "terminal closed": Fault(129, f"its terminal was closed; {KEPT}", to_process(signal.SIGHUP)),
    "kill -9": Fault(-signal.SIGKILL, do=to_process(signal.SIGKILL)),
    "server killed": Fault(
        1, f"ended before it did, or no longer answered: {KEPT}", lambda run: os.kill(run.server(), signal.SIGKILL)
    ),
    "disk full": Fault(1, OURS, fill_disk, before=small_disk, undo=free_disk, goes_on=True, within=60.0),
    "no write succeeds": Fault(1, OURS, refuse_writes, goes_on=True, within=60.0),
    "strangers on its ports": Fault(0, before=strangers, within=STARTED),
    "MLflow silent": Fault(1, before=silent_mlflow, undo=lambda _: GIVEN.clear(), within=STARTED),
}


@dataclass(frozen=True)
class Row:
    """How a run ended upon a fault, and the effects."""

    fault: str
    seconds: float
    status: int
    sentences: list[str]
    lost: str
    left: list[str]

    def wrong(self) -> list[str]:
        """The errors in this row."""
        expected = FAULTS[self.fault]
        result = [] if len(self.sentences) == bool(expected.sentence) else [f"{len(self.sentences)} sentences"]
        result += [
            sentence
            for sentence in self.sentences
            if expected.sentence not in sentence or not sentence.startswith("concord: ")
        ]
        late = [f"{self.seconds:.1f} s"] if self.seconds > expected.within else []
        status = [f"status {self.status}"] if self.status != expected.status else []
        return [*result, *late, *status, *([self.lost] if self.lost else []), *self.left]


PLACES = ("starting", "encode", "split", "fit", "teach", "poll", "release", "study", "certify")


def attempt(name: str, at: str, folder: Path, *, again: bool = True, **changes: Any) -> Row:
    """Cause a fault while a run of a plan is stopped at a place, `""` for none; then run the plan again."""
    fault, home = FAULTS[name], folder / "home"
    stuck = {"teachers__estimator": "tests.promises.stalling.Stuck"} if at == "fit" else {}
    plan = write_plan(write_tables(folder / "data"), **{**SMALL, **stuck, **changes})
    with ExitStack() as held:
        fault.before(home, held)
        asked = ["run", str(plan), "--home", str(home)]
        place = (at or "nowhere") + "+" * fault.goes_on
        run = Run(["tests.promises.stalling", place, *asked], folder, keys=name == "Ctrl-C")
        if fault.do:
            run.until(STUCK + at)
            fault.do(run)
        if fault.goes_on:
            run.press(b"\n")
        started = time.monotonic()
        status = run.ends()
        seconds = time.monotonic() - started
        left = run.leaves()
        fault.undo(home)
        lacks = lost(write_plan(folder / "data", **SMALL), home, folder) if again else ""
    after = run.shown.partition((STUCK + at).encode())[2] if fault.do else b""
    sentences = [line for line in visible(after) if STUCK not in line and not PROGRESS.search(line)]
    return Row(name, seconds, status, sentences, lacks, left)


def visible(result: bytes) -> list[str]:
    """The lines that a terminal shows of the output: without overwritten progress and without colours."""
    text = CODES.sub("", result.decode(errors="replace").split("\x1b[?25h")[-1])
    return [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]


def lost(plan: Path, home: Path, folder: Path) -> str:
    """What the next run of the plan lacks or pays twice, in words; empty if nothing."""
    again = Run(["tests.promises.stalling", "nowhere", "run", str(plan), "--home", str(home)], folder)
    if again.ends():
        return f"the next run: {visible(again.shown)[-1:]}"
    sessions = Ledger.of(home).sessions("people")
    if len(sessions) != 1:
        return f"{len(sessions)} sessions"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        return "" if all(check.ok for check in verify(home, None)) else "it does not verify"

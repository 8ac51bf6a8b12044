"""How a run ends by each fault, at a real terminal; and whether the next one goes on. Run as a module, it prints

    fault × at × ended in seconds × status × lost × left behind

    python -m tests.promises.endings [PART OF A FAULT'S NAME]

A `Fault` is done to a run that stands still at some place (tests/promises/stalling.py), after which it goes on if it is
not ended by that; or to its home before it begins. A further one is a further line of FAULTS.
"""

import os
import re
import resource
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concord.artifacts.ledger.ledger import Ledger
from tests.promises.stalling import STUCK
from tests.promises.terminal import GIVEN, SOON, STARTED, Run
from tests.support.people import write_plan, write_tables

CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What moves a terminal's cursor and colours its words."""
SMALL = {"teachers__count": 20, "teachers__block": 10, "labeling__cutoff": 300, "student__refused": "drop"}


@dataclass(frozen=True)
class Fault:
    """Something done to a run that is to end in `status` and one sentence that says `sentence`.

    do       at the place where the run stands still; none where it is done to the home, by `before`
    undo     to the home, before the next run
    goes_on  whether the run is to be resumed after it
    within   seconds that it may take to end after it
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
    """Others listen wherever Prefect would look for a port, and answer nothing."""
    for port in range(8000, 9000):
        with suppress(OSError):
            held.enter_context(socket.create_server(("127.0.0.1", port)))


def finished(home: Path) -> None:
    """A run of the plan that ended well."""
    (plan,) = home.parent.glob("data/*.toml")
    assert Run(["tests.promises.stalling", "nowhere", "run", str(plan), "--home", str(home)], home.parent).ends() == 0


def edited_results(home: Path, _: ExitStack) -> None:
    """After a run, somebody changed a byte in every result that Prefect keeps."""
    finished(home)
    for file in filter(Path.is_file, (home / "results").rglob("*")):
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if content else b"\1")


def lost_mlflow(home: Path, _: ExitStack) -> None:
    """After a run, what MLflow keeps is gone."""
    finished(home)
    for file in home.glob("mlflow.db*"):
        file.unlink()


def garbage(name: str) -> Callable[[Path, ExitStack], None]:
    """After a run, a database is no database."""

    def before(home: Path, _: ExitStack) -> None:
        finished(home)
        (home / name).write_bytes(secrets.token_bytes(100_000))

    return before


def silent_mlflow(_: Path, held: ExitStack) -> None:
    """MLflow's server takes a question and never answers."""
    server = held.enter_context(socket.create_server(("127.0.0.1", 0)))
    GIVEN["MLFLOW_TRACKING_URI"] = f"http://127.0.0.1:{server.getsockname()[1]}"
    held.callback(GIVEN.clear)


class Impossible(Exception):
    """A fault that cannot be done on this machine."""


DISK = 128 << 20
"""Bytes of a disk that holds a home."""
FILLER = "filler"


def small_disk(home: Path, held: ExitStack) -> None:
    """The home is on a disk of its own. Raises Impossible without a system administrator's right to mount one."""
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "none", str(home)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        raise Impossible("no disk can be mounted here")
    held.callback(subprocess.run, ["umount", "--lazy", str(home)], check=True)


def fill_disk(run: Run) -> None:
    """Not a byte is left on it."""
    with (run.folder / "home" / FILLER).open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(1 << 16)):
            pass


def free_disk(home: Path) -> None:
    (home / FILLER).unlink()


def refuse_writes(run: Run) -> None:
    """From now on no file grows by a byte, whichever process of the run writes to it, and by whatever library."""
    for process in run.processes():
        with suppress(ProcessLookupError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (0, 0))


PROGRESS = re.compile(r" ✓ |━|\d:\d\d:\d\d$")
"""In what is shown of a stage that is done, or goes on: by a run that goes on, or one that can clear nothing away."""
OURS = "concord: "
"""How each of our sentences begins. Which one it is depends on who meets the fault first."""
KEPT = "nothing that was spent is lost"
FAULTS = {
    "Ctrl-C": Fault(130, f"interrupted; {KEPT}", lambda run: run.press(b"\x03")),
    "SIGTERM to the group": Fault(143, f"ended by SIGTERM; {KEPT}", to_group(signal.SIGTERM)),
    "SIGTERM": Fault(143, f"ended by SIGTERM; {KEPT}", to_process(signal.SIGTERM)),
    "terminal closed": Fault(129, f"its terminal was closed; {KEPT}", to_process(signal.SIGHUP)),
    "kill -9": Fault(-signal.SIGKILL, do=to_process(signal.SIGKILL)),
    "server killed": Fault(1, f"ended before it did: {KEPT}", lambda run: os.kill(run.server(), signal.SIGKILL)),
    "disk full": Fault(1, OURS, fill_disk, before=small_disk, undo=free_disk, goes_on=True, within=60.0),
    "no write succeeds": Fault(1, OURS, refuse_writes, goes_on=True, within=60.0),
    "strangers on its ports": Fault(0, before=strangers, within=STARTED),
    "results edited": Fault(0, before=edited_results, within=STARTED),
    "mlflow.db deleted": Fault(0, before=lost_mlflow, within=STARTED),
    "mlflow.db garbage": Fault(0, before=garbage("mlflow.db"), within=STARTED),
    "prefect.db garbage": Fault(0, before=garbage("prefect/prefect.db"), within=STARTED),
    "MLflow silent": Fault(1, before=silent_mlflow, undo=lambda _: GIVEN.clear(), within=STARTED),
}


@dataclass(frozen=True)
class Row:
    """A line of the table: how a run ended by a fault, and what came of it."""

    fault: str
    at: str
    seconds: float
    status: int
    sentences: list[str]
    lost: str
    left: list[str]

    def wrong(self) -> list[str]:
        """What should not be; nothing, it is hoped."""
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

    def __str__(self) -> str:
        lost, left = self.lost or "nothing", ", ".join(self.left) or "nothing"
        return f"{self.fault:<24} {self.at:<10} {self.seconds:>6.1f} {self.status:>7}  {lost:<20} {left}"


PLACES = ("starting", "encode", "split", "fit", "teach", "poll", "release", "study", "certify")
HEADER = f"{'fault':<24} {'at':<10} {'ended':>6} {'status':>7}  {'lost':<20} left behind"


def attempt(name: str, at: str, folder: Path, *, again: bool = True, **changes: Any) -> Row:
    """Do a fault to a run of a plan that stands still at a place, `""` for none; and run the plan again."""
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
    return Row(name, at, seconds, status, sentences, lacks, left)


def visible(result: bytes) -> list[str]:
    """The lines that a terminal shows of it: without progress, which is drawn over, and without colours."""
    text = CODES.sub("", result.decode(errors="replace").split("\x1b[?25h")[-1])
    return [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]


def lost(plan: Path, home: Path, folder: Path) -> str:
    """What the next run of the plan lacks, or pays twice; nothing, it is hoped."""
    again = Run(["tests.promises.stalling", "nowhere", "run", str(plan), "--home", str(home)], folder)
    if again.ends():
        return f"the next run: {visible(again.shown)[-1:]}"
    sessions = Ledger.of(home).sessions("people")
    if len(sessions) != 1:
        return f"{len(sessions)} sessions"
    asked = Run(["tests.promises.stalling", "nowhere", "verify", "--home", str(home)], folder)
    return "it does not verify" if asked.ends() else ""


def places(fault: Fault) -> tuple[str, ...]:
    """Where a fault is done. A worker that fits stands still for good, so that no run goes on from there; and after
    the last stage nothing is left to write, so that nothing fails."""
    without = ("fit", "certify") if fault.goes_on else ()
    return tuple(at for at in PLACES if at not in without) if fault.do else ("",)


def shown(name: str, at: str, folder: Path) -> str:
    """A line of the table, with what is wrong."""
    try:
        row = attempt(name, at, folder)
    except Impossible as why:
        return f"{name:<24} {at:<10} {why}"
    return " ".join([str(row), *(["wrong: ", *row.wrong()] if row.wrong() else [])])


def main(part: str = "") -> None:
    """Every fault of that name at every place: the table."""
    print(HEADER)
    for name, fault in FAULTS.items():
        for at in places(fault):
            if part in name:
                with tempfile.TemporaryDirectory() as folder:
                    print(shown(name, at, Path(folder)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

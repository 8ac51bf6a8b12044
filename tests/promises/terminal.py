"""One command at its own terminal: its output, its processes, its exit status and what it leaves behind."""

import fcntl
import os
import pty
import secrets
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import own_environment

MARK = "CONCORD_TEST_ENDING"
"""The environment variable that marks the processes of a run; child processes inherit it."""
GIVEN: dict[str, str] = {}
"""Other variables in the environment of a run."""
STARTED = 240.0
"""The most seconds until a run reaches the place of a fault, on a busy machine."""
SOON = 15.0
"""The most seconds in which a signalled run must end, on a busy machine; on an idle one it takes tenths of a second."""


@dataclass
class Run:
    """One command at a terminal of its own.

    keys   whether keys such as Ctrl-C send signals; closing the terminal then sends SIGHUP to remaining processes
    """

    arguments: list[str]
    folder: Path
    keys: bool = False
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    shown: bytes = b""

    def __post_init__(self) -> None:
        self.terminal, end = pty.openpty()
        (self.folder / "tmp").mkdir(exist_ok=True)
        ours = {MARK: self.name, "TMPDIR": str(self.folder / "tmp"), "TERM": "xterm", "COLUMNS": "1000"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.arguments],
            env=own_environment() | ours | GIVEN,
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            preexec_fn=self._begin,  # noqa: PLW1509  # what belongs to a session
        )
        os.close(end)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def until(self, words: str) -> None:
        """Wait until the output contains `words`; fail if that does not happen."""
        deadline = time.monotonic() + STARTED
        while words.encode() not in self.shown:
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.02)

    def processes(self) -> dict[int, str]:
        """The running processes with its mark: command lines by process id."""
        mark, found = f"{MARK}={self.name}".encode(), {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (place / "environ").read_bytes() and b") Z " not in (place / "stat").read_bytes():
                    found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def server(self) -> int:
        """The process id of its Prefect server."""
        return next(item for item, words in self.processes().items() if "prefect.server.api.server:create_app" in words)

    def press(self, key: bytes) -> None:
        """Type at its terminal."""
        os.write(self.terminal, key)

    def ends(self, patience: float = STARTED) -> int:
        """Its exit status, as a shell reports it; it is killed if it does not end."""
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = -signal.SIGKILL
        self._reader.join(1)
        return status

    def leaves(self) -> list[str]:
        """What is left of it after a while: processes, which are then killed, and temporary files."""
        deadline = time.monotonic() + SOON
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        left = self.processes()
        for item in left:
            with suppress(ProcessLookupError):
                os.kill(item, signal.SIGKILL)
        return [*left.values(), *(path.name for path in (self.folder / "tmp").iterdir())]

    @property
    def text(self) -> str:
        """The terminal's output."""
        return self.shown.decode(errors="replace")

    def _begin(self) -> None:
        """Run in the new process: restore SIGHUP, which tests started by nohup would have it ignore."""
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if self.keys:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _read(self) -> None:
        with suppress(OSError):  # the last process has closed it
            while read := os.read(self.terminal, 1 << 16):
                self.shown += read
        os.close(self.terminal)

"""Faults at any write: each step that makes something durable is a numbered point, and one of them fails.

Points are: opening a file to write, making a folder, renaming, linking and removing a file, syncing, and each statement
that changes a database, commits among them. They are hooked below the product, in the interpreter, `os.fsync` and
SQLAlchemy, so that no line of the product refers to them and no write can be missed.
"""

import errno
import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import event
from sqlalchemy.engine import Engine

How = Literal["kill", "exception", "disk full", "power cut"]
CHANGES = ("BEGIN", "CREATE", "DELETE", "INSERT", "UPDATE")
NAMED = ("os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.truncate")
WITHIN = ("os.remove", "os.rmdir")
"""Operations of `shutil.rmtree` on names relative to an open folder."""


@dataclass
class Faults:
    """Counts the points below `home` in this process; at point number `at`, this process or this step fails.

    A power cut is a kill that also loses what was written and not yet synced: half of the open file.
    """

    home: Path
    at: int | None = None
    how: How = "kill"
    points: list[str] = field(default_factory=list)

    def install(self) -> None:
        """Install the hooks, for the life of the process: an audit hook cannot be removed."""
        sys.addaudithook(self._audited)
        os.fsync = self._synced(os.fsync)  # type: ignore[assignment]  # its argument has a name
        event.listen(Engine, "before_cursor_execute", self._executed)
        event.listen(Engine, "commit", lambda _: self._point("commit"))

    def _audited(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open" and not _writes(*arguments[1:]):
            return
        if (name == "open" or name in NAMED) and _place(name, arguments).startswith(str(self.home)):
            self._point(f"{name} {Path(arguments[0]).name}")

    def _synced(self, fsync: Callable[[Any], None]) -> Callable[[Any], None]:
        def pointed(descriptor: Any) -> None:
            self._point("fsync", descriptor)
            fsync(descriptor)

        return pointed

    def _executed(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.lstrip().upper().startswith(CHANGES):
            self._point(statement.split("(")[0].strip())

    def _point(self, name: str, descriptor: int | None = None) -> None:
        self.points.append(name)
        if len(self.points) - 1 == self.at:
            self._fail(descriptor)

    def _fail(self, descriptor: int | None) -> None:
        if self.how == "disk full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.how == "exception":
            raise RuntimeError("planted")
        if self.how == "power cut" and descriptor is not None and _is_file(descriptor):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def _place(name: str, arguments: tuple[Any, ...]) -> str:
    path = str(arguments[0])
    if name in WITHIN and arguments[1] >= 0:
        return f"{os.readlink(f'/proc/self/fd/{arguments[1]}')}/{path}"
    return path


def _writes(mode: str | None, flags: int) -> bool:
    return bool(set(mode or "") & set("wxa+")) or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)

"""Crashes: one walk (a sequence of steps) in new processes and copies of a home, failing at one point each time.

At a point of `tests.promises.faults` a new process is killed, or meets an error, a full disk or a power cut. The home
that it leaves is examined; then the walk is repeated to its end, and the home examined again.
"""

import os
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Generic, TypeVar, get_args

from tests.promises.faults import Faults, How
from tests.support.copies import copied
from tests.support.processes import FRESH

HOWS: tuple[How, ...] = get_args(How)
Seen = TypeVar("Seen")
Walk = Callable[[Path], object]
"""Does work in a home, whatever is done already; a function of a module, since other processes import it by name."""


class Matrix(ABC, Generic[Seen]):
    """Walks from copies of the home `folder`/base; `look` returns what can be seen of a home after one.

    first  the point from which on `fails` goes through them
    """

    first = 0

    def __init__(self, folder: Path, walk: Walk, look: Callable[[Path], Seen]) -> None:
        self.folder, self.walk, self.look = folder, walk, look
        self.points = self.go(self._home("undisturbed"))
        self.undisturbed = look(folder / "undisturbed")

    @abstractmethod
    def holds(self, crashed: Seen, resumed: Seen) -> Mapping[str, bool]:
        """For each condition, by name: whether it holds after a crash and after the walk that went on."""

    def fails_at(self, at: int, how: How) -> list[str]:
        """The errors found after a fault at that point, and after the walk was repeated."""
        home = self._home(f"{at}-{how}")
        self.go(home, at, how)
        crashed = self.look(home)
        self.take_up(home)
        checks = self.holds(crashed, self.look(home))
        shutil.rmtree(home)
        return [f"{self.points[at]} ({at}, {how}): {what}" for what, well in checks.items() if not well]

    def fails(self, how: How, every: int = 1) -> list[str]:
        """The errors found after a fault at every `every`-th point, at other points for each kind of failure."""
        first = HOWS.index(how) % every
        return [wrong for at in range(self.first + first, len(self.points), every) for wrong in self.fails_at(at, how)]

    def sample(self, every: int) -> list[str]:
        """The errors found after a fault at every `every`-th point, the kinds of failure in turn."""
        points = zip(range(0, len(self.points), every), cycle(HOWS), strict=False)
        return [wrong for at, how in points for wrong in self.fails_at(at, how)]

    def take_up(self, home: Path) -> None:
        """Finish the walk in this process, which shares no state with the failed one."""
        self.walk(home)

    def go(self, home: Path, at: int | None = None, how: How = "kill") -> list[str]:
        """Walk in a new process, failing at one point or none. Returns the points it passed, if it came to its end."""
        result = self.folder / "points"
        process = FRESH.Process(target=_attempt, args=(self.walk, home, at, how, result))
        process.start()
        process.join()
        assert at is not None or process.exitcode == 0
        assert (how in ("kill", "power cut") and at is not None) == (process.exitcode == -signal.SIGKILL)
        return result.read_text().splitlines()

    def _home(self, name: str) -> Path:
        return copied(self.folder / "base", self.folder / name)


def files(root: Path) -> dict[str, bytes]:
    """The contents of the files below a folder, by path, without files whose name begins with a dot."""
    named = (path for path in root.rglob("*") if path.is_file() and path.name[0] != ".")
    return {str(path.relative_to(root)): path.read_bytes() for path in named}


def _attempt(walk: Walk, home: Path, at: int | None, how: How, path: Path) -> None:
    """The process of one walk with one fault; the points it passed are written to a file outside the home."""
    faults = Faults(home, at, how)
    faults.install()
    try:
        walk(home)
    except Exception:
        os._exit(1)  # without the traceback, which is planted
    path.write_text("\n".join(faults.points))

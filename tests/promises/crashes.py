"""Crashes: one walk, taken by processes of their own in copies of one home, and failing at one step of it.

At a point of `tests.promises.faults` a fresh process is killed, meets an error, a full disk or a power cut; what it
leaves is looked at, and the same walk is taken up again and comes to its end.
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
"""What is done in a home, from wherever it stands; a function of a module, since other processes are told its name."""


class Matrix(ABC, Generic[Seen]):
    """Walks from copies of the home `folder`/base: `look` says what can be seen of a home after one."""

    def __init__(self, folder: Path, walk: Walk, look: Callable[[Path], Seen]) -> None:
        self.folder, self.walk, self.look = folder, walk, look
        self.points = self.go(self._home("undisturbed"))
        self.undisturbed = look(folder / "undisturbed")

    @abstractmethod
    def holds(self, crashed: Seen, resumed: Seen) -> Mapping[str, bool]:
        """Whether each fault, by its name, is absent after a crash and after the walk that took it up."""

    def fails_at(self, at: int, how: How) -> list[str]:
        """What is wrong after a fault at that point, and after the walk was taken up again; nothing, it is hoped."""
        home = self._home(f"{at}-{how}")
        self.go(home, at, how)
        crashed = self.look(home)
        self.take_up(home)
        checks = self.holds(crashed, self.look(home))
        shutil.rmtree(home)
        return [f"{self.points[at]} ({at}, {how}): {what}" for what, well in checks.items() if not well]

    def fails(self, how: How, every: int = 1) -> list[str]:
        """What is wrong after a fault at any point, or at every so-manieth: other ones for every kind of failure."""
        first = HOWS.index(how) % every
        return [wrong for at in range(first, len(self.points), every) for wrong in self.fails_at(at, how)]

    def sample(self, every: int) -> list[str]:
        """What is wrong after a fault at every so-manieth point, each of another kind than the one before it."""
        points = zip(range(0, len(self.points), every), cycle(HOWS), strict=False)
        return [wrong for at, how in points for wrong in self.fails_at(at, how)]

    def take_up(self, home: Path) -> None:
        """Take the walk to its end in this process, which knows nothing of the one that failed."""
        self.walk(home)

    def go(self, home: Path, at: int | None = None, how: How = "kill") -> list[str]:
        """Take the walk in a process of its own, failing at one point or at none; the points passed by one that came to
        its end."""
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
    """What the files below a folder hold, by path; those that were being written have no name yet."""
    named = (path for path in root.rglob("*") if path.is_file() and path.name[0] != ".")
    return {str(path.relative_to(root)): path.read_bytes() for path in named}


def _attempt(walk: Walk, home: Path, at: int | None, how: How, path: Path) -> None:
    """One process walks, with one fault; the points it passed are written down outside the home."""
    faults = Faults(home, at, how)
    faults.install()
    try:
        walk(home)
    except Exception:
        os._exit(1)  # without the traceback, which is planted
    path.write_text("\n".join(faults.points))

"""The crash table: a walk in a new process that records what it changes, and the states that a failure leaves.

    power loss   after any change: of what was not synced, all is kept (as if the process alone was killed), nothing,
                 only names, only contents, or a mixture in which writes are torn
    failing disk a change fails, and with it the walk: once, or for good, also after half a write; the walk says so

The home is put into each state, the walk is given again, and the promises are asked. While it is given again, power may
fail once more.
"""

import errno
import pickle
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from tests.promises.walks import Seen, Walk
from tests.support import preloaded
from tests.support.disk import WAYS, Change, Disk, Kept, Tree, restore, tree_of
from tests.support.processes import FRESH
from tests.support.syncs import Sync, without
from tests.world import ConcordError

MIXTURES = (1, 2)
FAULTS = {
    "input/output error": f"{errno.EIO}",
    "disk full": f"{errno.ENOSPC}:hs",
    "disk full for one write": f"{errno.ENOSPC}:h",
    "over quota": f"{errno.EDQUOT}:hs",
    "read-only": f"{errno.EROFS}:s",
}
"""Faults of journal.c."""


@dataclass(frozen=True)
class Undisturbed:
    """A walk that nothing disturbs: the home before and after it."""

    before: Tree
    after: Tree
    seen: Seen


class Crashes:
    """One walk, in the folder `home` of a new folder.

    gone  syncs that are taken out of the product
    """

    def __init__(self, folder: Path, walk: Walk, gone: Collection[Sync] = ()) -> None:
        self.folder, self.walk, self.home = folder, walk, folder / "home"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "journal").unlink(missing_ok=True)
        assert _ended(_record, walk, folder, gone) == 0, walk.name
        self.undisturbed: Undisturbed = pickle.loads((folder / "undisturbed").read_bytes())
        self.disk = Disk(self.home, self.undisturbed.before, folder / "journal")
        assert _bare(self.disk.state(len(self.changes), "all")) == _bare(self.undisturbed.after), walk.name

    @property
    def changes(self) -> list[Change]:
        return self.disk.changes

    def resumed(self, at: int, kept: Kept) -> "Crashes":
        """The walk given again, in this folder, after a power loss after the first `at` changes."""
        left = self.disk.state(at, kept)
        return Crashes(self.folder, replace(self.walk, prepare=partial(restore, left)))

    def sampled(self, cases: int) -> list[str]:
        """The broken promises after the last change, and in that many cases that are drawn by the walk's name: a third
        of them are failing disks. A walk that was given again may have nothing left to change."""
        lots, wrong = Random(self.walk.name), self.broken(len(self.changes), "nothing")
        for case in range(cases if self.changes else 0):
            at = lots.randrange(len(self.changes))
            kept, fault = lots.choice([*WAYS, *MIXTURES]), lots.choice([*FAULTS])
            wrong += self.failing(at, fault) if case % 3 == 2 else self.broken(at, kept)
        return wrong

    def all_broken(self) -> Iterator[str]:
        """The broken promises in every state that differs from the others, and after a fault at every change."""
        for kept in (*WAYS, *MIXTURES):
            for at, tree in self.disk.states(kept).items():
                yield from self.broken(at, kept, tree)
        for fault in FAULTS:
            for at in range(len(self.changes)):
                yield from self.failing(at, fault)

    def broken(self, at: int, kept: Kept, tree: Tree | None = None) -> list[str]:
        """The broken promises after a power loss after the first `at` changes."""
        restore(self.disk.state(at, kept) if tree is None else tree, self.home)
        return self._go_on(
            f"power loss after {at}, {self._name(at - 1)}, keeping {kept}", self.disk.state(at, "all"), at
        )

    def failing(self, at: int, fault: str) -> list[str]:
        """The broken promises after that change failed."""
        restore(self.undisturbed.before, self.home)
        where = f"{fault} at {at}, {self._name(at)}"
        told = _ended(_fail, self.walk, self.home, f"{at}:{FAULTS[fault]}") == 0
        return [
            *([] if told else [f"{self.walk.name}: {where}: it ends in an error that is not said in a sentence"]),
            *self._go_on(where, tree_of(self.home)),
        ]

    def _name(self, at: int) -> str:
        return str(self.changes[at]) if 0 <= at < len(self.changes) else "nothing"

    def _go_on(self, where: str, before: Tree, at: int = 0) -> list[str]:
        """The walk is given again, in a home that anybody could have read as it was `before`."""
        try:
            crashed = self.walk.look(self.home)
            self.walk.go(self.home)
            resumed = self.walk.look(self.home)
        except Exception as error:
            return [f"{self.walk.name}: {where}: it does not go on: {error!r}"]
        promises = self._promises(self.walk.published(before), crashed, resumed)
        if at == len(self.changes):
            promises["what was done is undone"] = replace(crashed, charge=None) == replace(resumed, charge=None)
        return [f"{self.walk.name}: {where}: {what}" for what, kept in promises.items() if not kept]

    def _promises(self, public: Mapping[str, bytes], crashed: Seen, resumed: Seen) -> dict[str, bool]:
        whole = self.undisturbed.seen
        others = {*resumed.files.split()} ^ {*whole.files.split()}
        return {
            "another draw": all(resumed.drawn.get(path, noise) == noise for path, noise in crashed.drawn.items()),
            "another release": public.items() <= resumed.published.items(),
            "released before it was paid for": crashed.paid and resumed.paid,
            "another end": resumed.end == whole.end,
            f"other files in the vault, {sorted(others)}": not others,
            "another charge": not self.walk.keyed or resumed.charge == whole.charge,
            "other draws of the same key": not self.walk.keyed or resumed.published == whole.published,
        }


def _ended(*given: object) -> int | None:
    """How a new process ended."""
    process = FRESH.Process(target=given[0], args=given[1:])
    process.start()
    process.join()
    return process.exitcode


def _record(walk: Walk, folder: Path, gone: Collection[Sync]) -> None:
    home = folder / "home"
    walk.prepare(home)
    before = tree_of(home)
    with without(*gone):
        preloaded.begin(home, folder / "journal")
        walk.go(home)
        preloaded.begin("")
    (folder / "undisturbed").write_bytes(pickle.dumps(Undisturbed(before, tree_of(home), walk.look(home))))


def _fail(walk: Walk, home: Path, fault: str) -> None:
    preloaded.begin(home, fault=fault)
    with suppress(ConcordError, OSError):  # planted; the console says either in a sentence
        walk.go(home)


def _bare(tree: Tree) -> dict[str, bytes | None]:
    """Without modes, which the journal does not follow."""
    return {path: found.content for path, found in tree.items()}

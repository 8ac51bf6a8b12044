"""Walks: what is done in a home, and done again after whatever stopped it, for every kind of release and what follows.

A walk is given again in another process and on another copy, so its functions are those of a module.
"""

import os
import pickle
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.promises.kinds import KINDS, Kind
from tests.support.at_door import STABLE, make_case
from tests.support.disk import Tree
from tests.support.people import people
from tests.support.relabelling import Small
from tests.support.sums import NAME
from tests.world import Charge, Ledger, Stores, Vault, check_format, close, erase, forget, publish_together, settle

PASSING = (".unfinished", "locks")


@dataclass(frozen=True)
class Seen:
    """What is seen of a home.

    drawn      kept noise and choices, and what was made of them, by path
    published  files that anybody may have read and kept
    files      names of the vault's files
    end        how sessions stand
    paid       whether the ledger has begun, and charges, all that was drawn or published
    """

    drawn: dict[str, bytes] = field(default_factory=dict)
    published: dict[str, bytes] = field(default_factory=dict)
    files: str = ""
    end: Any = None
    charge: Charge | None = None
    paid: bool = True


@dataclass(frozen=True)
class Walk:
    """What is done in a home.

    prepare  makes the home; what private numbers need is made there
    go       does all of it, whatever is done already
    look     what is then seen; raises an error if a command could not go on from there
    keyed    whether two walks come to the same draws, and charges; noise of OpenDP differs
    final    the paths of published files that nothing may change, as a pattern of their beginnings
    """

    name: str
    prepare: Callable[[Path], object]
    go: Callable[[Path], object]
    look: Callable[[Path], Seen]
    keyed: bool = False
    final: str = "released/"

    def published(self, tree: Tree) -> dict[str, bytes]:
        """The files of a tree that anybody may have read."""
        return {
            path: found.content
            for path, found in tree.items()
            if found.content is not None and re.match(self.final, path)
        }


def files(root: Path) -> dict[str, bytes]:
    """The contents of the files below a folder, by path, without files whose name begins with a dot."""
    named = (path for path in root.rglob("*") if path.is_file() and path.name[0] != ".")
    return {str(path.relative_to(root)): path.read_bytes() for path in named}


def below(found: dict[str, bytes], *folders: str) -> dict[str, bytes]:
    return {path: content for path, content in found.items() if path.startswith(folders)}


def of_vault(found: dict[str, bytes]) -> str:
    """Names of the vault's files, without locks and temporary files."""
    known = below(found, "vault/")
    return "\n".join(sorted(path for path in known if path[-4:] != "lock" and path.split("/")[1] not in PASSING))


def at_door(home: Path) -> Seen:
    """Of a home with one session: its noise, and its state in the ledger."""
    ledger, found = Ledger.of(home), files(home)
    published = below(found, "released/")
    ledger.verify()
    if not ledger.domain("d") or not ledger.sessions("d"):
        return Seen(published=published, paid=not published)
    session = ledger.session(NAME)
    return Seen(
        {path: noise for path, noise in below(found, "vault/sessions/").items() if path.endswith(".npz")},
        published,
        of_vault(found),
        (session.status, session.asked, session.batches, [remark.kind for remark in ledger.remarks("d")]),
        ledger.total("d"),
        len(published) <= session.batches and session.charge <= session.reserved,
    )


def ending(home: Path, ask: Callable[[Path], object]) -> None:
    """The session is asked, closed and forgotten."""
    stores = Stores.of(home)
    if stores.ledger.session(NAME).status == "open":
        ask(home)
    close(stores, NAME, give_back=True)
    forget(stores, NAME)


def beginning(home: Path, kind: Kind) -> None:
    """The session of a new home."""
    check_format(home)
    kind.prepare(home)
    kind.ask(home)


def killed_once(home: Path, ask: Callable[[Path], object]) -> None:
    """The process ends when its first noise is named and the name not yet synced; the next one goes on."""
    link = os.link

    def linked(source: Path, target: Path) -> None:
        link(source, target)
        if target.suffix == ".npz":
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(os, "link", linked)
        ask(home)
    ask(home)


ROWS = ("shards/d/a/block-0", "teachers/d/b/000000", "choices/d/c.json", "relabelled/d/e/block-0", "counts/nobody/f")
OTHERS = "shards/others/a/block-0"


def with_rows(home: Path) -> None:
    """A session that has answered and is open, and rows of its domain and of another."""
    case = make_case(home, STABLE)
    case.run()
    for domain in ("d", "others"):
        case.door.vault.make_secret(f"domains/{domain}")
    for path in (*ROWS, OTHERS):
        with case.door.vault.create(path) as sink:
            sink.write(b"rows")


def erasing(home: Path) -> None:
    erase(Stores.of(home), "d", None)


def small_world(home: Path) -> None:
    """The stages before relabelling, with settings by which two choices are hardly ever equal."""
    made = Small(home, people(80, 1))
    made.settings = made.settings.with_(choice_epsilon=0.01)
    (home.parent / "small").write_bytes(pickle.dumps(made))


def small(home: Path) -> Small:
    found: Small = pickle.loads((home.parent / "small").read_bytes())
    found.vault = Vault(home / "vault")
    return found


def relabelling(home: Path) -> None:
    """The subset, the choice of ĥ, and the rows relabelled by it: all in the vault."""
    small(home).relabelled()


def relabelled(home: Path) -> Seen:
    Vault(home / "vault")
    found = files(home)
    drawn, subset = below(found, "vault/choices/", "vault/relabelled/"), below(found, "vault/shards/")
    return Seen(drawn, {}, of_vault(found), subset)


PUBLISHED = ("student.skops", "report.html", "attestation.json", "certificate.json")
OLD, NEW = ({name: f"{age} {name}".encode() for name in PUBLISHED} for age in ("old", "new"))


def publishing(home: Path, given: dict[str, bytes] = NEW) -> None:
    publish_together(home, "s-1", {name: [data[:3], data[3:]] for name, data in given.items()})


def publication(home: Path) -> Seen:
    """Of files that are published together: one publication or the other."""
    settle(home)
    found = {path.name: path.read_bytes() for path in (home / "released" / "s-1").iterdir()}
    assert found in (OLD, NEW), found
    return Seen(end=(found, below(files(home), "held/")))


def nothing(_: Path) -> Seen:
    return Seen()


def old_publication(home: Path) -> None:
    home.mkdir()
    publishing(home, OLD)


def by_libraries(home: Path) -> None:
    """Writes of libraries that are no Python."""
    rows = pl.DataFrame({"row": range(99)})
    rows.write_parquet(home / "polars")
    pq.write_table(rows.to_arrow(), home / "arrow")
    shutil.copyfile(home / "arrow", home / "copy")
    with closing(sqlite3.connect(home / "database", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE rows (row)")


LIBRARIES = Walk("libraries", Path.mkdir, by_libraries, nothing)
BEGINNING = Walk("a new home", Path.mkdir, partial(beginning, kind=KINDS[0]), at_door)
AT_DOOR = tuple(Walk(kind.name, kind.prepare, kind.ask, at_door, kind.keyed) for kind in KINDS)
ENDING = tuple(
    Walk(f"the end of {walk.name}", walk.prepare, partial(ending, ask=walk.go), at_door, walk.keyed)
    for walk in AT_DOOR
    if walk.name in ("stable", "noisy_votes")
)
(NOISY,) = (walk for walk in AT_DOOR if walk.name == "noisy_votes")
KILLED = replace(NOISY, name="noise of a killed process", go=partial(killed_once, ask=NOISY.go))
ERASING = Walk("an erasure", with_rows, erasing, at_door, keyed=True)
RELABELLING = Walk("a relabelling", small_world, relabelling, relabelled)
PUBLISHING = Walk("a publication", old_publication, publishing, publication, final="nothing")
WALKS: Sequence[Walk] = (BEGINNING, *AT_DOOR, KILLED, *ENDING, ERASING, RELABELLING, PUBLISHING)

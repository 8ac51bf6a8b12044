"""The crash table: for every kind of release and what follows it, wherever power, a disk or the process fails, the next
command goes on. Nothing is drawn twice, released unpaid, or paid and lost.

A durable draw is final: the next process uses it and publishes the same. A draw that was not durable was seen by
nobody, and is made again. Each sync of the product that is taken out is found.
"""

import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.promises.command_walks import COMMANDS
from tests.promises.crashes import MIXTURES, Crashes
from tests.promises.runs import STAGES_OF_OTHERS
from tests.promises.walks import (
    AT_DOOR,
    BEGINNING,
    ERASING,
    KILLED,
    LIBRARIES,
    NOISY,
    OTHERS,
    PUBLISHING,
    RELABELLING,
    ROWS,
    WALKS,
    Walk,
)
from tests.support.disk import SYNCS, WAYS
from tests.support.syncs import Sync, syncs, without
from tests.world import ConcordError, Ledger, Randomness, Ref, Stores, Vault

CASES = 5
"""Of each walk in a default test, besides its end."""
LOSSES = (*WAYS[1:], *MIXTURES)
(TALLIES,) = (walk for walk in COMMANDS if walk.name == "run tallies")
FOUND_BY = {
    "atomic.write_whole: fsync": BEGINNING,
    "atomic.write_whole: sync_folder": BEGINNING,
    "atomic.make_folder: sync_folder": BEGINNING,
    "atomic.sync_folder: fsync": BEGINNING,
    "home.check_format: durable": BEGINNING,
    "released.Released.write: durable": NOISY,
    "released.publish_together: durable": PUBLISHING,
    "released.publish_together: sync_folder": PUBLISHING,
    "released.settle: sync_folder": PUBLISHING,
    "vault.Vault.kept: sync_folder": KILLED,
    "vault.Vault.destroy: sync_folder": ERASING,
    "vault.Vault._new: durable": NOISY,
    "database._engine: synchronous": NOISY,
    "atomic.sync_tree: sync_folder": TALLIES,
    "write.Tracking._sync: sync_tree": TALLIES,
}
ELSEWHERE = {
    "database.Entries._transaction: synchronous_commit": "tests/promises/test_lost_commits.py takes it out",
    "store.ready_store: sync_folder": "MLflow mirrors: a store that is lost is made again",
    "store._make: sync_folder": "likewise, and SQLite syncs its name at the first record",
}
"""Syncs that no walk here depends on."""


def several(walks: Sequence[Walk], at_night: Collection[str] = ()) -> list[Any]:
    """Walks of a test, some of them with --exhaustive alone, because others that are walked by day take their steps."""
    return [
        pytest.param(walk, marks=pytest.mark.exhaustive if walk.name in at_night else (), id=walk.name)
        for walk in walks
    ]


@pytest.mark.parametrize("walk", several(WALKS))
def test_it_goes_on_from_wherever_it_failed(tmp_path: Path, walk: Walk, exhaustive: bool) -> None:
    crashes = Crashes(tmp_path, walk)
    assert [*crashes.all_broken()] == [] if exhaustive else crashes.sampled(CASES) == []


@pytest.mark.slow
@pytest.mark.parametrize("walk", several(WALKS, ("confident", "laplace_votes", "published", "question by noise")))
def test_it_goes_on_when_power_fails_once_more_while_it_does(tmp_path: Path, walk: Walk, exhaustive: bool) -> None:
    lots = Random(walk.name)
    for trial in range(20 if exhaustive else 1):
        first = Crashes(tmp_path / str(trial), walk)
        again = first.resumed(lots.randrange(len(first.changes)), lots.choice([*WAYS, *MIXTURES]))
        assert again.sampled(CASES) == []


def careless_when_resumed(home: Path) -> None:
    """The planted bug: a command that goes on syncs nothing."""
    drawn = any(home.rglob("*.npz"))
    with without(*(syncs() if drawn else ())):
        NOISY.go(home)


@pytest.mark.slow
def test_a_command_that_goes_on_without_a_sync_would_be_found_by_the_second_failure_alone(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path, replace(NOISY, go=careless_when_resumed))
    drawn = next(at for at, change in enumerate(crashes.changes) if change.other.endswith(".npz")) + 2
    assert crashes.sampled(CASES) == crashes.broken(drawn, "all") == []
    assert crashes.resumed(drawn, "all").sampled(0)


@pytest.mark.slow
@pytest.mark.parametrize("walk", several(COMMANDS, {f"run {name}" for name in ("labels", *STAGES_OF_OTHERS)}))
def test_a_command_goes_on_from_wherever_it_failed(
    tmp_path: Path, walk: Walk, mlflow_database: Path, exhaustive: bool
) -> None:
    """Before: a power loss after a run had ended left files of MLflow that verification denied ever after."""
    shutil.copy(mlflow_database, tmp_path)
    crashes = Crashes(tmp_path, walk)
    assert crashes.broken(len(crashes.changes), "names") == []
    assert crashes.sampled(100 if exhaustive else CASES) == []


def test_every_change_is_on_record_whoever_makes_it(tmp_path: Path) -> None:
    """Those of SQLite, Polars and Arrow too: the tree that follows from the journal is the one that is there."""
    changes = Crashes(tmp_path, LIBRARIES).changes
    written = {Path(change.path).name for change in changes if "write" in change.name}
    assert written >= {"polars", "arrow", "copy", "database", "database-wal"}
    assert {change.name for change in changes if "database" in change.path} >= {"pwrite", "fdatasync", "unlink"}


def test_every_sync_is_known() -> None:
    assert {str(sync) for sync in syncs()} == {*FOUND_BY, *ELSEWHERE}


def test_no_sync_is_made_but_those(tmp_path: Path) -> None:
    made = {change.name for change in Crashes(tmp_path, BEGINNING, gone=syncs()).changes}
    assert made & {"create", "rename"}
    assert not made & {*SYNCS}


def passed_over(home: Path, walk: Walk) -> Iterator[str]:
    """The syncs of the product that fail, each once, and the walk ends as if they had not."""
    sync, left, failed = os.fsync, 0, ""

    def fail_in_turn(descriptor: int) -> None:
        nonlocal left, failed
        left -= 1
        if left:
            return sync(descriptor)
        failed = os.readlink(f"/proc/self/fd/{descriptor}")
        raise OSError(errno.EIO, "planted")

    for turn in count(1):
        left, failed = turn, ""
        shutil.rmtree(home, ignore_errors=True)
        walk.prepare(home)
        with pytest.MonkeyPatch.context() as patch, suppress(ConcordError, OSError):
            patch.setattr(os, "fsync", fail_in_turn)
            walk.go(home)
            yield failed
        if not failed:
            return


@pytest.mark.parametrize("walk", several((BEGINNING, NOISY, PUBLISHING, ERASING)))
def test_a_sync_that_fails_ends_the_command(tmp_path: Path, walk: Walk) -> None:
    """What it did not make durable may be lost at the next power loss, and nobody would know."""
    assert [*passed_over(tmp_path / "home", walk)] == [""]


def test_a_sync_whose_failure_is_passed_over_would_be_found(tmp_path: Path) -> None:
    def careless(home: Path) -> None:
        fail_in_turn = os.fsync

        def try_to_sync(descriptor: int) -> None:
            with suppress(OSError):
                fail_in_turn(descriptor)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", try_to_sync)
            BEGINNING.go(home)

    assert len([*passed_over(tmp_path / "home", replace(BEGINNING, go=careless))]) > 1


@pytest.mark.parametrize(
    "sync",
    [
        pytest.param(sync, id=str(sync), marks=[pytest.mark.slow] if FOUND_BY[str(sync)] in COMMANDS else [])
        for sync in syncs()
        if str(sync) in FOUND_BY
    ],
)
def test_a_sync_that_is_taken_out_is_found(tmp_path: Path, sync: Sync, mlflow_database: Path) -> None:
    shutil.copy(mlflow_database, tmp_path)
    crashes = Crashes(tmp_path, FOUND_BY[str(sync)], gone=[sync])
    end = len(crashes.changes)
    steps = [(end, kept) for kept in LOSSES] + [(at, kept) for kept in LOSSES for at in range(1, end, 1 + end // 60)]
    assert any(crashes.broken(at, kept) for at, kept in steps)


def made_again(vault: Vault, path: str, content: bytes) -> Ref:
    """In place of `Vault.keep`: the last writer wins."""
    with vault.create(path) as sink:
        sink.write(content)
    return sink.ref


def redrawing(home: Path, go: Callable[[Path], object]) -> None:
    """The planted bug: draws are made again, and not on record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Vault, "kept", lambda *_: None)
        patch.setattr(Vault, "keep", made_again)
        patch.setattr(Ledger, "record_draw", lambda *_: None)
        go(home)


@pytest.mark.parametrize("walk", several((*(walk for walk in AT_DOOR if not walk.keyed), RELABELLING)))
def test_noise_drawn_again_would_be_found(tmp_path: Path, walk: Walk) -> None:
    """The planted bug, after the first draw is durable; of a choice, repeated until it shows: the same of 32 candidates
    eight times with probability 1e-12."""
    crashes = Crashes(tmp_path, replace(walk, go=partial(redrawing, go=walk.go)))
    named = [at for at, change in enumerate(crashes.changes) if change.other.endswith(".npz")]
    drawn = named[0] + 2 if named else len(crashes.changes)
    assert any("another draw" in wrong for _ in range(8) for wrong in crashes.broken(drawn, "all"))


def by_another_key(home: Path, go: Callable[[Path], object]) -> None:
    """The planted bug: once labels are published, keyed draws are others, by which every row is refused."""
    drawn = 0 if any(home.glob("released/*/labels/*")) else 2**64 - 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "uniform", lambda _source, _first, rows: np.full(rows, drawn, np.uint64))
        go(home)


def test_draws_by_another_key_would_be_found(tmp_path: Path) -> None:
    """When the first labels are published, and not committed yet."""
    (stable,) = (walk for walk in AT_DOOR if walk.name == "stable")
    crashes = Crashes(tmp_path, replace(stable, go=partial(by_another_key, go=stable.go)))
    published = next(at for at, change in enumerate(crashes.changes) if "/labels/" in change.other)
    assert any("another release" in wrong for wrong in crashes.broken(published + 1, "all"))


def hasty(home: Path) -> None:
    """The planted bug: the erasure is recorded before it is done."""
    stores = Stores.of(home)
    if not any(remark.kind == "erased" for remark in stores.ledger.remarks("d")):
        stores.ledger.remark("d", "erased", "every unit")
        ERASING.go(home)


def test_an_erasure_leaves_nothing_of_its_rows_and_one_that_is_said_before_it_is_done_would_be_found(
    tmp_path: Path,
) -> None:
    erased = Crashes(tmp_path / "whole", ERASING).undisturbed
    kept, left = ({path.removeprefix("vault/") for path in tree} for tree in (erased.before, erased.after))
    assert kept >= {*ROWS, OTHERS, "secrets/sessions/d-1"}
    assert OTHERS in left
    assert not {path for path in left if path in ROWS or "sessions/d-1" in path or path.startswith("votes/")}
    crashes = Crashes(tmp_path / "hasty", replace(ERASING, go=hasty))
    middle = next(at for at, change in enumerate(crashes.changes) if change.path.endswith("block-0"))
    assert any("other files in the vault" in wrong for wrong in crashes.broken(middle, "all"))

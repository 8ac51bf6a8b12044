"""What a stranger's files ask of memory and time without end ends in a sentence, and with it nothing else."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.checked_here import Here
from tests.support.console import concord
from tests.support.published import SESSION
from tests.tasks.verify.signed_folder import faults, sign_again
from tests.tasks.verify.tampering import LABELS, excerpted, of_nothing, put
from tests.world import FILE, NEEDED, ONE_THREAD, VERIFY_FOLDER, Check, limited, verify_limited, verify_published

pytestmark = pytest.mark.usefixtures("apart")

LIMITS: dict[str, Any] = {"memory": 1 << 30, "seconds": 4}
BROKE_OFF = "its check broke off, as it does beyond 1 GiB of memory or 0.0667 minutes of processor time"


def job(folder: Path) -> tuple[str, tuple[object, ...]]:
    return VERIFY_FOLDER, (str(folder), None, None, None)


def test_checks_made_apart_are_those_made_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that all other tests hear, for whom they are made in the tests' own process."""
    wrong = Path(shutil.copytree(folder, folder.parent / "wrong" / SESSION))
    put(wrong, of_nothing(1000))
    sign_again(wrong)
    (ended,), *checks = map(limited, (("os:abort", ()), job(folder), job(wrong)))
    assert not ended.ok
    assert checks == [verify_published(folder), verify_published(wrong)]
    assert [all(check.ok for check in found) for found in checks] == [True, False]
    monkeypatch.setattr(verify_limited, "subprocess", Here)
    assert [*map(limited, (("json:loads", ("{",)), job(folder), job(wrong)))] == [[ended], *checks]


def test_what_takes_time_without_end_is_broken_off_and_leaves_with_4(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    excerpted({"entries.1.body.reserved.renyi": "1e1000000000"})(folder)
    monkeypatch.setattr(limited, "__kwdefaults__", LIMITS)
    status, out, _ = concord("verify", str(folder), "--json")
    (check,) = json.loads(out)["checks"]
    broken_off = f"{BROKE_OFF}: Concord publishes nothing that takes so much"
    assert (status, check["ok"], check["detail"]) == (4, False, broken_off)


def a_buffer_of_a_terabyte(folder: Path) -> None:
    data, said = of_nothing(1000), (8000).to_bytes(8, "little")
    assert data.count(said) == 1  # before the bytes of the rows' numbers
    put(folder, data.replace(said, (2**40).to_bytes(8, "little")))


def more_rows_than_memory_holds(folder: Path) -> None:
    put(folder, of_nothing(60_000_000))


def rounds_of_a_grid_without_end(folder: Path) -> None:
    of_round = {"what": "labels", "fields": 1, "cells": 1, "least": 0, "count": 0, "share": 1.0, "scale": 9.0}
    asked = {"name": "tallies", "epsilon": 1.0, "delta": 1e-5, "classes": 2, "steps": 2**40, "secret": "rows"}
    asked |= {"many": False, "rounds": [of_round]}
    excerpted({"entries.1.body.mechanism": asked})(folder)


GREEDY: dict[Callable[[Path], None], str] = {
    a_buffer_of_a_terabyte: "released labels",
    more_rows_than_memory_holds: "released labels",
    rounds_of_a_grid_without_end: "ledger excerpt",
}


@pytest.mark.slow
def test_what_takes_memory_without_end_is_found(folder: Path, tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(folder, tmp_path / greedy.__name__ / SESSION)) for greedy in GREEDY]
    for greedy, copy in zip(GREEDY, copies, strict=True):
        greedy(copy)
        sign_again(copy)
    for copy, named in zip(copies, GREEDY.values(), strict=True):
        checks = limited(job(copy), memory=LIMITS["memory"])
        failed = {check.name.removeprefix(f"{SESSION}: "): check.detail for check in checks if not check.ok}
        assert "it takes more memory than there is" in failed[named]


def sleeps() -> list[Any]:
    """Takes no processor time."""
    time.sleep(60)
    return []


def writes() -> list[Any]:
    """Writes more than a check needs."""
    with tempfile.TemporaryFile() as file:
        for _ in range(FILE // (1 << 20) + 1):
            file.write(bytes(1 << 20))
    return []


SET_BY_PACKAGES = {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "_RJEM_MALLOC_CONF"}


def looks_around() -> list[Check]:
    """What it is told of the environment."""
    return [Check(name=name, ok=True, detail="") for name in os.environ]


@pytest.mark.slow
def test_what_waits_or_writes_without_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for work in (sleeps, writes):
        (check,) = limited((f"{__name__}:{work.__name__}", ()), seconds=10)
        assert not check.ok
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "secret")
    told = {check.name for check in limited((f"{__name__}:looks_around", ()))}
    assert told & {*os.environ} <= {*NEEDED, *ONE_THREAD, "PYTHONPATH"} | SET_BY_PACKAGES
    assert "PATH" in told


def damaged(folder: Path) -> Iterator[bytes]:
    """The first labels with one damage after another, each named by the certificate: of bytes, and of offsets of words,
    which compression would hide from damage of bytes."""
    rng, whole = np.random.default_rng(4), (folder / LABELS).read_bytes()
    batch = pa.ipc.open_file(whole).get_batch(0)
    at = batch.schema.get_field_index("label")
    for turn in range(24):
        damage = bytearray(whole)
        for place in rng.integers(len(whole), size=20):
            damage[place] ^= int(rng.integers(1, 256))
        if turn % 2:
            _, offsets, text = batch.column(at).buffers()
            wrong = np.frombuffer(offsets, np.int32).copy()
            wrong[rng.integers(1, len(batch), size=20)] = rng.integers(2**31, size=20)
            words = pa.Array.from_buffers(pa.string(), len(batch), [None, pa.py_buffer(wrong), text])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch.set_column(at, batch.schema.field(at), words))
            damage = bytearray(sink.getvalue())
        put(folder, bytes(damage))
        yield bytes(damage)


def verified(folder: str) -> list[Check]:
    """Whether each damage is found."""
    labels = ("released labels" in faults(Path(folder)) for _ in damaged(Path(folder)))
    return [Check(name="damage", ok=not found, detail="") for found in labels]


def counted(folder: str) -> list[Check]:
    """As labels were counted before they were validated."""
    for damage in damaged(Path(folder)):
        with suppress(pa.ArrowException, OSError), pa.ipc.open_file(damage) as table:
            table.get_batch(0).column("label").value_counts()
    return []


@pytest.mark.slow
def test_damage_inside_labels_is_found_and_ends_no_process(folder: Path) -> None:
    """Arrow reads offsets as it finds them: a count of damaged words ended the process, as it does here."""
    found = limited((f"{__name__}:verified", (str(folder),)))
    assert [check.ok for check in found] == 24 * [False]
    assert [check.name for check in limited((f"{__name__}:counted", (str(folder),)))] == ["limits"]

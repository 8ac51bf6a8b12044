"""Unlabelled: where only labels are secret, features of a part of the private units are the public rows.

Bassily, Thakkar & Thakurta 2018, §4: the table is split in two, the labels of one half are dropped, and its features
are put to the vote of teachers that learned from the other.

Assumes      the plan says that only labels are secret: features, and who is in the table, are public
Guarantees   no label is read here; which part it is follows from units and a key, and `tasks.split` leaves that part
             out, so labels of its units are never used
Not covered  a line of a CSV file whose label breaks the line: its features are what can be read of it
             Checked by tests/tasks/test_label_private.py
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import polars as pl

from artifacts.plan import Plan
from artifacts.vault import Vault, derive
from artifacts.whole import make_folder
from tasks.files import PRIVATE, find_files
from tasks.private import private_stage
from tasks.split import made_public
from tasks.tables import kind_in
from tasks.units import Erased, owned_frames


def with_public(plan: Plan, vault: Vault, private: Sequence[str], erased: Sequence[str] = ()) -> Plan:
    """The plan with public rows of its own, written now where they are not there yet.

    private   keyed digests of its private files; `erased` those of units whose rows are left out
    Raises WrongInput where the files lack a feature.
    """
    what = plan.data.model_dump_json(include={"label", "unit", "features", "public_share"})
    domain = plan.privacy.domain
    folder = vault.root / "unlabelled" / domain / vault.digest("unlabelled", domain, what, *private, *erased)[:16]
    if not folder.exists():
        key = derive(vault.secret(f"domains/{domain}"), "split")
        set_apart(plan, key, folder, Erased.of(vault, domain, erased))
    return plan.model_copy(update={"data": plan.data.model_copy(update={"public": str(folder)})})


@private_stage
def set_apart(plan: Plan, key: bytes, folder: Path, erased: Erased) -> None:
    """Write features of the part that is public into `folder`, which appears whole or not at all."""
    files = find_files(plan.path("private"), PRIVATE)
    spoken_for = {plan.data.label, plan.data.unit}
    named = {name: "data.features" for file in files for name in file.names if name not in spoken_for}
    features = plan.data.features or tuple(named)
    for file in files:
        for name in sorted(set(features) & set(file.names)):
            kind_in(file, name)
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    make_folder(unfinished)
    parts = _parts(plan, features, key, erased)
    _write_text(parts, unfinished) if files[0].format == "csv" else _write_arrow(parts, unfinished)
    unfinished.rename(folder)


def _parts(plan: Plan, features: Sequence[str], key: bytes, erased: Erased) -> Iterator[pl.DataFrame]:
    """Features of the part that is public, a frame at a time."""
    columns = dict.fromkeys(features, "data.features")
    for raw, owner in owned_frames(plan.path("private"), columns, plan.data.unit, erased):
        named = raw.filter(owner.is_not_null())
        yield named.filter(made_public(owner.drop_nulls(), plan, key)).select(features)


def _write_text(parts: Iterator[pl.DataFrame], folder: Path) -> None:
    """One CSV file: what a column of text is, is decided over all of it."""
    with _only_ours(folder / "rows.csv") as sink:
        for at, part in enumerate(parts):
            part.write_csv(sink, include_header=at == 0)


def _write_arrow(parts: Iterator[pl.DataFrame], folder: Path) -> None:
    """A file a frame: files of one table may hold a column in several types."""
    for at, part in enumerate(parts):
        with _only_ours(folder / f"rows-{at:05d}.arrow") as sink:
            part.write_ipc(sink, compat_level=pl.CompatLevel.oldest())


def _only_ours(path: Path) -> IO[bytes]:
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))

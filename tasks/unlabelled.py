"""Unlabelled: where only labels are secret, features of a part of the private units are the public rows.

Bassily, Thakkar & Thakurta 2018, §4: the table is split in two, the labels of one half are dropped, and its features
are put to the vote of teachers that learned from the other.

Assumes      the plan says that only labels are secret: features, and who is in the table, are public
Guarantees   no label is read here; which part it is follows from units and a key, and `tasks.split` leaves that part
             out, so labels of its units are never used. Its files are used as they were written: a sealed list digests
             them, and what does not fit it is written again, from the same private files
Not covered  a line of a CSV file whose label breaks the line: its features are what can be read of it
             Checked by tests/tasks/test_label_private.py
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import polars as pl

from artifacts.errors import NotVerified
from artifacts.plan import Plan
from artifacts.vault import Vault, derive
from artifacts.whole import make_folder
from tasks.files import PRIVATE, find_files
from tasks.private import private_stage
from tasks.split import made_public
from tasks.tables import kind_in
from tasks.units import Erased, owned_frames


def with_public(
    plan: Plan,
    vault: Vault,
    private: Sequence[str],
    erased: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Plan:
    """The plan with public rows of its own, written now if they are not there as they were written.

    private   keyed digests of its private files; `erased` those of units whose rows are left out
    say       is given a sentence if they are there and not what was written
    Raises WrongInput where the files lack a feature.
    """
    what = plan.data.model_dump_json(include={"label", "unit", "features", "public_share"})
    domain = plan.privacy.domain
    place = f"unlabelled/{domain}/{vault.digest('unlabelled', domain, what, *private, *erased)[:16]}"
    if not _whole(vault, place):
        if (vault.root / place).exists():
            say("public rows are not what was written: made again")
        key = derive(vault.secret(f"domains/{domain}"), "split")
        set_apart(plan, key, vault, place, Erased.of(vault, domain, erased))
    return plan.model_copy(update={"data": plan.data.model_copy(update={"public": str(vault.root / place)})})


@private_stage
def set_apart(plan: Plan, key: bytes, vault: Vault, place: str, erased: Erased) -> None:
    """Write features of the part that is public into a folder of the vault, which appears whole or not at all."""
    files = find_files(plan.path("private"), PRIVATE)
    spoken_for = {plan.data.label, plan.data.unit}
    named = {name: "data.features" for file in files for name in file.names if name not in spoken_for}
    features = plan.data.features or tuple(named)
    for file in files:
        for name in sorted(set(features) & set(file.names)):
            kind_in(file, name)
    with vault.passing(place) as passing:
        folder = vault.root / passing / "rows"
        make_folder(folder)
        parts = _parts(plan, features, key, erased)
        _write_text(parts, folder) if files[0].format == "csv" else _write_arrow(parts, folder)
        with vault.create(f"{place}.json") as sink:
            sink.write(json.dumps(_digests(vault, folder)).encode())
        if not _whole(vault, place):  # nobody else, at the same work, was first
            _put(folder, vault.root / place)


def _put(folder: Path, final: Path) -> None:
    """Give a passing folder its name. What has that name goes as passing files go."""
    make_folder(final.parent)
    if final.exists():
        final.rename(folder.with_name("before"))
    folder.rename(final)


def _whole(vault: Vault, place: str) -> bool:
    """Whether the folder holds just what was written, by the sealed list of it."""
    try:
        listed = vault.find(f"{place}.json")
        return listed is not None and json.loads(vault.read(listed)) == _digests(vault, vault.root / place)
    except (OSError, NotVerified):
        return False


def _digests(vault: Vault, folder: Path) -> dict[str, str]:
    """Keyed digests of the files in a folder, by their names."""
    return {str(file.relative_to(folder)): vault.digest_file(file) for file in sorted(folder.rglob("*"))}


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

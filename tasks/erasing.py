"""Erase: the rows of a unit leave the vault, with all that was made of them.

Rows lie there without the name of their unit, a teacher tells of every unit of its shard, votes of every teacher, and a
session's key, beside what was released, of the votes. So what goes is all that the vault keeps of the domain's table,
and its sessions end. A unit erased by its name stays erased: whatever this home learns from the domain's table later
leaves it out. Who asked to be erased may never have been in it: what is done does not depend on that.

Assumes      what is made of a domain's rows lies in the vault at KIND/DOMAIN/…; at KIND/… of no domain it may be
             anyone's, and goes as well: all of it but public rows can be made again
Guarantees   nothing in the vault depends on the unit once this returns. Spends stay: an erasure is no public reason,
             and gives nothing back. It waits for runs of the domain, and is finished by erasing again where it was
             interrupted. The ledger keeps a keyed digest of the unit's name, by which it is left out from then on
Not covered  what was published, which differential privacy alone protects; the table itself, which is its owner's to
             change; all units of a domain, erased at once, come back with a further session; copies of the vault, and
             what a disk keeps of removed files; what workers of a cluster write after their flow was killed
             Checked by tests/promises/test_erasing.py and tests/tasks/test_left_out.py
"""

from collections.abc import Iterator
from typing import Final

import polars as pl

from artifacts.errors import WrongInput
from artifacts.vault import Vault, keyed_digest
from artifacts.whole import UNFINISHED
from tasks.cells import clean_text
from tasks.ending import close, forget
from tasks.recipe import read_recipe
from tasks.release import Door, no_run_in
from tasks.units import Erased, unit_names

KEPT: Final = frozenset({"secrets", "sessions", "public", "locks", UNFINISHED})
"""Folders of the vault that hold no private row, nor anything made of one, but for what `forget` destroys; and that of
unfinished files, of which those go that would become one that goes."""


def erase(door: Door, domain: str, unit: str | None) -> bool:
    """Erase a unit of the domain by its name, or all of its units; whether there was anything to destroy.

    Raises WrongInput where there is no such domain, or its units have no names.
    """
    digests = _digests(door, domain, unit)
    with no_run_in(door.vault, domain):
        sessions = [session.id for session in door.ledger.sessions(domain)]
        made = [*_made_public(door, sessions), *_made_of_rows(door.vault, domain)]
        for session in sessions:
            close(door, session, give_back=False)
        for path in made:
            door.vault.destroy(path)
        forgotten = [forget(door, session) for session in sessions]
        for about in digests:
            door.ledger.remark(domain, "erased", about)
    return bool(made) or any(forgotten)


def erased_units(door: Door, domain: str) -> tuple[str, ...]:
    """Keyed digests of the units of the domain that were erased by name: whatever reads its table leaves them out."""
    said = {remark.about for remark in door.ledger.remarks(domain) if remark.kind == "erased"}
    return tuple(sorted(said - {_everybody(Erased.of(door.vault, domain))})) if said else ()


def _everybody(units: Erased) -> str:
    return keyed_digest(units.key, "every unit")


def _digests(door: Door, domain: str, unit: str | None) -> tuple[str, ...]:
    """What the ledger keeps of the unit's name: of both, where doubles round it."""
    known = door.ledger.domain(domain)
    if known is None:
        raise WrongInput(f"the ledger has no domain {domain!r}")
    units = Erased.of(door.vault, domain)
    if unit is None:
        return (_everybody(units),)
    if "one row" in known.unit:
        raise WrongInput(
            f"the privacy unit of domain {domain!r} is {known.unit}, which has no name that --unit could give: leave "
            "--unit out, and all rows of the domain are erased"
        )
    ids = clean_text(pl.DataFrame({"unit": [unit]}))["unit"]
    names = [*unit_names(ids, rounded=False), *unit_names(ids, rounded=True)]
    if None in names:
        raise WrongInput("--unit must name a unit, and what it says reads as nothing in a table")
    return tuple(dict.fromkeys(map(units.digest, names)))


def _made_of_rows(vault: Vault, domain: str) -> Iterator[str]:
    """What may be made of the domain's rows: all but what is known to be another domain's."""
    secrets = vault.root / "secrets" / "domains"
    others = {path.name for path in secrets.iterdir() if path.name != domain} if secrets.is_dir() else set()
    for kind in sorted(path for path in vault.root.iterdir() if path.name not in KEPT):
        parts = sorted(kind.iterdir()) if kind.is_dir() else []
        yield from (f"{kind.name}/{part.name}" for part in parts if part.name not in others)


def _made_public(door: Door, sessions: list[str]) -> Iterator[str]:
    """Public rows that are features of private ones, where only labels are secret."""
    for recipe in (read_recipe(door.vault, session) for session in sessions):
        if recipe is not None and recipe.plan.privacy.secret == "labels":
            yield from (batch.ref.path for batch in recipe.sources[0].batches if door.vault.has(batch.ref))

"""What ends: a session is closed or forgotten, a unit's rows are erased, a home of an earlier version is upgraded.

Close and forget: a session ends, and what only it needed leaves the vault.
    Assumes      whoever closes a session decides by public and released things alone, or gives nothing back
    Guarantees   a closed session draws no more; of a forgotten one no key, teacher or vote is left in the vault, unless
                 a session that is open votes with the same teachers; nor the hypothesis that relabelled its rows, and
                 they. What `concord verify` reads is kept: it needs no secret
    Not covered  copies of the vault made elsewhere, and what a disk keeps of removed files.
                 Checked by tests/tasks/door/test_ending.py

Erase: the rows of a unit leave the vault, with all that was made of them. Rows lie there without the name of their
unit, a teacher tells of every unit of its shard, votes of every teacher, and a session's key, together with what was
released, of the votes. So what goes is all that the vault keeps of the domain's table, and its sessions end. A unit
erased by its name stays erased: whatever this home learns from the domain's table later leaves it out. Who asked to be
erased may never have been in it: what is done does not depend on that.
    Assumes      what is made of a domain's rows lies in the vault at KIND/DOMAIN/…; at KIND/… of no domain it may be
                 anyone's, and goes as well: all of it but public rows can be made again
    Guarantees   nothing in the vault depends on the unit once this returns. Spends stay: an erasure is no public
                 reason, and gives nothing back. It waits for runs of the domain, and is finished by erasing again if it
                 was interrupted. The ledger keeps a keyed digest of the unit's name, by which it is left out from then
                 on
    Not covered  a name that a format with another separator or quote cuts or keeps otherwise; what was published, which
                 differential privacy alone protects; the table itself, which is its owner's to change; all units of a
                 domain, erased at once, come back with a further session; copies of the vault, and what a disk keeps of
                 removed files; what workers of a cluster write after their flow was killed. Checked by
                 tests/promises/test_erasing.py and tests/tasks/data/test_left_out.py

Upgrade: a home written by an earlier version is brought to this one's format, once, with a copy of what is touched.
    format 1 → 2   the private files of known sessions are put on the ledger's record
    format 2 → 3   nothing: sessions that are on record do not say which version opened them, and need not
    Assumes      no version older than the home's opens it meanwhile
    Guarantees   the ledger of before lies in HOME/backups before anything is written; what was interrupted is finished
                 by the next command; nothing is spent or drawn
    Not covered  a ledger on a database server, which has backups of its own. Checked by tests/promises/test_upgrade.py
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final, get_args
from unicodedata import normalize

import polars as pl

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import HELD, round_path
from concord.artifacts.home.vault import Vault, keyed_digest
from concord.artifacts.home.whole import (
    FORMAT,
    UNFINISHED,
    check_format,
    locked,
    make_folder,
    passing_folder,
    set_format,
    sync_folder,
)
from concord.artifacts.schemas import Ref, TextFormat
from concord.artifacts.sessions import Session
from concord.tasks.asking.tally import sums_folder
from concord.tasks.data.cells import clean_text
from concord.tasks.data.names import ESCAPED
from concord.tasks.data.units import Erased, unit_names
from concord.tasks.door.asked import votes_folder
from concord.tasks.door.checkpoint import Checkpoint, knows_rounds, read_checkpoint
from concord.tasks.door.release import RUN, Stores, alone, no_run_in


def close(door: Stores, name: str, *, give_back: bool) -> Session:
    """End an open session by the ledger's rule; one that has ended stays as it is. Raises WrongInput if unknown.

    give_back   what was reserved and not spent returns to the domain, if the mechanism pays by refusal; of rounds, what
                was never begun, if the domain's filter is `gaussian`
    Raises NotVerified if something would return, and the vault holds a round that the ledger does not know.
    """
    session = door.ledger.session(name)
    if session.status != "open":
        return session
    with alone(door.vault, name):
        session = door.ledger.session(name)
        if give_back and session.rounds and _drawn(door, session):
            raise NotVerified(
                f"round {session.next_row} of session {name} was drawn, and the ledger does not know of it: an older "
                "copy of the ledger was put back; put the newer one in its place, or end the session by `concord close "
                f"{name} --whole`"
            )
        return door.ledger.settle(name, give_back=give_back)


def _drawn(door: Stores, session: Session) -> bool:
    """Whether a round of a session was drawn or released in this home that its ledger does not know."""
    return (
        not knows_rounds(door.vault, session)
        or door.released.find(round_path(session.id, session.next_row)) is not None
    )


def forget(door: Stores, name: str) -> bool:
    """Destroy the secrets of a session that has ended; whether there were any. Raises WrongInput if it is open.

    The key goes first, the recipe, which names the rest, last, and only then does the ledger say that it is forgotten:
    what was interrupted is finished by forgetting again.
    """
    session = door.ledger.session(name)
    if session.status == "open":
        raise WrongInput(f"session {name} is open and must be closed before it is forgotten: `concord close {name}`")
    there = any((door.vault.root / path).exists() for path in (f"secrets/sessions/{name}", f"sessions/{name}"))
    if there:
        _destroy(door, name)
    door.ledger.remark(session.domain, "forgotten", name)
    return there


def _destroy(door: Stores, name: str) -> None:
    with alone(door.vault, name, RUN), alone(door.vault, name):
        recipe = read_checkpoint(door.vault, name, online=False)  # which may be damaged
        door.vault.destroy(f"secrets/sessions/{name}")
        for path in () if recipe is None else _dispensable(door, recipe):
            door.vault.destroy(path)
        door.vault.destroy(f"sessions/{name}")
        door.released.discard(f"{HELD}/{name}")


def _dispensable(door: Stores, recipe: Checkpoint) -> Iterator[str]:
    """What a recipe names, or one before it did, and no open session answers from: teachers, the votes they cast, sums,
    and what relabelling left."""
    used = [files for other in _open_recipes(door) for files in (other.teachers, other.relabelled) if files]
    kept = set(chain.from_iterable(_places(door.vault, files) for files in used))
    places = dict.fromkeys(chain.from_iterable(_places(door.vault, files) for files in recipe.made))
    yield from (path for path in places if path not in kept)


def _places(vault: Vault, files: Sequence[Ref]) -> Iterator[str]:
    """Those files, the votes of teachers among them, and sums of blocks of rows: of rounds after the first, no recipe
    tells."""
    yield from (ref.path for ref in files)
    yield from sorted({sums_folder(ref) for ref in files if ref.path.startswith("units/")})
    yield votes_folder(vault, files)


def _open_recipes(door: Stores) -> list[Checkpoint]:
    open_sessions = [
        session.id
        for domain in door.ledger.domains()
        for session in door.ledger.sessions(domain.name)
        if session.status == "open"
    ]
    recipes = [read_checkpoint(door.vault, session, online=False) for session in open_sessions]
    return [recipe for recipe in recipes if recipe is not None]


KEPT: Final = frozenset({"secrets", "sessions", "public", "locks", UNFINISHED})
"""Folders of the vault that hold no private row, nor anything made of one, but for what `forget` destroys; and that of
unfinished files, of which those go that would become one that goes."""


def erase(door: Stores, domain: str, unit: str | None) -> bool:
    """Erase a unit of the domain by its name, or all of its units; whether there was anything to destroy.

    Raises WrongInput if there is no such domain, or its units have no names.
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


def erased_units(door: Stores, domain: str) -> tuple[str, ...]:
    """Keyed digests of the units of the domain that were erased by name: whatever reads its table leaves them out."""
    listed = {remark.about for remark in door.ledger.remarks(domain) if remark.kind == "erased"}
    return tuple(sorted(listed - {_everybody(Erased.of(door.vault, domain))})) if listed else ()


def _everybody(units: Erased) -> str:
    return keyed_digest(units.key, "every unit")


def _digests(door: Stores, domain: str, unit: str | None) -> tuple[str, ...]:
    """What the ledger keeps of the unit's name: of both, where doubles round it, and of each way it may be read in."""
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
    ids = clean_text(pl.DataFrame({"unit": _readings(unit)}))["unit"]
    names = [*unit_names(ids, rounded=False), *unit_names(ids, rounded=True)]
    if names[0] is None:
        raise WrongInput("--unit must name a unit, and what it says reads as nothing in a table")
    return tuple(dict.fromkeys(units.digest(name) for name in names if name is not None))


def _readings(unit: str) -> list[str]:
    """The name, and what it reads as in a CSV file of any known encoding that is declared to be of any other: a plan
    that declares another brings nobody back."""
    known: tuple[str, ...] = get_args(TextFormat.model_fields["encoding"].annotation)
    spelled = {normalize("NFC", unit), normalize("NFD", unit)}
    stored = {word.encode(encoding, errors=ESCAPED) for word in spelled for encoding in known}
    read = {name.decode(encoding, errors=ESCAPED) for name in stored for encoding in known}
    return [unit, *sorted(read - {unit})]


def _made_of_rows(vault: Vault, domain: str) -> Iterator[str]:
    """What may be made of the domain's rows: all but what is known to be another domain's."""
    secrets = vault.root / "secrets" / "domains"
    others = {path.name for path in secrets.iterdir() if path.name != domain} if secrets.is_dir() else set()
    for kind in sorted(path for path in vault.root.iterdir() if path.name not in KEPT):
        parts = sorted(kind.iterdir()) if kind.is_dir() else []
        yield from (f"{kind.name}/{part.name}" for part in parts if part.name not in others)


def _made_public(door: Stores, sessions: list[str]) -> Iterator[str]:
    """Public rows that are features of private ones, if only labels are secret."""
    for recipe in (read_checkpoint(door.vault, session, online=False) for session in sessions):
        if recipe is not None and recipe.plan.privacy.secret == "labels":
            yield from (batch.ref.path for batch in recipe.sources[0].batches if door.vault.has(batch.ref))


def upgrade(home: Path) -> None:
    """Bring the home to this version's format. Raises NotVerified if it is of a newer one."""
    with locked(home / "upgrade.lock"):
        found = check_format(home)
        if found == FORMAT:
            return
        door = Stores.of(home)
        _back_up(door, home, found)
        for step in UPGRADES[found - 1 :]:
            step(door)
        set_format(home)


def _back_up(door: Stores, home: Path, found: int) -> None:
    folder = home / "backups"
    if any(folder.glob(f"format-{found}-*/ledger.db")):
        return  # made before what was interrupted: the ledger as it was
    make_folder(folder)
    named = folder / f"format-{found}-{datetime.now(UTC):%Y-%m-%d}"
    with passing_folder(named, home) as passing:
        if door.ledger.back_up(passing / "ledger.db"):
            passing.rename(named)
            sync_folder(folder)


def _claim_private_files(door: Stores) -> None:
    """What sessions learned from belongs to their domains; two that share a file are linked from the start."""
    for domain in door.ledger.domains():
        for session in door.ledger.sessions(domain.name):
            recipe = read_checkpoint(door.vault, session.id, online=False)
            for file in () if recipe is None else recipe.private:
                _claim(door, domain.name, file)


def _claim(door: Stores, domain: str, file: str) -> None:
    try:
        door.ledger.hold(domain, [file])
    except WrongInput:
        holders = [
            other.name
            for other in door.ledger.domains()
            if any((remark.kind, remark.about) == ("holds", file) for remark in door.ledger.remarks(other.name))
        ]
        for other in holders:
            door.ledger.remark(other, "linked", domain, "they shared a private file before this was on the record")
        door.ledger.hold(domain, [file])


UPGRADES: tuple[Callable[[Stores], None], ...] = (_claim_private_files, lambda _: None)
"""What leads from each format to the next; each may run again after it was interrupted."""

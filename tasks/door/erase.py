"""Close or forget a session, and erase a unit's rows.

Close and forget: end a session, and remove from the vault what only it needed.
    Assumes      the decision to close a session depends on public and released things alone, or nothing is given back
    Guarantees   a closed session draws no more; of a forgotten one no key, teacher or vote is left in the vault, unless
                 an open session votes with the same teachers; nor the hypothesis that relabelled its rows, nor those
                 rows. The files that `concord verify` reads are kept: it needs no secret
    Not covered  copies of the vault made elsewhere, and what a disk keeps of removed files.
                 Checked by tests/tasks/door/test_ending.py

Erase: remove the rows of a unit from the vault, with everything made from them. Rows are stored without the name of
their unit; a teacher depends on every unit of its shard, votes depend on every teacher, and a session's key, together
with released answers, reveals votes. So everything that the vault keeps of the domain's table is removed, and its
sessions end. A unit erased by its name stays erased: later reads of the domain's table in this home leave it out. The
unit may never have been in the table; the steps taken do not depend on that.
A stream goes on: its exact sums are removed, and the next refresh counts its season again from the files that it took,
without the unit. The unit's keyed name stays as a tombstone among those that were asked: were it to come back under
another erasure, it would be asked twice. Noise is drawn fresh for each release, and its key reveals none of it.
    Assumes      files made from a domain's rows lie in the vault at KIND/DOMAIN/…; a file at KIND/… of no domain may
                 belong to any, and is removed too: all of it but public rows can be made again
    Guarantees   nothing in the vault depends on the unit once this returns. Spends stay: an erasure is no public
                 reason, and gives nothing back. It waits for runs of the domain, and is finished by erasing again if it
                 was interrupted. The ledger keeps a keyed digest of the unit's name, by which it is left out from then
                 on
    Not covered  what a season's releases from before say of the unit, which fades from its running totals: that is
                 within what was promised; a keyed digest of exact sums, in the ledger, until the season is forgotten;
                 a name that a format with another separator or quote cuts or keeps otherwise; what was published, which
                 differential privacy alone protects; the table itself, which is its owner's to change; all units of a
                 domain, erased at once, come back with a further session; copies of the vault, and what a disk keeps of
                 removed files; what workers of a cluster write after their flow was killed. Checked by
                 tests/promises/test_erasing.py and tests/tasks/units/test_left_out.py
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import get_args
from unicodedata import normalize
from uuid import UUID

import polars as pl

from concord.artifacts.domains import LABELS_OF
from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault, keyed_digest
from concord.artifacts.schemas import NO_NAMES, Ref, TextFormat
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.tasks.data.cells import clean_text
from concord.tasks.door.checkpoint import Checkpoint, read_checkpoint, sums_folder, votes_folder
from concord.tasks.door.keys import folders_of_rows, is_lost, ready_secret
from concord.tasks.door.locks import RUN, alone, no_run_in
from concord.tasks.units.identifiers import ESCAPED
from concord.tasks.units.units import Erased, unit_names


def close(stores: Stores, name: str, *, give_back: bool) -> Session:
    """End an open session by the ledger's rule; one that has ended stays as it is. Raises WrongInput if unknown.

    give_back   return unspent budget to the domain: of a mechanism that pays by refusal, what was reserved and not
                spent
    """
    session = stores.ledger.session(name)
    if session.status != "open":
        return session
    with alone(stores.vault, name):
        return stores.ledger.settle(name, give_back=give_back)


def forget(stores: Stores, name: str) -> bool:
    """Destroy the secrets of a session that has ended. Returns whether there were any; raises WrongInput if it is open.

    The key is destroyed first and the checkpoint, which names the other files, last; then the ledger records that the
    session is forgotten. If this is interrupted, forgetting again finishes it.
    """
    vault, session = stores.vault, stores.ledger.session(name)
    if session.status == "open":
        raise WrongInput(f"session {name} is open and must be closed before it is forgotten: `concord close {name}`")
    there = any((vault.root / path).exists() for path in (f"secrets/sessions/{name}", f"sessions/{name}"))
    if there:
        with alone(vault, name, RUN), alone(vault, name):
            recipe = read_checkpoint(stores, name)  # which may be damaged
            vault.destroy(f"secrets/sessions/{name}")
            for path in () if recipe is None else _dispensable(stores, recipe):
                vault.destroy(path)
            for kind in folders_of_rows(vault):
                vault.destroy(f"{kind.name}/{session.domain}/{name}")  # made for it alone
            vault.destroy(f"sessions/{name}")
            stores.discard_held(name)
    seasons = {other.id for other in stores.ledger.sessions(session.domain) if other.stream == session.stream}
    # until all of its seasons are forgotten, a later one must know whom they asked
    if session.stream and seasons <= {name, *stores.ledger.forgotten(session.domain)}:
        for kind in folders_of_rows(vault):
            vault.destroy(f"{kind.name}/{session.domain}/{session.stream}")
        vault.destroy(f"secrets/streams/{session.stream}")
    stores.ledger.remark(session.domain, "forgotten", name)
    return there


def _dispensable(stores: Stores, recipe: Checkpoint) -> Iterator[str]:
    """Files named by a checkpoint, now or formerly, from which no open session answers: teachers, their votes, sums and
    files of relabelling."""
    sessions = (session for domain in stores.ledger.domains() for session in stores.ledger.sessions(domain.name))
    going_on = (read_checkpoint(stores, recorded.id) for recorded in sessions if recorded.status == "open")
    used = [files for other in going_on if other for files in (other.teachers, other.relabelled) if files]
    kept = set(chain.from_iterable(_places(stores.vault, files) for files in used))
    places = dict.fromkeys(chain.from_iterable(_places(stores.vault, files) for files in recipe.made))
    yield from (path for path in places if path not in kept)


def _places(vault: Vault, files: Sequence[Ref]) -> Iterator[str]:
    """These files, the votes of the teachers among them, and the sums of the blocks of rows among them, since no
    checkpoint names the sums of rounds after the first."""
    yield from (ref.path for ref in files)
    yield from sorted({sums_folder(ref) for ref in files if ref.path.startswith("units/")})
    yield votes_folder(vault, files)


def erase(stores: Stores, domain: str, unit: str | None) -> bool:
    """Erase a unit of the domain by its name, or all of its units. Returns whether there was anything to destroy.

    Raises WrongInput if there is no such domain, or if its units have no names.
    """
    digests = _digests(stores, domain, unit)
    with no_run_in(stores.vault, domain):
        recorded = stores.ledger.sessions(domain)
        lasting = {other.stream for other in recorded if other.facts.session is None and unit is not None} - {""}
        kept = {f"{kind}/{domain}" for kind in ("streams", "arrived") if lasting}
        sessions = [session.id for session in recorded if session.stream not in lasting]
        made = [*_made_public(stores, sessions), *_made_of_rows(stores.vault, domain)]
        for session in sessions:
            close(stores, session, give_back=False)
        for path in made:
            if path not in kept:
                stores.vault.destroy(path)
        forgotten = [forget(stores, session) for session in sessions]
        for about in digests:
            stores.ledger.remark(domain, "erased", about)
    return bool(made) or any(forgotten)


def erased_units(stores: Stores, domain: str) -> tuple[str, ...]:
    """Keyed digests of the domain's units that were erased by name; every read of its table leaves them out."""
    listed = {remark.about for remark in stores.ledger.remarks(domain) if remark.kind == "erased"}
    return tuple(sorted(listed - {_everybody(Erased.of(stores.vault, domain))})) if listed else ()


def _everybody(units: Erased) -> str:
    return keyed_digest(units.key, "every unit")


def _digests(stores: Stores, domain: str, unit: str | None) -> tuple[str, ...]:
    """Keyed digests of the unit's name for the ledger: of each way it may be read; of all units, none if the domain's
    secret is lost, since nothing of it is read then. Raises NotVerified without it."""
    recorded, names = stores.ledger.domain(domain), list[bytes | None]()
    if recorded is None:
        raise WrongInput(f"the ledger has no domain {domain!r}")
    if unit is not None:
        if recorded.unit.removeprefix(LABELS_OF) == "one row":
            raise WrongInput(
                f"the privacy unit of domain {domain!r} is {recorded.unit}, which has no name that --unit could give: "
                "leave --unit out, and all rows of the domain are erased"
            )
        names = unit_names(
            clean_text(pl.DataFrame({"unit": _readings(unit)}), missing={"unit": NO_NAMES})["unit"]
        ).to_list()
        if names[0] is None:
            raise WrongInput("--unit must name a unit, and what it says reads as nothing in a table")
    elif is_lost(stores, domain):
        return ()
    ready_secret(stores, domain)
    units = Erased.of(stores.vault, domain)
    digests = [_everybody(units)] if unit is None else [units.digest(name) for name in names if name is not None]
    return tuple(dict.fromkeys(digests))


def _readings(unit: str) -> list[str]:
    """The name, and its readings from a CSV file in any known encoding that is declared to be in any other, so that a
    plan with another declared encoding does not bring the unit back; of a UUID also that of its bytes, as stored."""
    encodings: tuple[str, ...] = get_args(TextFormat.model_fields["encoding"].annotation)
    spelled = {normalize("NFC", unit), normalize("NFD", unit)}
    stored = {word.encode(encoding, errors=ESCAPED) for word in spelled for encoding in encodings}
    read = {name.decode(encoding, errors=ESCAPED) for name in stored for encoding in encodings}
    with suppress(ValueError):
        read.add(UUID(unit).bytes.decode(errors=ESCAPED))
    return [unit, *sorted(read - {unit})]


def _made_of_rows(vault: Vault, domain: str) -> Iterator[str]:
    """Paths that may be made from the domain's rows: all except those known to be another domain's."""
    secrets = vault.root / "secrets" / "domains"
    others = {path.name for path in secrets.iterdir() if path.name != domain} if secrets.is_dir() else set()
    for kind in folders_of_rows(vault):
        parts = sorted(kind.iterdir()) if kind.is_dir() else []
        yield from (f"{kind.name}/{part.name}" for part in parts if part.name not in others)


def _made_public(stores: Stores, sessions: list[str]) -> Iterator[str]:
    """Public rows that are features of private ones, if only labels are secret."""
    for recipe in (read_checkpoint(stores, session) for session in sessions):
        if recipe is not None and recipe.plan.privacy.secret == "labels":
            yield from (batch.ref.path for batch in recipe.sources[0].batches if stores.vault.has(batch.ref))

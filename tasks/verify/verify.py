"""Verify a home: its ledger, then each session as a stranger would, then what is on record of it.

For the home: the ledger's chain, its rule (checked a second time), and that it knows every session the home holds. For
every session: what it released is on record; its certificate agreed with the ledger once; its published folder passes
the very checks that a stranger makes of it (tasks.verify.published); and MLflow shows what was published. Nothing is
changed and nothing private is read: the vault stays closed, except for one secret if a kept certificate is compared.
The ledger is read once and its history once more, however many sessions there are.

Assumes      a ledger whose chain holds records what happened
Guarantees   a changed byte in a file or record named here is found, and the check that finds it names the file
             A command that was killed may leave MLflow one publication behind the signed files: that is a warning
Not covered  a home folder restored whole from a backup, unless a published folder of the newer one was kept.
             Checked by tests/tasks/verify/test_verify.py
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.certificate import CERTIFICATE_FILE
from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.excerpt import EXCERPT_SECRET, hiding
from concord.artifacts.ledger.home_contents import HomeContents
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.mlflow.describe import logged_digests
from concord.artifacts.sessions import LABELS
from concord.artifacts.settings import own_store
from concord.tasks.asks.kinds import unfinished_in_words
from concord.tasks.verify.certificate import Certificates
from concord.tasks.verify.checks import (
    CheckedSession,
    checked,
    committed,
    model,
    of_home,
    proved,
    run_figures,
    run_files,
)
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.limited import VERIFY_FOLDER, Check, limited
from concord.tasks.verify.published import folder_checks
from concord.tasks.verify.reckoning import ledger_faults
from concord.tasks.verify.signed import kept_excerpt

if TYPE_CHECKING:
    from concord.artifacts.mlflow.read import Records

BEHIND = (
    "it shows an earlier publication of the session than the one that is released and signed: a command was killed, or "
    "MLflow failed, before that was recorded; the same command, or a run of the plan, records it and spends nothing"
)
FOREIGN = (
    "mlflow.db counts as published, but has runs that no session made: if they hold anything private, move mlflow.db "
    "away; each session is recorded anew when a command uses it. Their ids are"
)
IN_MLFLOW: dict[str, Callable[[CheckedSession], str]] = {
    "report and figures": run_files,
    "model": model,
    "MLflow": run_figures,
}
"""The checks of what MLflow shows of a published session."""
SHOWN = 3
"""Most faults of one kind that are named; the others are counted."""


def verify(home: Path, subject: str | None = None, test: str | None = None, key: str | None = None) -> list[Check]:
    """Check a session, an MLflow run, or everything.

    test   path of the public test table, if it was moved
    key    the key, or its fingerprint, by which published files must be signed, in hex
    Raises WrongInput if there is no such session or run, OtherVersion if another MLflow made the home's store.
    """
    try:
        ledger = Ledger.of(home)
        ledger.verify()
    except NotVerified as wrong:
        return [Check(name="ledger chain", ok=False, detail=str(wrong))]
    checks = [Check(name="ledger chain", ok=True, detail="every entry follows from the one before"), _rule(ledger)]
    released = Released(home)
    from concord.artifacts.mlflow.read import Records  # heavy, and a published folder is verified without it
    from concord.artifacts.mlflow.store import OtherVersion

    try:
        records = Records.of(home)
        held = HomeContents(home, records.sessions() if own_store(home) else ())
        named = [replace(each, test=test, key=key) for each in _subjects(held, ledger, released, records, subject)]
        checks += [*_strangers(records)] if own_store(home) else []
    except OtherVersion:  # it was not tampered with, but upgraded
        raise
    except EnvironmentFailed as failed:
        failing = Check(name="MLflow store", ok=False, detail=str(failed))
        return [*checks, *of_home(HomeContents(home), ledger), failing]
    checks += of_home(held, ledger)
    for name in sorted(held.unpublished(ledger) & {each.session.id for each in named}):
        detail = unfinished_in_words(ledger.session(name))
        checks.append(Check(name=f"{name}: unfinished", ok=True, warning=True, detail=detail))
    return [*checks, *_of_sessions(named, ledger, released)]


def _of_sessions(subjects: list[CheckedSession], ledger: Ledger, released: Released) -> Iterator[Check]:
    """Checks of each session: what it released is on record; its published folder holds, as a stranger checks it; and
    MLflow shows what was published."""
    certificates = Certificates([subject for subject in subjects if subject.published], ledger, released)
    for subject in subjects:
        name = subject.session.id
        yield checked(f"{name}: on record", partial(committed, subject))
        if not subject.published:
            yield checked(f"{name}: guarantee", partial(_unpublished, subject))
        else:
            on_record = checked(f"{name}: certificate on record", partial(certificates.check, subject))
            yield on_record
            yield from _published(subject, released, on_record.ok)


def _published(subject: CheckedSession, released: Released, on_record: bool) -> Iterator[Check]:
    """The checks of a session's folder, and of what MLflow shows of it."""
    name, signed = subject.session.id, False
    try:
        at = PublishedSession.at(released.root / name)
    except (NotVerified, WrongInput) as wrong:
        yield Check(name=f"{name}: certificate", ok=False, detail=str(wrong))
    else:
        if on_record and _is_signed(at):
            checks = folder_checks(at, subject.test, subject.key, released.root.parent)
            found = {check: checked(f"{name}: {check}", own) for check, own in checks.items()}
            signed = found["ledger excerpt"].ok and found["signature"].ok
            yield from found.values()
        else:  # whoever changed them may have made their checks endless
            yield from limited((VERIFY_FOLDER, (str(at.folder), subject.test, subject.key)))
    if subject.session.purpose != LABELS:  # answers have a certificate alone
        return
    latest = released.find(f"{name}/{CERTIFICATE_FILE}")
    shown = None if subject.run is None else logged_digests(subject.run.tags).get(CERTIFICATE_FILE)
    behind = signed and subject.latest and subject.run is not None and latest is not None and shown != latest.digest
    recorded = replace(subject, latest=subject.latest and not behind)
    for check, own in IN_MLFLOW.items():
        yield checked(f"{name}: {check}", partial(own, recorded))
    if behind:
        yield Check(name=f"{name}: MLflow's turn", ok=True, warning=True, detail=BEHIND)


def _is_signed(at: PublishedSession) -> bool:
    """Whether certificate and excerpt, by which all else is checked, are what the published key signed."""
    try:
        return bool(kept_excerpt(at.certificate, at.read, None).entries)
    except NotVerified:
        return False


def _unpublished(subject: CheckedSession) -> str:
    """Check what the folder would show, were it published: that the settings prove the claim."""
    session = subject.session
    return proved(session.mechanism, (session.epsilon, session.delta))


def _strangers(records: "Records") -> Iterator[Check]:
    """Name the runs in the home's MLflow that no session made: readers assume that all of it is published."""
    if strangers := records.strangers():
        more = f" and {len(strangers) - SHOWN} more" if len(strangers) > SHOWN else ""
        yield Check(name="MLflow's runs", ok=False, detail=f"{FOREIGN} {', '.join(strangers[:SHOWN])}{more}")


def _rule(ledger: Ledger) -> Check:
    """Check every amount and step of the ledger against its rule, recomputed from its records."""
    records = ledger.records()
    found = list(ledger_faults(records))
    if found:
        more = f" (and {len(found) - SHOWN} more)" if len(found) > SHOWN else ""
        return Check(name="ledger rule", ok=False, detail="; ".join(found[:SHOWN]) + more)
    detail = f"every charge, opening and settlement of {len(records)} entries is what the rule says"
    return Check(name="ledger rule", ok=True, detail=detail)


def _subjects(
    held: HomeContents, ledger: Ledger, released: Released, records: "Records", asked: str | None
) -> Iterator[CheckedSession]:
    """The sessions to verify. Those of other homes are verified there, where their files are; one that the ledger does
    not know cannot be."""
    unknown, others = held.unknown(ledger), held.others(ledger)
    if asked in unknown:
        return
    everywhere = {session.id: session for domain in ledger.domains() for session in ledger.sessions(domain.name)}
    sessions = {name: session for name, session in everywhere.items() if name not in others}
    if asked is None or asked in everywhere:
        for session in sessions.values() if asked is None else [sessions[asked]] if asked in sessions else []:
            latest = next(iter(records.runs(session.id)), None)
            run = records.recorded(latest) if latest else None
            yield CheckedSession(session, ledger, released, run, latest=True)
        return
    run = records.recorded(asked)
    name = "" if run is None else run.tags.get("session", "")
    if name in unknown | others:
        return
    if name not in sessions:
        raise WrongInput(f"there is no session and no run {asked!r}")
    session = sessions[name]
    yield CheckedSession(session, ledger, released, run, latest=records.runs(session.id)[:1] == [asked])


def verify_kept(home: Path, kept: Path, key: str | None = None) -> list[Check]:
    """Check that the home's ledger holds all entries that an earlier certificate was signed with.

    kept   a published folder, or a copy of it; certificate, excerpt, key and attestation are enough
    Of the vault, only the secret that hides entries in excerpts is read. Raises WrongInput if there is no certificate.
    """

    def check() -> str:
        at = PublishedSession.at(kept)
        found = kept_excerpt(at.certificate, at.read, key)
        if not (home / "vault" / "secrets" / EXCERPT_SECRET).is_file():
            raise NotVerified("the vault lacks the secret that opens what an excerpt commits to")
        ledger = Ledger.of(home)
        ledger.verify()
        found.check_ledger(ledger.records(), hiding(Vault(home / "vault")))
        return (
            f"the ledger holds the {len(found.entries)} entries that session {at.certificate.session} was signed with"
        )

    return [checked("kept certificate", check)]

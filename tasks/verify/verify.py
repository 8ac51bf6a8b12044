"""Verify: check released files and records against the ledger, and the guarantee against its own settings.

For the home: the ledger's chain, its rule (checked a second time), and that it knows every session the home holds. For
every session: every released file; the certificate against the ledger; MLflow's numbers, files and registered model;
and the guarantee, recomputed independently from the recorded settings. Nothing is changed and nothing private is read:
the vault stays closed, except for one secret if a kept certificate is compared. The ledger is read once and its history
once more, however many sessions there are.

Assumes      a ledger whose chain holds records what happened
Guarantees   a changed byte in a file or record named here is found, and the check that finds it names the file
Not covered  a home folder put back whole to an older copy, if no witness is named. A certificate in the words of
             an earlier version is found as well: running its plan again writes it anew and spends nothing
             Checked by tests/tasks/verify/test_verify.py
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.excerpt import EXCERPT_SECRET, hiding
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.settings import own_store
from concord.artifacts.vulnerabilities import concerning, opening_version
from concord.tasks.verify import recompute
from concord.tasks.verify.certificate import Certificates
from concord.tasks.verify.checks import (
    Check,
    CheckedSession,
    Home,
    checked,
    equal,
    known_faults,
    labels,
    model,
    parsed,
    run_figures,
    run_files,
)
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.measured import public_test
from concord.tasks.verify.reckoning import reckon
from concord.tasks.verify.signed import UNSIGNED, checks_beside, kept_excerpt

if TYPE_CHECKING:
    from concord.artifacts.mlflow.read import Records

SHOWN = 3
"""Most faults of the ledger that are named; the others are counted."""


def verify(home: Path, subject: str | None = None, test: str | None = None, key: str | None = None) -> list[Check]:
    """Check a session, an MLflow run, or everything.

    test   path of the public test table, if it was moved
    key    the key, or its fingerprint, by which published files must be signed, in hex
    Raises WrongInput if there is no such session or run.
    """
    try:
        ledger = Ledger.of(home)
        ledger.verify()
    except NotVerified as wrong:
        return [Check(name="ledger chain", ok=False, detail=str(wrong))]
    checks = [Check(name="ledger chain", ok=True, detail="every entry follows from the one before"), _rule(ledger)]
    checks += _witness(ledger)
    from concord.artifacts.mlflow.read import Records  # heavy, and a published folder is verified without it

    try:
        records = Records.of(home)
        held = Home(home, ledger, records.sessions() if own_store(home) else set())
        subjects = [] if subject in held.unknown else list(_subjects(ledger, Released(home), records, held, subject))
    except EnvironmentFailed as failed:
        failing = Check(name="MLflow store", ok=False, detail=str(failed))
        return [*checks, *Home(home, ledger, set()).checks(), failing]
    named = [replace(each, test=test, key=key) for each in subjects]
    return [*checks, *held.checks(), *_of_sessions(named, ledger, Released(home))]


def _of_sessions(subjects: list[CheckedSession], ledger: Ledger, released: Released) -> Iterator[Check]:
    certificates = Certificates([subject for subject in subjects if subject.published], ledger, released)
    for subject in subjects:
        shown = {} if subject.session.asks else WHEN_PUBLISHED  # answers have a certificate alone
        published = {"certificate": certificates.check, "signature": _signature, **shown}
        these = {**AT_THE_DOOR, **(published if subject.published else {})}
        for name, check in these.items():
            yield checked(f"{subject.session.id}: {name}", partial(check, subject))
        yield from _known(subject)


def _rule(ledger: Ledger) -> Check:
    """Check every amount and step of the ledger against its rule, recomputed from its records."""
    records = ledger.records()
    found = list(reckon(records))
    if found:
        more = f" (and {len(found) - SHOWN} more)" if len(found) > SHOWN else ""
        return Check(name="ledger rule", ok=False, detail="; ".join(found[:SHOWN]) + more)
    detail = f"every charge, opening and settlement of {len(records)} entries is what the rule says"
    return Check(name="ledger rule", ok=True, detail=detail)


def _witness(ledger: Ledger) -> list[Check]:
    """Whether the ledger holds all that its witness saw; nothing if no witness was ever named."""
    try:
        named = ledger.check_witness()
    except NotVerified as wrong:
        return [Check(name="witness", ok=False, detail=str(wrong))]
    return [Check(name="witness", ok=True, detail="the ledger holds all that its witness saw")] if named else []


def _subjects(
    ledger: Ledger, released: Released, records: "Records", held: Home, asked: str | None
) -> Iterator[CheckedSession]:
    """The sessions that are asked about; those of other homes are verified there, where their files are."""
    everywhere = {session.id: session for domain in ledger.domains() for session in ledger.sessions(domain.name)}
    sessions = {name: session for name, session in everywhere.items() if name not in held.others}
    if asked is None or asked in everywhere:
        for session in sessions.values() if asked is None else [sessions[asked]] if asked in sessions else []:
            latest = next(iter(records.runs(session.id)), None)
            run = records.recorded(latest) if latest else None
            yield CheckedSession(session, ledger, released, run, latest=True)
        return
    run = records.recorded(asked)
    name = "" if run is None else run.tags.get("session", "")
    if name in held.unknown | held.others:
        return
    if name not in sessions:
        raise WrongInput(f"there is no session and no run {asked!r}")
    session = sessions[name]
    yield CheckedSession(session, ledger, released, run, latest=records.runs(session.id)[:1] == [asked])


def _known(subject: CheckedSession) -> Iterator[Check]:
    """A warning of known faults of the version that opened the session, if one may weaken its guarantee.

    It is only a warning: the files verify in spite of it, and only private data can show whether a fault did harm.
    """
    session = subject.session
    found = concerning(session, subject.ledger.domain_of(session))
    yield from known_faults(session.id, opening_version(session), found)


def _guarantee(subject: CheckedSession) -> str:
    """The settings prove what the session claims."""
    session = subject.session
    stated = {**session.mechanism, **session.mechanism.get("relabel", {})}
    for term in ("epsilon", "delta", "cutoff", "queries"):
        if stated.get(term) is not None:
            equal(term, getattr(session, term), stated[term])
    delta = recompute.least_delta(session.mechanism, session.epsilon)
    if not delta <= session.delta * recompute.SLACK:
        raise NotVerified(f"at ε = {session.epsilon:g} the settings prove δ = {delta:.6g}, claimed {session.delta:g}")
    return f"at ε = {session.epsilon:g} the settings prove δ = {delta:.6g} of the {session.delta:g} claimed"


def _public_test(subject: CheckedSession) -> str:
    """The measures on public test rows are the student's."""
    path, released = f"{subject.session.id}/certificate.json", subject.released
    ref = released.find(path)
    if ref is None:
        raise NotVerified(f"the released file {path} is missing")
    return public_test(parsed(released.read(ref), path), released.read, subject.test, released.root.parent)


def _signature(subject: CheckedSession) -> str:
    """Check the signature of the published files, and the excerpt of the ledger published with them."""
    try:
        at = PublishedSession.at(subject.released.root / subject.session.id)
    except WrongInput as missing:
        raise NotVerified(str(missing)) from None
    return "; ".join(check() for check in checks_beside(at, subject.key).values()) or UNSIGNED


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


AT_THE_DOOR: dict[str, Callable[[CheckedSession], str]] = {"released labels": labels, "guarantee": _guarantee}
WHEN_PUBLISHED: dict[str, Callable[[CheckedSession], str]] = {
    "report and figures": run_files,
    "model": model,
    "MLflow": run_figures,
    "public test": _public_test,
}

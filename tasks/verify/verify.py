"""Verify: check released files and records against the ledger, and the guarantee against its own settings.

For the home: the ledger's chain, its rule (checked a second time), and that it knows every session the home holds. For
every session: every released file; the certificate against the ledger; MLflow's numbers, files and registered model;
and the guarantee, recomputed independently from the recorded settings. Nothing is changed and nothing private is read:
the vault stays closed, except for one secret if a kept certificate is compared. The ledger is read once and its history
once more, however many sessions there are.

Assumes      a ledger whose chain holds records what happened
Guarantees   a changed byte in a file or record named here is found, and the check that finds it names the file
             A command that was killed may leave MLflow one publication behind the signed files: that is a warning
Not covered  a home folder restored whole from a backup, if no witness is named.
             Checked by tests/tasks/verify/test_verify.py
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.certificate import CERTIFICATE_FILE, Certificate
from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.guarantee import unpromised
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault
from concord.artifacts.kinds import Joint
from concord.artifacts.ledger.excerpt import EXCERPT_SECRET, hiding
from concord.artifacts.ledger.home_contents import HomeContents
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.mlflow.describe import logged_digests
from concord.artifacts.sessions import LABELS
from concord.artifacts.settings import own_store
from concord.artifacts.vulnerabilities import concerning
from concord.tasks.asks.kinds import unfinished_in_words
from concord.tasks.verify.certificate import Certificates
from concord.tasks.verify.checks import (
    CheckedSession,
    checked,
    equal,
    known_faults,
    labels,
    model,
    of_home,
    proved,
    run_figures,
    run_files,
)
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.homes import joint_rounds
from concord.tasks.verify.limited import Check
from concord.tasks.verify.measured import public_test
from concord.tasks.verify.reckoning import reckon
from concord.tasks.verify.signed import checks_beside, kept_excerpt

if TYPE_CHECKING:
    from concord.artifacts.mlflow.read import Records

BEHIND = (
    "it shows an earlier publication of the session than the one that is released and signed: a command was killed, or "
    "MLflow failed, before that was recorded; the same command, or a run of the plan, records it and spends nothing"
)
FOREIGN = (
    "mlflow.db, which readers are told is published, has runs that no session made: if what they hold is private, move "
    "mlflow.db away, and each session is recorded anew when a command uses it. Their ids are"
)
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
    checks += [*_witness(ledger), *_lifetimes(ledger)]
    from concord.artifacts.mlflow.read import Records  # heavy, and a published folder is verified without it
    from concord.artifacts.mlflow.store import OtherVersion

    try:
        records = Records.of(home)
        held = HomeContents(home, records.sessions() if own_store(home) else ())
        unknown, others = held.unknown(ledger), held.others(ledger)
        found = () if subject in unknown else _subjects(ledger, Released(home), records, unknown, others, subject)
        named = [replace(each, test=test, key=key) for each in found]
        checks += [*_strangers(records)] if own_store(home) else []
    except OtherVersion:  # it was not tampered with, but upgraded
        raise
    except EnvironmentFailed as failed:
        failing = Check(name="MLflow store", ok=False, detail=str(failed))
        held = HomeContents(home)
        return [*checks, *of_home(held, ledger, held.others(ledger)), failing]
    unfinished = _unfinished(held, ledger, {each.session.id for each in named})
    return [*checks, *of_home(held, ledger, others), *unfinished, *_of_sessions(named, ledger, Released(home))]


def _unfinished(held: HomeContents, ledger: Ledger, named: set[str]) -> Iterator[Check]:
    """A warning of each of the named sessions that is charged and not published."""
    for name in sorted(held.unpublished(ledger) & named):
        detail = unfinished_in_words(ledger.session(name))
        yield Check(name=f"{name}: unfinished", ok=True, warning=True, detail=detail)


def _of_sessions(subjects: list[CheckedSession], ledger: Ledger, released: Released) -> Iterator[Check]:
    certificates = Certificates([subject for subject in subjects if subject.published], ledger, released)
    for given in subjects:
        behind = _is_behind(given)
        subject = replace(given, latest=given.latest and not behind)
        shown = WHEN_PUBLISHED if subject.session.purpose == LABELS else {}  # answers have a certificate alone
        published = {"certificate": certificates.check, "signature": _signature, **shown}
        shares = {"shares": _shares} if subject.session.kind.lead else {}
        these = {**AT_THE_DOOR, **shares, **(published if subject.published else {})}
        for name, check in these.items():
            yield checked(f"{subject.session.id}: {name}", partial(check, subject))
        if behind:
            yield Check(name=f"{subject.session.id}: MLflow's turn", ok=True, warning=True, detail=BEHIND)
        yield from _known(subject)


def _strangers(records: "Records") -> Iterator[Check]:
    """Name the runs in the home's MLflow that no session made: readers are told that all of it is published."""
    if strangers := records.strangers():
        more = f" and {len(strangers) - SHOWN} more" if len(strangers) > SHOWN else ""
        yield Check(name="MLflow's runs", ok=False, detail=f"{FOREIGN} {', '.join(strangers[:SHOWN])}{more}")


def _is_behind(subject: CheckedSession) -> bool:
    """Whether MLflow shows an earlier publication of the session than the released one, all of which is signed."""
    ref = subject.released.find(f"{subject.session.id}/{CERTIFICATE_FILE}")
    if subject.run is None or ref is None or logged_digests(subject.run.tags).get(CERTIFICATE_FILE) == ref.digest:
        return False
    try:
        return subject.latest and bool(_signature(subject))
    except NotVerified:
        return False


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


def _lifetimes(ledger: Ledger) -> Iterator[Check]:
    """A warning of each domain whose cap promises nothing to people who may also be in a linked one."""
    for domain in ledger.domains():
        for text in unpromised(domain, ledger.linked(domain.name)):
            yield Check(name=f"{domain.name}: lifetime", ok=True, warning=True, detail=text)


def _subjects(
    ledger: Ledger, released: Released, records: "Records", unknown: set[str], others: set[str], asked: str | None
) -> Iterator[CheckedSession]:
    """The sessions that are asked about; those of other homes are verified there, where their files are."""
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


def _known(subject: CheckedSession) -> Iterator[Check]:
    """A warning of known faults of the version that opened the session, if one may weaken its guarantee.

    It is only a warning: the files verify in spite of it, and only private data can show whether a fault did harm.
    """
    session = subject.session
    found = concerning(session, subject.ledger.domain_of(session))
    yield from known_faults(session.id, session.version, found)


def _guarantee(subject: CheckedSession) -> str:
    """The settings prove what the session claims."""
    session = subject.session
    for term in ("cutoff", "queries"):
        if (stated := getattr(session.kind, term)) is not None:
            equal(term, getattr(session, term), stated)
    return proved(session.mechanism, (session.epsilon, session.delta))


def _shares(subject: CheckedSession) -> str:
    """Of several homes: what was added in each round, published yet or not, is the sum of their signed shares."""
    session, released, of = subject.session, subject.released, subject.ledger.domain_of(subject.session)
    outcomes = [batch.outcome for batch in subject.ledger.batches(session.id) if batch.outcome]
    path = f"{session.id}/{CERTIFICATE_FILE}"
    ref = released.find(path)
    warnings = None if ref is None else Certificate.read(released.read(ref), path).warnings
    rounds = [released.read(outcome.released) for outcome in outcomes]
    return joint_rounds(session.kind.only(Joint), rounds, (of.unit, of.neighbours), warnings)


def _public_test(subject: CheckedSession) -> str:
    """The measures on public test rows are the student's."""
    path, released = f"{subject.session.id}/certificate.json", subject.released
    ref = released.find(path)
    if ref is None:
        raise NotVerified(f"the released file {path} is missing")
    return public_test(Certificate.read(released.read(ref), path), released.read, subject.test, released.root.parent)


def _signature(subject: CheckedSession) -> str:
    """Check the signature of the published files, and the excerpt of the ledger published with them."""
    try:
        at = PublishedSession.at(subject.released.root / subject.session.id)
    except WrongInput as missing:
        raise NotVerified(str(missing)) from None
    return "; ".join(check() for check in checks_beside(at, subject.key).values())


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

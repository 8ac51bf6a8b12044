"""Verify: check what was written against the ledger, and the guarantee against its own settings.

For every session: the ledger's chain; every released file; the certificate's words against the ledger's; MLflow's
numbers, files and registered model; and the guarantee, recomputed from the recorded settings by another path.
Nothing is changed and nothing private is read: the vault stays closed.

Assumes      the ledger's chain, once it holds, says what happened
Guarantees   a byte changed in a file or record named here is found, and the check that finds it names the file
Not covered  a home folder put back whole to an older copy, where no witness is named. A certificate in the words of
             an earlier version is found as well: running its plan again writes it anew and spends nothing
             Checked by tests/tasks/test_verify.py
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel

from artifacts.certificate import Certificate
from artifacts.errors import ConcordError, EnvironmentFailed, NotVerified, WrongInput
from artifacts.ledger import Ledger
from artifacts.reading import Reading
from artifacts.recorded import Records
from artifacts.released import Released
from artifacts.sessions import Session
from tasks import recompute, verify_mlflow
from tasks.certify import counted, describe, outcomes
from tasks.checks import Check, Subject, equal, parsed
from tasks.reckoning import reckon

SLACK = 1 + 1e-9
"""For what doubles lose on the way; claims are rounded up by more."""
SHOWN = 3
"""Faults of the ledger that are named; the others are counted."""


def verify(home: Path, subject: str | None = None) -> list[Check]:
    """Check a session, an MLflow run, or everything. Raises WrongInput where there is no such session or run."""
    try:
        ledger = Ledger.of(home)
        ledger.verify()
    except NotVerified as wrong:
        return [Check(name="ledger chain", ok=False, detail=str(wrong))]
    checks = [Check(name="ledger chain", ok=True, detail="every entry follows from the one before"), _rule(ledger)]
    checks += _witness(ledger)
    try:
        subjects = list(_subjects(ledger, Released(home), Records.of(home), subject))
    except EnvironmentFailed as failed:
        return [*checks, Check(name="MLflow store", ok=False, detail=str(failed))]
    for one in subjects:
        these = {**AT_THE_DOOR, **(WHEN_PUBLISHED if one.published else {})}
        checks += [_checked(f"{one.session.id}: {name}", check, one) for name, check in these.items()]
    return checks


def _rule(ledger: Ledger) -> Check:
    """Whether every amount and step of the ledger is what its rule says, reckoned again from the lines."""
    lines = ledger.lines()
    found = list(reckon(lines))
    if found:
        more = f" (and {len(found) - SHOWN} more)" if len(found) > SHOWN else ""
        return Check(name="ledger rule", ok=False, detail="; ".join(found[:SHOWN]) + more)
    detail = f"every charge, opening and settlement of {len(lines)} entries is what the rule says"
    return Check(name="ledger rule", ok=True, detail=detail)


def _witness(ledger: Ledger) -> list[Check]:
    """Whether the ledger holds all that its witness saw; nothing where no witness was ever named."""
    try:
        named = ledger.check_witness()
    except NotVerified as wrong:
        return [Check(name="witness", ok=False, detail=str(wrong))]
    return [Check(name="witness", ok=True, detail="the ledger holds all that its witness saw")] if named else []


def _subjects(ledger: Ledger, released: Released, records: Records, asked: str | None) -> Iterator[Subject]:
    sessions = {one.id: one for domain in ledger.domains() for one in ledger.sessions(domain.name)}
    if asked is None or asked in sessions:
        for session in sessions.values() if asked is None else [sessions[asked]]:
            latest = next(iter(records.runs(session.id)), None)
            run = records.recorded(latest) if latest else None
            yield Subject(session, ledger, released, records, run, latest=True)
        return
    run = records.recorded(asked)
    if run is None or run.tags.get("session") not in sessions:
        raise WrongInput(f"there is no session and no run {asked!r}")
    session = sessions[run.tags["session"]]
    yield Subject(session, ledger, released, records, run, latest=records.runs(session.id)[:1] == [asked])


def _checked(name: str, check: Callable[[Subject], str], subject: Subject) -> Check:
    try:
        return Check(name=name, ok=True, detail=check(subject))
    except ConcordError as wrong:
        return Check(name=name, ok=False, detail=str(wrong))


def _labels(subject: Subject) -> str:
    """Released labels are those the ledger committed."""
    refs = [batch.outcome.released for batch in subject.ledger.batches(subject.session.id) if batch.outcome]
    for ref in refs:
        subject.released.read(ref)
    return f"{len(refs)} files are as committed"


def _certificate(subject: Subject) -> str:
    """The certificate says what the ledger says, and the files it names are as it digests them."""
    path = f"{subject.session.id}/certificate.json"
    ref = subject.released.find(path)
    if ref is None:
        raise NotVerified(f"the released file {path} is missing")
    certificate = parsed(subject.released.read(ref), path)
    for file in certificate.files:
        subject.released.read(file)
    _as_recorded(certificate, subject)
    return f"it agrees with the ledger, and so do the {len(certificate.files)} files it names"


def _as_recorded(certificate: Certificate, subject: Subject) -> None:
    """Raise NotVerified where the certificate says what the ledger never did since the session last answered. The
    ledger goes on after a certificate is written, so any one moment will do."""
    session, ledger, beside = subject.session, subject.ledger, {one.session: one.labels for one in certificate.beside}
    for answered, labels in ({session.id: certificate.labels} | beside).items():
        committed = {batch.outcome.released for batch in ledger.batches(answered) if batch.outcome}
        if not committed <= set(labels):
            raise NotVerified(f"the certificate's labels leave out some that session {answered} released")
    counts = counted(outcomes(session, certificate.labels, subject.released), session)
    told = (certificate.labels, counts, certificate.student, beside)
    alike = [
        describe(session.id, *told, moment)
        for moment in ledger.history()
        if all(_has_answered(ledger.session(name), moment) for name in (session.id, *beside))
    ]
    for name in (field for field in Certificate.model_fields if field != "versions"):
        said, latest = getattr(certificate, name), getattr(alike[-1], name)
        alike = [one for one in alike if getattr(one, name) == said]
        if not alike:
            equal(f"the certificate's {name}", _apart(said, latest), _apart(latest, said))


def _has_answered(session: Session, moment: Reading) -> bool:
    """Whether all that the session answered was answered by then."""
    known = [one for one in moment.sessions(session.domain) if one.id == session.id]
    return bool(known) and known[0].asked == session.asked


def _apart(one: object, other: object) -> object:
    """What of one value is not so in the other: a sentence about both then shows where they differ."""
    match one:
        case BaseModel():
            return {name: value for name, value in one if value != getattr(other, name, None)}
        case tuple() if isinstance(other, tuple):
            return tuple(part for part in one if part not in other)
    return one


def _guarantee(subject: Subject) -> str:
    """The settings prove what the session claims."""
    session = subject.session
    stated = {**session.mechanism, **session.mechanism.get("relabel", {})}
    for term in ("epsilon", "delta", "cutoff", "queries"):
        if stated.get(term) is not None:
            equal(term, getattr(session, term), stated[term])
    delta = recompute.least_delta(session.mechanism, session.epsilon)
    if not delta <= session.delta * SLACK:
        raise NotVerified(f"at ε = {session.epsilon:g} the settings prove δ = {delta:.6g}, claimed {session.delta:g}")
    return f"at ε = {session.epsilon:g} the settings prove δ = {delta:.6g} of the {session.delta:g} claimed"


AT_THE_DOOR: dict[str, Callable[[Subject], str]] = {"released labels": _labels, "guarantee": _guarantee}
WHEN_PUBLISHED: dict[str, Callable[[Subject], str]] = {
    "certificate": _certificate,
    "report and figures": verify_mlflow.files,
    "model": verify_mlflow.model,
    "MLflow": verify_mlflow.rows,
}

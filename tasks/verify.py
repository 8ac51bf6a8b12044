"""Verify: check what was written against the ledger, and the guarantee against its own settings.

For every session: the ledger's chain; every released file; the certificate's words against the ledger's; MLflow's
numbers, files and registered model; and the guarantee, recomputed from the recorded settings by another path.
Nothing is changed and nothing private is read: the vault stays closed.

Assumes      the ledger's chain, once it holds, says what happened
Guarantees   a byte changed in a file or record named here is found, and the check that finds it names the file
Not covered  a home folder put back whole to an older copy, where no witness is named. A certificate in the words of
             an earlier version is found as well: running its plan again writes it anew and spends nothing
             Checked by tests/test_verify.py
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from artifacts.certificate import Certificate
from artifacts.errors import ConcordError, EnvironmentFailed, NotVerified, WrongInput
from artifacts.ledger import Ledger
from artifacts.privacy import DELTA_QUANTUM, RENYI_QUANTUM
from artifacts.publication import SERIES, figures, listing, params, series, stages, tags
from artifacts.reading import Reading
from artifacts.recorded import MODEL_FILE, Recorded, Records
from artifacts.released import Released
from artifacts.sessions import Session
from tasks import recompute
from tasks.certify import counted, describe, domain_of, outcomes

SLACK = 1 + 1e-9
"""For what doubles lose on the way; claims are rounded up by more."""


class Check(BaseModel):
    """One thing that was checked, whether it holds, and what was found."""

    model_config = ConfigDict(frozen=True)

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Subject:
    """One session and what there is to check about it.

    run     what MLflow has of it: its latest run, or the one asked for; None where it has none
    latest  whether that is the session's latest run, whose files are those now released
    """

    session: Session
    ledger: Ledger
    released: Released
    run: Recorded | None
    latest: bool

    @property
    def published(self) -> bool:
        """Whether anything was certified or tracked; a session that was stopped at the door has labels alone."""
        return self.run is not None or self.released.find(f"{self.session.id}/certificate.json") is not None


def verify(home: Path, subject: str | None = None) -> list[Check]:
    """Check a session, an MLflow run, or everything. Raises WrongInput where there is no such session or run."""
    try:
        ledger = Ledger.of(home)
        ledger.verify()
    except NotVerified as wrong:
        return [Check(name="ledger chain", ok=False, detail=str(wrong))]
    checks = [Check(name="ledger chain", ok=True, detail="every entry follows from the one before"), *_witness(ledger)]
    try:
        subjects = list(_subjects(ledger, Released(home), Records.of(home), subject))
    except EnvironmentFailed as failed:
        return [*checks, Check(name="MLflow store", ok=False, detail=str(failed))]
    for one in subjects:
        these = {**AT_THE_DOOR, **(WHEN_PUBLISHED if one.published else {})}
        checks += [_checked(f"{one.session.id}: {name}", check, one) for name, check in these.items()]
    return checks


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
            yield Subject(session, ledger, released, records.recorded(latest) if latest else None, latest=True)
        return
    run = records.recorded(asked)
    if run is None or run.tags.get("session") not in sessions:
        raise WrongInput(f"there is no session and no run {asked!r}")
    session = sessions[run.tags["session"]]
    yield Subject(session, ledger, released, run, latest=records.runs(session.id)[:1] == [asked])


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
    certificate = _parsed(subject.released.read(ref), path)
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
            _equal(f"the certificate's {name}", _apart(said, latest), _apart(latest, said))


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


def _files(subject: Subject) -> str:
    """Certificate, report and figures: MLflow's copies, and the released files, are as they were logged."""
    run = _run(subject)
    logged = {name.removeprefix("digest."): tag for name, tag in run.tags.items() if name.startswith("digest.")}
    del logged["student"]
    for name, digest in logged.items():
        if run.files.get(name) != digest:
            raise NotVerified(f"MLflow's file {name} is not what was logged")
        released = subject.released.find(f"{subject.session.id}/{name}")
        if subject.latest and (released is None or released.digest != digest):
            raise NotVerified(f"the released file {subject.session.id}/{name} is not what was logged")
    _equal("MLflow's list of files", sorted(run.files), sorted(logged))
    return f"{len(logged)} files are as logged"


def _model(subject: Subject) -> str:
    """The registered model is as it was registered, and holds the student the certificate digests."""
    run = _run(subject)
    if run.model_files.get(MODEL_FILE) != _logged_certificate(run).student.file.digest:
        raise NotVerified(f"the registered model's {MODEL_FILE} is not the student that was certified")
    if listing(run.model_files) != run.model_tags.get("digest.model"):
        raise NotVerified("the registered model's folder is not what was registered")
    return f"{len(run.model_files)} files are as registered, and the student is the certified one"


def _numbers(subject: Subject) -> str:
    """MLflow's numbers and tags are those of the certificate, and its guarantee is the ledger's."""
    run = _run(subject)
    certificate = _logged_certificate(run)
    _equal("MLflow's guarantee", certificate.guarantee.epsilon, subject.session.epsilon)
    for kind, found, recorded in (
        ("metric", run.metrics, figures(certificate)),
        ("parameter", run.params, params(certificate)),
        ("tag", run.tags, tags(certificate)),
        ("model tag", run.model_tags, tags(certificate)),
    ):
        for name, value in recorded.items():
            _equal(f"MLflow's {kind} {name}", found.get(name), value)
    for name, value in figures(certificate).items():
        _equal(f"MLflow's history of metric {name}", run.history.get(name), [(0, value)])
    for stage, published in stages(certificate).items():
        _equal(f"MLflow's nested run {stage}", run.stages.get(stage), published)
    for name in SERIES:
        points = run.history.get(name, [])
        _equal(f"MLflow's series {name}", series(points), run.tags.get(f"series.{name}"))
        if name.startswith("epsilon") and not 0 <= max(epsilon for _, epsilon in points) <= subject.session.epsilon:
            raise NotVerified(f"MLflow's series {name} passes the guarantee")
    return f"{len(figures(certificate))} metrics, the parameters and the tags are as certified"


def _guarantee(subject: Subject) -> str:
    """The settings prove what the session claims, and the domain was charged enough for it."""
    session, filter_ = subject.session, domain_of(subject.session, subject.ledger).filter
    stated = {**session.mechanism, **session.mechanism.get("relabel", {})}
    for term in ("epsilon", "delta", "cutoff", "queries"):
        if stated.get(term) is not None:
            _equal(term, getattr(session, term), stated[term])
    delta = recompute.least_delta(session.mechanism, session.epsilon)
    if not delta <= session.delta * SLACK:
        raise NotVerified(f"at ε = {session.epsilon:g} the settings prove δ = {delta:.6g}, claimed {session.delta:g}")
    nats, additive = recompute.charge(session.mechanism, filter_.order)
    held = float(session.reserved.renyi + RENYI_QUANTUM), float(session.reserved.delta + DELTA_QUANTUM)
    if not (nats <= held[0] * SLACK and additive <= held[1] * SLACK):
        raise NotVerified(f"the settings cost {nats:.6g} nats at order {filter_.order:g}, reserved {held[0]:.6g}")
    return f"at ε = {session.epsilon:g} the settings prove δ = {delta:.6g} of the {session.delta:g} claimed"


AT_THE_DOOR: dict[str, Callable[[Subject], str]] = {"released labels": _labels, "guarantee": _guarantee}
WHEN_PUBLISHED: dict[str, Callable[[Subject], str]] = {
    "certificate": _certificate,
    "report and figures": _files,
    "model": _model,
    "MLflow": _numbers,
}


def _run(subject: Subject) -> Recorded:
    if subject.run is None:
        raise NotVerified(f"MLflow has no finished run of session {subject.session.id}")
    return subject.run


def _logged_certificate(run: Recorded) -> Certificate:
    return _parsed(run.certificate, "MLflow's certificate.json")


def _parsed(text: bytes, path: str) -> Certificate:
    try:
        return Certificate.model_validate_json(text)
    except ValidationError:
        raise NotVerified(f"{path} is not a certificate") from None


def _equal(what: str, found: object, recorded: object) -> None:
    if found != recorded:
        raise NotVerified(f"{what} is {_short(found)}, where it was recorded as {_short(recorded)}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"

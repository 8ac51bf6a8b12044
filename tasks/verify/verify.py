"""Verify a home: its ledger, then each session as a stranger would, then what is on record of it.

For the home: the ledger's chain, its rule (checked a second time), and that it knows every session the home holds. For
every session: what it released is on record; its certificate agreed with the ledger once; its published folder passes
the very checks that a stranger makes of it (tasks.verify.published); and MLflow shows what was published. Nothing is
changed and nothing private is read: the vault stays closed, except for one secret if a kept certificate is compared.
The ledger is read once and its history once more, however many sessions there are. MLflow is a mirror of the ledger and
of released files, and is rebuilt from them, so only facts that an auditor relies on are compared.

Assumes      a ledger whose chain holds records what happened; MLflow returns what it stored
Guarantees   a changed byte in a file or record named here is found, and the check that finds it names the file: a
             released file; any file of the MLflow run, with its certificate; any file of the registered model, its
             description and its tags; the run's tags of the guarantee, its note, parameters and figures. Answers
             released in a batch that the ledger never committed are found
             A command that was killed may leave MLflow one publication behind the signed files: that is a warning, if
             one key signed both
Not covered  a home folder restored whole from a backup, unless a published folder of the newer one was kept
             In MLflow, the words of a description or a note that another version wrote; additional records: curves,
             but for the last accuracy by release and that no charge of a session ends beyond its claim; datasets,
             descriptions of experiments and registered models, times; the version that an alias names, which operators
             choose; a server, which may hold sessions of other homes; runs that bear a session's tag and are not its
             latest finished one, unless one is named by its id
             Checked by test_verify.py, test_verify_mlflow.py and test_verify_home.py in tests/tasks/verify
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from concord import __version__
from concord.artifacts.certificate import CERTIFICATE_FILE, Certificate
from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.excerpt import EXCERPT_SECRET, hiding
from concord.artifacts.ledger.home_contents import AGAIN, HomeContents
from concord.artifacts.ledger.home_contents import named as named_in_words
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.mlflow.describe import (
    MODEL_FILE,
    NOTE,
    SERIES,
    Recorded,
    content_of,
    guarantee_text,
    listing,
    logged_digests,
    tags,
)
from concord.artifacts.published import KEY_FILE
from concord.artifacts.sessions import LABELS, Session
from concord.artifacts.settings import own_store
from concord.tasks.asks.kinds import unfinished_in_words
from concord.tasks.verify.certificate import Certificates, holds_answers
from concord.tasks.verify.checks import VERIFY_FOLDER, Check, checked, equal, limited
from concord.tasks.verify.published import folder_checks, proved
from concord.tasks.verify.records import PublishedSession
from concord.tasks.verify.replay import ledger_faults

if TYPE_CHECKING:
    from concord.artifacts.mlflow.read import Records

BEHIND = (
    "it shows an earlier publication of the session than the one that is released and signed: a command was killed, or "
    "MLflow failed, before that was recorded; the same command, or a run of the plan, records it and spends nothing"
)
LOST = (
    "MLflow has no finished run of it, as after the home was moved, and a forgotten session is not recorded again: its "
    "released files hold"
)
FOREIGN = (
    "mlflow.db counts as published, but has runs that no session made: if they hold anything private, move mlflow.db "
    "away; each session is recorded anew when a command uses it. Their ids are"
)
SHOWN = 3
"""Most faults of one kind that are named; the others are counted."""
BY_BATCH = {
    "labels/batch-{:05d}.arrow": "holds answers",
    "rounds/round-{:05d}.json": "is of a round",
    "answers/answer-{:05d}.json": "is of an answer",
}
"""Files of which a session releases one a batch, and what is said of one."""


@dataclass(frozen=True)
class CheckedSession:
    """One session with the records to check it against.

    run     its latest run in MLflow, or the requested run; None without a run
    latest  whether that is the session's latest run, whose files are those now released
    test    path of the public test table, if it was given
    key     key in hex by which published files must be signed, if it was given
    """

    session: Session
    ledger: Reading
    released: Released
    run: Recorded | None
    latest: bool
    test: str | None = None
    key: str | None = None

    @property
    def published(self) -> bool:
        """Whether anything was certified or tracked; a session that was stopped at the door has labels alone."""
        return self.run is not None or self.released.find(f"{self.session.id}/certificate.json") is not None


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
        subjects = _subjects(held, ledger, released, records, subject)
        named = [replace(checked_session, test=test, key=key) for checked_session in subjects]
        checks += [*_strangers(records)] if own_store(home) else []
    except OtherVersion:  # it was not tampered with, but upgraded
        raise
    except EnvironmentFailed as failed:
        detail = f"no session is checked without it: {failed}"
        failing = Check(name="MLflow store", ok=False, detail=detail, made=own_store(home))  # a server shows no change
        return [*checks, *of_home(HomeContents(home), ledger), failing]
    checks += of_home(held, ledger)
    for name in sorted(held.unpublished(ledger) & {checked_session.session.id for checked_session in named}):
        detail = unfinished_in_words(ledger.session(name))
        checks.append(Check(name=f"{name}: unfinished", ok=True, warning=True, detail=detail))
    return [*checks, *_of_sessions(named, ledger, released)]


def _of_sessions(subjects: list[CheckedSession], ledger: Ledger, released: Released) -> Iterator[Check]:
    """Checks of each session: what it released is on record; its published folder holds, as a stranger checks it; and
    MLflow shows what was published."""
    certificates = Certificates([subject.session.id for subject in subjects if subject.published], ledger, released)
    for subject in subjects:
        name = subject.session.id
        yield checked(f"{name}: on record", partial(committed, subject))
        if not subject.published:  # its settings must prove the claim that the folder would show
            claim = subject.session.epsilon, subject.session.delta
            yield checked(f"{name}: guarantee", partial(proved, subject.session.mechanism, claim))
        else:
            on_record = checked(f"{name}: certificate on record", partial(certificates.check, name))
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
            results = {check: checked(f"{name}: {check}", run) for check, run in checks.items()}
            signed = results["ledger excerpt"].ok and results["signature"].ok
            yield from results.values()
        else:  # whoever changed them may have made their checks endless
            yield from limited((VERIFY_FOLDER, (str(at.folder), subject.test, subject.key)))
    if subject.session.purpose != LABELS:  # answers have a certificate alone
        return
    latest = released.find(f"{name}/{CERTIFICATE_FILE}")
    shown = {} if subject.run is None else logged_digests(subject.run.tags)
    behind = signed and subject.latest and latest is not None and shown.get(CERTIFICATE_FILE) != latest.digest
    behind = behind and shown.get(KEY_FILE) == at.digest(at.path(KEY_FILE))  # else somebody else signed since
    if subject.run is None and name in subject.ledger.forgotten(subject.session.domain):
        yield Check(name=f"{name}: MLflow", ok=True, warning=True, detail=LOST)
        return
    recorded = replace(subject, latest=subject.latest and not behind)
    for check, run in IN_MLFLOW.items():
        yield checked(f"{name}: {check}", partial(run, recorded))
    if behind:
        yield Check(name=f"{name}: MLflow's turn", ok=True, warning=True, detail=BEHIND)


def _is_signed(at: PublishedSession) -> bool:
    """Whether certificate and excerpt, by which all else is checked, are what the published key signed."""
    try:
        return bool(at.signed_excerpt(None).entries)
    except NotVerified:
        return False


def _strangers(records: "Records") -> Iterator[Check]:
    """Name the runs in the home's MLflow that no session made: readers assume that all of it is published."""
    if strangers := records.strangers():
        more = f" and {len(strangers) - SHOWN} more" if len(strangers) > SHOWN else ""
        yield Check(name="MLflow's runs", ok=False, detail=f"{FOREIGN} {', '.join(strangers[:SHOWN])}{more}")


def _rule(ledger: Ledger) -> Check:
    """Check every amount and step of the ledger against its rule, recomputed from its records."""
    records = ledger.records()
    faults = list(ledger_faults(records))
    if faults:
        more = f" (and {len(faults) - SHOWN} more)" if len(faults) > SHOWN else ""
        return Check(name="ledger rule", ok=False, detail="; ".join(faults[:SHOWN]) + more)
    detail = f"every charge, opening and settlement of {len(records)} entries is what the rule says"
    return Check(name="ledger rule", ok=True, detail=detail)


def _subjects(
    held: HomeContents, ledger: Ledger, released: Released, records: "Records", subject: str | None
) -> Iterator[CheckedSession]:
    """The sessions to verify. Those of other homes are verified there, where their files are; one that the ledger does
    not know cannot be."""
    elsewhere = held.unknown(ledger) | held.others(ledger)
    everywhere = [session for domain in ledger.domains() for session in ledger.sessions(domain.name)]
    here = {session.id: session for session in everywhere if session.id not in elsewhere}
    if subject in elsewhere:
        return
    if subject is None or subject in here:
        for session in here.values() if subject is None else [here[subject]]:
            latest = next(iter(records.runs(session.id)), None)
            run = records.recorded(latest) if latest else None
            yield CheckedSession(session, ledger, released, run, latest=True)
        return
    run = records.recorded(subject)
    name = "" if run is None else run.tags.get("session", "")
    if name in elsewhere:
        return
    if name not in here:
        raise WrongInput(f"there is no session and no run {subject!r}: `concord budget` lists the sessions")
    yield CheckedSession(here[name], ledger, released, run, latest=records.runs(name)[:1] == [subject])


def verify_kept(home: Path, kept: Path, key: str | None = None) -> list[Check]:
    """Check that the home's ledger holds all entries that an earlier certificate was signed with.

    kept   a published folder, or a copy of it; certificate, excerpt, key and attestation are enough
    Of the vault, only the secret that hides entries in excerpts is read. Raises WrongInput if there is no certificate.
    """

    def check() -> str:
        at = PublishedSession.at(kept)
        excerpt = at.signed_excerpt(key)
        if not (home / "vault" / "secrets" / EXCERPT_SECRET).is_file():
            raise NotVerified("the vault lacks the secret that opens what an excerpt commits to")
        ledger = Ledger.of(home)
        ledger.verify()
        excerpt.check_ledger(ledger.records(), hiding(home))
        return (
            f"the ledger holds the {len(excerpt.entries)} entries that session {at.certificate.session} was signed with"
        )

    return [checked("kept certificate", check)]


def of_home(held: HomeContents, ledger: Reading) -> list[Check]:
    """The checks of what the home holds, and of the sessions that the ledger knows and this home never opened."""
    name, denials, others = "the home's sessions", [*held.denied_by(ledger)], held.others(ledger)
    if denials:
        checks = [Check(name=name, ok=False, detail=f"{'; '.join(denials)}: {AGAIN}")]
    else:
        checks = [Check(name=name, ok=True, detail="the ledger knows every session that the home holds")]
    if others:
        detail = f"the ledger serves other homes as well: verify there {named_in_words(others)}"
        checks.append(Check(name="other homes", ok=True, warning=True, detail=detail))
    return checks


def committed(subject: CheckedSession) -> str:
    """Check that the session's released files are those the ledger committed, and that no other one holds an answer."""
    session, released = subject.session.id, subject.released
    listed = {name: [*(released.root / session / name).parent.glob("*")] for name in BY_BATCH}
    batches = subject.ledger.batches(session)  # after the files, which come before their entries
    refs = [batch.outcome.released for batch in batches if batch.outcome]
    for ref in refs:
        released.read(ref)
    for name, content in BY_BATCH.items():
        pending = {f"{session}/{name.format(batch.index)}" for batch in batches if batch.outcome is None}
        paths = {file.relative_to(released.root).as_posix() for file in listed[name]}
        for path in sorted(paths - pending - {ref.path for ref in refs}):
            if holds_answers(released, path):
                raise NotVerified(
                    f"the released file {path} {content} that the ledger never committed: it was cut back"
                )
    return f"{len(refs)} files are as committed"


def run_files(subject: CheckedSession) -> str:
    """Certificate, report and figures: MLflow's copies, and the released files, are as they were logged."""
    run = _run(subject)
    logged = logged_digests(run.tags)
    for name, digest in logged.items():
        if run.files.get(name) != digest:
            raise NotVerified(f"MLflow's file {name} is not what was logged")
        released = subject.released.find(f"{subject.session.id}/{name}")
        if subject.latest and (released is None or released.digest != digest):
            raise NotVerified(f"the released file {subject.session.id}/{name} is not what was logged")
    for name in run.files.keys() - logged.keys():
        raise NotVerified(f"MLflow's file {name} was never logged")
    return f"{len(logged)} files are as logged"


def model(subject: CheckedSession) -> str:
    """The student is registered as it was logged, under the certificate's words and tags, and is the one it digests."""
    run = _run(subject)
    certificate = _certificate(run)
    if certificate.versions["concord"] == __version__:  # another one words it otherwise
        equal("the registered model's description", run.model_description, guarantee_text(certificate))
    _all_equal("model tag", run.model_tags, tags(certificate))
    if run.model_files.get(MODEL_FILE) != certificate.student.file.digest:
        raise NotVerified(f"the registered model's {MODEL_FILE} is not the student that was certified")
    if listing(run.model_files) != run.model_tags.get("digest.model"):
        raise NotVerified("the registered model's folder is not what was registered")
    return f"{len(run.model_files)} files are as registered, and the student is the certified one"


def run_figures(subject: CheckedSession) -> str:
    """The guarantee and the figures that MLflow shows are the certificate's, and its guarantee is the ledger's."""
    run = _run(subject)
    certificate = _certificate(run)
    content, epsilon = content_of(certificate), subject.session.epsilon
    equal("MLflow's guarantee", certificate.leading.guarantee.epsilon, epsilon)
    note = {NOTE: guarantee_text(certificate)} if certificate.versions["concord"] == __version__ else {}
    _all_equal("tag", run.tags, {**tags(certificate), **note})
    equal("MLflow's parameter", run.params, content.params)
    equal("MLflow's metric", {name: run.metrics[name] for name in run.metrics.keys() - {*SERIES}}, content.metrics)
    for name in SERIES:
        if name.startswith("epsilon") and not 0 <= run.metrics.get(name, 0) <= epsilon:
            raise NotVerified(f"MLflow's series {name} passes the guarantee")
    by_release = next((accuracy.value for accuracy in certificate.student.history[-1:]), None)
    equal("MLflow's series accuracy_by_release", run.metrics.get("accuracy_by_release"), by_release)
    return f"{len(content.metrics)} metrics, the parameters and the tags are as certified"


def _all_equal(kind: str, shown: Mapping[str, object], certified: Mapping[str, object]) -> None:
    for name, value in certified.items():
        equal(f"MLflow's {kind} {name}", shown.get(name), value)


def _run(subject: CheckedSession) -> Recorded:
    if subject.run is None:
        raise NotVerified(
            f"MLflow has no finished run of session {subject.session.id}: a run of its plan records it again, and "
            "spends nothing"
        )
    return subject.run


def _certificate(run: Recorded) -> Certificate:
    return Certificate.read(run.certificate, "MLflow's certificate.json")


IN_MLFLOW: dict[str, Callable[[CheckedSession], str]] = {
    "report and figures": run_files,
    "model": model,
    "MLflow": run_figures,
}
"""The checks of what MLflow shows of a published session."""

"""Describe: the content of a session's certificate, from the ledger as of one moment.

Its figures of a private test follow from the released noisy counts and nothing else. A session in which shards answer
questions has a certificate of its own kind, without a student.

Assumes      the ledger's record is complete; labels are those it names, and those of rows that were not asked
Guarantees   nothing here reads the vault: the content is a function of what was published before
Not covered  whether the guarantee is right: tasks.verify.verify recomputes it. Checked by
             tests/tasks/verify/test_verify_certificate.py and tests/tasks/publish/test_certify.py
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from concord import __version__
from concord.artifacts.answers import AnswerRecord, AnswersCertificate
from concord.artifacts.certificate import (
    CERTIFICATE_FORMAT,
    FIRST_FORMAT,
    OPENED,
    SECOND_FORMAT,
    Beside,
    Certificate,
    CertificateFormat,
    ChoiceRecord,
    Counts,
    MechanismRecord,
    RelabellingRecord,
    Stated,
    library_versions,
    promised_together,
)
from concord.artifacts.domains import Domain
from concord.artifacts.errors import NotVerified
from concord.artifacts.guarantee import (
    CAVEATS,
    LABELS_ALONE,
    LOST_WITNESS,
    PRECHECKED,
    RELABELLED,
    UNWITNESSED,
    WITNESSED,
    DomainCharge,
    Guarantee,
    faulty_caveat,
    linked_caveat,
)
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.reading import Reading, choices_of, trials_of
from concord.artifacts.measures import ClassTested, ConfusionMatrix, Interval, TestRecord, warnings_of
from concord.artifacts.parts import LEARNING, TEST
from concord.artifacts.schemas import Budget, Ref
from concord.artifacts.sections import TALLIES
from concord.artifacts.sessions import NEIGHBOURS, Session
from concord.artifacts.vulnerabilities import concerning, older, oldest
from concord.tasks.mechanisms.adaptive_adversary import GAME_FOR_NOTHING, GAME_PROOF
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.mechanism import mechanism_class
from concord.tasks.mechanisms.private_test import LEVEL, Measured, Measures, PrivateTest
from concord.tasks.mechanisms.queries import FORMS
from concord.tasks.mechanisms.relabelled import RELABELLED_PROOF
from concord.tasks.mechanisms.student_choice import level_for
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.publish.outcomes import classes_named

SINGLE = {form.name: form for form in FORMS.values()}
WITH_PARTS = "0.2.0"
"""The first version whose certificates name parts of units."""
MOST_COUNTS_LISTED = 20
"""Most classes for which a certificate lists all noisy counts of a test; the released file always has them."""


def describe(
    session_id: str,
    labels: Sequence[Ref],
    counts: Counts,
    stated: Stated,
    beside: Mapping[str, Sequence[Ref]],
    ledger: Reading,
    released: Released,
    by: str = __version__,
    form: CertificateFormat = CERTIFICATE_FORMAT,
) -> Certificate:
    """The certificate of a session by `ledger`; `labels` and `beside` as in `certify`.

    Raises NotVerified if the released file of a test is not what was written.

    by     the version of Concord that writes it, which decides the caveats it knows
    form   the format of the certificate
    """
    session = ledger.session(session_id)
    domain, choice = ledger.domain_of(session), ledger.choice(session)
    name, guarantee = str(session.mechanism["name"]), Guarantee.of(domain, session)
    others = [Beside.of(ledger.session(other), files) for other, files in beside.items()]
    sessions = [session, *map(ledger.session, beside)]
    student, test = stated.student, latest_test(session, stated.student.file, ledger, released, form)
    labelled = tuple(file for file in labels if session.teachers or file.path.endswith("/labels.arrow"))
    learned = classes_named(labelled, released) if labelled and student.public_test is None else None
    return Certificate(
        format=form,
        session=session.id,
        data_version=session.data_version,
        about=stated.about,
        guarantee=guarantee,
        mechanism=MechanismRecord(name=name, settings=session.mechanism, proof=proof_of(session.mechanism)),
        relabelling=RelabellingRecord.of([session.mechanism for session in sessions]),
        teachers=session.teachers,
        counts=counts,
        noise=stated.noise,
        expected=stated.expected,
        domain=domain_charge(domain, ledger),
        labels=tuple(labels),
        caveats=caveats(domain, sessions, ledger, by, form),
        features=stated.features,
        student=student,
        choice=None if choice is None else ChoiceRecord.of(*choice, released.read(choice[1])),
        test=test,
        warnings=warnings_of(student.public_test, test, learned, student.named, asked=counts.of_rows)
        if form == CERTIFICATE_FORMAT
        else (),
        beside=tuple(others),
        together=promised_together(guarantee, others, claims_of_tests(sessions, ledger)),
        versions={**library_versions(), OPENED: oldest(sessions)},
    )


def form_of(by: str, claimed: CertificateFormat) -> CertificateFormat:
    """The format in which that version wrote a certificate: the claimed one if it could write that, else its latest."""
    if older(by, WITH_PARTS):
        return FIRST_FORMAT
    return SECOND_FORMAT if claimed == SECOND_FORMAT else CERTIFICATE_FORMAT


def domain_charge(domain: Domain, ledger: Reading) -> DomainCharge:
    """The charges of a domain for each of its sessions, by `ledger`."""
    sessions = ledger.sessions(domain.name)
    divided = ledger.division(domain.name) is not None
    parts = {session.id: ledger.part_of(session.id) for session in sessions} if divided else None
    return DomainCharge.of(domain, sessions, ledger.lost(domain.name), parts)


def caveats(
    domain: Domain,
    sessions: Sequence[Session],
    ledger: Reading,
    by: str = __version__,
    form: CertificateFormat = CERTIFICATE_FORMAT,
) -> tuple[str, ...]:
    """The caveats of a certificate of these sessions of a domain, by `ledger`; those that version `by` knew, in the
    format `form`."""
    known = {item.name for session in sessions for item in concerning(session, domain) if not older(by, item.fixed)}
    faulty = (faulty_caveat(oldest(sessions), sorted(known)),) if known else ()
    labels = (LABELS_ALONE,) if domain.neighbours == NEIGHBOURS["labels"] else ()
    relabelled = (RELABELLED,) if any("relabel" in session.mechanism for session in sessions) else ()
    others = ledger.linked(domain.name)
    links = (linked_caveat(domain, others),) if others else ()
    lost = (LOST_WITNESS,) if ledger.lost_its_witness else ()
    shown = (PRECHECKED,) if form == CERTIFICATE_FORMAT else ()
    witness = WITNESSED if ledger.witnessed else UNWITNESSED
    return (*faulty, *labels, *relabelled, *links, *CAVEATS, *shown, *lost, witness)


def proof_of(settings: Mapping[str, Any]) -> str:
    """Where the guarantee of a session with these settings is proved."""
    if settings["name"] in SINGLE:
        return SINGLE[settings["name"]].proof
    if settings["name"] == Universal.name:
        return Universal.proof
    if settings["name"] == TALLIES:
        return Tallies.proof
    proof = mechanism_class(settings["name"]).proof
    if settings.get("accountant") == "game":
        proof = f"{proof}; {GAME_PROOF}"
    if settings.get("planned_accountant") == "game":
        proof = f"{proof}; {GAME_FOR_NOTHING}"
    return f"{proof}; {RELABELLED_PROOF}" if "relabel" in settings else proof


def latest_test(
    learned: Session, student: Ref, ledger: Reading, released: Released, form: CertificateFormat
) -> TestRecord | None:
    """The latest test of exactly this student, by `ledger`; None if there is none."""
    everything = ledger.sessions(learned.domain)
    its_own = [item for item in trials_of(everything, learned.id) if item.mechanism["student"] == student.digest]
    done = [(item, batch.outcome.released) for item in its_own for batch in ledger.batches(item.id) if batch.outcome]
    if not done:
        return None
    session, file = done[-1]
    before = everything[: everything.index(session)]
    among = max(1, sum(len(choice.mechanism["candidates"]) for choice in choices_of(before, learned.id)))
    found = record(session, file, released.read(file), earlier=ledger.looks_before(session), among=among)
    return found if form == CERTIFICATE_FORMAT else found.model_copy(update={"majority": None, "matrix": None})


def record(session: Session, file: Ref, text: bytes, *, earlier: int, among: int) -> TestRecord:
    """The record of a test, from its released counts."""
    result = json.loads(text)
    noisy = [result["right"], result["wrong"], *(count for row in result["matrix"] for count in row)]
    mechanism, matrix = PrivateTest.from_settings(session.mechanism), result["matrix"]
    found = Measures.of(mechanism, noisy, level_for(among, LEVEL))
    classes = zip(result["classes"], found.recall, found.precision, strict=True)
    return TestRecord(
        session=session.id,
        guarantee=Budget(epsilon=session.epsilon, delta=session.delta),
        file=file,
        share=session.mechanism["share"],
        clean=session.mechanism["clean"],
        earlier=earlier,
        among=among,
        level=LEVEL,
        rows=found.rows,
        accuracy=_interval(found.accuracy),
        balanced_accuracy=_interval(found.balanced_accuracy),
        majority=_majority(matrix),
        matrix=tuple(map(tuple, matrix)) if len(matrix) <= MOST_COUNTS_LISTED else None,
        classes=tuple(
            ClassTested(name=name, recall=_interval(recall), precision=_interval(precision))
            for name, recall, precision in classes
        ),
    )


def _majority(matrix: ConfusionMatrix) -> float | None:
    """The share of the largest class by noisy counts; None if no count is positive."""
    of_class = [max(0, sum(row)) for row in matrix]
    return max(of_class) / sum(of_class) if any(of_class) else None


def claims_of_tests(sessions: Sequence[Session], ledger: Reading) -> list[tuple[Budget, bool]]:
    """The claims of all tests of, and choices among, students of these sessions, each with whether it uses no unit that
    the sessions use."""
    learning = all(ledger.part_of(session.id) == LEARNING for session in sessions)
    return [
        (Budget(epsilon=test.epsilon, delta=test.delta), learning and ledger.part_of(test.id) == TEST)
        for test in tests_of(sessions, ledger)
    ]


def tests_of(sessions: Sequence[Session], ledger: Reading) -> list[Session]:
    """All tests of, and choices among, students of these sessions."""
    everything = ledger.sessions(sessions[0].domain)
    return [
        test
        for session in sessions
        for test in (*choices_of(everything, session.id), *trials_of(everything, session.id))
    ]


def answers_of(ledger: Reading, session: str) -> list[Ref]:
    """The released files of a session's questions, in their order."""
    return [batch.outcome.released for batch in ledger.batches(session) if batch.outcome]


def describe_answers(
    session_id: str, answers: Sequence[Ref], ledger: Reading, released: Released, by: str = __version__
) -> AnswersCertificate:
    """The certificate of these answers of a session, by `ledger`; version `by` of Concord writes it.

    Raises NotVerified if a file is not what was released.
    """
    session = ledger.session(session_id)
    domain, name = ledger.domain_of(session), str(session.mechanism["name"])
    records = tuple(record_of(file, json.loads(released.read(file))) for file in answers)
    outcomes = Counter(record.outcome == "refused" for record in records)
    return AnswersCertificate(
        session=session.id,
        data_version=session.data_version,
        guarantee=Guarantee.of(domain, session),
        mechanism=MechanismRecord(name=name, settings=session.mechanism, proof=proof_of(session.mechanism)),
        shards=session.teachers,
        counts=Counts(asked=len(records), answered=outcomes[False], refused=outcomes[True], not_asked=0),
        domain=domain_charge(domain, ledger),
        answers=records,
        caveats=caveats(domain, [session], ledger, by),
        versions={**library_versions(), OPENED: oldest([session])},
    )


def record_of(file: Ref, released: dict[str, Any]) -> AnswerRecord:
    """The record of a released answer. Raises NotVerified if the file is no answer."""
    try:
        return AnswerRecord(file=file, **{name: released[name] for name in ("question", "code", "outcome", "answer")})
    except (KeyError, ValueError):
        raise NotVerified(f"the released file {file.path} is no answer to a question") from None


def _interval(found: Measured) -> Interval:
    return Interval(**asdict(found))

"""The stages and steps of tallies: private rows are asked in rounds, labels of public rows inferred, a student learned.

The stages come first. As in `flows.stages`, each takes a place and everything its result depends on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.flows.cache import Files, Place
from concord.flows.outcome import Summary
from concord.flows.run import Admitted, Balance, PublicStream, RunContext
from concord.flows.stage import Disclosure, DoorStage, mapped, stage
from concord.flows.stages import UNITS, Public, published
from concord.flows.steps import covered, find, publish, saying_room
from concord.tasks.advice.tallies import as_begun, check_columns, planned_codes, planned_tallies
from concord.tasks.asking import tally as asking_tally
from concord.tasks.data.codes import Codes, deepens
from concord.tasks.data.encode import PublicBatch, labelled_rows, read_frame
from concord.tasks.data.units import Erased
from concord.tasks.door import rounds as door_rounds
from concord.tasks.door.admit import check_going_on, planned_domain
from concord.tasks.door.checkpoint import Checkpoint
from concord.tasks.door.release import Stores
from concord.tasks.door.rounds import TalliedSession
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.student import study as student_study
from concord.tasks.student.decode import Decoded
from concord.tasks.student.evaluate import keep_table_path
from concord.tasks.student.infer import (
    Follower,
    RoundFile,
    inferred,
    linear_student,
    public_codes,
    public_rows,
    soft_labels,
    tried,
)
from concord.tasks.student.study import Student


@stage("code", reads=("labeling.bins", "labeling.crosses", "privacy.epsilon"))
def code(place: Place, plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch]) -> Codes:
    """Learn the codes of rows from the staged public rows."""
    return planned_codes(plan, encoding, (read_frame(batch.ref, place.vault) for batch in batches))


@stage("gather", version=2, reads=UNITS)
def gather(
    place: Place, plan: Plan, table: Files, encoding: Encoding, codes: Codes, erased: Sequence[str]
) -> list[Ref]:
    """Write private rows as codes and classes, whole units together."""
    vault, domain = place.vault, plan.privacy.domain
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, secret = f"units/{domain}/{place.key[:16]}", place.secret(domain, "split")
    return list(asking_tally.gather(placed, encoding, codes, vault, folder, secret, left_out))


@stage("gather", version=2, reads=UNITS)
def recode(
    place: Place,
    plan: Plan,
    table: Files,
    encoding: Encoding,
    codes: Codes,
    erased: Sequence[str],
    units: Sequence[Ref],
) -> list[Ref]:
    """Write private rows by codes learned from released rounds, in the folder of `units`' sums, to go with them."""
    vault, domain = place.vault, plan.privacy.domain
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, secret = f"{asking_tally.sums_folder(units[0])}/{place.key[:16]}", place.secret(domain, "split")
    return list(asking_tally.gather(placed, encoding, codes, vault, folder, secret, left_out))


@mapped("tally")
def tally(place: Place, block: Ref, question: Mapping[str, Any]) -> Ref:
    """The sum over the units of one block that answers a question."""
    path = f"{asking_tally.sums_folder(block)}/{place.key}.npy"
    return asking_tally.count(block, RoundQuestion.from_record(dict(question)), place.vault, path)


def _release_round(
    door: Stores,
    session: Session,
    follower: Follower,
    released: Sequence[RoundFile],
    question: RoundQuestion,
    blocks: Sequence[Ref],
) -> Ref:
    follow = partial(follower.follow, released, question)
    return door_rounds.release_round(door, session, follower.mechanism, len(released), question, blocks, follow)


release_round = DoorStage("release", _release_round)
"""The door of one round."""


@stage("infer")
def infer(
    place: Place,
    session: str,
    last: Ref,
    encoding: Encoding,
    codes: Codes,
    batches: Sequence[PublicBatch],
    claim: Mapping[str, str],
) -> Ref:
    """Labels and scores of all public rows, by the model decoded from the last round."""
    decoded = Decoded.from_record(json.loads(place.released.read(last))["decoded"])
    rows = public_codes(batches, codes, place.vault)
    return place.released.write(f"{session}/labels.arrow", inferred(decoded, rows, encoding, session, claim))


@stage("study", version=3)
def study_linear(
    place: Place, session: str, last: Ref, encoding: Encoding, codes: Codes, test: Files | None
) -> Student:
    """Publish the decoded model as the student, measured on public test rows at both operating points."""
    decoded = Decoded.from_record(json.loads(place.released.read(last))["decoded"])
    student = linear_student(decoded, encoding, codes)
    found, figures = (None, dict[str, float]()) if test is None else tried(student, codes, test.path, encoding)
    if found is not None and test is not None:
        keep_table_path(place.home, found, test.path)
    made = student_study.publish_student(student, session, found, place.released)
    return made.model_copy(update={"figures": figures})


@stage("study", version=4, reads=("student",))
def study_inferred(
    place: Place,
    session: str,
    plan: Plan,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    labels: Ref,
    test: Files | None,
) -> Student:
    """Learn the student from inferred labels, measure it on public test rows, and publish its file."""
    targets = soft_labels(place.released.labels([labels]), len(encoding.classes))
    student = student_study.study_inferred(plan.student, encoding, batches, targets, place.vault)
    return published(place, student, session, encoding, batches, test)


def rehearse_tallies(run: RunContext, encoding: Encoding) -> None:
    """Raise WrongInput now, while nothing is spent, if codes, student or test table would fail later."""
    check_columns(run.plan, encoding)
    for student in run.plan.student.each:
        if student.learner == "fitted":
            student_study.rehearse_student(student.model_copy(update={"refused": "soft"}), encoding)
    if run.plan.data.test is not None:
        labelled_rows(run.plan.path("test"), encoding)


def admit_tallies(run: RunContext, public: Public, codes: Codes) -> Admitted[TalliedSession]:
    """The plan's session of rounds: the open one, or a new one that may be opened. Raises BudgetRefused."""
    domain, rows = planned_domain(run.stores, run.plan), sum(batch.rows for batch in public.batches)
    tallied = TalliedSession(planned_tallies(run.plan, codes, rows), codes.digest)
    asked = tallied.asked(run.plan, public.encoding, public.batches, run.stores.vault)
    return saying_room(covered(run, find(run, public, domain, tallied, asked)))


def follower_of(run: RunContext, admitted: Admitted[TalliedSession], codes: Codes, units: Sequence[Ref]) -> Follower:
    """The source of a session's questions: the public rows, or the features of its units if those are public.

    units   the files of `gather`
    """
    mechanism, vault = admitted.mechanism.mechanism, run.stores.vault
    if run.plan.privacy.secret == "labels":
        rows, found = asking_tally.known_codes(units, codes, vault)
        if found:
            return Follower(mechanism, codes, rows, found)
    batches = admitted.stream.batches
    rows = public_codes(batches, codes, vault)
    if mechanism.secret == "rows" and deepens(codes):
        return Follower(mechanism, codes, rows, public=lambda: public_rows(batches, vault))
    return Follower(mechanism, codes, rows, None if mechanism.secret == "rows" else 1)


def release_rounds(
    run: RunContext,
    session: Session,
    follower: Follower,
    units: Sequence[Ref],
    sums: Sequence[Ref],
    coded: Callable[[Codes], Sequence[Ref]],
) -> Disclosure:
    """Pass round after round through the door, the first with `sums`: drawn once and published, or replayed.

    coded   the private rows by codes that were learned from earlier rounds, as `recode` writes them
    """
    released, counted, asked_now = list[Ref](), list(sums), 0
    while True:
        published = [json.loads(run.stores.released.read(ref)) for ref in released]
        question = follower.question(published)
        if released:
            codes = follower.codes_after(published)
            counted = tally(run, units if codes is follower.codes else coded(codes), question.record())
        passed = release_round(run, session, follower, published, question, counted)
        released, session, asked_now = [*released, *passed.released], passed.session, asked_now + passed.asked_now
        if len(released) == len(follower.mechanism.rounds):
            run.stores.released.restamp(released)  # a file's time would show how long later rounds took to count
            return replace(passed, released=released, asked_now=asked_now)


def last_codes(run: RunContext, follower: Follower, passed: Disclosure) -> Codes:
    """The codes of the last round's question."""
    return follower.codes_after([json.loads(run.stores.released.read(ref)) for ref in passed.released[:-1]])


def go_on_tallies(run: RunContext, session: Session, checkpoint: Checkpoint) -> tuple[Admitted[TalliedSession], Codes]:
    """An open session, admitted again, and its codes. Raises NotVerified if it would not go on as it began."""
    ledger, encoding, own = run.stores.ledger, checkpoint.encoding, checkpoint.sources[0].batches
    codes, begun = code(run, run.plan, encoding, own), as_begun(run.plan, session.mechanism)
    tallied = TalliedSession(planned_tallies(begun, codes, sum(batch.rows for batch in own)), codes.digest)
    check_going_on(run.stores.vault, session, tallied)
    asked, balance = (
        tallied.asked(run.plan, encoding, own, run.stores.vault),
        Balance.of(run, ledger.domain_of(session)),
    )
    stream = PublicStream.of(run, session, encoding, checkpoint.sources)
    return Admitted(balance, tallied, asked, stream, session), codes


def rounds_replayed(run: RunContext, session: Session) -> Disclosure:
    """The rounds as they were released. Raises WrongInput if some are still to be asked."""
    batches = run.stores.ledger.batches(session.id)
    released = [batch.outcome.released for batch in batches if batch.outcome is not None]
    if len(released) < (session.queries or 0):
        raise WrongInput(f"session {session.id} has rounds left to ask: run its plan, which asks them")
    return Disclosure(session, released, 0, datetime.now(UTC))


def study_tallies(
    run: RunContext, admitted: Admitted[TalliedSession], codes: Codes, passed: Disclosure, labels: Ref, where: str
) -> Student:
    """The student: the decoded model, or one fitted to inferred labels; `where` is the path of its released file."""
    stream = admitted.stream
    if run.plan.student.learner == "linear":
        return study_linear(run, where, passed.released[-1], stream.encoding, codes, run.test)
    return study_inferred(run, where, run.plan, stream.encoding, stream.batches, labels, run.test)


def labels_of(run: RunContext, admitted: Admitted[TalliedSession], codes: Codes, passed: Disclosure) -> Ref:
    """The labels of all public rows, inferred from the last round."""
    stream, claim = admitted.stream, label_claim(admitted, passed)
    return infer(run, passed.session.id, passed.released[-1], stream.encoding, codes, stream.batches, claim)


def publish_tallies(
    run: RunContext, admitted: Admitted[TalliedSession], codes: Codes, passed: Disclosure, labels: Ref, student: Student
) -> Summary:
    """Publish the outcome of the rounds. Returns the summary, with the number of rows labelled."""
    summary = publish(run, admitted, replace(passed, released=[*passed.released, labels]), student, codes=codes)
    figures = {"inferred": admitted.stream.rows, "student": {**summary.student, **student.figures}}
    return summary.model_copy(update=figures)


def label_claim(admitted: Admitted[TalliedSession], passed: Disclosure) -> dict[str, Any]:
    """The guarantee of inferred labels, for the metadata of their table."""
    session, domain = passed.session, admitted.balance.domain
    return {
        "session": session.id,
        "epsilon": repr(session.epsilon),
        "delta": repr(session.delta),
        "unit": domain.unit,
        "neighbours": domain.neighbours,
        "mechanism": str(session.mechanism["name"]),
    }

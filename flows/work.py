"""The stages: each takes a place and what its result depends on, and returns small references."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from prefect import task

from concord.artifacts.home.vault import owner
from concord.artifacts.mlflow.write import Tracked, Tracking
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sections import StudentPlan, TeachersPlan
from concord.artifacts.sessions import Session
from concord.flows.keys import Files, Place, Public
from concord.flows.stage import stage
from concord.tasks.asking import relabel as asking_relabel
from concord.tasks.asking import teachers as asking_teachers
from concord.tasks.asking.relabel import RelabelledRows
from concord.tasks.data import encode as data_encode
from concord.tasks.data import split as data_split
from concord.tasks.data.encode import PublicBatch
from concord.tasks.data.units import Erased
from concord.tasks.door import choose as door_choose
from concord.tasks.door import release as door_release
from concord.tasks.door.checkpoint import PublicSource, votes_folder
from concord.tasks.door.choose import HeldOut, UniversalChoice
from concord.tasks.door.release import Stores
from concord.tasks.mechanisms.hypotheses.dichotomies import HypothesisClass
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.relabelled import Relabelling
from concord.tasks.publish import certify as publish_certify
from concord.tasks.publish import track as publish_track
from concord.tasks.publish.describe import Certified
from concord.tasks.student import study as student_study
from concord.tasks.student.study import Student, student_of


@stage("encode")
def encode(place: Place, plan: Plan, table: Files) -> Public:
    """Learn the encoding from public rows and stage them in batches."""
    encoding = data_encode.learn_encoding(table.of(plan, "public"))
    folder = f"public/{place.key[:16]}"
    batches = data_encode.stage_public(table.path, encoding, place.vault, folder, plan.labeling.batch)
    return Public(encoding=encoding, batches=list(batches))


@stage("encode")
def put(place: Place, table: Files, encoding: Encoding, rows: int) -> PublicSource:
    """Stage further public rows, from one file, in batches of `rows`."""
    folder = f"public/{place.key[:16]}"
    batches = data_encode.stage_public(table.path, encoding, place.vault, folder, rows, field="--public")
    return PublicSource(path=table.path, digests=table.digests, batches=batches)


@stage("split", version=2)
def split(
    place: Place,
    plan: Plan,
    table: Files,
    encoding: Encoding,
    erased: Sequence[str],
    share: float | None,
    aside: float | None,
) -> list[Ref]:
    """Assign every unit that was not erased, or those of a secret subset, to a shard; one file a block of shards."""
    vault, domain = place.vault, plan.privacy.domain
    folder, secret = f"shards/{domain}/{place.key[:16]}", place.secret(domain, "split")
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    return list(data_split.split(placed, encoding, vault, folder, secret, share, aside=aside, erased=left_out))


@stage("relabel", version=2)
def relabel(
    place: Place, plan: Plan, blocks: Sequence[Ref], encoding: Encoding, space: HypothesisClass, settings: Relabelling
) -> RelabelledRows:
    """Label the secret subset by one hypothesis, chosen once; one file a block of shards."""
    domain = plan.privacy.domain
    folder, secret = f"relabelled/{domain}/{place.key[:24]}", place.secret(domain, "resample")
    return asking_relabel.relabel(blocks, plan.teachers, encoding, space, settings, place.vault, folder, secret)


@stage("teach")
def teach(place: Place, block: Ref, shards: Sequence[int], plan: TeachersPlan, encoding: Encoding) -> Ref:
    """Train one teacher a shard, for one block of shards."""
    path = f"teachers/{owner(block)}/{place.key[:16]}/{shards[0]:06d}"
    return asking_teachers.teach(block, range(*shards), plan, encoding, place.vault, path)


@stage("poll")
def poll(place: Place, batch: PublicBatch, teachers: Sequence[Ref], encoding: Encoding) -> Ref:
    """Count all teachers' votes on one batch of public rows."""
    path = f"{votes_folder(place.vault, teachers)}/{place.key}"
    return asking_teachers.poll(batch, tuple(teachers), encoding, place.vault, path)


@task(name="release", persist_result=False)
def release(
    home: Path,
    session: Session,
    mechanism: Mechanism,
    classes: Sequence[str],
    batches: Sequence[PublicBatch],
    votes: Sequence[Ref],
) -> list[Ref]:
    """The door. Never cached: the ledger alone knows what was released, and replays it."""
    return door_release.release(Stores.of(home), session, mechanism, classes, batches, votes)


@stage("count", version=2)
def count(
    place: Place,
    plan: Plan,
    table: Files,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    erased: Sequence[str],
) -> Ref:
    """Count the errors of every candidate for the student on the private rows, but those of erased units."""
    vault, domain = place.vault, plan.privacy.domain
    candidates = UniversalChoice.of(plan, encoding, batches, vault).candidates
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, secret = f"counts/{domain}/{place.key[:16]}", place.secret(domain, "split")
    return door_choose.count_errors(placed, encoding, candidates, vault, folder, secret, left_out)


@stage("measure")
def measure(place: Place, block: Ref, shards: Sequence[int], plan: TeachersPlan, encoding: Encoding) -> Ref:
    """Try the teachers of one block of shards on the rows set aside in each."""
    path = f"measured/{owner(block)}/{place.key[:20]}/{shards[0]:06d}"
    return door_choose.measure(block, range(*shards), plan, encoding, place.vault, path)


@task(name="release estimate", persist_result=False)
def release_estimate(home: Path, session: Session, held_out: HeldOut, measured: Sequence[Ref]) -> Ref:
    """The door of an estimate. Never cached, as `release`."""
    return door_choose.release_estimate(Stores.of(home), session, held_out, measured)


@task(name="choose", persist_result=False)
def choose(
    home: Path,
    session: Session,
    choice: UniversalChoice,
    batches: Sequence[PublicBatch],
    counts: Ref,
    classes: Sequence[str],
) -> Ref:
    """The door of a choice. Never cached, as `release`."""
    return door_choose.choose(Stores.of(home), session, choice, batches, counts, classes)


@stage("study", version=2)
def study_chosen(place: Place, session: str, encoding: Encoding, chosen: Ref, test: Files | None) -> Student:
    """The student that a released hypothesis is, tried on public test rows, and its file."""
    return _published(place, student_of(place.released.read(chosen), encoding), session, encoding, test)


@stage("study", version=2)
def study(
    place: Place,
    session: str,
    plan: StudentPlan,
    teachers: int,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    labels: Sequence[Ref],
    test: Files | None,
) -> Student:
    """Learn the student, try it on public test rows where there are any, and publish its file."""
    table = place.released.labels(labels)
    student = student_study.study(plan, encoding, batches, table, teachers=teachers, vault=place.vault)
    return _published(place, student, session, encoding, test)


def _published(place: Place, student: Any, session: str, encoding: Encoding, test: Files | None) -> Student:
    accuracy = None if test is None else student_study.evaluate(student, test.path, encoding)
    return student_study.publish_student(student, session, accuracy, place.released)


@stage("certify", version=2)
def certify(
    place: Place,
    plan: Plan,
    session: str,
    per_refusal: Cost | None,
    labels: Sequence[Ref],
    beside: Mapping[str, Sequence[Ref]],
    student: Student,
    ledger: Sequence[Any],  # noqa: ARG001  # what the ledger says now, so that the key digests it
) -> Certified:
    """Write certificate and report."""
    door = Stores.of(place.home)
    return publish_certify.certify(
        plan,
        session,
        labels,
        student,
        beside=beside,
        per_refusal=per_refusal,
        ledger=door.ledger,
        released=door.released,
    )


@task(name="track", persist_result=False)
def track(
    home: Path,
    plan: Plan,
    certified: Certified,
    public: Public,
    per_refusal: Cost | None,
    started: datetime,
    studied: datetime,
    again: bool,
) -> tuple[Tracked, bool]:
    """Record the session in MLflow as begun at the door, unless it is there, or is to be recorded again; whether it was
    there. Never cached: MLflow alone knows."""
    door, tracking = Stores.of(home), Tracking.of(home)
    known = None if again else publish_track.recorded_run(plan.privacy.domain, certified, tracking)
    if known is not None:
        return known, True
    tracked = publish_track.track(
        plan,
        certified,
        public.encoding,
        public.batches,
        per_refusal=per_refusal,
        started=started,
        studied=studied,
        vault=door.vault,
        ledger=door.ledger,
        released=door.released,
        tracking=tracking,
    )
    return tracked, False

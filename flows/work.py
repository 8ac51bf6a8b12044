"""The Prefect tasks: each opens the home folder, calls its stage, and returns small references."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from prefect import task
from pydantic import BaseModel

from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault, derive, owner
from concord.artifacts.mlflow.write import Tracked, Tracking
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sections import TeachersPlan
from concord.artifacts.sessions import Session
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


class Public(BaseModel):
    """The public side: how rows become numbers, and the staged stream of public rows."""

    encoding: Encoding
    batches: list[PublicBatch]

    @property
    def rows(self) -> int:
        """How many public rows there are."""
        return sum(batch.rows for batch in self.batches)


@stage("encode")
def encode(key: str, home: Path, plan: Plan) -> Public:
    """Learn the encoding from public rows and stage them in batches."""
    encoding = data_encode.learn_encoding(plan)
    folder = f"public/{key[:16]}"
    vault = Vault(home / "vault")
    batches = data_encode.stage_public(plan.path("public"), encoding, vault, folder, plan.labeling.batch)
    return Public(encoding=encoding, batches=list(batches))


@stage("encode")
def put(key: str, home: Path, file: str, digest: str, encoding: Encoding, rows: int) -> PublicSource:
    """Stage further public rows, from one file, in batches of `rows`."""
    folder, vault = f"public/{key[:16]}", Vault(home / "vault")
    batches = data_encode.stage_public(file, encoding, vault, folder, rows, field="--public")
    return PublicSource(path=file, digests=(digest,), batches=batches)


@stage("split")
def split(
    key: str,
    home: Path,
    plan: Plan,
    encoding: Encoding,
    erased: Sequence[str],
    share: float | None = None,
    aside: float | None = None,
) -> list[Ref]:
    """Assign every unit that was not erased, or those of a secret subset, to a shard; one file a block of shards."""
    vault, domain = Vault(home / "vault"), plan.privacy.domain
    secret = derive(vault.secret(f"domains/{domain}"), "split")
    folder = f"shards/{domain}/{key[:16]}"
    left_out = Erased.of(vault, domain, erased)
    return list(data_split.split(plan, encoding, vault, folder, secret, share, aside=aside, erased=left_out))


@stage("relabel")
def relabel(
    key: str,
    home: Path,
    plan: Plan,
    blocks: Sequence[Ref],
    encoding: Encoding,
    space: HypothesisClass,
    settings: Relabelling,
) -> RelabelledRows:
    """Label the secret subset by one hypothesis, chosen once; one file a block of shards."""
    vault, domain = Vault(home / "vault"), plan.privacy.domain
    secret = derive(vault.secret(f"domains/{domain}"), "resample")
    folder = f"relabelled/{domain}/{key[:24]}"
    return asking_relabel.relabel(blocks, plan.teachers, encoding, space, settings, vault, folder, secret)


@stage("teach")
def teach(key: str, home: Path, block: Ref, shards: Sequence[int], plan: TeachersPlan, encoding: Encoding) -> Ref:
    """Train one teacher a shard, for one block of shards."""
    vault = Vault(home / "vault")
    path = f"teachers/{owner(block)}/{key[:16]}/{shards[0]:06d}"
    return asking_teachers.teach(block, range(*shards), plan, encoding, vault, path)


@stage("poll")
def poll(key: str, home: Path, batch: PublicBatch, teachers: Sequence[Ref], encoding: Encoding) -> Ref:
    """Count all teachers' votes on one batch of public rows."""
    vault = Vault(home / "vault")
    return asking_teachers.poll(batch, tuple(teachers), encoding, vault, f"{votes_folder(vault, teachers)}/{key}")


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


@stage("count")
def count(
    key: str, home: Path, plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch], erased: Sequence[str]
) -> Ref:
    """Count the errors of every candidate for the student on the private rows, but those of erased units."""
    vault, domain = Vault(home / "vault"), plan.privacy.domain
    candidates = UniversalChoice.of(plan, encoding, batches, vault).candidates
    secret = derive(vault.secret(f"domains/{domain}"), "split")
    left_out = Erased.of(vault, domain, erased)
    folder = f"counts/{domain}/{key[:16]}"
    return door_choose.count_errors(plan, encoding, candidates, vault, folder, secret, left_out)


@stage("measure")
def measure(key: str, home: Path, block: Ref, shards: Sequence[int], plan: TeachersPlan, encoding: Encoding) -> Ref:
    """Try the teachers of one block of shards on the rows set aside in each."""
    vault = Vault(home / "vault")
    path = f"measured/{owner(block)}/{key[:20]}/{shards[0]:06d}"
    return door_choose.measure(block, range(*shards), plan, encoding, vault, path)


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


@stage("study")
def study_chosen(
    key: str,  # noqa: ARG001  # the cache's
    home: Path,
    plan: Plan,
    session: str,
    encoding: Encoding,
    chosen: Ref,
) -> Student:
    """The student that a released hypothesis is, tried on public test rows, and its file."""
    released = Released(home)
    student = student_of(released.read(chosen), encoding)
    accuracy = None if plan.data.test is None else student_study.evaluate(student, plan.path("test"), encoding)
    return student_study.publish_student(student, session, accuracy, released)


@stage("study")
def study(
    key: str,  # noqa: ARG001  # the cache's
    home: Path,
    plan: Plan,
    session: str,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    labels: Sequence[Ref],
) -> Student:
    """Learn the student, try it on public test rows where there are any, and publish its file."""
    released = Released(home)
    table = released.labels(labels)
    count, vault = plan.teachers.count, Vault(home / "vault")
    student = student_study.study(plan.student, encoding, batches, table, teachers=count, vault=vault)
    accuracy = None if plan.data.test is None else student_study.evaluate(student, plan.path("test"), encoding)
    return student_study.publish_student(student, session, accuracy, released)


@stage("certify")
def certify(
    key: str,  # noqa: ARG001  # the cache's
    home: Path,
    plan: Plan,
    session: str,
    per_refusal: Cost | None,
    labels: Sequence[Ref],
    beside: Mapping[str, Sequence[Ref]],
    student: Student,
) -> Certified:
    """Write certificate and report."""
    door = Stores.of(home)
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

"""The stages. Each takes a place and everything its result depends on, calls its task, and returns small references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from concord.artifacts.home.vault import owner
from concord.artifacts.measures import AnyPublicTest
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicRows, Ref
from concord.flows.cache import Files, Place
from concord.flows.stage import mapped, stage
from concord.tasks.asking import relabel as asking_relabel
from concord.tasks.asking import teachers as asking_teachers
from concord.tasks.asking.relabel import RelabelledRows
from concord.tasks.asks import estimate as asks_estimate
from concord.tasks.asks import hypothesis as asks_hypothesis
from concord.tasks.asks.counted import Predictor, UnitCounts
from concord.tasks.asks.counted import count_aside as count_rows_aside
from concord.tasks.asks.counted import count_units as count_private_units
from concord.tasks.asks.student_choice import ErrorsAside
from concord.tasks.asks.student_test import Confusion, NumberErrors
from concord.tasks.data import encode as data_encode
from concord.tasks.data import split as data_split
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import PublicBatch
from concord.tasks.data.units import Erased
from concord.tasks.door.asked import votes_folder
from concord.tasks.door.checkpoint import PublicSource
from concord.tasks.mechanisms.hypotheses.dichotomies import HypothesisClass
from concord.tasks.mechanisms.relabelled import Relabelling
from concord.tasks.student import model as student_model
from concord.tasks.student import study as student_study
from concord.tasks.student.evaluate import evaluate, keep_table_path
from concord.tasks.student.groups import by_group
from concord.tasks.student.study import Student, student_of_hypothesis

UNITS = ("data.label", "data.unit", "data.format", "data.public_share", "privacy.domain", "privacy.secret", "test")
"""Fields of the plan that determine the private rows and their units."""


@dataclass(frozen=True)
class Block:
    """A block of shards: the index of the first, the index after the last, and the file of their rows."""

    shards: tuple[int, int]
    rows: Ref


def blocks(plan: Plan, files: Sequence[Ref]) -> list[Block]:
    """The blocks of shards in those files."""
    count, size = plan.teachers.count, plan.teachers.block
    firsts = range(0, count, size)
    return [Block((first, min(first + size, count)), rows) for first, rows in zip(firsts, files, strict=True)]


@stage(
    "encode",
    reads=(
        "data.label",
        "data.unit",
        "data.classes",
        "data.bounds",
        "data.declared",
        "data.features",
        "data.categories",
        "data.text",
        "data.format",
        "labeling.batch",
    ),
)
def encode(place: Place, plan: Plan, table: Files) -> PublicRows:
    """Learn the encoding from public rows and stage them in batches."""
    encoding = data_encode.learn_encoding(table.of(plan, "public"))
    folder = f"public/{place.key[:16]}"
    batches = data_encode.stage_public(table.path, encoding, place.vault, folder, plan.labeling.batch)
    return PublicRows(encoding=encoding, batches=batches)


@mapped("encode")
def put(place: Place, table: Files, encoding: Encoding, rows: int, field: str = "--public") -> PublicSource:
    """Stage further public rows, from one table, in batches of `rows`."""
    folder = f"public/{place.key[:16]}"
    batches = data_encode.stage_public(table.path, encoding, place.vault, folder, rows, field)
    return PublicSource(path=table.path, digests=table.digests, batches=batches)


@stage("split", version=2, reads=(*UNITS, "teachers.count", "teachers.block"))
def split(
    place: Place,
    plan: Plan,
    table: Files,
    encoding: Encoding,
    erased: Sequence[str],
    *,
    share: float | None = None,
    aside: float | None = None,
) -> list[Ref]:
    """Assign every unit that was not erased, or those of a secret subset, to a shard; one file a block of shards."""
    vault, domain = place.vault, plan.privacy.domain
    folder, secret = f"shards/{domain}/{place.key[:16]}", place.secret(domain, "split")
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    return list(data_split.split(placed, encoding, vault, folder, secret, share, aside=aside, erased=left_out))


@stage("relabel", version=2, reads=("privacy.domain", "teachers.count", "teachers.block"))
def relabel(
    place: Place, plan: Plan, shards: Sequence[Ref], encoding: Encoding, space: HypothesisClass, settings: Relabelling
) -> RelabelledRows:
    """Label the secret subset by one hypothesis, chosen once; one file a block of shards."""
    domain = plan.privacy.domain
    folder, secret = f"relabelled/{domain}/{place.key[:24]}", place.secret(domain, "resample")
    return asking_relabel.relabel(shards, plan.teachers, encoding, space, settings, place.vault, folder, secret)


@mapped("teach", reads=("teachers.estimator", "teachers.params"))
def teach(place: Place, block: Block, plan: Plan, encoding: Encoding) -> Ref:
    """Train one teacher per shard, for one block of shards."""
    path = f"teachers/{owner(block.rows)}/{place.key[:16]}/{block.shards[0]:06d}"
    return asking_teachers.teach(block.rows, range(*block.shards), plan.teachers, encoding, place.vault, path)


@mapped("poll")
def poll(place: Place, batch: PublicBatch, teachers: Sequence[Ref], encoding: Encoding) -> Ref:
    """Count all teachers' votes on one batch of public rows."""
    path = f"{votes_folder(place.vault, teachers)}/{place.key}"
    return asking_teachers.poll(batch, tuple(teachers), encoding, place.vault, path)


@mapped("measure", version=2, reads=("teachers.estimator", "teachers.params"))
def measure(place: Place, block: Block, plan: Plan, encoding: Encoding) -> Ref:
    """Test the teachers of one block of shards on the rows set aside in each."""
    path = f"measured/{owner(block.rows)}/{place.key[:20]}/{block.shards[0]:06d}"
    return asks_estimate.measure(block.rows, range(*block.shards), plan.teachers, encoding, place.vault, path)


@stage("count", version=2, reads=(*UNITS, "student", "privacy.epsilon"))
def count(
    place: Place, plan: Plan, table: Files, encoding: Encoding, batches: Sequence[PublicBatch], erased: Sequence[str]
) -> Ref:
    """Count the errors of every candidate for the student on the private rows, except those of erased units."""
    vault, domain = place.vault, plan.privacy.domain
    candidates = asks_hypothesis.HypothesisAsk.of(plan, encoding, batches, vault).candidates
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, secret = f"counts/{domain}/{place.key[:16]}", place.secret(domain, "split")
    return asks_hypothesis.count_errors(placed, encoding, candidates, vault, folder, secret, left_out)


@stage("study", version=4)
def study_chosen(
    place: Place, session: str, encoding: Encoding, batches: Sequence[PublicBatch], chosen: Ref, test: Files | None
) -> Student:
    """Publish the released hypothesis as the student, measured on public test rows. Returns it with its file."""
    student = student_of_hypothesis(place.released.read(chosen), encoding)
    return published(place, student, session, encoding, batches, test)


@stage("study", version=5, reads=("student", "teachers.count"))
def study(
    place: Place,
    session: str,
    plan: Plan,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    labels: Sequence[Ref],
    test: Files | None,
) -> Student:
    """Learn the student, measure it on public test rows if there are any, and publish its file."""
    teachers, vault, released = plan.teachers.count, place.vault, place.released
    student = student_study.study(
        plan.student, encoding, batches, labels, teachers=teachers, vault=vault, released=released
    )
    return published(place, student, session, encoding, batches, test)


def published(
    place: Place,
    student: Any,
    session: str,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    test: Files | None,
) -> Student:
    """Publish a student, measured on public test rows or, if there are none, only on the public rows."""
    found = None
    if test is not None:
        found = with_groups(place, student, evaluate(student, test.path, encoding), encoding, test)
    named = None if found or not encoding.classes else student_study.named_by(student, encoding, batches, place.vault)
    return student_study.publish_student(student, session, found, place.released, named)


def with_groups(place: Place, student: Any, found: AnyPublicTest, encoding: Encoding, test: Files) -> AnyPublicTest:
    """Measures with those of the plan's groups; the path of the table is kept, by which verification finds it."""
    keep_table_path(place.home, found, test.path)
    return found.model_copy(update={"groups": by_group(student, test.path, encoding, test.groups)})


@stage("try", reads=(*UNITS, "student.estimator"))
def count_confusion(
    place: Place,
    plan: Plan,
    table: Files,
    encoding: Encoding,
    student: Ref,
    codes: Codes | None,
    erased: Sequence[str],
    by: Sequence[str],
    named: Sequence[Sequence[str | None]],
    constant: float | None,
) -> Ref:
    """Count private units of the test part by their class and the student's prediction, and by the groups named; if the
    label is a number, by the errors of the student and of the constant."""
    model = _model(place, student, plan.student.estimator)
    groups = tuple(by), tuple(map(tuple, named))
    counts: UnitCounts = Confusion((model.predict, codes), len(encoding.classes), *groups)
    if encoding.bounds is not None and constant is not None:
        key = place.secret(plan.privacy.domain, "split")
        counts = NumberErrors((model.predict, codes), encoding.bounds, constant, key)
    return _counted(place, plan, table, encoding, counts, erased, "tested")


@stage("try", reads=("student.estimator",))
def count_arrived(
    place: Place, plan: Plan, encoding: Encoding, aside: Sequence[Ref], student: Ref, codes: Codes | None, domain: str
) -> Ref:
    """As `count_confusion`, of units in these files, which were set aside as they arrived."""
    model = _model(place, student, plan.student.estimator)
    counts = Confusion((model.predict, codes), len(encoding.classes))
    return count_rows_aside(aside, encoding, counts, place.vault, f"tested/{domain}/{place.key[:16]}")


@stage("count", reads=UNITS)
def count_aside(
    place: Place,
    plan: Plan,
    table: Files,
    encoding: Encoding,
    students: Sequence[Ref],
    estimators: Sequence[str],
    codes: Sequence[Codes | None],
    erased: Sequence[str],
) -> Ref:
    """Count the private units of the test part that each candidate is wrong about; see `count_confusion`."""
    models = [_model(place, *each) for each in zip(students, estimators, strict=True)]
    candidates: list[Predictor] = [(model.predict, read) for model, read in zip(models, codes, strict=True)]
    return _counted(place, plan, table, encoding, ErrorsAside(candidates), erased, "tested")


@stage("count", reads=UNITS)
def count_units(
    place: Place, plan: Plan, table: Files, encoding: Encoding, counts: UnitCounts, erased: Sequence[str]
) -> Ref:
    """Count private units as `counts` says, which is public."""
    return _counted(place, plan, table, encoding, counts, erased, "counts")


def _counted(
    place: Place, plan: Plan, table: Files, encoding: Encoding, counts: UnitCounts, erased: Sequence[str], kind: str
) -> Ref:
    """The file of counts of the private units, except of erased ones; `kind` is its folder in the vault."""
    vault, domain = place.vault, plan.privacy.domain
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, secret = f"{kind}/{domain}/{place.key[:16]}", place.secret(domain, "split")
    return count_private_units(placed, encoding, counts, vault, folder, secret, left_out)


def _model(place: Place, student: Ref, estimator: str) -> Any:
    return student_model.load(place.released.read_any(student), estimator)["student"]

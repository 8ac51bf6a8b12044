"""The stages. Each takes a place and everything its result depends on, calls its task, and returns small references."""

from collections.abc import Sequence
from dataclasses import dataclass

from concord.artifacts.home.vault import owner
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicBatch, PublicRows, Ref
from concord.flows.cache import Place, PrivateInput, PublicTables
from concord.flows.stage import mapped, stage
from concord.tasks.asking import relabel as asking_relabel
from concord.tasks.asking.relabel import RelabelledRows
from concord.tasks.asks import hypothesis as asks_hypothesis
from concord.tasks.data import encode as data_encode
from concord.tasks.data.codes import Codes
from concord.tasks.data.tables import Table
from concord.tasks.door.checkpoint import PublicSource, votes_folder
from concord.tasks.mechanisms.hypotheses import HypothesisClass
from concord.tasks.mechanisms.relabelled import Relabelling
from concord.tasks.student import model as student_model
from concord.tasks.student import study as student_study
from concord.tasks.student.evaluate import evaluate, keep_table_path
from concord.tasks.student.study import Student
from concord.tasks.units import counts as units_counts
from concord.tasks.units import split as units_split
from concord.tasks.units import teachers as units_teachers
from concord.tasks.units.counts import Confusion, NumberErrors, Predictor
from concord.tasks.units.teachers import Block

UNITS = ("data.label", "data.unit", "data.format", "data.public_share", "privacy.domain", "privacy.secret", "test")
"""Fields of the plan that determine the private rows and their units."""


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
def encode(place: Place, plan: Plan, table: Table) -> PublicRows:
    """Learn the encoding from public rows and stage them in batches."""
    encoding = data_encode.learn_encoding(table.named_in(plan))
    folder = f"public/{place.key[:16]}"
    batches = data_encode.stage_public(table.path, encoding, place.staged, folder, plan.labeling.batch)
    return PublicRows(encoding=encoding, batches=batches)


@mapped("encode")
def stage_rows(place: Place, table: Table, encoding: Encoding, rows: int, field: str = "--public") -> PublicSource:
    """Stage further public rows, from one table, in batches of `rows`."""
    folder = f"public/{place.key[:16]}"
    batches = data_encode.stage_public(table.path, encoding, place.staged, folder, rows, field)
    return PublicSource(path=table.path, digests=table.digests, batches=batches)


@stage("split", version=2, reads=(*UNITS, "teachers.count", "teachers.block"))
def split(
    place: Place, plan: Plan, private: PrivateInput, *, share: float | None = None, aside: float | None = None
) -> list[Ref]:
    """Assign every unit that was not erased, or those of a secret subset, to a shard; one file a block of shards."""
    folder = f"shards/{plan.privacy.domain}/{place.key[:16]}"
    return list(units_split.split(private.at(place, plan), folder, share, aside))


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
    return units_teachers.teach(block, plan.teachers, encoding, place.vault, path)


@mapped("poll")
def poll(place: Place, batch: PublicBatch, teachers: Sequence[Ref], encoding: Encoding) -> Ref:
    """Count all teachers' votes on one batch of public rows."""
    path = f"{votes_folder(place.vault, teachers)}/{place.key}"
    return units_teachers.poll(batch, tuple(teachers), encoding, place.vault, path)


@mapped("measure", version=2, reads=("teachers.estimator", "teachers.params"))
def measure(place: Place, block: Block, plan: Plan, encoding: Encoding) -> Ref:
    """Test the teachers of one block of shards on the rows set aside in each."""
    path = f"measured/{owner(block.rows)}/{place.key[:20]}/{block.shards[0]:06d}"
    return units_teachers.measure(block, plan.teachers, encoding, place.vault, path)


@stage("count", version=2, reads=(*UNITS, "student", "privacy.epsilon"))
def count(place: Place, plan: Plan, private: PrivateInput, batches: Sequence[PublicBatch]) -> Ref:
    """Count the errors of every candidate for the student on the private rows, except those of erased units."""
    candidates = asks_hypothesis.HypothesisAsk.of(plan, private.encoding, batches, place.staged).candidates
    folder = f"counts/{plan.privacy.domain}/{place.key[:16]}"
    return units_counts.count_errors(private.at(place, plan), candidates, folder)


@stage("study", version=6, reads=("student", "teachers.count"))
def study(
    place: Place, session: str, plan: Plan, public: PublicTables, files: Sequence[Ref], codes: Codes | None = None
) -> Student:
    """Learn the student from released files, measure it on public test rows, or if there are none only on the public
    rows, and publish its file. The path of the test table is kept, by which verification finds it."""
    encoding, test, figures, named = public.encoding, public.test, None, None
    student = student_study.fit_student(plan, public.rows, files, codes, place.staged, place.released)
    if test is not None:
        figures = evaluate(student, test.path, encoding, public.groups)
        keep_table_path(place.home, figures, test.path)
    elif encoding.classes:
        named = student_study.named_by(student, public.rows, place.staged)
    return student_study.publish_student(student, session, figures, place.released, named)


@dataclass(frozen=True)
class StudentFile:
    """A student's file among the released ones, with what its predictions need.

    codes  by which it reads rows; None if it reads encoded ones
    """

    ref: Ref
    estimator: str
    codes: Codes | None

    def predictor(self, place: Place) -> Predictor:
        """Its predictions, and the codes by which it reads rows."""
        model = student_model.load(place.released.read_any(self.ref), self.estimator)["student"]
        return model.predict, self.codes


@stage("try", reads=UNITS)
def count_units(
    place: Place, plan: Plan, private: PrivateInput, student: StudentFile, constant: float | None = None
) -> Ref:
    """Count private units of the test part by their class and the student's prediction; of a number, by the errors of
    the student's and of `constant`."""
    rows, encoding, predictor = private.at(place, plan), private.encoding, student.predictor(place)
    counts: Confusion | NumberErrors = Confusion(predictor, len(encoding.classes))
    if encoding.bounds is not None and constant is not None:
        counts = NumberErrors(predictor, encoding.bounds, constant, rows.key)
    return units_counts.count_units(rows, counts, f"tested/{plan.privacy.domain}/{place.key[:16]}")

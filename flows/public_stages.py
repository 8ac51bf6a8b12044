"""The public stages: they work on public rows, which are staged in the vault, and on what was released.

As each stage, one takes a place and everything its result depends on, calls its task, and returns small references. Of
private rows these know what the door let pass, and no more: a PublicPlace opens nothing else.
"""

import json
from collections.abc import Mapping, Sequence

from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicBatch, PublicRows, Ref
from concord.artifacts.stores import PublicPlace
from concord.flows.stage import mapped, stage
from concord.tasks.data.codes import Codes, CodeSizes, learn_codes
from concord.tasks.data.encode import learn_encoding, read_frame, stage_public, systematic_sample
from concord.tasks.data.joined import joinable, unclustered
from concord.tasks.data.tables import Table
from concord.tasks.door.checkpoint import PublicSource
from concord.tasks.student.decode import Decoded
from concord.tasks.student.evaluate import evaluate, keep_table_path
from concord.tasks.student.public_rows import write_sample
from concord.tasks.student.study import Student, fit_student, hold_student, inferred, named_by


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
def encode(place: PublicPlace, plan: Plan, table: Table) -> PublicRows:
    """Learn the encoding from public rows and stage them in batches."""
    encoding = learn_encoding(table.named_in(plan))
    folder = f"public/{place.key[:16]}"
    batches = stage_public(table.path, encoding, place.staged, folder, plan.labeling.batch)
    return PublicRows(encoding=encoding, batches=batches)


@mapped("encode")
def stage_rows(
    place: PublicPlace, table: Table, encoding: Encoding, rows: int, field: str = "--public"
) -> PublicSource:
    """Stage further public rows, from one table, in batches of `rows`."""
    folder = f"public/{place.key[:16]}"
    batches = stage_public(table.path, encoding, place.staged, folder, rows, field)
    return PublicSource(path=table.path, digests=table.digests, batches=batches)


@stage("code")
def code(place: PublicPlace, encoding: Encoding, batches: Sequence[PublicBatch], sizes: CodeSizes) -> Codes:
    """Learn the codes of rows from the staged public rows; `sizes` as `planned_sizes` gives them."""
    return learn_codes((read_frame(batch.ref, place.staged) for batch in batches), encoding.columns, **sizes)


@stage("code")
def clustering(place: PublicPlace, encoding: Encoding, batches: Sequence[PublicBatch]) -> float | None:
    """R of the staged public rows, by the sample that their codes are learned from."""
    numbers = [column.name for column in joinable(encoding.columns)]
    frames = (read_frame(batch.ref, place.staged).select(numbers) for batch in batches)
    return unclustered(systematic_sample(frames), encoding.columns)


@stage("code")
def sample(place: PublicPlace, domain: str, codes: Codes, batches: Sequence[PublicBatch]) -> Ref:
    """Write the codes of the sample of the staged public rows that models are decoded on, in a folder that is erased
    with the domain: they may be features of private units."""
    return write_sample(batches, codes, place.staged, f"coded/{domain}/{place.key[:16]}/sample.npy")


@stage("infer")
def infer(place: PublicPlace, last: Ref, codes: Codes, public: PublicRows, claim: Mapping[str, str]) -> Ref:
    """Labels and scores of all public rows, by the model decoded from the last round."""
    decoded = Decoded.from_record(json.loads(place.released.read(last))["decoded"])
    rows = (codes.of(read_frame(batch.ref, place.staged)) for batch in public.batches)
    labels = inferred(decoded, rows, public.encoding, claim)
    return place.released.hold_back(f"{claim['session']}/labels.arrow", labels)


@stage("study", version=6, reads=("student", "teachers.count", "data.groups"))
def study(
    place: PublicPlace, plan: Plan, public: PublicRows, test: Table | None, files: Sequence[Ref], codes: Codes | None
) -> Student:
    """Learn the student from released files, measure it on public test rows, or if there are none only on the public
    rows, and publish its file in the folder of those it learns from. The path of the test table is kept, by which
    verification finds it."""
    figures, named = None, None
    student = fit_student(plan, public, files, codes, place.staged, place.released)
    if test is not None:
        figures = evaluate(student, test.path, public.encoding, plan.data.groups or ())
        keep_table_path(place.home, figures, test.path)
    elif public.encoding.classes:
        named = named_by(student, public, place.staged)
    ref = hold_student(student, files[0].path.partition("/")[0], place.released)
    return Student(ref=ref, test=figures, named=named)

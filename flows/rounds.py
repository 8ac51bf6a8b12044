"""The stages of tallies: as those of `flows.work`, each takes a place and what its result depends on."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.flows.cache import Files, Place
from concord.flows.stage import DoorStage, mapped, stage
from concord.flows.stages import UNITS
from concord.tasks.asking import tally as asking_tally
from concord.tasks.data.codes import Codes, coarse_bins, learn_codes
from concord.tasks.data.encode import PublicBatch, read_frame
from concord.tasks.data.units import Erased
from concord.tasks.door import rounds as door_rounds
from concord.tasks.door.release import Stores
from concord.tasks.mechanisms.contributions import Question
from concord.tasks.student import study as student_study
from concord.tasks.student.decode import Decoded
from concord.tasks.student.infer import Follower, Published, inferred, public_codes, soft_labels
from concord.tasks.student.linear import linear_student, tried
from concord.tasks.student.study import Student


@stage("code", reads=("labeling.bins", "privacy.epsilon"))
def code(place: Place, plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch]) -> Codes:
    """Learn the codes of rows from the staged public ones."""
    bins = plan.labeling.bins or coarse_bins(plan.privacy.epsilon)
    frames = (read_frame(batch.ref, place.vault) for batch in batches)
    return learn_codes(frames, encoding.columns, coarse=bins)


@stage("gather", reads=UNITS)
def gather(
    place: Place, plan: Plan, table: Files, encoding: Encoding, codes: Codes, erased: Sequence[str]
) -> list[Ref]:
    """Private rows as codes and classes, whole units together."""
    vault, domain = place.vault, plan.privacy.domain
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, secret = f"units/{domain}/{place.key[:16]}", place.secret(domain, "split")
    return list(asking_tally.gather(placed, encoding, codes, vault, folder, secret, left_out))


@mapped("tally")
def tally(place: Place, block: Ref, question: Mapping[str, Any]) -> Ref:
    """What the units of one block add up to in answer to a question."""
    path = f"{asking_tally.sums_folder(block)}/{place.key}.npy"
    return asking_tally.count(block, Question.from_record(dict(question)), place.vault, path)


def _release_round(
    door: Stores,
    session: Session,
    follower: Follower,
    released: Sequence[Published],
    question: Question,
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
    """Labels and scores of all public rows, by the model that the last round was decoded to."""
    decoded = Decoded.from_record(json.loads(place.released.read(last))["decoded"])
    rows = public_codes(batches, codes, place.vault)
    return place.released.write(f"{session}/labels.arrow", inferred(decoded, rows, encoding, session, claim))


@stage("study", version=2)
def study_linear(
    place: Place, session: str, last: Ref, encoding: Encoding, codes: Codes, test: Files | None
) -> Student:
    """The decoded model as the student, tried on public test rows at both operating points, and its file."""
    decoded = Decoded.from_record(json.loads(place.released.read(last))["decoded"])
    student = linear_student(decoded, encoding, codes)
    figures = {} if test is None else tried(student, codes, test.path, encoding)
    made = student_study.publish_student(student, session, figures.get("accuracy"), place.released)
    return made.model_copy(update={"figures": figures})


@stage("study", version=2, reads=("student",))
def study_inferred(
    place: Place,
    session: str,
    plan: Plan,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    labels: Ref,
    test: Files | None,
) -> Student:
    """Learn the student from inferred labels, try it on public test rows, and publish its file."""
    targets = soft_labels(place.released.labels([labels]), len(encoding.classes))
    student = student_study.study_inferred(plan.student, encoding, batches, targets, place.vault)
    accuracy = None if test is None else student_study.evaluate(student, test.path, encoding)
    return student_study.publish_student(student, session, accuracy, place.released)

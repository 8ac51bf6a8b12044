"""The private stages: they work on private rows, and what they write stays in the vault.

As each stage, one takes a place and everything its result depends on, calls its task, and returns small references. A
PrivatePlace publishes nothing. What the door needs to know of these files is asked here too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from concord.artifacts.home.vault import derive, owner
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicBatch, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import PrivatePlace
from concord.flows.cache import PrivateInput
from concord.flows.run import RunContext
from concord.flows.stage import mapped, on_workers, stage
from concord.tasks.asks import hypothesis as asks_hypothesis
from concord.tasks.data.codes import CodeMatrix, Codes
from concord.tasks.door.admit import check_ensemble
from concord.tasks.door.checkpoint import sums_folder, votes_folder
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.hypotheses import HypothesisClass
from concord.tasks.mechanisms.relabelled import Relabelling
from concord.tasks.student import model as student_model
from concord.tasks.units import blocks as units_blocks
from concord.tasks.units import counts as units_counts
from concord.tasks.units import relabel as units_relabel
from concord.tasks.units import split as units_split
from concord.tasks.units import sums as units_sums
from concord.tasks.units import teachers as units_teachers
from concord.tasks.units.counts import Confusion, NumberErrors, Predictor
from concord.tasks.units.relabel import RelabelledRows

UNITS = ("data.label", "data.unit", "data.format", "data.public_share", "privacy.domain", "privacy.secret", "test")
"""Fields of the plan that determine the private rows and their units."""


@stage("split", version=3, reads=(*UNITS, "teachers.count", "teachers.block"))
def split(
    place: PrivatePlace, plan: Plan, private: PrivateInput, *, share: float | None = None, aside: float | None = None
) -> list[Ref]:
    """Assign every unit that was not erased, or those of a secret subset, to a shard; one file a block of shards."""
    folder = f"shards/{plan.privacy.domain}/{place.key[:16]}"
    return list(units_split.split(private.at(place, plan), folder, share, aside))


@stage("relabel", version=3, reads=("privacy.domain",))
def relabel(
    place: PrivatePlace,
    plan: Plan,
    shards: Sequence[Ref],
    encoding: Encoding,
    space: HypothesisClass,
    settings: Relabelling,
) -> RelabelledRows:
    """Label the secret subset by one hypothesis, chosen once; one file a block of shards."""
    domain, vault = plan.privacy.domain, place.vault
    folder, secret = f"relabelled/{domain}/{place.key[:24]}", derive(vault.secret(f"domains/{domain}"), "resample")
    return units_relabel.relabel(shards, encoding, space, settings, vault, folder, secret)


@mapped("teach", version=2, reads=("teachers.estimator", "teachers.params"))
def teach(place: PrivatePlace, block: Ref, plan: Plan, encoding: Encoding) -> Ref:
    """Train one teacher per shard, for one block of shards."""
    path = f"teachers/{owner(block)}/{place.key}"
    return units_teachers.teach(block, plan.teachers, encoding, place.vault, path)


@mapped("poll", version=2)
def poll(place: PrivatePlace, batch: PublicBatch, teachers: Sequence[Ref], encoding: Encoding) -> Ref:
    """Count all teachers' votes on one batch of public rows."""
    path = f"{votes_folder(place.vault, teachers)}/{place.key}"
    return units_teachers.poll(batch, tuple(teachers), encoding, place.vault, path)


@mapped("measure", version=3, reads=("teachers.estimator", "teachers.params"))
def measure(place: PrivatePlace, block: Ref, plan: Plan, encoding: Encoding) -> Ref:
    """Test the teachers of one block of shards on the rows set aside in each."""
    path = f"measured/{owner(block)}/{place.key}"
    return units_teachers.measure(block, plan.teachers, encoding, place.vault, path)


@stage("count", version=3, reads=(*UNITS, "student", "privacy.epsilon"))
def count(place: PrivatePlace, plan: Plan, private: PrivateInput, batches: Sequence[PublicBatch]) -> Ref:
    """Count the errors of every candidate for the student on the private rows, except those of erased units."""
    candidates = asks_hypothesis.HypothesisAsk.of(plan, private.encoding, batches, place.vault.staged).candidates
    folder = f"counts/{plan.privacy.domain}/{place.key[:16]}"
    return units_counts.count_errors(private.at(place, plan), candidates, folder)


@stage("gather", version=4, reads=UNITS)
def gather(place: PrivatePlace, plan: Plan, private: PrivateInput, codes: Codes) -> list[Ref]:
    """Write private rows as codes and classes, whole units together."""
    return gather_in(f"units/{plan.privacy.domain}/{place.key[:16]}", place, plan, private, codes)


@stage("gather", version=4, reads=UNITS)
def recode(place: PrivatePlace, plan: Plan, private: PrivateInput, codes: Codes, units: Sequence[Ref]) -> list[Ref]:
    """Write private rows by codes learned from released rounds, in the folder of `units`' sums, to go with them."""
    return gather_in(f"{sums_folder(units[0])}/{place.key[:16]}", place, plan, private, codes)


def gather_in(folder: str, place: PrivatePlace, plan: Plan, private: PrivateInput, codes: Codes) -> list[Ref]:
    """Write private rows as codes and classes into a folder of the vault, with the flow's workers."""

    def each(step: units_blocks.BlockStep, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        given = (place, plan, private, codes)
        return on_workers(gather_part, [{"given": given, "step": step, "call": call} for call in calls])

    return list(units_blocks.gather(units_blocks.Coding(private.at(place, plan), codes), folder, each))


@task(name="gather", persist_result=False, cache_policy=NO_CACHE)
def gather_part(
    given: tuple[PrivatePlace, Plan, PrivateInput, Codes], step: units_blocks.BlockStep, call: tuple[Any, ...]
) -> Any:
    """A step of `gather` for a part of the rows. A worker is sent no key: it opens the vault itself."""
    place, plan, private, codes = given
    return step(units_blocks.Coding(private.at(place, plan), codes), *call)


@mapped("tally", version=2)
def sum_block(
    place: PrivatePlace, block: Ref, question: Mapping[str, Any], codes: Codes | None = None, grid: Codes | None = None
) -> Ref:
    """The sum over the units of one block that answers a question; of pairs of columns, or of groups of a grid's cells,
    by the codes that have them."""
    parsed, path = RoundQuestion.from_record(dict(question)), f"{sums_folder(block)}/{place.key}.npy"
    return units_sums.count([block], parsed, place.vault, path, codes, grid)


def known_codes(run: RunContext, units: Sequence[Ref], codes: Codes) -> tuple[CodeMatrix, int]:
    """The codes of the units' features, which are public if only labels are secret; as `tasks.units.blocks`."""
    return units_blocks.known_codes(units, codes, run.stores.vault)


def first_sums(
    run: RunContext, session: Session | None, units: Sequence[Ref], questions: Sequence[RoundQuestion]
) -> tuple[list[list[Ref]], tuple[str, ...]]:
    """The sums of a session's first questions, and the digest of each. Raises NotVerified if the session was opened
    with other private data."""
    sums = [sum_block(run, units, question.record()) for question in questions]
    digests = tuple(units_sums.sums_digest(of_question, run.stores.vault) for of_question in sums)
    check_ensemble(run.stores, session, digests)
    return sums, digests


@dataclass(frozen=True)
class StudentFile:
    """A student's file among the released ones, with what its predictions need.

    codes  by which it reads rows; None if it reads encoded ones
    """

    ref: Ref
    estimator: str
    codes: Codes | None

    def predictor(self, place: PrivatePlace) -> Predictor:
        """Its predictions, and the codes by which it reads rows."""
        return student_model.load(place.published(self.ref), self.estimator)["student"].predict, self.codes


@stage("try", version=2, reads=UNITS)
def count_units(
    place: PrivatePlace, plan: Plan, private: PrivateInput, student: StudentFile, constant: float | None = None
) -> Ref:
    """Count private units of the test part by their class and the student's prediction; of a number, by the errors of
    the student's and of `constant`."""
    rows, encoding, predictor = private.at(place, plan), private.encoding, student.predictor(place)
    counts: Confusion | NumberErrors = Confusion(predictor, len(encoding.classes))
    if encoding.bounds is not None and constant is not None:
        counts = NumberErrors(predictor, encoding.bounds, constant, rows.key)
    return units_counts.count_units(rows, counts, f"tested/{plan.privacy.domain}/{place.key[:16]}")

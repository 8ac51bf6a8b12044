"""Learning by tallies: private rows are asked in rounds, and labels of public rows inferred from noisy sums.

The stages come first. As in `flows.stages`, each takes a place and everything its result depends on.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

from prefect import task
from prefect.cache_policies import NO_CACHE

from concord import __version__
from concord.artifacts import kinds
from concord.artifacts.domains import Domain
from concord.artifacts.learners import StudentPlan
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.flows.cache import Files, Place
from concord.flows.run import Admitted, Counted, PrivateFiles, RunContext
from concord.flows.stage import Disclosure, mapped, on_workers, pass_door, stage
from concord.flows.stages import UNITS, published, with_groups
from concord.flows.steps import Learning
from concord.tasks.advice.tallies import asks_pairs, check_columns, planned_sizes, planned_tallies
from concord.tasks.asking import tally as asking_tally
from concord.tasks.asks.tallies import TalliesAsk, round_step, sums_digest
from concord.tasks.data.codes import Codes, PlannedSizes, deepens, learn_codes
from concord.tasks.data.encode import PublicBatch, read_frame
from concord.tasks.data.units import Erased
from concord.tasks.door.admit import check_ensemble, sessions_for
from concord.tasks.door.door import Step, released_by
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student import study as student_study
from concord.tasks.student.decode import Decoded
from concord.tasks.student.infer import (
    RoundFile,
    RoundPlanner,
    coded_batches,
    inferred,
    linear_student,
    measured_at_both,
    public_rows,
    read_sample,
    soft_labels,
    write_sample,
)
from concord.tasks.student.study import Student


@stage("code")
def code(place: Place, encoding: Encoding, batches: Sequence[PublicBatch], sizes: PlannedSizes) -> Codes:
    """Learn the codes of rows from the staged public rows; `sizes` as `planned_sizes` gives them."""
    return learn_codes((read_frame(batch.ref, place.vault) for batch in batches), encoding.columns, **sizes)


@stage("code")
def sample(place: Place, domain: str, codes: Codes, batches: Sequence[PublicBatch]) -> Ref:
    """Write the codes of the sample of the staged public rows that models are decoded on, in a folder that is erased
    with the domain: they may be features of private units."""
    return write_sample(batches, codes, place.vault, f"coded/{domain}/{place.key[:16]}/sample.npy")


@stage("gather", version=3, reads=UNITS)
def gather(
    place: Place, plan: Plan, table: Files, encoding: Encoding, codes: Codes, erased: Sequence[str]
) -> list[Ref]:
    """Write private rows as codes and classes, whole units together."""
    folder = f"units/{plan.privacy.domain}/{place.key[:16]}"
    return _gathered(place, table.of(plan, "private"), encoding, codes, erased, folder)


@stage("gather", version=3, reads=UNITS)
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
    folder = f"{asking_tally.sums_folder(units[0])}/{place.key[:16]}"
    return _gathered(place, table.of(plan, "private"), encoding, codes, erased, folder)


Given = tuple[Place, Plan, Encoding, Codes, Sequence[str]]


def _gathered(
    place: Place, plan: Plan, encoding: Encoding, codes: Codes, erased: Sequence[str], folder: str
) -> list[Ref]:
    given = (place, plan, encoding, codes, erased)

    def each(step: asking_tally.Step, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        return on_workers(gather_part, [{"given": given, "step": step, "call": call} for call in calls])

    return list(asking_tally.gather(_coding(*given), folder, each=each))


@task(name="gather", persist_result=False, cache_policy=NO_CACHE)
def gather_part(given: Given, step: asking_tally.Step, call: tuple[Any, ...]) -> Any:
    """A step of `gather` for a part of the rows. A worker is sent no key: it opens the vault itself."""
    return step(_coding(*given), *call)


def _coding(place: Place, plan: Plan, encoding: Encoding, codes: Codes, erased: Sequence[str]) -> asking_tally.Coding:
    vault, domain = place.vault, plan.privacy.domain
    left_out = Erased.of(vault, domain, erased)
    return asking_tally.Coding(plan, encoding, codes, vault, place.secret(domain, "split"), left_out)


@mapped("tally")
def tally(
    place: Place, block: Ref, question: Mapping[str, Any], codes: Codes | None = None, grid: Codes | None = None
) -> Ref:
    """The sum over the units of one block that answers a question; of pairs of columns, or of groups of a grid's cells,
    by the codes that have them."""
    path = f"{asking_tally.sums_folder(block)}/{place.key}.npy"
    return asking_tally.count(block, RoundQuestion.from_record(dict(question)), place.vault, path, codes, grid)


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
    rows = coded_batches(batches, codes, place.vault)
    return place.released.hold_back(f"{session}/labels.arrow", inferred(decoded, rows, encoding, session, claim))


@stage("study", version=4)
def study_linear(
    place: Place, session: str, last: Ref, encoding: Encoding, codes: Codes, test: Files | None
) -> Student:
    """Publish the decoded model as the student, measured on public test rows at both operating points."""
    decoded = Decoded.from_record(json.loads(place.released.read(last))["decoded"])
    student = linear_student(decoded, encoding, codes)
    found = None
    if test is not None:
        found = with_groups(place, student, measured_at_both(student, codes, test.path, encoding), encoding, test)
    return student_study.publish_student(student, session, found, place.released)


@stage("study", version=5, reads=("student",))
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


class Planner(Protocol):
    """What the questions of a session follow from: released files, and public things."""

    @property
    def mechanism(self) -> Tallies: ...
    def codes_after(self, released: Sequence[RoundFile]) -> Codes: ...
    def question(self, released: Sequence[RoundFile]) -> RoundQuestion: ...
    def first_questions(self) -> tuple[RoundQuestion, ...]: ...
    def follow(self, released: Sequence[RoundFile], question: RoundQuestion, sums: Ints) -> dict[str, Any]: ...


class BySums(Learning[TalliesAsk]):
    """Private rows are asked in rounds of noisy sums, labels of public rows inferred from them; nobody votes."""

    def rehearse(self) -> None:
        """Raise WrongInput if codes, student or test table would fail."""
        check_columns(self.run.plan, self.public.encoding)
        super().rehearse()

    def students(self) -> list[StudentPlan]:
        """They learn from inferred labels, which are soft."""
        return [student.model_copy(update={"refused": "soft"}) for student in self.run.plan.student.each]

    def ask(self, domain: Domain, session: Session | None = None) -> TalliesAsk:  # noqa: ARG002, since all order alike
        """Rounds of sums about codes that are learned from the plan's own public rows."""
        run, public = self.run, self.public
        rows, begun = sum(batch.rows for batch in public.batches), None
        sizes = planned_sizes(run.plan, public.encoding)
        codes = code(run, public.encoding, public.batches, sizes)
        if session is not None:
            of_labels = [each.fields for each in session.kind.rounds if each.what == "labels"]
            begun = len(of_labels), of_labels[-1]
            known = session.kind.only(kinds.Tallies).codes
            if known != codes.digest:  # an earlier version did not divide the outermost bins
                codes = code(run, public.encoding, public.batches, {**sizes, "tails": False})
        self.codes = codes
        mechanism = planned_tallies(run.plan, codes, rows, begun)
        own = tuple(batch.ref.digest for batch in public.batches)
        return TalliesAsk(mechanism, codes.digest, own, bounds=public.encoding.bounds)

    def ask_of_plan(self, domain: Domain) -> TalliesAsk:
        """With the rounds of the latest session of another version, if the plan has none with those advised now; with
        `new_session`, of one that is charged and not published."""
        stores, plan, encoding = self.run.stores, self.run.plan, self.public.encoding
        advised, found = self.ask(domain), stores.ledger.sessions(domain.name)
        if sessions_for(stores, plan, advised, encoding):
            return advised
        left = stores.unpublished if self.run.new_session else {each.id for each in found}
        others = [each for each in found if each.version != __version__ and each.kind.rounds]
        for session in reversed([each for each in others if each.id in left]):
            known = self.ask(domain, session)
            if session in sessions_for(stores, plan, known, encoding):
                return known
        return self.ask(domain) if others else advised  # again, since it sets what is asked of each home

    def count(self, admitted: Admitted[TalliesAsk], private: PrivateFiles) -> Counted:
        """Code the private rows, and sum what is asked before anything is released."""
        run, plan, codes = self.run, self.run.plan, self._codes
        encoding, vault = admitted.stream.encoding, run.stores.vault
        self.units = gather(run, plan, private.table, encoding, codes, run.erased)
        self.planner = planner_of(run, admitted, codes, self.units)
        # totals of codes alone would not show changed labels
        self.sums = [tally(run, self.units, question.record()) for question in self.planner.first_questions()]
        coded = partial(recode, run, plan, private.table, encoding, erased=run.erased, units=self.units)
        self.counted = partial(count_round, run, self.planner, self.units, self.sums[0], coded)
        private_digests = tuple(sums_digest(each, vault) for each in self.sums)
        check_ensemble(run.stores.vault, admitted.session, private_digests)
        return Counted(private_digests, [*self.units, *chain.from_iterable(self.sums)])

    def release(
        self,
        session: Session,
        admitted: Admitted[TalliesAsk],
        counted: Counted,  # noqa: ARG002, since it is kept by block
    ) -> Disclosure:
        """Pass round after round through the door, and label the public rows by the last."""
        passed = release_rounds(self.run, session, self.planner, self.counted)
        return self._labelled(admitted, passed, self.planner)

    def fit(self, run: RunContext, admitted: Admitted[TalliesAsk], passed: Disclosure, where: str) -> Student:
        """The student: the decoded model, or one fitted to inferred labels."""
        stream, (*_, last, labels) = admitted.stream, passed.released
        if run.plan.student.learner == "linear":
            return study_linear(run, where, last, stream.encoding, self._codes, run.test)
        return study_inferred(run, where, run.plan, stream.encoding, stream.batches, labels, run.test)

    def replay(self, session: Session, admitted: Admitted[TalliesAsk]) -> Disclosure:
        """The rounds as released, and the labels inferred from the last."""
        passed = super().replay(session, admitted)
        return self._labelled(admitted, passed, planner_of(self.run, admitted, self._codes, ()))

    @property
    def _codes(self) -> Codes:
        if self.codes is None:
            raise AssertionError("codes are learned when the session is admitted")
        return self.codes

    def _labelled(self, admitted: Admitted[TalliesAsk], passed: Disclosure, planner: RoundPlanner) -> Disclosure:
        """`passed`, and the file of the labels inferred from its last round, whose codes are those from now on."""
        stream, last = admitted.stream, passed.released[-1]
        self.codes = last_codes(self.run, planner, passed)
        claim = label_claim(admitted, passed)
        labels = infer(self.run, passed.session.id, last, stream.encoding, self.codes, stream.batches, claim)
        return replace(passed, released=[*passed.released, labels])


def planner_of(run: RunContext, admitted: Admitted[TalliesAsk], codes: Codes, units: Sequence[Ref]) -> RoundPlanner:
    """The source of a session's questions: the public rows, or the features of its units if those are public.

    units   the files of `gather`
    """
    mechanism, vault = admitted.ask.mechanism, run.stores.vault
    if run.plan.privacy.secret == "labels":
        rows, found = asking_tally.known_codes(units, codes, vault)
        if found:
            return RoundPlanner(mechanism, codes, rows, found)
    batches = admitted.stream.batches
    rows = read_sample(sample(run, run.plan.privacy.domain, codes, batches), vault)
    if mechanism.secret == "rows" and deepens(codes):
        return RoundPlanner(mechanism, codes, rows, public=lambda: public_rows(batches, vault))
    units_known = None if mechanism.secret == "rows" else 1
    return RoundPlanner(mechanism, codes, rows, units_known, pairs=asks_pairs(run.plan, codes))


CountedRound = Callable[[RoundQuestion, Codes], Sequence[Ref]]
"""The exact sums of a question about these codes, counted now or before."""


def count_round(
    run: RunContext,
    planner: RoundPlanner,
    units: Sequence[Ref],
    sums: Sequence[Ref],
    coded: Callable[[Codes], Sequence[Ref]],
    question: RoundQuestion,
    codes: Codes,
) -> Sequence[Ref]:
    """The exact sums of a round of tallies; `sums` are those of the first.

    coded   the private rows by codes that were learned from earlier rounds, as `recode` writes them
    """
    if codes.pairs:
        return tally(run, units, question.record(), codes)
    if question.record() == planner.question(()).record():
        return sums
    return tally(run, units if codes is planner.codes else coded(codes), question.record())


def release_rounds(run: RunContext, session: Session, planner: Planner, counted: CountedRound) -> Disclosure:
    """Pass round after round through the door: drawn once and published, or replayed."""

    def rounds(door: Stores, session: Session) -> Iterator[Step[Ints]]:
        published = list[dict[str, Any]]()
        for number in range(len(planner.mechanism.rounds)):
            question = planner.question(published)
            sums = counted(question, planner.codes_after(published))
            follow = partial(planner.follow, [*published], question)
            yield round_step(door, session, planner.mechanism, number, question, sums, follow)
            published.append(json.loads(door.released.read(released_by(door, session.id)[number])))

    passed = pass_door(run, session, rounds)
    run.stores.released.restamp(passed.released)  # a file's time would show how long later rounds took to count
    return passed


def last_codes(run: RunContext, planner: Planner, passed: Disclosure) -> Codes:
    """The codes of the last round's question."""
    return planner.codes_after([json.loads(run.stores.released.read(ref)) for ref in passed.released[:-1]])


def label_claim(admitted: Admitted[TalliesAsk], passed: Disclosure) -> dict[str, Any]:
    """The guarantee of inferred labels, for the metadata of their table."""
    session, domain = passed.session, admitted.balance.domain
    return {
        "session": session.id,
        "epsilon": repr(session.epsilon),
        "delta": repr(session.delta),
        "unit": domain.unit,
        "neighbours": domain.neighbours,
        "mechanism": session.kind.name,
    }

"""The main flows:

learn         private and public tables in, a published classifier with its certificate out
extend        more public rows for an open session, answered with its own plan, encoding, teachers, mechanism and key
study_again   another student from the labels that a session released: no teacher, no vote, nothing spent
retest        one more private test of a session's student
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.domains import Domain
from concord.artifacts.errors import WrongInput
from concord.artifacts.learners import StudentPlan
from concord.artifacts.plan import Plan, Way
from concord.artifacts.schemas import PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.flows import stages
from concord.flows.admit import admit, announce_room, begin, may_open_further, precheck_tables
from concord.flows.cache import Files
from concord.flows.outcome import StageName, Summary, shown
from concord.flows.run import (
    OF_HOMES,
    Admitted,
    Counted,
    PrivateFiles,
    RunContext,
    digest_of,
    note_copies,
    running,
)
from concord.flows.set_aside import check_test, choose_student, run_planned_test, test_again
from concord.flows.sketch import BySketch
from concord.flows.stage import Disclosure, pass_door
from concord.flows.stages import encode, put
from concord.flows.steps import AnyLearning, Learning, decide, publish
from concord.flows.tally import BySums
from concord.flows.vote import ByVotes
from concord.tasks.asks.hypothesis import HypothesisAsk
from concord.tasks.asks.labelled import checkpoint_to_extend, checkpoint_to_study, checkpoint_to_test
from concord.tasks.asks.student_choice import settled_now
from concord.tasks.asks.votes import VotesAsk
from concord.tasks.data.places import check_not_private
from concord.tasks.data.tables import find_files
from concord.tasks.door.admit import check_ensemble, planned_domain
from concord.tasks.door.checkpoint import (
    Checkpoint,
    check_open,
    staged,
    stream,
    write_checkpoint,
)
from concord.tasks.door.stores import Stores
from concord.tasks.student.study import Student


@flow(name="learn", flow_run_name="learn {plan.privacy.domain}")
def learn(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier learned from the plan's private table.

    new_session   open a further session in the domain, which costs again
    start_from    run this stage and those after it even if the cache could answer
    """
    if plan.homes is not None:
        raise WrongInput(OF_HOMES)
    if plan.stream is not None:
        raise WrongInput("a plan with [stream] is run by `concord refresh`, which makes one release after another")
    with running(plan, home, new_session=new_session, start_from=start_from) as run:
        return shown(learn_from(run, encode(run, run.plan, run.files("public"))))


def learn_from(run: RunContext, public: PublicRows) -> Summary:
    """Learn in the plan's ways, from the first private row to the certificate: all of their sessions are opened, or
    none."""
    run = decide(run, public)
    ways = ways_of(run, public)
    last = ways[-1]
    if not run.stages.in_replay:  # cached results show that it ran
        ways[0].rehearse()  # of all that the plan asks for
    domain = planned_domain(run.stores, run.plan)
    admitted = admit(run, domain, [way.ask_of_plan(domain) for way in ways], public)
    announce_room(admitted[-1])
    check_test(run, admitted[-1])  # refuses here, before anything private is read
    private = PrivateFiles.of(run, admitted[0].stream.sources)
    precheck_tables(run, private, public.encoding, admitted[0].session)
    asked = list(zip(ways, admitted, strict=True))
    counted = [way.count(each, private) for way, each in asked]
    sessions = list[Session]()
    for each, numbers in zip(admitted, counted, strict=True):
        further = may_open_further(run, next(iter(sessions), None), each.ask)
        sessions.append(begin(run, each, private, numbers, further=further))
    *before, passed = [
        way.release(session, each, numbers)
        for (way, each), session, numbers in zip(asked, sessions, counted, strict=True)
    ]
    admitted[-1] = last.after(admitted[-1])
    chosen = choose_student(last, admitted[-1], private, passed)  # among candidates, if the plan names any
    student = last.fit(chosen.run, admitted[-1], passed, sessions[-1].id)
    also = [*chosen.files, *(file for each in before for file in each.released)]
    tested = run_planned_test(chosen.run, last, admitted[-1], private, chosen.passed, student, also=also)
    return publish(chosen.run, admitted[-1], tested, student, before, codes=last.codes)


@flow(name="extend", flow_run_name="extend {session}")
def extend(session: str, public: str, home: Path) -> Summary:
    """Answer the rows at `public` that the session was not given before; if there are none, nothing is spent.

    If the session ends before the last of them, those answered are published, and the summary has the number of others.
    public   a file, a folder or a glob; files given before are skipped, so a schedule may name the same folder always
    """
    stores = Stores.of(home)
    learned = stores.ledger.session(session)
    plan = settled_now(stores, learned, checkpoint_to_extend(stores.vault, learned).plan)
    with running(plan, home) as run:
        known = run.lock_session(session)
        votes, admitted, teachers = add_rows(run, session, public)  # refuses here, before a teacher votes
        labels = votes.release(known, admitted, Counted((), teachers))
        return shown(publish(run, admitted, labels, votes.fit(run, admitted, labels, session)))


def add_rows(run: RunContext, name: str, path: str) -> tuple[ByVotes, Admitted[VotesAsk], tuple[Ref, ...]]:
    """Add the public rows at `path` that the session was not given before. Returns the session, admitted again, and its
    teachers.

    Once this has returned, the rows will be answered even if this process ends: by the next `extend` or `run`. Nothing
    private is read but the teachers, which the session's checkpoint names.
    Raises WrongInput if the rows do not fit, BudgetRefused if there are new ones and the session has ended.
    """
    vault, session = run.stores.vault, run.stores.ledger.session(name)
    checkpoint = checkpoint_to_extend(vault, session)
    added = put(run, new_files(run, checkpoint, path), checkpoint.encoding, run.plan.labeling.batch)
    sources = {source.digests: source for source in (*checkpoint.sources, *added)}
    longer = checkpoint.model_copy(update={"sources": tuple(sources.values())})
    votes = ByVotes(run, checkpoint.public)
    admitted = votes.resume(session, longer)
    if len(admitted.stream.batches) > len(stream(checkpoint.sources)):
        check_open(session, admitted.stream.rows - session.asked)
    write_checkpoint(vault, session.id, longer)
    return votes, admitted, checkpoint.teachers


def new_files(run: RunContext, checkpoint: Checkpoint, path: str) -> Iterator[Files]:
    """The files at `path` that are not staged for the session yet. Raises WrongInput if one is private."""
    vault, (own, *others) = run.stores.vault, checkpoint.sources
    there = {digest for source in others if staged(vault, source) for digest in source.digests}
    for file in find_files(path, "--public"):
        digest = digest_of(vault, file)
        check_not_private("--public", [file.path], checkpoint.files)
        note_copies(checkpoint.private, "--public", [digest])
        if digest not in there and digest not in own.digests:
            there.add(digest)
            yield Files(str(file.path), (digest,))


@flow(name="study", flow_run_name="study {session}")
def study_again(session: str, home: Path, student: StudentPlan | None = None) -> Summary:
    """Train the session's student again; no row is asked and nothing is spent.

    student   how it learns from now on; default: as the session's plan says
    """
    if student is not None and (student.learner == "universal" or student.candidates):
        what = "student.learner = 'universal' and candidates choose on private rows, which costs"
        raise WrongInput(f"{what}: `concord run` the plan")
    stores = Stores.of(home)
    learned = stores.ledger.session(session)
    earlier = checkpoint_to_study(stores.vault, learned).plan
    plan = earlier.model_copy(update={"student": student}) if student else settled_now(stores, learned, earlier)
    with running(plan, home) as run:
        known = run.lock_session(session)
        checkpoint = checkpoint_to_study(run.stores.vault, known)
        way, admitted, passed = _replayed(run, known, checkpoint)  # refuses here, if labels are missing
        write_checkpoint(run.stores.vault, session, checkpoint.model_copy(update={"plan": plan}))
        return shown(publish(way.run, admitted, passed, way.fit(way.run, admitted, passed, session)))


@flow(name="test", flow_run_name="test {session}")
def retest(session: str, home: Path, epsilon: float | None = None, again: bool = False) -> Summary:
    """Test the session's student on private units set aside, and certify the noisy counts.

    epsilon   the ε the test may cost; without it the last test is shown, and nothing is spent
    again     draw anew if the same was asked before, which costs again
    """
    stores = Stores.of(home)
    learned = stores.ledger.session(session)
    plan = settled_now(stores, learned, checkpoint_to_test(stores.vault, learned).plan)
    with running(plan, home) as run:
        known = run.lock_session(session)
        way, admitted, passed = _replayed(run, known, checkpoint_to_test(run.stores.vault, known))
        student = way.fit(way.run, admitted, passed, session)
        passed = test_again(way.run, admitted, passed, student, epsilon, way.codes, again=again)
        return shown(publish(way.run, admitted, passed, student, codes=way.codes))


def _replayed(
    run: RunContext, session: Session, checkpoint: Checkpoint
) -> tuple[AnyLearning, Admitted[Any], Disclosure]:
    """The way in which a session learned, the session admitted again, and what it released."""
    (way,) = ways_of(run, checkpoint.public)
    admitted = way.resume(session, checkpoint)
    passed = way.replay(session, admitted)
    return way, way.after(admitted), passed


class ByHypothesis(Learning[HypothesisAsk]):
    """The student is a hypothesis, chosen by its errors on the private rows (Nandi & Bassily 2020)."""

    reopens = False

    def ask(self, domain: Domain, session: Session | None = None) -> HypothesisAsk:  # noqa: ARG002, all cost the same
        """The choice among the hypotheses that differ on the public rows."""
        return HypothesisAsk.of(self.run.plan, self.public.encoding, self.public.batches, self.run.stores.vault)

    def count(self, admitted: Admitted[HypothesisAsk], private: PrivateFiles) -> Counted:
        """Count the errors of every candidate."""
        run, stream = self.run, admitted.stream
        counts = stages.count(run, run.plan, private.table, stream.encoding, stream.batches, run.erased)
        check_ensemble(run.stores.vault, admitted.session, (counts.digest,))
        return Counted((counts.digest,), [counts])

    def release(self, session: Session, admitted: Admitted[HypothesisAsk], counted: Counted) -> Disclosure:
        """Choose once."""
        return pass_door(self.run, session, partial(admitted.ask.steps, exact=counted.kept), "choose")

    def fit(self, run: RunContext, admitted: Admitted[HypothesisAsk], passed: Disclosure, where: str) -> Student:
        """The hypothesis itself."""
        stream = admitted.stream
        return stages.study_chosen(run, where, stream.encoding, stream.batches, passed.released[0], run.test)


WAYS: dict[Way, type[AnyLearning]] = {
    "votes": ByVotes,
    "tallies": BySums,
    "sketch": BySketch,
    "hypothesis": ByHypothesis,
}


def ways_of(run: RunContext, public: PublicRows) -> list[AnyLearning]:
    """The ways in which the plan learns, one session each; the last one has the student."""
    return [WAYS[way](run, public) for way in run.plan.ways]

"""The main flows:

learn         private and public tables in, a published classifier with its certificate out
extend        more public rows for an open session, answered with its own plan, encoding, teachers, mechanism and key
study_again   another student from the labels that a session released: no teacher, no vote, nothing spent
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol

from prefect.runtime import flow_run

from concord.artifacts.domains import Domain
from concord.artifacts.errors import WrongInput
from concord.artifacts.learners import StudentPlan
from concord.artifacts.schemas import Encoding, PublicRows, Ref
from concord.artifacts.sessions import LABELS, Session
from concord.artifacts.settings import Settings
from concord.artifacts.stores import Stores
from concord.flows import hypothesis, sketch, tally, vote
from concord.flows.admit import Opened, admit, announce_room, open_together
from concord.flows.ask import check_test, run_planned_test
from concord.flows.home import Memo, plan_and_home, prepare
from concord.flows.operation import ByKey, PlanOrFile, operation
from concord.flows.outcome import StageName, Summary, check_any_asked
from concord.flows.public_stages import encode, stage_rows
from concord.flows.run import (
    Admitted,
    ExactNumbers,
    PrivateFiles,
    PublicStream,
    RunContext,
    charges,
    note_copies,
    running,
)
from concord.flows.stage import Disclosure
from concord.flows.steps import Learned, decide, fit, publish
from concord.tasks.advice.report import naming_the_largest
from concord.tasks.asks.labelled import checkpoint_to_extend, checkpoint_to_study
from concord.tasks.asks.votes import VotesAsk
from concord.tasks.data.places import check_not_private
from concord.tasks.data.tables import Table, open_public
from concord.tasks.door.admit import on_record, planned_domain
from concord.tasks.door.ask import Ask
from concord.tasks.door.checkpoint import Checkpoint, are_there, check_open, stream, write_checkpoint
from concord.tasks.publish.certify import column_types


@operation("learn")
def learn(
    plan: PlanOrFile, home: Path | None = None, new_session: bool = False, start_from: StageName | None = None
) -> Summary:
    """Publish a classifier learned from the plan's private table.

    plan          the plan itself, or its TOML file
    home          the home folder; else CONCORD_HOME, or .concord in the working directory
    new_session   open a further session, which costs again; a retry of the same run never opens one more, and one that
                  a killed run left unpublished is finished first
    start_from    run this stage and those after it even if the cache could answer
    """
    plan, home = plan_and_home(plan, home)
    plan.labeling.check_end()
    if plan.stream is not None:
        raise WrongInput("a plan with [stream] is run by `concord refresh`, which makes one release after another")
    memo, further = Memo(plan, home), new_session and flow_run.run_count <= 1
    tables = memo.tables()
    with (
        naming_the_largest(plan, home),
        running(plan, home, new_session=further, start_from=start_from) as undecided,
    ):
        public = encode(undecided, undecided.plan, undecided.table("public"))
        run = decide(undecided, public)
        ways = [WAYS[way] for way in run.plan.ways]  # the last one has the student
        ways[0].rehearse(run, public.encoding)  # of all that the plan asks for
        domain = planned_domain(run.stores, run.plan)
        asks = [way.ask(run, public, domain) for way in ways]
        admitted = admit(run, domain, asks, public)  # refuses here
        announce_room(admitted[-1])
        check_test(run, admitted[-1])
        opened, private = open_together(run, admitted, [partial(way.count_exact, run) for way in ways])
        before = tuple[Disclosure, ...]()
        for way, session in zip(ways, opened, strict=True):
            learned = replace(way.release(run, session), before=before)  # the door
            before = (*before, learned.passed)
        student = fit(learned)
        summary = publish(run_planned_test(learned, private, student), student)
    memo.write(summary, tables)
    return summary


@operation("extend", "extend {session}")
def extend(session: str, public: Path, home: Path | None = None) -> Summary:
    """Answer the rows at `public` that the session was not given before; if there are none, nothing is spent.

    session   its id, or the domain whose latest session is meant
    public    a file, a folder or a glob; files given before are skipped, so a schedule may name the same folder always
    If the session ends before the last of them, those answered are published, and the summary has the number of others.
    Raises RowsNotPaid if all new rows are others.
    """
    check_here(public)
    home = prepare(home or Settings.now().home)
    stores = Stores.of(home)
    learned = latest(stores, session)
    plan = checkpoint_to_extend(stores, learned).plan
    with running(plan, home) as run:
        locked = run.lock_session(learned.id)
        admitted, teachers = add_rows(run, learned.id, str(public.absolute()))  # refuses here, before a teacher votes
        answered = vote.release(run, Opened(admitted, locked, ExactNumbers((), teachers)))
        summary = publish(answered, fit(answered))
    check_any_asked(summary)
    return summary


def latest(stores: Stores, name: str) -> Session:
    """The session of that id, or the domain's latest session that answers rows. Raises WrongInput."""
    answering = [session for session in stores.ledger.sessions(name) if session.purpose == LABELS]
    return answering[-1] if answering else stores.ledger.session(name)


def check_here(public: Path) -> None:
    """Raise WrongInput if a path is an address: later rows are recognised by the files they come in. The message hides
    it, since it may hold a password."""
    scheme = public.parts[0] if public.parts else ""
    if len(scheme) > 2 and scheme.endswith(":"):  # a drive of Windows has one letter
        raise WrongInput(
            f"--public must be a file, a folder or a glob of this machine, got an address of {scheme}//: copy what "
            "arrived into a folder, and name that one again and again"
        )


def add_rows(run: RunContext, name: str, path: str) -> tuple[Admitted[VotesAsk], tuple[Ref, ...]]:
    """Add the public rows at `path` that the session was not given before. Returns the session, admitted again, and its
    teachers.

    Once this has returned, the rows will be answered even if this process ends: by the next `extend` or `run`. Nothing
    private is read but the teachers, which the session's checkpoint names.
    Raises WrongInput if the rows do not fit, BudgetRefused if there are new ones and the session has ended.
    """
    session = run.stores.ledger.session(name)
    checkpoint = checkpoint_to_extend(run.stores, session)
    added = stage_rows(run, new_files(run, checkpoint, path), checkpoint.encoding, run.plan.labeling.batch)
    sources = {source.digests: source for source in (*checkpoint.sources, *added)}
    longer = checkpoint.model_copy(update={"sources": tuple(sources.values())})
    admitted = resume(run, vote, session, longer)
    if len(admitted.stream.batches) > len(stream(checkpoint.sources)):
        check_open(session, admitted.stream.rows - session.asked)
    write_checkpoint(run.stores, session.id, longer)
    return admitted, checkpoint.teachers


def new_files(run: RunContext, checkpoint: Checkpoint, path: str) -> Iterator[Table]:
    """The files at `path` that are not staged for the session yet. Raises WrongInput if one is private."""
    plans, *others = checkpoint.sources
    there = {digest for source in others if are_there(run.stores, source.files) for digest in source.digests}
    table = run.digested(open_public(path, "--public"))
    for file, digest in zip(table.files, table.digests, strict=True):
        check_not_private("--public", [file.path], checkpoint.files)
        note_copies(checkpoint.private, "--public", [digest])
        if digest not in there and digest not in plans.digests:
            there.add(digest)
            yield replace(table, path=str(file.path), files=(file,), digests=(digest,))


@operation("study", "study {session}", asks=False)
def study_again(
    session: str, home: Path | None = None, student: Annotated[StudentPlan | None, ByKey()] = None
) -> Summary:
    """Train the session's student again; no row is asked and nothing is spent.

    session, home   as for `extend`
    student         how it learns from now on; default: as the session's plan says
    """
    if student is not None and student.learner == "universal":
        what = "student.learner = 'universal' chooses on private rows, which costs"
        raise WrongInput(f"{what}: `concord run` the plan")
    home = prepare(home or Settings.now().home)
    stores = Stores.of(home)
    learned = latest(stores, session)
    earlier = checkpoint_to_study(stores, learned).plan
    plan = earlier.model_copy(update={"student": student}) if student else earlier
    with running(plan, home, workers=False) as run:
        locked = run.lock_session(learned.id)
        checkpoint = checkpoint_to_study(run.stores, locked)
        way = REOPENED[plan.ways[0]]
        replayed = way.replay(run, locked, resume(run, way, locked, checkpoint))  # refuses here, if labels are missing
        write_checkpoint(run.stores, learned.id, checkpoint.model_copy(update={"plan": plan}))
        return publish(replayed, fit(replayed))


class Learns(Protocol):
    """A way to learn: the functions of its file."""

    def rehearse(self, run: RunContext, encoding: Encoding) -> None: ...
    def ask(self, run: RunContext, public: PublicRows, domain: Domain, session: Session | None = None) -> Ask[Any]: ...
    def count_exact(self, run: RunContext, admitted: Admitted[Any], private: PrivateFiles) -> ExactNumbers: ...
    def release(self, run: RunContext, opened: Opened[Any]) -> Learned: ...


class Reopens(Learns, Protocol):
    """A way whose sessions can be reopened: tested, extended, learned from again."""

    def replay(self, run: RunContext, session: Session, admitted: Admitted[Any]) -> Learned: ...


REOPENED: dict[str, Reopens] = {"votes": vote, "tallies": tally, "sketch": sketch}
WAYS: dict[str, Learns] = {**REOPENED, "hypothesis": hypothesis}


def resume(run: RunContext, way: Learns, session: Session, checkpoint: Checkpoint) -> Admitted[Any]:
    """An open session that goes on, with all rows of its checkpoint.

    Raises NotVerified if it would not go on as it began or rows are gone, WrongInput if its tables no longer fit.
    """
    domain = run.stores.ledger.domain_of(session)
    ask = on_record(run.stores, session, way.ask(run, checkpoint.public, domain, session))
    way.rehearse(run, checkpoint.encoding)
    column_types(run.plan.path("public"), checkpoint.encoding)  # checked now: MLflow needs them after the spend
    stream = PublicStream.of(run, session, checkpoint.encoding, checkpoint.sources)
    return Admitted(domain, charges(run, domain), ask, stream, session)

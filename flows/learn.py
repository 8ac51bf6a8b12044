"""The main flows:

learn         private and public tables in, a published classifier with its certificate out
tallies       the same without votes: rows are asked in rounds, and labels of public rows inferred
extend        more public rows for an open session, answered with its own plan, encoding, teachers, mechanism and key
study_again   another student from the labels that a session released: no teacher, no vote, nothing spent
estimate      the teachers' error, released with noise, and a suggested cutoff: in a session of its own that answers no
              row
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.errors import WrongInput
from concord.artifacts.learners import StudentPlan
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref
from concord.flows.cache import Files
from concord.flows.console import out
from concord.flows.outcome import StageName, Summary, shown, spent_in_words
from concord.flows.precheck import look_over
from concord.flows.run import (
    Admitted,
    Balance,
    Private,
    PublicStream,
    RunContext,
    check_not_private,
    digest_of,
    running,
)
from concord.flows.stage import Disclosure
from concord.flows.stages import Public, blocks, encode, measure, put, release_estimate, split, study
from concord.flows.steps import (
    begin_session,
    check_unchanged,
    covered,
    decide,
    find,
    go_on,
    publish,
    rehearse,
)
from concord.flows.tally import (
    admit_tallies,
    code,
    follower_of,
    gather,
    labels_of,
    last_codes,
    publish_tallies,
    recode,
    rehearse_tallies,
    release_rounds,
    study_tallies,
    tally,
)
from concord.flows.trial import check_test, choose, try_student
from concord.flows.vote import admit, ask, replay_labels, share, teach, training_rows
from concord.tasks.asking.teachers import rehearse_teachers
from concord.tasks.data.codes import Codes
from concord.tasks.data.tables import find_files
from concord.tasks.door.admit import Asked, planned_domain
from concord.tasks.door.checkpoint import (
    Checkpoint,
    check_open,
    checkpoint_to_extend,
    checkpoint_to_study,
    staged,
    write_checkpoint,
)
from concord.tasks.door.choose import HeldOut, Suggestion, estimate_depends_on
from concord.tasks.door.release import Stores
from concord.tasks.door.rounds import sums_digest
from concord.tasks.door.trial import settled_now
from concord.tasks.mechanisms.error_estimate import ErrorEstimate, check_parameters
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.student.study import Student


@flow(name="learn", flow_run_name="learn {plan.privacy.domain}")
def learn(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier learned from the plan's private table.

    new_session   open a further session in the domain, which costs again
    start_from    run this stage and those after it even if the cache could answer
    """
    with running(plan, home, new_session=new_session, start_from=start_from) as run:
        public = encode(run, run.plan, run.files("public"))
        chosen = decide(run, public)
        return shown((learn_from_tallies if chosen.plan.tallied else learn_from_votes)(chosen, public))


def learn_from_votes(run: RunContext, public: Public) -> Summary:
    """Teachers vote on the public rows, the votes become labels at the door, and a student learns from those."""
    plan = run.plan
    rehearse(run, public.encoding)
    admitted = check_test(run, admit(run, public))  # refuses here, before anything private is read
    stream, private = admitted.stream, Private.of(run, admitted.stream.sources)
    look_over(run, private, stream.encoding, admitted.session)
    shards = split(run, plan, private.table, stream.encoding, run.erased, share=share(admitted.mechanism))
    trained = training_rows(run, admitted, shards)  # the shards, relabelled if the plan asks for it
    teachers = teach(run, admitted, trained)
    session = begin_session(run, admitted, private, trained.made_of, teachers, trained.relabelled)
    labels = ask(run, session, admitted, teachers)

    def fit(settled: RunContext, where: str) -> Student:
        return study(settled, where, settled.plan, stream.encoding, stream.batches, labels.released, run.test)

    chosen = choose(run, admitted, private, labels, fit)  # among candidates, if the plan names any
    student = fit(chosen.run, session.id)
    tested = try_student(chosen.run, admitted, private, chosen.passed, student, also=chosen.files)
    return publish(chosen.run, admitted, tested, student)


@flow(name="tallies", flow_run_name="tallies {plan.privacy.domain}")
def tallies(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier learned from tallies of the plan's private table; arguments are those of `learn`."""
    with running(plan, home, new_session=new_session, start_from=start_from) as run:
        return shown(learn_from_tallies(run, encode(run, plan, run.files("public"))))


def learn_from_tallies(run: RunContext, public: Public) -> Summary:
    """Release noisy sums over public codes in rounds, and infer labels of the public rows from them; nobody votes."""
    plan, vault = run.plan, run.stores.vault
    rehearse_tallies(run, public.encoding)
    codes = code(run, plan, public.encoding, public.batches)
    admitted = check_test(run, admit_tallies(run, public, codes))  # refuses here, before anything private is read
    stream, private = admitted.stream, Private.of(run, admitted.stream.sources)
    look_over(run, private, stream.encoding, admitted.session)
    units = gather(run, plan, private.table, stream.encoding, codes, run.erased)
    follower = follower_of(run, admitted, codes, units)
    # totals of codes alone would not show changed labels
    sums = [tally(run, units, question.record()) for question in follower.unaided()]
    made_of = tuple(sums_digest(each, vault) for each in sums)
    check_unchanged(run, admitted.session, made_of)
    session = begin_session(run, admitted, private, made_of, [*units, *chain.from_iterable(sums)])

    def coded(learned: Codes) -> Sequence[Ref]:
        return recode(run, plan, private.table, stream.encoding, learned, run.erased, units)

    passed = release_rounds(run, session, follower, units, sums[0], coded)
    codes = last_codes(run, follower, passed)
    labels = labels_of(run, admitted, codes, passed)

    def fit(settled: RunContext, where: str) -> Student:
        return study_tallies(settled, admitted, codes, passed, labels, where)

    chosen = choose(run, admitted, private, passed, fit, codes, also=[labels])
    student = fit(chosen.run, session.id)
    tested = try_student(chosen.run, admitted, private, chosen.passed, student, codes, also=[labels, *chosen.files])
    return publish_tallies(chosen.run, admitted, codes, tested, labels, student)


@flow(name="extend", flow_run_name="extend {session}")
def extend(session: str, public: str, home: Path) -> Summary:
    """Answer the rows at `public` that the session was not given before; if there are none, nothing is spent.

    public   a file, a folder or a glob; files given before are skipped, so a schedule may name the same folder always
    """
    stores = Stores.of(home)
    learned = stores.ledger.session(session)
    plan = settled_now(stores, learned, checkpoint_to_extend(stores.vault, learned).plan)
    with running(plan, home) as run:
        known = run.hold(session)
        admitted, teachers = add_rows(run, session, public)  # refuses here, before a teacher votes
        stream, labels = admitted.stream, ask(run, known, admitted, teachers)
        student = study(run, session, plan, stream.encoding, stream.batches, labels.released, run.test)
        return shown(publish(run, admitted, labels, student))


def add_rows(run: RunContext, name: str, path: str) -> tuple[Admitted[Mechanism], tuple[Ref, ...]]:
    """Add the public rows at `path` that the session was not given before. Returns the session, admitted again, and its
    teachers.

    Once this has returned, the rows will be answered even if this process ends: by the next `extend` or `run`. Nothing
    private is read but the teachers, which the session's checkpoint names.
    Raises WrongInput if the rows do not fit, BudgetRefused if there are new ones and the session has ended.
    """
    vault, session = run.stores.vault, run.stores.ledger.session(name)
    checkpoint = checkpoint_to_extend(vault, session)
    admitted = go_on(run, session, checkpoint)
    added = put(run, new_files(run, checkpoint, path), checkpoint.encoding, run.plan.labeling.batch)
    sources = {source.digests: source for source in (*checkpoint.sources, *added)}
    stream = PublicStream.of(run, session, checkpoint.encoding, sources.values())
    if len(stream.batches) > len(admitted.stream.batches):
        check_open(session)
    write_checkpoint(vault, session.id, checkpoint.model_copy(update={"sources": stream.sources}))
    return replace(admitted, stream=stream), checkpoint.teachers


def new_files(run: RunContext, checkpoint: Checkpoint, path: str) -> Iterator[Files]:
    """The files at `path` that are not staged for the session yet. Raises WrongInput if one is private."""
    vault, (own, *others) = run.stores.vault, checkpoint.sources
    there = {digest for source in others if staged(vault, source) for digest in source.digests}
    for file in find_files(path, "--public"):
        digest = digest_of(vault, file)
        check_not_private("--public", [digest], checkpoint.private)
        if digest not in there and digest not in own.digests:
            there.add(digest)
            yield Files(str(file.path), (digest,))


@flow(name="study", flow_run_name="study {session}")
def study_again(session: str, home: Path, student: StudentPlan | None = None) -> Summary:
    """Train the session's student again; no row is asked and nothing is spent.

    student   how it learns from now on; default: as the session's plan says
    """
    if student is not None and (student.learner == "universal" or student.candidates):
        what = "learner = 'universal' chooses" if student.learner == "universal" else "candidates are chosen among"
        raise WrongInput(f"student.{what} on private rows, which costs: `concord run` its plan")
    stores = Stores.of(home)
    learned = stores.ledger.session(session)
    earlier = checkpoint_to_study(stores.vault, learned).plan
    plan = earlier.model_copy(update={"student": student}) if student else settled_now(stores, learned, earlier)
    with running(plan, home) as run:
        known = run.hold(session)
        checkpoint = checkpoint_to_study(run.stores.vault, known)
        admitted = go_on(run, known, checkpoint)
        stream = PublicStream.of(run, known, checkpoint.encoding, checkpoint.sources)
        labels = replay_labels(run, known, admitted)  # refuses here, if labels are missing
        write_checkpoint(run.stores.vault, session, checkpoint.model_copy(update={"plan": plan}))
        fitted = study(run, session, plan, stream.encoding, stream.batches, labels.released, run.test)
        return shown(publish(run, admitted, labels, fitted))


@flow(name="estimate")
def estimate(plan: Plan, home: Path, epsilon: float, share: float, beta: float, again: bool = False) -> dict[str, Any]:
    """Estimate how much the plan's teachers err, at a cost of (epsilon, 0), and suggest a cutoff.

    share   the probability that a unit is set aside to test its shard's teacher on
    beta    the probability that the suggested cutoff is too low
    again   open a further estimate in the domain, which costs again
    """
    check_parameters(fractions={"share": share, "beta": beta}, positive={"epsilon": epsilon})
    if not plan.votes:
        raise WrongInput("an estimate tries teachers, and the plan has none: it must have [teachers] and [labeling]")
    if plan.relabel is not None:
        raise WrongInput(
            "an estimate tries teachers that learn from the private rows as they are, not from the secret subset of "
            "[relabel], which nothing else may look at: choose a cutoff by `concord plan` and a public guess, or "
            "estimate a copy of the plan without [relabel], whose teachers have more rows and other labels"
        )
    held_out = HeldOut(ErrorEstimate.calibrate(epsilon=epsilon, shards=plan.teachers.count), {"share": share})
    with running(plan, home, new_session=again) as run:
        public = encode(run, run.plan, run.files("public"))
        rehearse_teachers(run.plan.teachers, public.encoding)
        domain = planned_domain(run.stores, run.plan)
        depends, teachers = estimate_depends_on(run.plan, held_out), run.plan.teachers.count
        asked = Asked.once(run.plan, held_out, public.encoding, run.stores.vault, depends, teachers=teachers)
        admitted = covered(run, find(run, public, domain, held_out, asked))  # refuses here
        stream = admitted.stream
        private = Private.of(run, stream.sources)
        look_over(run, private, stream.encoding, admitted.session)
        shards = split(run, run.plan, private.table, stream.encoding, run.erased, aside=share)
        measured = measure(run, blocks(run.plan, shards), run.plan, stream.encoding)
        made_of = [ref.digest for ref in measured]
        check_unchanged(run, admitted.session, made_of)
        session = begin_session(run, admitted, private, made_of, measured)
        passed = release_estimate(run, session, held_out, measured)
        released = run.stores.released.read(passed.released[0])
        suggestion = Suggestion.of(held_out, released, queries=stream.rows, beta=beta)
        return write_down(run, admitted.balance, passed, suggestion)


def write_down(run: RunContext, balance: Balance, passed: Disclosure, suggestion: Suggestion) -> dict[str, Any]:
    """Record the estimate in MLflow if it is new. Returns its details."""
    from concord.artifacts.mlflow.write import Tracking  # heavy; a cached run does without it

    session = passed.session
    claim = {"epsilon": session.epsilon, "delta": session.delta}
    fields = {**claim, **suggestion.model_dump(), **session.mechanism}
    return {
        "session": session.id,
        "guarantee": {**claim, "unit": balance.domain.unit},
        "teachers": session.teachers,
        **suggestion.model_dump(),
        "estimate": str(run.stores.released.root / passed.released[0].path),
        "stages": [report.model_dump() for report in run.stages.reports],
        **balance.charged(run),
        "run_id": Tracking.of(run.home).keep_estimate(balance.domain.name, session.id, fields, passed.at),
    }


def show_estimate(details: dict[str, Any]) -> None:
    """Print the estimate, its cost, and how to use it."""
    guarantee = details["guarantee"]
    rows = {
        "teachers": f"{details['teachers']} err on {details['rate']:.1%} of rows set aside, by a noisy estimate",
        "guarantee": f"ε = {guarantee['epsilon']:g}, δ = 0 for {guarantee['unit']}, in session {details['session']}",
        "spent now": spent_in_words(details["lifetime"]),
        "next": f"set cutoff = {details['cutoff']} in [labeling]: enough for {details['queries']:,} public rows, "
        f"but for a chance of {details['beta']:g} (BTT18, Theorem 3.2)",
        "estimate": details["estimate"],
    }
    if details["cutoff"] >= details["queries"]:
        rows["next"] = (
            "take a mechanism that pays by row: they err too often for a cutoff below the number of public rows"
        )
    for name, value in rows.items():
        out.print(f"{name:<11}  {value}", soft_wrap=True, markup=False)

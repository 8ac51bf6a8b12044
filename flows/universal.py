"""The flow of a universal student, chosen by private errors (`tasks.door.choose`), with or without votes for labels.

The choice has a session of its own. If the plan asks for labels as well (Nandi & Bassily 2020, universal labelling),
they have a second session. Both are admitted together, before anything private is read.
"""

from dataclasses import replace
from itertools import dropwhile
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.domains import Domain
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Opening, Session
from concord.flows import stages
from concord.flows.outcome import StageName, Summary, shown
from concord.flows.precheck import look_over
from concord.flows.run import Admitted, Balance, Private, PublicStream, RunContext, running
from concord.flows.stages import encode, split, study_chosen
from concord.flows.steps import begin_session, check_unchanged, decide, publish, rehearse
from concord.flows.trial import check_test, try_student
from concord.flows.vote import ask, find_votes, share, teach, training_rows
from concord.tasks.data.parts import division_of
from concord.tasks.door.admit import Asked, going_on, planned_domain
from concord.tasks.door.choose import UniversalChoice, choice_depends_on
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.mechanism import Mechanism


@flow(name="universal", flow_run_name="universal {plan.privacy.domain}")
def universal(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier chosen by its errors on the plan's private table; arguments are those of `learn`."""
    with running(plan, home, new_session=new_session, start_from=start_from) as run:
        return shown(choose_with_labels(run) if plan.votes else choose_student(run))


def choose_student(run: RunContext) -> Summary:
    """Choose the student by its errors on the private rows; nobody votes."""
    public = encode(run, run.plan, run.files("public"))
    rehearse(run, public.encoding)
    domain, stream = planned_domain(run.stores, run.plan), PublicStream(public.encoding, (run.own(public.batches),))
    choice = check_test(run, admit_choice(run, domain, stream, None))  # refuses here, before anything private is read
    private = Private.of(run, stream.sources)
    look_over(run, private, stream.encoding, choice.session)
    counts = private_errors(run, choice, private)
    session = begin_session(run, choice, private, (counts.digest,), [counts])
    chosen = stages.choose(run, session, choice.mechanism, stream.batches, counts, run.plan.data.classes)
    student = study_chosen(run, session.id, stream.encoding, stream.batches, chosen.released[0], run.test)
    return publish(run, choice, try_student(run, choice, private, chosen, student), student)


def choose_with_labels(run: RunContext) -> Summary:
    """Label public rows by votes, and choose the student among all hypotheses that differ on those rows."""
    public = encode(run, run.plan, run.files("public"))
    run = decide(run, public)
    plan = run.plan
    rehearse(run, public.encoding)
    admitted = find_votes(run, public)
    stream = admitted.stream
    choice = check_test(run, admit_choice(run, admitted.balance.domain, stream, admitted))  # refuses here, as above
    private = Private.of(run, stream.sources)
    look_over(run, private, stream.encoding, admitted.session)
    shards = split(run, plan, private.table, stream.encoding, run.erased, share=share(admitted.mechanism))
    trained = training_rows(run, admitted, shards)
    teachers = teach(run, admitted, trained)
    counts = private_errors(run, choice, private)
    session = begin_session(run, admitted, private, trained.made_of, teachers, trained.relabelled)
    choosing = begin_session(run, choice, private, (counts.digest,), [counts], further=_further(run, session))
    labels = ask(run, session, admitted, teachers)
    chosen = stages.choose(run, choosing, choice.mechanism, stream.batches, counts, plan.data.classes)
    student = study_chosen(run, choosing.id, stream.encoding, stream.batches, chosen.released[0], run.test)
    tested = try_student(run, choice, private, chosen, student, also=labels.released)
    summary = publish(run, choice, tested, student, {session.id: labels.released})
    return summary.model_copy(update=_of_labels(labels.session))


def admit_choice(
    run: RunContext, domain: Domain, stream: PublicStream, labels: Admitted[Mechanism] | None
) -> Admitted[UniversalChoice]:
    """The choice, with its session open already or covered by the domain.

    labels   the session of the labels, as it was found; None if nobody votes
    Raises BudgetRefused if the missing sessions may not be opened, all at one price; spends nothing.
    """
    chooser = UniversalChoice.of(run.plan, stream.encoding, stream.batches, run.stores.vault)
    run.wait_for(_asked(run, chooser, stream).identity)
    balance = Balance.of(run, domain)
    for candidate in (chooser, chooser.earlier, chooser):  # none found: a new one is asked for as this version does
        asked = _asked(run, candidate, stream)
        session = going_on(run.stores, asked, new_session=run.new_session)
        if session is not None:
            break
    choice = Admitted(balance, candidate, asked, stream, session)
    _check_openings(run, choice, labels)
    return choice if session is None else replace(choice, session=run.hold(session.id))


def _asked(run: RunContext, chooser: UniversalChoice, stream: PublicStream) -> Asked:
    depends = choice_depends_on(run.plan, chooser, stream.batches)
    return Asked.once(run.plan, chooser, stream.encoding, run.stores.vault, depends)


def _check_openings(run: RunContext, choice: Admitted[UniversalChoice], labels: Admitted[Mechanism] | None) -> None:
    """Raise BudgetRefused if the missing sessions may not be opened, all at one price; spends nothing."""
    lacking, further = list[Asked](), _further(run, labels.session if labels else None)
    if labels is not None and (labels.session is None or (choice.session is None and not further)):
        lacking.append(labels.asked)  # or the session that --new-session would open, if only that is missing
    if choice.session is None:
        lacking.append(choice.asked)
    if lacking:
        division = division_of(run.plan, run.stores.vault)
        whole = Opening.of_all([missing.opening(division) for missing in lacking])
        run.stores.ledger.check_opening(whole, choice.balance.domain, further=further)


def _further(run: RunContext, labels: Session | None) -> bool:
    """Whether one more session may be opened. A first choice for labels is not a further session, since the plan asks
    for both."""
    return run.new_session or (labels is not None and not _chosen_for(run, labels))


def _chosen_for(run: RunContext, labels: Session) -> bool:
    """Whether a student was chosen for those labels; newly bought labels get their own choice."""
    since = dropwhile(lambda session: session.id != labels.id, run.stores.ledger.sessions(labels.domain))
    return any(item.mechanism["name"] == Universal.name for item in since)


def private_errors(run: RunContext, choice: Admitted[UniversalChoice], private: Private) -> Ref:
    """Errors of every candidate on the private rows. Raises NotVerified if the session was opened with others."""
    stream = choice.stream
    counts = stages.count(run, run.plan, private.table, stream.encoding, stream.batches, run.erased)
    check_unchanged(run, choice.session, (counts.digest,))
    return counts


def _of_labels(session: Session) -> dict[str, Any]:
    """The summary's fields about rows and teachers, from the session of the labels."""
    return {name: getattr(session, name) for name in ("teachers", "asked", "answered", "refused")}

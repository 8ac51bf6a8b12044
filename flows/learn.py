"""The main flow: private and public tables in, a published classifier with its certificate out."""

from pathlib import Path

from prefect import flow

from concord.artifacts.plan import Plan
from concord.flows.outcome import StageName, Summary, shown
from concord.flows.run import Private, RunContext, running
from concord.flows.stages import blocks, encode, release, split, study, teach
from concord.flows.steps import admit, begin_session, count_votes, publish, rehearse, share, training_rows
from concord.flows.trying import check_test, try_student


@flow(name="learn", flow_run_name="learn {plan.privacy.domain}")
def learn(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier learned from the plan's private table.

    new_session   open a further session in the domain, which costs again
    start_from    run this stage and those after it even if the cache could answer
    """
    with running(plan, home, new_session=new_session, start_from=start_from) as run:
        return shown(learn_from_votes(run))


def learn_from_votes(run: RunContext) -> Summary:
    """Teachers vote on the public rows, the votes become labels at the door, and a student learns from those."""
    plan = run.plan
    public = encode(run, plan, run.files("public"))
    rehearse(run, public.encoding)
    admitted = check_test(run, admit(run, public))  # refuses here, before anything private is read
    stream, mechanism = admitted.stream, admitted.mechanism
    private = Private.of(run, stream.sources)
    shards = split(run, plan, private.table, stream.encoding, run.erased, share=share(mechanism))
    trained = training_rows(run, admitted, shards)  # the shards, relabelled if the plan asks for it
    teachers = teach(run, blocks(plan, trained.shards), plan, stream.encoding)
    votes = count_votes(run, stream, teachers)
    session = begin_session(run, admitted, private, trained.made_of, teachers, trained.relabelled)
    labels = release(run, session, mechanism, plan.data.classes, stream.batches, votes)
    student = study(run, session.id, plan, stream.encoding, stream.batches, labels.released, run.test)
    tested = try_student(run, admitted, private, labels, student)
    return publish(run, admitted, tested, student)

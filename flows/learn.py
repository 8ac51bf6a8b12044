"""The main flow: private and public tables in, a published classifier with its certificate out."""

from pathlib import Path

from prefect import flow

from concord.artifacts.plan import Plan
from concord.flows.outcome import StageName, Summary, shown
from concord.flows.pipeline import Pipeline
from concord.flows.universal import Choosing, choose, choose_beside_labels


@flow(name="learn", flow_run_name="learn {plan.privacy.domain}")
def learn(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier learned from the plan's private table.

    new_session   open a further session in the domain, which costs again
    start_from    run this stage and those after it even where the cache could answer
    """
    if plan.student.learner == "universal":
        with Choosing(plan, home, new_session=new_session, start_from=start_from) as choosing:
            return shown(choose_beside_labels(choosing) if plan.votes else choose(choosing))
    with Pipeline(plan, home, new_session=new_session, start_from=start_from) as line:
        public = line.encode()
        stream = line.admit(public)  # refuses here, before anything private is read
        shards = line.split(stream)
        trained = line.relabel(stream, shards)  # as they are, where the plan does not ask for it
        teachers = line.teach(stream, trained)
        votes = line.poll(stream, teachers)
        line.open(stream, trained, teachers)
        labels = line.release(stream, votes)
        student = line.study(stream, labels)
        return shown(line.certify(stream, labels, student))

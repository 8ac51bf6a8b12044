"""The main flow: private and public tables in, a published classifier with its certificate out."""

from pathlib import Path

from prefect import flow

from artifacts.plan import Plan
from flows.choosing import Choosing
from flows.outcome import StageName, Summary
from flows.page import shown
from flows.pipeline import Pipeline


@flow(name="learn", flow_run_name="learn {plan.privacy.domain}")
def learn(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier learned from the plan's private table.

    new_session   open a further session in the domain, which costs again
    start_from    run this stage and those after it even where the cache could answer
    """
    if plan.student.learner == "universal":
        with Choosing(plan, home, new_session=new_session, start_from=start_from) as choosing:
            return shown(_choose_beside_labels(choosing) if plan.votes else _choose(choosing))
    with Pipeline(plan, home, new_session=new_session, start_from=start_from) as line:
        public = line.encode()
        stream = line.admit(public)  # refuses here, before anything private is read
        shards = line.split(stream)
        taught = line.relabel(stream, shards)  # as they are, where the plan does not ask for it
        teachers = line.teach(stream, taught)
        votes = line.poll(stream, teachers)
        line.open(stream, taught, teachers)
        labels = line.release(stream, votes)
        student = line.study(stream, labels)
        return shown(line.certify(stream, labels, student))


def _choose(line: Choosing) -> Summary:
    """Nobody votes: the student is chosen by its errors on the private rows."""
    public = line.encode()
    stream = line.admit(public)
    counts = line.count(stream)
    line.open_choice(stream, counts)
    chosen = line.choose(stream, counts)
    student = line.study_chosen(stream, chosen)
    return line.certify_chosen(stream, [], chosen, student)


def _choose_beside_labels(line: Choosing) -> Summary:
    """Public rows are labelled by votes, and the student is chosen among all that tell those rows apart."""
    public = line.encode()
    stream = line.admit(public)
    shards = line.split(stream)
    taught = line.relabel(stream, shards)
    teachers = line.teach(stream, taught)
    votes = line.poll(stream, teachers)
    counts = line.count(stream)
    line.open(stream, taught, teachers)
    line.open_choice(stream, counts)
    labels = line.release(stream, votes)
    chosen = line.choose(stream, counts)
    student = line.study_chosen(stream, chosen)
    return line.certify_chosen(stream, labels, chosen, student)

"""The main flow: private and public tables in, a published classifier with its certificate out."""

from pathlib import Path

from prefect import flow

from artifacts.plan import Plan
from flows.outcome import StageName, Summary
from flows.pipeline import Pipeline


@flow(name="learn")
def learn(plan: Plan, home: Path, new_session: bool = False, start_from: StageName | None = None) -> Summary:
    """Publish a classifier learned from the plan's private table.

    new_session   open a further session in the domain, which costs again
    start_from    run this stage and those after it even where the cache could answer
    """
    with Pipeline(plan, home, new_session=new_session, start_from=start_from) as line:
        public = line.encode()
        stream = line.admit(public)  # refuses here, before anything private is read
        shards = line.split(stream)
        teachers = line.teach(stream, shards)
        votes = line.poll(stream, teachers)
        line.open(stream, shards, teachers)
        labels = line.release(stream, votes)
        student = line.study(stream, labels)
        return line.certify(stream, labels, student)

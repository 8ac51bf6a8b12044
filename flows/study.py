"""The flow of another student: learned from the labels a session released, with its certificate out.

It is post-processing: it needs the session's checkpoint, its public rows and its released labels; no teacher, no vote.
"""

from datetime import UTC, datetime
from pathlib import Path

from prefect import flow

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import Ref
from concord.artifacts.sections import StudentPlan
from concord.artifacts.sessions import Session
from concord.flows import stages
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, PublicStream, RunContext, running
from concord.flows.stage import Disclosure
from concord.flows.steps import go_on, publish
from concord.tasks.door import release
from concord.tasks.door.checkpoint import Checkpoint, check_fitted, read_checkpoint, write_checkpoint
from concord.tasks.door.release import Stores
from concord.tasks.mechanisms.mechanism import Mechanism


@flow(name="study", flow_run_name="study {session}")
def study(session: str, home: Path, student: StudentPlan | None = None) -> Summary:
    """Train the session's student again; no row is asked and nothing is spent.

    student   how it learns from now on; without it, as the session's plan says
    """
    if student is not None and student.learner == "universal":
        raise WrongInput("student.learner = 'universal' chooses on private rows, which costs: `concord run` its plan")
    earlier = checkpoint_of(Stores.of(home), session).plan
    plan = earlier if student is None else earlier.model_copy(update={"student": student})
    with running(plan, home) as run:
        known = run.hold(session)
        checkpoint = checkpoint_of(run.stores, session)
        admitted = go_on(run, known, checkpoint)
        stream = PublicStream.of(run, known, checkpoint.encoding, checkpoint.sources)
        labels = replayed(run, known, admitted)  # refuses here, if labels are missing
        write_checkpoint(run.stores.vault, session, checkpoint.model_copy(update={"plan": plan}))
        learned = stages.study(run, session, plan, stream.encoding, stream.batches, labels.released, run.test)
        return shown(publish(run, admitted, labels, learned))


def replayed(run: RunContext, session: Session, admitted: Admitted[Mechanism]) -> Disclosure:
    """The labels as they were released. Raises WrongInput if rows have no label yet, NotVerified if a file is gone."""
    classes, batches = run.plan.data.classes, admitted.stream.batches

    def work() -> tuple[list[Ref], bool]:
        return release.replay(run.stores, session, admitted.mechanism, classes, batches), True

    return Disclosure(session, run.stages.uncached("release", work), 0, datetime.now(UTC))


def checkpoint_of(stores: Stores, session: str) -> Checkpoint:
    known = stores.ledger.session(session)  # or there is no such session
    checkpoint = read_checkpoint(stores.vault, session)
    if checkpoint is None:
        raise WrongInput(f"session {session} keeps no rows to learn from: it was forgotten, or released nothing yet")
    check_fitted(known, checkpoint.plan)
    return checkpoint

"""The flow of another student: learned from the labels a session released, with its certificate out.

It needs the session's checkpoint, its public rows and its released labels; no teacher, no vote.
"""

from datetime import UTC, datetime
from pathlib import Path

from prefect import flow

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import Ref
from concord.artifacts.sections import StudentPlan
from concord.flows.keys import Public
from concord.flows.outcome import Summary, shown
from concord.flows.pipeline import Pipeline
from concord.tasks.door import release
from concord.tasks.door.checkpoint import Checkpoint, check_fitted, read_checkpoint, write_checkpoint
from concord.tasks.door.release import Stores


class Retraining(Pipeline):
    """Another student of one session, open or ended. Post-processing: it reads what was released and public rows."""

    def __init__(self, session: str, home: Path, student: StudentPlan | None) -> None:
        door = Stores.of(home)
        known = door.ledger.session(session)
        if student is not None and student.learner == "universal":
            raise WrongInput(
                "student.learner = 'universal' chooses on private rows, which costs: `concord run` its plan"
            )
        plan = _recipe(door, session).plan
        super().__init__(plan if student is None else plan.model_copy(update={"student": student}), home)
        self.session = known

    def resume(self) -> Public:
        """The session's stream. Raises WrongInput where the student cannot learn, NotVerified where rows are gone."""
        self.hold(self._session.id)
        self._kept = _recipe(self.door, self._session.id)
        self.go_on(self._session, self._kept)
        return self.walk(self._kept.encoding, self._kept.sources)

    def replay(self, public: Public) -> list[Ref]:
        """The labels as they were released; with them, the session's plan has the new student from here on.

        Raises WrongInput where rows have no label yet, NotVerified where a released file is gone.
        """
        self.asked_before, self.at_door = self._session.asked, datetime.now(UTC)
        classes, batches = self.plan.data.classes, public.batches

        def once_more() -> tuple[list[Ref], bool]:
            return release.replay(self.door, self._session, self.mechanism, classes, batches), True

        labels: list[Ref] = self.stages.uncached("release", once_more)
        write_checkpoint(self.door.vault, self._session.id, self._kept.model_copy(update={"plan": self.plan}))
        return labels


def _recipe(door: Stores, session: str) -> Checkpoint:
    recipe = read_checkpoint(door.vault, session)
    if recipe is None:
        raise WrongInput(f"session {session} keeps no rows to learn from: it was forgotten, or released nothing yet")
    check_fitted(door.ledger.session(session), recipe.plan)
    return recipe


@flow(name="study", flow_run_name="study {session}")
def study(session: str, home: Path, student: StudentPlan | None = None) -> Summary:
    """Train the session's student again; no row is asked and nothing is spent.

    student   how it learns from now on; without it, as the session's plan says
    """
    with Retraining(session, home, student) as line:
        stream = line.resume()  # refuses here, where rows or labels are missing
        labels = line.replay(stream)
        learned = line.study(stream, labels)
        return shown(line.certify(stream, labels, learned))

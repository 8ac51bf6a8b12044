"""A retraining of a session's student: its recipe, its public rows and its released labels; no teacher, no vote."""

from datetime import UTC, datetime
from pathlib import Path

import tasks.release
from artifacts.errors import WrongInput
from artifacts.schemas import Ref
from artifacts.sections import StudentPlan
from flows.pipeline import Pipeline
from flows.work import Public
from tasks.recipe import Recipe, check_fitted, read_recipe, write_recipe
from tasks.release import Door


class Retraining(Pipeline):
    """Another student of one session, open or ended. Post-processing: it reads what was released and public rows."""

    def __init__(self, session: str, home: Path, student: StudentPlan | None) -> None:
        door = Door.of(home)
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
            return tasks.release.replay(self.door, self._session, self.mechanism, classes, batches), True

        labels: list[Ref] = self.stages.uncached("release", once_more)
        write_recipe(self.door.vault, self._session.id, self._kept.model_copy(update={"plan": self.plan}))
        return labels


def _recipe(door: Door, session: str) -> Recipe:
    recipe = read_recipe(door.vault, session)
    if recipe is None:
        raise WrongInput(f"session {session} keeps no rows to learn from: it was forgotten, or released nothing yet")
    check_fitted(door.ledger.session(session), recipe.plan)
    return recipe

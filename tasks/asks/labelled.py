"""Sessions that label rows: which of them can be extended or studied again, from their checkpoints.

Checked by tests/flows/test_extend.py and tests/flows/test_tally_flow.py
"""

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.sessions import LABELS, Session
from concord.artifacts.stores import Stores
from concord.tasks.door.checkpoint import Checkpoint, are_there, check_open, read_checkpoint


def checkpoint_to_extend(stores: Stores, session: Session) -> Checkpoint:
    """The checkpoint of a session that is to be extended. Raises NotVerified if it or its teachers are gone.

    Raises BudgetRefused if they are gone for good, with a session that has ended; WrongInput if the student needs
    no further labels.
    """
    recipe = read_checkpoint(stores, session.id)
    if recipe is not None:
        check_fitted(session, recipe.plan)
    if recipe is None or not are_there(stores, recipe.teachers):
        check_open(session)
        raise NotVerified(
            f"the teachers of session {session.id} are no longer in the vault: run its plan again with "
            "`concord run PLAN`, which trains them again and spends nothing"
        )
    return recipe


def checkpoint_to_study(stores: Stores, session: Session) -> Checkpoint:
    """The checkpoint of a session whose student is to learn again. Raises WrongInput if it has none."""
    checkpoint = read_checkpoint(stores, session.id)
    if checkpoint is None:
        raise WrongInput(f"session {session.id} keeps no rows to learn from: it was forgotten, or released nothing yet")
    check_fitted(session, checkpoint.plan)
    return checkpoint


def check_fitted(session: Session, plan: Plan) -> None:
    """Raise WrongInput if no student is fitted to labels of the session: nothing would learn from further labels."""
    if session.purpose != LABELS:
        raise WrongInput(
            f"session {session.id} is for {session.purpose}: it labels no row and has no student of its own"
        )
    if plan.tallied:
        raise WrongInput(
            f"session {session.id} released tallies, from which the label of any row follows: `concord predict "
            f"{session.id} ROWS --out FILE` names it, and its plan with another [student] is run again, which spends "
            "nothing"
        )
    if "hypothesis" in plan.ways:
        rule = "it is not fitted to labels, and labels any row by itself"
        raise WrongInput(f"the student of session {session.id} was chosen: {rule}")

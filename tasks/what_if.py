"""What a session would have promised had it been planned to end sooner, with all else the same.

From its public settings and what it released: a row that was answered would have been answered all the same, and a
mechanism planned to end there costs what it says itself. Checked by tests/tasks/test_what_if.py.
"""

import numpy as np

from artifacts.sections import MECHANISMS
from artifacts.sessions import Session
from tasks.figures import Spending
from tasks.mechanisms.catalogue import from_settings

PLANS = 50
"""Points of the curve, each the cost of another plan."""


def what_if(session: Session, spent: Spending) -> Spending | None:
    """ε that the session would have promised, had it been planned to answer the rows so far alone; at some of `spent`.

    A mechanism that pays by refusal goes on to the next refusal, so that one is planned for. None if there is no such
    plan: nothing was asked, nobody voted, or rows were relabelled, which costs the whole whatever is asked.
    """
    if session.mechanism["name"] not in MECHANISMS or "relabel" in session.mechanism or not session.asked:
        return None
    mechanism = from_settings(session.mechanism)
    at = np.unique(np.linspace(0, len(spent.rows) - 1, PLANS).astype(np.int64))
    rows, answered = spent.rows[at], spent.answered[at]
    plans = zip(rows.tolist(), answered.tolist(), strict=True)
    promised = [mechanism.epsilon_if_ended(asked, asked - had) for asked, had in plans]
    return Spending(rows, answered, np.array(promised, dtype=np.float64))

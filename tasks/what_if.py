"""What a session would have promised had it been planned to end sooner, with all else the same.

From its public settings and what it released: a row that was answered would have been answered all the same, and a
mechanism planned to end there costs what its own `cost` says. Checked by tests/tasks/test_what_if.py.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from artifacts.privacy import Cost
from artifacts.sessions import Session
from tasks.figures import Spending, charge_of
from tasks.mechanisms.accounting import gaussian_delta
from tasks.mechanisms.confident import Confident
from tasks.mechanisms.counts import shifts
from tasks.mechanisms.laplace_votes import LaplaceVotes
from tasks.mechanisms.noisy_votes import NoisyVotes
from tasks.mechanisms.published import Published
from tasks.mechanisms.sparse_vector import SparseVector

PLANS = 50
"""Points of the curve, each the cost of another plan."""
BY_REFUSAL: dict[str, type[SparseVector | Published]] = {one.name: one for one in (SparseVector, Published)}


def what_if(session: Session, per_refusal: Cost | None, spent: Spending) -> Spending | None:
    """ε that the session would have promised, had it been planned to answer the rows so far alone; at some of `spent`.

    A mechanism that pays by refusal goes on to the next refusal, so that one is planned for. None where there is no
    such plan: nothing was asked, or rows were relabelled, which costs the whole whatever is asked.
    """
    if "relabel" in session.mechanism or not session.asked:
        return None
    at = np.unique(np.linspace(0, len(spent.rows) - 1, PLANS).astype(np.int64))
    rows, answered = spent.rows[at], spent.answered[at]
    plans = zip(rows.tolist(), answered.tolist(), strict=True)
    planned = [_promised(session, per_refusal, asked, asked - had) for asked, had in plans]
    return None if None in planned else Spending(rows, answered, np.array(planned, dtype=np.float64))


def _promised(session: Session, per_refusal: Cost | None, asked: int, refused: int) -> float | None:
    """ε of a plan for that many rows, of which so many are refused; None where the mechanism has no such plan."""
    cutoff = refused + 1 if session.cutoff is None else min(refused + 1, session.cutoff)
    if per_refusal is not None:
        return charge_of(session, per_refusal, cutoff)
    name, settings = str(session.mechanism["name"]), session.mechanism
    if name in BY_REFUSAL:
        cost = replace(BY_REFUSAL[name].from_settings(settings), cutoff=cutoff).cost
    elif name == NoisyVotes.name:
        return _exactly(NoisyVotes.from_settings(settings), asked)
    elif name == LaplaceVotes.name:
        cost = replace(LaplaceVotes.from_settings(settings), queries=asked).cost
    elif name == Confident.name:
        cost = replace(Confident.from_settings(settings), queries=asked, answers=max(1, asked - refused)).cost
    else:
        return None
    return min(session.epsilon, cost.epsilon(session.delta))


def _exactly(mechanism: NoisyVotes, asked: int) -> float:
    """ε at which so many rows cost no more than its δ, exactly: `cost` has that at the ε it was calibrated to alone."""
    moved = asked * shifts(mechanism.classes)

    def beyond(epsilon: float) -> float:
        return gaussian_delta(epsilon, moved, mechanism.scale) - mechanism.delta

    held = beyond(mechanism.epsilon) <= 0 < beyond(0.0)
    return float(brentq(beyond, 0.0, mechanism.epsilon)) if held else mechanism.epsilon

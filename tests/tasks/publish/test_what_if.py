"""What if it had ended sooner: the cost that a mechanism planned to end there says, up to the session's own claim."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.published import SESSION, session, world
from tests.support.recomputed import least_delta
from tests.world import (
    PLANS,
    Ledger,
    Mechanism,
    Outcomes,
    Session,
    Spending,
    StableVoting,
    calibrate,
    epsilon_if_stopped_early,
    spending,
)

ROWS, CUTOFF = 300, 20
BY_REFUSAL = ("stable", "sparse_vector", "published")
BY_ROW = ("noisy_votes", "laplace_votes", "confident")


def _at_the_end(now: Session) -> Spending:
    return Spending(np.array([now.asked]), np.array([now.answered]), np.array([now.epsilon]))


def calibrated(name: str) -> Mechanism:
    budget: dict[str, Any] = {"epsilon": 8.0 if name == "published" else 1.0, "delta": 1e-5, "order": 2.0}
    return calibrate(name, cutoff=CUTOFF, queries=ROWS, classes=2, teachers=100, **budget)


def answered(home: Path, mechanism: Mechanism, refused: list[int], rows: int = ROWS) -> tuple[Session, Spending]:
    """A session of that mechanism in which those rows were refused, and what it was charged at PLANS rows or fewer."""
    small = world(home, rows=ROWS)
    labels = small.truth.copy()[:rows]
    labels[refused] = -1
    refs = session(small, mechanism, labels)
    now = Ledger.of(home).session(SESSION)
    refusals = Outcomes.of(refs, small.released).refused
    return now, spending(now, refusals, np.arange(1, min(now.asked, PLANS) + 1))


@pytest.mark.parametrize("name", [*BY_REFUSAL, *BY_ROW])
def test_it_grows_with_what_is_planned_for_up_to_the_claim(tmp_path: Path, name: str) -> None:
    mechanism, refused = calibrated(name), list(range(0, 2 * CUTOFF, 2)) if name in BY_REFUSAL else []
    now, spent = answered(tmp_path, mechanism, refused, rows=2 * CUTOFF - 1 if refused else ROWS)
    sooner = epsilon_if_stopped_early(now, spent)
    assert sooner is not None
    assert (np.diff(sooner.epsilon) >= 0).all()
    assert 0 < sooner.epsilon[0] < sooner.epsilon[-1] <= now.epsilon
    for asked, had, epsilon in zip(sooner.rows[::9], sooner.answered[::9], sooner.epsilon[::9], strict=True):
        planned = {"cutoff": min(asked - had + 1, CUTOFF)} if name in BY_REFUSAL else {"queries": asked, "answers": had}
        settings = {**now.mechanism, **{term: int(end) for term, end in planned.items() if term in now.mechanism}}
        assert least_delta(settings, epsilon) <= now.delta * (1 + 1e-6)  # by a path of its own
    whole = epsilon_if_stopped_early(now, _at_the_end(now))
    assert whole is not None
    if name != "confident":  # which was planned to answer half of its rows, and answered all
        assert whole.epsilon == pytest.approx(min(now.epsilon, mechanism.cost.epsilon(now.delta)))


def test_a_session_that_pays_by_refusal_is_planned_to_the_next_one(tmp_path: Path) -> None:
    mechanism = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=CUTOFF)
    now, spent = answered(tmp_path, mechanism, [3, 7])
    sooner = epsilon_if_stopped_early(now, spent)
    assert sooner is not None
    first, second, third = (replace(mechanism, cutoff=count).cost.epsilon(now.delta) for count in (1, 2, 3))
    assert first < second < third
    assert sooner.epsilon[:9] == pytest.approx([first] * 3 + [second] * 4 + [third] * 2, rel=1e-9)


def test_there_is_none_where_rows_were_relabelled_or_nothing_was_asked(tmp_path: Path) -> None:
    mechanism = calibrated("noisy_votes")
    now, spent = answered(tmp_path, mechanism, [])
    assert epsilon_if_stopped_early(now, spent) is not None
    assert epsilon_if_stopped_early(replace(now, asked=0), spent) is None
    assert epsilon_if_stopped_early(replace(now, mechanism={**now.mechanism, "relabel": {}}), spent) is None
    assert epsilon_if_stopped_early(replace(now, mechanism={"name": "universal"}, teachers=0), spent) is None

"""Several runs of one plan at once: one opens the session, and the others wait for it and go on with it."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.people import changed, tables_of_plan, write_tables
from tests.world import Ledger, Summary, door_locks, flows_run, start

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.slow
def test_the_loser_takes_up_the_winners_session_and_spends_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were admitted when there was no session yet; at the door the second was refused: ask for --new-session."""
    small = {"teachers__count": 40, "teachers__block": 40, "labeling__cutoff": 4}
    plan = changed(tables_of_plan(write_tables(tmp_path / "data")), **small)
    admitted, losers = threading.Event(), ThreadPoolExecutor(1)
    second: list[Future[Summary]] = []
    private_of = flows_run.PrivateFiles.of

    def naming(*arguments: Any) -> flows_run.PrivateFiles:
        if second:
            admitted.set()  # the loser got past the winner, who has opened nothing yet
        else:
            second.append(losers.submit(start, plan, home))
            assert admitted.wait(300)
        return private_of(*arguments)

    opening = door_locks.opening
    monkeypatch.setattr(flows_run, "opening", lambda vault, identity, _: opening(vault, identity, admitted.set))
    monkeypatch.setattr(flows_run.PrivateFiles, "of", naming)
    winner = start(plan, home)
    loser = second[0].result()
    assert (loser.session, loser.run_id) == (winner.session, winner.run_id)
    assert loser.spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert winner.spent_now["epsilon"] > 0
    assert all(stage.cached for stage in loser.stages)
    assert len(Ledger.of(home).sessions("people")) == 1

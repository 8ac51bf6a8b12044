"""A relabelled session reveals nothing about ĥ, the subset or its size, however it ends.

Searched for besides the marks of test_canary.py: ĥ whole and each of its thresholds, as text and as bytes; the numbers
of rows in the subset, by class and by shard; their labels before and after; plain digests of all these files.
"""

from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.promises.canary import VALUE, relabelling
from tests.promises.kept import drawn
from tests.promises.scene import Scene
from tests.world import (
    Admitted,
    BudgetRefused,
    PrivateFiles,
    RunContext,
    Stores,
    VotesAsk,
    claim,
    close,
    erased,
    flows_admit,
    forget,
    opening_of,
)


@pytest.fixture
def scene(scene: Scene) -> Scene:
    scene.tables = relabelling(scene.tables)
    return scene


@pytest.mark.slow
def test_stumps_of_every_column_tell_no_more(scene: Scene) -> None:
    scene.tables = relabelling(scene.tables, features=None)
    scene.run()
    scene.nothing_got_out()


@pytest.mark.slow
def test_a_subset_that_is_too_small_is_told_by_nothing(scene: Scene) -> None:
    """With a subset of no, one or two units the run goes on as usual, and its teachers vote by a fixed rule."""
    scene.tables = relabelling(scene.tables, share=1e-4)
    assert scene.run().asked == 300
    scene.nothing_got_out()


@pytest.mark.slow
def test_a_budget_that_is_gone_after_the_draw_tells_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is admitted and drawn; while it polls, others take the rest of the budget."""
    begin = flows_admit.begin

    def too_late(
        run: RunContext, admitted: Admitted[VotesAsk], private: PrivateFiles, *arguments: Any, **named: Any
    ) -> Any:
        claim(run.stores, run.plan, private.files)
        with suppress(BudgetRefused):
            for other in map(str, count()):
                asked = opening_of(run.stores, run.plan, admitted.ask, admitted.stream.encoding)
                asked = replace(asked, id=other, commitment=other, mechanism={"name": "another"})
                run.stores.ledger.open_session(asked, further=True)
        return begin(run, admitted, private, *arguments, **named)

    monkeypatch.setattr(flows_admit, "begin", too_late)
    assert "does not cover" in scene.fails(BudgetRefused, new_session=True)
    assert drawn(scene.home)


@pytest.mark.slow
def test_the_end_of_it_tells_nothing_and_a_run_after_an_erasure_neither(scene: Scene) -> None:
    session, door = scene.run().session, Stores.of(scene.home)
    before = scene.marks()
    close(door, session, give_back=True)
    assert forget(door, session)
    scene.nothing_got_out(before)
    scene.nothing_is_left(before)
    erased(scene.home, "people", f"{VALUE}-unit-p1-17")
    assert "forgotten" in scene.fails(BudgetRefused)
    assert "secret subset" in scene.fails(BudgetRefused, new_session=True, data__version="2")
    plain = {name: section for name, section in scene.tables.items() if name != "relabel"}
    scene.tables = plain
    assert scene.run(new_session=True, data__version="2", privacy__epsilon=1.0).asked == 300
    scene.nothing_got_out()
    scene.nothing_got_out(before)

"""Votes are counted batch by batch while the door answers: only as many as are needed, and no time tells how long."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests import world
from tests.support.at_door import CLASSES, NOISY, ROWS, STABLE, Case, labels_by, make_case, write_votes

pytestmark = pytest.mark.usefixtures("prefect_server")

TEACHERS = (world.Ref(path="teachers/d/key/000000", digest="of teachers"),)
AT_ONCE = world.calibrated_stable(epsilon=2.0, delta=1e-9, cutoff=1)
"""It ends with the first tie, which it answers with probability 1e-10."""


class Counted(world.Stages):
    """Stages without Prefect, whose votes are those of a case; what was begun and what was waited for, in order."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.door.vault.root.parent, None)
        self.case, self.begun, self.waited = case, list[int](), list[int]()
        self.counting: Callable[[int], None] = lambda _: None

    def begin(self, work: Any, arguments: world.Call) -> world.Begun:
        assert work is world.flows_private_stages.poll
        at = self.case.batches.index(arguments["batch"])
        self.begun.append(at)

        def ended() -> tuple[world.Ref, bool]:
            self.waited.append(at)
            self.counting(at)
            return self.case.votes[at], False

        return ended

    def uncached(self, name: Any, work: Any) -> Any:  # noqa: ARG002
        return work()[0]

    def pass_door(self, session: world.Session, steps: world.Steps, name: Any = "release") -> world.Disclosure:  # noqa: ARG002
        door = self.case.door
        return world.Disclosure.of(door, session, world.release(door, session, steps(door, session)))


def asked(case: Case, counted: Counted) -> world.Disclosure:
    """The case's stream, asked as a flow asks it."""
    case.session = case.door.ledger.session("d-1")
    plan = SimpleNamespace(data=SimpleNamespace(classes=CLASSES), teachers=world.TeachersPlan(count=1))
    run: Any = SimpleNamespace(stores=case.door, stages=counted, plan=plan)
    stream = SimpleNamespace(batches=case.batches, encoding=None)
    admitted = SimpleNamespace(ask=labels_by(case.mechanism), stream=stream)
    opened: Any = SimpleNamespace(admitted=admitted, session=case.session, exact=SimpleNamespace(kept=TEACHERS))
    return world.flows_vote.release(run, opened).passed


def on_cores(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)


def torn(case: Case) -> Case:
    """The same, with votes of which the first is refused."""
    case.votes = [write_votes(case.door, f"tie-{at}", np.full((ROWS, 2), 300)) for at in range(3)]
    return case


def labels_of(case: Case, passed: world.Disclosure) -> pa.Table:
    return case.door.released.labels(passed.released)


@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize("mechanism", [STABLE, NOISY], ids=lambda mechanism: mechanism.name)
def test_labels_are_those_of_votes_counted_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: Any, cores: int
) -> None:
    on_cores(monkeypatch, cores)
    case = make_case(tmp_path / "home", mechanism)
    counted = Counted(case)
    labels = labels_of(case, asked(case, counted))
    assert sorted(counted.waited) == [0, 1, 2]
    assert labels.equals(case.run())  # replayed with all votes at hand


@pytest.mark.parametrize(("cores", "begun"), [(1, [0]), (2, [0, 1]), (64, [0, 1, 2])])
def test_nothing_is_counted_or_read_after_the_end_but_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, begun: list[int]
) -> None:
    on_cores(monkeypatch, cores)
    case, read = torn(make_case(tmp_path / "home", AT_ONCE)), list[str]()
    counted, true = Counted(case), type(case.door.vault).read

    def noting(vault: Any, ref: world.Ref) -> bytes:
        read.append(ref.path)
        return true(vault, ref)

    monkeypatch.setattr(type(case.door.vault), "read", noting)
    passed = asked(case, counted)
    assert [path for path in read if path.startswith("public/")] == ["public/0.arrow"]
    assert counted.begun == counted.waited == begun
    outcomes = labels_of(case, passed)["outcome"].to_pylist()
    assert outcomes == ["refused"] + ["not asked"] * (3 * ROWS - 1)
    assert (passed.session.status, passed.asked_now) == ("spent", 1)


def test_an_ended_session_counts_again_what_it_answered_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cores(monkeypatch, 64)
    case = make_case(
        tmp_path / "home",
        world.calibrated_votes(world.NoisyVotes, epsilon=2.0, delta=1e-5, queries=ROWS + 5, classes=2),
    )
    first = labels_of(case, asked(case, Counted(case)))
    again = Counted(case)
    assert labels_of(case, asked(case, again)).equals(first)
    assert again.begun == [0, 1]


def failing_at(case: Case, batch: int) -> Counted:
    counted = Counted(case)

    def fail(at: int) -> None:
        if at == batch:
            raise world.EnvironmentFailed("the disk is full")

    counted.counting = fail
    return counted


def test_a_batch_that_fails_ahead_of_the_end_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cores(monkeypatch, 2)
    case = torn(make_case(tmp_path / "home", AT_ONCE))
    counted = failing_at(case, 1)
    assert asked(case, counted).session.status == "spent"
    assert counted.waited == [0, 1]


def test_a_batch_that_fails_stops_the_run_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cores(monkeypatch, 1)
    case = make_case(tmp_path / "home", STABLE)
    with pytest.raises(world.EnvironmentFailed, match="the disk is full"):
        asked(case, failing_at(case, 2))
    answered = case.door.ledger.batches("d-1")
    assert len(answered) == 2
    labels = labels_of(case, asked(case, Counted(case)))
    assert case.door.ledger.batches("d-1")[:2] == answered
    assert labels.equals(case.run())


def test_the_disclosure_has_the_time_of_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cores(monkeypatch, 2)
    case = make_case(tmp_path / "home", STABLE)
    counted, ended = Counted(case), list[float]()

    def count(at: int) -> None:
        time.sleep(0.03 * at)
        ended.append(time.time())

    counted.counting = count
    assert asked(case, counted).at.timestamp() > max(ended)

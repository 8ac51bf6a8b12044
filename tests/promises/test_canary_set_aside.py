"""Units set aside affect only noisy counts and a choice. Of a private test and of candidate students, no exact count of
right or wrong answers, no number of units and no time of counting leaks: on success, after a failure, killed at the
door and resumed, and after an erasure."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import BudgetRefused, EnvironmentFailed
from concord.artifacts.ledger.ledger import Ledger
from concord.flows.cli.show import erased
from concord.flows.start import start_test
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.tallies import Tallies
from tests.promises.canary import VALUE, moments_between, published
from tests.promises.kept import files, set_aside
from tests.promises.marks import FEWEST, Marks
from tests.promises.scene import Scene

CANDIDATES = [{"params": {"C": 1.0}}, {"estimator": "sklearn.dummy.DummyClassifier"}, {"refused": "drop"}]


@pytest.fixture
def tested(scene: Scene) -> Scene:
    """Two fifths of the units take no part in learning. Every public row is answered: from fewer labels, a student
    could by chance learn too little to be right about FEWEST units."""
    scene.tables["test"] = {"share": 0.4}
    scene.tables["labeling"] = {"mechanism": "noisy_votes", "queries": 300, "batch": 128}
    return scene


@pytest.fixture
def choosing(tested: Scene) -> Scene:
    """The scene `tested`, in which one of three candidates is chosen first."""
    tested.tables["student"] = {"candidates": CANDIDATES, "epsilon": 0.5}
    return tested


@pytest.fixture(autouse=True)
def far_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep published counts of a test, and sums of tallies, from being exact counts by chance: a sum was, with 5e-4."""

    def off(self: PrivateTest, matrix: Ints, source: RandomSource) -> Ints:
        return released(self, matrix, source) + 12_345

    def of_five_digits(self: Tallies, number: int, sums: Ints, source: RandomSource) -> Ints:
        noisy = tallied(self, number, sums, source)
        return np.where(np.abs(noisy) < 10_000, noisy + 20_000, noisy)

    released, tallied = PrivateTest.release, Tallies.release
    monkeypatch.setattr(PrivateTest, "release", off)
    monkeypatch.setattr(Tallies, "release", of_five_digits)


def telling(*arguments: Any, **_: Any) -> None:
    raise ArithmeticError(f"{VALUE}: {arguments}")  # a bug, with rows or counts in its message


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def counted(scene: Scene) -> Marks:
    """The marks, with the number of tested units and the number that the student was right about."""
    marks = scene.marks()
    for what, counts in set_aside(scene.home):
        if what.endswith("confusion"):
            right = int(counts[0] + counts[3])
            assert right >= FEWEST
            marks = marks.with_total(f"all {what}", int(counts.sum())).with_total(f"right {what}", right)
    return marks


def kinds(scene: Scene) -> set[str]:
    return {what.rpartition("/")[2] for what, _ in set_aside(scene.home)}


@pytest.mark.slow
def test_a_choice_and_a_test_tell_no_count_and_no_moment_before_the_last_unit(choosing: Scene) -> None:
    before = datetime.now(UTC)
    choosing.run(student__candidates=[*CANDIDATES, {"estimator": "tests.promises.tellers.Gossip"}])
    assert kinds(choosing) == {"confusion", "errors"}
    marks = counted(choosing)
    for what, counts in set_aside(choosing.home):
        for spelt in (counts.tobytes(), counts.astype("<f8").tobytes(), str(counts.tolist()).encode()):
            assert marks.found(b"of them [" + spelt), what  # they would be seen
    choosing.nothing_got_out(marks)
    last = max(path.stat().st_mtime for path in files(choosing.home, "tested"))
    assert list(moments_between(published(choosing.home), before.timestamp(), last)) == []
    assert list(moments_between(published(choosing.home), last, datetime.now(UTC).timestamp()))


@pytest.mark.slow
def test_tallies_that_are_tested_and_tested_again_tell_no_count(tested: Scene) -> None:
    tested.tables = {name: part for name, part in tested.tables.items() if name not in ("teachers", "student")}
    tested.tables["labeling"] = {"mechanism": "tallies", "rounds": 1}
    first = tested.run()
    start_test(first.session, tested.home, epsilon=0.5, again=False)
    assert len(list(set_aside(tested.home))) == 1  # counted once, released twice
    tested.nothing_got_out(counted(tested))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), [("student_choice", "commit_batch"), ("private_test", "begin_batch")])
def test_killed_at_the_door_and_resumed_nothing_got_out(
    choosing: Scene, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    old = getattr(Ledger, step)

    def dying(ledger: Ledger, session: str, *arguments: Any, **named: Any) -> Any:
        if ledger.session(session).mechanism["name"] == kind:
            raise KeyboardInterrupt
        return old(ledger, session, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, step, dying)
        choosing.fails(KeyboardInterrupt)
    choosing.nothing_got_out(counted(choosing) if kind == "private_test" else None)
    choosing.run()
    choosing.nothing_got_out(counted(choosing))


@pytest.mark.slow
@pytest.mark.parametrize("work", ["one_row_a_unit", "classes_given"])
def test_a_failure_on_units_set_aside_tells_nothing_of_them(
    choosing: Scene, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(f"concord.tasks.door.trial.{work}", telling)
    assert "nothing of the data is shown" in choosing.fails(EnvironmentFailed)


@pytest.mark.slow
def test_what_is_refused_and_an_erasure_tell_nothing(choosing: Scene) -> None:
    summary = choosing.run()
    before = counted(choosing)
    choosing.fails(BudgetRefused, student__candidates=CANDIDATES[:2])
    choosing.refuses(BudgetRefused, lambda: start_test(summary.session, choosing.home, epsilon=9.0, again=True))
    assert files(choosing.home, "tested")
    erased(choosing.home, "people", f"{VALUE}-unit-p1-17")
    choosing.nothing_is_left(before)
    choosing.nothing_got_out(before)

"""A single answer publishes nothing else: no error count, no count of rows and no private value.

For a chosen student and an estimate; on success, killed at the door and resumed, refused, and after an erasure.
"""

from typing import Any

import pytest

from concord.artifacts.errors import BudgetRefused, EnvironmentFailed, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.ledger import Ledger
from concord.flows.cli.show import erased
from concord.flows.start import start_estimate
from tests.promises.canary import VALUE
from tests.promises.kept import files, sequences
from tests.promises.scene import Scene

STUDENT = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}


@pytest.fixture
def choosing(scene: Scene) -> Scene:
    """A scene whose student is chosen without votes."""
    scene.tables = {name: section for name, section in scene.tables.items() if name not in ("teachers", "labeling")}
    scene.tables["student"] = STUDENT
    return scene


def estimate(scene: Scene, epsilon: float = 0.5, **changes: Any) -> dict[str, Any]:
    return start_estimate(scene.plan(**changes), scene.home, epsilon=epsilon, share=0.3, beta=0.05, again=False)


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def telling(*arguments: Any, **_: Any) -> None:
    raise ArithmeticError(f"{VALUE}: {arguments}")  # a bug, with counts in its message


def test_a_choice_tells_no_error_count(choosing: Scene) -> None:
    choosing.run()
    ((what, errors),) = sequences(choosing.home)
    assert len(errors) > 100
    assert errors[0] > 1000  # of the candidate that predicts the first class for all rows
    choosing.nothing_got_out(choosing.marks().with_total(f"first of {what}", int(errors[0])))


@pytest.fixture
def totals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the sums that pass the door, with fixed noise: random noise made one a count of rows with odds of 4e-4."""
    passed: list[int] = []

    def far_off(_self: object, total: int, _source: object) -> int:
        passed.append(total)
        return total + 12_345

    monkeypatch.setattr("concord.tasks.mechanisms.error_estimate.ErrorEstimate.release", far_off)
    return passed


def test_an_estimate_tells_no_sum(scene: Scene, totals: list[int]) -> None:
    estimate(scene)
    assert {what.partition("/")[0] for what, _ in sequences(scene.home)} >= {"errors of measured"}
    scene.nothing_got_out(scene.marks().with_total("the sum", totals[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "step", "fault"), [(Released, "write", killed), (Ledger, "commit_batch", telling)])
def test_one_answer_that_fails_at_the_door_and_is_resumed_tells_nothing(
    choosing: Scene, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, fault: Any
) -> None:
    error = KeyboardInterrupt if fault is killed else EnvironmentFailed
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fault)
        choosing.fails(error)
    assert choosing.run().asked == 1
    choosing.nothing_got_out()


@pytest.mark.slow
@pytest.mark.usefixtures("totals")
def test_an_estimate_that_fails_is_refused_or_comes_after_an_erasure_tells_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, fault, error in (
        ("concord.tasks.door.choose.encode", telling, EnvironmentFailed),
        ("concord.artifacts.ledger.ledger.Ledger.commit_batch", killed, KeyboardInterrupt),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, fault)
            scene.refuses(error, lambda: estimate(scene))
    estimate(scene)
    scene.refuses(BudgetRefused, lambda: estimate(scene, 0.4))
    scene.refuses(WrongInput, lambda: estimate(scene, -1.0))
    before = scene.marks()
    assert files(scene.home, "measured")
    erased(scene.home, "people", None)
    scene.nothing_is_left(before)
    scene.refuses(BudgetRefused, lambda: estimate(scene))
    scene.nothing_got_out(before)


@pytest.mark.slow
def test_a_choice_that_is_refused_or_comes_after_an_erasure_tells_nothing(
    choosing: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("concord.tasks.door.choose.encode", telling)
        choosing.fails(EnvironmentFailed)
    choosing.fails(WrongInput, student__hypotheses="forests")
    choosing.run()
    before = choosing.marks()
    choosing.fails(BudgetRefused, student__grid=8)
    erased(choosing.home, "people", f"{VALUE}-unit-p1-17")
    choosing.nothing_is_left(before)
    choosing.fails(BudgetRefused)
    assert choosing.run(new_session=True, data__version="2", privacy__epsilon=1.0).asked == 1
    choosing.nothing_got_out(before)
    choosing.nothing_got_out()

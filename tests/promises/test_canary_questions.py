"""Questions reveal nothing: the answers, output, errors and files of shards stay in the vault."""

from typing import Any

import polars as pl
import pytest

from concord.artifacts.home.released import Released
from concord.artifacts.ledger.ledger import Ledger
from concord.flows.ask import QuestionTerms
from concord.flows.cli.show import erased
from concord.flows.start import start_question
from concord.tasks.asking.questions import Question
from tests.promises.scene import Scene

pytestmark = pytest.mark.slow


def leaking(rows: pl.DataFrame) -> Any:
    print(rows.to_dicts())
    if rows.height % 2:
        raise ValueError(str(rows.to_dicts()))
    return tuple(str(cell) for cell in rows.row(0)) if rows.height else None


def ask(scene: Scene, question: Any, name: str, *, epsilon: float = 0.5, cutoff: int | None = 3) -> dict[str, Any]:
    plan = scene.plan(privacy__delta=1e-12)  # half of the shards have no answer: released with probability 4e-9
    return start_question(plan, Question(name, question), scene.home, QuestionTerms(epsilon, "optimal", cutoff, False))


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("cutoff", [None, 3])
def test_answers_that_tell_of_rows_are_refused_and_stay_in_the_vault(scene: Scene, cutoff: int | None) -> None:
    assert ask(scene, leaking, "leaking", cutoff=cutoff)["outcome"] == "refused"
    scene.nothing_got_out()


@pytest.mark.parametrize(("owner", "step"), [(Released, "write"), (Ledger, "commit_batch"), (Ledger, "begin_batch")])
def test_killed_and_resumed_nothing_got_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, killed)
        scene.refuses(KeyboardInterrupt, lambda: ask(scene, leaking, "leaking"))
    ask(scene, leaking, "leaking")
    ask(scene, lambda rows: rows.height > 0, "rows")
    before = scene.marks()
    erased(scene.home, "people", None)
    scene.nothing_is_left(before)
    scene.nothing_got_out(before)

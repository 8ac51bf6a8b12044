"""One answer through the door: drawn once, kept before it is published, and the end of its session."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.tasks.door.checkpoint import Randomness, commitment
from concord.tasks.door.release import Stores, release_once
from concord.tasks.mechanisms.distance import Ints
from tests.artifacts.ledger.openings import named, opening


@dataclass
class Case:
    """A session that answers once, with a number counted up at every draw."""

    door: Stores
    session: Session
    draws: list[int] = field(default_factory=list)

    def run(self, about: bytes = b"which?", counted: bytes = b"private") -> dict[str, int]:
        ref = release_once(self.door, self.session, about=about, counted=counted, draw=self.draw, publish=self.publish)
        answer: dict[str, int] = json.loads(self.door.released.read(ref))
        return answer

    def draw(self) -> Ints:
        self.draws.append(len(self.draws))
        return np.array([self.draws[-1]])

    def publish(self, answer: Ints) -> Ref:
        return self.door.released.write(
            f"{self.session.id}/answer.json", json.dumps({"answer": int(answer[0])}).encode()
        )


@pytest.fixture
def case(tmp_path: Path) -> Case:
    door = Stores.of(tmp_path)
    named(door.ledger)
    door.vault.secret("sessions/one")
    asked = opening(
        commitment=commitment(door.vault, "one"),
        mechanism={"name": "universal"},
        epsilon=0.5,
        delta=0.0,
        cutoff=None,
        queries=1,
        whole=Cost.approximate(0.5),
        per_refusal=None,
    )
    return Case(door, door.ledger.open_session(asked))


def test_an_answer_ends_the_session_and_is_charged_whole(case: Case) -> None:
    assert case.run() == {"answer": 0}
    after = case.door.ledger.session("one")
    assert (after.status, after.asked, after.answered, after.refused) == ("spent", 1, 1, 0)
    assert after.settled == after.reserved


def test_asking_again_replays(case: Case) -> None:
    charged = (case.run(), case.door.ledger.total("census"))
    assert (case.run(), case.door.ledger.total("census")) == charged
    assert case.draws == [0]


@pytest.mark.parametrize("step", ["publish", "commit_batch"])
def test_a_kill_after_the_draw_changes_no_answer(case: Case, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def killed(*_: object, **__: object) -> Ref:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Case if step == "publish" else Ledger, step, killed)
        with pytest.raises(KeyboardInterrupt):
            case.run()
    assert case.run() == {"answer": 0}
    assert case.draws == [0]


def test_an_answer_drawn_again_after_a_kill_would_be_seen(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the answer is not kept, so the retry draws anew."""
    monkeypatch.setattr(Randomness, "once", lambda _self, _name, draw: draw())
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit_batch", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            case.run()
    assert case.run() == {"answer": 1}


@pytest.mark.parametrize(
    ("change", "rule"), [({"about": b"another?"}, "rows of batch 0"), ({"counted": b"others"}, "votes of batch 0")]
)
def test_another_question_or_other_numbers_stop(case: Case, change: dict[str, bytes], rule: str) -> None:
    case.run()
    with pytest.raises(NotVerified, match=rule):
        case.run(**change)


def test_a_session_that_was_closed_first_answers_nothing(case: Case) -> None:
    case.door.ledger.settle("one", give_back=False)
    with pytest.raises(BudgetRefused, match="has ended"):
        case.run()
    assert case.draws == []

"""Questions at the door: drawn for once, paid for first, replayed by name, and finished whoever began them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.support.at_door import TEACHERS, files_of, opened
from tests.support.made import answered
from tests.support.people import changed, tables_of_plan

# a tie: answered w.p. δ
OPTIMAL = world.QuestionsAsk(world.calibrated_optimal(epsilon=2.0, delta=1e-9), "q", TEACHERS)
STREAM = world.QuestionsAsk(world.calibrated_stable(epsilon=4.0, delta=1e-9, cutoff=3), None, TEACHERS)
"""It refuses what is agreed on as below with probability 2e-12; with half of that ε it would with 2e-6."""
AGREED = [*["dark"] * 500, *["light"] * 90, *[None] * 10]
FIRST_ANSWER = "d-1/answers/answer-00000.json"
TORN = [*["dark"] * 300, *["light"] * 300]


def named(name: str) -> world.Question:
    return world.Question(name, str)  # which nothing here asks


def put(door: world.Stores, name: str, answers: Sequence[Any]) -> world.Ref:
    return answered(door.vault, name, answers)


def pass_door(door: world.Stores, questions: world.QuestionsAsk, name: str = "q") -> dict[str, Any]:
    """The released answer."""
    *_, ref = files_of(door, opened(door, questions), questions, name)
    found: dict[str, Any] = json.loads(door.released.read(ref))
    return found


def asked(door: world.Stores, questions: world.QuestionsAsk, answers: Sequence[Any], name: str = "q") -> dict[str, Any]:
    opened(door, questions)
    put(door, name, answers)
    return pass_door(door, questions, name)


@pytest.fixture
def door(home: Path) -> world.Stores:
    home.mkdir(exist_ok=True)
    return world.Stores.of(home)


def test_that_most_shards_have_no_answer_is_an_answer(door: world.Stores) -> None:
    found = asked(door, OPTIMAL, [None] * TEACHERS)
    assert (found["outcome"], found["answer"], door.ledger.session("d-1").answered) == ("no answer", None, 1)


def test_a_stream_pays_by_refusal_and_ends_at_its_cutoff(door: world.Stores) -> None:
    for at in range(5):
        assert asked(door, STREAM, AGREED, f"agreed {at}")["outcome"] == "answered"
    assert [asked(door, STREAM, TORN, f"torn {at}")["outcome"] for at in range(3)] == ["refused"] * 3
    session = door.ledger.session("d-1")
    assert (session.asked, session.answered, session.refused, session.status) == (8, 5, 3, "spent")
    with pytest.raises(world.BudgetRefused):
        asked(door, STREAM, AGREED, "one more")


def test_a_shard_that_is_left_out_stops_it(door: world.Stores) -> None:
    """The planted bug: failed shards are dropped, so that how many answer would depend on private rows."""
    with pytest.raises(world.NotVerified, match="numbers of another pieces"):
        asked(door, OPTIMAL, [answer for answer in AGREED if answer is not None])
    assert door.ledger.batches("d-1") == ()


# Crashes ------------------------------------------------------------------------------------------------------------


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_another_process_began_is_finished_first_and_from_its_own_answers(
    door: world.Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(door, STREAM)
    put(door, "begun", AGREED)
    with monkeypatch.context() as patch:
        patch.setattr(world.Ledger, "commit_batch", killed)
        with pytest.raises(KeyboardInterrupt):
            pass_door(door, STREAM, "begun")
    assert asked(door, STREAM, [*["light"] * TEACHERS], "next")["answer"] == "light"
    assert [batch.outcome is not None for batch in door.ledger.batches("d-1")] == [True, True]
    assert pass_door(door, STREAM, "begun")["answer"] == "dark"


def test_a_ledger_that_was_put_back_is_found(door: world.Stores) -> None:
    opened(door, STREAM)
    door.released.write(FIRST_ANSWER, b"{}")
    with pytest.raises(world.NotVerified, match="the ledger was restored from a backup"):
        asked(door, STREAM, AGREED)


def test_other_code_under_a_known_name_is_refused() -> None:
    def one(rows: object) -> object:
        return rows

    asked_by = world.Question("q", one)
    assert world.check_code(asked_by, json.dumps({"code": asked_by.code}).encode(), "d-1")
    assert not world.check_code(asked_by, json.dumps({"code": ""}).encode(), "d-1")
    assert not world.check_code(named("q"), json.dumps({"code": asked_by.code}).encode(), "d-1")
    with pytest.raises(world.WrongInput, match="another name"):
        world.check_code(asked_by, json.dumps({"code": "0" * 64}).encode(), "d-1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"form": "best"}, "form must be one of optimal, laplace"),
        ({"cutoff": 0}, "cutoff of at least 1"),
        ({"cutoff": 1.5}, "cutoff must be a whole number, got 1.5"),
        ({"epsilon": "1"}, "epsilon must be a number, got '1'"),
        ({"cutoff": 3, "form": "laplace"}, "leave out form='laplace'"),
        ({"cutoff": 3, "epsilon": float("inf")}, "cutoff of at least 1 and ε > 0"),
        ({"epsilon": 0.0}, r"2\^-39 <= epsilon"),
    ],
)
def test_terms_that_cannot_be_are_refused(changes: dict[str, Any], said: str) -> None:
    plan = changed(tables_of_plan(Path("nowhere")))
    terms: dict[str, Any] = {"epsilon": None, "form": "optimal", "cutoff": None, "new_session": False, **changes}
    with pytest.raises(world.WrongInput, match=said):
        world.QuestionsAsk.of(plan, named("q"), 3.5, world.QuestionTerms(**terms))


@pytest.mark.parametrize("form", ["optimal", "laplace"])
def test_an_epsilon_of_numpy_asks_as_the_same_number_of_python(form: str) -> None:
    plan = changed(tables_of_plan(Path("nowhere")))
    epsilons: list[Any] = [0.5, np.float16(0.5), np.float32(0.5)]
    terms = [world.QuestionTerms(epsilon, form, None, False) for epsilon in epsilons]
    plain, *by_numpy = [world.QuestionsAsk.of(plan, named("q"), 3.5, given) for given in terms]
    assert by_numpy == [plain, plain]


def test_callers_find_one_question_by_its_name_and_a_stream_by_its_terms() -> None:
    assert "question" not in STREAM.settings()
    assert OPTIMAL.settings() != replace(OPTIMAL, question="another").settings()

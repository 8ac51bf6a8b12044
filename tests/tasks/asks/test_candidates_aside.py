"""The choice among students at the door: one row a unit of the test part is counted, and it is drawn once."""

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from concord.artifacts.errors import BudgetRefused
from concord.artifacts.home.vault import derive
from concord.artifacts.parts import LEARNING, TEST
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import STUDENT_CHOICE, Session
from concord.artifacts.stores import Stores
from concord.tasks.asks import unit_counts
from concord.tasks.asks.student_choice import StudentChoiceAsk, planned_choice, with_chosen_student
from concord.tasks.asks.student_test import left_for_test
from concord.tasks.asks.unit_counts import ErrorsAside, count_units
from concord.tasks.data import split
from concord.tasks.data.encode import learn_encoding
from concord.tasks.data.matrix import Matrix
from concord.tasks.data.parts import of_part
from concord.tasks.data.units import PrivateRows
from concord.tasks.door import admit
from concord.tasks.door.admit import claim, reserve_session
from concord.tasks.mechanisms.exponential import StudentChoice
from tests.support.at_door import STABLE, files_of, opening_of
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.sentences import facts

CANDIDATES = [{"refused": "drop"}, {"refused": "soft"}, {"params": {"C": 0.1}}]
PRIVATE = people(300, 1)


def by_sign(X: Matrix) -> NDArray[Any]:
    return np.where(X[:, 0] > 0, "yes", "no")


def always(X: Matrix) -> NDArray[Any]:
    return np.array(["yes"] * len(X))


def never(X: Matrix) -> NDArray[Any]:
    return np.array(["no"] * len(X))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    tables = tables_of_plan(write_tables(tmp_path / "data", PRIVATE))
    chosen = {"student__candidates": CANDIDATES, "student__epsilon": 0.5}
    return changed(tables, test__share=0.5, privacy__domain="d", **chosen)


@pytest.fixture
def door(tmp_path: Path) -> Stores:
    (tmp_path / "home").mkdir()
    return Stores.of(tmp_path / "home")


def counted(plan: Plan, door: Stores) -> Ref:
    key = derive(door.vault.make_secret("domains/d"), "split")
    candidates = [(says, None) for says in (by_sign, always, never)]
    return count_units(PrivateRows(plan, learn_encoding(plan), door.vault, key), ErrorsAside(candidates), "tested/d/1")


def errors(plan: Plan, door: Stores) -> NDArray[np.int64]:
    return np.frombuffer(door.vault.read(counted(plan, door)), "<i8").copy()


def members(plan: Plan, door: Stores, part: str, label: str | None = None) -> list[str]:
    """The units of a part, those of most rows first; only those whose rows all have a label, if one is given."""
    rows = PRIVATE.filter(pl.col("outcome").eq(label or pl.col("outcome")).all().over("person"))
    units = rows.group_by("person").len().sort("len", "person", descending=True)["person"]
    key = derive(door.vault.make_secret("domains/d"), "split")
    return units.filter(of_part(plan, key, part)(units.to_frame(), units.cast(pl.Binary))).to_list()


def steps(plan: Plan, door: Stores, units: list[str]) -> set[tuple[int, ...]]:
    """By how much the errors of the candidates differ without one of the first units."""
    PRIVATE.write_csv(plan.path("private"))
    before, found = errors(plan, door), set()
    for unit in units[:4]:
        PRIVATE.filter(pl.col("person") != unit).write_csv(plan.path("private"))
        found.add(tuple((before - errors(plan, door)).tolist()))
    return found


def test_a_unit_more_of_many_rows_adds_one_error_or_none_to_each(plan: Plan, door: Stores) -> None:
    assert steps(plan, door, members(plan, door, LEARNING)) == {(0, 0, 0)}
    for label, expected in (("no", (1, 0)), ("yes", (0, 1))):
        found = steps(plan, door, members(plan, door, TEST, label))
        assert {step[1:] for step in found} == {expected}
        assert {count for step in found for count in step} == {0, 1}


def every_row(private: PrivateRows, *_: Any, **__: Any) -> Iterator[pl.DataFrame]:
    return split._identified(private)


def rows_that_learn(private: PrivateRows, folder: str, *_: Any, **__: Any) -> Iterator[pl.DataFrame]:
    assert private.part == TEST
    return split.one_row_a_unit(replace(private, part=LEARNING), folder)


def test_a_count_of_rows_would_be_seen(plan: Plan, door: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_counts, "one_row_a_unit", every_row)
    found = steps(plan, door, members(plan, door, TEST))
    assert max(count for step in found for count in step) > 1


def test_units_that_learn_are_not_counted(plan: Plan, door: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter is tested; that it is as many as learn has probability 2e-10."""
    plan = changed(plan, test__share=0.25)
    tested, learning = (len(members(plan, door, part)) for part in (TEST, LEARNING))
    assert errors(plan, door)[1:].sum() == tested
    monkeypatch.setattr(unit_counts, "one_row_a_unit", rows_that_learn)
    assert errors(plan, door)[1:].sum() == learning != tested


def opened(plan: Plan, door: Stores, counts: Ref) -> tuple[Session, Session, Any]:
    claim(door, plan, [])
    door.vault.make_secret("sessions/d-1")
    learned = door.ledger.open_session(opening_of(STABLE))
    mechanism = planned_choice(plan)
    assert mechanism == StudentChoice(epsilon=0.5, secret="rows")
    students = [Ref(path=f"d-1/{at}", digest=str(at) * 64) for at in range(3)]
    choice = StudentChoiceAsk.of(plan, mechanism, learned.id, students, clean=False)
    asked = admit.opening_of(plan, choice, learn_encoding(plan), door.vault)
    return learned, reserve_session(door, plan, asked, (counts.digest,), new_session=True), choice


def test_the_candidate_that_was_drawn_is_the_plan_s_student(
    plan: Plan, door: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = counted(plan, door)
    learned, session, choice = opened(plan, door, counts)
    assert (session.part, session.epsilon, session.delta, session.purpose) == (TEST, 0.5, 0.0, STUDENT_CHOICE)
    assert with_chosen_student(door, learned, plan) is None
    monkeypatch.setattr(StudentChoice, "choose_least", lambda *_: 2)
    released = json.loads(door.released.read(files_of(door, session, choice, [counts])[0]))
    assert released["chosen"] == 2
    assert set(released) == {"format", "session", "epsilon", "delta", "settings", "chosen"}
    found = with_chosen_student(door, learned, plan)
    assert found is not None
    assert found.student.params == {"C": 0.1}
    others = changed(plan, student__candidates=CANDIDATES[:2])
    with pytest.raises(BudgetRefused, match=facts("other candidates", "costs again")):
        with_chosen_student(door, learned, others)


def test_the_test_has_what_the_choice_leaves() -> None:
    learning, choice = Charge(renyi=Decimal(1), delta=Decimal("1e-6")), Charge(renyi=Decimal("0.25"))
    left, epsilon = left_for_test(learning, 1.0, [(choice, 0.5)])
    assert (float(left.renyi), epsilon) == (0.75, 0.5)
    assert left_for_test(learning, 1.0, []) == (learning, 1.0)
    for charges in ([(choice, 1.0)], [(choice, 0.1)] * 4):
        with pytest.raises(BudgetRefused, match="leaves the private test nothing"):
            left_for_test(learning, 1.0, charges)

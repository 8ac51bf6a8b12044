"""Earlier looks at tested units: for every short history, a test counts the sessions that could read one of its units.

Who is in which part is found by the real rule, from keys and plans; histories are those of a real ledger.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests import world
from tests.privacy.ledgers import NAMES, Kind, kind_of, opening
from tests.support.openings import InMemory
from tests.support.people import changed, tables_of_plan, write_tables
from tests.support.recorded import RECORDED

WIDE: dict[str, Any] = {"unit": "u", "neighbours": "add or remove one unit", "epsilon": 900.0, "delta": 0.01}
LEARNED = "learned"
ABOUT_ANOTHER, ABOUT_IT = {"session": "another"}, {"session": LEARNED}
TESTED = RECORDED["private_test"]


@dataclass(frozen=True)
class Step:
    """A session of a history: its domain, the units it reads, its mechanism, and what it was opened for."""

    name: str
    of: Kind
    mechanism: dict[str, Any]
    purpose: str = world.LABELS
    domain: str = "people"


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Step]:
    folder = tmp_path_factory.mktemp("looks")
    plan = changed(tables_of_plan(write_tables(folder / "data")), test__share=0.5)
    own, other = world.Vault(folder / "vault"), world.Vault(folder / "other")
    for vault in (own, other):
        vault.make_secret("domains/people")
    narrower = plan.model_copy(update={"test": world.PrivateTestPlan(share=0.2)})
    learning, tested, every = (kind_of(plan, own, part) for part in (world.LEARNING, world.TEST, world.EVERY))
    votes = {"name": "stable"}
    found = (
        Step(LEARNED, learning, votes),
        Step("test", tested, {**TESTED, **ABOUT_IT}, world.STUDENT_TEST),
        Step("labels of everybody", every, votes),
        Step("questions to everybody", every, votes, "questions"),
        Step("questions to who learns", learning, votes, "questions"),
        Step("an estimate on everybody", every, {"name": "error_estimate"}, "an estimate"),
        Step("labels of who learns", learning, votes),
        Step("another test", tested, {**TESTED, **ABOUT_ANOTHER}, world.STUDENT_TEST),
        Step("who learns by another key", kind_of(plan, other, world.LEARNING), votes),
        Step("who learns by another share", kind_of(narrower, own, world.LEARNING), votes),
        Step("labels in another domain", every, votes, domain="apart"),
    )
    return {step.name: step for step in found}


def history(steps: dict[str, Step], names: tuple[str, ...]) -> world.Reading:
    book = InMemory()
    for domain in ("people", "apart"):
        book.name_domain(domain, **WIDE)
    book.divide("people", steps[LEARNED].of.division)
    for at, name in enumerate(names):
        book.open_session(opened_by(steps[name], at), further=True)
    return book


def opened_by(step: Step, at: int) -> world.Opening:
    name = step.name if step.name in (LEARNED, "test") else f"{step.name} {at}"
    terms = {"domain": step.domain, "purpose": step.purpose, "mechanism": step.mechanism}
    return opening(name, 0.01, step.of, commitment=str(at), **terms)


def touching(steps: dict[str, Step], names: tuple[str, ...]) -> int:
    """How many of those sessions read a tested unit; what it learned from does not count."""
    counted = [steps[name] for name in names if name not in (LEARNED, "labels in another domain")]
    return sum(bool(step.of.touches & steps["test"].of.touches) for step in counted)


def histories(steps: dict[str, Step]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Two sessions, or one, before and after the learning one; and one after the test, which is no earlier look."""
    more = [name for name in steps if name not in (LEARNED, "test")]
    yield from (((first, LEARNED, second), (second,)) for first, second in product(more, repeat=2))
    yield from (((LEARNED, first, second), (first,)) for first, second in product(more, repeat=2))


def test_every_session_that_could_read_a_tested_unit_is_counted_and_no_other(steps: dict[str, Step]) -> None:
    for before, after in histories(steps):
        ledger = history(steps, (*before, "test", *after))
        assert world.looks_before(ledger, ledger.session("test")) == touching(steps, before), before


def by_kind(ledger: world.Reading, test: world.Session) -> int:
    """The planted bug: tests alone are looks."""
    known = ledger.sessions("people")
    others = [
        item for item in known[: known.index(test)] if item.purpose != world.LABELS and "session" in item.mechanism
    ]
    return sum(item.division == test.division and item.mechanism["session"] != LEARNED for item in others)


def by_part(ledger: world.Reading, test: world.Session) -> int:
    """The planted bug: whoever names the learning part, of whatever division, reads no tested unit."""
    known = ledger.sessions("people")
    return sum(item.part != world.LEARNING and item.id != LEARNED for item in known[: known.index(test)])


@pytest.mark.parametrize("counted", [by_kind, by_part])
def test_looks_that_are_left_out_are_found(
    steps: dict[str, Step], counted: Callable[[world.Reading, world.Session], int]
) -> None:
    missed = [
        before
        for before, after in histories(steps)
        for ledger in [history(steps, (*before, "test", *after))]
        if counted(ledger, ledger.session("test")) < touching(steps, before)
    ]
    assert (("questions to everybody", LEARNED, "labels of who learns") in missed) == (counted is by_kind)
    assert ("who learns by another key", LEARNED, "labels of who learns") in missed


def test_the_units_that_they_read_are_others(steps: dict[str, Step]) -> None:
    """So that what is counted above is no matter of names."""
    tested = steps["test"].of.touches
    assert not steps[LEARNED].of.touches & tested
    assert 0 < len(steps["who learns by another key"].of.touches & tested) < len(tested)
    assert steps["labels of everybody"].of.touches == frozenset(NAMES)

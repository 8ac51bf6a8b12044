"""Records of sessions: what sessions promise together, for each unit; and the facts that ledger and certificate decide
by, whichever version wrote the settings."""

from itertools import product
from typing import Any

import pytest

from tests import world
from tests.support.recorded import RECORDED


def record(name: int, part: str) -> world.SessionRecord:
    """A session whose claim nothing else adds up to."""
    return world.SessionRecord(
        session=f"people-{name}",
        purpose="labels",
        mechanism=world.MechanismRecord(name="stable", settings={}, proof="", releases=""),
        guarantee=world.Budget(epsilon=2.0**name, delta=2.0**-name / 1024),
        part=part,
        teachers=0,
        counts=world.Counts(asked=1, answered=1, refused=0, not_asked=0),
        files=(),
    )


@pytest.mark.parametrize(
    "parts", [kinds for length in (1, 2, 3) for kinds in product((world.EVERY, *world.PARTS), repeat=length)]
)
def test_no_unit_is_promised_more_than_the_sessions_that_read_it_add_up_to(parts: tuple[str, ...]) -> None:
    records = [record(name, part) for name, part in enumerate(parts)]
    found = world.promised(records)
    for unit in world.PARTS:
        reading = [each.guarantee for each in records if each.part in (unit, world.EVERY)]
        assert found.epsilon >= sum(claim.epsilon for claim in reading)
        assert found.delta >= sum(claim.delta for claim in reading)
    assert found.epsilon <= sum(each.guarantee.epsilon for each in records)


def test_a_test_on_other_units_costs_nobody_both() -> None:
    learned, tested = record(3, world.LEARNING), record(2, world.TEST)
    assert world.promised([learned, tested]) == world.Budget(epsilon=8.0, delta=2.0**-2 / 1024)
    assert world.promised([record(3, world.EVERY), tested]).epsilon == 12.0
    assert world.promised([learned]) == learned.guarantee


def test_of_the_seasons_of_a_stream_nobody_pays_more_than_the_dearest() -> None:
    weeks = [record(name, world.LEARNING).model_copy(update={"stream": "people-weekly"}) for name in (1, 3, 2)]
    assert world.promised([record(2, world.TEST), *weeks]) == world.Budget(epsilon=8.0, delta=2.0**-1 / 1024)
    assert world.promised([*weeks, record(4, world.LEARNING)]).epsilon == 16.0 + 8.0
    assert world.promised([*weeks, record(0, world.EVERY)]).epsilon == 1.0 + 8.0


CASES: dict[str, dict[str, Any]] = {
    "stable": {"epsilon": 1.0, "classes": None, "rounds": (), "session": None, "of_rows": "public rows"},
    "universal": {"epsilon": 1.0, "delta": None},
    "tallies": {"classes": 2, "bounds": (0.0, 50.0), "season": None, "given": "public rows"},
    "sketch": {"of_rows": "synthetic rows", "given": "declared schema"},
    "stream": {"season": 12, "classes": 2},
    "private_test": {"session": "census-1", "student": "9f", "bounds": (0.0, 50.0)},
}


@pytest.mark.parametrize("name", CASES)
def test_facts_are_what_settings_state(name: str) -> None:
    facts = world.Facts.of(RECORDED[name])
    assert {fact: getattr(facts, fact) for fact in CASES[name]} == CASES[name]
    assert world.Facts.of({**RECORDED[name], "later": 1}) == facts
    assert len(facts.rounds) == len(RECORDED[name].get("rounds", ()))


def test_of_settings_in_another_form_no_more_than_the_name_is_known() -> None:
    for other in ({"epsilon": "one"}, {"season": "one"}, {"rounds": 3}, {"bounds": [0]}):
        facts = world.Facts.of({**RECORDED["stream"], **other})
        assert facts == world.Facts(name="stream")
    assert world.Facts.of({}).name == "None"


def test_the_subset_of_another_version_counts_as_answered_from() -> None:
    """A later version's session that says anything of relabelled rows lets no second one answer from the subset."""
    for said in ({"rate": 0.05}, {}, "later"):
        for later in ({"later": 1}, {"epsilon": "one"}):
            facts = world.Facts.of({**RECORDED["stable"], **later, "relabel": said})
            assert facts.relabel is not None
            assert world.RelabellingRecord.of([facts]) is None


def test_the_relabelling_of_a_session_is_told_with_both_budgets() -> None:
    told = world.RelabellingRecord.of(map(world.Facts.of, (RECORDED["universal"], RECORDED["stable"])))
    assert told is not None
    assert (told.inner.epsilon, told.whole.epsilon, told.share) == (1.0, 0.5, 0.05)
    assert told.features == ("age", "hours")

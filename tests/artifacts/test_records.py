"""Records of sessions: what sessions promise together, for each unit."""

from itertools import product

import pytest

from tests.world import (
    EVERY,
    LEARNING,
    PARTS,
    TEST,
    Budget,
    Counts,
    MechanismRecord,
    SessionRecord,
    promised,
)


def record(name: int, part: str) -> SessionRecord:
    """A session whose claim nothing else adds up to."""
    return SessionRecord(
        session=f"people-{name}",
        purpose="labels",
        mechanism=MechanismRecord(name="stable", settings={}, proof="", releases=""),
        guarantee=Budget(epsilon=2.0**name, delta=2.0**-name / 1024),
        part=part,
        teachers=0,
        counts=Counts(asked=1, answered=1, refused=0, not_asked=0),
        files=(),
    )


@pytest.mark.parametrize("parts", [kinds for length in (1, 2, 3) for kinds in product((EVERY, *PARTS), repeat=length)])
def test_no_unit_is_promised_more_than_the_sessions_that_read_it_add_up_to(parts: tuple[str, ...]) -> None:
    records = [record(name, part) for name, part in enumerate(parts)]
    found = promised(records)
    for unit in PARTS:
        reading = [each.guarantee for each in records if each.part in (unit, EVERY)]
        assert found.epsilon >= sum(claim.epsilon for claim in reading)
        assert found.delta >= sum(claim.delta for claim in reading)
    assert found.epsilon <= sum(each.guarantee.epsilon for each in records)


def test_a_test_on_other_units_costs_nobody_both() -> None:
    learned, tested = record(3, LEARNING), record(2, TEST)
    assert promised([learned, tested]) == Budget(epsilon=8.0, delta=2.0**-2 / 1024)
    assert promised([record(3, EVERY), tested]).epsilon == 12.0
    assert promised([learned]) == learned.guarantee


def test_of_the_seasons_of_a_stream_nobody_pays_more_than_the_dearest() -> None:
    weeks = [record(name, LEARNING).model_copy(update={"stream": "people-weekly"}) for name in (1, 3, 2)]
    assert promised([record(2, TEST), *weeks]) == Budget(epsilon=8.0, delta=2.0**-1 / 1024)
    assert promised([*weeks, record(4, LEARNING)]).epsilon == 16.0 + 8.0
    assert promised([*weeks, record(0, EVERY)]).epsilon == 1.0 + 8.0

"""Records of sessions: every setting that is recorded, and what sessions promise together, for each unit."""

import json
from itertools import product
from typing import Any

import pytest

from tests.support.recorded import RECORDED
from tests.world import (
    EVERY,
    KINDS,
    LEARNING,
    PARTS,
    ROUTES,
    TEST,
    Budget,
    Counts,
    Kind,
    MechanismRecord,
    NotVerified,
    SessionRecord,
    TalliesKind,
    Unknown,
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


def test_there_is_a_kind_for_each_mechanism_that_opens_a_session() -> None:
    assert KINDS.keys() == RECORDED.keys() == ROUTES.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_a_kind_has_every_setting_that_is_recorded(name: str) -> None:
    """Nothing is dropped or read as another value, and what is not recorded has its default."""
    kind = Kind.of(RECORDED[name])
    assert type(kind) is KINDS[name]
    assert json.loads(kind.model_dump_json(by_alias=True, exclude_unset=True)) == RECORDED[name]


@pytest.mark.parametrize("name", RECORDED)
def test_of_another_version_no_more_than_the_name_is_known(name: str) -> None:
    recorded, kind = RECORDED[name], KINDS[name]
    missing = [{key: recorded[key] for key in recorded if key != field} for field in ("epsilon", "name")]
    foreign = next(field for field in ("season", "classes", "student") if field not in recorded)
    for other in (*missing, recorded | {"later": 1}, recorded | {foreign: "1"}, recorded | {"epsilon": "one"}):
        found = Kind.of(other)
        assert isinstance(found, Unknown)
        assert (found.classes, found.session, found.season, found.rounds) == (None, None, None, ())
        with pytest.raises(NotVerified, match="are not those of a session of that kind"):
            found.only(kind)


def test_the_subset_of_another_version_counts_as_answered_from() -> None:
    """A later version's session that says anything of relabelled rows lets no second one answer from the subset."""
    later: dict[str, Any] = {**RECORDED["stable"], "relabel": {"rate": 0.05}, "later": 1}
    for said in ({"rate": 0.05}, {}, "later"):
        found = Kind.of({**later, "relabel": said})
        assert found.relabel is not None
        assert found.claim == (None, None)


def test_what_a_kind_states_follows_from_its_settings() -> None:
    assert Kind.of(RECORDED["stable"]).claim == (0.5, 1e-6)
    assert Kind.of(RECORDED["universal"]).claim == (1.0, None)
    sums, running = (Kind.of(RECORDED[name]).only(TalliesKind).unit for name in ("tallies", "stream"))
    assert running == sums << 8

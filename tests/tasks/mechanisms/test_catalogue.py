"""What holds of every mechanism, over the catalogue: a new one is held to it by its line there; and
that the referee reads every setting that is recorded of a session, and nothing of settings that it does not know."""

import json
from inspect import signature
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.support.recorded import ADDED, ASKED, DRAWN, RECORDED


def test_each_has_its_referee_and_is_tried() -> None:
    assert world.CATALOGUE.keys() == world.KINDS.keys() == RECORDED.keys()


@pytest.mark.parametrize("name", DRAWN)
def test_it_is_read_back_to_the_bit_from_what_is_recorded_of_it(name: str) -> None:
    """Nothing is dropped or read as another value: neither its own settings, nor those that say what is asked."""
    made: Any = DRAWN[name]
    settings = RECORDED[made.name]
    again: Any = world.recorded(settings)
    assert json.loads(again.model_dump_json()) == settings
    inner = again.inner if isinstance(again, world.Relabelled) else again
    assert type(inner) is type(made)
    assert inner.cost == made.cost
    assert world.recorded(made.model_dump(mode="json")) == made
    assert (inner == made) is (not ADDED.get(made.name, {}).keys() - {"relabel"})


@pytest.mark.parametrize("name", DRAWN)
def test_each_is_calibrated_by_its_own_name_as_by_the_flows(name: str) -> None:
    kind, (_, given) = type(DRAWN[name]), ASKED[name]
    taken = signature(world.calibration_of(kind)).parameters
    assert kind.calibrate(**{key: given[key] for key in given if key in taken or "settings" in taken}) == DRAWN[name]


def of_another_version(name: str) -> list[dict[str, Any]]:
    """Settings of that kind with a key less, a key more, or a value of another type."""
    settings = RECORDED[name]
    foreign = next(field for field in ("season", "classes", "student") if field not in settings)
    return [
        *({key: settings[key] for key in settings if key != field} for field in ("epsilon", "name")),
        *(settings | other for other in ({"later": 1}, {foreign: "1"}, {"epsilon": "one"})),
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_settings_of_another_version_are_not_taken_for_those_of_this_one(name: str) -> None:
    for other in (*of_another_version(name), RECORDED[name] | {"epsilon": "1.0"}):
        with pytest.raises(world.NotVerified, match="are not those of a session of that kind: "):
            world.recorded(other)


@pytest.mark.parametrize("relabel", [{"rate": 0.05}, {}, "later", None])
def test_a_relabelling_of_another_version_is_not_read_as_none(relabel: Any) -> None:
    with pytest.raises(world.NotVerified, match="are not those of a session of that kind: "):
        world.recorded({**RECORDED["stable"], "relabel": relabel})


def test_a_mechanism_of_another_type_than_is_due_is_refused() -> None:
    with pytest.raises(world.NotVerified, match="settings of 'tallies' are not those of a session of that kind"):
        world.recorded_as(world.PrivateTest, RECORDED["tallies"])


def test_the_list_of_plans_is_what_ends_each_mechanism_of_votes() -> None:
    """`artifacts.sections` may import no mechanism, so it lists them."""
    for name, ends in world.MECHANISMS.items():
        taken = signature(world.calibration_of(world.CATALOGUE[name])).parameters
        assert tuple(end for end in ("cutoff", "queries") if end in taken) == ends


def test_a_changed_setting_is_validated_like_any() -> None:
    with pytest.raises(ValueError, match="cutoff"):
        DRAWN["stable"].with_(cutoff="many")


# The referee ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
def test_a_kind_has_every_setting_that_is_recorded(name: str) -> None:
    """Nothing is dropped or read as another value, and what is not recorded has its default."""
    kind = world.read_settings(RECORDED[name])
    assert type(kind) is world.KINDS[name]
    assert json.loads(kind.model_dump_json(by_alias=True, exclude_unset=True)) == RECORDED[name]


@pytest.mark.parametrize("name", ["later", 3, None])
def test_of_settings_of_no_kind_no_key_is_said_to_be_foreign(name: Any) -> None:
    found: Any = world.read_settings({"name": name, "epsilon": 1.0})
    assert (type(found), found.why) == (world.Unknown, "this version has no such kind")


@pytest.mark.parametrize("name", RECORDED)
def test_of_another_version_no_more_than_the_name_is_known(name: str) -> None:
    for other in of_another_version(name):
        found = world.read_settings(other)
        assert isinstance(found, world.Unknown)
        assert (found.classes, found.session, found.season, found.rounds) == (None, None, None, ())
        with pytest.raises(world.NotVerified, match="are not those of a session of that kind"):
            found.only(world.KINDS[name])


def test_programs_outside_this_project_calibrate_stable_voting_by_its_class() -> None:
    mechanism = world.StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=2)
    votes, refused = np.array([[90, 10], [51, 49], [50, 50], [40, 60]]), np.zeros(4, np.uint64)
    assert (str(mechanism.refusal.dtype), mechanism.cutoff) == ("uint64", 2)
    assert mechanism.cost.epsilon(1e-5) <= 1.0
    assert mechanism.answer(votes, refused + np.uint64(2**64 - 1)).tolist() == [0, 0, 0, 1]
    assert mechanism.answer(votes, refused).tolist() == [-1, -1]

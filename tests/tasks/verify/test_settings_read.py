"""The referee reads every setting that is recorded of a session, and nothing of settings that it does not know."""

import json
from typing import Any

import pytest

from tests.support.recorded import RECORDED
from tests.world import (
    KINDS,
    ROUTES,
    KindSettings,
    NotVerified,
    Unknown,
)


def test_there_is_a_kind_for_each_mechanism_that_opens_a_session() -> None:
    assert KINDS.keys() == RECORDED.keys() == ROUTES.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_a_kind_has_every_setting_that_is_recorded(name: str) -> None:
    """Nothing is dropped or read as another value, and what is not recorded has its default."""
    kind = KindSettings.of(RECORDED[name])
    assert type(kind) is KINDS[name]
    assert json.loads(kind.model_dump_json(by_alias=True, exclude_unset=True)) == RECORDED[name]


@pytest.mark.parametrize("name", RECORDED)
def test_of_another_version_no_more_than_the_name_is_known(name: str) -> None:
    recorded, kind = RECORDED[name], KINDS[name]
    missing = [{key: recorded[key] for key in recorded if key != field} for field in ("epsilon", "name")]
    foreign = next(field for field in ("season", "classes", "student") if field not in recorded)
    for other in (*missing, recorded | {"later": 1}, recorded | {foreign: "1"}, recorded | {"epsilon": "one"}):
        found = KindSettings.of(other)
        assert isinstance(found, Unknown)
        assert (found.classes, found.session, found.season, found.rounds) == (None, None, None, ())
        with pytest.raises(NotVerified, match="are not those of a session of that kind"):
            found.only(kind)


def test_the_subset_of_another_version_counts_as_answered_from() -> None:
    """A later version's session that says anything of relabelled rows lets no second one answer from the subset."""
    later: dict[str, Any] = {**RECORDED["stable"], "relabel": {"rate": 0.05}, "later": 1}
    for said in ({"rate": 0.05}, {}, "later"):
        found = KindSettings.of({**later, "relabel": said})
        assert found.relabel is not None
        assert found.claim == (None, None)


def test_what_a_kind_states_follows_from_its_settings() -> None:
    assert KindSettings.of(RECORDED["stable"]).claim == (0.5, 1e-6)
    assert KindSettings.of(RECORDED["universal"]).claim == (1.0, None)

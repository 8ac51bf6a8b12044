"""Facts of a session: what ledger and certificate decide by, whichever version wrote the settings."""

from typing import Any

import pytest

from tests.support.recorded import RECORDED
from tests.world import (
    Facts,
    RelabellingRecord,
)

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
    facts = Facts.of(RECORDED[name])
    assert {fact: getattr(facts, fact) for fact in CASES[name]} == CASES[name]
    assert Facts.of({**RECORDED[name], "later": 1}) == facts
    assert len(facts.rounds) == len(RECORDED[name].get("rounds", ()))


def test_of_settings_in_another_form_no_more_than_the_name_is_known() -> None:
    for other in ({"epsilon": "one"}, {"season": "one"}, {"rounds": 3}, {"bounds": [0]}):
        facts = Facts.of({**RECORDED["stream"], **other})
        assert facts == Facts(name="stream")
    assert Facts.of({}).name == "None"


def test_the_subset_of_another_version_counts_as_answered_from() -> None:
    """A later version's session that says anything of relabelled rows lets no second one answer from the subset."""
    for said in ({"rate": 0.05}, {}, "later"):
        for later in ({"later": 1}, {"epsilon": "one"}):
            facts = Facts.of({**RECORDED["stable"], **later, "relabel": said})
            assert facts.relabel is not None
            assert RelabellingRecord.of([facts]) is None


def test_the_relabelling_of_a_session_is_told_with_both_budgets() -> None:
    told = RelabellingRecord.of(map(Facts.of, (RECORDED["universal"], RECORDED["stable"])))
    assert told is not None
    assert (told.inner.epsilon, told.whole.epsilon, told.share) == (1.0, 0.5, 0.05)
    assert told.features == ("age", "hours")

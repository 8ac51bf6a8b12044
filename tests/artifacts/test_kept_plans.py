"""Plans that 1.0.0 kept beside its sessions are read, though some keys are gone: an upgrade spends nothing."""

import json
from pathlib import Path

import pytest

from concord.artifacts.learners import Candidate
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import added
from concord.artifacts.sections import REMOVED, with_removed, without_removed
from concord.flows.refresh import fields_read
from concord.flows.stages import encode
from concord.tasks.door.checkpoint import Checkpoint

KEPT = json.loads(Path(__file__).with_name("plans_1_0_0.json").read_text(encoding="utf-8"))
PLANS = KEPT["plans"]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_an_earlier_version_kept_is_read(name: str) -> None:
    kept = {
        "plan": PLANS[name],
        "encoding": {"columns": [], "label": "y", "classes": []},
        "teachers": [],
        "sources": [],
    }
    assert Checkpoint.model_validate_json(json.dumps({**kept, "files": {}, "private": []})).plan.privacy.domain


def test_a_plan_is_dumped_as_1_0_0_did_it() -> None:
    """Digests of dumps name sessions: keys that are gone are put back, and a key that is new (`schemas.added`) is left
    out at its default."""
    for kept in PLANS.values():
        assert with_removed(Plan.model_validate(without_removed(kept)).model_dump(mode="json")) == kept


@pytest.mark.parametrize("name", PLANS)
def test_a_stream_that_an_earlier_version_began_is_known(name: str) -> None:
    """By what it read of the plan, so that another public table asks nobody again."""
    kept = PLANS[name]
    sections = (key.split(".") for key in encode.reads if key != "data.declared")  # which no stream has
    earlier: dict[str, dict[str, object]] = {"data": {}, "labeling": {}}
    for section, key in sections:
        earlier[section][key] = kept[section][key]
    assert fields_read(Plan.model_validate(without_removed(kept))) == earlier


class Later(Candidate):
    """A student with a key that a later version adds."""

    depth: int | None = added(None)


def test_a_key_that_is_added_is_in_a_dump_only_if_it_is_set() -> None:
    assert Later().model_dump(mode="json") == Candidate().model_dump(mode="json")
    assert Later(depth=3).model_dump(mode="json") == {**Candidate().model_dump(mode="json"), "depth": 3}
    assert Later(depth=3).model_dump(include={"depth", "refused"}) == {"depth": 3, "refused": "random"}


def test_a_key_that_was_set_is_not_ignored() -> None:
    kept = with_removed(PLANS["demo"])
    kept["privacy"]["lifetime"]["filter"] = "gaussian"
    assert without_removed(kept)["privacy"]["lifetime"]["filter"] == "gaussian"
    assert "privacy.lifetime.filter" in REMOVED

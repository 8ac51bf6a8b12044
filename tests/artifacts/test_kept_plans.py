"""Plans that 1.0.0 kept beside its sessions are read, though some keys are gone: an upgrade spends nothing."""

import json
from pathlib import Path

import pytest

from concord.artifacts.plan import Plan
from concord.artifacts.removed_keys import REMOVED, with_removed, without_removed
from concord.flows.refresh import fields_read
from concord.flows.stages import encode
from concord.tasks.asks.share import plan_digest
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


def test_keys_that_are_gone_are_put_back_where_a_digest_is_of_them() -> None:
    for kept in PLANS.values():
        plan = Plan.model_validate(without_removed(kept))
        earlier = with_removed(plan.model_dump(mode="json"))
        assert {name: earlier[name] for name in kept} == kept
    assert plan_digest(Plan.model_validate(without_removed(PLANS["homes"]))) == KEPT["digest of homes"]


@pytest.mark.parametrize("name", PLANS)
def test_a_stream_that_an_earlier_version_began_is_known(name: str) -> None:
    """By what it read of the plan, so that another public table asks nobody again."""
    kept = PLANS[name]
    sections = (key.split(".") for key in encode.reads)
    earlier: dict[str, dict[str, object]] = {"data": {}, "labeling": {}}
    for section, key in sections:
        earlier[section][key] = kept[section][key]
    assert fields_read(Plan.model_validate(without_removed(kept))) == earlier


def test_a_key_that_was_set_is_not_ignored() -> None:
    kept = with_removed(PLANS["demo"])
    kept["privacy"]["lifetime"]["filter"] = "gaussian"
    assert without_removed(kept)["privacy"]["lifetime"]["filter"] == "gaussian"
    assert "privacy.lifetime.filter" in REMOVED

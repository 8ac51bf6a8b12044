"""Planned votes are those that the door would open a session for."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.people import tables_of_plan, write_tables
from tests.world import (
    Filter,
    Plan,
    PublicFacts,
    PublicRows,
    Relabelled,
    Vault,
    VotesAsk,
    learn_encoding,
    parse_plan,
    stage_public,
)

STUDENT = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tables_of_plan(write_tables(tmp_path_factory.mktemp("data")))


def ran(plan: Plan, folder: Path) -> Any:
    """The mechanism of the session that a plan would open."""
    encoding, vault = learn_encoding(plan), Vault(folder)
    lifetime = plan.privacy.lifetime
    batches = stage_public(plan.path("public"), encoding, vault, "public", 128)
    order = Filter.freeze(lifetime.epsilon, lifetime.delta).order
    return VotesAsk.of(plan, PublicRows(encoding=encoding, batches=batches), order, vault).mechanism


@pytest.mark.parametrize("relabel", [{}, {"share": 0.4}, {"epsilon": 0.5}])
def test_a_relabelled_plan_is_planned_with_what_its_mechanism_has(
    tables: dict[str, Any], tmp_path: Path, relabel: dict[str, Any]
) -> None:
    plan = parse_plan({**tables, "relabel": relabel})
    mechanism, planned = ran(plan, tmp_path), PublicFacts.of(plan).votes(plan)
    assert isinstance(mechanism, Relabelled)
    assert planned.subset is not None
    assert planned.subset["share"] == mechanism.relabelling.share
    assert planned.mechanism.settings() == mechanism.inner.settings()
    inner: Any = mechanism.inner
    assert (planned.epsilon, planned.delta) == (inner.epsilon, inner.delta)
    assert planned.epsilon != plan.privacy.epsilon


def test_labels_bought_beside_a_chosen_student_have_the_rest_of_the_budget(
    tables: dict[str, Any], tmp_path: Path
) -> None:
    plan = parse_plan({**tables, "student": {**STUDENT, "epsilon": 1.5}})
    planned = PublicFacts.of(plan).votes(plan)
    assert planned.epsilon == ran(plan, tmp_path).epsilon == plan.privacy.epsilon - 1.5

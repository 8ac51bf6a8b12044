"""What planning expects of a plan: the budget its session runs at, and a chosen student."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.domains import Filter
from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import RelabelPlan
from concord.artifacts.plan import Plan, parse_plan
from concord.artifacts.schemas import PublicRows
from concord.tasks.advice.expect import (
    Premises,
    expect_choice,
    premises_of,
    selection_rows,
)
from concord.tasks.asks.hypothesis import HypothesisAsk
from concord.tasks.asks.votes import VotesAsk
from concord.tasks.data.encode import learn_encoding, stage_public
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.relabelled import Relabelled
from tests.privacy.bounds import cover_rows
from tests.support.people import tables_of_plan, write_tables
from tests.support.sentences import facts

STUDENT = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tables_of_plan(write_tables(tmp_path_factory.mktemp("data")))


def premises(plan: Plan) -> Premises:
    return Premises(**premises_of(plan))


def ran(plan: Plan, folder: Path) -> Any:
    """The mechanism of the session that a plan would open."""
    encoding, vault = learn_encoding(plan), Vault(folder)
    lifetime = plan.privacy.lifetime
    batches = stage_public(plan.path("public"), encoding, vault, "public", 128)
    order = Filter.freeze(lifetime.epsilon, lifetime.delta).order
    return VotesAsk.of(plan, PublicRows(encoding=encoding, batches=batches), order, vault).mechanism


@pytest.mark.parametrize("relabel", [{}, {"share": 0.4}, {"form": "published"}, {"epsilon": 0.5, "form": "none"}])
def test_a_relabelled_plan_is_planned_with_what_its_mechanism_has(
    tables: dict[str, Any], tmp_path: Path, relabel: dict[str, Any]
) -> None:
    plan = parse_plan({**tables, "relabel": relabel})
    mechanism, expected = ran(plan, tmp_path), premises(plan)
    assert isinstance(mechanism, Relabelled)
    assert expected.subset is not None
    assert expected.subset["share"] == mechanism.relabelling.share
    inner: Any = mechanism.inner
    assert (expected.request.epsilon, expected.request.delta) == (inner.epsilon, inner.delta)
    assert expected.request.epsilon != plan.privacy.epsilon


def test_labels_bought_beside_a_chosen_student_have_the_rest_of_the_budget(
    tables: dict[str, Any], tmp_path: Path
) -> None:
    plan = parse_plan({**tables, "student": {**STUDENT, "epsilon": 1.5}})
    assert premises(plan).request.epsilon == ran(plan, tmp_path).epsilon == plan.privacy.epsilon - 1.5
    for relabel in (None, RelabelPlan()):
        with pytest.raises(WrongInput, match=facts("epsilon", "student.epsilon = 1.5")):
            replace(premises(plan), relabel=relabel, epsilon=1.0)


def test_a_chosen_student_has_the_candidates_that_are_weighed(tables: dict[str, Any], tmp_path: Path) -> None:
    plan = parse_plan({**_without_votes(tables), "student": STUDENT})
    encoding, vault = learn_encoding(plan), Vault(tmp_path)
    batches = stage_public(plan.path("public"), encoding, vault, "public", 128)
    found, choice = expect_choice(plan, plan.privacy.epsilon), HypothesisAsk.of(plan, encoding, batches, vault)
    assert (found.candidates, found.hypotheses) == (choice.about["candidates"], choice.about["hypotheses"])
    assert found.epsilon == choice.mechanism.epsilon
    assert found.public_rows == sum(batch.rows for batch in batches)


def test_its_error_is_the_theorem_s(tables: dict[str, Any]) -> None:
    """Half of the odds for the cover, half for the choice, whose errors add; and neither takes a row too many."""
    found = expect_choice(parse_plan({**_without_votes(tables), "student": STUDENT}), 2.0)
    odds = found.beta / 2
    assert cover_rows(dimension=found.dimension, alpha=found.cover_error, beta=odds) <= found.public_rows
    assert cover_rows(dimension=found.dimension, alpha=0.95 * found.cover_error, beta=odds) > found.public_rows
    rate = Universal(epsilon=2.0, secret="rows").choice.rate
    given: dict[str, Any] = {"candidates": found.candidates, "beta": odds, "rate": rate}
    for excess, units in found.private_units.items():
        assert selection_rows(alpha=excess, **given) == units


def test_a_student_whose_public_rows_are_private_ones_is_not_planned(tables: dict[str, Any]) -> None:
    given = _without_votes(tables) | {"student": STUDENT}
    data = {**{name: value for name, value in given["data"].items() if name != "public"}, "public_share": 0.3}
    plan = parse_plan({**given, "data": data, "privacy": {**given["privacy"], "secret": "labels"}})
    with pytest.raises(WrongInput, match=r"data\.public must be given"):
        expect_choice(plan, 1.0)


def _without_votes(tables: dict[str, Any]) -> dict[str, Any]:
    return {name: section for name, section in tables.items() if name not in ("teachers", "labeling")}

"""Figures: the same facts give the same bytes, the numbers are the ledger's, and nothing is fetched or run."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import world
from tests.support.published import CLASSES, SESSION, World, session, world_in
from tests.support.recomputed import least_delta

STABLE = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)


def refused(small: World, refs: list[world.Ref]) -> NDArray[np.bool_]:
    return world.outcomes_in(tuple(refs), small.released).refused


@pytest.fixture
def small(tmp_path: Path) -> World:
    return world_in(tmp_path)


def test_the_charge_grows_with_refusals_up_to_the_claim(small: World) -> None:
    labels = small.truth.copy()
    labels[np.arange(5, 300, 15)] = -1
    refs = session(small, STABLE, labels[:291])
    now = world.Ledger.of(small.home).session(SESSION)
    assert now.refused == 20
    spent = world.spending(now, refused(small, refs))
    assert spent.rows[0] == 1
    assert spent.rows[-1] == 291
    assert spent.epsilon[0] == 0
    assert (np.diff(spent.epsilon) >= 0).all()
    assert spent.epsilon[-1] == pytest.approx(STABLE.cost.epsilon(1e-5), rel=1e-6)
    assert spent.epsilon[-1] <= 1
    unasked = world.spending(now, np.zeros(0, dtype=bool))
    assert (unasked.rows.tolist(), unasked.epsilon.tolist()) == ([0], [0])
    dear = world.Cost(renyi=tuple(9 * r for r in STABLE.per_refusal.renyi))
    assert world.charge_of(dear, 20, now.epsilon, now.delta) == 1.0
    whole = replace(
        now,
        mechanism=world.calibrated_votes(world.NoisyVotes, epsilon=1.0, delta=1e-5, queries=300, classes=2).model_dump(
            mode="json"
        ),
    )
    assert set(world.spending(whole, refused(small, refs)).epsilon) == {1.0}


def test_the_domains_budget_adds_up_over_its_sessions(small: World) -> None:
    session(small, STABLE, small.truth)
    ledger = world.Ledger.of(small.home)
    item = ledger.session(SESSION)
    ended = replace(item, id="people-0", status="spent", settled=item.reserved)
    twice: Any = SimpleNamespace(
        sessions=lambda _: [ended, item],
        counted=lambda _: [world.Counted("", "", item.charge)] * 2,
        division=lambda _: None,
    )
    domain = world.DomainCharge.of(ledger.domains()[0], twice)
    total = float(2 * item.charge.renyi / ledger.domains()[0].filter.budget)
    assert sum(charge.share for charge in domain.charges) == pytest.approx(total)
    svg = world.budget_figure(domain)
    for word in ("used by earlier sessions", "used", "set aside", "limit"):
        assert f">{word}<" in svg


def test_figures_are_the_same_bytes_for_the_same_facts_and_stand_alone(small: World) -> None:
    labels = small.truth.copy()
    labels[::30] = -1
    refs = session(small, STABLE, labels)
    ledger = world.Ledger.of(small.home)
    now = ledger.session(SESSION)
    found = world.outcomes_in(tuple(refs), small.released)
    counts = world.Counts(asked=300, answered=290, refused=10, not_asked=0)

    def draw() -> list[str]:
        return [
            world.spend_figure(now, world.spending(now, found.refused)),
            world.what_if_figure(now, world.spending(now, found.refused)),
            world.labels_figure(found.by_class, CLASSES, counts),
            world.budget_figure(world.DomainCharge.of(ledger.domains()[0], ledger)),
        ]

    first = draw()
    assert first == draw()
    for svg in first:
        ElementTree.fromstring(svg)
        assert "currentColor" in svg
        assert "<script" not in svg
        assert "url(http" not in svg
    assert f"{290 - (small.truth[np.arange(300) % 30 > 0] == 1).sum():,}" in first[2]


def test_names_of_classes_are_text_not_markup_or_formulas() -> None:
    odd = ["<b>&", "$x^2$"]
    svg = world.labels_figure({odd[0]: 300}, odd, world.Counts(asked=300, answered=300, refused=0, not_asked=0))
    words = [node.text for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert set(odd) <= set(words)


ROWS, CUTOFF = 300, 20
BY_REFUSAL = ("stable", "sparse_vector", "published")
BY_ROW = ("noisy_votes", "laplace_votes", "confident")


def _at_the_end(now: world.Session) -> world.Spending:
    return world.Spending(np.array([now.asked]), np.array([now.answered]), np.array([now.epsilon]))


def calibrated(name: str) -> world.Mechanism:
    budget: dict[str, Any] = {"epsilon": 8.0 if name == "published" else 1.0, "delta": 1e-5, "order": 2.0}
    return world.calibrate(name, cutoff=CUTOFF, queries=ROWS, classes=2, teachers=100, **budget)


def answered(
    home: Path, mechanism: world.Mechanism, refused: list[int], rows: int = ROWS
) -> tuple[world.Session, world.Spending]:
    """A session of that mechanism in which those rows were refused, and what it was charged at PLANS rows or fewer."""
    small = world_in(home, rows=ROWS)
    labels = small.truth.copy()[:rows]
    labels[refused] = -1
    refs = session(small, mechanism, labels)
    now = world.Ledger.of(home).session(SESSION)
    refusals = world.outcomes_in(tuple(refs), small.released).refused
    return now, world.spending(now, refusals, np.arange(1, min(now.asked, world.PLANS) + 1))


@pytest.mark.parametrize("name", [*BY_REFUSAL, *BY_ROW])
def test_it_grows_with_what_is_planned_for_up_to_the_claim(tmp_path: Path, name: str) -> None:
    mechanism, refused = calibrated(name), list(range(0, 2 * CUTOFF, 2)) if name in BY_REFUSAL else []
    now, spent = answered(tmp_path, mechanism, refused, rows=2 * CUTOFF - 1 if refused else ROWS)
    sooner = world.epsilon_if_stopped_early(now, spent)
    assert sooner is not None
    assert (np.diff(sooner.epsilon) >= 0).all()
    assert 0 < sooner.epsilon[0] < sooner.epsilon[-1] <= now.epsilon
    for asked, had, epsilon in zip(sooner.rows[::9], sooner.answered[::9], sooner.epsilon[::9], strict=True):
        planned = {"cutoff": min(asked - had + 1, CUTOFF)} if name in BY_REFUSAL else {"queries": asked, "answers": had}
        settings = {**now.mechanism, **{term: int(end) for term, end in planned.items() if term in now.mechanism}}
        assert least_delta(settings, epsilon) <= now.delta * (1 + 1e-6)  # by a path of its own
    whole = world.epsilon_if_stopped_early(now, _at_the_end(now))
    assert whole is not None
    if name != "confident":  # which was planned to answer half of its rows, and answered all
        assert whole.epsilon == pytest.approx(min(now.epsilon, mechanism.cost.epsilon(now.delta)))


def test_a_session_that_pays_by_refusal_is_planned_to_the_next_one(tmp_path: Path) -> None:
    mechanism = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=CUTOFF)
    now, spent = answered(tmp_path, mechanism, [3, 7])
    sooner = world.epsilon_if_stopped_early(now, spent)
    assert sooner is not None
    first, second, third = (mechanism.with_(cutoff=count).cost.epsilon(now.delta) for count in (1, 2, 3))
    assert first < second < third
    assert sooner.epsilon[:9] == pytest.approx([first] * 3 + [second] * 4 + [third] * 2, rel=1e-9)


def test_there_is_none_where_rows_were_relabelled_or_nothing_was_asked(tmp_path: Path) -> None:
    mechanism = calibrated("noisy_votes")
    now, spent = answered(tmp_path, mechanism, [])
    assert world.epsilon_if_stopped_early(now, spent) is not None
    assert world.epsilon_if_stopped_early(replace(now, asked=0), spent) is None
    assert world.epsilon_if_stopped_early(replace(now, mechanism={**now.mechanism, "relabel": {}}), spent) is None
    assert world.epsilon_if_stopped_early(replace(now, mechanism={"name": "universal"}, teachers=0), spent) is None

"""What planning says of a domain's budget is what the ledger will say, at the largest ε that fits and at the next."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.console import concord
from tests.support.people import tables_of_plan, write_tables
from tests.support.sentences import facts, says

TALLIES = {"mechanism": "tallies", "rows": 6000}
CHOSEN = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}
UNIVERSAL = {"learner": "universal", "hypotheses": "stumps", "features": ["size"]}
PLANS: dict[str, dict[str, Any]] = {
    "tallies": {"labeling": TALLIES, "teachers": None},
    "stable": {},
    "noisy_votes": {"labeling": {"mechanism": "noisy_votes"}},
    "with room": {"labeling": {"mechanism": "noisy_votes", "queries": 390}},
    "relabelled": {"relabel": {}, "student": {}},
    "relabelled, a share": {"relabel": {"share": 0.4}},
    "universal": {"labeling": None, "teachers": None, "student": UNIVERSAL},
}
BESIDE = {"labels beside a chosen student": {"student": {**CHOSEN, "epsilon": 0.1}}}
"""A plan of two sessions."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


def planned(folder: Path, kind: str, epsilon: float, lifetime: float = 1.0, delta: float = 4e-5) -> world.Plan:
    tables = {**tables_of_plan(folder), **(PLANS | BESIDE)[kind]}
    privacy = {"epsilon": epsilon, "lifetime": {"epsilon": lifetime, "delta": delta}}
    kept = {name: section for name, section in tables.items() if section is not None}
    return world.parse_plan({**kept, "privacy": {**tables["privacy"], **privacy}})


def runs(plan: world.Plan, folder: Path) -> world.Ask[Any]:
    """What the door would open a session for."""
    encoding, vault = world.learn_encoding(plan), world.Vault(folder / "vault")
    batches = world.stage_public(plan.path("public"), encoding, vault, "public", 128)
    domain = world.Account.of(plan, folder / "nowhere").domain
    if plan.tallied:
        public = world.PublicFacts.of(plan)
        return world.TalliesAsk(world.planned_tallies(plan, public.codes(plan), public.rows), "", ())
    if "votes" in plan.ways:
        return world.VotesAsk.of(plan, world.PublicRows(encoding=encoding, batches=batches), domain.filter.order, vault)
    return world.HypothesisAsk.of(plan, encoding, batches, vault)


def opening(plan: world.Plan, ask: world.Ask[Any], name: str = "first") -> world.Opening:
    stores = world.Stores.of(Path(plan.path("public")).parent)
    return replace(world.opening_of(stores, plan, ask, world.learn_encoding(plan)), id=name, commitment=name)


def named(home: Path, plan: world.Plan) -> world.Ledger:
    home.mkdir()
    ledger = world.Ledger.of(home)
    cap = plan.privacy.lifetime
    ledger.name_domain("people", unit="one row", neighbours="added", epsilon=cap.epsilon, delta=cap.delta)
    return ledger


@pytest.mark.parametrize("kind", PLANS)
def test_the_largest_epsilon_is_the_last_that_the_ledger_would_open(folder: Path, tmp_path: Path, kind: str) -> None:
    delta = 1.1e-5 if kind == "stable" else 4e-5  # by the larger, it fits
    plan = planned(folder, kind, epsilon=1.0, delta=delta)
    public, account = world.PublicFacts.of(plan), world.Account.of(plan, tmp_path)
    with pytest.raises(world.BudgetRefused, match=r"a session of up to ε = 0\.\d+ still fits") as refused:
        world.check_cover(plan, public, account)
    largest = world.largest_epsilon(plan, public, account)
    assert largest is not None
    assert f"ε = {largest:g} still fits;" in str(refused.value)
    ledger = world.Ledger.of(tmp_path)
    fits, above = (planned(folder, kind, each, delta=delta) for each in near(largest))
    ledger.check_opening(opening(fits, runs(fits, tmp_path)), account.domain)
    with pytest.raises(world.BudgetRefused, match="does not cover it"):
        ledger.check_opening(opening(above, runs(above, tmp_path)), account.domain)


def test_if_delta_alone_is_too_much_it_says_that_no_epsilon_fits(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "relabelled", epsilon=1.0, lifetime=4.0, delta=1.1e-5)
    with pytest.raises(world.BudgetRefused, match=facts("no smaller ε", "half of its δ")):
        world.check_cover(plan, world.PublicFacts.of(plan), world.Account.of(plan, tmp_path))


def near(epsilon: float) -> tuple[float, float]:
    """That one and the next above it."""
    at = world.EPSILONS.index(epsilon)
    return world.EPSILONS[at], world.EPSILONS[at + 1]


def test_sessions_that_fit_after_it_are_counted_as_the_ledger_opens_them(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "tallies", epsilon=1.0, lifetime=2.5)
    covered = world.check_cover(plan, world.PublicFacts.of(plan), world.Account.of(plan, tmp_path / "home"))
    assert covered is not None
    ledger, mechanism, opened = named(tmp_path / "home", plan), runs(plan, tmp_path), 0
    with suppress(world.BudgetRefused):
        while True:
            ledger.open_session(opening(plan, mechanism, f"number-{opened}"), further=True)
            opened += 1
    assert (opened, covered.more >= 1) == (1 + covered.more, True)
    assert says(covered.reason, f"room for {covered.more} more")


def test_the_real_domain_is_asked_and_a_session_that_is_there_is_not_paid_again(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "tallies", epsilon=1.0, lifetime=1.2)
    ledger = named(tmp_path / "home", plan)
    ledger.open_session(opening(plan, runs(plan, tmp_path)))
    records = ledger.records()
    there = world.Account.of(plan, tmp_path / "home")
    covered = world.check_cover(plan, world.PublicFacts.of(plan), there)
    assert covered is not None
    assert (covered.own, covered.share) == (True, covered.used)
    newer = plan.model_copy(update={"data": plan.data.model_copy(update={"version": "2"})})
    with pytest.raises(world.BudgetRefused, match=r"\d+% used, does not cover .* `concord domain` raises"):
        world.check_cover(newer, world.PublicFacts.of(newer), there)
    assert ledger.records() == records


def test_of_a_divided_domain_the_part_that_is_learned_from_counts(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "stable", epsilon=1.0, lifetime=4.0)
    ledger, halves = named(tmp_path / "home", plan), world.Division(share=0.5, naming="person", commitment="c")
    ledger.divide("people", halves)
    asked = opening(plan, runs(plan, tmp_path))
    ledger.open_session(
        replace(asked, whole=world.Cost.gaussian(0.01), per_refusal=None, division="c", part=world.TEST)
    )
    assert world.Account.of(plan, tmp_path / "home").charged == ledger.totals("people")[world.LEARNING]
    assert ledger.total("people").renyi > world.Account.of(plan, tmp_path / "home").charged.renyi == 0


@pytest.mark.parametrize("kind", [*PLANS, *BESIDE])
def test_what_is_planned_is_what_the_door_would_open_a_session_for(folder: Path, kind: str) -> None:
    """Its cost, and of votes its settings: of a relabelled plan and beside a chosen student those of what is left."""
    plan = planned(folder, kind, 1.0)
    public, ask = world.PublicFacts.of(plan), runs(plan, folder)
    costs = world.costs_of(plan, public, world.Account.of(plan, folder / "nowhere"))
    assert costs is not None
    assert replace(ask.mechanism.cost, claims=()) in [replace(each, claims=()) for each in costs]
    if isinstance(ask, world.VotesAsk):
        votes, mechanism = public.votes(plan), ask.mechanism
        inner: Any = mechanism.inner if isinstance(mechanism, world.Relabelled) else mechanism
        assert votes.mechanism == inner
        assert (votes.epsilon, votes.delta) == (inner.epsilon, inner.delta)
        assert (votes.epsilon == 1.0) == (kind in ("stable", "noisy_votes", "with room"))
        assert ask.mechanism.queries == {"with room": 390, "noisy_votes": 300}.get(kind)
        if isinstance(mechanism, world.Relabelled):
            assert votes.subset == mechanism.relabelling.share


LATER: list[tuple[dict[str, int | None], int, int, tuple[str, ...]]] = [
    ({"queries": 390, "cutoff": None}, 300, 0, ("90", "`concord extend`")),
    ({"queries": 300, "cutoff": None}, 300, 0, ("none", "larger `queries`")),
    ({"queries": None, "cutoff": 12}, 300, 5, ("any number",)),
    ({"queries": None, "cutoff": 12}, 300, 12, ("none", "a larger")),
    ({"queries": 390, "cutoff": 12}, 300, 5, ("90",)),
]
"""What ends a session, its rows asked and refused, and what is said of later rows."""


def test_it_says_how_many_later_rows_a_session_has_room_for() -> None:
    for ends, asked, refused, words in LATER:
        said = world.later_rows_in_words(queries=ends["queries"], cutoff=ends["cutoff"], asked=asked, refused=refused)
        assert says(said, *words)
        assert said.endswith("until 7 more rows are refused") == (refused == 5)
        over = world.later_rows_in_words(
            queries=ends["queries"], cutoff=ends["cutoff"], asked=asked, refused=refused, ended=True
        )
        assert over.startswith("none")


# The commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_init_and_plan_refuse_what_run_would_and_name_what_fits(folder: Path, tmp_path: Path) -> None:
    tables = ("--private", str(folder / "private.csv"), "--public", str(folder / "public.parquet"), "--unit", "row")
    stated = ("--label", "outcome", "--classes", "no,yes", "--domain", "people", "--rows", "6000", "--delta", "1e-5")
    path, home = str(tmp_path / "plan.toml"), ("--home", str(tmp_path / "home"))
    lifetime = ("--lifetime-epsilon", "1", "--lifetime-delta", "1e-5")
    init = ("init", *tables, *stated, *lifetime, "--out", path, *home)
    status, printed, error = concord(*init)
    assert (status, printed, [*tmp_path.iterdir()]) == (3, "", [])
    assert says(error, "'people'", "ε = 1", "δ = 1e-05", "still fits")
    largest = error.split("up to ε = ")[1].split(" ")[0]
    assert concord(*init, "--epsilon", largest)[0] == 0
    status, printed, _ = concord("plan", path, *home, "--json")
    assert (status, json.loads(printed)["lifetime"]["more"]) == (0, 0)
    assert "no further such session fits" in concord("plan", path, *home)[1]
    plan = Path(path)
    plan.write_text(plan.read_text().replace(f"epsilon = {largest}", "epsilon = 1.0"))
    status, printed, refused = concord("plan", path, *home)
    assert (status, printed, says(refused, "'people'", "ε = 1", f"{largest}", "still fits")) == (3, "", True)
    assert not (tmp_path / "home").exists()

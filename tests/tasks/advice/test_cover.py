"""What planning says of a domain's budget is what the ledger will say, at the largest ε that fits and at the next."""

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import concord
from tests.support.people import changed, tables_of_plan, write_plan, write_tables
from tests.support.sentences import facts, says
from tests.world import (
    EPSILONS,
    LEARNING,
    TEST,
    Account,
    Ask,
    BudgetRefused,
    Cost,
    Division,
    HypothesisAsk,
    Ledger,
    Opening,
    Plan,
    PublicFacts,
    PublicRows,
    TalliesAsk,
    Vault,
    VotesAsk,
    WrongInput,
    check_cover,
    costs_of,
    largest_epsilon,
    later_rows_in_words,
    learn_encoding,
    opening_of,
    parse_plan,
    planned_tallies,
    stage_public,
)

TALLIES = {"mechanism": "tallies", "rows": 6000}
UNIVERSAL = {"learner": "universal", "hypotheses": "stumps", "features": ["size"]}
PLANS: dict[str, dict[str, Any]] = {
    "tallies": {"labeling": TALLIES, "teachers": None},
    "stable": {},
    "noisy_votes": {"labeling": {"mechanism": "noisy_votes"}},
    "with room": {"labeling": {"mechanism": "noisy_votes", "queries": 390}},
    "relabelled": {"relabel": {}, "student": {}},
    "universal": {"labeling": None, "teachers": None, "student": UNIVERSAL},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


def planned(folder: Path, kind: str, epsilon: float, lifetime: float = 1.0, delta: float = 4e-5) -> Plan:
    tables = {**tables_of_plan(folder), **PLANS[kind]}
    privacy = {"epsilon": epsilon, "lifetime": {"epsilon": lifetime, "delta": delta}}
    kept = {name: section for name, section in tables.items() if section is not None}
    return parse_plan({**kept, "privacy": {**tables["privacy"], **privacy}})


def runs(plan: Plan, folder: Path) -> Ask[Any]:
    """What the door would open a session for."""
    encoding, vault = learn_encoding(plan), Vault(folder / "vault")
    batches = stage_public(plan.path("public"), encoding, vault, "public", 128)
    domain = Account.of(plan, folder / "nowhere").domain
    if plan.tallied:
        public = PublicFacts.of(plan)
        return TalliesAsk(planned_tallies(plan, public.codes(plan), public.rows), "", ())
    if "votes" in plan.ways:
        return VotesAsk.of(plan, PublicRows(encoding=encoding, batches=batches), domain.filter.order, vault)
    return HypothesisAsk.of(plan, encoding, batches, vault)


def opening(plan: Plan, ask: Ask[Any], name: str = "first") -> Opening:
    encoding, vault = learn_encoding(plan), Vault(Path(plan.path("public")).parent / "vault")
    return replace(opening_of(plan, ask, encoding, vault), id=name, commitment=name)


def named(home: Path, plan: Plan) -> Ledger:
    home.mkdir()
    ledger = Ledger.of(home)
    cap = plan.privacy.lifetime
    ledger.name_domain("people", unit="one row", neighbours="added", epsilon=cap.epsilon, delta=cap.delta)
    return ledger


@pytest.mark.parametrize("kind", PLANS)
def test_the_largest_epsilon_is_the_last_that_the_ledger_would_open(folder: Path, tmp_path: Path, kind: str) -> None:
    delta = 1.1e-5 if kind == "stable" else 4e-5  # by the larger, it fits
    plan = planned(folder, kind, epsilon=1.0, delta=delta)
    public, account = PublicFacts.of(plan), Account.of(plan, tmp_path)
    with pytest.raises(BudgetRefused, match=r"a session of up to ε = 0\.\d+ still fits") as refused:
        check_cover(plan, public, account)
    largest = largest_epsilon(plan, public, account)
    assert largest is not None
    assert f"ε = {largest:g} still fits;" in str(refused.value)
    ledger, (fits, above) = Ledger.of(tmp_path), (planned(folder, kind, each, delta=delta) for each in near(largest))
    ledger.check_opening(opening(fits, runs(fits, tmp_path)), account.domain)
    with pytest.raises(BudgetRefused, match="does not cover it"):
        ledger.check_opening(opening(above, runs(above, tmp_path)), account.domain)


def test_if_delta_alone_is_too_much_it_says_that_no_epsilon_fits(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "relabelled", epsilon=1.0, lifetime=4.0, delta=1.1e-5)
    with pytest.raises(BudgetRefused, match=facts("no smaller ε", "half of its δ")):
        check_cover(plan, PublicFacts.of(plan), Account.of(plan, tmp_path))


def near(epsilon: float) -> tuple[float, float]:
    """That one and the next above it."""
    at = EPSILONS.index(epsilon)
    return EPSILONS[at], EPSILONS[at + 1]


def test_a_home_that_is_not_there_is_not_begun(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "tallies", epsilon=1.0, lifetime=4.0)
    covered = check_cover(plan, PublicFacts.of(plan), Account.of(plan, tmp_path / "home"))
    assert covered is not None
    assert (covered.used, covered.own) == (0.0, False)
    assert [*tmp_path.iterdir()] == []


def test_sessions_that_fit_after_it_are_counted_as_the_ledger_opens_them(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "tallies", epsilon=1.0, lifetime=2.5)
    covered = check_cover(plan, PublicFacts.of(plan), Account.of(plan, tmp_path / "home"))
    assert covered is not None
    ledger, mechanism, opened = named(tmp_path / "home", plan), runs(plan, tmp_path), 0
    with suppress(BudgetRefused):
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
    there = Account.of(plan, tmp_path / "home")
    covered = check_cover(plan, PublicFacts.of(plan), there)
    assert covered is not None
    assert (covered.own, covered.share) == (True, covered.used)
    newer = plan.model_copy(update={"data": plan.data.model_copy(update={"version": "2"})})
    with pytest.raises(BudgetRefused, match=r"\d+% used, does not cover .* `concord domain` raises"):
        check_cover(newer, PublicFacts.of(newer), there)
    assert ledger.records() == records


def test_another_cap_than_is_on_the_record_is_refused_as_a_run_would(folder: Path, tmp_path: Path) -> None:
    named(tmp_path / "home", planned(folder, "tallies", epsilon=1.0, lifetime=4.0))
    with pytest.raises(WrongInput, match=facts("lifetime.epsilon", "'people'", "4.0")):
        Account.of(planned(folder, "tallies", epsilon=1.0, lifetime=8.0), tmp_path / "home")


def test_of_a_divided_domain_the_part_that_is_learned_from_counts(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "stable", epsilon=1.0, lifetime=4.0)
    ledger, halves = named(tmp_path / "home", plan), Division(share=0.5, naming="person", commitment="c")
    ledger.divide("people", halves)
    asked = opening(plan, runs(plan, tmp_path))
    tested = {**vars(asked), "whole": Cost.gaussian(0.01), "per_refusal": None, "division": "c", "part": TEST}
    ledger.open_session(Opening(**tested))
    assert Account.of(plan, tmp_path / "home").charged == ledger.totals("people")[LEARNING]
    assert ledger.total("people").renyi > Account.of(plan, tmp_path / "home").charged.renyi == 0


def test_room_is_paid_for_as_the_door_would(folder: Path) -> None:
    plan, without = planned(folder, "with room", 0.5), planned(folder, "noisy_votes", 0.5)
    assert [runs(each, folder).queries for each in (plan, without)] == [390, 300]
    account = Account.of(plan, folder / "nowhere")
    assert costs_of(plan, PublicFacts.of(plan), account) == [runs(plan, folder).cost]
    assert PublicFacts.of(plan).votes(plan).mechanism.settings() == runs(plan, folder).settings()


@pytest.mark.parametrize(
    ("ends", "asked", "refused", "words"),
    [
        ({"queries": 390, "cutoff": None}, 300, 0, ("90", "`concord extend`")),
        (
            {"queries": 300, "cutoff": None},
            300,
            0,
            ("none", "larger `queries`"),
        ),
        ({"queries": None, "cutoff": 12}, 300, 5, ("any number",)),
        (
            {"queries": None, "cutoff": 12},
            300,
            12,
            ("none", "a larger"),
        ),
        ({"queries": 390, "cutoff": 12}, 300, 5, ("90",)),
    ],
)
def test_it_says_how_many_later_rows_a_session_has_room_for(
    ends: dict[str, int | None], asked: int, refused: int, words: tuple[str, ...]
) -> None:
    said = partial(later_rows_in_words, queries=ends["queries"], cutoff=ends["cutoff"], asked=asked, refused=refused)
    assert says(said(), *words)
    assert said().endswith("until 7 more rows are refused") == (refused == 5)
    assert said(ended=True).startswith("none")


def test_tallies_have_no_rows_that_are_paid_for(folder: Path) -> None:
    plan = planned(folder, "tallies", 0.5)
    with pytest.raises(WrongInput, match=facts("queries", "'tallies'")):
        changed(plan.model_dump(exclude_unset=True), labeling__queries=5)


@pytest.mark.parametrize(
    ("labeling", "rule"),
    [
        ({"mechanism": "stable", "cutoff": 5, "queries": 5}, "queries does not apply to mechanism = 'stable'"),
        ({"mechanism": "noisy_votes", "room": 5}, "room is not a key of the plan"),
    ],
)
def test_room_is_for_what_ends_by_rows_and_is_said_once(folder: Path, labeling: dict[str, Any], rule: str) -> None:
    with pytest.raises(WrongInput, match=rule):
        parse_plan({**tables_of_plan(folder), "labeling": labeling})


def test_advice_keeps_the_room_of_a_plan_only_if_its_mechanism_ends_by_rows(folder: Path) -> None:
    plan = parse_plan({**tables_of_plan(folder), "labeling": {"mechanism": "auto", "queries": 390}})
    assert plan.naming("noisy_votes").labeling.queries == 390
    assert plan.naming("stable", 5).labeling.queries is None


# The commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_plan_refuses_what_run_would_and_names_what_fits(tmp_path: Path) -> None:
    changes = {"teachers": None, "labeling": None, "student": None, "privacy__epsilon": 1.0}
    tallied = {"labeling__mechanism": "tallies", "labeling__rows": 6000}
    write_tables(tmp_path)
    lifetime = {"privacy__lifetime": {"epsilon": 1.0, "delta": 4e-5}}
    path = str(write_plan(tmp_path, **changes, **tallied, **lifetime))
    home = ("--home", str(tmp_path / "home"))
    status, printed, error = concord("plan", path, *home)
    assert (status, printed) == (3, "")
    assert says(error, "'people'", "ε = 1", "δ = 4e-05", "δ = 1e-05", "still fits")
    largest = error.split("up to ε = ")[1].split(" ")[0]
    path = str(write_plan(tmp_path, **{**changes, "privacy__epsilon": float(largest)}, **tallied, **lifetime))
    status, printed, _ = concord("plan", path, *home, "--json")
    found = json.loads(printed)
    assert (status, found["lifetime"]["more"]) == (0, 0)
    assert "no further such session fits" in concord("plan", path, *home)[1]
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_init_writes_no_plan_that_run_refuses(folder: Path, tmp_path: Path) -> None:
    tables = ("--private", str(folder / "private.csv"), "--public", str(folder / "public.parquet"), "--unit", "row")
    stated = ("--label", "outcome", "--classes", "no,yes", "--domain", "people", "--rows", "6000", "--delta", "1e-5")
    places = ("--out", str(tmp_path / "plan.toml"), "--home", str(tmp_path / "home"), "--lifetime-delta", "1e-5")
    status, printed, error = concord("init", *tables, *stated, *places, "--lifetime-epsilon", "1")
    assert (status, printed) == (3, "")
    assert "a session of up to ε = 0.8" in error
    assert [*tmp_path.iterdir()] == []
    largest = error.split("up to ε = ")[1].split(" ")[0]
    assert concord("init", *tables, *stated, *places, "--lifetime-epsilon", "1", "--epsilon", largest)[0] == 0
    assert concord("plan", str(tmp_path / "plan.toml"), *places[2:4])[0] == 0

"""The filter `gaussian` recomputed: as the domain charges it, for every mechanism; and ledgers that break its rule."""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.domains import GaussianFilter
from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.ledger.excerpt import Excerpt
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.privacy import Charge, Cost
from concord.artifacts.sessions import Opening, Session
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.mechanisms import stream
from concord.tasks.mechanisms.confident import ConfidentGNMax
from concord.tasks.mechanisms.error_estimate import ErrorEstimate
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.laplace_votes import LaplaceVotes
from concord.tasks.mechanisms.noisy_votes import NoisyVotes
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.queries import LaplaceRelease, OptimalRelease
from concord.tasks.mechanisms.relabelled import Relabelling, calibrate_relabelled
from concord.tasks.mechanisms.sparse_vector import SparseVector
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Round, Tallies
from concord.tasks.verify import recompute, recompute_filter
from concord.tasks.verify.reckoning import reckon
from tests.artifacts.ledger.openings import batch, commit, outcome
from tests.support.chained import Said, rewrite
from tests.support.published import opening

RULE = GaussianFilter.freeze(40.0, 1e-2)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
ROUNDS = [Round(fields=14, cells=450, least=0, count=100, share=0.3), Round(fields=7, cells=450, least=8, share=0.7)]
SUBSET = Relabelling(hypotheses="stumps", features=("age",), grid="0" * 64, share=0.25)
MECHANISMS: dict[str, Callable[[], Any]] = {
    "stable": lambda: StableVoting.calibrate(**BUDGET, cutoff=4),
    "noisy_votes": lambda: NoisyVotes.calibrate(**BUDGET, queries=150, classes=3),
    "noise too narrow": lambda: NoisyVotes.calibrate(epsilon=12.0, delta=1e-5, queries=3, classes=2),
    "confident": lambda: ConfidentGNMax.calibrate(**BUDGET, queries=150, classes=3, teachers=50),
    "laplace_votes": lambda: LaplaceVotes.calibrate(**BUDGET, queries=20, classes=3),
    "sparse_vector": lambda: SparseVector.calibrate(**BUDGET, cutoff=3),
    "tallies": lambda: Tallies.calibrate(**BUDGET, classes=2, rounds=ROUNDS),
    "tallies of labels": lambda: Tallies.calibrate(
        **BUDGET, classes=3, rounds=[Round(fields=5, cells=90, least=0, share=1.0)], secret="labels", many=True
    ),
    "stream": lambda: Stream.of_season(**BUDGET, classes=2, rounds=ROUNDS, season=52),
    "private_test": lambda: PrivateTest.calibrate(**BUDGET, classes=2, secret="labels"),
    "universal": lambda: Universal(epsilon=0.4, secret="rows"),
    "error_estimate": lambda: ErrorEstimate.calibrate(epsilon=0.3, shards=20),
    "optimal_release": lambda: OptimalRelease.calibrate(epsilon=0.3, delta=1e-4),
    "laplace_release": lambda: LaplaceRelease.calibrate(epsilon=0.3, delta=1e-4),
    "relabelled": lambda: calibrate_relabelled(
        SUBSET, epsilon=1.0, delta=1e-6, make=lambda e, d: StableVoting.calibrate(epsilon=e, delta=d, cutoff=4)
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_a_session_is_charged_is_what_its_settings_cost_by_another_path(name: str) -> None:
    mechanism = MECHANISMS[name]()
    charged = RULE.charge(mechanism.cost)
    square, delta = recompute_filter.gaussian_charge(mechanism.settings())
    assert square <= charged.mu_squared <= Decimal(square) * Decimal(1 + 1e-8)
    assert Decimal(delta) * Decimal(1 - 1e-9) <= charged.delta <= Decimal(delta) * Decimal(1 + 1e-6) + Decimal("1e-35")


@pytest.mark.parametrize(("epsilon", "delta"), [(4.0, 4e-5), (0.1, 1e-9), (30.0, 1e-3)])
def test_what_a_cap_covers_is_the_same_by_another_path(epsilon: float, delta: float) -> None:
    rule = GaussianFilter.freeze(epsilon, delta)
    found = recompute_filter.largest_mu_squared(epsilon, delta * 0.75)
    assert rule.budget <= found <= float(rule.budget) * (1 + 1e-8)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(NotVerified, match="guarantee of 'a new one' cannot be recomputed"):
        recompute_filter.gaussian_charge({"name": "a new one", "epsilon": 1.0})


TESTED, LOUDER = MECHANISMS["private_test"](), NoisyVotes.calibrate(epsilon=3.0, delta=1e-6, queries=10, classes=2)


def history(home: Path) -> Ledger:
    """Sessions of a Gaussian domain: stable voting that stops early, sums, and a recap."""
    ledger = Ledger(f"sqlite:///{home / 'ledger.db'}")
    terms = {"unit": "one row", "neighbours": "add or remove one unit"}
    ledger.name_domain("people", "gaussian", **terms, epsilon=8.0, delta=1e-3)
    stable = StableVoting.calibrate(epsilon=1.0, delta=1e-6, cutoff=4)
    ledger.open_session(opening(stable, "s-1"))
    ledger.begin_batch("s-1", batch())
    ledger.settle("s-1", give_back=True)
    for number in range(2, 5):
        ledger.open_session(opening(LOUDER, f"s-{number}"), further=True)
    ledger.recap("people", 9.0, 2e-3, "the board said so")
    ledger.open_session(opening(LOUDER, "s-5"), further=True)
    ledger.open_session(stopping("s-6"), further=True)
    ledger.begin_batch("s-6", batch(rows=1))
    commit(ledger, "s-6", outcome(asked=1))
    ledger.begin_batch("s-6", batch(1, first=1, rows=1))
    ledger.settle("s-6", give_back=True)  # the second may have been drawn; the third returns
    return ledger


def stopping(name: str) -> Opening:
    """A session of three rounds."""
    asked = TalliesAsk(
        Tallies.calibrate(**BUDGET, classes=2, rounds=[replace(ROUNDS[0], share=1 / 3)] * 3), "codes", ()
    )
    claimed = replace(opening(LOUDER, name), epsilon=1.0, delta=1e-5, queries=3, mechanism=asked.settings())
    return replace(claimed, whole=asked.cost, rounds=asked.rounds)


def season(name: str) -> Opening:
    """A season of three releases."""
    asked = TalliesAsk(Stream.of_season(**BUDGET, classes=2, rounds=ROUNDS, season=3), "codes", ())
    claimed = replace(opening(LOUDER, name), epsilon=1.0, delta=1e-5, queries=3, mechanism=asked.settings())
    return replace(claimed, whole=asked.cost, rounds=asked.rounds)


def test_a_season_that_ends_early_is_charged_the_releases_that_were_begun(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    terms = {"unit": "one row", "neighbours": "add or remove one unit"}
    ledger.name_domain("people", "gaussian", **terms, epsilon=8.0, delta=1e-3)
    ledger.open_session(season("s-1"))
    ledger.begin_batch("s-1", batch(rows=1))
    commit(ledger, "s-1", outcome(asked=1))
    closed = ledger.settle("s-1", give_back=True)
    assert closed.settled == closed.rounds[0]
    assert float(closed.reserved.mu_squared / closed.rounds[0].mu_squared) == pytest.approx(1 + 1 / 4 + 9 / 64)
    assert list(reckon(ledger.records())) == []


def test_a_release_charged_by_another_matrix_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = {"unit": "one row", "neighbours": "add or remove one unit"}
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.name_domain("people", "gaussian", **terms, epsilon=8.0, delta=1e-3)
    with monkeypatch.context() as patch:
        patch.setattr(stream, "coefficients", lambda season, _: (256, *[0] * (season - 1)))
        ledger.open_session(season("s-1"))
    assert list(reckon(ledger.records())) != []


def test_an_honest_ledger_passes(tmp_path: Path) -> None:
    ledger = history(tmp_path)
    assert list(reckon(ledger.records())) == []
    closed = ledger.session("s-6")
    assert closed.settled == closed.rounds[0] + closed.rounds[1]
    assert closed.settled.mu_squared < closed.reserved.mu_squared * Decimal("0.67")


def test_what_returned_may_be_reserved_again(tmp_path: Path) -> None:
    """The cap covers one session at a time: the second reckoning gives back what the first does."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    terms = {"unit": "one row", "neighbours": "add or remove one unit"}
    ledger.name_domain("people", "gaussian", **terms, epsilon=1.2, delta=2e-5)
    for name in ("s-1", "s-2"):
        ledger.open_session(stopping(name), further=True)
        with pytest.raises(BudgetRefused, match="does not cover"):
            ledger.open_session(stopping("s-3"), further=True)
        ledger.settle(name, give_back=True)
    assert list(reckon(ledger.records())) == []


def test_an_excerpt_carries_rounds_that_returned(tmp_path: Path) -> None:
    """It tells the batches of a session as one: how many rounds were begun is told by their rows."""
    ledger = history(tmp_path)
    excerpt = Excerpt.of(ledger.records(), "people", {}, lambda digest: digest)
    assert list(reckon(excerpt.records)) == []
    assert excerpt.reading.total("people") == ledger.total("people")


charge, admits, owed, admitted = GaussianFilter.charge, GaussianFilter.admits, Session.owed, Session.charged


def thinner(each: Charge) -> Charge:
    return replace(each, mu_squared=each.mu_squared * Decimal("0.99"))


def cheap(rule: GaussianFilter, cost: Cost) -> Charge:
    return replace(charge(rule, cost), mu_squared=charge(rule, cost).mu_squared * Decimal("0.99"))


def rooted(rule: GaussianFilter, cost: Cost) -> Charge:
    return replace(charge(rule, cost), mu_squared=charge(rule, cost).mu_squared.sqrt())


def as_continuous(rule: GaussianFilter, cost: Cost) -> Charge:
    """μ² of noise as wide as the discrete one: no allowance for the lattice."""
    rho = cost.renyi[0] / 1.25
    exact = charge(rule, cost)
    return replace(exact, mu_squared=min(exact.mu_squared, Decimal(2 * rho)))


FAULTS: dict[str, tuple[type, str, object]] = {
    "charges too little": (GaussianFilter, "charge", cheap),
    "adds μ": (GaussianFilter, "charge", rooted),
    "takes the lattice for a line": (GaussianFilter, "charge", as_continuous),
    "forgets δ": (GaussianFilter, "charge", lambda rule, cost: replace(charge(rule, cost), delta=Decimal(0))),
    "returns everything": (Session, "owed", lambda *_, **__: Charge()),
    "returns a round that was begun": (Session, "owed", lambda s, **how: owed(replace(s, next_row=s.asked), **how)),
    "charges a round too little": (
        Session,
        "charged",
        lambda asked, by: replace(admitted(asked, by), rounds=tuple(map(thinner, admitted(asked, by).rounds))),
    ),
    "charges rounds that are none": (
        Session,
        "charged",
        lambda asked, by: replace(admitted(asked, by), rounds=(Charge(), by.charge(asked.whole))),
    ),
    "halves δ": (
        GaussianFilter,
        "freeze",
        classmethod(lambda cls, e, d: cls(epsilon=e, delta=d, delta_additive=d / 2)),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_ledger_written_with_a_fault_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(*FAULTS[fault])
        ledger = history(tmp_path)
    assert list(reckon(ledger.records())) != []


def test_a_stable_session_settled_by_refusals_is_found(tmp_path: Path) -> None:
    """Chained well, it says what one refusal is charged, and settles at that."""
    history(tmp_path)

    def settle(lines: list[Said]) -> None:
        opened, settled = lines[1].body, next(line.body for line in lines if line.kind == "settle")
        share = {**opened["reserved"], "mu_squared": str(Decimal(opened["reserved"]["mu_squared"]) / 4)}
        opened["per_refusal"] = share
        settled["charge"] = share

    rewrite(tmp_path, settle)
    found = list(reckon(Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").records()))
    assert any("what is refused may not be charged one by one" in wrong for wrong in found)


def test_sessions_beyond_the_cap_by_a_hair_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GaussianFilter, "admits", lambda *_: True)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    each = charge(RULE, LOUDER.cost).mu_squared
    epsilon = 6.0
    while GaussianFilter.freeze(epsilon, 1e-4).budget >= 2 * each:
        epsilon *= 0.999
    terms = {"unit": "one row", "neighbours": "add or remove one unit"}
    ledger.name_domain("people", "gaussian", **terms, epsilon=epsilon, delta=1e-4)
    for number in range(2):
        ledger.open_session(opening(LOUDER, f"s-{number}"), further=True)
    assert any("is charged" in wrong and "covers" in wrong for wrong in reckon(ledger.records()))
    assert math.isclose(GaussianFilter.freeze(epsilon, 1e-4).budget, 2 * each, rel_tol=0.01)


@pytest.mark.parametrize("name", ["stable", "noise too narrow", "relabelled", "optimal_release", "laplace_release"])
def test_settings_that_state_less_than_they_prove_are_found(name: str) -> None:
    """What is charged whole, by a stated ε, is charged too little if that is not the ε of what ran."""
    settings = MECHANISMS[name]().settings()
    whole = settings.get("relabel", settings)
    whole["epsilon"] = whole["epsilon"] * 0.9
    with pytest.raises(NotVerified, match="they state"):
        recompute_filter.gaussian_charge(settings)
    if name in ("relabelled", "optimal_release", "laplace_release"):
        with pytest.raises(NotVerified, match="they state"):
            recompute.charge(settings, 5.75)


def test_a_session_of_exactly_a_quarter_of_the_caps_delta_fits_and_no_second(tmp_path: Path) -> None:
    """As a plan of (½, 1e-5) under a cap of (4, 4e-5): what is charged is rounded up, and so is what covers it."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    terms = {"unit": "one row", "neighbours": "add or remove one unit"}
    ledger.name_domain("people", "gaussian", **terms, epsilon=4.0, delta=4e-5)
    stable = StableVoting.calibrate(epsilon=0.5, delta=1e-5, cutoff=2)
    ledger.open_session(opening(stable, "s-1"))
    assert list(reckon(ledger.records())) == []
    with pytest.raises(BudgetRefused, match=r"to \(ε [\d.]+, δ 5e-05\), .* and ε [\d.]+ at that δ remains"):
        ledger.open_session(opening(stable, "s-2"), further=True)

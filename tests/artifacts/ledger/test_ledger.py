"""The ledger: what it admits, what it refuses, what it charges, what sessions owe, and what it remarks."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import world
from tests.support.chained import database, forged, lines, read, rechained
from tests.support.openings import CAP, DOMAIN, batch, named, opening, outcome, refusals, session
from tests.support.sentences import facts


@pytest.fixture
def ledger(tmp_path: Path) -> world.Ledger:
    return named(world.Ledger.of(tmp_path))


def kinds(home: Path) -> list[str]:
    """What is written down, in order."""
    with database(home) as entries:
        return [kind for (kind,) in entries.execute("SELECT kind FROM entries ORDER BY seq")]


# Domains


def test_a_domain_is_frozen_at_its_first_mention(ledger: world.Ledger, tmp_path: Path) -> None:
    assert ledger.domain("census") == DOMAIN
    assert ledger.domains() == (DOMAIN,)
    assert ledger.domain("other") is None
    named(ledger)
    assert kinds(tmp_path) == ["domain"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("unit", "all rows with one person"), ("neighbours", "replace one"), ("epsilon", 4.5), ("delta", 5e-5)],
)
def test_a_later_mention_that_differs_names_the_field(ledger: world.Ledger, field: str, value: Any) -> None:
    """And what can be done: a unit named too late was refused without a next step."""
    terms: dict[str, Any] = {"unit": DOMAIN.unit, "neighbours": DOMAIN.neighbours, **CAP, field: value}
    step = ["another domain"] if field == "unit" else []
    with pytest.raises(world.WrongInput, match=facts(field, "'census'", "on the record", f"got {value!r}", *step)):
        ledger.name_domain("census", **terms)


def test_only_a_recap_changes_a_cap_and_from_then_on_holds_whatever_a_plan_says(
    ledger: world.Ledger, tmp_path: Path
) -> None:
    """Any plan was refused as wrong once `concord domain` had changed the cap: it gave the cap of before."""
    terms: dict[str, Any] = {"unit": DOMAIN.unit, "neighbours": DOMAIN.neighbours, "delta": CAP["delta"]}
    for name in (ledger.name_domain, ledger.plan_domain):
        with pytest.raises(world.WrongInput, match=facts("lifetime.epsilon", "got 7.0")):
            name("census", **terms, epsilon=7.0)
    assert ledger.recap("census", 8, 1e-4, "a second study, decided by the board").filter.epsilon == 8.0
    for other in (CAP["epsilon"], 7.0, 8.0):
        for name in (ledger.name_domain, ledger.plan_domain):
            assert name("census", **terms, epsilon=other) == DOMAIN.recapped(8, 1e-4)
    assert ledger.domain("census") == DOMAIN.recapped(8, 1e-4)
    assert kinds(tmp_path) == ["domain", "recap"]
    with pytest.raises(world.WrongInput, match="no domain 'other'"):
        ledger.recap("other", 8, 1e-4, "there is none")


def test_no_cap_below_what_is_charged(ledger: world.Ledger) -> None:
    ledger.open_session(opening(whole=world.Cost.gaussian(0.3)))
    with pytest.raises(world.BudgetRefused, match="is charged"):
        ledger.recap("census", 1, 4e-5, "too late")
    assert ledger.domain("census") == DOMAIN


# Opening


def test_a_refusal_says_what_it_costs_and_the_cap_and_no_difference_of_two_epsilons(ledger: world.Ledger) -> None:
    ledger.open_session(opening("a", whole=world.Cost.gaussian(0.1)))
    with pytest.raises(world.BudgetRefused) as refused:
        ledger.open_session(opening("b", whole=world.Cost.gaussian(9.0)), further=True)
    result, spent = str(refused.value), DOMAIN.filter.spent(ledger.total("census"))
    for figure in ("claims (ε 1,", f"from (ε {spent[0]:.4g},", "of a cap of (ε 4, δ 4e-05)"):
        assert figure in result
    assert f"ε {4 - spent[0]:.4g}" not in result  # which is no session's ε
    assert "\n" not in result


def test_a_cost_infinite_at_the_domains_order_is_refused(ledger: world.Ledger) -> None:
    with pytest.raises(world.BudgetRefused, match="infinite"):
        ledger.open_session(opening(whole=world.Cost(renyi=(float("inf"),) * len(refusals(1).renyi))))
    assert ledger.sessions("census") == ()


def test_an_id_and_a_key_serve_one_session(ledger: world.Ledger) -> None:
    ledger.open_session(opening("a"))
    with pytest.raises(world.WrongInput, match="has a session 'a' already"):
        ledger.open_session(opening("a"), further=True)
    with pytest.raises(world.NotVerified, match="never reused"):
        ledger.open_session(opening("b", commitment="key of a"), further=True)


def test_a_domain_can_be_asked_about_before_it_is_named(ledger: world.Ledger) -> None:
    terms = {"unit": "one row", "neighbours": "add or remove one unit"}
    planned = ledger.plan_domain("clinic", **terms, epsilon=1, delta=1e-6)
    ledger.check_opening(opening(domain="clinic", whole=world.Cost.gaussian(1e-4)), planned)
    with pytest.raises(world.BudgetRefused):
        ledger.check_opening(opening(domain="clinic", whole=world.Cost.gaussian(9.0)), planned)
    assert ledger.domain("clinic") is None
    assert ledger.name_domain("clinic", **terms, epsilon=1, delta=1e-6) == planned
    with pytest.raises(world.WrongInput, match=r"lifetime\.epsilon"):
        ledger.plan_domain("clinic", **terms, epsilon=2, delta=1e-6)


def test_domains_do_not_pay_for_one_another(ledger: world.Ledger) -> None:
    ledger.name_domain("clinic", unit="one row", neighbours="add or remove one unit", epsilon=1, delta=1e-6)
    opened = ledger.open_session(opening("a"))
    ledger.open_session(replace(opening("b"), domain="clinic"))
    assert ledger.total("census") == opened.reserved
    assert ledger.total("clinic") != opened.reserved  # another order


def test_a_batch_of_a_closed_session_was_refused_without_a_next_step(ledger: world.Ledger) -> None:
    ledger.open_session(opening())
    ledger.begin_batch("one", batch())
    ledger.settle("one", give_back=True)
    with pytest.raises(world.BudgetRefused, match=r"was closed before its batch 0 .* with --new-session"):
        ledger.begin_batch("one", batch())


def test_an_unknown_session_is_named(ledger: world.Ledger) -> None:
    for ask in (
        lambda: ledger.session("none"),
        lambda: ledger.batches("none"),
        lambda: ledger.begin_batch("none", batch()),
        lambda: ledger.commit_batch("none", outcome()),
        lambda: ledger.settle("none", give_back=True),
    ):
        with pytest.raises(world.WrongInput, match="no session 'none'"):
            ask()


def test_two_bounds_are_never_mixed() -> None:
    dear = world.Cost(renyi=refusals(1).renyi, delta=1e-6)  # ten refusals: less Rényi than reserved, more additive δ
    state = session(whole=refusals(20), per_refusal=dear).begin(batch()).commit(outcome(refused=9))
    assert state.owed(give_back=True) == state.reserved


@pytest.mark.parametrize("part", [Decimal("1e-18"), Decimal("-1e-18")])
def test_a_session_settles_at_nothing_between_or_beyond(part: Decimal) -> None:
    state = session().begin(batch()).commit(outcome(refused=3))
    for charge in (state.reserved, state.owed(give_back=True)):
        other = world.Charge(renyi=charge.renyi + part, delta=charge.delta)
        with pytest.raises(world.NotVerified):
            state.settle(world.Settlement(charge=other, status="closed"))
        assert state.settle(world.Settlement(charge=charge, status="closed")).charge == charge


@given(rho=st.floats(min_value=5e-324, max_value=1e-30), delta=st.floats(min_value=5e-324, max_value=1e-40))
def test_a_positive_spend_never_rounds_to_nothing(rho: float, delta: float) -> None:
    tiny = world.Cost(renyi=world.Cost.gaussian(rho).renyi, delta=delta)
    admitted = world.Session.charged(opening(whole=tiny, per_refusal=tiny), by=DOMAIN.filter)
    assert admitted.reserved.renyi > 0
    assert admitted.reserved.delta > 0
    state = replace(admitted, refused=1)
    assert state.owed(give_back=True).renyi > 0


@pytest.mark.parametrize("cap", [(0, 1e-5), (-1, 1e-5), (float("inf"), 1e-5), (float("nan"), 1e-5), (1, 0), (1, 1)])
def test_a_cap_must_be_one(cap: tuple[float, float]) -> None:
    with pytest.raises(world.WrongInput, match="the cap's"):
        world.Domain.frozen("d", unit="row", neighbours="add or remove one", epsilon=cap[0], delta=cap[1])
    with pytest.raises(world.WrongInput, match="the cap's"):
        DOMAIN.recapped(*cap)


# Remarks


@pytest.fixture
def busy(tmp_path: Path) -> world.Ledger:
    """Domains `census` and `survey`; in the first an open session and an ended one."""
    ledger = named(world.Ledger.of(tmp_path))
    ledger.name_domain("survey", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    ledger.open_session(opening("ended"))
    ledger.settle("ended", give_back=False)
    ledger.open_session(opening("open"), further=True)
    return ledger


def test_remarks_are_said_once_charge_nothing_and_are_read_back_in_order(busy: world.Ledger, tmp_path: Path) -> None:
    before = busy.total("census"), busy.sessions("census")
    busy.remark("census", "forgotten", "ended")
    busy.remark("census", "erased", "digest of a unit", "she asked for it")
    written = lines(tmp_path)
    busy.remark("census", "forgotten", "ended", "again")
    assert lines(tmp_path) == written
    remarks = busy.remarks("census")
    assert [(item.kind, item.about) for item in remarks] == [("forgotten", "ended"), ("erased", "digest of a unit")]
    assert world.Ledger.of(tmp_path).remarks("census") == remarks
    assert busy.remarks("survey") == busy.remarks("unheard of") == ()
    assert (busy.total("census"), busy.sessions("census")) == before


def test_a_file_belongs_to_one_domain(busy: world.Ledger, tmp_path: Path) -> None:
    busy.hold("census", ["file one", "file two", "file one"])
    busy.hold("census", ["file two"])
    assert [remark.about for remark in busy.remarks("census")] == ["file one", "file two"]
    before = lines(tmp_path)
    for name in ("survey", "not yet named"):
        with pytest.raises(world.WrongInput, match="belongs to domain 'census'"):
            busy.check_holding(name, ["file zero", "file two"])
    with pytest.raises(world.WrongInput, match="belongs to domain 'census'"):
        busy.hold("survey", ["file zero", "file two"])
    assert lines(tmp_path) == before


CANNOT_BE: list[tuple[str, world.RemarkKind, str, str]] = [
    ("nowhere", "erased", "digest of a unit", "no domain 'nowhere'"),
    ("census", "forgotten", "open", "must be an ended one"),
    ("census", "forgotten", "unheard of", "no session 'unheard of'"),
    ("survey", "forgotten", "ended", "must be an ended one of domain 'survey'"),
]


@pytest.mark.parametrize(("domain", "kind", "about", "rule"), CANNOT_BE)
def test_what_cannot_be_so_is_not_written_nor_read_where_somebody_wrote_it(
    busy: world.Ledger, tmp_path: Path, domain: str, kind: world.RemarkKind, about: str, rule: str
) -> None:
    before = lines(tmp_path)
    with pytest.raises(world.WrongInput, match=rule):
        busy.remark(domain, kind, about)
    assert lines(tmp_path) == before
    chain = [*before, forged(before, world.Remark(kind=kind, about=about), domain, session="")]
    with pytest.raises(world.NotVerified, match=f"entry {len(chain)} .*{rule}"):
        read(chain)


def test_a_kind_of_remark_of_a_later_version_is_refused(busy: world.Ledger, tmp_path: Path) -> None:
    busy.remark("census", "erased", "digest of a unit")
    *before, line = lines(tmp_path)
    later = rechained(line, body=line.body.replace("erased", "pardoned"))
    with pytest.raises(world.NotVerified, match=facts("'remark'", "this version")):
        read([*before, later])


def test_a_remark_is_on_a_domain_and_not_on_a_session(busy: world.Ledger, tmp_path: Path) -> None:
    chain, remark = lines(tmp_path), world.Remark(kind="erased", about="digest of a unit")
    with pytest.raises(world.NotVerified, match="contradicts"):
        read([*chain, forged(chain, remark, "census", session="open")])
    assert world.Entry(domain="census", event=remark) in world.LedgerState.remark(read(chain), "census", remark)
    assert busy.remarks("census") == ()

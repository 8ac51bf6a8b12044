"""A domain's filter on the record: named once, never another; versions that know one filter refuse the other."""

import json
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.domains import Domain, FilterKind, GaussianFilter, NewCap, freeze
from concord.artifacts.errors import BudgetRefused, NotVerified, WrongInput
from concord.artifacts.ledger import events
from concord.artifacts.ledger.events import Entry, LogRecord
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.ledger.witness import Witness
from concord.artifacts.privacy import Cost
from tests.artifacts.ledger.openings import CAP, DOMAIN, batch, opening
from tests.support.chained import Said, rewrite

TERMS: dict[str, Any] = {"unit": DOMAIN.unit, "neighbours": DOMAIN.neighbours, **CAP}
COST = Cost.approximate(0.3, 1e-7)


def gaussian(home: Path, witness: Path | None = None) -> Ledger:
    ledger = Ledger(f"sqlite:///{home / 'ledger.db'}", None if witness is None else Witness(witness))
    ledger.name_domain("census", "gaussian", **TERMS)
    return ledger


def test_a_domain_is_named_with_its_filter_and_reads_the_same_again(tmp_path: Path) -> None:
    gaussian(tmp_path).open_session(opening(whole=COST, per_refusal=COST))
    again = Ledger.of(tmp_path)
    again.verify()
    named, opened, *_ = again.records()
    rule = again.domains()[0].filter
    assert (named.kind, rule) == ("gaussian", GaussianFilter.freeze(**CAP))
    assert again.session("one").reserved == rule.charge(COST)
    assert again.session("one").per_refusal is None
    assert set(json.loads(opened.body)["reserved"]) == {"renyi", "mu_squared", "delta"}


def test_a_version_that_knows_one_filter_refuses_the_other_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaussian(tmp_path)
    monkeypatch.delitem(events.EVENT_KINDS, "gaussian")
    with pytest.raises(NotVerified, match=r"entry 1 \('gaussian'\).*this version does not know its kind: go on with"):
        Ledger.of(tmp_path).domains()


@pytest.mark.parametrize(("first", "second"), [("renyi", "gaussian"), ("gaussian", "renyi")])
def test_a_domain_keeps_its_filter(first: FilterKind, second: FilterKind, tmp_path: Path) -> None:
    ledger = Ledger.of(tmp_path)
    ledger.name_domain("census", first, **TERMS)
    for ask in (ledger.name_domain, ledger.plan_domain):
        with pytest.raises(WrongInput, match=f"lifetime.filter of domain 'census' is '{first}' .*got '{second}'.*link"):
            ask("census", second, **TERMS)
    assert ledger.recap("census", 5, 5e-5, "the board said so").filter.kind == first
    assert len(ledger.records()) == 2


def test_a_recap_to_another_filter_contradicts_the_entries_before() -> None:
    book = LedgerState()
    book.read(LogRecord.after(None, Entry(domain="census", event=DOMAIN), "now"))
    turned = NewCap(filter=freeze("gaussian", 4.0, 4e-5), reason="")
    with pytest.raises(NotVerified, match="it contradicts the entries before"):
        book.read(LogRecord.after(book.head, Entry(domain="census", event=turned), "now"))


@pytest.mark.parametrize(("kind", "other"), [("gaussian", "domain"), ("domain", "gaussian")])
def test_an_entry_of_one_kind_does_not_name_the_other_filter(kind: str, other: str, tmp_path: Path) -> None:
    ledger = Ledger.of(tmp_path)
    ledger.name_domain("census", "gaussian" if kind == "gaussian" else "renyi", **TERMS)

    def rename(lines: list[Said]) -> None:
        lines[0].kind = other

    rewrite(tmp_path, rename)
    with pytest.raises(NotVerified, match="its body is not what this version writes"):
        Ledger.of(tmp_path).domains()


def test_a_cap_below_what_is_charged_is_refused_and_a_session_beyond_it(tmp_path: Path) -> None:
    ledger = gaussian(tmp_path)
    ledger.open_session(opening(whole=COST, per_refusal=None))
    with pytest.raises(BudgetRefused, match="cannot be capped"):
        ledger.recap("census", 0.5, 5e-5, "less")
    with pytest.raises(BudgetRefused, match=r"the budget does not cover it.*but its cap is"):
        ledger.open_session(opening("two", whole=Cost.approximate(1.0), per_refusal=None), further=True)
    with pytest.raises(BudgetRefused, match="nothing is proved of it that a Gaussian filter could add up"):
        ledger.open_session(opening("two", per_refusal=None), further=True)


def test_nothing_comes_back_when_a_session_is_closed(tmp_path: Path) -> None:
    ledger = gaussian(tmp_path)
    before = ledger.open_session(opening(whole=COST, per_refusal=COST)).reserved
    ledger.begin_batch("one", batch())
    assert ledger.settle("one", give_back=True).charge == before == ledger.total("census")


def test_an_older_copy_is_charged_what_its_witness_saw(tmp_path: Path) -> None:
    home, witness = tmp_path / "home", tmp_path / "witness"
    home.mkdir()
    older = gaussian(home, witness)
    copy = (home / "ledger.db").read_bytes()
    seen = older.open_session(opening(whole=COST, per_refusal=None)).reserved
    (home / "ledger.db").write_bytes(copy)
    back = Ledger(f"sqlite:///{home / 'ledger.db'}", Witness(witness))
    back.restore("the disk died")
    assert back.total("census") == seen
    assert isinstance(back.domains()[0], Domain)
    assert back.domains()[0].filter.kind == "gaussian"

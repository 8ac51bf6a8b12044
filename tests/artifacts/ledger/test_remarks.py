"""Remarks: on the record once, in order, charging nothing; and refused where they cannot be so."""

from pathlib import Path

import pytest

from concord.artifacts.domains import NEIGHBOURS
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.guarantee import linked_caveat
from concord.artifacts.ledger.events import Entry, Remark, RemarkKind
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.state import LedgerState
from tests.artifacts.ledger.openings import CAP, DOMAIN, named, opening
from tests.artifacts.ledger.test_chain import forged, lines, read, rechained
from tests.support.sentences import facts, says


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Domains `census` and `survey`; in the first an open session and an ended one."""
    ledger = named(Ledger.of(tmp_path))
    ledger.name_domain("survey", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    ledger.open_session(opening("ended"))
    ledger.settle("ended", give_back=False)
    ledger.open_session(opening("open"), further=True)
    return ledger


def test_remarks_are_read_back_in_order_by_whoever_opens_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    ledger.remark("census", "forgotten", "ended")
    ledger.remark("census", "erased", "digest of a unit", "she asked for it")
    ledger.remark("census", "linked", "survey", "the survey drew from the census")
    remarks = ledger.remarks("census")
    assert [(item.kind, item.about) for item in remarks] == [
        ("forgotten", "ended"),
        ("erased", "digest of a unit"),
        ("linked", "survey"),
    ]
    assert Ledger.of(tmp_path).remarks("census") == remarks
    assert ledger.remarks("survey") == ledger.remarks("unheard of") == ()


def test_a_remark_charges_nothing(ledger: Ledger) -> None:
    before = ledger.total("census"), ledger.sessions("census")
    ledger.remark("census", "erased", "digest of a unit")
    assert (ledger.total("census"), ledger.sessions("census")) == before


def test_the_same_is_said_once(ledger: Ledger, tmp_path: Path) -> None:
    ledger.remark("census", "forgotten", "ended")
    written = lines(tmp_path)
    ledger.remark("census", "forgotten", "ended", "again")
    assert lines(tmp_path) == written


def test_a_file_belongs_to_one_domain_or_to_linked_ones(ledger: Ledger, tmp_path: Path) -> None:
    ledger.hold("census", ["file one", "file two", "file one"])
    ledger.hold("census", ["file two"])
    assert [remark.about for remark in ledger.remarks("census")] == ["file one", "file two"]
    before = lines(tmp_path)
    for name in ("survey", "not yet named"):
        with pytest.raises(WrongInput, match=facts("'census'", f"`concord link census {name}`")):
            ledger.check_holding(name, ["file zero", "file two"])
    with pytest.raises(WrongInput, match="belongs to domain 'census'"):
        ledger.hold("survey", ["file zero", "file two"])
    assert lines(tmp_path) == before
    ledger.remark("census", "linked", "survey")
    ledger.hold("survey", ["file zero", "file two"])
    ledger.check_holding("census", ["file zero"])
    ledger.remark("census", "linked", "not yet named")
    ledger.check_holding("not yet named", ["file one"])


def test_links_reach_in_both_directions_and_through_others(ledger: Ledger) -> None:
    for name in ("third", "fourth", "apart"):
        ledger.name_domain(name, unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    ledger.remark("survey", "linked", "census")
    ledger.remark("survey", "linked", "third")
    ledger.remark("fourth", "linked", "third")
    linked = {domain.name: [other.name for other in ledger.linked(domain.name)] for domain in ledger.domains()}
    assert linked == {
        "census": ["survey", "third", "fourth"],
        "survey": ["census", "third", "fourth"],
        "third": ["census", "survey", "fourth"],
        "fourth": ["census", "survey", "third"],
        "apart": [],
    }


def test_linked_domains_are_certified_at_the_sum_of_their_caps(ledger: Ledger) -> None:
    ledger.remark("survey", "linked", "census")
    result = linked_caveat(DOMAIN, ledger.linked("census"))
    assert "census is linked on the record to survey" in result
    assert "ε = 8, δ = 8e-05" in result


@pytest.mark.parametrize(
    ("unit", "neighbours"), [("one row", NEIGHBOURS["labels"]), ("all rows of one person", DOMAIN.neighbours)]
)
def test_no_sum_is_promised_where_one_of_them_protects_something_else(
    ledger: Ledger, unit: str, neighbours: str
) -> None:
    """Where only labels are secret, who is in the table is told: no cap bounds what that tells."""
    ledger.name_domain("other", unit=unit, neighbours=neighbours, **CAP)
    ledger.remark("survey", "linked", "census")
    ledger.remark("survey", "linked", "other")
    result = linked_caveat(DOMAIN, ledger.linked("census"))
    assert "to survey, other:" in result
    assert says(result, "unit", "neighbours", "nothing")
    assert "ε" not in result


CANNOT_BE: list[tuple[str, RemarkKind, str, str]] = [
    ("nowhere", "erased", "digest of a unit", "no domain 'nowhere'"),
    ("census", "forgotten", "open", "must be an ended one"),
    ("census", "forgotten", "unheard of", "no session 'unheard of'"),
    ("survey", "forgotten", "ended", "must be an ended one of domain 'survey'"),
    ("nowhere", "linked", "census", "no domain 'nowhere'"),
    ("census", "linked", "census", "another one than itself"),
]


@pytest.mark.parametrize(("domain", "kind", "about", "rule"), CANNOT_BE)
def test_what_cannot_be_so_is_not_written(
    ledger: Ledger, tmp_path: Path, domain: str, kind: RemarkKind, about: str, rule: str
) -> None:
    before = lines(tmp_path)
    with pytest.raises(WrongInput, match=rule):
        ledger.remark(domain, kind, about)
    assert lines(tmp_path) == before


@pytest.mark.parametrize(("domain", "kind", "about", "rule"), CANNOT_BE)
def test_nor_read_where_somebody_wrote_it(
    ledger: Ledger, tmp_path: Path, domain: str, kind: RemarkKind, about: str, rule: str
) -> None:
    chain = [*lines(tmp_path), forged(lines(tmp_path), Remark(kind=kind, about=about), domain, session="")]
    with pytest.raises(NotVerified, match=f"entry {len(chain)} .*{rule}"):
        read(chain)
    assert ledger.remarks(domain) == ()


def test_a_kind_of_remark_of_a_later_version_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    ledger.remark("census", "erased", "digest of a unit")
    *before, line = lines(tmp_path)
    later = rechained(line, body=line.body.replace("erased", "pardoned"))
    with pytest.raises(NotVerified, match=facts("'remark'", "this version")):
        read([*before, later])


def test_a_remark_is_on_a_domain_and_not_on_a_session(ledger: Ledger, tmp_path: Path) -> None:
    chain, remark = lines(tmp_path), Remark(kind="erased", about="digest of a unit")
    with pytest.raises(NotVerified, match="contradicts"):
        read([*chain, forged(chain, remark, "census", session="open")])
    assert Entry(domain="census", event=remark) in LedgerState.remark(read(chain), "census", remark)
    assert ledger.remarks("census") == ()

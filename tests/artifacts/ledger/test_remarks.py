"""Remarks: on the record once, in order, charging nothing; and refused where they cannot be so."""

from pathlib import Path

import pytest

from tests.support.chained import forged, lines, read, rechained
from tests.support.openings import CAP, DOMAIN, named, opening
from tests.support.sentences import facts
from tests.world import Entry, Ledger, LedgerState, NotVerified, Remark, RemarkKind, WrongInput


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
    remarks = ledger.remarks("census")
    assert [(item.kind, item.about) for item in remarks] == [
        ("forgotten", "ended"),
        ("erased", "digest of a unit"),
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


def test_a_file_belongs_to_one_domain(ledger: Ledger, tmp_path: Path) -> None:
    ledger.hold("census", ["file one", "file two", "file one"])
    ledger.hold("census", ["file two"])
    assert [remark.about for remark in ledger.remarks("census")] == ["file one", "file two"]
    before = lines(tmp_path)
    for name in ("survey", "not yet named"):
        with pytest.raises(WrongInput, match="belongs to domain 'census'"):
            ledger.check_holding(name, ["file zero", "file two"])
    with pytest.raises(WrongInput, match="belongs to domain 'census'"):
        ledger.hold("survey", ["file zero", "file two"])
    assert lines(tmp_path) == before


CANNOT_BE: list[tuple[str, RemarkKind, str, str]] = [
    ("nowhere", "erased", "digest of a unit", "no domain 'nowhere'"),
    ("census", "forgotten", "open", "must be an ended one"),
    ("census", "forgotten", "unheard of", "no session 'unheard of'"),
    ("survey", "forgotten", "ended", "must be an ended one of domain 'survey'"),
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

"""Remarks, private files held, witness and restoration, where the ledger is a PostgreSQL database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.witness import Witness
from tests.artifacts.ledger.openings import CAP, DOMAIN, at_most, batch, named, opening, outcome, refusals
from tests.support import postgresql

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of these tests alone."""
    pytest.importorskip("psycopg")
    with postgresql.server() as address:
        yield address


@pytest.fixture
def url(address: str) -> str:
    """An empty database."""
    delete_after(address, 0)
    return f"postgresql+psycopg://{address}"


def delete_after(address: str, seq: int) -> None:
    """Put the table back to its first `seq` entries; to none at all, not even itself, for 0."""
    import psycopg

    with psycopg.connect(f"postgresql://{address}", autocommit=True) as connection:
        if seq:
            connection.execute("DELETE FROM entries WHERE seq > %s", (seq,))
        else:
            connection.execute("DROP TABLE IF EXISTS entries")


def test_what_is_remarked_and_held_is_read_by_another_opening(url: str) -> None:
    ledger = named(Ledger(url))
    ledger.name_domain("survey", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    ledger.hold("census", ["file one"])
    again = Ledger(url)
    with pytest.raises(WrongInput, match="belongs to domain 'census'"):
        again.hold("survey", ["file one"])
    again.remark("census", "linked", "survey", "the survey drew from the census")
    again.hold("survey", ["file one"])
    assert [(remark.kind, remark.about) for remark in ledger.remarks("census")] == [
        ("holds", "file one"),
        ("linked", "survey"),
    ]
    assert [domain.name for domain in ledger.linked("survey")] == ["census"]
    ledger.verify()


def test_a_database_put_back_stops_until_what_was_lost_is_charged(address: str, url: str, tmp_path: Path) -> None:
    witness = Witness(tmp_path / "witness")
    ledger = named(Ledger(url, witness))
    ledger.open_session(opening())
    ledger.begin_batch("one", batch())
    ledger.commit_batch("one", outcome(refused=1))
    ledger.open_session(opening("lost", whole=refusals(40)), further=True)
    charged = ledger.total("census")
    delete_after(address, 4)
    older = Ledger(url, witness)
    with pytest.raises(NotVerified, match="restored from a backup"):
        older.begin_batch("one", batch(1, first=100))
    older.restore("the server's disk died")
    assert at_most(charged, older.total("census"))
    assert older.session("one").status == "closed"
    older.open_session(opening("next"), further=True)
    Ledger(url, witness).check_witness()
    last = witness.last()
    assert last is not None
    assert last.seq == 6
    with pytest.raises(NotVerified, match="no longer holds"):
        ledger.total("census")  # a process that had read what is lost

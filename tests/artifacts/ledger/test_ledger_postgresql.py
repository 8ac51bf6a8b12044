"""Remarks, and private files held, where the ledger is a PostgreSQL database."""

from collections.abc import Iterator

import pytest

from tests.artifacts.ledger.openings import CAP, DOMAIN, named, opening
from tests.support import postgresql
from tests.world import Ledger, NotVerified, WrongInput

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
    again.remark("census", "erased", "digest of a unit")
    assert [(remark.kind, remark.about) for remark in ledger.remarks("census")] == [
        ("holds", "file one"),
        ("erased", "digest of a unit"),
    ]
    ledger.verify()


def test_a_database_put_back_is_found_by_a_process_that_had_read_what_is_lost(address: str, url: str) -> None:
    ledger = named(Ledger(url))
    ledger.open_session(opening())
    delete_after(address, 1)
    with pytest.raises(NotVerified, match="no longer holds"):
        ledger.total("census")

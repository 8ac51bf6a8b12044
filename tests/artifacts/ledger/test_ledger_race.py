"""Processes racing on one ledger."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from tests.support import postgresql
from tests.support.openings import DOMAIN, batch, named, opening, outcome
from tests.support.processes import FRESH
from tests.world import BudgetRefused, Cost, EnvironmentFailed, Ledger, NotVerified

PROCESSES = 4
Answer = TypeVar("Answer")


@pytest.fixture(scope="module")
def racers() -> Iterator[Pool]:
    """Processes that do not share this one's memory; the server they come from imports the ledger once."""
    with FRESH.Pool(8) as pool:
        yield pool


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A server on which transactions by default see what there was when they began, as operators may set it."""
    with postgresql.running(None, "fsync=off", r"default_transaction_isolation=repeatable\ read") as started:
        yield started.address


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger that holds the domain `census` and nothing else."""
    if request.param == "sqlite":
        found = f"sqlite:///{tmp_path / 'ledger.db'}"
    else:
        address = request.getfixturevalue("postgres")
        postgresql.empty(address)
        found = f"postgresql+psycopg://{address}"
    named(Ledger(found))
    return found


@pytest.mark.slow
def test_a_server_that_does_not_write_is_the_environments_failure(postgres: str) -> None:
    """As after a failover to a standby. That the database was changed, and `concord restore` wanted, was not so."""
    address, server = f"postgresql+psycopg://{postgres}", f"postgresql://{postgres}"
    postgresql.empty(postgres)
    named(Ledger(address))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
    for url, why in (
        (f"{address}&options=-cdefault_transaction_read_only%3Don", "read-only transaction"),
        (address.replace("concord@", "reader@"), "permission denied"),
    ):
        with pytest.raises(EnvironmentFailed, match=why):
            Ledger(url).open_session(opening())


def reserve(url: str, part: Cost, names: list[str]) -> Counter[str]:
    """Open a session for each name, as far as the budget goes."""
    ledger, result = Ledger(url), Counter[str]()
    for name in names:
        try:
            ledger.open_session(opening(name, whole=part), further=True)
        except BudgetRefused:
            result["refused"] += 1
        else:
            result["admitted"] += 1
    return result


def test_processes_racing_for_the_last_of_the_budget(racers: Pool, url: str) -> None:
    """They reserve `each` parts of a cap that holds `room` of them, and a bit."""
    each, room = 10, 25
    part = Cost.gaussian(float(DOMAIN.filter.budget) / DOMAIN.filter.order / (room + 0.5))
    names = [[f"{process}-{index}" for index in range(each)] for process in range(PROCESSES)]
    result = sum(racers.map(partial(reserve, url, part), names, chunksize=1), Counter[str]())
    ledger = Ledger(url)
    ledger.verify()
    admitted = ledger.sessions("census")
    assert result == {"admitted": room, "refused": PROCESSES * each - room}
    assert len({session.id for session in admitted}) == room
    assert DOMAIN.filter.admits(ledger.total("census"))
    assert not DOMAIN.filter.admits(ledger.total("census") + admitted[0].reserved)


def answered(url: str, act: Callable[[Ledger], str]) -> str:
    try:
        return act(Ledger(url))
    except (BudgetRefused, NotVerified) as refused:
        return type(refused).__name__


def name_it(_: int, ledger: Ledger) -> str:
    return named(ledger).domains()[0].name


def open_first(process: int, ledger: Ledger) -> str:
    return ledger.open_session(opening(f"session of {process}")).id


def begin_with_votes(process: int, ledger: Ledger) -> str:
    return ledger.begin_batch("one", batch(exact_digest=f"votes of {process}")).exact_digest


def commit_refusals(process: int, ledger: Ledger) -> str:
    return str(ledger.commit_batch("one", outcome(refused=process)).refused)


def all_at_once(racers: Pool, url: str, act: Callable[[int, Ledger], str]) -> list[str]:
    return racers.starmap(answered, [(url, partial(act, process)) for process in range(PROCESSES)], chunksize=1)


def test_one_of_many_first_sessions_is_opened(racers: Pool, url: str) -> None:
    result = all_at_once(racers, url, open_first)
    assert result.count("BudgetRefused") == PROCESSES - 1
    assert [session.id for session in Ledger(url).sessions("census")] == [item for item in result if "session" in item]


def test_one_of_many_votes_is_what_the_batch_was_begun_with(racers: Pool, url: str) -> None:
    Ledger(url).open_session(opening())
    result = all_at_once(racers, url, begin_with_votes)
    assert result.count("NotVerified") == PROCESSES - 1
    assert [begun.exact_digest for begun in Ledger(url).batches("one")] == [item for item in result if "votes" in item]


def test_one_of_many_outcomes_is_what_was_released(racers: Pool, url: str) -> None:
    Ledger(url).open_session(opening())
    Ledger(url).begin_batch("one", batch())
    result = all_at_once(racers, url, commit_refusals)
    assert result.count("NotVerified") == PROCESSES - 1
    assert [str(Ledger(url).session("one").refused)] == [item for item in result if item != "NotVerified"]


def test_a_new_ledger_is_made_once(racers: Pool, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert all_at_once(racers, url, name_it) == ["census"] * PROCESSES
    Ledger(url).verify()


def test_a_database_put_back_is_found_by_who_has_read_what_is_lost(url: str) -> None:
    ledger = Ledger(url)
    ledger.open_session(opening())
    with ledger._entries.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM entries WHERE seq > 1")
    for act in (ledger.verify, ledger.domains, lambda: ledger.settle("one", give_back=True)):
        with pytest.raises(NotVerified, match="no longer holds entry 2"):
            act()

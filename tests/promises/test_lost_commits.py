"""A ledger in PostgreSQL whose server or connection dies at a commit: what was acknowledged stays, and a command given
again neither charges, draws nor loses anything twice, whether or not the commit was made.

The server commits lazily by default, as operators may set it, so that what it acknowledged would be lost if the ledger
did not ask for more.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from sqlalchemy import text

from tests.promises.commands import plainly
from tests.promises.kinds import KINDS, Kind
from tests.support import postgresql
from tests.support.copies import copied
from tests.support.openings import batch, named, opening, outcome
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.postgresql import Server
from tests.support.proxy import How, Proxy
from tests.support.sums import NAME
from tests.world import LEDGER, EnvironmentFailed, Ledger, learn, ledger_database, ledger_faults, verify

pytestmark = pytest.mark.slow
LAZY = ("synchronous_commit=off", "wal_writer_delay=10s")
HOWS: tuple[How, ...] = get_args(How)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql.running(None, *LAZY) as started:
        yield started


class Lines:
    """A ledger on a server that is reached through a proxy, which breaks connections."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        self.server, self.proxy = server, proxy
        self.url = f"postgresql+psycopg://concord@127.0.0.1:{proxy.port}/postgres"

    def commits(self, act: Callable[[], object]) -> int:
        """How many commits an undisturbed act sends."""
        self.proxy.commits = 0
        act()
        return self.proxy.commits

    @contextmanager
    def broken(self, at: int, how: How) -> Iterator[None]:
        """The block, which fails in one sentence at that commit; a server that died is started again after it."""
        self.proxy.commits, self.proxy.at, self.proxy.how = 0, at, how
        with pytest.raises(EnvironmentFailed, match=r"the ledger's database failed: .*server closed the connection"):
            yield
        self.proxy.at = None
        if "dies" in how:
            self.server.start()


@pytest.fixture
def lines(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    with Proxy(server.socket, server.die).listening() as proxy:
        lines = Lines(server, proxy)
        postgresql.empty(server.address)
        monkeypatch.setenv(LEDGER, lines.url)
        yield lines


def acknowledged_and_kept(lines: Lines, server: Server) -> bool:
    """Whether a batch that the ledger took is there after its server died."""
    ledger = named(Ledger(lines.url))
    ledger.open_session(opening())
    ledger.begin_batch("one", batch())
    ledger.commit_batch("one", outcome(refused=2))
    written = ledger.records()
    server.die()
    server.start()
    return Ledger(lines.url).records() == written


def test_what_was_acknowledged_outlives_its_server(lines: Lines, server: Server) -> None:
    assert acknowledged_and_kept(lines, server)


def test_a_ledger_that_commits_as_the_server_likes_would_be_found(
    lines: Lines, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_database, "text", lambda sql: text(sql.replace("commit = on", "commit TO DEFAULT")))
    assert not acknowledged_and_kept(lines, server)


def faults(name: str, commits: int, exhaustive: bool) -> Iterable[tuple[int, How]]:
    """Every failure of every commit; as a sample, three drawn by a name."""
    lots = Random(name)
    return (
        product(range(commits), HOWS) if exhaustive else [(lots.randrange(commits), lots.choice(HOWS)) for _ in "abc"]
    )


def kept(home: Path) -> set[tuple[str, bytes]]:
    """The noise that a home has drawn, and the files that it has released."""
    paths = (*home.glob("vault/sessions/*/*.npz"), *(path for path in home.glob("released/**/*") if path.is_file()))
    return {(str(path.relative_to(home)), path.read_bytes()) for path in paths}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_release_goes_on_after_any_commit(lines: Lines, kind: Kind, tmp_path: Path, exhaustive: bool) -> None:
    kind.prepare(tmp_path / "base")
    prepared = len(Ledger(lines.url).records())
    home = copied(tmp_path / "base", tmp_path / "undisturbed")
    commits = lines.commits(lambda: kind.ask(home))
    whole, names = Ledger.of(home).session(NAME), {name for name, _ in kept(home)}
    assert commits >= 2 * whole.batches  # each is begun and committed
    for at, how in faults(kind.name, commits, exhaustive):
        postgresql.empty(lines.server.address, prepared)
        home = copied(tmp_path / "base", tmp_path / "broken")
        with lines.broken(at, how):
            kind.ask(home)
        crashed = kept(home)
        assert sum(name.startswith("released/") for name, _ in crashed) <= Ledger.of(home).session(NAME).batches
        kind.ask(home)
        session = Ledger.of(home).session(NAME)
        assert crashed <= kept(home), (at, how)
        assert {name for name, _ in kept(home)} == names, (at, how)
        assert (session.status, session.asked, session.batches) == (whole.status, whole.asked, whole.batches), (at, how)
        assert not kind.keyed or session == whole, (at, how)
        assert list(ledger_faults(Ledger.of(home).records())) == [], (at, how)
        shutil.rmtree(home)


def test_a_whole_command_goes_on_after_any_commit(
    lines: Lines, tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch, exhaustive: bool
) -> None:
    tables = tables_of_plan(write_tables(tmp_path / "data", people(800, 1)))
    plan = changed(tables | {"teachers": {"count": 20, "block": 10}, "student": {}})

    def given(name: str) -> Path:
        """A home in which the command was not given yet."""
        postgresql.empty(lines.server.address)
        home = tmp_path / name
        home.mkdir(mode=0o700)
        shutil.copy(mlflow_database, home / "mlflow.db")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        return home

    with plainly():
        home = given("undisturbed")
        commits = lines.commits(lambda: learn(plan, home))
        (whole,) = Ledger.of(home).sessions("people")
        for at, how in faults("run", commits, exhaustive):
            home = given(f"at {at}, {how}")
            with lines.broken(at, how):
                learn(plan, home)
            learn(plan, home)
            (session,) = Ledger.of(home).sessions("people")
            assert session.reserved == whole.reserved, (at, how)
            assert [check for check in verify(home) if not check.ok] == [], (at, how)

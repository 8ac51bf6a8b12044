"""The ledger's database: all of the state is in it, and what fails in it is told in one sentence and spends nothing."""

import json
import os
import re
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import ColumnElement, Connection, event

from tests import world
from tests.support.chained import database
from tests.support.openings import DOMAIN, RHO, batch, named, opening, outcome
from tests.support.sentences import says


@pytest.fixture
def ledger(tmp_path: Path) -> world.Ledger:
    return named(world.Ledger.of(tmp_path))


def test_a_long_ledger_is_read_by_the_page_and_others_write_meanwhile(
    ledger: world.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers a row does not wait until another process has read everything."""
    ledger.open_session(opening())
    ledger.begin_batch("one", batch())
    whole, page, pages = ledger.records(), world.ledger_database.LedgerRows._page, list[int]()
    monkeypatch.setattr(world.ledger_database, "PAGE", 2)
    monkeypatch.setattr(world.ledger_database, "LOCK_WAIT", 0)
    other = world.Ledger.of(tmp_path)
    assert other.session("one").pending is not None

    def written(self: world.ledger_database.LedgerRows, asked: ColumnElement[bool]) -> list[world.LogRecord]:
        pages.append(len(found := page(self, asked)))
        if len(pages) == 1:
            monkeypatch.setattr(world.ledger_database.LedgerRows, "_page", page)
            other.commit_batch("one", outcome(refused=1))
            monkeypatch.setattr(world.ledger_database.LedgerRows, "_page", written)
        return found

    monkeypatch.setattr(world.ledger_database.LedgerRows, "_page", written)
    assert world.Ledger.of(tmp_path).records()[: len(whole)] == whole
    assert pages == [2, 2, 0]
    assert len(whole) == 3


def test_a_ledger_made_between_two_looks_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(connection: Connection) -> bool:
        assert not recognised(connection)
        monkeypatch.setattr(world.ledger_database, "_recognised", recognised)
        named(world.Ledger.of(tmp_path))
        return False  # what was seen before the other process made it

    recognised = world.ledger_database._recognised
    monkeypatch.setattr(world.ledger_database, "_recognised", looked)
    assert [domain.name for domain in world.Ledger.of(tmp_path).domains()] == ["census"]


def test_amounts_are_exact_decimals_in_text(ledger: world.Ledger, tmp_path: Path) -> None:
    opened = ledger.open_session(opening())
    with database(tmp_path) as connection:
        (body,) = connection.execute("SELECT body FROM entries WHERE kind = 'open'").fetchone()
    reserved = {"delta": str(opened.reserved.delta), "renyi": str(opened.reserved.renyi)}
    assert json.loads(body)["reserved"] == reserved
    assert opened.mechanism["table"] == [2**64 - 1, 17]
    assert opened.reserved.renyi >= Decimal(10 * RHO * DOMAIN.filter.order)


def test_threads_share_a_ledger(ledger: world.Ledger) -> None:
    names = [f"session {index}" for index in range(12)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: ledger.open_session(opening(name), further=True), names))
    assert sorted(session.id for session in ledger.sessions("census")) == sorted(names)


def test_the_file_is_its_owners_alone(ledger: world.Ledger, tmp_path: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
    assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600
    ledger.verify()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("ε,δ\n" * 2000)
    with pytest.raises(world.NotVerified, match="not a database"):
        world.Ledger.of(tmp_path)


@pytest.mark.parametrize("table", ["runs (id)", "entries (seq, at, domain)"])
def test_another_programs_database_is_refused(tmp_path: Path, table: str) -> None:
    with database(tmp_path) as connection:
        connection.execute(f"CREATE TABLE {table}")
    with pytest.raises(world.NotVerified, match="not a ledger"):
        world.Ledger.of(tmp_path)


PLANTED = {
    "trigger 'later'": "CREATE TRIGGER later AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE seq > 9; END",
    "view 'spent'": "CREATE VIEW spent AS SELECT * FROM entries WHERE kind = 'settle'",
    "index 'by_kind'": "CREATE INDEX by_kind ON entries (kind)",
    "table 'others'": "CREATE TABLE others (seq)",
    "table 'entries'": "ALTER TABLE entries ADD COLUMN note TEXT",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_trigger_or_anything_else_planted_in_the_file_is_found_on_opening(
    ledger: world.Ledger, tmp_path: Path, planted: str
) -> None:
    ledger.verify()
    with database(tmp_path) as connection:
        connection.execute(PLANTED[planted])
    with pytest.raises(world.NotVerified, match=f"is not a ledger.* it holds the {planted}, and"):
        world.Ledger.of(tmp_path)


def test_every_version_makes_the_same_table() -> None:
    """A ledger that another version made is opened too, whatever SQLAlchemy writes of it."""
    columns = ", ".join(f"{name} TEXT NOT NULL" for name in ("at", "domain", "session", "kind", "body", "previous"))
    keys = "digest TEXT NOT NULL, PRIMARY KEY (seq), UNIQUE (previous)"
    assert f"CREATE TABLE entries ( seq INTEGER NOT NULL, {columns}, {keys} )" == world.ledger_database.MADE


def test_a_table_that_passes_over_what_it_holds_already_is_found(ledger: world.Ledger, tmp_path: Path) -> None:
    """Its columns are the ledger's, but an entry that is there would be kept, or replaced, and nobody told."""
    ledger.verify()
    with database(tmp_path) as connection:
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchone()
        connection.execute("ALTER TABLE entries RENAME TO before")
        connection.execute(made.replace("UNIQUE (previous)", "UNIQUE (previous) ON CONFLICT REPLACE"))
        connection.execute("INSERT INTO entries SELECT * FROM before")
        connection.execute("DROP TABLE before")
    with pytest.raises(world.NotVerified, match="it holds the table 'entries', and"):
        world.Ledger.of(tmp_path)


def test_a_table_taken_away_is_not_the_environments_failure(ledger: world.Ledger, tmp_path: Path) -> None:
    with database(tmp_path) as connection:
        connection.execute("DROP TABLE entries")
    with pytest.raises(world.NotVerified, match="no such table"):
        ledger.open_session(opening())


def test_a_place_that_cannot_hold_a_file_is_refused(tmp_path: Path) -> None:
    """Nor a link to itself."""
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder/ledger.db").mkdir(parents=True)
    (tmp_path / "ledger.db").symlink_to(tmp_path / "ledger.db")
    for place in ("file", "folder", "."):
        with pytest.raises(world.EnvironmentFailed, match=r"the ledger .* cannot be opened"):
            world.Ledger.of(tmp_path / place)


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        *((url, world.WrongInput, "database URL") for url in ("not a url", "nosuch://host/database")),
        ("postgresql+psycopg://nobody@127.0.0.1:1/none", world.EnvironmentFailed, "the ledger's database failed"),
        ("postgresql+pg8000://host/database", world.EnvironmentFailed, "the package pg8000: .* -m pip install pg8000"),
    ],
)
def test_an_address_by_which_no_database_answers_is_refused(url: str, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        world.Ledger(url)


def test_a_database_that_may_only_be_read_is_the_environments_failure(ledger: world.Ledger) -> None:
    def read_only(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA query_only = ON")

    event.listen(ledger._entries.engine, "connect", read_only)
    with pytest.raises(world.EnvironmentFailed, match=r"cannot be found or written .*readonly.* make the file"):
        ledger.open_session(opening())
    event.remove(ledger._entries.engine, "connect", read_only)
    assert ledger.sessions("census") == ()


def test_who_has_a_damaged_database_is_told_what_to_do(ledger: world.Ledger, tmp_path: Path) -> None:
    with (tmp_path / "ledger.db").open("r+b") as file:
        file.seek(100)
        file.write(b"garbage")
    with pytest.raises(world.NotVerified, match=r"cannot be read \(.*malformed\): put a copy .* `concord restore`"):
        ledger.domains()


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes two users")
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_ledger_of_another_user_is_not_written(mode: int) -> None:
    with TemporaryDirectory() as folder:  # pytest's own is closed to others
        os.chmod(folder, 0o755)
        ledger = world.Ledger.of(Path(folder))
        (Path(folder) / "ledger.db").chmod(mode)
        os.seteuid(54321)
        try:
            with pytest.raises(world.EnvironmentFailed) as failed:
                named(ledger)
        finally:
            os.seteuid(0)
        assert says(failed.value, f"{folder}/ledger.db", "writable")


@pytest.mark.parametrize("name", ["home", "odd?home"])
def test_a_ledger_that_is_gone_is_named_by_its_file(tmp_path: Path, name: str) -> None:
    """Not by its address, nor as somebody's."""
    ledger = named(world.Ledger.of(tmp_path / name))
    (tmp_path / name).rename(tmp_path / "elsewhere")
    with pytest.raises(
        world.EnvironmentFailed, match=f"the ledger {re.escape(str(tmp_path / name))}/ledger.db cannot be f"
    ):
        ledger.domains()


def test_a_lock_held_for_ever_is_the_environments_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.ledger_database, "LOCK_WAIT", 0.05)
    ledger = named(world.Ledger.of(tmp_path))
    holder = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(world.EnvironmentFailed, match="locked"):
        ledger.open_session(opening())
    holder.close()
    ledger.open_session(opening())


def test_a_thread_that_failed_leaves_the_ledger_to_the_others(ledger: world.Ledger) -> None:
    with pytest.raises(world.BudgetRefused):
        ledger.open_session(opening(whole=world.Cost.gaussian(9.0)))
    done = threading.Thread(target=ledger.open_session, args=(opening(),), daemon=True)
    done.start()
    done.join(timeout=300)  # it would wait for ever
    assert ledger.session("one").status == "open"


@pytest.mark.parametrize(
    ("kind", "refused"),
    [*product(("nfs4", "cifs", "fuse.s3fs"), (True,)), *product(("ext4", "overlay", "fuse.overlayfs"), (False,))],
)
def test_a_file_where_locks_may_not_hold_is_refused(
    kind: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "a share\twith \\ in its # name"
    codes = {ord(letter): f"\\{ord(letter):03o}" for letter in " \t\n\\#"}  # as the kernel writes them
    mounted = str(shared.resolve()).translate(codes)
    (tmp_path / "mounts").write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {mounted} {kind} rw 0 0\n")
    monkeypatch.setattr(world.ledger_database, "MOUNTS", tmp_path / "mounts")
    world.ledger_database.Entries(f"sqlite:///{tmp_path / 'ledger.db'}")
    if refused:
        with pytest.raises(world.EnvironmentFailed, match="CONCORD_LEDGER"):
            world.ledger_database.Entries(f"sqlite:///{shared / 'ledger.db'}")
        assert not shared.exists()
    else:
        world.ledger_database.Entries(f"sqlite:///{shared / 'ledger.db'}")


@pytest.mark.parametrize(
    "mounted", [b"/media/caf\xe9", "/media/a\xa0disk".encode(), "/media/a\u2028disk".encode(), b""]
)
def test_names_of_other_disks_are_no_matter(mounted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no UTF-8, and spaces that are not the one between two words, stand in names as they are."""
    (tmp_path / "mounts").write_bytes(b"/dev/a / ext4 rw 0 0\n/dev/b " + mounted + b" nfs4 rw 0 0\n")
    monkeypatch.setattr(world.ledger_database, "MOUNTS", tmp_path / "mounts")
    assert named(world.Ledger.of(tmp_path)).domains()

"""Databases begin as the empty ones that the installation made, and with nothing else that lies there."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir

import pytest

from tests import world
from tests.support.processes import alone, own_environment


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the installation keeps its empty databases; nothing is there yet."""
    monkeypatch.setattr(world.home_empty, "FOLDER", tmp_path / "share" / "concord")
    for name in ("PREFECT_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return world.home_empty.FOLDER


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "prefect").mkdir(parents=True)
    return tmp_path / "home"


def made(file: Path, statement: str = "CREATE TABLE flow_run (id INTEGER PRIMARY KEY, name TEXT)") -> Path:
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('1')")
        database.execute(statement)
        database.commit()
    return file


@pytest.fixture
def kept(shared: Path, tmp_path: Path) -> Path:
    """The empty database of Prefect's that is kept."""
    world.keep_as_empty("prefect", made(tmp_path / "made.db"))
    (file,) = shared.iterdir()
    return file


def schema(database: Path) -> set[tuple[object, ...]]:
    """Tables with their columns, indices and triggers."""
    with closing(sqlite3.connect(database)) as opened:
        found = opened.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
        return {(*each, *opened.execute("SELECT * FROM pragma_table_xinfo(?)", (each[1],))) for each in found}


def test_what_was_kept_is_copied(kept: Path, home: Path, tmp_path: Path) -> None:
    database = home / "prefect.db"
    assert world.copy_empty("prefect", database)
    assert database.read_bytes() == kept.read_bytes()
    assert database.stat().st_mode & 0o777 == 0o600
    assert schema(database) == schema(tmp_path / "made.db")


def test_one_is_kept_of_each_package_for_this_user_to_write_alone(kept: Path, tmp_path: Path) -> None:
    world.keep_as_empty("prefect", made(tmp_path / "later.db", "CREATE TABLE later (id INTEGER)"))
    world.keep_as_empty("mlflow", made(tmp_path / "other.db"))
    files = sorted(kept.parent.iterdir())
    assert [file.name.rpartition("-")[0] for file in files] == [
        f"{package}-{version(package)}" for package in ("mlflow", "prefect")
    ]
    assert kept not in files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o644}


def damaged(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(5000)
        opened.write(b"x")


def planted(file: Path) -> None:
    """Sound, and not what was kept."""
    file.write_bytes(made(file.parent / "other", "CREATE TABLE theirs (id INTEGER)").read_bytes())


def a_link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


FAULTS: dict[str, Callable[[Path], object]] = {
    "damaged": damaged,
    "truncated": lambda file: os.truncate(file, 4096),
    "planted": planted,
    "of another version": lambda file: file.rename(file.with_name(file.name.replace(version("prefect"), "3.8.7"))),
    "that others may write": lambda file: file.chmod(0o664),
    "where others may write": lambda file: file.parent.chmod(0o777),
    "a link": a_link,
    "a pipe": a_pipe,
    "gone": Path.unlink,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_installation_did_not_keep_is_passed_over(fault: str, kept: Path, home: Path) -> None:
    FAULTS[fault](kept)
    assert not world.copy_empty("prefect", home / "prefect.db")
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_what_another_user_owns_is_passed_over(kept: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = kept.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert world.copy_empty("prefect", home / "prefect.db") is (owner == 0)  # root's is believed by everybody
    foreign = os.stat_result((0o100644, 0, 0, 1, owner + 2, 0, 0, 0, 0, 0))
    assert not world.home_empty._is_ours(foreign)


@pytest.mark.slow
def test_a_store_with_other_tables_is_migrated_after_all(
    shared: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of another version of MLflow under this one's name."""
    world.keep_as_empty("mlflow", made(tmp_path / "made.db", "CREATE TABLE latest_metrics (key TEXT)"))
    assert len(list(shared.iterdir())) == 1
    world.ready_store(home)
    assert {name for kind, name, *_ in schema(home / "mlflow.db") if kind == "table"} >= {"runs", "experiments"}
    migrated = schema(home / "mlflow.db")
    world.keep_empty_store(tmp_path)
    (home / "mlflow.db").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("mlflow.store.db.utils._initialize_tables", None)  # nothing is migrated now
        world.ready_store(home)
    assert schema(home / "mlflow.db") == migrated


INSTALL = """
import sys
from pathlib import Path
from concord.artifacts.home import empty
from concord.flows.install import install
empty.FOLDER = Path(sys.argv[1])
install()
"""


@pytest.mark.slow
def test_what_prefect_migrates_is_what_its_server_goes_on_with(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It migrates it again as it starts, and finds nothing left to do; and nothing in it is of who installed it."""
    words, environment = [sys.executable, "-c", INSTALL, str(shared)], own_environment()
    of_tests = ("CI", "PYTEST_CURRENT_TEST", "DO_NOT_TRACK")  # under which MLflow is silent by itself
    given = {name: value for name, value in environment.items() if name not in of_tests}
    given |= {world.flows_server.DATABASE: "sqlite:///theirs", "HOME": str(tmp_path)}
    subprocess.run(words, cwd=tmp_path, env=given, check=True)
    assert not (tmp_path / ".config").exists()  # where MLflow keeps the name by which its makers know a machine
    _, prefect = sorted(shared.iterdir())
    migrated, home = schema(prefect), alone(tmp_path, monkeypatch)
    with world.engine(home):
        (database,) = home.rglob("prefect.db")
        assert schema(database) == migrated
    with closing(sqlite3.connect(prefect)) as opened:
        rows = {
            name: opened.execute(f"SELECT count(*) FROM {name}").fetchone()
            for kind, name, *_ in migrated
            if kind == "table"
        }
    assert {name for name, (count,) in rows.items() if count} == {"alembic_version"}
    for file in shared.iterdir():
        assert not any(str(place).encode() in file.read_bytes() for place in (tmp_path, Path.cwd(), gettempdir()))

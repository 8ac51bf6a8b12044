"""Erasing: nothing of a domain's table is left in the vault, other domains keep their files, and no spend returns."""

from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.homes import charged, name_domain
from tests.support.people import UNIT, changed, people, tables_of_plan, write_tables


@pytest.fixture
def plan(tmp_path: Path) -> world.Plan:
    return changed(tables_of_plan(write_tables(tmp_path / "data")), labeling__cutoff=60)


@pytest.fixture
def door(tmp_path: Path) -> world.Stores:
    """A vault with files of two domains, of a domain not named yet, and of no known domain."""
    door = world.Stores.of(tmp_path / "home")
    for domain in ("people", "census"):
        name_domain(door, domain)
    door.vault.make_secret("domains/unnamed")
    for path in (
        "shards/people/a/block-0",
        "shards/census/b/block-0",
        "counts/unnamed/c",
        "shards/nobody/d",
        "public/e",
    ):
        with door.vault.create(path) as sink:
            sink.write(b"rows")
    return door


def files(vault: world.Vault) -> set[str]:
    """All files of the vault except locks and secrets."""
    paths = {str(path.relative_to(vault.root)) for path in vault.root.rglob("*") if path.is_file()}
    return {path for path in paths if not path.startswith(("secrets/", "locks/"))}


@pytest.mark.slow
def test_nothing_made_of_the_unit_is_left_and_nothing_spent_returns(
    plan: world.Plan, home: Path, tmp_path: Path
) -> None:
    theirs_too = tables_of_plan(write_tables(tmp_path / "theirs", people(3000, 7)))
    other = changed(theirs_too, privacy__domain="others", labeling__cutoff=60)
    first, theirs = world.start(plan, home), world.start(other, home)
    vault, before = world.Vault(home / "vault"), charged(home)
    kept = {path for path in files(vault) if "/others/" in path or "/others-" in path or path.startswith("public/")}
    result = world.erased(home, "people", UNIT)
    published = {"session": first.session, "labels": first.answered, "models": [first.student["model_uri"]]}
    done: dict[str, Any] = {"domain": "people", "erased_now": True, "left_out": True}
    assert result == {**done, "published": [published], "goes_on": []}
    assert files(vault) == kept
    assert not vault.has_secret(f"sessions/{first.session}")
    ledger = world.Ledger.of(home)
    assert ledger.session(first.session).status == "closed"
    assert (charged(home), ledger.session(first.session).settled) == (before, before)
    assert all(check.ok for check in world.verify(home))
    assert world.start(other, home).session == theirs.session
    with pytest.raises(world.BudgetRefused, match="has ended"):
        world.start_extension(first.session, write_tables(tmp_path / "more") / "public.parquet", home)
    with pytest.raises(world.BudgetRefused, match="--new-session"):
        world.start(plan, home)
    assert files(vault) == kept  # nothing private was read before it was refused
    again = changed(plan, data__version="2")
    assert world.start(again, home, new_session=True).session != first.session


def test_the_ledger_and_the_disk_do_not_name_the_unit(door: world.Stores) -> None:
    world.erase(door, "people", "zqx somebody")
    for path in door.vault.root.parent.rglob("*"):
        assert not path.is_file() or b"somebody" not in path.read_bytes()
    assert [remark.kind for remark in door.ledger.remarks("people")] == ["secret", "erased"]


def test_what_is_done_and_said_does_not_tell_whether_the_unit_was_there(tmp_path: Path) -> None:
    done = []
    for unit in (UNIT, "nobody"):
        door = world.Stores.of(tmp_path / unit)
        name_domain(door, "people")
        with door.vault.create("shards/people/a") as sink:
            sink.write(UNIT.encode())
        done.append((world.erase(door, "people", unit), files(door.vault)))
    assert done[0] == done[1]


def test_what_killed_writers_left_of_it_goes_and_what_other_domains_have_and_write_stays(door: world.Stores) -> None:
    left = door.vault.root / world.UNFINISHED / "shards/people" / f"block.{16 * '0'}"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"half a block of rows")
    with door.vault.create("shards/census/block-9") as sink:
        sink.write(b"rows of another domain")
        assert world.erase(door, "people", UNIT)
    assert not left.exists()
    assert door.vault.read(sink.ref) == b"rows of another domain"
    assert files(door.vault) == {"shards/census/b/block-0", "shards/census/block-9", "counts/unnamed/c", "public/e"}


def test_erasing_again_changes_nothing(door: world.Stores) -> None:
    assert world.erase(door, "people", "007")
    remarks = door.ledger.remarks("people")
    assert not world.erase(door, "people", "7")  # the same name in a table
    assert door.ledger.remarks("people") == remarks
    assert not world.erase(door, "people", None)
    assert [remark.kind for remark in door.ledger.remarks("people")] == ["secret", "erased", "erased"]


def test_what_cannot_be_erased_is_refused_and_left_alone(door: world.Stores) -> None:
    name_domain(door, "rows", "one row")
    name_domain(door, "labels", "the labels of one row")
    before, refused = files(door.vault), r"no domain 'nothing'|leave --unit out|reads as nothing"
    for domain, unit in (("nothing", UNIT), ("rows", UNIT), ("labels", UNIT), ("people", " NA "), ("people", "")):
        with pytest.raises(world.WrongInput, match=refused) as raised:
            world.erase(door, domain, unit)
        assert UNIT not in str(raised.value)
    assert files(door.vault) == before
    assert door.ledger.remarks("people") == ()
    with door.vault.create("shards/rows/a") as sink:
        sink.write(b"rows")
    assert world.erase(door, "rows", None)  # rows without names go with their domain
    assert not {path for path in files(door.vault) if "/rows/" in path}


def test_people_named_by_a_column_called_row_could_not_be_erased(door: world.Stores) -> None:
    columns = ("row", "row_id", "one row")
    units = [f"{what} with one {column}" for what in ("all rows", "the labels of all rows") for column in columns]
    for number, unit in enumerate(units):
        name_domain(door, f"rows-{number}", unit)
        world.erase(door, f"rows-{number}", UNIT)
        assert [remark.kind for remark in door.ledger.remarks(f"rows-{number}")][-1] == "erased"


def test_it_waits_for_runs_of_the_domain(door: world.Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    true, asked = fcntl.flock, []

    def at_once(descriptor: int, kind: int) -> None:
        asked.append(kind)
        true(descriptor, kind | fcntl.LOCK_NB)

    monkeypatch.setattr(fcntl, "flock", at_once)
    with world.a_run_in(door.vault, "people"):
        with world.a_run_in(door.vault, "people"):
            pass
        with pytest.raises(BlockingIOError):
            world.erase(door, "people", UNIT)
        assert world.erase(door, "census", UNIT)
    assert "shards/people/a/block-0" in files(door.vault)
    assert world.erase(door, "people", UNIT)


def test_an_erasure_is_told_of_even_if_mlflow_cannot_be_read(
    door: world.Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was said was that no server answers, and it was said again at each erasure."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(world.EnvironmentFailed, match=r"domain 'people' are erased as asked, .* no server answers"):
        world.erased(door.released.root.parent, "people", UNIT)
    assert "shards/people/a/block-0" not in files(door.vault)


def test_what_is_said_names_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    details = {"session": "people-1", "labels": 300, "models": ["models:/people/1"]}
    world.show_erasure(
        {"domain": "people", "erased_now": True, "left_out": True, "published": [details], "goes_on": ["people-2"]}
    )
    text = capsys.readouterr().out
    for words in (
        "already published: session people-1, 300 answers, models:/people/1",
        "left out",
        "people-2 goes on",
        "[data] version",
        "--new-session",
    ):
        assert words in text

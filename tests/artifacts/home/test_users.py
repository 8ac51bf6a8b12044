"""A home of another format or of another user is not used: the sentence names file, owner, who runs, and what to do."""

import os
import pwd
from pathlib import Path

import pytest

from tests.support.openings import named
from tests.support.sentences import facts
from tests.world import FORMAT, UNFINISHED, EnvironmentFailed, Ledger, NotVerified, Vault, check_format, prepare, reopen

ME = pwd.getpwuid(os.geteuid()).pw_name


def another_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is not the one that made the mounted home."""
    monkeypatch.setattr(os, "geteuid", lambda: 54321)


def test_a_vault_that_another_user_made_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was, if its mode was right: its keys may be known to that user."""
    root = Vault(tmp_path / "vault").root
    another_runs(monkeypatch)
    with pytest.raises(EnvironmentFailed) as failed:
        Vault(root)
    assert str(failed.value) == (
        f"the vault {root} belongs to {ME}, and this runs as user 54321: run it as {ME}; or, if nobody else has put "
        f"anything there, let root give it to user 54321 by `chown -R 54321 {root}`; or name another home"
    )


def test_a_home_that_another_user_made_is_read_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = prepare(tmp_path / "home")
    named(Ledger.of(home))
    before = sorted(home.rglob("*"))
    another_runs(monkeypatch)
    for use in (prepare, reopen):
        with pytest.raises(EnvironmentFailed, match=facts(home, f"belongs to {ME}", "runs as user 54321")):
            use(home)
    assert reopen(home, reading=True) == home  # by an auditor, for whom nothing is written
    assert [domain.name for domain in Ledger.of(home).domains()] == ["census"]
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_home_that_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    """Who may write it could put a vault or a ledger of their own there."""
    home = prepare(tmp_path / "home")
    home.chmod(mode)
    with pytest.raises(EnvironmentFailed, match=facts(home, "closed to others", f"{mode:04o}", f"chmod -R go= {home}")):
        prepare(home)
    home.chmod(0o755)
    prepare(home)


def test_another_home_is_no_way_out_if_one_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger would not know what this one's has charged, so the same rows would be charged as if for the first
    time."""
    home = prepare(tmp_path / "home")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(EnvironmentFailed, match=facts(home, "cannot be written", "would not know", "has charged")):
        prepare(home)
    with pytest.raises(EnvironmentFailed, match=facts("cannot be written", "name another with --home")):
        prepare(tmp_path / "new")


def test_a_new_home_is_of_this_format(tmp_path: Path) -> None:
    check_format(tmp_path)
    assert (tmp_path / "format").read_text() == f"{FORMAT}\n"
    assert set(os.listdir(tmp_path)) == {"format", UNFINISHED}


@pytest.mark.parametrize("form", [FORMAT - 1, FORMAT + 1])
def test_the_home_of_another_version_is_left_alone(tmp_path: Path, form: int) -> None:
    (tmp_path / "format").write_text(f"{form}\n")
    with pytest.raises(NotVerified, match=facts("another version of Concord", "2.0.0 alone", "keep the older version")):
        check_format(tmp_path)
    assert os.listdir(tmp_path) == ["format"]


def test_a_format_that_is_no_number_stops(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("two")
    with pytest.raises(NotVerified, match="must hold the number of a format"):
        check_format(tmp_path)

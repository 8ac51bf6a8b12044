"""An older copy of a home through the command line: found, told in one sentence, and gone on from at its price."""

import json
import shutil
from pathlib import Path

import pytest

from concord.artifacts.guarantee import LOST_WITNESS, UNWITNESSED, WITNESSED
from concord.artifacts.ledger.ledger import Ledger
from tests.support.console import concord
from tests.support.people import write_plan, write_tables


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONCORD_WITNESS", str(tmp_path / "witness"))
    return tmp_path / "witness"


def failed(home: Path) -> list[dict[str, str]]:
    """What `concord verify` finds wrong."""
    return [
        check for check in json.loads(concord("verify", "--home", str(home), "--json")[1])["checks"] if not check["ok"]
    ]


@pytest.mark.slow
def test_a_home_put_back_stops_until_it_is_restored(home: Path, place: Path, tmp_path: Path) -> None:
    many = {"labeling__mechanism": "noisy_votes", "labeling__cutoff": None, "labeling__queries": 600}
    plan = write_plan(write_tables(tmp_path / "data"), **many)
    status, result, wrong = concord("run", str(plan), "--home", str(home), "--json")
    assert status == 0, wrong
    summary = json.loads(result)
    caveats = json.loads(Path(summary["certificate"]).read_text())["caveats"]
    assert WITNESSED in caveats
    assert UNWITNESSED not in caveats
    shutil.copy(home / "ledger.db", tmp_path / "older.db")
    assert concord("close", summary["session"], "--home", str(home))[0] == 0
    shutil.copy(tmp_path / "older.db", home / "ledger.db")

    for command in (("run", str(plan)), ("close", summary["session"])):
        status, _, wrong = concord(*command, "--home", str(home))
        assert status == 4
        assert "the ledger was restored from a backup" in wrong
        assert "`concord restore` goes on from it" in wrong
    status, result, _ = concord("verify", "--home", str(home), "--json")
    assert status == 4
    assert [check["name"] for check in json.loads(result)["checks"] if not check["ok"]] == ["witness"]

    reserved = Ledger.of(home).session(summary["session"]).reserved
    status, result, wrong = concord("restore", "--reason", "the disk died", "--home", str(home), "--json")
    assert status == 0, wrong
    (domain,) = json.loads(result)["domains"]
    assert domain["sessions"][0]["status"] == "closed"
    assert Ledger.of(home).total("people") == reserved
    assert concord("verify", "--home", str(home))[0] == 0
    assert concord("restore", "--reason", "again", "--home", str(home))[0] == 2
    status, result, wrong = concord("run", str(plan), "--home", str(home), "--json")
    assert status == 0, wrong
    assert json.loads(result)["asked_now"] == 0
    assert Ledger.of(home).total("people") == reserved
    assert place.stat().st_mode & 0o777 == 0o600

    place.unlink()
    status, _, wrong = concord("run", str(plan), "--home", str(home))
    assert status == 4
    assert f"{place} has seen nothing" in wrong
    assert [check["name"] for check in failed(home)] == ["witness"]
    assert concord("restore", "--reason", "its machine burnt", "--home", str(home))[0] == 0
    assert failed(home) == []
    status, result, wrong = concord("run", str(plan), "--home", str(home), "--json")
    assert status == 0, wrong
    caveats = json.loads(Path(json.loads(result)["certificate"]).read_text())["caveats"]
    assert caveats[-2:] == [LOST_WITNESS, WITNESSED]
    assert failed(home) == []

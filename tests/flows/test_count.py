"""`concord count`, from the command line: paid once, replayed, certified, verified, budgeted and forgotten."""

import json
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.ledger.ledger import Ledger
from concord.tasks.verify.verify import verify
from tests.support.console import concord
from tests.support.people import write_plan, write_tables


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(write_tables(tmp_path / "data"))


def count(plan: Path, home: Path, *more: str, by: str = "shade") -> tuple[int, Any, str]:
    options = ("--by", by, "--epsilon", "0.5", "--yes", "--json", "--home", str(home))
    status, printed, said = concord("count", str(plan), *options, *more)
    return status, json.loads(printed) if status == 0 else None, said


@pytest.mark.usefixtures("prefect_server")
def test_counts_are_paid_for_once_certified_and_verified(plan: Path, home: Path) -> None:
    status, found, said = count(plan, home)
    assert status == 0, said
    assert sorted(found["answer"]["groups"]) == [["dark"], ["light"]]
    assert sum(found["answer"]["counts"]) > 0
    (session,) = Ledger.of(home).sessions("people")
    assert (session.purpose, session.epsilon, session.delta, session.status) == ("counts", 0.5, 0.0, "spent")
    released = json.loads(Path(found["file"]).read_bytes())
    assert released["answer"] == found["answer"]
    assert all(check.ok for check in verify(home))
    assert concord("verify", found["certificate"])[0] == 0
    certificate = json.loads(Path(found["certificate"]).read_bytes())
    assert certificate["guarantee"]["epsilon"] == 0.5
    assert certificate["sessions"][0]["mechanism"]["settings"]["by"] == ["shade"]

    again = count(plan, home)[1]
    assert (again["answer"], again["lifetime"]["now"]) == (found["answer"], 0)
    assert len(Ledger.of(home).sessions("people")) == 1
    status, printed, _ = concord("budget", "--json", "--home", str(home))
    assert (status, session.id in printed) == (0, True)


@pytest.mark.slow
def test_a_further_count_costs_again_and_must_be_asked_for(plan: Path, home: Path) -> None:
    first = count(plan, home)[1]
    status, _, said = count(plan, home, by="shade,size")
    assert (status, "--by must name categorical columns" in said) == (2, True)
    second = count(plan, home, "--again")[1]
    assert second["session"] != first["session"]
    assert second["lifetime"]["now"] > 0


def test_what_it_counted_is_forgotten_with_its_session(plan: Path, home: Path) -> None:
    session = count(plan, home)[1]["session"]
    assert list((home / "vault" / "counts").rglob("counts"))
    assert concord("forget", session, "--home", str(home))[0] == 0
    assert not list((home / "vault" / "counts").rglob("counts"))
    assert all(check.ok for check in verify(home))
    status, _, said = count(plan, home)
    assert (status, "was forgotten" in said) == (3, True)


def test_a_cap_that_does_not_cover_it_refuses_before_anything_is_read(plan: Path, home: Path) -> None:
    options = ("--by", "shade", "--epsilon", "50", "--yes", "--home", str(home))
    status, _, said = concord("count", str(plan), *options)
    assert (status, "budget" in said or "covers" in said or "left" in said) == (3, True), said
    assert not list((home / "vault").glob("counts/*"))


def test_the_console_shows_groups_and_how_near_they_are(plan: Path, home: Path) -> None:
    status, shown, said = concord("count", str(plan), "--by", "shade", "--epsilon", "0.5", "--yes", "--home", str(home))
    assert status == 0, said
    for word in ("dark", "light", "any other", "within", "ε = 0.5, δ = 0", "certificate.json"):
        assert word in shown

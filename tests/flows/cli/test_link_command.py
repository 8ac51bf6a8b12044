"""One name a body of data: a private file known under another domain stops the run, unless the two are linked."""

import json
from pathlib import Path

import pytest

from concord.artifacts.guarantee import UNPROMISED
from concord.artifacts.ledger.ledger import Ledger
from tests.support.console import concord
from tests.support.people import write_plan, write_tables
from tests.support.sentences import says


@pytest.mark.slow
def test_a_file_of_another_domain_stops_until_the_two_are_linked(home: Path, tmp_path: Path) -> None:
    small = {"teachers__count": 40, "teachers__block": 40, "labeling__cutoff": 2}
    data = write_tables(tmp_path / "data")
    first = write_plan(data, **small)
    assert concord("run", str(first), "--home", str(home))[0] == 0
    other = write_tables(tmp_path / "other")
    (data / "private.csv").rename(other / "renamed.csv")
    second = write_plan(other, **small, data__private="renamed.csv", privacy__domain="others")

    status, result, wrong = concord("run", str(second), "--home", str(home))
    assert (status, result) == (2, "")
    assert "belongs to domain 'people'" in wrong
    assert "concord link people others" in wrong
    assert "renamed" not in wrong
    assert [domain.name for domain in Ledger.of(home).domains()] == ["people"]

    assert concord("link", "people", "people", "--reason", "none", "--home", str(home))[0] == 2
    status, result, wrong = concord("link", "people", "others", "--reason", "one clinic", "--home", str(home))
    assert status == 0, wrong
    assert "the sum of both caps" in result
    status, result, wrong = concord("run", str(second), "--home", str(home), "--json")
    assert status == 0, wrong
    certificate = json.loads(Path(json.loads(result)["certificate"]).read_text())
    assert any("the sum of the caps, ε = 18, δ = 8e-05" in caveat for caveat in certificate["caveats"])
    assert concord("verify", "--home", str(home))[0] == 0


@pytest.mark.usefixtures("session")
def test_a_link_that_voids_the_lifetime_is_warned_of_by_link_run_and_verify(home: Path, tmp_path: Path) -> None:
    """The certificate said so, and the console nothing."""
    there = ("--home", str(home))
    changes = "add or remove one unit"
    Ledger.of(home).name_domain("visits", unit="all rows of one visit", neighbours=changes, epsilon=4.0, delta=4e-5)
    for others, warned in (("later", False), ("visits", True)):
        status, result, wrong = concord("link", "people", others, "--reason", "one clinic", *there)
        assert status == 0, wrong
        assert (UNPROMISED in result) == warned
    plan = write_plan(write_tables(tmp_path / "data"), privacy__epsilon=8.0, labeling__cutoff=60)
    status, result, wrong = concord("run", str(plan), *there)
    assert status == 0, wrong
    assert says(result, "warning", "people", "linked", "visits")
    assert UNPROMISED in result
    for subject in ((), (str(next((home / "released").iterdir())),)):
        status, result, _ = concord("verify", *subject, *there)
        assert (status, "warn people: lifetime: The domain" in result, UNPROMISED in result) == (0, not subject, True)

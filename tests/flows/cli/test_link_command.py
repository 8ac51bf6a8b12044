"""One name a body of data: a private file known under another domain stops the run, unless the two are linked."""

import json
from pathlib import Path

import pytest

from concord.artifacts.ledger.ledger import Ledger
from tests.support.console import concord
from tests.support.people import write_plan, write_tables


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

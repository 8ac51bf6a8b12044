"""A domain with the filter `gaussian`, end to end: what is charged, published, shown and verified."""

import json
from pathlib import Path

import pytest

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.parts import LEARNING, TEST
from concord.artifacts.plan import parse_plan
from concord.flows.start import start
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.support.console import concord
from tests.support.people import changed, tables_of_plan, write_tables


@pytest.mark.slow
def test_a_gaussian_domain_from_its_plan_to_its_report(tmp_path: Path, home: Path) -> None:
    tables = tables_of_plan(write_tables(tmp_path / "data"))
    given = {name: section for name, section in tables.items() if name not in ("teachers", "student")}
    lifetime = {"epsilon": 4.0, "delta": 4e-5, "filter": "gaussian"}
    given["privacy"] |= {"epsilon": 1.0, "delta": 1e-5, "lifetime": lifetime}
    plan = parse_plan(given | {"labeling": {"mechanism": "tallies", "rows": 300, "batch": 128}, "test": {"share": 0.3}})
    summary = start(plan, home)
    assert summary.lifetime["more"] == 12
    assert summary.spent_now["epsilon"] == pytest.approx(0.904, abs=2e-3)

    ledger = Ledger.of(home)
    totals = ledger.totals("people")
    assert 0 < totals[TEST].mu_squared <= totals[LEARNING].mu_squared == ledger.total("people").mu_squared
    assert ledger.records()[0].kind == "gaussian"
    certificate = Certificate.model_validate_json(Path(summary.certificate).read_bytes())
    assert (certificate.domain.filter, certificate.domain.order) == ("gaussian", None)
    assert certificate.domain.spent.epsilon == summary.spent_now["epsilon"]
    assert "squares of the μ" in Path(summary.report).read_text(encoding="utf-8")
    assert [check for check in verify(home) if not check.ok] == []
    assert [check for check in verify_published(home / "released" / summary.session) if not check.ok] == []

    assert start(plan, home).spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert start(plan, home, new_session=True).lifetime["more"] == 11
    with pytest.raises(
        WrongInput, match=r"lifetime.filter of domain 'people' is 'gaussian' on the record, got 'renyi'"
    ):
        start(changed(plan.model_dump(), privacy__lifetime={**lifetime, "filter": "renyi"}), home)
    with pytest.raises(BudgetRefused, match="does not cover"):
        start(changed(plan.model_dump(), privacy__epsilon=3.9), home, new_session=True)

    (domain,) = json.loads(concord("budget", "--json", "--home", str(home))[1])["domains"]
    assert domain["filter"] == "gaussian"
    assert domain["gaussian"]["charged"] == str(ledger.total("people").mu_squared)
    cap = ("--epsilon", "5", "--delta", "5e-5", "--reason", "more")
    status, shown, _ = concord("domain", "people", *cap, "--home", str(home))
    assert (status, "by the filter gaussian" in shown) == (0, True)
    assert [check for check in verify(home) if not check.ok] == []

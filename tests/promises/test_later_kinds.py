"""A session that another version opened, for what this one does not know: it concerns its own domain alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan
from concord.flows.learn import learn
from tests.promises.commands import plainly
from tests.support.chained import Said, rewrite
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.sentences import facts


def plan_of(data: Path, domain: str, **changes: Any) -> Plan:
    tables = {name: part for name, part in tables_of_plan(data).items() if name not in ("teachers", "student")}
    tables["labeling"] = {"mechanism": "tallies", "rows": 1000}
    return changed(tables, privacy__domain=domain, **changes)


def of_a_later_kind(lines: list[Said]) -> None:
    for line in lines:
        if line.kind == "open":
            line.body["mechanism"] = {"name": "a kind of the next version", "depth": 3}


def test_a_session_of_a_later_kind_stops_no_other_domain(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stopped after its tables were read, because it read every checkpoint of the home; a private file of that
    session is known as its domain's all the same."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(mlflow_database, home / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    first, second = (write_tables(tmp_path / name, people(500, seed)) for name, seed in (("a", 1), ("b", 4)))
    with plainly():
        learned = learn.fn(plan_of(first, "later"), home).session
        vault, path = Vault(home / "vault"), f"sessions/{learned}/recipe.json"
        found = vault.take(path)
        assert found is not None
        recipe = json.loads(found[1])
        recipe["plan"]["labeling"]["mechanism"] = "a kind of the next version"
        recipe["teachers"] = {"as": "it has them"}
        with vault.create(path) as sink:
            sink.write(json.dumps(recipe).encode())
        rewrite(home, of_a_later_kind)
        assert learn.fn(plan_of(second, "now"), home).session
        with pytest.raises(WrongInput, match="belongs to domain 'later'"):
            learn.fn(plan_of(first, "another"), home)
        with pytest.raises(NotVerified, match=facts("the version that opened it")):
            learn.fn(plan_of(first, "later", data__version="2"), home, new_session=True)
    assert {domain.name for domain in Ledger.of(home).domains()} == {"later", "now"}

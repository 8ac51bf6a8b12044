"""Ledger and tracking store both on PostgreSQL: a run from end to end, again from cache, and verified."""

from pathlib import Path

import pytest

from tests.support import postgresql
from tests.support.people import changed, tables_of_plan, write_tables
from tests.world import start, verify

pytestmark = pytest.mark.slow


def test_a_run_is_kept_and_verified_there(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = changed(tables_of_plan(write_tables(tmp_path / "data")))
    with postgresql.server() as ledger, postgresql.server() as tracking:
        monkeypatch.setenv("CONCORD_LEDGER", f"postgresql+psycopg://{ledger}")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql+psycopg://{tracking}")
        first = start(plan, home)
        assert first.answered > 0
        again = start(plan, home)
        assert (again.session, again.spent_now) == (first.session, {"epsilon": 0.0, "delta": 0.0})
        checks = verify(home)
        assert [check for check in checks if not check.ok] == []
        assert {check.name for check in checks} > {"ledger chain", f"{first.session}: MLflow"}
        assert not (home / "ledger.db").exists()

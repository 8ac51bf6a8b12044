"""A ledger from which a session's last commit was dropped, with its chain made anew, fails: for every kind of release.

What was refused would be charged to nobody, and what was answered could be asked again.
"""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.promises.recorder import classes_of
from tests.support.chained import Said, rewrite
from tests.support.people import changed, tables_of_plan, write_tables
from tests.world import (
    Ledger,
    Question,
    QuestionTerms,
    Session,
    estimate,
    start,
    start_asking,
    start_question,
    tasks_asks,
    verify,
)

pytestmark = pytest.mark.slow
LIFETIME = {"epsilon": 60.0, "delta": 1e-3}
UNIVERSAL = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"], "epsilon": 1.0}
PURPOSES = {vars(ask)["purpose"] for ask in classes_of(tasks_asks) if "purpose" in vars(ask)}
"""What sessions are for."""


def odd(rows: pl.DataFrame) -> bool:
    """Every shard's own: no answer is common enough."""
    return rows.height % 2 == 1


@pytest.fixture
def home(plain_home: Path) -> Path:
    """Flows are plain functions: of Prefect's engine nothing is looked at."""
    return plain_home


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    given = tables_of_plan(write_tables(tmp_path / "data"))
    given["privacy"]["lifetime"] = LIFETIME
    return given


def questioned(home: Path, tables: dict[str, Any]) -> None:
    """A session that is open for more questions; the last was refused."""
    for name in ("first", "last"):
        found = start_question(changed(tables), Question(name, odd), home, QuestionTerms(0.5, "optimal", 3, False))
        assert found["outcome"] == "refused"


def cut(home: Path, session: Session) -> None:
    """Drop the session's last commit, and what came after it in the session."""

    def without(entries: list[Said]) -> None:
        own = [at for at, entry in enumerate(entries) if entry.session == session.id]
        last = max(at for at in own if entries[at].kind == "commit")
        entries[:] = [entry for at, entry in enumerate(entries) if at < last or entry.session != session.id]

    rewrite(home, without)


def failing(home: Path) -> dict[str, str]:
    return {check.name: check.detail for check in verify(home) if not check.ok}


def test_an_estimate_that_the_ledger_never_began_is_found(home: Path, tables: dict[str, Any]) -> None:
    """It verified: no certificate names an estimate."""
    start_asking(estimate, changed(tables), home, epsilon=0.5, share=0.3, beta=0.05, again=False)
    (session,) = Ledger.of(home).sessions("people")
    assert failing(home) == {}

    def without(entries: list[Said]) -> None:
        gone = ("begin", "draw", "commit", "settle")
        entries[:] = [entry for entry in entries if entry.session != session.id or entry.kind not in gone]

    rewrite(home, without)
    assert any(session.id in detail for detail in failing(home).values())


def test_so_it_is_with_every_kind_of_release(home: Path, tables: dict[str, Any]) -> None:
    learning = {**tables, "test": {"share": 0.4}}
    tallies = {name: part for name, part in tables.items() if name not in ("teachers", "student")}
    start(changed(learning), home)
    start(changed(tallies | {"labeling": {"mechanism": "tallies", "rows": 300}}), home, new_session=True)
    start(changed(tables | {"student": UNIVERSAL}), home, new_session=True)
    start_asking(estimate, changed(tables), home, epsilon=0.5, share=0.3, beta=0.05, again=False)
    questioned(home, tables)
    sessions, ledger = Ledger.of(home).sessions("people"), (home / "ledger.db").read_bytes()
    assert {session.purpose for session in sessions} == PURPOSES
    assert {"stable", "tallies", "universal"} <= {session.mechanism["name"] for session in sessions}
    assert failing(home) == {}
    for session in sessions:
        cut(home, session)
        found = failing(home)
        assert any("certificate" in name or "sessions" in name for name in found), (session.mechanism["name"], found)
        (home / "ledger.db").write_bytes(ledger)

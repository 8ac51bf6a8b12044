"""A ledger that was emptied, cut back, edited or replaced, with its chain made anew, is believed by no command: 4."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.chained import Said, rewrite
from tests.support.people import write_plan, write_tables
from tests.world import Ledger

COMMANDS = {
    "budget": (),
    "plan": ("PLAN",),
    "run": ("PLAN",),
    "extend": ("SESSION", "--public", "PLAN"),
    "estimate": ("PLAN", "--epsilon", "0.2", "--yes"),
    "domain": ("people", "--epsilon", "20", "--delta", "1e-4", "--reason", "more"),
    "close": ("SESSION",),
    "forget": ("SESSION",),
    "erase": ("--domain", "people"),
    "restore": ("--reason", "a backup"),
}


def emptied(home: Path) -> None:
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        database.execute("DELETE FROM entries")
        database.commit()


def cut(home: Path) -> None:
    """The last batch that was answered is gone."""
    rewrite(home, lambda entries: entries.__delitem__(slice(-2, None)))


def raised(home: Path) -> None:
    def higher(entries: list[Said]) -> None:
        entries[0].body["filter"] |= {"epsilon": 30.0}

    rewrite(home, higher)


def replaced(home: Path) -> None:
    """By a new one, as if the home had never been used."""
    (home / "ledger.db").unlink()


CHANGES: dict[Callable[[Path], None], str] = {
    emptied: "which the ledger does not know",
    cut: "answered, and the ledger has",
    raised: "has the cap ε = 9, δ = 4e-05, which domain people never had",
    replaced: "which the ledger does not know",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_no_command_believes_it(
    concord: Callable[..., Any], session: str, home: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """`budget` said that no domain had been named yet, and `run` that the plan was wrong."""
    plan = write_plan(write_tables(tmp_path / "data"), privacy__epsilon=8.0, labeling__cutoff=60)
    words = {"PLAN": str(plan), "SESSION": session}
    status, shown, _ = concord("budget", "--json")
    assert (status, len(json.loads(shown)["domains"])) == (0, 1)
    change(home)
    before = [record.body for record in Ledger.of(home).records()]
    for command, arguments in COMMANDS.items():
        status, _, error = concord(command, *(words.get(word, word) for word in arguments))
        assert (command, status) == (command, 4), error
        assert CHANGES[change] in error, command
    assert [record.body for record in Ledger.of(home).records()] == before
    assert concord("verify")[0] == 4

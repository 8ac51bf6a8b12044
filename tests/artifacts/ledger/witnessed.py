"""A home whose ledger has a witness, what may be done in it, and how an older copy of it is put back."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from concord.artifacts.ledger.ledger import Ledger
from tests.artifacts.ledger.openings import CAP, DOMAIN, batch, named, opening, outcome

RELABELLED: dict[str, Any] = {"mechanism": {"name": "stable", "relabel": {"share": 0.05}}, "per_refusal": None}
"""Terms of a session that answers from its domain's secret subset."""

CHANGES: dict[str, Callable[[Ledger], object]] = {
    "open": lambda ledger: ledger.open_session(opening("other"), further=True),
    "check": lambda ledger: ledger.check_opening(opening("other"), DOMAIN, further=True),
    "plan": lambda ledger: ledger.plan_domain("new", unit="one row", neighbours="none", **CAP),
    "begin": lambda ledger: ledger.begin_batch("one", batch(1, first=100)),
    "replay": lambda ledger: ledger.begin_batch("one", batch(0)),
    "settle": lambda ledger: ledger.settle("one", give_back=True),
    "recap": lambda ledger: ledger.recap("census", 9, 1e-4, "more is needed"),
}


def watched(home: Path) -> Path:
    """A home with one open session, one batch answered; and beside it `old`, a copy of it as it is now."""
    ledger = named(Ledger.of(home))
    ledger.open_session(opening())
    answer(ledger, 0)
    shutil.copytree(home, home.parent / "old")
    return home


def answer(ledger: Ledger, index: int, name: str = "one", refused: int = 1) -> None:
    ledger.begin_batch(name, batch(index, first=100 * index))
    ledger.commit_batch(name, outcome(index, refused=refused))


def put_back(home: Path) -> Ledger:
    """The home as its older copy has it."""
    shutil.rmtree(home)
    shutil.copytree(home.parent / "old", home)
    return Ledger.of(home)


def seen(place: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in place.read_text().splitlines()]

"""Sessions to open, batches to begin and a ledger without a database, for the tests of the ledger."""

from collections.abc import Callable
from typing import Any, TypeVar

from concord import __version__
from tests import world

Answer = TypeVar("Answer")

CAP = {"epsilon": 4.0, "delta": 4e-5}
DOMAIN = world.Domain.frozen("census", unit="one row", neighbours="add or remove one unit", **CAP)
RHO = 1e-3
"""Cost of one refusal, in zero-concentrated DP."""


def refusals(count: int) -> world.Cost:
    """The cost of that many refusals: linear, with a little additive δ."""
    return world.Cost(renyi=world.Cost.gaussian(RHO * count).renyi, delta=1e-8 * count)


def opening(name: str = "one", **changes: Any) -> world.Opening:
    """A session that pays by refusal, ten of them, in the domain `census`."""
    terms: dict[str, Any] = {
        "id": name,
        "domain": "census",
        "purpose": world.LABELS,
        "identity": "settings",
        "commitment": f"key of {name}",
        "ensemble": "teachers",
        "data_version": "1994",
        "mechanism": {"name": "stable", "table": [2**64 - 1, 17], "epsilon": 1.0},
        "epsilon": 1.0,
        "delta": 1e-5,
        "cutoff": 10,
        "queries": None,
        "teachers": 400,
        "version": __version__,
        "whole": refusals(changes.get("cutoff") or 10),
        "per_refusal": refusals(1),
    }
    return world.Opening(**{**terms, **changes})


def charged_by(asked: Any) -> dict[str, Any]:
    """The terms of a session that follow from its mechanism, or from what is asked by it."""
    mechanism = getattr(asked, "mechanism", asked)
    settings = asked.settings() if hasattr(asked, "settings") else asked.model_dump(mode="json")
    ends = {"cutoff": mechanism.cutoff, "queries": mechanism.queries}
    return {"mechanism": settings, "whole": mechanism.cost, "per_refusal": mechanism.per_refusal, **ends}


def session(**changes: Any) -> world.Session:
    """That session, just admitted."""
    return world.Session.charged(opening(**changes), by=DOMAIN.filter)


def batch(index: int = 0, first: int = 0, rows: int = 100, **changes: Any) -> world.Batch:
    """A batch of rows, by default the first of a session."""
    digests = {"question_digest": f"rows from {first}", "exact_digest": f"votes from {first}"}
    return world.Batch(index=index, first=first, rows=rows, **{**digests, **changes})


def outcome(index: int = 0, asked: int = 100, refused: int = 0) -> world.BatchOutcome:
    """What was released for a batch."""
    released = world.Ref(path=f"labels/{index}.arrow", digest="0" * 64)
    return world.BatchOutcome(index=index, asked=asked, answered=asked - refused, refused=refused, released=released)


def named(ledger: world.Ledger) -> world.Ledger:
    """The ledger with the domain `census`, capped at CAP."""
    ledger.name_domain(DOMAIN.name, unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    return ledger


class InMemory(world.Ledger):
    """A ledger without a database: the same decisions, records and folding."""

    def __init__(self) -> None:
        self._state, self._written = world.LedgerState(), list[world.LogRecord]()

    def records(self) -> list[world.LogRecord]:
        return self._written

    def _read(self, ask: Callable[[world.LedgerState], Answer]) -> Answer:
        return ask(self._state)

    def _consider(self, decide: Callable[[world.LedgerState], object]) -> None:
        decide(self._state)

    def _write(
        self, decide: Callable[[world.LedgerState], list[world.Entry]], ask: Callable[[world.LedgerState], Answer]
    ) -> Answer:
        for entry in decide(self._state):
            self._written.append(world.LogRecord.after(self._state.head, entry, at="now"))
            self._state.read(self._written[-1])
        return ask(self._state)

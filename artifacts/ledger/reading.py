"""Reading: queries of a ledger's state, now or as it was after an earlier entry.

Checked by tests/artifacts/ledger/test_ledger.py and tests/privacy/test_looks.py.
"""

from collections.abc import Callable
from typing import TypeVar

from concord.artifacts.domains import Division, Domain
from concord.artifacts.ledger.events import Remark
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.parts import Counted
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Batch, Session

Value = TypeVar("Value")


class Reading:
    """Queries of one state of a ledger. `artifacts.ledger.ledger.Ledger` is a reading that is updated before each."""

    def __init__(self, state: LedgerState) -> None:
        self._state = state

    def domain(self, name: str) -> Domain | None:
        """The domain of that name, if there is one."""
        return self._read(lambda state: state.domains.get(name))

    def domains(self) -> tuple[Domain, ...]:
        """Every domain, in the order they were named."""
        return self._read(lambda state: tuple(state.domains.values()))

    def caps(self, domain: str) -> tuple[tuple[float, float], ...]:
        """Every cap (ε, δ) that the domain has had, in order; none if there is no such domain."""
        return self._read(lambda state: state.caps.get(domain, ()))

    def session(self, name: str) -> Session:
        """The session of that id. Raises WrongInput if there is none."""
        return self._read(lambda state: state.session(name))

    def domain_of(self, session: Session) -> Domain:
        """The domain that a session is charged to: there is one for every session."""
        return self._read(lambda state: state.domain(session.domain))

    def sessions(self, domain: str) -> tuple[Session, ...]:
        """The domain's sessions, in the order they were opened."""
        return self._read(lambda state: state.sessions_of(domain))

    def batches(self, session: str) -> tuple[Batch, ...]:
        """The session's batches so far, with the outcomes of those committed."""
        return self._read(lambda state: state.batches(session))

    def released_by(self, session: str) -> list[Ref]:
        """The files that the session has released so far, in order."""
        return [batch.outcome.released for batch in self.batches(session) if batch.outcome is not None]

    def drawn(self, session: str, name: str) -> str | None:
        """The keyed digest of what a session drew under that name; None if that is not on record."""
        return self._read(lambda state: state.drawn(session, name))

    def restored(self, domain: str) -> bool:
        """Whether the domain went on from an older copy, so that sessions may be missing."""
        return self._read(lambda state: domain in state.restored)

    def goes_on(self, stream: str) -> bool:
        """Whether a later season of that stream would know all units that earlier ones have asked."""
        return self._read(lambda state: state.parts.goes_on(stream))

    def remarks(self, domain: str) -> tuple[Remark, ...]:
        """The remarks on the domain, in order."""
        return self._read(lambda state: state.remarks.on(domain))

    def forgotten(self, domain: str) -> set[str]:
        """The ids of the domain's sessions that were forgotten."""
        return {remark.about for remark in self.remarks(domain) if remark.kind == "forgotten"}

    def total(self, domain: str) -> Charge:
        """Everything settled and reserved in the domain."""
        return self._read(lambda state: state.total(domain))

    def totals(self, domain: str) -> dict[str, Charge]:
        """As `total`, for each part of the domain's units (artifacts.parts)."""
        return self._read(lambda state: state.totals(domain))

    def division(self, domain: str) -> Division | None:
        """How the domain's units are divided, if they are."""
        return self._read(lambda state: state.parts.division(domain))

    def part_of(self, session: str) -> str:
        """The only part of its domain's units that a session touches; empty if it may touch all."""
        return self._read(lambda state: state.parts.of(session))

    def stream_of(self, session: str) -> str:
        """The stream of which a session is a season; empty if it is of none, or may ask units of earlier ones again."""
        return self._read(lambda state: state.parts.stream_of(session))

    def counted(self, domain: str) -> tuple[Counted, ...]:
        """The charges of the domain's sessions in order, each with the part and stream that it counts in."""
        return self._read(lambda state: tuple(map(state.counted, state.sessions_of(domain))))

    def _read(self, ask: Callable[[LedgerState], Value]) -> Value:
        return ask(self._state)

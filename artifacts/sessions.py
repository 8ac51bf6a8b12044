"""The nouns of the ledger beside domains: sessions, batches, and how a session moves from one state to the next.

    open ── begin ── commit ──┬── begin …                  one batch after another, rows never restart
                              ├── settle "spent"           at the cutoff, or at the last row paid for
                              └── settle "closed"          when the operator ends it

Everything here is a frozen value: a step returns the next state or raises, and changes nothing. All but Opening and
Session are written down by the ledger, word for word (`artifacts.ledger.events`). Checked by
tests/artifacts/ledger/test_sessions.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol, Self

from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.privacy import Charge, Cost, compose
from concord.artifacts.schemas import Ref

Status = Literal["open", "spent", "closed"]
NEIGHBOURS = {"rows": "add or remove one unit", "labels": "change the labels of one unit"}
"""Which pairs of tables a claim compares, by what is secret of a unit: its rows, or their labels alone."""
QUESTIONS = "questions"
"""What `mechanism` says a session asks, if shards answer questions in it and no row is labelled."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a session is, fixed when it is opened.

    id            its name
    domain        the domain it is charged to
    identity      keyed digest of the settings it depends on: which session a plan means
    commitment    keyed commitment to the session key; no key serves two sessions
    ensemble      keyed digest of the teachers
    data_version  the plan's name for the state of the private data
    mechanism     public settings, enough to rebuild the mechanism and certify it
    epsilon       the claim at the session's end
    delta         the claim at the session's end
    cutoff        refusals until it ends; None if it does not pay by refusal
    queries       rows it may answer at most; None if the stream may be endless
    teachers      how many vote
    version       of Concord that opened it; empty if that was 0.1.0, which did not say
    part          of the domain's units, the only one it touches; empty if it may touch all (artifacts.parts)
    division      keyed commitment to how units were divided into parts
    """

    id: str
    domain: str
    identity: str
    commitment: str
    ensemble: str
    data_version: str
    mechanism: dict[str, Any] = field(hash=False)
    epsilon: float
    delta: float
    cutoff: int | None
    queries: int | None
    teachers: int
    version: str = ""
    part: str = ""
    division: str = ""

    @property
    def estimates(self) -> bool:
        """Whether it released an estimate to plan by, and answered no row."""
        return self.mechanism.get("name") == "error_estimate"

    @property
    def tests(self) -> bool:
        """Whether it tried a student out on private rows, and answered no row."""
        return self.mechanism.get("name") == "private_test"

    @property
    def asks(self) -> bool:
        """Whether shards answered questions in it, and no row was labelled."""
        return self.mechanism.get("asks") == QUESTIONS

    @property
    def kind(self) -> Literal["labels", "an estimate", "a test of a student", "a choice of a student", "questions"]:
        """What it is for: a run means sessions of the first kind alone, and each other has a command of its own."""
        if self.asks:
            return "questions"
        if self.chooses:
            return "a choice of a student"
        return "an estimate" if self.estimates else "a test of a student" if self.tests else "labels"

    @property
    def chooses(self) -> bool:
        """Whether it chose among candidate students by their errors on private rows, and answered no row."""
        return self.mechanism.get("name") == "student_choice"


@dataclass(frozen=True, kw_only=True)
class Opening(Terms):
    """A session someone asks to open: its terms, its cost at the end, and the cost of one refusal.

    `per_refusal` is None if nothing may return by refusals: mechanisms charged whole, and sessions whose shards were
    relabelled or subsampled. `rounds` has the cost of each row that is an answer by itself, at a cost fixed beforehand;
    empty if they are not.
    """

    whole: Cost
    per_refusal: Cost | None
    rounds: tuple[Cost, ...] = ()

    @classmethod
    def of_all(cls, openings: Sequence[Self]) -> Self:
        """What the ledger is asked that should open all of them, or none: at one price."""
        first, claims = openings[0], [(opening.epsilon, opening.delta) for opening in openings]
        epsilon, delta = map(sum, zip(*claims, strict=True))
        return replace(first, whole=compose([opening.whole for opening in openings]), epsilon=epsilon, delta=delta)


class Charging(Protocol):
    """A domain's filter (artifacts.domains): what a cost is charged, and whether refusals may settle it, or rounds."""

    @property
    def by_refusals(self) -> bool: ...
    def charge(self, cost: Cost) -> Charge: ...


@dataclass(frozen=True, kw_only=True)
class Admission(Terms):
    """A session the filter admitted: what is reserved for it, the charge of one refusal, and that of each round."""

    reserved: Charge
    per_refusal: Charge | None
    rounds: tuple[Charge, ...] = ()

    @classmethod
    def charged(cls, opening: Opening, by: Charging) -> Self:
        """`opening` as a domain with that filter charges it. Raises ValueError if it has no finite charge there."""
        each = opening.per_refusal if by.by_refusals else None
        terms = {term.name: getattr(opening, term.name) for term in fields(Terms)}
        return cls(
            **{**terms, "epsilon": float(opening.epsilon), "delta": float(opening.delta)},
            reserved=by.charge(opening.whole),
            per_refusal=None if each is None else by.charge(each),
            rounds=() if by.by_refusals else tuple(map(by.charge, opening.rounds)),
        )


@dataclass(frozen=True, kw_only=True)
class BatchOutcome:
    """What left the door for a batch: rows asked (answered or refused), and the durable file of released labels."""

    index: int
    asked: int
    answered: int
    refused: int
    released: Ref


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Public rows put to the vote, written down before any draw; digests are keyed.

    index    position in the session, from 0
    first    session-wide index of its first row
    rows     how many
    outcome  what was released, once it was committed
    """

    index: int
    first: int
    rows: int
    rows_digest: str
    votes_digest: str
    outcome: BatchOutcome | None = None


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """The end of a session: what it is charged for good, and why it ended."""

    charge: Charge
    status: Literal["spent", "closed"]


@dataclass(frozen=True, kw_only=True)
class Session(Admission):
    """A session as it stands.

    status    open; spent (cutoff or last row reached); closed (ended by the operator)
    batches   begun so far; also the index of the next one
    next_row  session-wide index of the next new row; never falls
    asked     rows that were answered or refused, in committed batches
    pending   the batch begun and not yet committed
    settled   what it was charged, once it has ended
    """

    status: Status = "open"
    batches: int = 0
    next_row: int = 0
    asked: int = 0
    answered: int = 0
    refused: int = 0
    pending: Batch | None = None
    settled: Charge | None = None

    @classmethod
    def opened(cls, admission: Admission) -> Self:
        """The session just admitted."""
        return cls(**{term.name: getattr(admission, term.name) for term in fields(Admission)})

    @property
    def charge(self) -> Charge:
        """What it counts for in its domain: the whole reservation until it is settled."""
        return self.reserved if self.settled is None else self.settled

    @property
    def exhausted(self) -> bool:
        """Whether the next refusal, or the next row, is not covered."""
        refusals_gone = self.cutoff is not None and self.refused >= self.cutoff
        return refusals_gone or (self.queries is not None and self.asked >= self.queries)

    @property
    def ended(self) -> bool:
        """Whether it draws no more."""
        return self.status != "open" or self.exhausted

    def begin(self, batch: Batch) -> Self:
        """The session with `batch` pending. Raises BudgetRefused if nothing is left, NotVerified out of order."""
        if self.ended:
            raise BudgetRefused(f"session {self.id} has ended ({self.status}): more rows need a further session")
        if self.pending is not None:
            raise NotVerified(f"session {self.id} has batch {self.pending.index} begun and not committed")
        expected = (self.batches, self.next_row)
        if (batch.index, batch.first) != expected or batch.rows < 1 or batch.outcome is not None:
            raise NotVerified(
                f"session {self.id} goes on with batch {expected[0]} at row {expected[1]}, "
                f"got batch {batch.index} of {batch.rows} rows at row {batch.first}"
            )
        return replace(self, pending=batch, batches=self.batches + 1, next_row=self.next_row + batch.rows)

    def commit(self, outcome: BatchOutcome) -> Self:
        """The session with the pending batch committed. Raises NotVerified if the counts cannot be."""
        if self.status != "open" or self.pending is None or self.pending.index != outcome.index:
            raise NotVerified(f"session {self.id} has no batch {outcome.index} to commit")
        after = replace(
            self,
            pending=None,
            asked=self.asked + outcome.asked,
            answered=self.answered + outcome.answered,
            refused=self.refused + outcome.refused,
        )
        complete = outcome.asked == self.pending.rows or (outcome.asked < self.pending.rows and after.exhausted)
        if not complete or not _adds_up(outcome) or after._beyond_its_terms:
            raise NotVerified(f"batch {outcome.index} of session {self.id} has counts that cannot be")
        return after

    def settle(self, settlement: Settlement) -> Self:
        """The session ended. Raises NotVerified if the charge is neither what happened nor the reservation."""
        if self.status != "open" or settlement.charge not in (self.reserved, self.owed(give_back=True)):
            raise NotVerified(f"session {self.id} cannot be settled at that charge")
        return replace(self, status=settlement.status, settled=settlement.charge)

    def owed(self, *, give_back: bool) -> Charge:
        """What it is charged if it ends now: by refusals or rounds if that is allowed and less, else its reservation.

        A pending batch may have been drawn, so each of its rows counts as refused, up to the cutoff, and as a round
        that is paid: a round returns if it was never begun. The reservation and what happened are two bounds on one
        mechanism, each whole: their parts are never mixed.
        """
        if not give_back:
            return self.reserved
        happened = self.reserved
        if self.next_row < len(self.rounds):
            happened = sum(self.rounds[: self.next_row], Charge())
        elif self.per_refusal is not None:
            refusals = self.refused + (0 if self.pending is None else self.pending.rows)
            happened = self.per_refusal.times(refusals if self.cutoff is None else min(refusals, self.cutoff))
        return happened if happened <= self.reserved else self.reserved

    @property
    def _beyond_its_terms(self) -> bool:
        over = self.cutoff is not None and self.refused > self.cutoff
        return over or (self.queries is not None and self.asked > self.queries)


def _adds_up(outcome: BatchOutcome) -> bool:
    return min(outcome.answered, outcome.refused) >= 0 and outcome.answered + outcome.refused == outcome.asked

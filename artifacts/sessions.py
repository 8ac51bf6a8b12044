"""Sessions and batches: the ledger's values besides domains, and how a session moves from one state to the next.

    open ── begin ─ (draw) ─ commit ──┬── begin …            one batch after another, rows never restart
                                      ├── settle "spent"     at the cutoff, or at the last row paid for
                                      └── settle "closed"    when the operator ends it

Everything here is a frozen value: a step returns the next state or raises, and changes nothing. The ledger records all
of them but Opening as they are (`artifacts.ledger.events`), and a session as it was when it was opened. Checked by
tests/artifacts/ledger/test_ledger.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Self

from concord.artifacts.domains import Filter
from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.facts import Facts
from concord.artifacts.privacy import Charge, Cost, compose
from concord.artifacts.schemas import Ref

Status = Literal["open", "spent", "closed"]
LABELS, STUDENT_TEST = "labels", "a test of a student"
"""Purposes of sessions that other records of a home refer to. What is asked says its own (tasks.asks)."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a session, fixed when it is opened.

    id            its name
    domain        the domain it is charged to
    purpose       what it was opened for, in the words of what was asked; a run uses only sessions for `LABELS`
    identity      keyed digest of the settings it depends on, by which a plan finds its session
    commitment    keyed commitment to the session key; no key serves two sessions
    ensemble      keyed digest of the teachers
    data_version  the plan's name for the state of the private data
    mechanism     public settings, enough to rebuild the mechanism and certify it
    epsilon       the claim at the session's end
    delta         the claim at the session's end
    cutoff        refusals until it ends; None if it does not pay by refusal
    queries       the most rows it may answer; None if the stream may be endless
    teachers      the number of voting teachers
    version       the version of Concord that opened it
    part          the only part of the domain's units that it touches; empty if it may touch all (artifacts.parts)
    division      keyed commitment to how units were divided into parts
    stream        the stream of which it is a season; empty if it is of none
    """

    id: str
    domain: str
    purpose: str
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
    version: str
    part: str = ""
    division: str = ""
    stream: str = ""

    @cached_property
    def facts(self) -> Facts:
        """What the settings say of it."""
        return Facts.of(self.mechanism)

    @property
    def asks(self) -> str:
        """What it asks, in the plural: rows, if teachers vote on them; rounds of sums, releases of them, or choices."""
        if self.purpose != LABELS:
            return "rounds" if self.facts.rounds else "questions"
        if self.teachers:
            return "rows"
        return "releases" if self.facts.season else "rounds" if self.facts.rounds else "choices"

    @property
    def relabelled(self) -> bool:
        """Whether it answers from the domain's secret subset, whose rows were relabelled."""
        return self.facts.relabel is not None


@dataclass(frozen=True, kw_only=True)
class Opening(Terms):
    """A session that is asked for: its terms, its cost at the end, and the cost of one refusal.

    `per_refusal` is None if unused refusals return nothing: for mechanisms charged whole, and sessions whose shards
    were relabelled or subsampled.
    """

    whole: Cost
    per_refusal: Cost | None

    @classmethod
    def of_all(cls, openings: Sequence[Self]) -> Self:
        """One opening at the price of all of them, for a ledger that should open all or none."""
        first, claims = openings[0], [(opening.epsilon, opening.delta) for opening in openings]
        epsilon, delta = map(sum, zip(*claims, strict=True))
        return replace(first, whole=compose([opening.whole for opening in openings]), epsilon=epsilon, delta=delta)


@dataclass(frozen=True, kw_only=True)
class BatchOutcome:
    """The release of a batch: rows asked (answered or refused), and the durable file of released labels."""

    index: int
    asked: int
    answered: int
    refused: int
    released: Ref


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Noise that was drawn for the pending batch, recorded before anything made of it is seen.

    name    of the vault's file that keeps it
    digest  keyed, of that file
    """

    name: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One step of a session, such as public rows put to the vote, recorded before any draw; digests are keyed.

    index    position in the session, from 0
    first    session-wide index of its first row
    rows     number of rows
    outcome  its release, once it was committed
    """

    index: int
    first: int
    rows: int
    question_digest: str
    exact_digest: str
    outcome: BatchOutcome | None = None

    def released_as(self, file: Ref, *, answered: int = 1, refused: int = 0) -> BatchOutcome:
        """The outcome released as this file, with the numbers of its rows that were answered and refused."""
        asked = answered + refused
        return BatchOutcome(index=self.index, asked=asked, answered=answered, refused=refused, released=file)


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """The end of a session: its final charge, and why it ended."""

    charge: Charge
    status: Literal["spent", "closed"]


@dataclass(frozen=True, kw_only=True)
class Session(Terms):
    """A session that the filter admitted: what it reserved, and its state.

    reserved     the charge of all of it
    per_refusal  the charge of one refusal; None if unused refusals return nothing

    status    open; spent (cutoff or last row reached); closed (ended by the operator)
    batches   number of batches begun; also the index of the next one
    next_row  session-wide index of the next new row; never decreases
    asked     rows that were answered or refused, in committed batches
    pending   the batch begun and not yet committed
    settled   its final charge, once it has ended
    """

    reserved: Charge
    per_refusal: Charge | None
    status: Status = "open"
    batches: int = 0
    next_row: int = 0
    asked: int = 0
    answered: int = 0
    refused: int = 0
    pending: Batch | None = None
    settled: Charge | None = None

    @classmethod
    def charged(cls, opening: Opening, by: Filter) -> Self:
        """`opening` as charged by a domain's filter. Raises ValueError if it has no finite charge there."""
        per_refusal = opening.per_refusal
        terms = {term.name: getattr(opening, term.name) for term in fields(Terms)}
        return cls(
            **{**terms, "epsilon": float(opening.epsilon), "delta": float(opening.delta)},
            reserved=by.charge(opening.whole),
            per_refusal=None if per_refusal is None else by.charge(per_refusal),
        )

    @property
    def charge(self) -> Charge:
        """Its charge to the domain: the whole reservation until it is settled."""
        return self.reserved if self.settled is None else self.settled

    @property
    def exhausted(self) -> bool:
        """Whether a further refusal or a further row is not paid for."""
        refusals_gone = self.cutoff is not None and self.refused >= self.cutoff
        return refusals_gone or (self.queries is not None and self.asked >= self.queries)

    @property
    def ended(self) -> bool:
        """Whether the session has ended and draws no more."""
        return self.status != "open" or self.exhausted

    def begin(self, batch: Batch) -> Self:
        """The session with `batch` pending. Raises BudgetRefused if nothing is left, NotVerified if out of order."""
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
        """The session with the pending batch committed. Raises NotVerified if the counts are impossible."""
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
        adds_up = min(outcome.answered, outcome.refused) >= 0 and outcome.answered + outcome.refused == outcome.asked
        within_refusals = self.cutoff is None or after.refused <= self.cutoff
        within_rows = self.queries is None or after.asked <= self.queries
        if not (complete and adds_up and within_refusals and within_rows):
            raise NotVerified(f"batch {outcome.index} of session {self.id} has counts that cannot be")
        return after

    def settle(self, settlement: Settlement) -> Self:
        """The session, ended. Raises NotVerified if its charge is neither what happened nor the reservation."""
        if self.status != "open" or settlement.charge not in (self.reserved, self.owed(give_back=True)):
            raise NotVerified(f"session {self.id} cannot be settled at that charge")
        return replace(self, status=settlement.status, settled=settlement.charge)

    def owed(self, *, give_back: bool) -> Charge:
        """The charge if the session ends now: by refusals if allowed and less, otherwise the reservation.

        A pending batch may have been drawn, so each of its rows counts as refused, up to the cutoff. The reservation
        and what happened are two bounds on one mechanism, each of them whole: their parts are never mixed.
        """
        if not give_back or self.per_refusal is None:
            return self.reserved
        refusals = self.refused + (0 if self.pending is None else self.pending.rows)
        happened = self.per_refusal.times(refusals if self.cutoff is None else min(refusals, self.cutoff))
        return happened if happened <= self.reserved else self.reserved


STATE = {"status", "batches", "next_row", "asked", "answered", "refused", "pending", "settled"}
"""Fields of a session that follow from later entries of the ledger: the entry that opens it has none of them."""

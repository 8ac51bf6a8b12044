"""The state of a ledger: the sum of its entries, and which entries may be written next.

`read` folds a record into the state. The methods named for a change (name, recap, divide, remark, restore, hold, open,
begin, commit, settle) decide: each returns the entries to write, none if all of it is on record already, or raises one
sentence. Deciding never changes the state: only what has been written and read back counts. Checked by
tests/artifacts/ledger/test_ledger.py, and against a model, with planted faults, by
tests/artifacts/ledger/test_ledger_model.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from concord.artifacts.domains import Division, Domain, NewCap, amount
from concord.artifacts.errors import BudgetRefused, ConcordError, NotCovered, NotVerified, WrongInput
from concord.artifacts.ledger.events import Entry, LogRecord, Remark, Remarks, Restoration
from concord.artifacts.parts import Counted, Parts, by_part, largest
from concord.artifacts.privacy import Charge
from concord.artifacts.sessions import Batch, BatchOutcome, Draw, Opening, Session, Settlement, Terms

CAP = ("lifetime.epsilon", "lifetime.delta")
KEPT = "a domain keeps it; for another one, name another domain in the plan"
TERMS_DIFFER = {
    **dict.fromkeys(("unit", "neighbours"), KEPT),
    **dict.fromkeys(CAP, "the plan that first named it set it so: write that, or let `concord domain` change it"),
}
"""Hints for each field in which a plan's domain differs from the one on record."""


class LedgerState:
    """Domains, sessions and batches, as the records read so far leave them.

    head       the last of those records
    caps       every (ε, δ) that was set as a domain's cap, in order; all but the first by `concord domain`
    restored   domains that went on from an older copy
    """

    def __init__(self) -> None:
        self.head: LogRecord | None = None
        self.domains: dict[str, Domain] = {}
        self.caps: dict[str, tuple[tuple[float, float], ...]] = {}
        self.sessions: dict[str, Session] = {}
        self.remarks = Remarks()
        self.restored = set[str]()
        self.parts = Parts()
        self._batches: dict[str, list[Batch]] = {}
        self._draws: dict[str, dict[str, str]] = {}

    @property
    def length(self) -> int:
        """The number of records read."""
        return 0 if self.head is None else self.head.seq

    def read(self, record: LogRecord) -> None:
        """Fold the next record in. Raises NotVerified naming it if it cannot follow those before."""
        try:
            self._enter(record.entry_after(self.head))
        except ConcordError as wrong:
            raise NotVerified(
                f"entry {record.seq!r} ({record.kind!r}) of the ledger does not verify: {wrong}"
            ) from None
        self.head = record

    def _enter(self, entry: Entry) -> None:
        match entry.event:
            case Domain() as domain:
                _require((domain.name, "") == (entry.domain, entry.session) and domain.name not in self.domains)
                self._cap(domain)
            case NewCap() as recap:
                recorded = self.domain(entry.domain)
                self._cap(replace(recorded, filter=recap.filter))
            case Division() as division:
                _require(entry.session == "" and self.divide(entry.domain, division) == [entry])
                self.parts.divide(entry.domain, division)
            case Remark() as remark:
                _require(entry.session == "" and self.remark(entry.domain, remark) == [entry])
                self.remarks.add(entry.domain, remark)
            case Restoration():
                _require(entry.session == "" and entry.domain in self.domains)
                self._restore(entry.domain)
            case Session() as opened:
                _require((opened.domain, opened.id) == (entry.domain, entry.session))
                _require(opened.domain in self.domains and opened.id not in self.sessions)
                self.sessions[opened.id] = opened
                self.parts.enter(opened)
                self._batches[opened.id], self._draws[opened.id] = [], {}
            case step:
                self._step(self.session(entry.session), entry.domain, step)

    def _cap(self, domain: Domain) -> None:
        self.domains[domain.name] = domain
        self.caps[domain.name] = (*self.caps.get(domain.name, ()), (domain.filter.epsilon, domain.filter.delta))

    def _step(self, session: Session, domain: str, step: Batch | Draw | BatchOutcome | Settlement) -> None:
        _require(session.domain == domain)
        batches = self._batches[session.id]
        match step:
            case Batch():
                self.sessions[session.id] = session.begin(step)
                batches.append(step)
            case Draw():
                _require(self.draw(session.id, step) != [])
                self._draws[session.id][step.name] = step.digest
            case BatchOutcome():
                self.sessions[session.id] = session.commit(step)
                batches[step.index] = replace(batches[step.index], outcome=step)
            case Settlement():
                self.sessions[session.id] = session.settle(step)

    def _restore(self, domain: str) -> None:
        """Charge the domain's open sessions whole and close them: how far they went elsewhere is not known."""
        self.restored.add(domain)
        for session in self.sessions_of(domain):
            self.parts.lose(session.id)
            if session.status == "open":
                whole = Settlement(charge=session.reserved, status="closed")
                self.sessions[session.id] = session.settle(whole)

    def having(self, domain: Domain) -> "LedgerState":
        """This state; if it does not name the domain yet, a state that holds only that domain."""
        if domain.name in self.domains:
            return self
        alone = LedgerState()
        alone.domains[domain.name] = domain
        return alone

    def domain(self, name: str) -> Domain:
        """The domain of that name. Raises WrongInput if there is none."""
        if name not in self.domains:
            raise WrongInput(f"the ledger has no domain {name!r}: `concord budget` lists those there are")
        return self.domains[name]

    def session(self, name: str) -> Session:
        """The session of that id. Raises WrongInput if there is none."""
        if name not in self.sessions:
            raise WrongInput(f"the ledger has no session {name!r}: `concord budget` lists those there are")
        return self.sessions[name]

    def sessions_of(self, domain: str) -> tuple[Session, ...]:
        """The domain's sessions, in the order they were opened."""
        return tuple(session for session in self.sessions.values() if session.domain == domain)

    def batches(self, session: str, first: int = 0, end: int | None = None) -> tuple[Batch, ...]:
        """The session's batches from that one on, or before `end`, with the outcomes of those committed. Raises
        WrongInput if there is no such session."""
        return tuple(self._batches[self.session(session).id][first:end])

    def batch(self, session: str, index: int) -> Batch | None:
        """One of the session's batches, if it was begun. Raises WrongInput if there is no such session."""
        batches = self._batches[self.session(session).id]
        return batches[index] if 0 <= index < len(batches) else None

    def total(self, domain: str) -> Charge:
        """Everything settled and reserved in the domain; of its parts, the most, and of a stream's seasons."""
        return largest(self.totals(domain))

    def counted(self, session: Session) -> Counted:
        """A session's charge, with the part and stream that it counts in."""
        return Counted(self.parts.of(session.id), self.parts.stream_of(session.id), session.charge)

    def totals(self, domain: str, *also: Counted) -> dict[str, Charge]:
        """As `total`, for each part of the domain's units; `also` are further charges."""
        return by_part([*map(self.counted, self.sessions_of(domain)), *also])

    def total_with(self, opening: Opening) -> Charge:
        """The domain's total after a further session. Raises BudgetRefused if its cost is infinite."""
        name, part, stream = opening.domain, self.parts.touched_by(opening), self.parts.continued_by(opening)
        try:
            also = Counted(part, stream, self.domain(name).filter.charge(opening.whole))
            return largest(self.totals(name, also))
        except ValueError as infinite:
            raise BudgetRefused(f"domain {name!r} cannot cover this session: {infinite}") from None

    def name(self, domain: Domain) -> list[Entry]:
        """Name a domain, once; later plans must agree, except on a cap that `concord domain` has changed since: the
        changed cap holds. Raises WrongInput naming the field that differs."""
        recorded = self.domains.get(domain.name)
        if recorded is None:
            return [Entry(domain=domain.name, event=domain)]
        changed = CAP if len(self.caps[domain.name]) > 1 else ()
        for field, frozen, given in (
            ("unit", recorded.unit, domain.unit),
            ("neighbours", recorded.neighbours, domain.neighbours),
            ("lifetime.epsilon", recorded.filter.epsilon, domain.filter.epsilon),
            ("lifetime.delta", recorded.filter.delta, domain.filter.delta),
        ):
            if frozen != given and field not in changed:
                rule = f"{field} of domain {domain.name!r} is {frozen!r} on the record, got {given!r}"
                raise WrongInput(f"{rule}: {TERMS_DIFFER[field]}")
        return []

    def recap(self, name: str, epsilon: float, delta: float, reason: str) -> list[Entry]:
        """Change a domain's cap. Raises BudgetRefused if more than that is charged already."""
        changed = self.domain(name).recapped(epsilon, delta)
        if not changed.filter.admits(self.total(name)):
            raise BudgetRefused(
                f"domain {name!r} cannot be capped at {amount(epsilon, delta)}: "
                f"it is charged {amount(*changed.filter.spent(self.total(name)))} already"
            )
        return [Entry(domain=name, event=NewCap(filter=changed.filter, reason=reason))]

    def divide(self, name: str, division: Division) -> list[Entry]:
        """Divide a domain, once. Raises WrongInput if it is divided by another share or naming rule."""
        self.domain(name)
        return [Entry(domain=name, event=division)] if self.parts.is_new(name, division) else []

    def remark(self, name: str, remark: Remark) -> list[Entry]:
        """Add a remark on a domain; none if it has the same one already. Raises WrongInput if it cannot be true."""
        self.domain(name)
        match remark.kind:
            case "forgotten":
                session = self.session(remark.about)
                if session.domain != name or session.status == "open":
                    raise WrongInput(f"session {session.id} must be an ended one of domain {name!r} to be forgotten")
            case "holds":
                self.remarks.check_holding(name, (remark.about,))
            case "secret":
                self.remarks.check_secret(name, remark)
        return [] if self.remarks.has(name, remark) else [Entry(domain=name, event=remark)]

    def restore(self, reason: str) -> list[Entry]:
        """Go on from an older copy, in every domain. Raises WrongInput if there is none."""
        if not self.domains:
            raise WrongInput("nothing is to be restored: the ledger has no domain")
        return [Entry(domain=name, event=Restoration(reason=reason)) for name in self.domains]

    def hold(self, name: str, files: Iterable[str]) -> list[Entry]:
        """Remark that the domain holds those files, by keyed digest. Raises WrongInput if another domain does."""
        remarks = [Remark(kind="holds", about=file) for file in dict.fromkeys(files)]
        return [entry for remark in remarks for entry in self.remark(name, remark)]

    def price(self, opening: Opening) -> str:
        """Words saying what a session would cost. Raises BudgetRefused if its cost is infinite."""
        domain, claim = self.domain(opening.domain), (opening.epsilon, opening.delta)
        return domain.price(claim, self.total(domain.name), self.total_with(opening))

    def open(self, opening: Opening, *, further: bool) -> list[Entry]:
        """Open a session, if the domain's filter admits it. Raises BudgetRefused with its cost and what remains."""
        domain = self.domain(opening.domain)
        if opening.id in self.sessions:
            raise WrongInput(f"the ledger has a session {opening.id!r} already")
        if any(opening.commitment == session.commitment for session in self.sessions.values()):
            raise NotVerified(f"the key of session {opening.id!r} has served another session: keys are never reused")
        price, after = self.price(opening), self.total_with(opening)
        if opening.relabelled:
            self._check_subset(domain.name)
        if not domain.filter.admits(after):
            raise NotCovered(
                f"the budget does not cover it, unless the plan asks less or `concord domain` raises the cap: {price}"
            )
        seasons = [season for season in self.sessions_of(domain.name) if self.follows(opening, season)]
        if any(season.status == "open" for season in seasons):
            raise BudgetRefused(f"a season of stream {opening.stream!r} is open: the next begins when it has ended")
        alike = any(season.purpose == opening.purpose for season in self.sessions_of(domain.name))
        if alike and not further and not seasons:
            raise BudgetRefused(f"a further session must be asked for with --new-session: {price}")
        return [Entry(domain=domain.name, session=opening.id, event=Session.charged(opening, by=domain.filter))]

    def follows(self, opening: Terms, session: Session) -> bool:
        """Whether a session that was opened now would be a later season of the stream of `session`."""
        stream = self.parts.continued_by(opening)
        return stream != "" and stream == self.parts.stream_of(session.id)

    def _check_subset(self, domain: str) -> None:
        """Raise BudgetRefused if a session has answered from the domain's secret subset, or a lost one may have.

        One session may answer from it: with e₁ and e₂ spent on the subset, the domain spends ln(1 + q·(e^(e₁+e₂) − 1)),
        which is more than the two amplified separately and added. Sessions over all rows compose with it as usual: who
        is in the subset is drawn independently of everything they draw.
        """
        answered = any(session.relabelled for session in self.sessions_of(domain))
        if answered or domain in self.restored:
            past = "has answered" if answered else "may have answered, in a session that is lost,"
            raise BudgetRefused(
                f"domain {domain!r} {past} from its secret subset, and what is learned from one subset twice is not "
                "amplified for each by itself: a plan without [relabel] may open further sessions in it"
            )

    def begin(self, name: str, batch: Batch) -> list[Entry]:
        """Begin a batch before its draw; none if the same batch is on record, to be replayed or drawn alike."""
        session, recorded = self.session(name), self.batch(name, batch.index)
        if recorded is None:
            session.begin(batch)
            return [Entry(domain=session.domain, session=name, event=batch)]
        for what, differs in (
            ("position", (recorded.first, recorded.rows) != (batch.first, batch.rows)),
            ("question", recorded.question_digest != batch.question_digest),
            ("exact answer", recorded.exact_digest != batch.exact_digest),
        ):
            if differs:
                raise NotVerified(f"the {what} of batch {batch.index} of session {name} changed since it was begun")
        if recorded.outcome is None and session.status != "open":
            closed = f"session {name} was closed before its batch {batch.index} was released"
            raise BudgetRefused(f"{closed}: another one, which costs again, must be asked for with --new-session")
        return []

    def drawn(self, name: str, draw: str) -> str | None:
        """The digest of a draw of the session, by the draw's name, if it is on record."""
        return self._draws[self.session(name).id].get(draw)

    def draw(self, name: str, draw: Draw) -> list[Entry]:
        """Record what was drawn for the pending batch; none if it is on record. Raises NotVerified if another is."""
        session, recorded = self.session(name), self.drawn(name, draw.name)
        if recorded == draw.digest:
            return []
        if recorded is not None or session.status != "open" or session.pending is None:
            raise NotVerified(
                f"the vault holds other noise of session {name} ({draw.name}) than was drawn: another copy of the "
                f"vault was in use; put that in its place, or end the session by `concord close --whole {name}`"
            )
        return [Entry(domain=session.domain, session=name, event=draw)]

    def commit(self, name: str, outcome: BatchOutcome) -> list[Entry]:
        """Commit the pending batch's release, and settle the session if that was its last."""
        session, recorded = self.session(name), self.batch(name, outcome.index)
        if recorded is not None and recorded.outcome is not None:
            if recorded.outcome != outcome:
                raise NotVerified(f"batch {outcome.index} of session {name} was committed with another outcome")
            return []
        after = session.commit(outcome)
        events: list[BatchOutcome | Settlement] = [outcome]
        if after.exhausted:
            events.append(Settlement(charge=after.owed(give_back=True), status="spent"))
        return [Entry(domain=session.domain, session=name, event=event) for event in events]

    def settle(self, name: str, *, give_back: bool) -> list[Entry]:
        """Settle an open session; none if it has ended."""
        session = self.session(name)
        if session.status != "open":
            return []
        settlement = Settlement(charge=session.owed(give_back=give_back), status="closed")
        return [Entry(domain=session.domain, session=name, event=settlement)]


def _require(consistent: bool) -> None:
    if not consistent:
        raise NotVerified("it contradicts the entries before")

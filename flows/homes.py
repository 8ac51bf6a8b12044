"""The flow of `concord contribute`: one of several homes answers the newest question of their lead.

    question ─ checked ─ agreed to, once ─ bound on record ─ gather ─ tally ─┃ release ─ share, signed ─ exchange

Nothing private is read before the question is bound, but what an operator at a terminal is shown of the own table
before agreeing. It is safe in cron: each call answers what is asked now, once, and
a killed one is finished by the next, with the same question and the same noise.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from prefect import flow

from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused, NotVerified, WrongInput
from concord.artifacts.home.signing import SigningKey
from concord.artifacts.kinds import Tallies
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import canonical_json
from concord.artifacts.sessions import Session
from concord.flows.admit import begin, precheck_tables, say_of_cap
from concord.flows.console import confirmed, err, may_ask
from concord.flows.run import Admitted, Balance, ExactNumbers, PrivateFiles, PublicStream, RunContext, running
from concord.flows.stages import encode
from concord.flows.tally import code, gather, tally
from concord.tasks.advice.tallies import planned_sizes
from concord.tasks.asking.tally import columns_asked
from concord.tasks.asks.joint import check_public
from concord.tasks.asks.share import (
    Answered,
    Asked,
    Letter,
    ShareAsk,
    bind,
    bound,
    check_asked,
    check_own,
    homes_of,
    own_shares,
    plan_digest,
    questions_in,
    sessions_of_run,
)
from concord.tasks.data.codes import deepens
from concord.tasks.data.exchange import Exchange
from concord.tasks.data.sources import not_local, with_snapshots
from concord.tasks.data.units import private_table
from concord.tasks.door.admit import claim, on_record, opening_of, planned_domain, reserve_session
from concord.tasks.door.door import released_by
from concord.tasks.door.keys import ready_secret
from concord.tasks.publish.certify import certify_answers


@flow(name="contribute", flow_run_name="contribute {plan.privacy.domain} {name}")
def contribute(
    plan: Plan, home: Path, exchange: str, name: str, new_session: bool = False, agreed: bool = False
) -> dict[str, Any]:
    """Answer the newest question of a run once, as the home of that name; or say that nothing is asked.

    new_session   take part in a further run of the plan, which costs again
    agreed        the operator has agreed to the plan, and to what it costs
    """
    homes, post = homes_of(plan), Exchange(exchange)
    there = "://" in str(plan.data.public) or Path(plan.path("public")).exists()
    public = plan.model_copy(update={"data": plan.data.model_copy(update={"private": "", "test": None})})
    with running(public, home, new_session=new_session) as run:
        key = SigningKey.of(run.stores.vault).public.raw.hex()
        if key != homes.key_of(name):
            raise WrongInput(f"--as {name} needs the home with the key {homes.key_of(name)}; this one's is {key}")
        run.wait_for(run.stores.vault.digest("share", name, plan_digest(plan)))
        check_own(run.stores, post, homes, name)
        questions, refused = questions_in(post, plan)
        if not questions and refused:
            raise NotVerified("{}: {}".format(*next(iter(refused.items()))))
        status: dict[str, Any] = {"home": name, "answered": None, "answered_now": False, "refused": refused}
        if not questions:
            return {**status, "missing": "the lead has asked nothing yet"}
        return status | Contribution(run, plan, name, key, post, questions[max(questions)], there).made(agreed)


@dataclass
class Contribution:
    """One home's answer to one question.

    there   whether the home has the public table
    """

    run: RunContext
    plan: Plan
    name: str
    key: str
    post: Exchange
    letter: Letter[Asked]
    there: bool

    @property
    def asked(self) -> Asked:
        """The question."""
        return self.letter.content

    def made(self, agreed: bool) -> dict[str, Any]:
        """Answer, or replay. Raises NotVerified, BudgetRefused or WrongInput before anything private is read."""
        run, stores, asked = self.run, self.run.stores, self.asked
        domain = planned_domain(stores, run.plan)
        balance = Balance.of(run, domain)
        known = sessions_of_run(stores.ledger, domain.name, self.name, run=asked.run)
        session = run.lock_session(known[-1].id) if known else None
        if session and session.id in stores.ledger.forgotten(domain.name):
            raise BudgetRefused(f"session {session.id} was forgotten: {self.name} takes no further part in this run")
        kept = own_shares(stores, session) if session else ()
        own = {each.content.number: each for each in (Letter.read(file, Answered, self.key) for file in kept)}
        if session and asked.number in own:
            if own[asked.number].content.question != self.letter.digest:
                raise NotVerified(
                    "the lead signed another question of this number than the one that this home answered"
                )
            return self._posted(session, own[asked.number].data, balance, now=False)
        share = check_asked(asked, self.plan, self.name, own, bound(stores.ledger, domain.name, asked.run))
        codes, ask = self._codes(session), ShareAsk.of(asked, share, self.name, self.key)
        if session and deepens(asked.codes):
            ask = replace(ask, codes=session.kind.only(Tallies).codes)
        if session is None:
            session = self._opened(domain, ask, agreed)
        elif canonical_json(session.mechanism) != canonical_json(ask.as_recorded(session.mechanism).settings()):
            raise NotVerified(f"the question changes the codes, rounds or rows that the run {asked.run} began with")
        else:
            ask = on_record(stores, session, ask)
        bind(stores.ledger, domain.name, asked, self.letter.digest)
        return self._posted(session, self._answered(session, ask, balance, codes), balance, now=True)

    def _opened(self, domain: Domain, ask: ShareAsk, agreed: bool) -> Session:
        """A session for the run, once the operator has agreed to the plan."""
        run, stores, encoding = self.run, self.run.stores, self.asked.encoding
        say_of_cap(run, domain)
        opening = opening_of(run.plan, ask, encoding, stores.vault)
        stores.ledger.check_opening(opening, domain, further=run.new_session)
        if "private" not in not_local(self.plan):  # refuses here, before anything is spent
            private_table(self.plan).check(columns_asked(self.plan, encoding))
        share = domain.filter.share(domain.filter.charge(opening.whole))
        err.print(
            f"{'agree':>8} plan {plan_digest(self.plan)[:12]}, as {self.name}: {ask.queries} "
            f"rounds cost ε = {ask.epsilon:g}, δ = {ask.delta:g} for {domain.unit}, "
            f"{share:.1%} of the lifetime budget of {domain.name}",
            soft_wrap=True,
        )
        if not agreed and may_ask():
            private = self._private()
            precheck_tables(self.run, private, encoding, None)  # for who sits there, and nobody else
        if not agreed and not (may_ask() and confirmed("agree to this plan, and spend")):
            raise BudgetRefused(
                f"the plan needs the agreement, once, of those responsible for {self.name}: read it, and give --yes"
            )
        session = reserve_session(stores, run.plan, opening, (), new_session=run.new_session)
        return run.lock_session(session.id)

    def _codes(self, session: Session | None) -> Literal["recomputed", "declared"]:
        """How the codes of the question are known. Raises NotVerified if they are not those of the public table."""
        run, asked = self.run, self.asked
        if not self.there or (session and deepens(asked.codes)):  # those follow from labels, by a network
            return "declared"
        check_public(run.plan, homes_of(self.plan))
        public = encode(run, run.plan, run.files("public"))
        sizes = planned_sizes(run.plan, public.encoding)
        if code(run, public.encoding, public.batches, sizes) != asked.codes:
            raise NotVerified("the codes of the question are not those of the public table that the plan names")
        return "recomputed"

    def _answered(
        self, session: Session, ask: ShareAsk, balance: Balance, codes: Literal["recomputed", "declared"]
    ) -> bytes:
        asked, private = self.asked, self._private()
        run = self.run
        claim(run.stores, run.plan, private.files)
        units = gather(run, run.plan, private.read_by(asked.encoding), asked.codes)
        counted = tally(run, units, asked.question.record())
        admitted = Admitted(balance, ask, PublicStream(asked.encoding, ()), session)
        begin(run, admitted, private, ExactNumbers((), [*units, *counted]))

        def work() -> tuple[bytes, bool]:
            return ask.answer(run.stores, session, self.letter, counted, codes), False

        found: bytes = run.stages.uncached("release", work)
        return found

    def _private(self) -> PrivateFiles:
        """This home's table, which is part of the run from now on; one that is not local is copied to the vault first.
        Raises WrongInput if it is another domain's, or public."""
        run, named = self.run, {name: table for name, table in not_local(self.plan).items() if name == "private"}
        ready_secret(run.stores, self.plan.privacy.domain)
        table = with_snapshots(self.plan, run.stores.vault, "private").data.private
        own = run.plan.model_copy(update={"data": run.plan.data.model_copy(update={"private": table})})
        self.run = run = replace(run, plan=own, named={**run.named, **named})
        data = own.data.model_copy(update={} if self.there else {"public": None})
        return PrivateFiles.of(replace(run, plan=own.model_copy(update={"data": data})), ())

    def _posted(self, session: Session, share: bytes, balance: Balance, *, now: bool) -> dict[str, Any]:
        """Certify the share, and write it to the exchange; what is published is of the clock's next tick."""
        stores, tick = self.run.stores, homes_of(self.plan).tick
        if now and tick:
            time.sleep(-time.time() % tick)
        stores.released.restamp(released_by(stores, session.id))  # their times told how long it counted
        certificate = certify_answers(session.id, stores)
        file = self.post.write(f"share-{self.asked.number}-{self.name}", share)
        return {
            "answered": self.asked.number,
            "answered_now": now,
            "rounds": self.asked.mechanism.queries,
            "session": session.id,
            "file": file,
            "certificate": str(stores.released.root / certificate.path),
            **balance.charged(self.run),
        }

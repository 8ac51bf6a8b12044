"""The flow of `concord lead`: several homes are asked, round after round, and a student learns from the sum of their
shares.

    question ─ shares of the homes, checked ─ added ─┃ release ─ the next question … infer ─ study ─ certify

There is no private row in it. It is safe in cron: each call does what can be done now, and says who is missing; a
killed one is finished by the next.
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts import kinds
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.signing import SigningKey
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import PublicRows, canonical_json
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.flows import tally
from concord.flows.admit import admit, begin
from concord.flows.cache import Files
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext, running
from concord.flows.stage import pass_door
from concord.flows.stages import encode
from concord.flows.steps import publish
from concord.tasks.asks.joint import (
    JointAsk,
    SharesOfRound,
    accepted,
    check_public,
    differing,
    joint_step,
    last_of,
    of_round,
    units_of,
)
from concord.tasks.asks.share import (
    Answered,
    Asked,
    Letter,
    ModelRecord,
    homes_of,
    plan_digest,
    questions_in,
)
from concord.tasks.data.codes import deepens
from concord.tasks.data.exchange import Exchange
from concord.tasks.door.admit import planned_domain, terms_of
from concord.tasks.door.door import Step, released_by
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.homes import Joint
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.infer import RoundFile, RoundPlanner
from concord.tasks.verify.limited import VERIFY_SHARE, limited

NO_ROWS = PrivateFiles(Files("", ()), {})


@dataclass
class Missing(Exception):
    """Some homes have not answered the question of that number; for shares that were refused, the reason."""

    number: int
    homes: list[str]
    refused: dict[str, str]


@dataclass(frozen=True)
class Leading:
    """A run of several homes, by its lead.

    public    the encoding, and the public rows
    digest    of the plan
    without   homes whose rows are left out from now on
    """

    run: RunContext
    public: PublicRows
    post: Exchange
    digest: str
    without: Sequence[str]

    @property
    def id(self) -> str:
        """The name of the run, made once."""
        vault = self.run.stores.vault
        return vault.read(vault.keep(f"homes/{self.digest}/run", lambda: secrets.token_hex(16).encode())).decode()

    def ask(self, session: Session | None) -> JointAsk:
        """The question to all homes together, and their joint claim."""
        asked, agreed = tally.ask_now(self.run, self.public, session), agreed_in(self.run.plan, self.id, self.digest)
        joint = Joint.of(asked.mechanism, homes_of(self.run.plan).a_person_in)
        claimed = JointAsk(joint, asked.codes, asked.public, agreed, asked.mechanism)
        return replace(claimed, bounds=asked.bounds, coded=asked.coded)

    def go_on(self) -> Summary:
        """Write the next question; or publish what follows from all of them. Raises Missing."""
        run, public = self.run, self.public
        tally.rehearse(run, public.encoding)
        domain = planned_domain(run.stores, run.plan)
        asked = tally.as_asked_before(run, public, domain, self.ask)
        (admitted,) = admit(run, domain, [asked], public)
        session, missing = begin(run, admitted, NO_ROWS, ExactNumbers((), ())), list[Missing]()
        passed = pass_door(run, session, partial(self._steps, admitted, missing))
        for homes in missing:
            raise homes
        learned = tally.labelled(run, admitted, passed)
        return publish(learned, tally.fit(learned, session.id))

    def _steps(
        self, admitted: Admitted[JointAsk], missing: list[Missing], stores: Stores, session: Session
    ) -> Iterator[Step[Ints]]:
        """The rounds in order, each with the shares that answered its question; they end where shares are missing."""
        ask, homes, rounds, published = admitted.ask, homes_of(self.run.plan), list[SharesOfRound](), list[RoundFile]()
        planner = tally.planner_of(self.run, admitted, ask.coded, ())
        joint = Joint.of(ask.each, homes.a_person_in)
        for number in range(len(ask.each.rounds)):
            next_question = partial(self._next, planner, published, rounds)
            letter = self._question(session, ask.each, number, next_question)
            last = rounds[-1].shares if rounds else {}
            taking = [name for name in last or homes.names if name not in self.without]
            of = self._shares(session, letter, last_of(last), taking)
            if isinstance(of, Missing):
                missing.append(of)
                return
            rounds.append(of)
            units = {name: units_of(name, rounds) for name in rounds[0].shares}
            part = sum(units[name] for name in of.shares) / sum(units.values())
            scaled = joint.scaled(len(of.shares))
            follow = partial(self._follow, of, replace(planner, mechanism=scaled), [*published], part)
            differ = [] if deepens(of.asked.codes) else differing(of, units, planner.rows)
            yield joint_step(stores, session, of, differ, follow)
            published.append(json.loads(stores.released.read(released_by(stores, session.id)[number])))

    def _next(
        self, planner: RoundPlanner, published: Sequence[RoundFile], rounds: Sequence[SharesOfRound]
    ) -> dict[str, Any]:
        """The next round's question, and what it builds on. Its encoding is that of the first one, to the bit."""
        question = planner.question(published)
        return {
            "encoding": rounds[0].asked.encoding if rounds else self.public.encoding,
            "before": rounds[-1].letter.digest if rounds else "",
            "shares": tuple({name: own.digest for name, own in each.shares.items()} for each in rounds),
            "codes": planner.codes_after(published),
            "fields": question.fields,
            "model": None if question.model is None else ModelRecord(**question.model.record()),
        }

    @staticmethod
    def _follow(
        of: SharesOfRound, planner: RoundPlanner, published: Sequence[RoundFile], part: float, total: Ints
    ) -> dict[str, Any]:
        """A round's file without its shares, with a planner that knows the noise of their sum."""
        scale = planner.mechanism.rounds[of.asked.number].scale
        follows = planner.follow(published, of.asked.question, total, part=part)
        return {**of_round(of, scale, part, total), **follows}

    def _question(
        self, session: Session, each: Tallies, number: int, made: Callable[[], dict[str, Any]]
    ) -> Letter[Asked]:
        """The question of that number, signed once and given to the homes; `made` gives what is asked."""
        vault, key = self.run.stores.vault, SigningKey.of(self.run.stores.vault)

        def signed() -> bytes:
            content = Asked(
                run=self.id,
                number=number,
                plan=self.digest,
                homes=homes_of(self.run.plan),
                mechanism=each,
                **made(),
            )
            return Letter.signed(content, key).data

        data = vault.read(vault.keep(f"sessions/{session.id}/question-{number:05d}.json", signed))
        self.post.write(f"question-{number}", data)
        return Letter.read(data, Asked, key.public.raw.hex())

    def _shares(
        self, session: Session, letter: Letter[Asked], before: Mapping[str, tuple[int, str]], taking: Sequence[str]
    ) -> SharesOfRound | Missing:
        """The shares that a question is decoded with, once they are on record no others; or who is missing.

        before   the last share of each home, as `last_of` gives them
        taking   the homes whose shares are waited for
        """
        stores, homes, number = self.run.stores, homes_of(self.run.plan), letter.content.number
        path = f"sessions/{session.id}/shares-{number:05d}.json"
        kept = stores.vault.take(path)
        if kept is None:
            domain = stores.ledger.domain_of(session)
            unit = domain.unit, domain.neighbours
            found, refused = accepted(self.post, homes, letter, before)
            heard, unfit = publishable(found, letter, session.kind.only(kinds.Joint), unit)
            if missing := [name for name in taking if name not in heard]:
                reasons = {name: why for name, why in (refused | unfit).items() if name in missing}
                return Missing(number, missing, reasons)
            if not taking:
                raise WrongInput("--without must leave a home whose rows are learned from")
            taken = canonical_json({name: heard[name].data.decode() for name in taking})
            kept = stores.vault.keep(path, taken.encode), taken.encode()
        texts = json.loads(stores.vault.read(kept[0]))
        shares = {name: Letter.read(text.encode(), Answered, homes.key_of(name)) for name, text in texts.items()}
        return SharesOfRound(letter, shares)


def agreed_in(plan: Plan, run: str, digest: str) -> dict[str, Any]:
    """The agreement between the homes of a run; `digest` is that of their plan."""
    homes, claim = homes_of(plan), {"epsilon": plan.privacy.epsilon, "delta": plan.privacy.delta}
    members = homes.model_dump(mode="json", include={"names", "public_keys", "people"})
    return {"run": run, "plan": digest, **members, "lead": homes.lead_key, "claim": claim}


def publishable(
    found: Mapping[str, Letter[Answered]], letter: Letter[Asked], kind: kinds.Joint, unit: tuple[str, str]
) -> tuple[dict[str, Letter[Answered]], dict[str, str]]:
    """Those of the shares, by home, with which the publication would verify; and why it would not with others.

    kind, unit      of all homes together; the unit with its neighbours
    """
    common = kind.model_dump(mode="json", by_alias=True, exclude_unset=True), unit
    due = {"number": letter.content.number, "question": letter.digest, "question_before": letter.content.before}
    shares = {name: json.loads(own.content.model_dump_json()) for name, own in found.items()}
    checked = limited(*((VERIFY_SHARE, (*common, share, {**due, "home": name})) for name, share in shares.items()))
    unfit = {name: check.detail for name, (check,) in zip(shares, checked, strict=True) if not check.ok}
    return {name: own for name, own in found.items() if name not in unfit}, unfit


@flow(name="lead", flow_run_name="lead {plan.privacy.domain}")
def lead(plan: Plan, home: Path, exchange: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """Write the next question to all homes; or, once the last is answered, publish the classifier that follows.

    exchange   the folder or address through which homes and lead communicate
    without    homes whose rows are left out from now on
    Returns who is missing, or the summary of what was published.
    """
    homes, post, privacy = homes_of(plan), Exchange(exchange), plan.privacy
    for name in without:
        homes.key_of(name)
    check_public(plan, homes)
    several = homes.a_person_in
    lifetime = privacy.lifetime.model_copy(
        update={"epsilon": several * privacy.lifetime.epsilon, "delta": min(0.5, several * privacy.lifetime.delta)}
    )
    joint = privacy.model_copy(update={"domain": f"{privacy.domain}.joint", "lifetime": lifetime})
    with running(plan.model_copy(update={"privacy": joint}), home) as run:
        key = SigningKey.of(run.stores.vault).public.raw.hex()
        if key != homes.lead_key:
            raise WrongInput(f"homes.lead must be led from the home with the key {homes.lead_key}; this one's is {key}")
        leading = Leading(run, encode(run, run.plan, run.files("public")), post, plan_digest(plan), without)
        others, _ = questions_in(post, plan)
        if any(other.content.run != leading.id for other in others.values()):
            raise NotVerified("the exchange holds questions of another run: each has a folder, and a home of its lead")
        led = [session.kind.only(kinds.Joint).run for session in run.stores.ledger.sessions(joint.domain)]
        paid = replace(run, new_session=leading.id not in led)  # by the homes
        try:
            summary = shown(replace(leading, run=paid).go_on())
        except Missing as waiting:
            return {"published": False, "round": waiting.number, "missing": waiting.homes, "refused": waiting.refused}
        return {"published": True, "missing": [], "refused": {}, **summary.model_dump(mode="json")}


def status(plan: Plan, exchange: str) -> dict[str, Any]:
    """The answers of each home, by the signed files of the exchange; no home folder is needed."""
    homes, post, rounds = homes_of(plan), Exchange(exchange), list[dict[str, Any]]()
    before, (questions, others) = dict[str, tuple[int, str]](), questions_in(post, plan)
    terms, digest = terms_of(plan), plan_digest(plan)
    for number, letter in sorted(questions.items()):
        asked = letter.content
        joint, agreed = Joint.of(asked.mechanism, homes.a_person_in), agreed_in(plan, asked.run, digest)
        ask = JointAsk(joint, asked.codes.digest, (), agreed, asked.mechanism)
        kind, unit = kinds.Kind.of(ask.settings()).only(kinds.Joint), (terms["unit"], terms["neighbours"])
        found, refused = accepted(post, homes, letter, before)
        heard, unfit = publishable(found, letter, kind, unit)
        missing = [name for name in homes.names if name not in heard]
        rounds.append({"round": number, "answered": [*heard], "missing": missing, "refused": refused | unfit})
        before |= last_of(heard)
    return {"plan": digest, "lead": homes.lead, "rounds": rounds, "refused": others}

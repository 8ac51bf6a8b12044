"""The flow of `concord lead`: several homes are asked, round after round, and a student learns from the sum of their
shares.

    question ─ shares of the homes, checked ─ added ─┃ release ─ the next question … infer ─ study ─ certify

There is no private row in it. It is safe in cron: each call does what can be done now, and says who is missing; a
killed one is finished by the next.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.domains import Domain
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.signing import SigningKey
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref, canonical_json
from concord.artifacts.sections import HomesPlan
from concord.artifacts.sessions import Session
from concord.flows.admit import admit, begin
from concord.flows.cache import Files
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, Counted, PrivateFiles, running
from concord.flows.stage import Disclosure, pass_door
from concord.flows.stages import encode
from concord.flows.steps import publish
from concord.flows.tally import BySums, planner_of
from concord.tasks.asks.joint import JointAsk, SharesOfRound, accepted, differing, release_joint, units_of
from concord.tasks.asks.share import (
    Answered,
    Asked,
    Letter,
    ModelRecord,
    check_public,
    homes_of,
    plan_digest,
    questions_in,
)
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.data.codes import deepens
from concord.tasks.data.exchange import Exchange
from concord.tasks.door.admit import planned_domain, terms_of
from concord.tasks.mechanisms.homes import Joint
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.verify.checks import checked
from concord.tasks.verify.homes import check_charge, check_share

NO_ROWS = PrivateFiles(Files("", ()), {})


@dataclass
class Missing(Exception):
    """Some homes have not answered the question of that number; of shares that were refused, why."""

    number: int
    homes: list[str]
    refused: dict[str, str]


class ByHomes(BySums):
    """Several homes are asked, round after round, and labels of public rows inferred from the sum of their shares."""

    each: Tallies
    joint: Joint
    digest: str = ""

    def ask(self, domain: Domain, session: Session | None = None) -> TalliesAsk:
        """What all homes together are asked, and claim."""
        asked, own_run = super().ask(domain, session), self.run.stores.vault.read(self._run_id()).decode()
        self.each, agreed = asked.mechanism, agreed_in(self.run.plan, own_run, self.digest)
        self.joint = Joint.of(asked.mechanism, homes_of(self.run.plan).a_person_in)
        return JointAsk(self.joint, asked.codes, asked.public, agreed, bounds=asked.bounds)

    def lead(self, post: Exchange, without: Sequence[str]) -> Summary:
        """Write the next question; or publish what follows from all of them. Raises Missing."""
        run = self.run
        self.rehearse()
        domain = planned_domain(run.stores, run.plan)
        (admitted,) = admit(run, domain, [self.ask(domain)], self.public)
        session = begin(run, admitted, NO_ROWS, Counted((), ()))
        passed = self._rounds(session, admitted, post, without)
        labelled = self._labelled(admitted, passed, planner_of(run, admitted, self._first, ()))
        student = self.fit(run, admitted, labelled, session.id)
        return publish(run, admitted, labelled, student, codes=self.codes)

    def _rounds(
        self, session: Session, admitted: Admitted[TalliesAsk], post: Exchange, without: Sequence[str]
    ) -> Disclosure:
        """All rounds, added and published, or replayed. Raises Missing."""
        run, self._first = self.run, self._codes
        planner, stores = planner_of(run, admitted, self._first, ()), self.run.stores
        files, rounds, published = list[Ref](), list[SharesOfRound](), list[dict[str, Any]]()
        asked_now, passed = 0, Disclosure(session, [], 0, datetime.now(UTC))
        while len(files) < len(self.each.rounds):
            asked, letter = self._question(session, admitted, published, rounds)
            post.write(f"question-{asked.number}", letter.data)
            of = self._shares(session, asked, letter, post, rounds, without)
            so_far = [*rounds, of]
            units = {name: units_of(name, so_far) for name in (rounds or so_far)[0].shares}
            part = sum(units[name] for name in of.shares) / sum(units.values())
            scaled = self.joint.scaled(len(of.shares))
            follow = partial(replace(planner, mechanism=scaled).follow, list(published), asked.question, part=part)
            differ = [] if deepens(asked.codes) else differing(of, units, planner.rows)
            scale = scaled.rounds[asked.number].scale
            added = partial(release_joint, of=of, scale=scale, part=part, differ=differ, follow=follow)
            passed = pass_door(run, passed.session, added)
            files, rounds, asked_now = [*files, *passed.released], so_far, asked_now + passed.asked_now
            published.append(json.loads(stores.released.read(files[-1])))
        stores.released.restamp(files)
        return replace(passed, released=files, asked_now=asked_now)

    def _question(
        self,
        session: Session,
        admitted: Admitted[TalliesAsk],
        published: Sequence[dict[str, Any]],
        rounds: Sequence[SharesOfRound],
    ) -> tuple[Asked, Letter]:
        """The next question, made and signed once."""
        vault, number = self.run.stores.vault, len(rounds)
        planner, homes = planner_of(self.run, admitted, self._first, ()), homes_of(self.run.plan)
        key = SigningKey.of(vault)

        def made() -> bytes:
            question, codes = planner.question(published), planner.codes_after(published)
            content = Asked(
                run=vault.read(self._run_id()).decode(),
                number=number,
                plan=self.digest,
                homes=homes,
                before=rounds[-1].letter.digest if rounds else "",
                shares=tuple({name: own.digest for name, (_, own) in each.shares.items()} for each in rounds),
                mechanism=self.each,
                encoding=self.public.encoding,
                codes=codes,
                fields=question.fields,
                model=None if question.model is None else ModelRecord(**question.model.record()),
            )
            return Letter.signed(content, key).data

        letter = Letter(vault.read(vault.keep(f"sessions/{session.id}/question-{number:05d}.json", made)))
        return letter.read(Asked, key.public.raw.hex()), letter

    def _shares(
        self,
        session: Session,
        asked: Asked,
        letter: Letter,
        post: Exchange,
        rounds: Sequence[SharesOfRound],
        without: Sequence[str],
    ) -> SharesOfRound:
        """The shares that a question is decoded with: once they are on record, no others. Raises Missing."""
        stores, homes = self.run.stores, homes_of(self.run.plan)
        path = f"sessions/{session.id}/shares-{asked.number:05d}.json"
        kept = stores.vault.take(path)
        if kept is None:
            taking = [name for name in (rounds[-1].shares if rounds else homes.names) if name not in without]
            before = {name: own.digest for name, (_, own) in rounds[-1].shares.items()} if rounds else {}
            domain = stores.ledger.domain_of(session)
            unit = domain.unit, domain.neighbours
            heard, refused = fitting(post, homes, asked, letter, before, session.mechanism, unit)
            if missing := [name for name in taking if name not in heard]:
                raise Missing(asked.number, missing, {name: why for name, why in refused.items() if name in missing})
            if not taking:
                raise WrongInput("--without must leave a home whose rows are learned from")
            found = canonical_json({name: heard[name].data.decode() for name in taking})
            kept = stores.vault.keep(path, found.encode), found.encode()
        shares = {name: Letter(text.encode()) for name, text in json.loads(stores.vault.read(kept[0])).items()}
        read = {name: (own.read(Answered, homes.key_of(name)), own) for name, own in shares.items()}
        return SharesOfRound(asked, letter, read)

    def _run_id(self) -> Ref:
        return self.run.stores.vault.keep(f"homes/{self.digest}/run", lambda: secrets.token_hex(16).encode())


def agreed_in(plan: Plan, run: str, digest: str) -> dict[str, Any]:
    """What the homes of a run agreed on, to whose plan they know the digest."""
    homes, claim = homes_of(plan), {"epsilon": plan.privacy.epsilon, "delta": plan.privacy.delta}
    said = homes.model_dump(mode="json", include={"names", "public_keys", "people"})
    return {"run": run, "plan": digest, **said, "lead": homes.lead_key, "claim": claim}


def fitting(
    post: Exchange,
    homes: HomesPlan,
    asked: Asked,
    letter: Letter,
    before: Mapping[str, str],
    settings: Mapping[str, Any],
    unit: tuple[str, str],
) -> tuple[dict[str, Letter], dict[str, str]]:
    """The shares that answer a question and with which what is published would verify, by home; and why others are
    refused.

    before          the digests of the homes' shares of the round before
    settings, unit  of all homes together; the unit with its neighbours
    """

    def verified(name: str, own: Letter) -> str:
        share = json.loads(own.read(Answered, homes.key_of(name)).model_dump_json())
        follows = {"question_before": asked.before, "share_before": before.get(name, "")}
        check_share(asked.number, name, share, settings, unit, {"question": letter.digest, **follows})
        check_charge(name, share, settings)
        return ""

    heard, refused = accepted(post, homes, asked, letter, before)
    found = [checked(name, partial(verified, name, own)) for name, own in heard.items()]
    unfit = {check.name: check.detail for check in found if not check.ok}
    return {name: own for name, own in heard.items() if name not in unfit}, {**refused, **unfit}


@flow(name="lead", flow_run_name="lead {plan.privacy.domain}")
def lead(plan: Plan, home: Path, exchange: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """Write the next question to all homes; or, once the last is answered, publish the classifier that follows.

    exchange   the folder or address through which homes and lead speak
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
        way = ByHomes(run, encode(run, run.plan, run.files("public")))
        way.digest = plan_digest(plan)
        others, _ = questions_in(post, plan)
        own_run = run.stores.vault.read(way._run_id()).decode()
        if any(asked.run != own_run for asked, _ in others.values()):
            raise NotVerified("the exchange holds questions of another run: each has a folder, and a home of its lead")
        led = run.stores.ledger.sessions(joint.domain)
        way.run = replace(run, new_session=all(each.mechanism["run"] != own_run for each in led))  # the homes pay
        try:
            summary = shown(way.lead(post, without))
        except Missing as waiting:
            return {"published": False, "round": waiting.number, "missing": waiting.homes, "refused": waiting.refused}
        return {"published": True, "missing": [], "refused": {}, **summary.model_dump(mode="json")}


def status(plan: Plan, exchange: str) -> dict[str, Any]:
    """Who has answered what, by the signed files of the exchange; no home is needed."""
    homes, post, rounds = homes_of(plan), Exchange(exchange), list[dict[str, Any]]()
    before, (questions, others) = dict[str, str](), questions_in(post, plan)
    terms, digest = terms_of(plan), plan_digest(plan)
    for number, (asked, letter) in sorted(questions.items()):
        joint, agreed = Joint.of(asked.mechanism, homes.a_person_in), agreed_in(plan, asked.run, digest)
        settings = JointAsk(joint, asked.codes.digest, (), agreed).settings()
        unit = terms["unit"], terms["neighbours"]
        heard, refused = fitting(post, homes, asked, letter, before, settings, unit)
        missing = [name for name in homes.names if name not in heard]
        rounds.append({"round": number, "answered": [*heard], "missing": missing, "refused": refused})
        before = {name: own.digest for name, own in heard.items()}
    return {"plan": digest, "lead": homes.lead, "rounds": rounds, "refused": others}

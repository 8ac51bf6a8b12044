"""Which session a plan means, and whether it may be opened: asked before anything private is read.

A plan goes on with the session of its domain that has its identity: the digest of all the public settings on which
teachers and door depend. Opening a further session is never implicit.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from concord import __version__
from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.parts import EVERY, LEARNING, Division
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.artifacts.sessions import NEIGHBOURS, Opening, Session
from concord.artifacts.vulnerabilities import opening_version
from concord.tasks.asking.relabel import candidates, relabelling
from concord.tasks.data.encode import PublicBatch
from concord.tasks.data.parts import division_of
from concord.tasks.data.snapshots import reading_of
from concord.tasks.door.checkpoint import check_given_back, commitment, session_key
from concord.tasks.door.release import Stores
from concord.tasks.mechanisms.mechanism import Mechanism, calibrate
from concord.tasks.mechanisms.relabelled import calibrate_relabelled


class Charged(Protocol):
    """What a session can be opened for: public settings and what they cost. See
    `tasks.mechanisms.mechanism.Mechanism`.
    """

    @property
    def cost(self) -> Cost: ...

    @property
    def cutoff(self) -> int | None: ...

    @property
    def queries(self) -> int | None: ...

    @property
    def per_refusal(self) -> Cost | None: ...

    def settings(self) -> dict[str, Any]: ...


class AnsweredOnce(Charged, Protocol):
    """What one answer ends (`tasks.mechanisms.mechanism.Once`), at a claim of (ε, 0)."""

    @property
    def epsilon(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A session that a plan asks for.

    mechanism       what runs in it
    identity        keyed digest of the settings it depends on
    epsilon, delta  its claim
    teachers        how many vote; 0 if nothing is voted on
    rounds          what each row costs that is an answer by itself, at settings fixed beforehand; else empty
    part            of the domain's units that it reads, if the plan divides them
    """

    plan: Plan
    mechanism: Charged
    identity: str
    epsilon: float
    delta: float
    teachers: int
    part: str = LEARNING
    rounds: tuple[Cost, ...] = ()

    @classmethod
    def labels(cls, plan: Plan, mechanism: Mechanism, identity: str) -> "Asked":
        """The session in which teachers' votes become labels."""
        return cls(
            plan=plan,
            mechanism=mechanism,
            identity=identity,
            epsilon=plan.epsilon_of_labels,
            delta=plan.privacy.delta,
            teachers=plan.teachers.count,
        )

    @classmethod
    def once(
        cls,
        plan: Plan,
        question: AnsweredOnce,
        encoding: Encoding,
        vault: Vault,
        depends: Mapping[str, Any],
        *,
        teachers: int = 0,
        delta: float = 0.0,
        part: str = LEARNING,
    ) -> "Asked":
        """The session whose one answer ends it; `depends` is what it depends on beside data and encoding, as JSON."""
        who = known_by(vault, plan, encoding, depends)
        epsilon = question.epsilon
        return cls(
            plan=plan, mechanism=question, identity=who, epsilon=epsilon, delta=delta, teachers=teachers, part=part
        )

    def opening(
        self, division: Division | None, name: str = "asked for", commitment: str = "", ensemble: str = ""
    ) -> Opening:
        """What the ledger is asked to open; without name and digests, only whether it would.

        division   how the plan divides its domain's units, if it does (tasks.data.parts)
        """
        return Opening(
            id=name,
            domain=self.plan.privacy.domain,
            identity=self.identity,
            commitment=commitment,
            ensemble=ensemble,
            data_version=self.plan.data.version,
            mechanism=self.mechanism.settings(),
            epsilon=self.epsilon,
            delta=self.delta,
            cutoff=self.mechanism.cutoff,
            queries=self.mechanism.queries,
            teachers=self.teachers,
            version=__version__,
            part=EVERY if division is None else self.part,
            division="" if division is None else division.commitment,
            whole=self.mechanism.cost,
            per_refusal=self.mechanism.per_refusal,
            rounds=self.rounds,
        )


def calibrated(plan: Plan, encoding: Encoding, public: Sequence[PublicBatch], order: float, vault: Vault) -> Mechanism:
    """The plan's mechanism for its own staged public rows, its cost finite at the domain's order. Raises WrongInput."""
    made = partial(_calibrated, plan, sum(batch.rows for batch in public), order)
    budget = {"epsilon": plan.epsilon_of_labels, "delta": plan.privacy.delta}
    space = candidates(plan, encoding, public, vault)
    if space is None:
        return made(**budget)
    return calibrate_relabelled(relabelling(plan, space, encoding), make=made, **budget)


def _calibrated(plan: Plan, rows: int, order: float, epsilon: float, delta: float) -> Mechanism:
    labeling = plan.labeling
    return calibrate(
        labeling.mechanism,
        epsilon=epsilon,
        delta=delta,
        cutoff=labeling.cutoff,
        teachers=plan.teachers.count,
        queries=labeling.most_asked(rows),
        classes=len(plan.data.classes),
        order=order,
        accountant=labeling.accountant,
    )


def as_opened(plan: Plan, session: Session) -> Plan:
    """The plan of a session that is gone on with, naming what it was opened for if it was left to advice then: another
    version may advise otherwise."""
    if not plan.undecided:
        return plan
    return plan.naming(str(session.mechanism["name"]), session.cutoff)


def session_identity(
    vault: Vault, plan: Plan, mechanism: Mechanism, encoding: Encoding, public: Sequence[PublicBatch]
) -> str:
    """Keyed digest of the settings a session depends on; `public` are the staged rows the plan names."""
    ends = {"cutoff": mechanism.cutoff, "queries": mechanism.queries}
    settings: dict[str, Any] = {
        "privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True),
        "teachers": plan.teachers.model_dump(include={"count", "estimator", "params"}),
        "labeling": {"mechanism": mechanism.name, "batch": plan.labeling.batch, **ends},
        "public": [batch.ref.digest for batch in public],
    }
    if plan.labeling.accountant != "renyi":
        settings["labeling"]["accountant"] = plan.labeling.accountant
    if plan.student.learner == "universal" and plan.student.epsilon is not None:
        settings["choice"] = plan.student.epsilon
    if plan.relabel is not None:
        settings["relabel"] = mechanism.settings()["relabel"]
    if plan.data.public_share is not None:
        settings["public_share"] = plan.data.public_share
    return known_by(vault, plan, encoding, settings)


def known_by(vault: Vault, plan: Plan, encoding: Encoding, depends: Mapping[str, Any]) -> str:
    """Keyed digest of the plan's data, its encoding, and whatever else a session depends on, as JSON."""
    data: dict[str, Any] = {"classes": plan.data.classes, "label": plan.data.label, "version": plan.data.version}
    if plan.test is not None:
        data["test"] = plan.test.model_dump()
    return vault.digest("identity", canonical_json({"data": data, "encoding": encoding.digest, **depends}))


def going_on(door: Stores, asked: Asked, *, new_session: bool) -> Session | None:
    """The latest session of that identity, if there is one. If a further one was asked for, that is one without a row,
    in which something can still be drawn.

    Raises BudgetRefused if that session was forgotten and a further one was not asked for, NotVerified if nothing more
    can be drawn in it.
    """
    domain = asked.plan.privacy.domain
    same = [session for session in door.ledger.sessions(domain) if session.identity == asked.identity]
    gone = {remark.about for remark in door.ledger.remarks(domain) if remark.kind == "forgotten"}
    forgotten = bool(same) and same[-1].id in gone
    if not same or (new_session and (same[-1].batches or same[-1].ended or not runs(same[-1], asked.mechanism))):
        return None
    if forgotten:
        raise BudgetRefused(
            f"session {same[-1].id} was forgotten, so nothing more can be drawn in it: another one, which costs again, "
            "must be asked for with --new-session"
        )
    check_going_on(door.vault, same[-1], asked.mechanism)
    return same[-1]


def claim(door: Stores, plan: Plan, private: Sequence[str]) -> None:
    """Put on the record that the plan's domain, named here if it is new, holds the private files of those digests.

    Whole files are told again, by their bytes, in one vault: the same rows in another order, file or format are not.
    Raises WrongInput if a domain that it is not linked to holds one.
    """
    _name(door, plan)
    door.ledger.hold(plan.privacy.domain, private, reading_of(plan.data.private))


def reserve_session(door: Stores, asked: Asked, made_of: Sequence[str], *, new_session: bool) -> Session:
    """Reserve a session's whole cost and open it, with a key of its own; its domain is named with it, if it is new.

    made_of   what the session's answers follow from on the private side, as `ensemble` digests it
    Raises BudgetRefused.
    """
    plan = asked.plan
    division = _name(door, plan)
    name = f"{plan.privacy.domain}-{secrets.token_hex(4)}"
    door.vault.secret(f"sessions/{name}")
    opening = asked.opening(division, name, commitment(door.vault, name), ensemble(door.vault, name, made_of))
    return door.ledger.open_session(opening, further=new_session)


def _name(door: Stores, plan: Plan) -> Division | None:
    """Put the plan's domain on the record, if it is new, and how its units are divided, if they are."""
    door.ledger.name_domain(plan.privacy.domain, plan.privacy.lifetime.filter, **_terms(plan))
    division = division_of(plan, door.vault)
    if division is not None:
        door.ledger.divide(plan.privacy.domain, division)
    return division


def training(plan: Plan, shards: Sequence[Ref]) -> tuple[str, ...]:
    """What teachers follow from: how they are trained, and the shards."""
    learner = plan.teachers.model_dump(include={"count", "estimator", "params"})
    return canonical_json(learner), *(shard.digest for shard in shards)


def ensemble(vault: Vault, session: str, made_of: Sequence[str]) -> str:
    """Keyed digest of what the session's answers follow from: of the shards and how teachers are trained on them."""
    return keyed_digest(derive(session_key(vault, session), "digests"), "ensemble", *made_of)


def check_ensemble(vault: Vault, session: Session, made_of: Sequence[str]) -> None:
    """Raise NotVerified if the private data is not what the session was opened with."""
    if ensemble(vault, session.id, made_of) != session.ensemble:
        raise NotVerified(
            f"the private data of session {session.id} changed while [data] version stayed {session.data_version!r}; "
            "give the new data a new version and ask for --new-session"
        )


def planned_domain(door: Stores, plan: Plan) -> Domain:
    """The plan's domain, named in the ledger or not yet. Raises WrongInput if the two differ, NotVerified if the
    ledger is not the one that this vault went on with.
    """
    _check_history(door)
    division = division_of(plan, door.vault)
    if division is not None:
        door.ledger.check_division(plan.privacy.domain, division)
    return door.ledger.plan_domain(plan.privacy.domain, plan.privacy.lifetime.filter, **_terms(plan))


def _check_history(door: Stores) -> None:
    kept = {path.parent.name for path in (door.vault.root / "sessions").glob("*/recipe.json")}
    sessions = [session for domain in door.ledger.domains() for session in door.ledger.sessions(domain.name)]
    check_given_back(door.vault, sessions)
    known = {session.id for session in sessions}
    if kept - known and not door.ledger.restored:
        raise NotVerified(
            f"the vault holds session {min(kept - known)}, which the ledger does not: an older copy of the ledger was "
            "put back, or CONCORD_LEDGER names another; put its own in its place, or begin a new home and a new domain"
        )


def _terms(plan: Plan) -> dict[str, Any]:
    lifetime, secret = plan.privacy.lifetime, plan.privacy.secret
    unit = "one row" if plan.data.unit is None else f"all rows of one {plan.data.unit}"
    return {
        "unit": unit if secret == "rows" else f"the labels of {unit}",
        "neighbours": NEIGHBOURS[secret],
        "epsilon": lifetime.epsilon,
        "delta": lifetime.delta,
    }


def runs(session: Session, mechanism: Charged) -> bool:
    """Whether the session was opened with that very mechanism: its table or scales are what the session is certified
    for."""
    return canonical_json(mechanism.settings()) == canonical_json(session.mechanism)


def check_going_on(vault: Vault, session: Session, mechanism: Charged) -> None:
    """Raise NotVerified if the session's key is gone, or if it runs another mechanism than this one."""
    session_key(vault, session.id)
    if not runs(session, mechanism):
        raise NotVerified(
            f"version {opening_version(session)} of concord opened session {session.id} with another table or scale "
            f"for {session.mechanism.get('name')!r} than version {__version__} would take, so nothing more can be "
            "drawn in it: what it released stays valid; --new-session opens another, which costs again, and "
            f"`concord close {session.id}` ends it"
        )

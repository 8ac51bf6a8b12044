"""Find the session that a plan continues, or open a new one; both happen before anything private is read.

A plan continues the session of its domain that has its identity: the digest of all public settings on which teachers
and door depend. A further session is never opened implicitly.
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
    """The part of a mechanism that opening a session needs: public settings and their cost. See
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
    """A mechanism with a single answer (`tasks.mechanisms.mechanism.Once`) and a claim of (ε, 0)."""

    @property
    def epsilon(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A session that a plan asks for.

    mechanism       the mechanism that answers in it
    identity        keyed digest of the settings it depends on
    epsilon, delta  its claim
    teachers        number of teachers that vote; 0 if none do
    rounds          cost of each round, if every row is an answer with settings fixed in advance; otherwise empty
    part            part of the domain's units that it reads, if the plan divides them
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
        """The session that ends with its only answer; `depends` has its settings besides data and encoding, as JSON."""
        who = known_by(vault, plan, encoding, depends)
        epsilon = question.epsilon
        return cls(
            plan=plan, mechanism=question, identity=who, epsilon=epsilon, delta=delta, teachers=teachers, part=part
        )

    def opening(
        self, division: Division | None, name: str = "asked for", commitment: str = "", ensemble: str = ""
    ) -> Opening:
        """The request to the ledger; without name and digests it only serves to ask whether the ledger would open it.

        division   the plan's division of its domain's units into parts, if it has one (tasks.data.parts)
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
    """The plan's mechanism for its staged public rows, its cost finite at the domain's `order`. Raises WrongInput."""
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
    """The plan of a session that is continued. A mechanism left to advice is replaced by the one the session was opened
    with, since another version may advise otherwise."""
    if not plan.undecided:
        return plan
    return plan.naming(str(session.mechanism["name"]), session.cutoff)


def session_identity(
    vault: Vault, plan: Plan, mechanism: Mechanism, encoding: Encoding, public: Sequence[PublicBatch]
) -> str:
    """Keyed digest of the settings that a session depends on; `public` has the staged rows of the plan."""
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
    """Keyed digest of the plan's data, its encoding, and the other settings of a session, `depends`, as JSON."""
    data: dict[str, Any] = {"classes": plan.data.classes, "label": plan.data.label, "version": plan.data.version}
    if plan.test is not None:
        data["test"] = plan.test.model_dump()
    return vault.digest("identity", canonical_json({"data": data, "encoding": encoding.digest, **depends}))


def going_on(door: Stores, asked: Asked, *, new_session: bool) -> Session | None:
    """The latest session with the identity of `asked`, or None. With `new_session`, only one that has no row yet and
    can still draw.

    Raises BudgetRefused if that session was forgotten and `new_session` is false, NotVerified if nothing more can be
    drawn in it.
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
    """Record that the plan's domain, which is added if it is new, holds the private files with these digests.

    Files are recognised by content within one vault, but not the same rows in another order, file or format. Raises
    WrongInput if a domain that this one is not linked to holds one of them.
    """
    _name(door, plan)
    door.ledger.hold(plan.privacy.domain, private, reading_of(plan.data.private))


def reserve_session(door: Stores, asked: Asked, made_of: Sequence[str], *, new_session: bool) -> Session:
    """Reserve a session's whole cost and open it, with a key of its own; add its domain to the ledger if it is new.

    made_of   private inputs of the session's answers, as `ensemble` digests them
    Raises BudgetRefused.
    """
    plan = asked.plan
    division = _name(door, plan)
    name = f"{plan.privacy.domain}-{secrets.token_hex(4)}"
    door.vault.secret(f"sessions/{name}")
    opening = asked.opening(division, name, commitment(door.vault, name), ensemble(door.vault, name, made_of))
    return door.ledger.open_session(opening, further=new_session)


def _name(door: Stores, plan: Plan) -> Division | None:
    """Record the plan's domain, if it is new, and the division of its units, if there is one; return the division."""
    door.ledger.name_domain(plan.privacy.domain, plan.privacy.lifetime.filter, **_terms(plan))
    division = division_of(plan, door.vault)
    if division is not None:
        door.ledger.divide(plan.privacy.domain, division)
    return division


def training(plan: Plan, shards: Sequence[Ref]) -> tuple[str, ...]:
    """Inputs of the teachers: their training settings, and the digests of the shards."""
    learner = plan.teachers.model_dump(include={"count", "estimator", "params"})
    return canonical_json(learner), *(shard.digest for shard in shards)


def ensemble(vault: Vault, session: str, made_of: Sequence[str]) -> str:
    """Keyed digest of the private inputs of a session's answers, such as those of `training`."""
    return keyed_digest(derive(session_key(vault, session), "digests"), "ensemble", *made_of)


def check_ensemble(vault: Vault, session: Session, made_of: Sequence[str]) -> None:
    """Raise NotVerified if the private data has changed since the session was opened."""
    if ensemble(vault, session.id, made_of) != session.ensemble:
        raise NotVerified(
            f"the private data of session {session.id} changed while [data] version stayed {session.data_version!r}; "
            "give the new data a new version and ask for --new-session"
        )


def planned_domain(door: Stores, plan: Plan) -> Domain:
    """The plan's domain, whether or not the ledger has it yet. Raises WrongInput if plan and ledger differ, NotVerified
    if the ledger is not the one that belongs to this vault.
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
    """Whether the session was opened with exactly this mechanism, table and scales included."""
    return canonical_json(mechanism.settings()) == canonical_json(session.mechanism)


def check_going_on(vault: Vault, session: Session, mechanism: Charged) -> None:
    """Raise NotVerified if the session's key is gone, or if the session was opened with another mechanism."""
    session_key(vault, session.id)
    if not runs(session, mechanism):
        raise NotVerified(
            f"version {opening_version(session)} of concord opened session {session.id} with another table or scale "
            f"for {session.mechanism.get('name')!r} than version {__version__} would take, so nothing more can be "
            "drawn in it: what it released stays valid; --new-session opens another, which costs again, and "
            f"`concord close {session.id}` ends it"
        )

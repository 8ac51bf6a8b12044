"""Which session a plan means, and whether it may be opened: asked before anything private is read.

A plan goes on with the session of its domain that has its identity: the digest of all the public settings on which
teachers and door depend. Opening a further session is never implicit.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from artifacts.encoding import Encoding
from artifacts.errors import NotVerified
from artifacts.plan import Plan
from artifacts.schemas import Ref
from artifacts.sessions import Domain, Opening, Session
from artifacts.vault import Vault, derive, keyed_digest
from tasks.agreement import expected_agreement
from tasks.encode import PublicBatch
from tasks.mechanisms.catalogue import calibrate
from tasks.mechanisms.planning import choose
from tasks.mechanisms.voting import Mechanism
from tasks.randomness import commitment, session_key
from tasks.release import Door

NEIGHBOURS = "add or remove one unit"


def calibrated(plan: Plan, rows: int, order: float) -> Mechanism:
    """The plan's mechanism for that many public rows, its cost finite at the domain's order. Raises WrongInput."""
    labeling = plan.labeling
    stream: dict[str, Any] = {
        "epsilon": plan.privacy.epsilon,
        "delta": plan.privacy.delta,
        "teachers": plan.teachers.count,
        "queries": labeling.queries or rows,
        "classes": len(plan.data.classes),
        "order": order,
    }
    if labeling.mechanism == "auto":
        name, cutoff = choose(**stream, cutoff=labeling.cutoff, agreement=expected_agreement(plan))
        return calibrate(name, cutoff=cutoff, **stream)
    return calibrate(labeling.mechanism, cutoff=labeling.cutoff, **stream)


def identity(vault: Vault, plan: Plan, mechanism: Mechanism, encoding: Encoding, public: Sequence[PublicBatch]) -> str:
    """Keyed digest of the settings a session depends on; `public` are the staged rows the plan names."""
    ends = {"cutoff": mechanism.cutoff, "queries": mechanism.queries}
    settings = {
        "data": {"classes": plan.data.classes, "label": plan.data.label, "version": plan.data.version},
        "privacy": plan.privacy.model_dump(exclude={"lifetime"}),
        "teachers": plan.teachers.model_dump(include={"count", "estimator", "params"}),
        "labeling": {"mechanism": mechanism.name, "batch": plan.labeling.batch, **ends},
        "encoding": encoding.digest,
        "public": [batch.ref.digest for batch in public],
    }
    return vault.digest("identity", canonical(settings))


def admit(door: Door, plan: Plan, mechanism: Mechanism, who: str, *, new_session: bool) -> Session | None:
    """The session this plan goes on with, or None where one may be opened. Spends nothing.

    Raises BudgetRefused where a further session was not asked for, or the domain cannot pay for it, saying what it
    would cost; WrongInput where the plan contradicts the domain.
    """
    domain = planned_domain(door, plan)
    sessions = door.ledger.sessions(domain.name)
    same = [session for session in sessions if session.identity == who]
    if same and not (new_session and same[-1].batches):
        check_going_on(door.vault, same[-1], mechanism)
        return same[-1]
    door.ledger.check_opening(_opening(plan, mechanism, who, name="asked for"), domain, further=new_session)
    return None


def open_session(
    door: Door, plan: Plan, mechanism: Mechanism, who: str, shards: Sequence[Ref], *, new_session: bool
) -> Session:
    """Reserve a session's whole cost and open it, with a key of its own; its domain is named with it, if it is new.

    Raises BudgetRefused.
    """
    door.ledger.name_domain(plan.privacy.domain, **_terms(plan))
    name = f"{plan.privacy.domain}-{secrets.token_hex(4)}"
    door.vault.secret(f"sessions/{name}")
    opening = replace(
        _opening(plan, mechanism, who, name),
        commitment=commitment(door.vault, name),
        ensemble=ensemble(door.vault, name, plan, shards),
    )
    return door.ledger.open_session(opening, further=new_session)


def _opening(plan: Plan, mechanism: Mechanism, who: str, name: str) -> Opening:
    return Opening(
        id=name,
        domain=plan.privacy.domain,
        identity=who,
        commitment="",
        ensemble="",
        data_version=plan.data.version,
        mechanism=mechanism.settings(),
        epsilon=plan.privacy.epsilon,
        delta=plan.privacy.delta,
        cutoff=mechanism.cutoff,
        queries=mechanism.queries,
        teachers=plan.teachers.count,
        whole=mechanism.cost,
        per_refusal=mechanism.per_refusal,
    )


def ensemble(vault: Vault, session: str, plan: Plan, shards: Sequence[Ref]) -> str:
    """Keyed digest of the shards and of how teachers are trained on them."""
    key = derive(session_key(vault, session), "digests")
    training = plan.teachers.model_dump(include={"count", "estimator", "params"})
    return keyed_digest(key, "ensemble", canonical(training), *(shard.digest for shard in shards))


def check_ensemble(vault: Vault, session: Session, plan: Plan, shards: Sequence[Ref]) -> None:
    """Raise NotVerified where the shards are not those the session was opened with."""
    if ensemble(vault, session.id, plan, shards) != session.ensemble:
        raise NotVerified(
            f"the private data of session {session.id} changed while [data] version stayed {session.data_version!r}; "
            "give the new data a new version and ask for --new-session"
        )


def planned_domain(door: Door, plan: Plan) -> Domain:
    """The plan's domain, named in the ledger or not yet. Raises WrongInput where the two differ."""
    return door.ledger.plan_domain(plan.privacy.domain, **_terms(plan))


def _terms(plan: Plan) -> dict[str, Any]:
    lifetime = plan.privacy.lifetime
    return {
        "unit": "one row" if plan.data.unit is None else f"all rows of one {plan.data.unit}",
        "neighbours": NEIGHBOURS,
        "epsilon": lifetime.epsilon,
        "delta": lifetime.delta,
    }


def spent(door: Door, domain: Domain) -> tuple[float, float]:
    """The (ε, δ) the domain is charged so far, by the ledger's rule."""
    return domain.filter.spent(door.ledger.total(domain.name))


def canonical(value: Any) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def check_going_on(vault: Vault, session: Session, mechanism: Mechanism) -> None:
    """Raise NotVerified where the session's key is gone, or it runs another mechanism than this one."""
    session_key(vault, session.id)
    if canonical(mechanism.settings()) != canonical(session.mechanism):
        raise NotVerified(
            f"session {session.id} runs {session.mechanism.get('name')} with a table or scale that this version of "
            "concord does not calibrate to; go on with the version that opened it"
        )

"""Find the session that a plan continues, or open a new one; both happen before anything private is read.

A plan continues the session of its domain that has its identity: the digest of all public settings on which teachers
and door depend. A further session is never opened implicitly. Calibration is done in floating point, whose last bits
depend on the processor, so a session goes on with the numbers on record, once the second implementation has proved
their cost. Checked by tests/promises/test_other_processor.py
"""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from concord import __version__
from concord.artifacts.domains import NEIGHBOURS, Domain, amount
from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.parts import EVERY, LEARNING
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import UP
from concord.artifacts.schemas import Encoding, canonical_json
from concord.artifacts.sessions import Opening, Session
from concord.artifacts.stores import Stores
from concord.tasks.door.ask import Ask
from concord.tasks.door.keys import record_secret
from concord.tasks.door.randomness import commitment, session_key
from concord.tasks.mechanisms.catalogue import recorded
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.units.parts import division_of
from concord.tasks.units.units import names_held, unit_of
from concord.tasks.verify.recompute import SLACK, charge, least_delta, read_settings

Asking = TypeVar("Asking", bound=Ask[Any])


def opening_of(stores: Stores, plan: Plan, ask: Ask[Any], encoding: Encoding) -> Opening:
    """The session in which a plan asks that, as the ledger opens it; it has no name and no key yet.

    Its claim, its cost and its end are those of the settings that will be on record, whatever calibrated them. Raises
    NotVerified if these cost more than they claim, or protect less than the plan's privacy unit.
    """
    division, settings = division_of(plan, stores.vault), ask.settings()
    mechanism: Any = recorded(json.loads(canonical_json(settings)))
    _check_price(mechanism, plan)
    return Opening(
        id="asked for",
        domain=plan.privacy.domain,
        purpose=ask.purpose,
        identity=_identity(stores.vault, plan, encoding.identity, ask.depends(plan)),
        commitment="",
        ensemble="",
        data_version=plan.data.version,
        mechanism=settings,
        epsilon=mechanism.epsilon,
        delta=mechanism.delta,
        cutoff=mechanism.cutoff,
        queries=mechanism.queries,
        teachers=ask.teachers,
        version=__version__,
        part=EVERY if division is None else ask.part,
        division="" if division is None else division.commitment,
        stream=ask.stream if isinstance(mechanism, Stream) else "",
        whole=mechanism.cost,
        per_refusal=mechanism.per_refusal,
    )


def _check_price(mechanism: Any, plan: Plan) -> None:
    secret, many = plan.privacy.secret, plan.data.unit is not None
    is_of_unit = getattr(mechanism, "secret", secret) == secret
    is_of_unit = is_of_unit and (secret == "rows" or getattr(mechanism, "many", many) >= many)
    if not is_of_unit or mechanism.cost.epsilon(mechanism.delta) > mechanism.epsilon * UP**2:
        raise NotVerified(
            f"a session of {mechanism.name!r} would cost more than its claim "
            f"{amount(mechanism.epsilon, mechanism.delta)}, or protect less than the plan's privacy unit: nothing was "
            "opened. This is a fault of Concord: please report it"
        )


def _identity(vault: Vault, plan: Plan, encoding: str, depends: Mapping[str, Any]) -> str:
    """Keyed digest of the plan's data, the digest of its encoding, and a session's other settings, `depends`."""
    data: dict[str, Any] = {"classes": plan.data.classes, "label": plan.data.label, "version": plan.data.version}
    if plan.data.bounds is not None:
        data["bounds"] = plan.data.bounds
    if plan.test is not None:
        data["test"] = plan.test.model_dump()
    return vault.digest("identity", canonical_json({"data": data, "encoding": encoding, **depends}))


def sessions_for(stores: Stores, plan: Plan, ask: Ask[Any], encoding: Encoding) -> list[Session]:
    """The sessions of a plan with this ask, of any stream, oldest first."""

    def is_same(session: Session) -> bool:
        depends = ask.as_recorded(session.mechanism).depends(plan)
        return session.identity == _identity(stores.vault, plan, encoding.identity, depends)

    return [*filter(is_same, stores.ledger.sessions(plan.privacy.domain))]


def find_session(
    stores: Stores, plan: Plan, ask: Asking, encoding: Encoding, *, new_session: bool
) -> tuple[Session | None, Asking]:
    """The latest session that a plan opened for this ask, with the recorded ask; None if it opened no such session.

    Sessions of another stream do not count, since that stream asked other units. A session that is charged and not
    published comes first; with `new_session` no other one counts.

    Raises BudgetRefused if that session was forgotten and `new_session` is false, NotVerified if nothing more can be
    drawn in it.
    """
    same = [session for session in sessions_for(stores, plan, ask, encoding) if session.stream == ask.stream]
    if not same:
        return None, ask
    unpublished = stores.unpublished
    can_go_on = (other for other in same if _is_same(other, ask.as_recorded(other.mechanism).settings()))
    unfinished = [other for other in can_go_on if other.id in unpublished]
    if new_session and not unfinished:
        return None, ask
    last = (unfinished or same)[-1]
    if last.id in stores.ledger.forgotten(plan.privacy.domain):
        raise BudgetRefused(
            f"session {last.id} was forgotten, so nothing more can be drawn in it: another one, which costs again, "
            "must be asked for with --new-session"
        )
    return last, on_record(stores, last, ask)


def claim(stores: Stores, plan: Plan, files: Iterable[str]) -> None:
    """Record that the plan's domain, which is added if it is new, holds the private files at these places.

    A file is recognised by its real path or address within one vault, never by its content: a copy elsewhere is another
    file. Raises WrongInput if another domain holds one of them.
    """
    _name(stores, plan)
    stores.ledger.hold(plan.privacy.domain, names_held(stores.vault, files))


def reserve_session(
    stores: Stores, plan: Plan, ask: Ask[Any], encoding: Encoding, private_digests: Sequence[str], *, new_session: bool
) -> Session:
    """Reserve the whole cost of a session of a plan and open it, with a key of its own; name its domain if it is new.

    private_digests   private inputs of the session's answers, as `ensemble` digests them
    Raises BudgetRefused, and NotVerified as `opening_of`.
    """
    opening = opening_of(stores, plan, ask, encoding)
    _name(stores, plan)
    name = f"{plan.privacy.domain}-{secrets.token_hex(4)}"
    stores.vault.make_secret(f"sessions/{name}")
    teachers = ensemble(stores.vault, name, private_digests)
    opening = replace(opening, id=name, commitment=commitment(stores.vault, name), ensemble=teachers)
    return stores.ledger.open_session(opening, further=new_session)


def _name(stores: Stores, plan: Plan) -> None:
    """Record the plan's domain, if it is new, its secret, and the division of its units, if there is one."""
    stores.ledger.name_domain(plan.privacy.domain, **terms_of(plan))
    record_secret(stores, plan.privacy.domain)
    division = division_of(plan, stores.vault)
    if division is not None:
        stores.ledger.divide(plan.privacy.domain, division)


def ensemble(vault: Vault, session: str, private_digests: Sequence[str]) -> str:
    """Keyed digest of the private inputs of a session's answers, such as those of `training`."""
    return keyed_digest(derive(session_key(vault, session), "digests"), "ensemble", *private_digests)


def check_ensemble(stores: Stores, session: Session | None, private_digests: Sequence[str]) -> None:
    """Raise NotVerified if the private data has changed since the session was opened, if there is one."""
    if session is not None and ensemble(stores.vault, session.id, private_digests) != session.ensemble:
        what = "the private data, or teachers.block," if session.teachers else "the private data"
        raise NotVerified(
            f"{what} of session {session.id} changed while [data] version stayed {session.data_version!r}: restore it, "
            f"give new data a new version and ask for --new-session, or end the session by `concord close {session.id}`"
        )


def planned_domain(stores: Stores, plan: Plan) -> Domain:
    """The plan's domain, whether or not the ledger has it yet. Raises WrongInput if plan and ledger differ."""
    division = division_of(plan, stores.vault)
    if division is not None:
        stores.ledger.check_division(plan.privacy.domain, division)
    return stores.ledger.plan_domain(plan.privacy.domain, **terms_of(plan))


def is_clean(stores: Stores, plan: Plan, learned: Session) -> bool:
    """Whether a session learned from no unit of the test part: it named the learning part of the same division."""
    division = division_of(plan, stores.vault)
    return division is not None and (learned.part, learned.division) == (LEARNING, division.commitment)


def terms_of(plan: Plan) -> dict[str, Any]:
    """What a domain promises that the plan names: unit, neighbours and cap."""
    lifetime = plan.privacy.lifetime
    return {
        "unit": unit_of(plan),
        "neighbours": NEIGHBOURS[plan.privacy.secret],
        "epsilon": lifetime.epsilon,
        "delta": lifetime.delta,
    }


def _is_same(session: Session, settings: Mapping[str, Any]) -> bool:
    """Whether the session was opened with exactly these settings, table and scales included."""
    return canonical_json(settings) == canonical_json(session.mechanism)


def on_record(stores: Stores, session: Session, ask: Asking) -> Asking:
    """The ask of a session that goes on, with the numbers that it was opened with.

    Raises NotVerified if the session's key is gone, if the session was opened for something else, or if the numbers on
    record do not prove what was claimed and charged.
    """
    session_key(stores.vault, session.id)
    if _is_same(session, ask.settings()):
        return ask
    recorded = ask.as_recorded(session.mechanism)
    if not _is_same(session, recorded.settings()):
        raise NotVerified(
            f"version {session.version} of concord opened session {session.id} with another table or scale "
            f"for {session.facts.name!r} than version {__version__} would take, so nothing more can be "
            "drawn in it: what it released stays valid; --new-session opens another, which costs again, and "
            f"`concord close {session.id}` ends it"
        )
    _check_cost(stores, session)
    return recorded


def _check_cost(stores: Stores, session: Session) -> None:
    """Raise NotVerified unless the settings on record prove the session's claim, at no more than its reservation."""
    rule, reserved = stores.ledger.domain_of(session).filter, session.reserved
    settings = read_settings(session.mechanism)
    nats, delta = charge(settings, rule.order)
    paid = float(reserved.renyi), float(reserved.delta)
    proved = least_delta(settings, session.epsilon)
    if not (proved <= session.delta * SLACK and nats <= paid[0] * SLACK and delta <= paid[1] * SLACK):
        raise NotVerified(
            f"the settings on record of session {session.id} do not prove its guarantee at its charge, so nothing more "
            f"is drawn in it: restore the newer copy of the ledger, or end it by `concord close {session.id}`"
        )

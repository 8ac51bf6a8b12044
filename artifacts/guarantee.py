"""The guarantee of a session, the charge to its domain, and what the guarantee does not promise.

A guarantee is an (ε, δ) with its privacy unit and neighbouring relation. This file also has the charges of a domain
over its life, as certificate and report show them, and the caveats in plain words.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import Field

from concord.artifacts.domains import NEIGHBOURS, Domain, amount
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.parts import EVERY, PARTS, Counted, by_part, largest, paid
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Budget, CertificatePart
from concord.artifacts.sessions import Session, Status


class Guarantee(Budget):
    """The session's claim, at its cutoff or last row.

    unit         whose data one unit is
    neighbours   which pairs of tables the claim compares
    replace_one  what it implies where one unit is replaced by another: two steps, (2ε, (1 + e^ε)·δ); None if only
                 labels are secret, and nobody is added, removed or replaced
    """

    unit: str
    neighbours: str
    replace_one: Budget | None

    @classmethod
    def at(cls, epsilon: float, delta: float, unit: str, neighbours: str) -> Self:
        """The claim (epsilon, delta) for those units and neighbours."""
        twice = Budget(epsilon=2 * epsilon, delta=min(1.0, (1 + _exp(epsilon)) * delta))
        return cls(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            neighbours=neighbours,
            replace_one=None if neighbours == NEIGHBOURS["labels"] else twice,
        )

    @property
    def labels_only(self) -> bool:
        """Whether labels alone are protected."""
        return self.neighbours == NEIGHBOURS["labels"]

    @property
    def in_words(self) -> str:
        """The claim in a line."""
        return self.among(None)

    def among(self, units: int | None) -> str:
        """The claim in a line; beside δ the number of private units by which to judge it, if that is stated."""
        stated = "" if units is None else f" (about {units:,} private units)"
        return f"{super().in_words}{stated} for {self.unit}"

    def shown(self, units: int | None = None) -> dict[str, Any]:
        """The claim as JSON, with the number of private units if it is stated, and in words."""
        return {**self.model_dump(), "units": units, "in_words": self.among(units)}

    @property
    def meaning(self) -> str:
        """The claim in a sentence for everyone."""
        act = "changing" if self.labels_only else "leaving out"
        rare = f", except in cases whose probability is at most δ = {self.delta:g}" if self.delta else ""
        return (
            f"Whatever anyone concludes from the publication, {act} {self.unit} changes the odds of that conclusion by "
            f"a factor of at most {self.factor:.4g} (e^ε){rare}."
        )

    @property
    def unprotected(self) -> str:
        """What of the records is not protected, in a sentence; empty if all of a unit's rows are."""
        return LABELS_ALONE if self.labels_only else ""

    @property
    def factor(self) -> float:
        """e^ε: the largest factor by which one unit changes the odds of any conclusion, up to δ."""
        return _exp(self.epsilon)

    def most_found(self, wrong: float) -> float:
        """The largest true-positive rate of any test of membership at the false-positive rate `wrong` (Wasserman & Zhou
        2010; Kairouz, Oh & Viswanath 2015)."""
        return min(1.0, self.factor * wrong + self.delta, 1 - max(0.0, 1 - self.delta - wrong) / self.factor)


def guarantee_of_labels(session: Session, domain: Domain) -> dict[str, str]:
    """The guarantee of a session's labels, for the metadata of their tables."""
    return {
        "session": session.id,
        "epsilon": repr(session.epsilon),
        "delta": repr(session.delta),
        "unit": domain.unit,
        "neighbours": domain.neighbours,
        "mechanism": session.facts.name,
    }


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))


class SessionCharge(Budget):
    """One session of a domain: its own claim, and the share of the domain's lifetime budget it is charged.

    status   open (charged its whole reservation), spent or closed
    part     the only part of the domain's units in which it counts; empty: it counts in each
    stream   its stream, whose largest season alone counts; empty if it is a season of none
    """

    session: str
    mechanism: str
    share: float
    status: Status
    part: str = EVERY
    stream: str = ""

    @classmethod
    def of(cls, session: Session, domain: Domain, counted: Counted) -> Self:
        """The charge of a session in that domain, and where it counts."""
        return cls(
            epsilon=session.epsilon,
            delta=session.delta,
            session=session.id,
            mechanism=session.facts.name,
            share=domain.filter.share(session.charge),
            status=session.status,
            part=counted.part,
            stream=counted.stream,
        )


class DomainCharge(CertificatePart):
    """What the domain may spend over its lifetime, what is charged to it, and what is left: by the ledger's rule.

    filter    how charges add up: by Rényi divergence (artifacts.domains)
    order     the Rényi order at which they do, frozen when the domain was named
    charges   its sessions in order
    parts     what each part of a divided domain's units is charged (artifacts.parts); `spent` is the most of any
    """

    name: str
    sessions: int
    filter: Literal["renyi"] = "renyi"
    order: float
    cap: Budget
    spent: Budget
    remaining: Budget
    charges: tuple[SessionCharge, ...]
    parts: dict[str, Budget] = Field(default={})

    @property
    def used(self) -> float:
        """The share of the budget that is charged: that of the part which is charged most."""
        return max(shared(self.charges, part) for part in PARTS)

    @classmethod
    def of(cls, domain: Domain, ledger: Reading) -> Self:
        """The charges of a domain for each of its sessions, by `ledger`."""
        sessions, counted = ledger.sessions(domain.name), ledger.counted(domain.name)
        totals, divided = by_part(counted), ledger.division(domain.name) is not None
        cap, (epsilon, delta) = domain.filter, domain.filter.spent(largest(totals))
        return cls(
            name=domain.name,
            sessions=len(sessions),
            order=cap.order,
            charges=tuple(SessionCharge.of(session, domain, of) for session, of in zip(sessions, counted, strict=True)),
            parts={part: _budget(cap.spent(total)) for part, total in totals.items()} if divided else {},
            cap=Budget(epsilon=cap.epsilon, delta=cap.delta),
            spent=Budget(epsilon=epsilon, delta=delta),
            remaining=Budget(epsilon=max(0.0, cap.epsilon - epsilon), delta=max(0.0, cap.delta - delta)),
        )


def shared(charges: Iterable[SessionCharge], part: str) -> float:
    """The share of the domain's budget that these charges take of a unit of that part, at most."""
    touching = [(charge.stream, charge.share) for charge in charges if charge.part in (part, EVERY)]
    return math.fsum(paid(touching, max))


def change(ledger: Reading, domain: str, before: Mapping[str, Charge]) -> tuple[Charge, Charge, Charge]:
    """The domain's charge before and after sessions changed, whose earlier charges are given, without the sessions
    opened after the last of these, so that charges of sessions at once add up to the domain's; and its whole charge."""
    sessions, counted = ledger.sessions(domain), ledger.counted(domain)
    last = max((at for at, session in enumerate(sessions) if session.id in before), default=len(sessions))
    after = counted[: last + 1]
    earlier = [
        charged._replace(charge=before.get(session.id, charged.charge))
        for session, charged in zip(sessions, after, strict=False)
    ]
    return largest(by_part(earlier)), largest(by_part(after)), largest(by_part(counted))


def _budget(pair: tuple[float, float]) -> Budget:
    return Budget(epsilon=pair[0], delta=pair[1])


def lifetime_in_words(share: float, used: float, more: int | None) -> str:
    """A sentence on a session's share of the domain's lifetime privacy budget.

    share   taken by the session; negative if some was returned
    used    taken by all sessions, including this one
    more    how many more such sessions fit; None if it was charged nothing
    """
    if more is None:
        charged = f"{-share:.1%} of the lifetime budget returned" if share < 0 else "nothing charged"
        return f"{charged}; {used:.1%} used in total"
    total = f"; {used:.1%} used in total" if used > share else ""
    room = f"room for {more:,} more such session{'s' * (more > 1)}" if more else "no further such session fits"
    return f"{share:.1%} of the lifetime budget{total}; {room}"


def later_rows_in_words(
    *, queries: int | None, cutoff: int | None, asked: float, refused: float, ended: bool = False
) -> str:
    """A sentence on how many more rows a session of votes can answer.

    queries, cutoff   the rows asked and the refusals at which it ends; None if it does not end by them
    asked, refused    rows asked and refused so far, or expected
    """
    if ended or (queries is not None and asked >= queries) or (cutoff is not None and refused >= cutoff):
        wider = "larger `queries` would pay for some" if cutoff is None else "a larger cutoff would leave room for some"
        return f"none can be labelled, because the session ends with these rows; {wider}"
    most = "any number" if queries is None else f"{queries - asked:,.0f}"
    until = "" if cutoff is None else f", until {cutoff - refused:,.0f} more rows are refused"
    return f"{most} can still be labelled by `concord extend`{until}"


def season_in_words(session: Session) -> str:
    """A sentence on how far a session's season is; empty if it has none."""
    if (season := session.facts.season) is None:
        return ""
    if session.asked < season and not session.ended:
        return f"release {session.asked} of {season}"
    then = (
        "the next release begins another, of units that arrive from then on" if session.stream else "no release follows"
    )
    return f"release {session.asked} of {season}: the season has ended, and {then}"


def unasked_in_words(session: str, rows: int) -> str:
    """A sentence on public rows that a session was given and that it ended before, naming the next step."""
    return (
        f"session {session} has ended, and {rows:,} public row{'s have' if rows != 1 else ' has'} no label: open a "
        "further session, which costs again, by `concord run PLAN --new-session`, then `concord extend` as before"
    )


NO_LATER_ROWS = "no session is needed, because `concord predict` labels them at no charge"
"""Used in place of `later_rows_in_words` for tallies and for a universal student."""

CAVEATS = (
    "The guarantee is computational in one respect: secret draws come from a pseudo-random function keyed with 256 "
    "bits from the operating system (AES-256 in counter mode, HKDF-SHA256), or from OpenDP's generator.",
    "The guarantee covers what is published: certificate, report, released labels, student and MLflow's records. It "
    "does not cover what the holder of the private data sees, what the machine's console shows, or running times of "
    "private work.",
    "It bounds what can be learned because someone's rows were used. It does not prevent conclusions about a person "
    "that would be the same if their rows had been left out.",
    "Concord cannot detect by itself that the whole home folder was restored from a backup. Answers given since the "
    "backup would then be charged a second time, and neither charge would count the other.",
)
LABELS_ALONE = (
    "Labels alone are protected. The features of the records, and who is among them, are not protected: they are "
    "treated as public, and may be learned from what is published."
)
"""The caveat of a session whose plan says that only labels are secret."""

RELABELLED = (
    "The guarantee relies on two secrets: a subset of the records, and a hypothesis chosen on that subset, which is "
    "not private by itself. The session was charged whole when it was opened, and nothing returns to the budget. No "
    "further relabelled session can be opened in its domain."
)
"""The caveat of a session whose rows were relabelled."""

RESTORED = (
    "The home folder once went on from a backup, for a reason on its record. What was released and charged after that "
    "backup was made is not counted."
)
"""The caveat of a domain that went on from an older copy."""

PRECHECKED = (
    "Before anything is charged, the operator sees the share, rounded, of the private rows that have no declared "
    "class, no unit or no known category. A plan that is changed because of such a share was chosen by looking at "
    "private rows, and leaks more than ε covers. The program decides nothing by it, unless the plan has "
    "data.most_unknown: then no session is opened if a larger share of the cells of any column is unknown. One row may "
    "tip that decision. So the existence of a certificate may reveal something about it, which ε does not "
    "cover either."
)
"""The caveat of every session: what its operator did after the pre-check is not on record."""


def cap_in_words(domain: Domain, epsilon: float, delta: float) -> str:
    """A sentence saying that the cap on record holds and not a plan's (epsilon, delta); empty if they agree."""
    cap = domain.filter.epsilon, domain.filter.delta
    if cap == (epsilon, delta):
        return ""
    return (
        f"the cap of domain {domain.name!r} is {amount(*cap)}, set by `concord domain`; privacy.lifetime in the "
        f"plan, {amount(epsilon, delta)}, does not apply"
    )

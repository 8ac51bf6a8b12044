"""Membership: what an attacker gains who decides, from all that was published, whether the records contain a unit.

A session that is (ε, δ(ε))-differentially private at every ε lets a test with a share x of false positives reach at
most min over ε of e^ε·x + δ(ε) true positives, and as few misses the other way round: its trade-off curve (Wasserman &
Zhou 2010; Kairouz, Oh & Viswanath 2015; Dong, Roth & Su 2022). One claimed pair alone would allow more: of ε = 1, up to
2.7 % true positives at 1 % false ones, where Gaussian noise allows 2 %.

Assumes      the settings on record ran, and prove what the certificate claims (tasks.verify)
Guarantees   no test passes `most_found`: a few ε are tried, each δ is rounded up, and several sessions compose as in
             the certificate (artifacts.records.promised). It follows from the certificate alone
Not covered  what an attacker knew before; what is as true of a unit whose rows were left out. Checked by
             tests/tasks/publish/test_membership.py, against the law of Gaussian noise
"""

from collections.abc import Sequence

from concord.artifacts.certificate import Certificate
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.records import SessionRecord, promised
from concord.artifacts.schemas import Budget
from concord.tasks.asks.kinds import delta_of

EPSILONS = 16
"""Number of ε below the claimed one at which δ is computed, from 0 on in equal steps."""


def guarantees_of(certificate: Certificate) -> tuple[Guarantee, ...]:
    """Guarantees that hold at once: the claim, and others of less ε and more δ that the same settings prove."""
    claim, found = certificate.guarantee, [certificate.guarantee]
    for step in range(EPSILONS):
        pair = promised([_at(record, step / EPSILONS) for record in certificate.sessions])
        found.append(Guarantee.at(pair.epsilon, pair.delta, claim.unit, claim.neighbours))
    return tuple(found)


def most_found(guarantees: Sequence[Guarantee], wrong: float) -> float:
    """The largest share of true positives of a test with a share `wrong` of false ones, by guarantees that all hold."""
    return min(guarantee.most_found(wrong) for guarantee in guarantees)


def _at(record: SessionRecord, part: float) -> SessionRecord:
    """The record with what its settings prove at that part of its ε."""
    epsilon = part * record.guarantee.epsilon
    pair = Budget(epsilon=epsilon, delta=delta_of(record.mechanism.kind, epsilon))
    return record.model_copy(update={"guarantee": pair})

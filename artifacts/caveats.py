"""Caveats: what a certificate does not promise, in plain words."""

import math
from collections.abc import Iterable, Sequence

from artifacts.sessions import Domain

UNWITNESSED = (
    "If the whole home folder is put back to an older copy, that cannot be detected from within: answers given since "
    "would be paid for again, and neither charge knows of the other."
)
WITNESSED = (
    "A home folder put back to an older copy is found by a witness, a file kept outside it, and goes on only when what "
    "may have been spent since is charged; where the witness is gone, it stops. If the witness is put back together "
    "with the folder, that cannot be detected."
)
LOST_WITNESS = (
    "The home folder once went on, for a reason on its record, without knowing what its witness had seen, for that was "
    "lost. Had the folder been an older copy by then, what was spent after that copy would be counted nowhere."
)
CAVEATS = (
    "The guarantee is computational in one respect: secret draws come from a pseudo-random function keyed with 256 "
    "bits from the operating system (AES-256 in counter mode, HKDF-SHA256), or from OpenDP's generator.",
    "The guarantee covers what is published: certificate, report, released labels, student and MLflow's records. It "
    "does not cover who holds the private data, the machine's console, or running times of private work.",
    "It bounds what can be learned because someone's rows were used. It does not prevent learning about a person what "
    "would be just as true of them had their rows been left out.",
)
LABELS_ALONE = (
    "Labels alone are protected. Features of the records, and who is among them, are not: they were treated as public, "
    "and may be read off what is published. Nothing is promised about them."
)
"""The caveat of a session whose plan says that only labels are secret."""

RELABELLED = (
    "The guarantee rests on a subset of the records that stays secret, and on a hypothesis chosen on it that is not "
    "private and stays secret too. The session was charged whole when it was opened: nothing of it returns to the "
    "budget. No further relabelled session can be opened in its domain."
)
"""The caveat of a session whose rows were relabelled."""


def faulty_caveat(version: str, faults: Iterable[str]) -> str:
    """What is promised by a session that was opened by a version with known faults (artifacts.vulnerabilities)."""
    return (
        f"A session was opened by version {version} of Concord, and what is promised may not hold because of faults "
        f"that are known of it: {', '.join(faults)}. What each is, and when it does no harm, is in Concord's README, "
        "under “Changes to the guarantee”."
    )


def linked_caveat(domain: Domain, others: Sequence[Domain]) -> str:
    """What is promised to people who may be in several domains: by basic composition, the sum of their caps.

    Only where all of them protect the same: what is secret in one domain may be public in another.
    """
    names = ", ".join(other.name for other in others)
    linked = f"The domain {domain.name} is linked on the record to {names}: the same people may be in each. "
    if any((one.unit, one.neighbours) != (domain.unit, domain.neighbours) for one in others):
        return (
            f"{linked}They differ in unit or neighbours, so nothing is promised over the life of all of them together."
        )
    epsilon = math.fsum(one.filter.epsilon for one in (domain, *others))
    delta = math.fsum(one.filter.delta for one in (domain, *others))
    return (
        f"{linked}Over the life of all of them together they are promised the sum of the caps, ε = {epsilon:g}, "
        f"δ = {delta:g}, and no less."
    )

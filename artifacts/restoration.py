"""Going on from an older copy: what a witness saw a domain charged, and the entry that charges it again.

Checked by tests/test_witness.py.
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext

from artifacts.privacy import Charge
from artifacts.sessions import Domain


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A domain as a witness saw it: its terms, and everything settled and reserved in it."""

    domain: Domain
    charge: Charge


@dataclass(frozen=True, kw_only=True)
class Restoration:
    """A ledger that ended before what its witness saw goes on, every open session charged whole and closed.

    witnessed   the digest of the last entry the witness saw
    standings   every domain then: charged what the witness saw wherever that is more than the ledger's own
    """

    witnessed: str
    standings: tuple[Standing, ...]
    reason: str


def missing(witnessed: Charge, own: Charge) -> Charge:
    """What has to be added to `own` so that it is nowhere less than what was witnessed."""
    with localcontext(prec=80):
        return Charge(
            renyi=max(Decimal(0), witnessed.renyi - own.renyi), delta=max(Decimal(0), witnessed.delta - own.delta)
        )

"""The entries that concern a witness: that one sees the ledger, and how the ledger goes on where it does not agree.

Checked by tests/artifacts/test_witness.py.
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
    """A ledger without what its witness saw goes on, every open session charged whole and closed.

    witnessed   the digest of the last entry the witness saw
    standings   every domain then, and the least it is charged: what the witness saw and what was spent apart from it
    """

    witnessed: str
    standings: tuple[Standing, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Watch:
    """From here on a witness sees the ledger, or none does.

    Where one did already it is gone, and nobody knows what it saw: every open session is charged whole and closed.
    reason   how it was lost; empty for the first
    """

    witnessed: bool
    reason: str = ""


def missing(witnessed: Charge, own: Charge) -> Charge:
    """What has to be added to `own` so that it is nowhere less than what was witnessed."""
    with localcontext(prec=80):
        return Charge(
            renyi=max(Decimal(0), witnessed.renyi - own.renyi), delta=max(Decimal(0), witnessed.delta - own.delta)
        )

"""A domain's ledger in memory, its division into parts, and who is in which: for exact games over what it admits."""

from dataclasses import dataclass

import polars as pl

from tests.support import openings
from tests.world import EVERY, Cost, Division, Domain, Opening, Plan, Vault, derive, division_of, of_part

EPSILON, DELTA = 2.0, 0.01
DOMAIN = Domain.frozen("people", unit="u", neighbours="add or remove one unit", epsilon=EPSILON, delta=DELTA)
NAMES = [f"person {at}" for at in range(400)]


@dataclass(frozen=True)
class Kind:
    """A session: the part it names, the division that it was made by, and whose plan and home say who is in it."""

    part: str
    division: Division
    touches: frozenset[str]


def named() -> openings.InMemory:
    """A ledger that knows the domain."""
    book = openings.InMemory()
    book.name_domain(DOMAIN.name, unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, epsilon=EPSILON, delta=DELTA)
    return book


def opening(name: str, epsilon: float, kind: Kind | None = None, **changes: object) -> Opening:
    """A session of the domain that asks one question of that ε, of those whom a kind touches, or of all."""
    named = {"part": kind.part, "division": kind.division.commitment} if kind and kind.part else {}
    asks = {"domain": "people", "mechanism": {"name": "a question"}, "cutoff": None, "queries": 1, "teachers": 0}
    charged = {"epsilon": epsilon, "delta": 0.0, "whole": Cost.approximate(epsilon), "per_refusal": None}
    return openings.opening(name, **{**asks, **charged, **named, **changes})


def members(plan: Plan, vault: Vault, part: str) -> frozenset[str]:
    """Units in that part, by the plan in that home."""
    key, names = derive(vault.secret("domains/people"), "split"), pl.Series(NAMES).cast(pl.Binary)
    inside = of_part(plan, key, part)(pl.DataFrame({"person": NAMES}), names)
    return frozenset(pl.Series(NAMES).filter(inside))


def kind_of(plan: Plan, vault: Vault, part: str) -> Kind:
    division = division_of(plan, vault)
    assert division is not None
    touched = frozenset(NAMES) if part == EVERY else members(plan, vault, part)
    return Kind(part, division, touched)

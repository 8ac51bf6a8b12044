"""Repair: make public rows like the private ones, field by field, by released totals of the private rows' codes.

Public rows stand for private ones when tallies are decoded, so their codes must occur as often. In each field whose
totals clearly differ, rows of codes there are too many of are given codes there are too few of.

Which rows move is decided by a random order: its first rows move. With one order for all fields they come to stand for
people whom the public table leaves out, who differ in several fields at once: where public rows are women only,
those who become men also become the husbands and the married. With an order for each field, fields stay as independent
as they are. Which of the two is right, the decoder asks of the released sums: the repair that makes them likelier.

Assumes      the totals are released, the rows public: post-processing
Guarantees   a function of its arguments: the rows that move are drawn from a fixed seed, which protects nobody
Not covered  how fields go together among the rows that move, and between them and the fields that need no repair
Checked by tests/tasks/student/test_repair.py.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.tasks.data.codes import CodeMatrix, Codes, NumberField

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLEAR = 4.0
"""Standard deviations by which a total must differ."""
LEAST = 0.02
"""Share of the rows that a field must be off by."""
SEED = 20_261_122


@dataclass(frozen=True)
class Totals:
    """How many private units have each code: released, with noise of sd `noise`; and how many units there are."""

    by_field: tuple[Floats, ...]
    noise: float
    units: float
    units_noise: float


def repaired(rows: CodeMatrix, codes: Codes, totals: Totals, *, together: bool) -> tuple[CodeMatrix, float]:
    """The rows (m, F) with codes as often as `totals` says, and the share of cells that changed.

    `totals.by_field` are of the coarse fields, in order. `together`: one order of rows for all fields.
    """
    found, draw = rows.copy(), np.random.default_rng(SEED)
    order = draw.permutation(len(rows))
    moved = 0
    for coarse, fine, counted in zip(codes.coarse, codes.fine, totals.by_field, strict=True):
        own = rows[:, coarse].astype(np.int64) - codes.span(coarse).start
        wanted = _wanted(own, counted, totals)
        if wanted is None:
            continue
        which, to = _moves(own, wanted, order if together else draw.permutation(len(rows)), draw)
        found[which, coarse] = codes.span(coarse).start + to
        if fine != coarse:
            found[which, fine] = _fine(rows, codes, coarse, fine, to, draw)
        moved += len(which)
    return found, moved / (len(rows) * len(codes.coarse))


def _wanted(own: Ints, counted: Floats, totals: Totals) -> Floats | None:
    """How many of the rows should have each code; None where they may stay as they are."""
    share = np.bincount(own, minlength=len(counted)) / len(own)
    told = counted / totals.units
    variance = (totals.noise**2 + (told * totals.units_noise) ** 2) / totals.units**2 + share * (1 - share) / len(own)
    target = np.clip(told, 0, None)
    target /= target.sum() or 1.0
    if np.all(np.abs(told - share) <= CLEAR * np.sqrt(variance)) or np.abs(target - share).sum() / 2 < LEAST:
        return None
    wanted: Floats = target * len(own)
    return wanted


def _moves(own: Ints, wanted: Floats, order: Ints, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Which rows move, the first in `order`, and the code each of them gets."""
    surplus = np.rint(np.bincount(own, minlength=len(wanted)) - wanted).astype(np.int64)
    leaving = [order[own[order] == code][: max(0, more)] for code, more in enumerate(surplus)]
    which = draw.permutation(np.concatenate(leaving))
    to = draw.permutation(np.repeat(np.arange(len(wanted)), np.maximum(0, -surplus)))
    size = min(len(which), len(to))
    return which[:size], to[:size]


def _fine(rows: CodeMatrix, codes: Codes, coarse: int, fine: int, to: Ints, draw: np.random.Generator) -> Ints:
    """Codes of the fine view for rows that get codes `to` of the coarse one: those of other rows that have it."""
    own = rows[:, coarse].astype(np.int64) - codes.span(coarse).start
    found = np.empty(len(to), dtype=np.int64)
    for code in np.unique(to):
        donors = rows[own == code, fine]
        given = donors if len(donors) else [_within(codes, coarse, fine, int(code))]
        found[to == code] = draw.choice(given, size=int(np.sum(to == code)))
    return found


def _within(codes: Codes, coarse: int, fine: int, code: int) -> int:
    """A code of the fine view whose cells have that code of the coarse one."""
    wide, narrow = codes.fields[coarse], codes.fields[fine]
    if code == wide.size - 1 or not (isinstance(wide, NumberField) and isinstance(narrow, NumberField)):
        return narrow.start + narrow.size - 1
    first = wide.cuts[code - 1] if code else -np.inf
    return narrow.start + int(np.searchsorted(narrow.cuts, first, side="right"))
